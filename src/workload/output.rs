//! From what a workload printed to its numbers: everything that it promises, or the reason why not.

use super::definition::{Definition, Rule, Version};
use super::extract::Printed;
use super::histogram;
use super::metric::{Metric, quantiles};
use serde_json::Value;
use surtax_statistics::Histogram;

/// What one run of a workload measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Its numbers, in the order of the file, those of histograms last.
    pub metrics: Vec<Metric>,
    /// Its distributions.
    pub histograms: Vec<Histogrammed>,
}

/// A named distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogrammed {
    /// Its name.
    pub name: String,
    /// The times in nanoseconds.
    pub histogram: Histogram,
}

impl Definition {
    /// Reads what the command printed.
    ///
    /// # Errors
    /// One sentence: what is missing, not plausible, or not done.
    pub fn read(&self, stdout: &str) -> Result<Reading, String> {
        let printed = Printed::of(stdout);
        for check in &self.checks {
            let about = &check.about;
            let number = check.extract.number(&printed);
            let number = number.map_err(|why| format!("whether {about} cannot be told: {why}"))?;
            if !check.limits.admit(number) {
                let wanted = check.limits.words();
                return Err(format!(
                    "it did not do its work: that {about} takes {wanted}, and it says {number}"
                ));
            }
        }
        let numbers = self.metrics.iter().filter_map(|rule| rule.metric(&printed).transpose());
        let mut metrics = numbers.collect::<Result<Vec<Metric>, String>>()?;
        let mut histograms = Vec::new();
        for rule in &self.histograms {
            let name = &rule.name;
            let histogram = histogram::read(rule, &printed);
            let histogram = histogram.map_err(|why| format!("no histogram `{name}`: {why}"))?;
            metrics.extend(quantiles(name, &histogram));
            histograms.push(Histogrammed { name: name.clone(), histogram });
        }
        Ok(Reading { metrics, histograms })
    }
}

impl Rule {
    /// The metric; nothing where the tool says that there is none, and may say so.
    fn metric(&self, printed: &Printed<'_>) -> Result<Option<Metric>, String> {
        let name = &self.name;
        if self.is_optional && self.extract.value(printed) == Ok(Value::Null) {
            return Ok(None);
        }
        let number = self.extract.number(printed);
        let number = number.map_err(|why| format!("no metric `{name}`: {why}"))?;
        if !self.limits.admit(number) {
            let (unit, wanted) = (self.unit.printed, self.limits.words());
            return Err(format!(
                "`{name}` is said to be {number} {unit}, and {wanted} is plausible"
            ));
        }
        let (unit, value) = (self.unit.kept, number * self.unit.factor);
        Ok(Some(Metric { name: name.clone(), unit, better: self.better, value }))
    }
}

impl Version {
    /// The version in what its command printed.
    ///
    /// # Errors
    /// One sentence: there is none, or nobody has looked at the output of that one.
    pub fn read(&self, output: &str) -> Result<String, String> {
        let tool = self.command.first().map_or("", String::as_str);
        let found = self.extract.text(&Printed::of(output));
        let found = found.map_err(|why| format!("the version of `{tool}` is unknown: {why}"))?;
        if self.known.contains(&found) {
            return Ok(found);
        }
        let (found, known) = (found.escape_debug(), self.known.join(", "));
        Err(format!(
            "`{tool}` is of version {found}, and its output is known of {known} only: compare the two, \
             then add it to `known` in a copy of the workload's file"
        ))
    }
}
