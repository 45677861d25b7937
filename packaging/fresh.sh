# A fresh Debian 12, in a directory, for the scripts that install surtax there. Each has read `steps.sh`, is root, and has a
# `scratch` directory.
# shellcheck shell=sh

# Makes it, with a package as /surtax.deb; nothing that a package brings is started there. Sets `fresh`.
fresh_debian() { # PACKAGE
    if ! command -v debootstrap >/dev/null; then
        quietly "list what Debian has" apt-get update
        quietly "install debootstrap" apt-get install -y --no-install-recommends debootstrap
    fi
    # shellcheck disable=SC2154  # the script sets it
    fresh=$scratch/debian
    quietly "make a fresh Debian" debootstrap --force-check-gpg --variant=minbase bookworm "$fresh"
    cp -L /etc/resolv.conf "$fresh/etc/resolv.conf"
    cp "$1" "$fresh/surtax.deb"
    printf '#!/bin/sh\nexit 101\n' >"$fresh/usr/sbin/policy-rc.d"
    chmod 755 "$fresh/usr/sbin/policy-rc.d"
}

# Runs a file of it there, in namespaces of its own, with what it says in a log.
in_fresh_debian() { # FILE LOG
    unshare --mount --pid --fork --kill-child --propagation private sh -eu -c '
        mount --bind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount --rbind /dev "$1/dev"
        mkdir "$1/old"
        cd "$1"
        # A namespace is entered at its own root, so that is what the directory must be.
        pivot_root . old
        exec chroot . sh -eu -c "umount -l /old; rmdir /old; exec sh $2"' sh "$fresh" "$1" >"$2" 2>&1
}
