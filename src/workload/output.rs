//! From what a workload printed to its numbers: everything that it promises, or the reason why not.

use super::definition::{Definition, Rule, Setting, Version};
use super::extract::Printed;
use super::histogram;
use super::instances::Instanced;
use super::metric::{Metric, quantiles};
use serde_json::Value;
use surtax_statistics::Histogram;

/// Largest part kept of the reason for an absent number, in characters.
const WHY_MAX: usize = 200;

/// Largest part kept of a setting, in characters.
const SETTING_MAX: usize = 200;

/// Greatest amount that a number may have, in the unit that is kept: sums of several stay numbers.
const GREATEST: f64 = 1e300;

/// Result of one run of a workload: what it measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadReading {
    /// Numbers, in the order of the file, those of histograms last.
    pub metrics: Vec<Metric>,
    /// Distributions that it measured.
    pub histograms: Vec<Histogrammed>,
    /// The numbers that it says there are none of here.
    pub absences: Vec<Absence>,
    /// Settings that it was measured with: names and words, in the order of the file.
    pub settings: Vec<(String, String)>,
    /// The numbers of each of several instances that ran at once; empty where one ran.
    pub instances: Vec<Instanced>,
}

/// A metric that could not be measured where the workload ran, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The metric.
    pub metric: String,
    /// Reason, in the workload's words.
    pub why: String,
}

/// Answer of a workload about one metric.
enum MetricReading {
    Number(Metric),
    Nothing(Absence),
}

impl WorkloadReading {
    /// The same with none of its numbers, for this reason.
    #[must_use]
    pub fn without_numbers(self, why: &str) -> Self {
        let lost = self.metrics.into_iter().map(|metric| metric.name);
        let lost = lost.map(|metric| Absence { metric, why: why.to_owned() });
        let absences = self.absences.into_iter().chain(lost).collect();
        Self { absences, settings: self.settings, ..Self::default() }
    }
}

/// A named distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogrammed {
    /// Name of the distribution.
    pub name: String,
    /// The times in nanoseconds.
    pub histogram: Histogram,
}

impl Definition {
    /// Reads what the command printed on standard output.
    ///
    /// # Errors
    /// One sentence: what is missing, not plausible, or not done.
    pub fn read(&self, stdout: &str) -> Result<WorkloadReading, String> {
        self.read_beside(stdout, "")
    }

    /// The same; errors also tell what is on standard error, of which nothing is read.
    pub fn read_beside(&self, stdout: &str, stderr: &str) -> Result<WorkloadReading, String> {
        let printed = Printed::of(stdout).beside(stderr);
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
        let (mut metrics, mut histograms, mut absences) = (Vec::new(), Vec::new(), Vec::new());
        for rule in &self.metrics {
            match rule.found(&printed)? {
                MetricReading::Number(metric) => metrics.push(metric),
                MetricReading::Nothing(absence) => absences.push(absence),
            }
        }
        for rule in &self.histograms {
            let name = &rule.name;
            let histogram = histogram::read(rule, &printed);
            let histogram = histogram.map_err(|why| format!("no histogram `{name}`: {why}"))?;
            metrics.extend(quantiles(name, &histogram));
            histograms.push(Histogrammed { name: name.clone(), histogram });
        }
        let setting = |it: &Setting| Ok((it.name.clone(), it.read(&printed)?));
        let settings = self.settings.iter().map(setting).collect::<Result<_, String>>()?;
        Ok(WorkloadReading { metrics, histograms, absences, settings, instances: Vec::new() })
    }
}

impl Rule {
    /// The number; or that there is none, where the tool says so and may.
    fn found(&self, printed: &Printed<'_>) -> Result<MetricReading, String> {
        if !self.is_optional || self.extract.value(printed) != Ok(Value::Null) {
            return self.metric(printed).map(MetricReading::Number);
        }
        let why = match &self.why {
            Some(path) => path
                .text(printed)
                .map_err(|why| format!("no metric `{}`, and no reason: {why}", self.name))?,
            None => String::from("the workload does not say why"),
        };
        let why = why.chars().take(WHY_MAX).collect();
        Ok(MetricReading::Nothing(Absence { metric: self.name.clone(), why }))
    }

    fn metric(&self, printed: &Printed<'_>) -> Result<Metric, String> {
        let name = &self.name;
        let number = self.extract.number(printed);
        let number = number.map_err(|why| format!("no metric `{name}`: {why}"))?;
        if !self.limits.admit(number) {
            let (unit, wanted) = (self.unit.printed, self.limits.words());
            return Err(format!(
                "`{name}` is said to be {number} {unit}, and {wanted} is plausible"
            ));
        }
        let (unit, value) = (self.unit.kept, number * self.unit.factor);
        let printed = self.unit.printed;
        if value.is_nan() || value.abs() > GREATEST {
            return Err(format!("`{name}` is said to be {number} {printed}, and nothing is"));
        }
        if value < 0.0 {
            return Err(format!(
                "`{name}` is said to be {number} {printed}, and what is compared by its ratio is \
                 at least zero"
            ));
        }
        Ok(Metric { name: name.clone(), unit, better: self.better, value })
    }
}

impl Setting {
    /// Returns what the tool says of it, as far as a line has room.
    fn read(&self, printed: &Printed<'_>) -> Result<String, String> {
        let found = match self.extract.value(printed) {
            Ok(Value::Bool(is_so)) => Ok(is_so.to_string()),
            _ => self.extract.text(printed),
        };
        let found = found.map_err(|why| format!("no setting `{}`: {why}", self.name))?;
        Ok(found.chars().take(SETTING_MAX).collect())
    }
}

impl Version {
    /// The version in what its command printed.
    ///
    /// # Errors
    /// One sentence: there is none, or nobody has looked at the output of that one.
    pub fn read(&self, output: &str) -> Result<String, String> {
        let tool = self.command.first().map_or("", String::as_str);
        let found = self.extract.text(&Printed::of(output).called("what it printed"));
        let found = found.map_err(|why| format!("the version of `{tool}` is unknown: {why}"))?;
        if self.known.contains(&found) {
            return Ok(found);
        }
        let (found, known) = (found.escape_debug(), self.known.join(", "));
        Err(format!(
            "`{tool}` is of version {found}, and its output is known of {known} only: compare the \
             two, then add it to `known` in the workload's file, or, of one that comes with \
             surtax, in a copy: `surtax workload show NAME --file > mine.toml`"
        ))
    }
}
