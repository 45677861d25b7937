#!/bin/sh
# Makes a Debian 12 machine ready: tools to build surtax, and a program for every layer.
#
# It looks first and installs only what is missing, so a second run takes a second. Packages come
# from the machine's own apt sources, and no source is added to them. surtax itself needs no
# service: where systemd does not run, none is started here either.
#
# Debian's own gVisor is too old to be measured, so runsc is built from its module at the version
# below. That needs Go for two minutes; if the machine has none, Debian's backport is unpacked into
# a scratch directory, used once and removed.
set -eu

gvisor_version=v0.0.0-20260905035102-160fafc42237

deny_version=0.20.2          # cargo-deny, which `make check` asks about every dependency

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/surtax
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive
policy=
again="make setup"
. "$root/setup/steps.sh"
. "$root/setup/go.sh"

clean_up() {
    if [ -n "$policy" ]; then as_root rm -f "$policy"; fi
    policy=
    remove_scratch
}

# One line per need: the package, then a program or a file that proves it is not missing. Tools
# that came another way (Docker's own packages, say) count.
needs() {
    cat <<'END'
gcc                 gcc
libc6-dev           /usr/lib/x86_64-linux-gnu/libc.a
make                make
ca-certificates     /etc/ssl/certs/ca-certificates.crt
iproute2            ip
kmod                modprobe
xz-utils            xz
sqlite3             sqlite3
busybox-static      busybox
bubblewrap          bwrap
runc                runc
crun                crun
systemd-container   systemd-nspawn
lxc                 lxc-start
lxd                 lxd
docker.io           dockerd
podman              podman
conmon              conmon
uidmap              newuidmap
slirp4netns         slirp4netns
rootlesskit         rootlesskit
containernetworking-plugins  /usr/lib/cni/bridge
qemu-system-x86     qemu-system-x86_64
qemu-system-common  /usr/lib/qemu/virtiofsd
qemu-utils          qemu-img
dpdk-dev            dpdk-testpmd
openvswitch-switch  ovs-vswitchd
dmsetup             dmsetup
e2fsprogs           mke2fs
btrfs-progs         mkfs.btrfs
seabios             /usr/share/seabios/bios-256k.bin
ovmf                /usr/share/ovmf/OVMF.fd
genisoimage         genisoimage
curl                curl
snmpd               snmpd
openipmi            ipmi_sim
ipmitool            ipmitool
sysstat             sar
sysbench            sysbench
fio                 fio
ioping              ioping
stress-ng           stress-ng
iperf3              iperf3
openssl             openssl
redis-server        redis-server
redis-tools         redis-benchmark
memcached           memcached
nginx               nginx
wrk                 wrk
bonnie++            bonnie++
fish                fish
zsh                 zsh
memtester           memtester
iputils-ping        ping
rt-tests            cyclictest
7zip                7zz
bc                  bc
skopeo              skopeo
docker-registry     docker-registry
openssh-client      ssh
openssh-server      /usr/sbin/sshd
libvirt-clients     virsh
libvirt-daemon      libvirtd
libvirt-daemon-driver-qemu  /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so
qemu-guest-agent    /usr/sbin/qemu-ga
END
}

is_there() { # PROGRAM-OR-FILE
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

missing_packages() {
    needs | while read -r package proof; do
        is_there "$proof" || printf '%s ' "$package"
    done
    "$root/setup/with-rust.sh" true 2>/dev/null || printf 'rustc-web cargo-web '
}

refuse_other_systems() {
    name=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-unknown} ${VERSION_CODENAME:-}")
    [ "$name" = "debian bookworm" ] || fail "this script knows Debian 12, and this is \`$name\`" \
        "install what the list in setup/debian.sh names, then run \`make build\` and \`surtax doctor\`"
    machine=$(dpkg --print-architecture)
    [ "$machine" = amd64 ] || fail "surtax runs on amd64 so far, and this is \`$machine\`" \
        "use an amd64 machine"
}

# Without systemd a package's script would start its daemon itself, with nobody to stop it again. And
# nowhere is a machine to let people in because of us: the tests start an sshd of their own, and a guest
# agent inside of a guest; workloads start their servers themselves.
start_no_services() {
    if [ -e /usr/sbin/policy-rc.d ]; then return; fi
    if [ -d /run/systemd/system ]; then refused='case $1 in ssh* | docker-registry* | qemu-guest-agent* | nginx* | redis* | memcached* | openvswitch* | ovs* | lxd* | lxcfs* | snmpd* | openipmi* | ipmievd* | sysstat*) exit 101 ;; esac'; else refused='exit 101'; fi
    policy=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\n%s\n' "$refused" | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

# What came with our packages does not start with the machine either. A guest agent is started by udev
# where a hypervisor offers it a port, whether it is enabled or not.
keep_services_off() { # PACKAGES
    if ! [ -d /run/systemd/system ]; then return; fi
    case " $1" in *' openssh-server '*)
        quietly "leave sshd off" as_root systemctl --quiet disable ssh.service ;;
    esac
    for service in nginx redis-server memcached openvswitch-switch docker-registry \
        snmpd openipmi sysstat; do
        case " $1" in *" $service "*)
            quietly "leave $service off" as_root systemctl --quiet disable "$service.service" ;;
        esac
    done
    case " $1" in *' ipmitool '*)
        quietly "leave ipmievd off" as_root systemctl --quiet disable ipmievd.service ;;
    esac
    case " $1" in *' lxd '*)
        quietly "leave LXD off" as_root systemctl --quiet disable lxd.socket lxd-containers.service lxcfs.service ;;
    esac
    case " $1" in *' qemu-guest-agent '*)
        quietly "leave the guest agent off" as_root systemctl --quiet mask qemu-guest-agent.service ;;
    esac
}

install_packages() {
    packages=$(missing_packages)
    if [ -z "$packages" ]; then
        say "system packages: all there"
        return
    fi
    say "system packages: installing $packages(a few minutes, up to 280 MB)"
    start_no_services
    quietly "read the package lists" as_root apt-get -q update
    # shellcheck disable=SC2086  # one word per package
    quietly "install the packages" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends --no-remove $packages
    keep_services_off "$packages"
    packages=$(missing_packages)
    [ -z "$packages" ] || fail "installed, yet not found: $packages" \
        "look for what shadows them in \`PATH\`"
    say "system packages: installed"
}

# A runsc counts if it knows systrap, which Debian's does not. One that was built from its module,
# as here, must be of the version above and say so; a release that came another way is left alone.
usable_runsc() {
    runsc=$(command -v runsc || true)
    [ -n "$runsc" ] && "$runsc" flags 2>&1 | grep -q systrap || return 1
    case $("$runsc" --version | sed -n 's/^runsc version //p') in
        "$gvisor_version") ;;
        '' | VERSION_MISSING | v0.0.0-*) return 1 ;;
    esac
}

install_gvisor() {
    if usable_runsc; then
        say "gVisor: $runsc is there"
        return
    fi
    find_go || unpack_go gVisor
    say "gVisor: building runsc with $("$go" env GOVERSION) (two minutes on two cores, fetches 100 MB)"
    quietly "build runsc" with_go install \
        -ldflags "-X gvisor.dev/gvisor/runsc/version.version=$gvisor_version" \
        "gvisor.dev/gvisor/runsc@$gvisor_version"
    as_root install -D -m 755 "$scratch/bin/runsc" /usr/local/bin/runsc
    hash -r
    usable_runsc || fail "runsc $gvisor_version was built, yet \`$(command -v runsc)\` is another" \
        "put /usr/local/bin before it in \`PATH\`, or remove it"
    say "gVisor: installed /usr/local/bin/runsc"
}

# Built without optimising: it looks at a few hundred crates for a second, and is built in half the time.
install_deny() {
    have=$("$root/setup/with-rust.sh" cargo deny --version 2>/dev/null | sed -n 's/^cargo-deny //p')
    if [ -n "$have" ] && at_least "$have" "$deny_version"; then
        say "cargo-deny: $have is there"
        return
    fi
    say "cargo-deny: building $deny_version (a minute on two cores)"
    quietly "build cargo-deny" env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR="$scratch/deny" \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        "$root/setup/with-rust.sh" cargo install cargo-deny --locked --version "$deny_version"
    say "cargo-deny: installed"
}

refuse_other_systems
mkdir -p "$cache"
exec 9>"$cache/setup.lock"
flock -n 9 || { say "waiting for another set-up to end"; flock 9; }
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d "$cache/setup.XXXXXX")
install_packages
install_gvisor
install_deny
clean_up
say "Rust: $("$root/setup/with-rust.sh" cargo --version)"
say "ready"
