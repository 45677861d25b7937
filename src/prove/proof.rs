//! The contract of a proof, and what it says: figures, each with its bar.

use super::bench::Bench;
use crate::fault::Fault;
use serde::Serialize;

/// A campaign whose truth is known.
pub trait Proof: Sync {
    /// The word after `--only`.
    fn name(&self) -> &'static str;

    /// One line for people: what is asked, and of what.
    fn summary(&self) -> &'static str;

    /// Parts that can be made alone, such as `kills/qemu+runc`; none of a proof that is made whole.
    fn parts(&self, _size: Size) -> Vec<String> {
        Vec::new()
    }

    /// Returns the number of runs of a plan that it makes.
    fn run_count(&self, size: Size) -> u32;

    /// Returns roughly how long one of them takes, in milliseconds, counted from 0: for an estimate
    /// of what is left.
    fn run_ms(&self, _size: Size, _run: u32) -> u32 {
        75
    }

    /// Carries it out.
    ///
    /// # Errors
    /// The user's, the machine's or ours: it was interrupted, or a run could not be made at all. A
    /// missed bar is no error here.
    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped>;
}

/// A proof that did not come to its end.
#[derive(Debug)]
pub struct Stopped {
    /// Fault that stopped it.
    pub fault: Fault,
    /// Figures that it had counted until then.
    pub lines: Vec<Figure>,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self { fault, lines: Vec::new() }
    }
}

/// The lines of a proof, whether or not it came to its end.
pub(super) fn ended(how: Result<(), Fault>, lines: Vec<Figure>) -> Result<Vec<Figure>, Stopped> {
    match how {
        Ok(()) => Ok(lines),
        Err(fault) => Err(Stopped { fault, lines }),
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
    /// The proof's name.
    pub proof: &'static str,
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
    /// Judges nothing where the share that was made holds nothing to judge, and nothing was missed:
    /// a fault that was planted and did not happen is.
    #[must_use]
    pub fn of_a_share(self) -> Self {
        if self.tried > 0 || !self.is_met() || self.bar == Bar::Shown {
            return self;
        }
        Self { bar: Bar::Shown, because: String::from("nothing to judge in this share"), ..self }
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
