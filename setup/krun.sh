#!/bin/sh
# Builds libkrun and a kernel for its guests, for the layer `krun` where no distribution's package has them.
#
# Everything comes by name: libkrun from crates.io as Cargo.lock pins it, the kernel from the distribution's
# linux-source, with the tools that building it takes. They are unpacked into a scratch directory, used once
# and removed. Both libraries are kept in surtax's cache, where the layer looks first, and built again only when
# something of them has changed. The first time takes ten minutes on two cores, and fetches 140 MB.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/appliances/krun
cache=${SURTAX_CACHE_DIR:-/var/cache/surtax}/krun
name=krun
makes="libkrun.so.1 libkrunfw.so.5"
stamp=inputs
made_of="setup/krun.sh setup/steps.sh appliances/krun/Cargo.toml appliances/krun/Cargo.lock
    appliances/krun/kernel.config appliances/krun/firmware.c appliances/krun/src/*.rs"
again=setup/krun.sh
. "$root/setup/steps.sh"

fetch_source() {
    mkdir -p "$scratch/packages" "$scratch/root"
    packages="linux-source-6.1 flex bison libfl2 m4 bc libelf-dev libelf1"
    # shellcheck disable=SC2086  # one word per package
    if ! (cd "$scratch/packages" && apt-get -q -o APT::Sandbox::User= download $packages) >"$scratch/log" 2>&1; then
        quietly "read the package lists" as_root apt-get -q update
        # shellcheck disable=SC2086
        (cd "$scratch/packages" && quietly "fetch the kernel's source" apt-get -q -o APT::Sandbox::User= download $packages)
    fi
    for package in "$scratch"/packages/*.deb; do
        dpkg-deb -x "$package" "$scratch/root" ||
            fail "cannot unpack \`${package##*/}\`" "look for what is wrong with it, or with the disk's space"
    done
    rm -rf "$scratch/packages"
    tar -x -C "$scratch" -f "$scratch/root/usr/src/linux-source-6.1.tar.xz"
    rm "$scratch/root/usr/src/linux-source-6.1.tar.xz"
}

in_the_source() {
    # The tools are not where they were made to be.
    (cd "$scratch/linux-source-6.1" && PATH="$scratch/root/usr/bin:$PATH" M4="$scratch/root/usr/bin/m4" \
        BISON_PKGDATADIR="$scratch/root/usr/share/bison" LD_LIBRARY_PATH="$scratch/root/usr/lib/x86_64-linux-gnu" \
        HOSTCFLAGS="-I$scratch/root/usr/include" HOSTLDFLAGS="-L$scratch/root/usr/lib/x86_64-linux-gnu" \
        KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=surtax KBUILD_BUILD_HOST=surtax "$@")
}

build_kernel() {
    quietly "configure the kernel" in_the_source make tinyconfig
    quietly "configure the kernel" in_the_source scripts/kconfig/merge_config.sh -m .config "$source/kernel.config"
    quietly "configure the kernel" in_the_source make olddefconfig
    missing=$(grep '=y$' "$source/kernel.config" | grep -vxF -f "$scratch/linux-source-6.1/.config" || true)
    [ -z "$missing" ] || fail "this kernel has not all that is asked of it: $missing" "bring appliances/krun/kernel.config up to date"
    quietly "build the kernel" in_the_source make -j"$(nproc)" vmlinux
    quietly "take the kernel out of its file" objcopy -O binary "$scratch/linux-source-6.1/vmlinux" "$scratch/kernel.bin"
    (cd "$scratch" && quietly "build libkrunfw" gcc -shared -fPIC -O2 -Wl,-soname,libkrunfw.so.5 -Wl,-z,noexecstack \
        -o libkrunfw.so.5 "$source/firmware.c")
}

build_library() {
    (cd "$source" && quietly "build libkrun" "$root/setup/with-rust.sh" \
        env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS -u RUSTC_WRAPPER CARGO_TARGET_DIR="$scratch/target" \
        RUSTFLAGS="-C link-arg=-Wl,-soname,libkrun.so.1" cargo build --release --locked)
}

begin libkrun
say "libkrun: building it (from crates.io, some minutes on two cores)"
build_library
say "libkrun: fetching the source of its guests' kernel (from apt, 140 MB; removed afterwards)"
fetch_source
say "libkrun: building the kernel (some minutes on two cores)"
build_kernel
keep libkrun "$scratch/libkrunfw.so.5" libkrunfw.so.5 "$scratch/target/release/libkrun.so" libkrun.so.1
