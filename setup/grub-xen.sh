#!/bin/sh
# Makes the image of appliances/grub-xen, which the layer `appliance:grub-xen` starts as a domain of Xen's.
#
# GRUB's parts and the tool that joins them come from the machine's own apt sources by name. They are unpacked into a
# scratch directory, used once and removed: installed, they would change how this machine boots. The image is kept in
# surtax's cache and made again only when something of it has changed. It takes some seconds, and fetches 4 MB.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/appliances/grub-xen
cache=${SURTAX_CACHE_DIR:-/var/cache/surtax}/appliances
image=$cache/grub-xen.elf
work=${XDG_CACHE_HOME:-$HOME/.cache}/surtax
again=setup/grub-xen.sh
. "$root/setup/steps.sh"

# What it can do beside reading commands.
modules="normal memdisk tar echo read eval test true hashsum gcry_sha256 gcry_md5 cat cpuid hexdump lsxen ls regexp sleep halt reboot"

# What the image is made of.
inputs() {
    (cd "$root" && sha256sum setup/grub-xen.sh setup/steps.sh appliances/grub-xen/grub.cfg) | sha256sum | cut -d' ' -f1
}

is_there() {
    [ -f "$image" ] && [ "$(cat "$cache/grub-xen.inputs" 2>/dev/null)" = "$(inputs)" ]
}

fetch() {
    mkdir -p "$scratch/packages" "$scratch/tree"
    packages="grub-xen-bin grub-common"
    # shellcheck disable=SC2086  # one word per package
    if ! (cd "$scratch/packages" && apt-get -q -o APT::Sandbox::User= download $packages) >"$scratch/log" 2>&1; then
        quietly "read the package lists" as_root apt-get -q update
        # shellcheck disable=SC2086
        (cd "$scratch/packages" && quietly "fetch GRUB" apt-get -q -o APT::Sandbox::User= download $packages)
    fi
    for package in "$scratch"/packages/*.deb; do
        quietly "unpack ${package##*/}" dpkg-deb -x "$package" "$scratch/tree"
    done
}

make_image() {
    (cd "$source" && tar --owner=0 --group=0 --mtime=@0 -cf "$scratch/memdisk.tar" grub.cfg)
    echo 'normal (memdisk)/grub.cfg' >"$scratch/early.cfg"
    # shellcheck disable=SC2086  # one word per module
    quietly "join GRUB's parts" "$scratch/tree/usr/bin/grub-mkimage" -O x86_64-xen -d "$scratch/tree/usr/lib/grub/x86_64-xen" \
        -p '(memdisk)/' -m "$scratch/memdisk.tar" -c "$scratch/early.cfg" -o "$scratch/grub-xen.elf" $modules
    as_root mkdir -p "$cache"
    # The image last: it counts only with the hash of what it was made of.
    as_root rm -f "$cache/grub-xen.inputs"
    as_root cp "$scratch/grub-xen.elf" "$image.part"
    as_root mv "$image.part" "$image"
    inputs | as_root tee "$cache/grub-xen.inputs" >/dev/null
}

if is_there; then
    say "GRUB for Xen: $image is there"
    exit 0
fi
mkdir -p "$work"
exec 9>"$work/grub-xen.lock"
flock 9
if is_there; then exit 0; fi
trap remove_scratch EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d "$work/grub-xen.XXXXXX")
say "GRUB for Xen: fetching its parts (from apt, 4 MB; removed afterwards)"
fetch
make_image
remove_scratch
say "GRUB for Xen: $image is made"
