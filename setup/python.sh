# What the scripts share that try what surtax writes with other people's programs. Each sets `root` and `again`, and has read
# `steps.sh`.
# shellcheck shell=sh

# Finds the `target` directory and the `surtax` there, and makes a scratch directory that goes with the script.
begin_to_try() { # NAME
    # shellcheck disable=SC2154  # the script sets it
    target=$(cd "$root" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
    surtax=$target/release/surtax
    [ -x "$surtax" ] || fail "there is no surtax in $target/release" "make build"
    trap remove_scratch EXIT
    trap 'exit 130' INT TERM HUP
    scratch=$(mktemp -d "/var/tmp/surtax-$1.XXXXXX")
    # What Python compiles stays out of the sources.
    export PYTHONDONTWRITEBYTECODE=1
}

# Makes an environment of packages from PyPI, by name and version, unless it is there with what is on the list.
environment() { # PLACE LIST
    if cmp -s "$2" "$1/requirements.txt"; then return; fi
    rm -rf "$1"
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        quietly "list what Debian has" as_root apt-get update
        quietly "install python3-venv" as_root apt-get install -y --no-install-recommends python3-venv
    fi
    mkdir -p "$1"
    say "$(sed -n 's/==.*//p' "$2" | paste -sd' '), below $1 (a minute)"
    quietly "make an environment for Python" python3 -m venv "$1/python"
    quietly "install it" "$1/python/bin/pip" install --no-cache-dir --only-binary :all: -r "$2"
    cp "$2" "$1/requirements.txt"
}
