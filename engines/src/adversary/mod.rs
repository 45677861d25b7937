//! Adversaries and neighbours: loads that press on what holds a stack, each with bounds of its own.
//!
//! What could take a machine down is let go only where somebody else holds it: a limit of a cgroup,
//! or a machine that is a guest of ours. So the same words typed on a bare host are refused,
//! whoever types them.

pub(super) mod allocbomb;
pub mod forge;
pub(super) mod forkbomb;
mod limits;
pub(super) mod load;
pub(super) mod logflood;
mod shared;
pub(super) mod synflood;
pub(super) mod thrash;

use super::{OptionSpec, Options, Refused, option};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};

/// The longest that an adversary works.
const LONGEST: Duration = Duration::from_secs(600);

/// Time that an adversary works where nobody says.
const USUAL: Duration = Duration::from_secs(2);

/// Longest time that an adversary works where somebody ends it.
const UNTIL_ENDED_MOST: Duration = Duration::from_secs(24 * 3600);

/// Option for the time that most of them have alike.
const DURATION: OptionSpec = option("duration", "TIME", "for how long; 2s");

/// Of one that presses on others beside it, for as long as they take.
const UNTIL_ENDED: OptionSpec =
    option("until-ended", "", "until somebody ends it, whatever `--duration`; a day");

/// Reads the time that an adversary shall work.
fn duration(options: &Options) -> Result<Duration, Refused> {
    if options.has(UNTIL_ENDED.key) {
        return Ok(UNTIL_ENDED_MOST);
    }
    let asked = options.duration("duration", USUAL)?;
    if asked <= LONGEST {
        return Ok(asked);
    }
    let (asked, longest) = (asked.as_secs(), LONGEST.as_secs());
    Err(Refused::user(format!("an adversary for {asked} s is too much"))
        .hint(format!("let it work for {longest} s at most")))
}

/// An amount such as `64M`, at most `most`.
fn bytes(options: &Options, key: &str, usual: Bytes, most: Bytes) -> Result<u64, Refused> {
    let Some(text) = options.text(key) else { return Ok(usual.0) };
    let read = Bytes::parse(text).ok().filter(|amount| (1..=most.0).contains(&amount.0));
    read.map(|amount| amount.0).ok_or_else(|| {
        let (shown, most) = (text.escape_debug(), most.mebibytes());
        Refused::user(format!("`--{key} {shown}` is no amount from 1 byte to {most} MiB"))
            .hint(format!("write one such as `--{key} 64M`"))
    })
}

/// A clock that runs out.
#[derive(Clone, Copy)]
struct Term {
    began: Nanoseconds,
    end: Nanoseconds,
}

impl Term {
    fn of(duration: Duration) -> Self {
        let began = clock::monotonic();
        Self { began, end: began + duration.into() }
    }

    fn is_over(self) -> bool {
        clock::monotonic() >= self.end
    }

    /// Returns the nanoseconds that have gone since it began.
    fn gone_ns(self) -> u64 {
        clock::monotonic().since(self.began).0
    }
}

/// Asks the kernel to kill this process before any other, where memory ends: where it will not, all
/// are alike.
///
/// Source: Linux `Documentation/filesystems/proc.rst`, 3.1.
fn die_first() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Returns a rate per second, from a count and a time in nanoseconds that is not zero.
fn per_second(count: u64, took_ns: u64) -> f64 {
    count as f64 / took_ns as f64 * 1e9
}
