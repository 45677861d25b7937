#!/bin/sh
# Asks cargo-deny about every dependency: its licence, its source, its versions, and whether RustSec knows a flaw of it.
#
# The first three need nothing but Cargo.lock. The last needs RustSec's database, which is a repository on GitHub and in no
# package registry. Where it cannot be fetched, the flaws were not looked for: that is said, and is a failure
# (exit 4), unless ADVISORIES=where-reachable accepts it. With ADVISORIES=skip, as in CI, which may fetch from package
# registries alone, it is not tried, and that is said as loudly.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
again="setup/dependencies.sh"
. "$root/setup/steps.sh"
cd "$root" || exit 3

fetch_limit_s=120

deny() { "$root/setup/with-rust.sh" cargo deny --locked --log-level error "$@"; }

deny --version >/dev/null 2>&1 || fail "cargo-deny is not installed" "run \`make setup\`"
echo "cargo deny check bans licenses sources"
deny check bans licenses sources || exit 1

not_checked() { # WHY
    echo "NOT CHECKED: known flaws (RustSec) and yanked versions of $(grep -c '^name = ' Cargo.lock) packages in Cargo.lock: $1"
}

if [ "${ADVISORIES:-required}" = skip ]; then
    not_checked "ADVISORIES=skip does not fetch the advisory database"
    exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if timeout "$fetch_limit_s" "$root/setup/with-rust.sh" cargo deny --locked fetch db >"$log" 2>&1; then
    echo "cargo deny check advisories"
    deny check advisories || exit 1
    exit 0
fi
sed 's/^/    /' "$log" >&2
not_checked "the advisory database could not be fetched (above)"
if [ "${ADVISORIES:-required}" = where-reachable ]; then exit 0; fi
printf '  hint: let this machine reach github.com/RustSec/advisory-db, or accept the gap: %s\n' \
    "make check ADVISORIES=where-reachable"
exit 4
