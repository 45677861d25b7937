#!/bin/sh
# Runs a command with a Rust toolchain first in PATH that is recent enough for Cargo.toml.
#
# sudo drops ~/.cargo/bin from PATH, and Debian's newer Rust may stand beside an older one: so each
# usual place is asked for its version, and the first that suffices is taken.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
owner_home=
if [ -n "${SUDO_USER:-}" ]; then owner_home=$(getent passwd "$SUDO_USER" | cut -d: -f6); fi

suffices() { # DIRECTORY
    [ -x "$1/cargo" ] && [ -x "$1/rustc" ] || return 1
    have=$("$1/rustc" --version 2>/dev/null | cut -d' ' -f2)
    [ "$(printf '%s\n%s\n' "$have" "$wanted" | sort -V | head -n 1)" = "$wanted" ]
}

in_path=$(command -v cargo || true)
for place in "${in_path%/cargo}" "${CARGO_HOME:-$HOME/.cargo}/bin" "$owner_home/.cargo/bin" \
    /usr/local/cargo/bin /usr/local/bin /usr/bin; do
    if suffices "$place"; then
        PATH=$place:$PATH
        export PATH
        exec "$@"
    fi
done
printf 'error: no Rust %s or later was found\n  hint: run `make setup`\n' "$wanted" >&2
exit 3
