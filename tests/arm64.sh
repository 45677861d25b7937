#!/bin/sh
# Builds surtax for arm64 and runs the unit tests of its libraries there, in QEMU's user mode; and
# has that surtax read a run that is kept.
#
# The compiler for C and QEMU are Debian's. Takes six minutes on two cores, root rights the first
# time, and the network. No layer is started: nobody has measured on such a machine yet.
set -eu

machine=aarch64-unknown-linux-gnu
# What asks the kernel for what QEMU's user mode does not pass on: netlink, ioctls of links, and the
# accounts of the threads of another process than QEMU's.
untold="a_device_is_found_by_its_address_and_asked
    what_holds_a_place_of_this_machine_is_what_the_kernel_says_of_it
    the_loopback_link_says_what_is_left_to_it
    switches_of_a_thread_that_came_and_went_are_nobodys_and_so_unknown
    faults_and_switches_of_a_process_are_found_and_belong_to_the_thread_that_had_them"

root=$(cd "$(dirname "$0")/.." && pwd)
again="make try-arm64"
. "$root/setup/steps.sh"
cd "$root"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
surtax=$target/release/surtax
[ -x "$surtax" ] || fail "there is no surtax in $target/release" "make build"
target=$target/arm64

missing=
command -v aarch64-linux-gnu-gcc >/dev/null || missing="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
command -v qemu-aarch64 >/dev/null || missing="$missing qemu-user"
if [ -n "$missing" ]; then
    say "installing $missing"
    quietly "list what Debian has" as_root apt-get update
    # shellcheck disable=SC2086  # one word per package
    quietly "install $missing" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $missing
fi
quietly "fetch Rust's library for arm64" setup/with-rust.sh rustup target add "$machine"

export CARGO_TARGET_DIR="$target" CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
say "surtax for arm64 (four minutes on two cores)"
quietly "build it" setup/with-rust.sh cargo build --locked --workspace --target "$machine"
# shellcheck disable=SC2046  # one word per name
set -- $(for name in $untold; do echo "--skip $name"; done)
say "its libraries' unit tests, in QEMU's user mode"
quietly "run them" setup/with-rust.sh cargo test --locked --lib --bins --target "$machine" \
    -p surtax-instrument -p surtax-statistics -p surtax-engines -p surtax-agent -- "$@"
shown=$($CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER "$target/$machine/debug/surtax" --quiet \
    show results/2026-11-22-epyc-vm-2cpu/tar-gzip.surtax --format json)
here=$("$surtax" --quiet show results/2026-11-22-epyc-vm-2cpu/tar-gzip.surtax --format json)
[ "$shown" = "$here" ] || fail "on arm64 a run says something else than here" "mend that"
say "built for arm64; its libraries' unit tests pass there, and a run says there what it says here"
