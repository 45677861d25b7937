#!/bin/sh
# Packs what `make install` installs into a Debian package below target/debian, and has lintian look
# at it. `Cargo.toml` says what is in it ([package.metadata.deb]).
#
# CARGO_TARGET_DIR says where the release binary is; `make deb` builds it first.
set -eu

cargo_deb_version=3.8.0

root=$(cd "$(dirname "$0")/.." && pwd)
again="make deb"
. "$root/setup/steps.sh"
cd "$root"
target=${CARGO_TARGET_DIR:-target}
tool=$target/cargo-deb
# Cargo.toml names it; only the binary's directory follows CARGO_TARGET_DIR.
stage=$root/target/package

trap remove_scratch EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d)

missing=
command -v dpkg-shlibdeps >/dev/null || missing="$missing dpkg-dev"
command -v lintian >/dev/null || missing="$missing lintian"
if [ -n "$missing" ]; then
    say "installing$missing"
    quietly "list what Debian has" as_root apt-get update
    # shellcheck disable=SC2086  # one word per package
    quietly "install$missing" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $missing
fi
if ! "$tool/bin/cargo-deb" --version 2>/dev/null | grep -qx "cargo-deb $cargo_deb_version"; then
    say "building cargo-deb $cargo_deb_version (a minute)"
    quietly "build cargo-deb" setup/with-rust.sh cargo install cargo-deb --locked \
        --version "$cargo_deb_version" --force --root "$tool"
fi

rm -rf "$stage" "$root/target/debian"
quietly "lay out what is packed" make install PREFIX= DESTDIR="$stage" AS_ROOT= CARGO=true
PATH=$(cd "$tool/bin" && pwd):$PATH
export PATH
quietly "pack it" setup/with-rust.sh cargo deb --no-build --no-strip --output "$root/target/debian/"
rm -rf "$stage"
lintian --allow-root --fail-on error,warning "$root"/target/debian/*.deb
say "the package: $(echo "$root"/target/debian/*.deb)"
