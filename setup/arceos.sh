#!/bin/sh
# Builds the ArceOS unikernel in appliances/arceos, which the layer `appliance:arceos` boots.
#
# Everything comes by name: its crates from crates.io as Cargo.lock pins them, and the compiler, its
# sources and the linker from the machine's own apt sources, because no released Rust has the bare-metal
# library that ArceOS wants to be built with. They are unpacked into a scratch directory, used once and
# removed. The image is kept in surtax's cache and built again only when something of it has changed.
# The first time takes two minutes on two cores, and fetches 250 MB.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/appliances/arceos
cache=${SURTAX_CACHE_DIR:-/var/cache/surtax}/appliances
name=arceos
makes=arceos.elf
stamp=arceos.inputs
made_of="setup/arceos.sh setup/steps.sh appliances/arceos/Cargo.toml appliances/arceos/Cargo.lock
    appliances/arceos/axconfig.toml appliances/arceos/src/*.rs"
again=setup/arceos.sh
. "$root/setup/steps.sh"

# The compiler's libraries carry versions in their names; apt knows which belong to it.
needed_by() { # PACKAGE PATTERN
    apt-cache depends "$1" 2>/dev/null | sed -n "s/^ *Depends: \($2\)\$/\1/p" | head -n 1
}

name_packages() {
    std=$(needed_by libstd-rust-web-dev 'libstd-rust-web-[0-9.]*')
    llvm=$(needed_by "${std:-none}" 'libllvm[0-9]*')
    llvm=${llvm#libllvm}
    packages="rustc-web rust-web-src libstd-rust-web-dev $std libllvm$llvm lld-$llvm"
    [ -n "$std" ] && [ -n "$llvm" ]
}

fetch_compiler() {
    mkdir -p "$scratch/packages" "$scratch/rust"
    if ! name_packages; then
        quietly "read the package lists" as_root apt-get -q update
        name_packages || fail "apt knows no \`rustc-web\`, the newer Rust of Debian 12" \
            "see that its sources name bookworm-security"
    fi
    # shellcheck disable=SC2086  # one word per package
    if ! (cd "$scratch/packages" && apt-get -q -o APT::Sandbox::User= download $packages) >"$scratch/log" 2>&1; then
        quietly "read the package lists" as_root apt-get -q update
        # shellcheck disable=SC2086
        (cd "$scratch/packages" && quietly "fetch the compiler" apt-get -q -o APT::Sandbox::User= download $packages)
    fi
    for package in "$scratch"/packages/*.deb; do
        # Of the sources only the library is needed, a tenth of them.
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$scratch/rust" --no-wildcards-match-slash --exclude='./usr/src/*/compiler' \
            --exclude='./usr/src/*/src' --exclude='./usr/src/*/tests' --exclude='./usr/share' ||
            fail "cannot unpack \`${package##*/}\`" "look for what is wrong with it, or with the disk's space"
    done
    rm -rf "$scratch/packages"
}

build() {
    target=$scratch/target
    script=$target/x86_64-unknown-none/release/linker_x86-pc.lds
    lld=$scratch/rust/usr/lib/llvm-$llvm/bin/ld.lld
    flags="-C linker=$lld -C linker-flavor=ld.lld -C link-arg=-T$script -C link-arg=-no-pie"
    flags="$flags -C link-arg=-znostart-stop-gc --remap-path-prefix=$scratch=/build"
    # The nightly parts of a released compiler: the library is built with the program.
    (cd "$source" && quietly "build the unikernel" "$root/setup/with-rust.sh" \
        env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS -u RUSTC_WRAPPER \
        LD_LIBRARY_PATH="$scratch/rust/usr/lib/x86_64-linux-gnu" RUSTC="$scratch/rust/usr/bin/rustc" \
        RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$target" \
        CARGO_TARGET_X86_64_UNKNOWN_NONE_RUSTFLAGS="$flags" AX_CONFIG_PATH="$source/axconfig.toml" \
        AX_IP=10.0.2.15 AX_GW=10.0.2.2 \
        cargo build --release --locked --target x86_64-unknown-none -Zbuild-std=core,alloc,compiler_builtins \
        -Zbuild-std-features=compiler-builtins-mem)
}

begin ArceOS
say "ArceOS: fetching a compiler for bare metal (from apt, 140 MB; removed afterwards)"
fetch_compiler
say "ArceOS: building the unikernel (two minutes on two cores)"
build
keep ArceOS "$scratch/target/x86_64-unknown-none/release/surtax-arceos" arceos.elf
