#!/bin/sh
# Packs a surtax that needs no library of the machine it is unpacked on: one archive below
# target/tarball with its completions and its manual, its checksum, and the list of all that it is
# built from (CycloneDX, by cargo-cyclonedx); and tries it in a directory with nothing else in it.
#
# The same commit makes the same archive, byte by byte. A static program loads no library later
# either: `krun` cannot start from it.
set -eu

cyclonedx_version=0.5.9
machine=x86_64-unknown-linux-gnu

root=$(cd "$(dirname "$0")/.." && pwd)
again="make tarball"
. "$root/setup/steps.sh"
cd "$root"
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
tool=$target/cargo-cyclonedx

trap remove_scratch EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d /var/tmp/surtax-tarball.XXXXXX)

if ! "$tool/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null | grep -qx "cargo-cyclonedx-cyclonedx $cyclonedx_version"; then
    say "building cargo-cyclonedx $cyclonedx_version (a minute)"
    quietly "build cargo-cyclonedx" setup/with-rust.sh cargo install cargo-cyclonedx --locked \
        --version "$cyclonedx_version" --force --root "$tool"
fi

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=surtax-$version-x86_64-linux
stage=$scratch/$name
say "surtax, without the machine's libraries (four minutes on two cores)"
# In a directory of its own: with other flags everything is built anew.
quietly "build surtax" env CARGO_TARGET_DIR="$target/static" RUSTFLAGS="-C target-feature=+crt-static" \
    setup/with-rust.sh cargo build --release --locked --target "$machine"
surtax=$target/static/$machine/release/surtax

# It writes beside each Cargo.toml that it reads, so it reads copies.
mkdir "$scratch/sources"
git archive HEAD | tar -x -C "$scratch/sources"
(cd "$scratch/sources" && PATH=$tool/bin:$PATH SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct) \
    quietly "list what it is built from" "$root/setup/with-rust.sh" cargo cyclonedx --format json \
        --spec-version 1.5 --target "$machine")

mkdir -p "$stage/bin" "$stage/completions" "$stage/man"
cp "$surtax" "$stage/bin/surtax"
for shell in bash zsh fish; do
    "$surtax" completions "$shell" >"$stage/completions/surtax.$shell"
done
"$surtax" man --directory "$stage/man"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$stage"
cp "$scratch/sources/surtax.cdx.json" "$stage"

out=$target/tarball
rm -rf "$out"
mkdir -p "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX-w \
    --mtime="@$(git log -1 --format=%ct)" -C "$scratch" -c "$name" | gzip -n9 >"$out/$name.tar.gz"
cp "$stage/surtax.cdx.json" "$out/$name.cdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >"$name.sha256")

# There is nothing in it but what was unpacked, and a run to be read.
(cd "$out" && sha256sum --quiet --check "$name.sha256")
mkdir -p "$scratch/empty/tmp"
tar -xzf "$out/$name.tar.gz" -C "$scratch/empty"
cp results/2026-11-22-epyc-vm-2cpu/tar-gzip.surtax "$scratch/empty/run.surtax"
tried() { # ARGUMENT…
    as_root chroot "$scratch/empty" "/$name/bin/surtax" "$@"
}
tried --version | grep -q "^surtax $version" || fail "it does not say its version in an empty directory" "mend that"
tried show /run.surtax --format json >"$scratch/answer.json" || fail "it reads no run in an empty directory" "mend that"
grep -q '"stack": "native"' "$scratch/answer.json" || fail "it finds no stack in a run" "mend that"
grep -q '"name": "rusqlite"' "$out/$name.cdx.json" || fail "the list of all that it is built from lacks rusqlite" "mend that"
say "the archive: $out/$name.tar.gz ($(du -h "$out/$name.tar.gz" | cut -f 1)), its checksum and its list beside it"
