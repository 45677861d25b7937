#!/bin/sh
# Makes the images of appliances/grub-xen, which the layers `appliance:grub-xen` and `appliance:grub-xen-pvh` start as domains
# of Xen's.
#
# GRUB's parts and the tool that joins them come from the machine's own apt sources by name. They are unpacked into a
# scratch directory, used once and removed: installed, they would change how this machine boots. The images are kept in
# surtax's cache and made again only when something of them has changed. It takes some seconds, and fetches 4 MB.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/appliances/grub-xen
cache=${SURTAX_CACHE_DIR:-/var/cache/surtax}/appliances
name=grub-xen
makes="grub-xen.elf grub-xen-pvh.elf"
stamp=grub-xen.inputs
made_of="setup/grub-xen.sh setup/steps.sh appliances/grub-xen/grub.cfg"
again=setup/grub-xen.sh
. "$root/setup/steps.sh"

# What it can do beside reading commands.
modules="normal memdisk tar echo read eval test true hashsum gcry_sha256 gcry_md5 cat cpuid hexdump ls regexp sleep halt reboot"

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

join() { # FORMAT OUT MORE-MODULES
    # shellcheck disable=SC2086  # one word per module
    quietly "join GRUB's parts" "$scratch/tree/usr/bin/grub-mkimage" -O "$1" -d "$scratch/tree/usr/lib/grub/$1" \
        -p '(memdisk)/' -m "$scratch/memdisk.tar" -c "$scratch/early.cfg" -o "$scratch/$2" $modules $3
}

make_images() {
    (cd "$source" && tar --owner=0 --group=0 --mtime=@0 -cf "$scratch/memdisk.tar" grub.cfg)
    echo 'normal (memdisk)/grub.cfg' >"$scratch/early.cfg"
    join x86_64-xen grub-xen.elf lsxen
    join i386-xen_pvh grub-xen-pvh.elf ""
}

begin "GRUB for Xen"
say "GRUB for Xen: fetching its parts (from apt, 4 MB; removed afterwards)"
fetch
make_images
keep "GRUB for Xen" "$scratch/grub-xen.elf" grub-xen.elf "$scratch/grub-xen-pvh.elf" grub-xen-pvh.elf
