//! Two ways of doing one thing, alternating in one run, and the ratio of their medians.
//!
//! Each pair is a block; which of the two goes first changes from pair to pair, and each run begins
//! a pause after the last has ended. The interval is that of `surtax-statistics` over the pairs, as
//! in a report: of the centre of their ratios, which is not quite the ratio of the medians.

use crate::figure::{Figure, Sheet, claims_equality};
use crate::ratio::{median, ratio};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Pause before each run, of either. A runtime that moves its container into a group waits for a
/// grace period of RCU, but not within about 30 ms of the last such move: right behind a short run
/// it would take three quarters of what it takes alone.
///
/// Source: Linux `kernel/rcu/sync.c`, `rcu_sync_enter`.
pub const REST: Duration = Duration::from_millis(50);

/// A claim of equality goes on until its interval is this part of its bar, whatever it says,
const NARROW: f64 = 0.5;

/// and for so many pairs at most.
const PAIRS_MAX: u32 = 200;

/// Runs `ours` and `theirs` alternating, after one of each that does not count: `usual` times
/// unless told otherwise, and on for a bar that claims equality. Prints the ratio, and what both
/// took; returns the median of ours, in seconds.
pub fn compare(
    sheet: &mut Sheet,
    name: &str,
    bar: Option<RangeInclusive<f64>>,
    usual: u32,
    mut ours: impl FnMut() -> Duration,
    mut theirs: impl FnMut() -> Duration,
) -> f64 {
    let least = sheet.count(usual);
    let goes_on = claims_equality(bar.as_ref()) && least == usual;
    let most = if goes_on { least.max(PAIRS_MAX) } else { least };
    let rested = |run: &mut dyn FnMut() -> Duration| {
        std::thread::sleep(REST);
        run()
    };
    let (mut ours, mut theirs) = (|| rested(&mut ours), || rested(&mut theirs));
    ours();
    theirs();
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    let mut paired = None;
    for pair in 0..most {
        if pair % 2 == 0 {
            our_times.push(ours().as_secs_f64());
            their_times.push(theirs().as_secs_f64());
        } else {
            their_times.push(theirs().as_secs_f64());
            our_times.push(ours().as_secs_f64());
        }
        if pair + 1 < least {
            continue;
        }
        let found = ratio(&our_times, &their_times);
        paired = Some(found);
        if bar
            .as_ref()
            .is_none_or(|bar| found.high - found.low <= NARROW * (bar.end() - bar.start()))
        {
            break;
        }
    }
    let paired = paired.expect("there is at least one pair");
    let count = u32::try_from(our_times.len()).expect("pairs are few");
    let (our, their) = (median(&our_times), median(&their_times));
    let interval = Some((paired.low, paired.high));
    sheet.put(&Figure { name, value: our / their, interval, unit: "", bar, count });
    println!("  medians: ours {:.2} ms, theirs {:.2} ms", our * 1e3, their * 1e3);
    our
}
