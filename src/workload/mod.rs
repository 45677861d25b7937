//! Workloads: programs that measure, as data: what to run, how to read what it prints, what to
//! believe.
//!
//! A workload is a TOML file. It resolves, with its parameters, to an ordinary command, which a
//! trial runs like any other; what that printed is then read into metrics. A number that is missing
//! or not plausible, work that was not done, and a version of the tool that nobody has looked at
//! make a trial invalid: nothing is ever guessed.

pub mod account;
mod bounds;
pub mod definition;
mod extract;
mod file;
mod histogram;
pub mod instances;
mod json;
mod keys;
mod lasting;
pub mod metric;
mod output;
pub mod parameter;
pub mod port;
mod reader;
mod rules;
pub mod shelf;
mod unit;

use crate::fault::Fault;
pub use definition::Definition;
use instances::InstanceIndex;
pub use instances::Instanced;
pub use metric::{Better, Metric, quantile_name};
pub use output::{Absence, Histogrammed, WorkloadReading};
use serde::{Deserialize, Serialize};

/// Largest standard output of a workload, in bytes; what is longer is not read.
pub const OUTPUT_LIMIT: u32 = 256 << 10;

/// Beginning of the key of a fact that is a setting of the workload.
pub const SETTING: &str = "setting_";

/// A workload as a plan holds it: complete, whatever becomes of the file that it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Workload {
    /// Name of the workload, or the path of its file.
    pub name: String,
    /// The parameters that were named, in the order of the file; the others have their defaults.
    pub parameters: Vec<(String, String)>,
    /// The text of its file.
    pub text: String,
}

impl Workload {
    /// Finds the workload that `typed` asks for: `NAME`, or `NAME:key=value,key=value`.
    ///
    /// # Errors
    /// The user's: there is no such workload, its file is wrong, or it has no such parameter.
    pub fn find(typed: &str) -> Result<Self, Fault> {
        let (name, assignments) = match typed.split_once(':') {
            Some((name, assignments)) => (name, parameter::assignments(assignments, typed)?),
            None => (typed, Vec::new()),
        };
        let text = shelf::text(name)?;
        Self::of(name, text, assignments)
    }

    /// The workload in a text, with these parameters.
    ///
    /// # Errors
    /// The user's: the text is wrong, or there is no such parameter or value.
    pub fn of(name: &str, text: String, parameters: Vec<(String, String)>) -> Result<Self, Fault> {
        let definition = Definition::parse(&text, &shelf::shown(name))?;
        let parameters = definition.ordered(name, parameters)?;
        Ok(Self { name: name.to_owned(), parameters, text })
    }

    /// Returns what its file says, with its parameters in every command.
    ///
    /// # Errors
    /// The user's: a file that an older surtax took, and this one does not.
    pub fn resolve(&self) -> Result<Definition, Fault> {
        self.resolve_at(InstanceIndex::ONLY)
    }

    /// Returns what findings need of its file, and compiles nothing of it: the names and units of
    /// what it measures, and whether it works for a fixed time. It cannot be run, and reads no
    /// output.
    ///
    /// # Errors
    /// The user's: a file that an older surtax took, and this one does not.
    pub fn outline(&self) -> Result<Definition, Fault> {
        file::outline(&self.text, &shelf::shown(&self.name))
    }

    /// The same as [`Workload::resolve`] for each of so many instances that run at once: a load is
    /// split among them, and each has ports of its own.
    ///
    /// # Errors
    /// As [`Workload::resolve`]; also the user's where an instance would have a value that cannot
    /// be.
    pub fn instances(&self, count: u32) -> Result<Vec<Definition>, Fault> {
        (0..count).map(|instance| self.resolve_at(InstanceIndex { instance, count })).collect()
    }

    /// The same with another value of one parameter.
    ///
    /// # Errors
    /// The user's: the file is wrong, or it has no such parameter or value.
    fn with_parameter(&self, name: &str, value: String) -> Result<Self, Fault> {
        let mut parameters = self.parameters.clone();
        parameters.retain(|(key, _)| key != name);
        parameters.push((name.to_owned(), value));
        Self::of(&self.name, self.text.clone(), parameters)
    }

    fn resolve_at(&self, place: InstanceIndex) -> Result<Definition, Fault> {
        let definition = Definition::parse(&self.text, &shelf::shown(&self.name))?;
        definition.with(&self.name, &self.parameters, place)
    }

    /// As [`Workload::find`] reads it.
    #[must_use]
    pub fn typed(&self) -> String {
        let pairs: Vec<String> =
            self.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if pairs.is_empty() {
            self.name.clone()
        } else {
            format!("{}:{}", self.name, pairs.join(","))
        }
    }
}
