//! The contract of a proof, and what it says: figures, each with its bar.

use super::bench::Bench;
use super::binomial;
use crate::fault::Fault;
use serde::Serialize;

/// A campaign whose truth is known.
pub struct Proof {
    /// The word after `--only`.
    pub name: &'static str,
    /// One line for people: what is asked, and of what.
    pub summary: &'static str,
    /// Runs that it is made of, in the order in which they are made.
    pub parts: fn(Size) -> Vec<Part>,
    /// Carries it out, and adds each figure when it is counted, so that a proof which does not come
    /// to its end leaves those that did. A missed bar is no fault; that it was interrupted is one
    /// of the user's.
    pub prove: fn(&Bench<'_>, Size, &mut Vec<Figure>) -> Result<(), Fault>,
}

/// Runs of a proof that take equally long.
#[derive(Clone, Debug)]
pub struct Part {
    /// The word after `--part`, such as `kills/qemu+runc`; none where it is not made alone.
    pub name: Option<String>,
    /// Number of runs of a plan.
    pub run_count: u32,
    /// Rough time that one of them takes, in milliseconds: for an estimate of what is left.
    pub run_ms: u32,
}

impl Part {
    /// Runs of simulated stacks, or of commands that take no time.
    pub(super) fn short(run_count: u32) -> Self {
        Self::of(run_count, 75)
    }

    /// Runs that are made with all others of the proof.
    pub(super) fn of(run_count: u32, run_ms: u32) -> Self {
        Self { name: None, run_count, run_ms }
    }

    /// Runs that can be made alone.
    pub(super) fn alone(name: String, run_count: u32, run_ms: u32) -> Self {
        Self { name: Some(name), run_count, run_ms }
    }
}

impl Proof {
    /// Returns the number of runs of a plan that it makes.
    #[must_use]
    pub fn run_count(&self, size: Size) -> u32 {
        (self.parts)(size).iter().map(|part| part.run_count).sum()
    }

    /// Returns roughly how long one of them takes, in milliseconds, counted from 0.
    #[must_use]
    pub fn run_ms(&self, size: Size, run: u32) -> u32 {
        let parts = (self.parts)(size);
        let mut before = 0;
        let part = parts.iter().find(|part| {
            before += part.run_count;
            run < before
        });
        part.map_or(0, |part| part.run_ms)
    }

    /// Returns roughly how long all of them take, in milliseconds.
    #[must_use]
    pub fn total_ms(&self, size: Size) -> u64 {
        let parts = (self.parts)(size);
        parts.iter().map(|part| u64::from(part.run_count) * u64::from(part.run_ms)).sum()
    }

    /// Returns the names of the parts that can be made alone.
    #[must_use]
    pub fn part_names(&self, size: Size) -> Vec<String> {
        (self.parts)(size).into_iter().filter_map(|part| part.name).collect()
    }
}

/// Size of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Minutes, with every test run: finds what is badly broken.
    Quick,
    /// The numbers that are published; may take hours.
    Full,
}

impl Size {
    /// Returns the name of the size.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// One of two numbers.
    #[must_use]
    pub fn pick(self, quick: u32, full: u32) -> u32 {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// One figure with its bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Figure {
    /// Part of the proof: a shape of noise, a planted cost, a kind of fault.
    pub part: String,
    /// Number of tries.
    pub tried: u32,
    /// Number of times that `what` happened.
    pub found: u32,
    /// Event that is counted: `called different`, `outside the interval`.
    pub what: &'static str,
    /// Number that is allowed.
    pub bar: Bar,
    /// Source of the bar, or the reason why there is none.
    pub because: String,
}

impl Figure {
    /// A figure of so many tries, and the number of those in which it happened. It is only shown,
    /// until [`Figure::bar`] says what is allowed.
    pub(super) fn new(
        part: impl Into<String>,
        [tried, found]: [u32; 2],
        what: &'static str,
    ) -> Self {
        let (bar, because) = (Bar::Shown, String::new());
        Self { part: part.into(), tried, found, what, bar, because }
    }

    /// The same with a bar, and the source of that or the reason why there is none.
    pub(super) fn bar(self, bar: Bar, because: impl Into<String>) -> Self {
        Self { bar, because: because.into(), ..self }
    }

    /// Judges nothing where the share that was made holds nothing to judge, and nothing was missed:
    /// a fault that was planted and did not happen is.
    #[must_use]
    pub fn of_a_share(self) -> Self {
        if self.tried > 0 || !self.is_met() || self.bar == Bar::Shown {
            return self;
        }
        self.bar(Bar::Shown, "nothing to judge in this share")
    }

    /// Tells whether what was found is within the bar; a line without one misses nothing.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.bar.holds(self.found)
    }
}

/// Number that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// This many or fewer.
    AtMost(u32),
    /// This many or more.
    AtLeast(u32),
    /// From the first to the second.
    Within(u32, u32),
    /// Any number: it is shown and not judged.
    Shown,
}

impl Bar {
    /// Bar that a share of `rate` misses twice in a thousand campaigns of so many tries.
    pub(super) fn around(tried: u32, rate: f64) -> Self {
        Self::Within(binomial::at_least(tried, rate), binomial::at_most(tried, rate))
    }

    pub(super) fn holds(self, found: u32) -> bool {
        match self {
            Self::AtMost(most) => found <= most,
            Self::AtLeast(least) => found >= least,
            Self::Within(least, most) => (least..=most).contains(&found),
            Self::Shown => true,
        }
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
            Self::Shown => f.write_str("none"),
        }
    }
}
