#!/bin/sh
# Installs the Debian package on a fresh Debian 12 and has it measure a command there, with nothing
# else than what apt brings along; then removes it again.
#
# The fresh Debian is a directory (debootstrap), entered in namespaces of its own. Takes a few
# minutes, root rights and the network.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
again="make try-deb"
. "$root/setup/steps.sh"
. "$root/packaging/fresh.sh"

package=$(echo "$root"/target/debian/surtax_*.deb)
[ -f "$package" ] || fail "there is no package in target/debian" "make deb"
[ "$(id -u)" = 0 ] || fail "this needs root rights" "sudo packaging/try-deb.sh"

trap remove_scratch EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d /var/tmp/surtax-fresh.XXXXXX)
say "a fresh Debian 12 (a minute)"
fresh_debian "$package"

cat >"$fresh/try" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends /surtax.deb bubblewrap runc e2fsprogs
surtax --version
man_page=/usr/share/man/man1/surtax.1.gz
[ -f "$man_page" ]
# Two stacks beside native, whose trials all count.
surtax compare --in native,runc,bubblewrap --runs 3 --report /report.html --format json \
    --export csv=/answer.csv -- sh -c 'seq 20000 | sha256sum' >/answer.json
surtax show last
for stack in native runc bubblewrap; do
    surtax export last --trials --as csv | grep -c "$stack.*done" | grep -qx '[3-9]\|[1-9][0-9]'
done
grep -q '<!doctype html>' /report.html
surtax gc
apt-get -q purge -y surtax
if [ -e /usr/bin/surtax ] || [ -e /usr/share/doc/surtax ]; then
    echo "surtax is still there"
    exit 1
fi
END
say "the package there (a few minutes)"
in_fresh_debian /try "$scratch/log" || {
    tail -n 40 "$scratch/log" | sed 's/^/    /' >&2
    fail "the package does not work on a fresh Debian (above: its last lines)" "make deb"
}
grep -A 7 'Stack ' "$scratch/log" | sed 's/^/    /' >&2 || true
say "installed, measured and removed on a fresh Debian 12"
