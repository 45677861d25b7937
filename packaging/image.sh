#!/bin/sh
# Makes a container image of surtax and what it measures with, below target/image, and has a Docker
# of its own run it: `docker run --privileged` without a word more measures a command in native,
# containers and an emulated machine.
#
# It is a fresh Debian 12 (debootstrap) with the package of `make deb` and, from Debian, runc, crun,
# bubblewrap, QEMU and the kernel of its machines: nothing in it comes from a registry. Takes some
# minutes, root rights and the network.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
again="make image"
. "$root/setup/steps.sh"
. "$root/packaging/fresh.sh"
cd "$root"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)

package=$(echo "$root"/target/debian/surtax_*.deb)
[ -f "$package" ] || fail "there is no package in target/debian" "make deb"
[ "$(id -u)" = 0 ] || fail "this needs root rights" "sudo packaging/image.sh"
for tool in dockerd docker; do
    command -v "$tool" >/dev/null || fail "there is no $tool" "make setup"
done

daemon=
stop() {
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" || true
    fi
    # What it mounted goes with its namespace.
    remove_scratch
}
trap stop EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d /var/tmp/surtax-image.XXXXXX)

say "a fresh Debian 12 with what surtax measures with (three minutes)"
fresh_debian "$package"
cat >"$fresh/make" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends /surtax.deb bubblewrap crun e2fsprogs qemu-system-x86 runc
# The kernel of a machine is fetched by the first that is asked about.
surtax doctor qemu:accel=tcg
rm -f /surtax.deb /usr/sbin/policy-rc.d /etc/resolv.conf /make
apt-get -q clean
rm -rf /var/lib/apt/lists/*
END
in_fresh_debian /make "$scratch/log" || {
    tail -n 40 "$scratch/log" | sed 's/^/    /' >&2
    fail "surtax and its layers could not be installed there (above: the last lines)" "mend that"
}

# A machine that lacks a capability itself gives none to a privileged container, and runc refuses to
# start one: there it is told what there is.
cat >"$scratch/runc" <<'END'
#!/usr/bin/python3
import json, os, sys
held = int(next(line for line in open("/proc/self/status") if line.startswith("CapBnd")).split()[1], 16)
names = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ
PERFMON BPF CHECKPOINT_RESTORE""".split()
if "--bundle" in sys.argv:
    path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    config = json.load(open(path))
    sets = config["process"].get("capabilities", {})
    for name, given in sets.items():
        sets[name] = [it for it in given if held >> names.index(it[4:]) & 1]
    json.dump(config, open(path, "w"))
os.execvp("runc", ["runc", *sys.argv[1:]])
END
chmod 755 "$scratch/runc"

say "a Docker of its own"
socket=unix://$scratch/docker.sock
dockerd --host "$socket" --data-root "$scratch/data" --exec-root "$scratch/exec" --pidfile "$scratch/docker.pid" \
    --bridge none --iptables=false --ip-masq=false --add-runtime "held=$scratch/runc" >"$scratch/dockerd.log" 2>&1 &
daemon=$!
tries=0
until docker --host "$socket" version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { tail -n 20 "$scratch/dockerd.log" >&2; fail "the Docker did not start" "mend that"; }
    sleep 0.1
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
image=surtax:$version
say "the image"
tar -C "$fresh" --one-file-system -c . | docker --host "$socket" import \
    --change 'ENTRYPOINT ["/usr/bin/surtax"]' \
    --change 'CMD ["compare", "--in", "native,runc,crun,bubblewrap,qemu:accel=tcg", "--runs", "3", "--", "sh", "-c", "seq 100000 | sort -r | sha256sum"]' \
    - "$image" >/dev/null

say "\`docker run --privileged $image\`"
docker --host "$socket" run --rm --privileged --runtime held --network none "$image" >"$scratch/answer" 2>"$scratch/said" || {
    cat "$scratch/answer" "$scratch/said" >&2
    fail "it does not measure in a container of Docker's" "mend that"
}
for stack in runc bubblewrap qemu:accel=tcg; do
    grep -q "^$stack  *3 " "$scratch/answer" || { cat "$scratch/answer" "$scratch/said" >&2; fail "$stack has no numbers there" "mend that"; }
done
grep -A 9 'Stack ' "$scratch/answer" | sed 's/^/    /' >&2

mkdir -p "$target/image"
docker --host "$socket" save "$image" | gzip -1 >"$target/image/surtax-$version.tar.gz"
say "the image: $target/image/surtax-$version.tar.gz ($(du -h "$target/image/surtax-$version.tar.gz" | cut -f 1)); \`docker load\` takes it"
