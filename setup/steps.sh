# How a step of the scripts of this directory is told, carried out and given up. Each script sets `root` and `again`, the line
# that runs it, and then reads this file.
#
# A script that makes files for surtax's cache also sets `name`, its own; `cache`, the directory; `makes`, the files there;
# `stamp`, the file beside them with the hash of what they were made of; and `made_of`, the sources below `root`.
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

# The hash of what the files are made of.
inputs() {
    # shellcheck disable=SC2086,SC2154  # one word per file; the script sets it
    (cd "$root" && sha256sum $made_of) | sha256sum | cut -d' ' -f1
}

# Whether all of them are there, and made of that.
is_there() {
    # shellcheck disable=SC2154
    for file in $makes; do
        [ -f "$cache/$file" ] || return 1
    done
    [ "$(cat "$cache/$stamp" 2>/dev/null)" = "$(inputs)" ]
}

# Ends the script where they are there. Else it is ours alone to make them, in a scratch directory that goes with us.
begin() { # SHOWN
    if is_there; then
        say "$1: it is in $cache"
        exit 0
    fi
    work=${XDG_CACHE_HOME:-$HOME/.cache}/surtax
    mkdir -p "$work"
    # shellcheck disable=SC2154
    exec 9>"$work/$name.lock"
    flock 9
    if is_there; then exit 0; fi
    trap remove_scratch EXIT
    trap 'exit 130' INT TERM HUP
    scratch=$(mktemp -d "$work/$name.XXXXXX")
}

# Puts what was made into the cache. The hash comes last: without it nothing there counts.
keep() { # SHOWN, then FILE NAME for each
    shown=$1
    shift
    as_root mkdir -p "$cache"
    as_root rm -f "$cache/$stamp"
    while [ $# -gt 1 ]; do
        as_root cp "$1" "$cache/$2.part"
        as_root mv "$cache/$2.part" "$cache/$2"
        shift 2
    done
    inputs | as_root tee "$cache/$stamp" >/dev/null
    remove_scratch
    say "$shown: it is in $cache"
}
