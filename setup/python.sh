# Python for the scripts that try what surtax writes with other people's programs: packages from PyPI by name and version,
# in an environment of their own. Each script that reads this file has read `steps.sh`, and has a `scratch` directory.
# shellcheck shell=sh

# Makes the environment unless it is there with what is on the list.
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
