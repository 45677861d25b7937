#!/bin/sh
# Has the programs that people compute with read what surtax exports: pandas, Polars and DuckDB its
# table of trials, and Jupyter's nbclient by the notebook of docs/; promtool, Prometheus and a node
# exporter its text for a collector, by what the dashboard for Grafana asks; and act, which runs
# GitHub's workflows, what action.yml does.
#
# They are kept below the target directory: Python's packages from PyPI, act and Grafana's types
# from Go's proxy, and programs out of Debian's packages, which are not installed, as they would
# bring services. Takes root rights, half a minute, and three and the network the first time.
set -eu

act_version=v0.2.89

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/readers
again="make try-readers"
. "$root/setup/steps.sh"
. "$root/setup/python.sh"
. "$root/setup/go.sh"

begin_to_try readers
readers=$target/readers
environment "$readers" "$here/requirements.txt"
python=$readers/python/bin/python
debian=$readers/debian/usr/bin
if [ ! -x "$debian/promtool" ] || [ ! -x "$debian/prometheus-node-exporter" ]; then
    cd "$scratch"
    quietly "list what Debian has" as_root apt-get update
    quietly "fetch Prometheus" apt-get -o APT::Sandbox::User= download prometheus prometheus-node-exporter
    for package in prometheus*.deb; do
        dpkg-deb -x "$package" "$readers/debian"
    done
    cd "$root"
fi

# Builds a program of Go, unless it is there and made of the same.
go=
program() { # NAME MADE-OF ARGUMENT…
    name=$1
    made_of=$2
    shift 2
    if [ "$(cat "$readers/bin/$name.txt" 2>/dev/null)" = "$made_of" ]; then return; fi
    [ -n "$go" ] || find_go || unpack_go "$name"
    say "$name, below $readers (a minute on two cores)"
    quietly "build $name" with_go "$@"
    mkdir -p "$readers/bin"
    cp "$scratch/bin/$name" "$readers/bin"
    echo "$made_of" >"$readers/bin/$name.txt"
}
program act "$act_version" install "github.com/nektos/act@$act_version"
program dashboard "$(cat "$here"/dashboard/* | sha256sum)" \
    build -C "$here/dashboard" -o "$scratch/bin/dashboard"

export HOME="$scratch" XDG_DATA_HOME="$scratch/data" XDG_CACHE_HOME="$scratch/cache"
run=$scratch/run.surtax
# A stack that nobody has is a row that does not count, and has no time.
stacks=simulated:seed=1,simulated:cost=1.07,seed=1,runc:binary=/no/such/runc
"$surtax" --quiet compare --in "$stacks" --baseline simulated:seed=1 --runs 20 --seed 7 \
    --output "$run" -- true >"$scratch/table"
"$surtax" export "$run" --trials -o "$scratch/trials.csv"
"$surtax" export "$run" -o "$scratch/trials.parquet"
"$surtax" export "$run" -o "$scratch/answer.json"
"$surtax" export "$run" -o "$scratch/run.prom"

"$python" "$here/read.py" "$scratch"
"$python" "$here/notebook.py" "$scratch" "$root/docs/notebooks/trials.ipynb"
"$debian/promtool" check metrics <"$scratch/run.prom"
echo "promtool: $(grep -c -v '^#' "$scratch/run.prom") samples"

# Beside it, numbers in every unit, and names with all that a query must escape.
mkdir "$scratch/collected"
cp "$scratch/run.prom" "$scratch/collected"
workload=$scratch/workload.surtax
as_root "$surtax" --quiet compare --in native,namespaces --workload net.tcp_rr:time=100 --runs 2 \
    --output "$workload" >"$scratch/table"
as_root "$surtax" --quiet export "$workload" -o "$scratch/collected/workload.prom"
"$surtax" --quiet export "$root/results/2026-11-22-epyc-vm-2cpu/tar-gzip.surtax" \
    -o "$scratch/collected/tar-gzip.prom"
dashboard=$root/packaging/grafana/surtax.json
"$readers/bin/dashboard" "$dashboard"
"$python" "$here/dashboard.py" "$scratch" "$debian" "$dashboard"

# A checkout of an action whose `make install` takes the surtax that is there.
checkout=$scratch/checkout
mkdir -p "$checkout/.github/workflows"
cp "$root/action.yml" "$checkout"
cp "$here/action/workflow.yml" "$checkout/.github/workflows"
printf 'install:\n\tinstall -D %s $(PREFIX)/bin/surtax\n' "$surtax" >"$checkout/Makefile"
cat >"$checkout/forges" <<'END'
#!/bin/sh
echo "::error::forged on standard output"
echo "::error::forged on standard error" >&2
exit 70
END
chmod +x "$checkout/forges"
git -C "$checkout" init --quiet
git -C "$checkout" add .
git -C "$checkout" -c user.name=surtax -c user.email=surtax@localhost commit --quiet --message "An action"
if ! (cd "$checkout" && "$readers/bin/act" push --json --platform ubuntu-latest=-self-hosted \
    --env RESULTS="$scratch" --env SURTAX="$surtax") >"$scratch/act.json" 2>"$scratch/act.err"; then
    tail -n 20 "$scratch/act.err" "$scratch/act.json" >&2
    fail "act could not run tests/readers/action/workflow.yml (above: its last lines)" "mend that"
fi
"$python" "$here/action.py" "$scratch" "$surtax" "$root"
