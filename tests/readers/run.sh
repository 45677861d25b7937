#!/bin/sh
# Has the programs that people compute with read what surtax exports: pandas, Polars and DuckDB its
# table of trials, Prometheus' promtool its text for a collector.
#
# They are kept below the target directory: Python's packages from PyPI, and promtool out of
# Debian's package, which is not installed, as it would bring a service. Takes a minute, and the
# network the first time.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
again="make try-readers"
. "$root/setup/steps.sh"
. "$root/setup/python.sh"

begin_to_try readers
readers=$target/readers
environment "$readers" "$root/tests/readers/requirements.txt"
promtool=$readers/prometheus/usr/bin/promtool
if [ ! -x "$promtool" ]; then
    cd "$scratch"
    quietly "list what Debian has" as_root apt-get update
    quietly "fetch promtool" apt-get -o APT::Sandbox::User= download prometheus
    dpkg-deb -x prometheus_*.deb "$readers/prometheus"
    cd "$root"
fi

export HOME="$scratch" XDG_DATA_HOME="$scratch/data"
run=$scratch/run.surtax
# A stack that nobody has is a row that does not count, and has no time.
stacks=simulated:seed=1,simulated:cost=1.07,seed=1,runc:binary=/no/such/runc
"$surtax" --quiet compare --in "$stacks" --baseline simulated:seed=1 --runs 20 --seed 7 \
    --output "$run" -- true >"$scratch/table"
"$surtax" export "$run" --trials -o "$scratch/trials.csv"
"$surtax" export "$run" -o "$scratch/trials.parquet"
"$surtax" export "$run" -o "$scratch/answer.json"
"$surtax" export "$run" -o "$scratch/run.prom"

"$readers/python/bin/python" "$root/tests/readers/read.py" "$scratch"
"$promtool" check metrics <"$scratch/run.prom"
echo "promtool: $(grep -c -v '^#' "$scratch/run.prom") samples"
