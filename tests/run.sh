#!/bin/sh
# Runs every test. Those that start real layers run three at a time, in three processes, beside all others, but for those
# that run two at a time after that (`Machine::beside_one`), and those that take the machine alone (`Machine::alone`):
# these come last, one after another.
#
# What fails among them is run once more, alone: a defect fails again, and so does the run. What then holds is named at
# the end as flaky, with its first failure above: it is to be looked into.
#
# usage: CARGO='setup/with-rust.sh cargo' tests/run.sh
set -u
cd "$(dirname "$0")/.." || exit 3
CARGO=${CARGO:-cargo}
export CARGO
place=$(mktemp -d) || exit 3
log=$place/log
: >"$log"
# Into a file and not a pipe: what a failed test leaves running would hold that open for ever.
sleep 1000000 </dev/null >/dev/null 2>&1 &
until=$!
trap 'kill "$until" 2>/dev/null; rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
export SURTAX_TESTS_DOCTOR="$log.doctor"
tail -n +1 -f --pid="$until" "$log" &
shown=$!

# One build of all, with the features that all together ask for: so everything below asks for `--workspace`, too.
$CARGO test --workspace --locked --no-run >>"$log" 2>&1 || {
    kill "$until"
    wait "$shown"
    exit 1
}

# The end-to-end tests are started by their path: Cargo looks each time whether all is built.
$CARGO test --workspace --locked --test e2e --no-run >"$log.e2e" 2>&1
e2e=$(sed -n 's/.*Executable.*(\(.*\))$/\1/p' "$log.e2e")
e2e="${CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER:-} $e2e"
export e2e
$e2e --list 2>>"$log" | sed -n 's/: test$//p' >"$log.names"
[ -s "$log.names" ] || {
    kill "$until"
    wait "$shown"
    cat "$log.e2e"
    echo 'no end-to-end tests were found' >&2
    exit 1
}
# Patterns of the tests that take their machine by this word, or of all tests of a module in which a part that they share
# does.
takers() {
    awk -v word="Machine::$1()" '
        FNR == 1 { module = FILENAME; sub(/^tests\/e2e\//, "", module); sub(/\.rs$/, "", module); gsub(/\//, "::", module) }
        match($0, /fn [a-z_0-9]+[<(]/) { name = substr($0, RSTART + 3, RLENGTH - 4) }
        index($0, word) { print module "::" name }' $(find tests/e2e -name '*.rs') | sort -u >"$log.takers"
    grep -F -x -f "$log.names" "$log.takers" | sed 's/.*/^&$/'
    grep -F -x -v -f "$log.names" "$log.takers" | sed 's/\(.*::\).*/^\1/'
}
takers alone >"$log.alone.patterns"
takers beside_one >"$log.pairs.patterns"
grep -f "$log.alone.patterns" "$log.names" >"$log.alone"
grep -f "$log.pairs.patterns" "$log.names" >"$log.pairs"
sort "$log.alone" "$log.pairs" | grep -F -x -v -f - "$log.names" >"$log.beside"

# Lines of what one process does. What takes minutes begins first, or it would be what everything else waits for at the end.
# How many of what is no end-to-end test fail is of no interest: one is too many.
# Tests of `ssh` wait for each other.
long='^simulated::|^workloads::|^two_sided::|^neighbours::|^ssh::'
{
    echo unit
    grep '^ssh::' "$log.beside" | xargs
    grep -E "$long" "$log.beside" | grep -v '^ssh::' | xargs -n 2
    grep -E -v "$long" "$log.beside" | xargs -n 6
} >"$log.lines"
others=$(ls -d */tests/*.rs */tests/*/main.rs | sed 's|/main\.rs$||; s|.*/||; s|\.rs$||; s|^|--test |' | tr '\n' ' ')
# Results of a process come in one piece, when it has ended: those of several would divide each other's lines. Why a test
# failed is said at once. A process that a signal ended, or that fails though no test of it does, is odd: it is not run again.
run='lines=$0.$$
    if [ "$1" = unit ]; then
        lines=$0.unit
        {
            $CARGO test --workspace --lib --bins '$others'--locked --no-fail-fast
            one=$?
            $CARGO test --workspace --doc --locked
            [ "$one$?" = 00 ] && touch "$0.passed"
        } >"$lines" 2>&1
        ended=0
        grep -aq "(signal: " "$lines" && touch "$0.odd"
    else
        $e2e --exact "$@" >"$lines" 2>>"$0"
        ended=$?
        [ "$ended" -lt 128 ] && { [ "$ended" = 0 ] || grep -aq "FAILED" "$lines"; } || touch "$0.odd"
    fi
    cat "$lines" >>"$0"
    exit "$ended"'
xargs -P 3 -L 1 sh -c "$run" "$log" <"$log.lines"
ended=$?
# Those that use a CPU all the while are one lane, and those that mostly wait the other.
busy='^nesting::|^prove::faults|^out_of_memory::'
grep -E "$busy" "$log.pairs" | xargs -r -n 1 sh -c "$run" "$log" &
lane=$!
grep -E -v "$busy" "$log.pairs" | xargs -r -n 1 sh -c "$run" "$log"
ended=$ended$?
wait "$lane"
ended=$ended$?
# Nobody is beside these.
xargs -r -n 1000 sh -c '
    before=$(wc -c <"$0")
    $e2e --exact "$@" >>"$0" 2>&1
    ended=$?
    [ "$ended" -lt 128 ] && { [ "$ended" = 0 ] || tail -c +"$before" "$0" | grep -aq "FAILED"; } || touch "$0.odd"
    exit "$ended"' "$log" <"$log.alone"
ended=$ended$?
kill "$until"
wait "$shown"

# What has no result was never run, or its process did not live to say one.
sed -n 's/^test \([^ ]*\) .*\.\.\. \(ok\|ignored.*\)$/\1/p; s/^test \([^ ]*\) \.\.\. \(ok\|ignored.*\)$/\1/p' "$log" | sort -u >"$log.held"
failed=$(sort "$log.names" | comm -23 - "$log.held")
printf '\nThe slowest tests:\n'
sed -n 's/^TOOK //p' "$log" | sort -rn | head -n 30
[ -e "$log.odd" ] && {
    printf '\na process of tests was ended by a signal, or failed without a test that did\n'
    grep -a -m 5 '(signal: ' "$log"
    exit 1
}
# A process that failed though each of its tests has a result is a failure all the same.
[ -n "$failed" ] || [ "$ended" = 0000 ] || exit

# Why is said once more, at the end: a log that is cut loses its middle.
for name in $failed; do
    grep -a -F -m 1 -A 15 "FAILED $name: " "$log" || printf '%s has no result\n' "$name"
done
[ -z "$failed" ] || printf '\nfailed, and run once more, alone, if they are few:\n%s\n' "$failed"
# Many do not fail by chance.
[ "$(printf '%s\n' "$failed" | wc -l)" -le 3 ] || exit 1
# Beside others a machine is busy, and a few of these wait for a time of their own.
flaky=
if ! [ -e "$log.passed" ]; then
    printf '\nfailed beside the end-to-end tests, and run once more, alone:\n'
    grep -a -A 15 -E 'panicked|FAILED|^error' "$log.unit"
    flaky=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log.unit" | sort -u)
    [ -n "$flaky" ] || flaky='tests of parts, which had no result'
    sh -c "$run" "$log" unit
    [ -e "$log.passed" ] || {
        grep -a -A 15 -E 'panicked|FAILED|^error' "$log.unit"
        exit 1
    }
fi
rm -f "$log.doctor"
for name in $failed; do
    $e2e --exact "$name" || exit 1
done
[ -z "$failed$flaky" ] ||
    printf '\nFLAKY:\n%s\nFailed once and then held: why it failed is above. It is a defect, here or in the test.\n' \
        "$flaky $failed"
