# How a step of the scripts of this directory is told, carried out and given up. Each script sets `root` and `again`, the line
# that runs it, and then reads this file.
# shellcheck shell=sh

# What the clean-up removes.
scratch=

say() { printf 'setup: %s\n' "$*" >&2; }

fail() { # WHAT HINT
    printf 'setup: error: %s\n  hint: %s\n' "$1" "$2" >&2
    exit 3
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root rights: $*" "run \`$again\` as root, or install sudo"
    fi
}

remove_scratch() {
    if [ -n "$scratch" ]; then rm -rf "$scratch"; fi
    scratch=
}

# Runs a command without the lock, which is descriptor 9, and shows its last lines only if it fails.
quietly() { # WHAT COMMAND…
    what=$1
    shift
    if ! "$@" >"$scratch/log" 2>&1 9>&-; then
        tail -n 20 "$scratch/log" | sed 's/^/    /' >&2
        fail "cannot $what: \`$*\` failed (above: its last lines)" "mend that, then run \`$again\` again"
    fi
}
