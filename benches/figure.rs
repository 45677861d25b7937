//! Figures: one printed line each, held against its bar, and an exit status for whoever enforces
//! it.
//!
//! Every benchmark takes the same arguments: `--enforce` fails where a bar is missed, `--count N`
//! repeats N times instead of as often as the figure asks for, to see that it works at all. One of
//! several parts takes `--only NAME` for one of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// One measured number.
pub struct Figure<'a> {
    /// Name of what was measured, the benchmark's first.
    pub name: &'a str,
    /// The number.
    pub value: f64,
    /// 95 % interval of the number, or its lowest and highest value: `name` says which.
    pub interval: Option<(f64, f64)>,
    /// The unit of all of them; empty for a ratio.
    pub unit: &'static str,
    /// Range in which it must lie; `None` for one that only informs. A bar that begins at 0 is held
    /// by the value. One with two ends claims equality, and is held only by the whole interval.
    pub bar: Option<RangeInclusive<f64>>,
    /// Number of repeats that it rests on.
    pub count: u32,
}

impl Figure<'_> {
    /// Tells whether the bar is held; a figure without a bar always is.
    fn is_met(&self) -> bool {
        let Some(bar) = &self.bar else { return true };
        let ends = self.interval.filter(|_| claims_equality(Some(bar)));
        bar.contains(&self.value)
            && ends.is_none_or(|(low, high)| bar.contains(&low) && bar.contains(&high))
    }
}

/// Tells whether a bar has two ends.
pub fn claims_equality(bar: Option<&RangeInclusive<f64>>) -> bool {
    bar.is_some_and(|bar| *bar.start() > 0.0)
}

impl fmt::Display for Figure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        write!(f, "{}: {:.4}", self.name, self.value)?;
        if let Some((low, high)) = self.interval {
            write!(f, " [{low:.4}, {high:.4}]")?;
        }
        write!(f, "{unit}")?;
        match &self.bar {
            Some(bar) if claims_equality(Some(bar)) => {
                write!(f, ", bar {} to {}{unit}", bar.start(), bar.end())?;
            }
            Some(bar) => write!(f, ", bar at most {}{unit}", bar.end())?,
            None => return write!(f, ", no bar, N {}", self.count),
        }
        let verdict = if self.is_met() { "met" } else { "missed" };
        write!(f, ", N {}: {verdict}", self.count)
    }
}

/// All figures of one benchmark.
pub struct Sheet {
    enforce: bool,
    count: Option<u32>,
    only: Option<String>,
    missed: bool,
}

impl Sheet {
    /// Reads the arguments; what cargo adds for its own harness is passed over.
    pub fn open() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let given = |option: &str| words.iter().position(|word| word == option);
        let value = |option: &str| words.get(given(option)? + 1);
        let count = value("--count").and_then(|count| count.parse().ok());
        assert!(given("--count").is_none() || count.is_some(), "--count wants a number");
        let only = value("--only").cloned();
        Self { enforce: given("--enforce").is_some(), count, only, missed: false }
    }

    /// Tells whether a part of the benchmark is to be measured.
    #[allow(dead_code, reason = "most benchmarks are of one part")]
    pub fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }

    /// Returns how often to repeat: as often as the figure asks for, unless told otherwise.
    pub fn count(&self, usual: u32) -> u32 {
        self.count.unwrap_or(usual)
    }

    /// Prints a figure, and remembers whether its bar was missed.
    pub fn put(&mut self, figure: &Figure<'_>) {
        println!("{figure}");
        self.missed |= !figure.is_met();
    }

    /// The exit status: a failure only where bars are enforced.
    pub fn close(self) -> ExitCode {
        if self.enforce && self.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
