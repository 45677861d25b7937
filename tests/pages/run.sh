#!/bin/sh
# Makes reports of ten runs of different kinds, and has Chromium look at each as people do: wide,
# dark, on a phone, and printed; and axe, at what keeps somebody from reading it.
#
# Chromium is Debian's; what drives it is kept below the target directory, and so are pictures of
# every page, to be looked at. Takes root rights, three minutes, and the network the first time.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
again="make try-pages"
. "$root/setup/steps.sh"
. "$root/setup/python.sh"

[ "$(id -u)" = 0 ] || fail "this needs root rights" "sudo tests/pages/run.sh"

begin_to_try pages
pages=$target/pages
environment "$pages" "$root/tests/pages/requirements.txt"
if ! command -v chromium >/dev/null; then
    say "Chromium (a minute)"
    quietly "list what Debian has" apt-get update
    quietly "install Chromium" apt-get install -y --no-install-recommends chromium fonts-dejavu-core
fi

export HOME="$scratch" XDG_DATA_HOME="$scratch/data"
work='seq 60000 | sort -r | sha256sum'

# Runs that fail are asked for, too: what they answer is on their page.
page() { # NAME COMMAND ARGUMENT…
    name=$1
    command=$2
    shift 2
    say "a run for the page $name"
    "$surtax" --quiet "$command" --output "$scratch/$name.surtax" "$@" \
        >"$scratch/$name.txt" 2>"$scratch/$name.err" || true
    "$surtax" report "$scratch/$name.surtax" -o "$scratch/$name.html" 2>>"$scratch/$name.err" || {
        cat "$scratch/$name.err" >&2
        fail "the run for the page $name made no report" "mend that"
    }
}

# `simulated:cost=1.0` to `cost=4.0`, in thirty steps.
many=$(seq 31 | awk '{ printf "%ssimulated:cost=%.2f,noise=0.02,seed=%d", (NR > 1 ? "," : ""), 0.9 + NR / 10, NR }')
long=$(seq 130 | awk '{ printf "word%d ", $1 }')

page demo compare --in native,runc,gvisor,docker,qemu:accel=tcg --runs 6 -- sh -c "$work"
page many compare --in "$many" --baseline simulated:cost=1.00,noise=0.02,seed=1 --runs 12 -- true
page prices prices --in native,runc,bubblewrap,gvisor --runs 4
page failing compare --in native,runc -- sh -c 'echo no such input >&2; exit 3'
page fails-in-one compare --in native,runc,gvisor --runs 6 -- \
    sh -c 'if grep -q gVisor /proc/version; then echo not here >&2; exit 1; fi'
page instances compare --in native,runc --instances 2 --runs 5 -- sh -c "$work"
page neighbours compare --in native,runc --beside adversary.load:cpu=50@runc --runs 5 -- sh -c "$work"
page workload compare --in native,gvisor,runc:net=veth --workload net.tcp_rr:time=500 --runs 6
page few compare --in native,runc --runs 2 -- sh -c "$work"
page names compare --title "$long" --in native,runc:cpus=1,memory=256M,binary=/no/such/runc --runs 6 \
    -- sh -c "true # $long"

"$pages/python/bin/python" "$root/tests/pages/look.py" "$scratch" "$pages/pictures"
