//! Definition of a workload, as its file says it.

use super::extract::Extract;
use super::instances::Fold;
use super::metric::{Better, quantile_name};
pub use super::parameter::{Kind, Parameter};
use super::unit::Unit;
use crate::driver;
use crate::fault::Fault;
use crate::layer::StackSpec;
use surtax_engines::OURSELVES;
use surtax_instrument::histogram::SHARES;

/// A workload file, read. Before its parameters are filled in, its commands have places for them.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// One line that says what it measures.
    pub about: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The same where it runs beside another and has to go on until that has ended.
    pub beside: Option<Vec<String>>,
    /// The other side, if it has two: what the command, which is the client then, calls.
    pub server: Option<Vec<String>>,
    /// True if the server is ended when its client has, since it does not end by itself.
    pub stops_server: bool,
    /// True if its client calls it by datagrams, and not over TCP.
    pub is_over_udp: bool,
    /// True if its command listens by itself, on the network of its stack.
    pub listens: bool,
    /// Port where it or its server listens, once that is known: its parameter of that name.
    pub port: Option<u16>,
    /// Place where the client of the two runs.
    pub client: Client,
    /// Run in the started stack before it, one after the other, and not measured.
    pub setup: Vec<Vec<String>>,
    /// Run there after it, likewise.
    pub cleanup: Vec<Vec<String>>,
    /// Packages to install, by the name of the distribution.
    pub packages: Vec<(String, Vec<String>)>,
    /// True if it needs the stack's scratch directory.
    pub scratch: bool,
    /// True if only one of it can run at a time in a stack.
    pub is_alone: bool,
    /// True if it works for a time that it is told, so that its wall time says nothing.
    pub is_of_fixed_time: bool,
    /// In the order of the file.
    pub parameters: Vec<Parameter>,
    /// Versions of the tool that its parsers are known to fit.
    pub version: Option<Version>,
    /// That the work was done.
    pub checks: Vec<Check>,
    /// The numbers that it measures.
    pub metrics: Vec<Rule>,
    /// The distributions that it measures, each of which becomes quantiles.
    pub histograms: Vec<Rule>,
    /// Settings that it was measured with, which alone move its numbers.
    pub settings: Vec<Setting>,
}

impl Definition {
    /// The name of its first metric that is there wherever it runs: what it is about. A
    /// distribution has its median for that.
    #[must_use]
    pub fn main_metric(&self) -> Option<String> {
        let always = self.metrics.iter().find(|metric| !metric.is_optional);
        let median = || self.histograms.first().map(|it| format!("{}_p50", it.name));
        always.map(|metric| metric.name.clone()).or_else(median)
    }
}

/// Place where the client of a workload with two sides runs; its server runs in the other place.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Client {
    /// Outside, on the level of the measurement.
    #[default]
    Native,
    /// In the stack.
    Stack,
    /// In another stack, which stands beside it.
    Beside(StackSpec),
}

impl Client {
    /// The parameter that says so, which every workload with two sides has.
    pub const PARAMETER: &str = "client";

    /// Values that it may have, for people.
    pub const WORDS: &str =
        "`native`, `stack`, or another stack such as `runc:net=veth`, `qemu:net=tap` or `ssh:HOST`";

    /// Reads one.
    ///
    /// # Errors
    /// The user's: it is no stack.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        match text {
            "native" => Ok(Self::Native),
            "stack" => Ok(Self::Stack),
            other => driver::parse(other).map(Self::Beside),
        }
    }
}

/// No workload measures more, quantiles of histograms counted one by one.
pub const METRICS_MAX: usize = 1_000;

/// Known versions of a tool.
#[derive(Clone, Debug)]
pub struct Version {
    /// Command that prints the version.
    pub command: Vec<String>,
    /// Place of the version in that output.
    pub extract: Extract,
    /// Those that are known.
    pub known: Vec<String>,
}

/// Rule for one number: where it is, and what it is.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Name of the number.
    pub name: String,
    /// Unit in which the tool prints it.
    pub unit: &'static Unit,
    /// Direction that is better.
    pub better: Better,
    /// Place of the number in the output.
    pub extract: Extract,
    /// Limits of the number, in the unit that the tool prints.
    pub limits: Limits,
    /// True if the tool may say that there is no such number here, by a `null`.
    pub is_optional: bool,
    /// Place where it says why, if it does.
    pub why: Option<Extract>,
    /// Way in which the numbers of several instances become one.
    pub fold: Fold,
}

/// A text without which the numbers say little: where both ends were, how they waited.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name of the setting.
    pub name: String,
    /// Place of the setting in the output.
    pub extract: Extract,
}

/// A number that shows whether the work was done.
#[derive(Clone, Debug)]
pub struct Check {
    /// Description of what it shows, for people.
    pub about: String,
    /// Place of the number in the output.
    pub extract: Extract,
    /// Limits that the number must keep.
    pub limits: Limits,
}

/// The least and the most that a number may be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// The least, if there is one.
    pub min: Option<f64>,
    /// The most, if there is one.
    pub max: Option<f64>,
}

impl Limits {
    /// Tells whether a number lies within; one that is not finite never does.
    pub fn admit(&self, number: f64) -> bool {
        number.is_finite()
            && self.min.is_none_or(|min| number >= min)
            && self.max.is_none_or(|max| number <= max)
    }

    /// For people: `between 1 and 9`, `at least 1`.
    pub fn words(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min.total_cmp(&max).is_eq() => format!("{min}"),
            (Some(min), Some(max)) => format!("between {min} and {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => String::from("a number"),
        }
    }
}

impl Definition {
    /// Reads the text of a workload file; `name` is what errors call it.
    ///
    /// # Errors
    /// The user's, with the line of the file.
    pub fn parse(text: &str, name: &str) -> Result<Self, Fault> {
        super::file::parse(text, name)
    }

    /// Every metric that a trial of it may have: names, units of the ledger, directions.
    #[must_use]
    pub fn metric_names(&self) -> Vec<String> {
        let own = self.metrics.iter().map(|rule| rule.name.clone());
        let of = |rule: &Rule| SHARES.map(|(end, _)| quantile_name(&rule.name, end));
        own.chain(self.histograms.iter().flat_map(of)).collect()
    }

    /// Tells how to get the tool where it is missing, if the file says.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let of = |name: &str| self.packages.iter().find(|(distribution, _)| distribution == name);
        let (distribution, packages) = of("debian").or(self.packages.first())?;
        let packages = packages.join(" ");
        Some(match distribution.as_str() {
            "debian" => format!("apt-get install {packages}"),
            other => format!("install {packages} (so called in {other})"),
        })
    }

    /// Tells whether its command is a part of the agent.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.command.first().is_some_and(|program| program == OURSELVES)
    }
}
