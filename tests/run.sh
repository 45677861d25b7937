#!/bin/sh
# Runs every test. Those that start real layers run two at a time, in two processes, but for the modules in which a test
# takes the machine alone (`Machine::alone`): those come last, one test after another.
#
# What fails among them is run once more, alone: a defect fails again, and so does the run. What then holds is named at
# the end as flaky, with its first failure above: it is to be looked into.
#
# usage: CARGO='setup/with-rust.sh cargo' tests/run.sh
set -u
cd "$(dirname "$0")/.." || exit 3
CARGO=${CARGO:-cargo}
export CARGO
log=$(mktemp) || exit 3
# Into a file and not a pipe: what a failed test leaves running would hold that open for ever.
sleep 1000000 </dev/null >/dev/null 2>&1 &
until=$!
trap 'kill "$until" 2>/dev/null; rm -f "$log" "$log".*' EXIT
trap 'exit 130' INT TERM
tail -n +1 -f --pid="$until" "$log" &
shown=$!

# Everything but the end-to-end tests; how many of these fail is of no interest: one is too many.
{
    $CARGO test --workspace --exclude surtax --locked --no-fail-fast
    one=$?
    $CARGO test -p surtax --lib --bins --locked --no-fail-fast
    two=$?
    $CARGO test -p surtax --doc --locked
    [ "$one$two$?" = 000 ] && touch "$log.passed"
} >>"$log" 2>&1

$CARGO test --locked --test e2e -- --list 2>>"$log" | sed -n 's/: test$//p' >"$log.names"
grep -l 'Machine::alone()' tests/e2e/*.rs | sed 's|.*/\(.*\)\.rs$|^\1::|' >"$log.modules"
# Minutes of computing begin first, or they would be what everything else waits for at the end.
{
    grep '^simulated::' "$log.names"
    grep -v -f "$log.modules" "$log.names" | grep -v '^simulated::'
} >"$log.beside"
grep -f "$log.modules" "$log.names" >"$log.alone"
run='exec $CARGO test --locked --test e2e -- --exact "$@" >>"$0" 2>&1'
xargs -P 2 -n 10 sh -c "$run" "$log" <"$log.beside"
xargs -n 1000 sh -c "$run" "$log" <"$log.alone"
kill "$until"
wait "$shown"

# What has no result was never run, or its process did not live to say one.
sed -n 's/^test \([^ ]*\) .*\.\.\. \(ok\|ignored.*\)$/\1/p; s/^test \([^ ]*\) \.\.\. \(ok\|ignored.*\)$/\1/p' "$log" | sort -u >"$log.held"
failed=$(sort "$log.names" | comm -23 - "$log.held")
printf '\nThe slowest tests:\n'
sed -n 's/^TOOK //p' "$log" | sort -rn | head -n 30
[ -s "$log.names" ] && [ -e "$log.passed" ] || exit 1
[ -n "$failed" ] || exit 0

# Why is said once more, at the end: a log that is cut loses its middle.
for name in $failed; do
    grep -F -m 1 -A 15 "FAILED $name: " "$log" || printf '%s has no result\n' "$name"
done
printf '\nfailed, and run once more, alone, if they are few:\n%s\n' "$failed"
# Many do not fail by chance.
[ "$(printf '%s\n' "$failed" | wc -l)" -le 3 ] || exit 1
for name in $failed; do
    $CARGO test --locked --test e2e -- --exact "$name" || exit 1
done
printf '\nFLAKY:\n%s\nFailed once and then held: why it failed is above. It is a defect, here or in the test.\n' "$failed"
