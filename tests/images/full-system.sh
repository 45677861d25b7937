#!/bin/sh
# full-system.sh: makes a disk image of a whole Debian, as clouds ship them, from the archive's packages.
#
# systemd, cloud-init and a kernel with its initramfs on an ext4, and systemd-boot on an EFI partition: what
# `qemu:root=image:FILE,firmware=ovmf` boots. Needs mmdebstrap, mtools, dosfstools, fdisk, e2fsprogs and
# qemu-utils; takes some minutes, most of them for packages.
#
#     tests/images/full-system.sh OUT.qcow2
set -eu

out=${1:?usage: full-system.sh OUT.qcow2}
esp_mib=96
root_mib=2200

work=$(mktemp -d /var/tmp/surtax-image.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM

packages=systemd-sysv,udev,dbus,kmod,linux-image-cloud-amd64,initramfs-tools,cloud-init,systemd-boot-efi,iproute2
# Layers that run inside it, beside its own init.
layers=runc,podman,uidmap,slirp4netns,docker.io,rootlesskit,systemd-container,bubblewrap,iputils-ping
mmdebstrap --quiet --variant=minbase --aptopt='APT::Install-Recommends "false"' \
    --include="$packages,$layers" bookworm "$work/root.tar"
mkdir "$work/root"
tar -C "$work/root" -xf "$work/root.tar" --exclude='./dev/*'
rm "$work/root.tar"
# Where cloud-init looks, without asking around in a network.
printf 'datasource_list: [ NoCloud, None ]\nlocale: false\n' >"$work/root/etc/cloud/cloud.cfg.d/90_surtax.cfg"
# Who carries out what the seed says of the network.
ln -s /lib/systemd/system/systemd-networkd.service "$work/root/etc/systemd/system/multi-user.target.wants/"

esp=$work/esp
truncate -s "${esp_mib}M" "$esp"
mkfs.vfat -n ESP "$esp" >/dev/null
export MTOOLS_SKIP_CHECK=1
mmd -i "$esp" ::EFI ::EFI/BOOT ::loader ::loader/entries
mcopy -i "$esp" "$work/root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" ::EFI/BOOT/BOOTX64.EFI
mcopy -i "$esp" "$work"/root/boot/vmlinuz-* ::vmlinuz
mcopy -i "$esp" "$work"/root/boot/initrd.img-* ::initrd.img
printf 'timeout 0\ndefault debian.conf\n' | mcopy -i "$esp" - ::loader/loader.conf
printf 'title Debian\nlinux /vmlinuz\ninitrd /initrd.img\noptions root=LABEL=system rw console=ttyS0 quiet\n' |
    mcopy -i "$esp" - ::loader/entries/debian.conf

fs=$work/fs
mke2fs -q -t ext4 -L system -d "$work/root" "$fs" "${root_mib}M"

disk=$work/disk
truncate -s "$((esp_mib + root_mib + 2))M" "$disk"
printf 'label: gpt\nstart=1MiB, size=%sMiB, type=U\nsize=%sMiB, type=L\n' "$esp_mib" "$root_mib" |
    sfdisk --quiet "$disk"
dd if="$esp" of="$disk" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$fs" of="$disk" bs=1M seek="$((1 + esp_mib))" conv=notrunc,sparse status=none
qemu-img convert -q -O qcow2 "$disk" "$out.partial"
mv "$out.partial" "$out"
