//! Ends of processes.

use std::fmt;

/// Way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By `exit`, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Killed by the agent: it ran past its deadline.
    Deadline,
    /// Killed by the agent: we asked.
    Cancelled,
}

impl Status {
    /// Order of how badly it ended: with 0, with another code, killed.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Exit(0) => 0,
            Self::Exit(_) => 1,
            Self::Signal(_) | Self::Deadline | Self::Cancelled => 2,
        }
    }

    /// The first of the worst of these; `None` of none.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|worst, it| if it.rank() > worst.rank() { it } else { worst })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Deadline => write!(f, "deadline"),
            Self::Cancelled => write!(f, "cancelled"),
        }
    }
}
