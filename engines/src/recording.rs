//! Cost of recording one latency in a histogram: the other engines' own error.
//!
//! Latencies of many sizes are made up and recorded in a loop, whose whole time counts: so the
//! price is an upper bound. Their sizes jump about, as those of a real tail do, so that bins are
//! not always in the nearest cache.

use super::{Answer, Engine, Options, Refused, option};
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;

/// Number of latencies that are recorded where nobody says.
const COUNT: u64 = 10_000_000;

/// The engine.
pub(crate) const ENGINE: Engine = Engine {
    name: "recording",
    about: "what it costs to record one latency in a histogram",
    options: &[option("count", "N", "how many are recorded; 10000000")],
    run,
};

/// Records so many around 30 µs, and answers with nanoseconds for each.
fn run(options: &Options) -> Result<Answer, Refused> {
    let count = options.number("count", COUNT, 1..=1 << 40)?;
    let mut histogram = Histogram::new();
    let mut state = 1_u64;
    let began = clock::monotonic_raw();
    for _ in 0..count {
        // Knuth's MMIX generator; its upper bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        histogram.record(20_000 + (state >> 49));
    }
    let took = clock::monotonic_raw().since(began);
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("count", histogram.count());
    answer.number("recording_ns", took.0 as f64 / count as f64);
    Ok(answer)
}
