//! Load that runs beside a proof on purpose: nothing, or something like a build.

/// In which surroundings a real proof is made; the first is nothing but the machine as it is.
pub(super) const SURROUNDINGS: [&str; 2] = ["alone", "beside a build"];

/// Short processes on every CPU, with pauses, as a build has them.
pub(super) const BUILD: &str = "for n in $(seq \"$(nproc)\"); do \
    while :; do head -c 3000000 /dev/urandom | gzip -9 | sha256sum; sleep 0.05; done & done; wait";

/// Twice as many of them as there are CPUs, so that nobody has one for long.
pub(super) const CROWD: &str = "for n in $(seq $(( 2 * $(nproc) ))); do \
    while :; do head -c 3000000 /dev/urandom | gzip -9 | sha256sum; sleep 0.05; done & done; wait";
