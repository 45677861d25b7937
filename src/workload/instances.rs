//! Several instances of a workload at once in one stack: what each is asked for, and what they are
//! together.
//!
//! Rates, counts and sizes add up; times and ratios do not, and count as their mean. Of a
//! distribution the quantiles are those of all values together. What each instance measured is kept
//! beside that.

use super::definition::{Definition, Rule};
use super::metric::{Metric, quantiles};
use super::output::{Absence, Histogrammed, WorkloadReading};
use super::unit::Unit;
use crate::fault::Fault;
use surtax_instrument::words;

/// The name by which the words of a workload call the number of an instance, from 0.
pub const INSTANCE: &str = "instance";

/// Text between two settings of instances that ran beside each other.
const BESIDE: &str = "; beside it ";

/// Way in which several instances share a parameter; without one, each has the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// It is split evenly among them: a load that is asked for.
    Split,
    /// Each has the next number: a port.
    Next,
}

/// Way in which the numbers of several instances become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest.
    Largest,
}

/// One of so many instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceIndex {
    /// From 0.
    pub instance: u32,
    /// Number of instances that run at once.
    pub count: u32,
}

/// A number of one of several instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Instanced {
    /// Number of the instance, from 0.
    pub instance: u32,
    /// The metric.
    pub metric: String,
    /// Unit of the metric.
    pub unit: &'static str,
    /// The number in that unit.
    pub value: f64,
}

words!(Share { Split: "split", Next: "next" });

impl Share {
    /// The value of one instance. What is left of a whole number goes to the first ones.
    fn of(self, value: i64, InstanceIndex { instance, count }: InstanceIndex) -> i64 {
        let (instance, count) = (i64::from(instance), i64::from(count.max(1)));
        match self {
            Self::Split => value / count + i64::from(instance < value % count),
            Self::Next => value.saturating_add(instance),
        }
    }

    /// The value of one instance, given that of all.
    ///
    /// # Errors
    /// The user's: it is no number that this could be made of.
    pub(super) fn apply(
        self,
        name: &str,
        value: &str,
        place: InstanceIndex,
    ) -> Result<String, Fault> {
        let number: i64 = value.parse().map_err(|_| {
            let (value, word) = (value.escape_debug(), self.word());
            Fault::user(format!("`{name}={value}` is no whole number, and instances {word} it"))
        })?;
        Ok(self.of(number, place).to_string())
    }
}

words!(Fold { Sum: "sum", Mean: "mean", Largest: "largest" });

impl Fold {
    /// That of a metric whose file says nothing.
    #[must_use]
    pub fn usual(unit: &Unit) -> Self {
        if matches!(unit.kept, "ns" | "ratio") { Self::Mean } else { Self::Sum }
    }

    /// Returns what the numbers are together; there is at least one.
    fn of(self, values: &[f64]) -> f64 {
        let sum: f64 = values.iter().sum();
        let count = values.len() as f64;
        match self {
            Self::Sum => sum,
            Self::Mean => sum / count,
            Self::Largest => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl InstanceIndex {
    /// The only one.
    pub const ONLY: Self = Self { instance: 0, count: 1 };
}

impl Definition {
    /// Returns what several instances measured together, and each of them. A metric counts where
    /// all have it.
    #[must_use]
    pub fn together(&self, readings: Vec<WorkloadReading>) -> WorkloadReading {
        let mut all = WorkloadReading::default();
        for rule in &self.metrics {
            all.metrics.extend(together(rule, &readings));
        }
        for rule in &self.histograms {
            let own = readings.iter().flat_map(|it| &it.histograms);
            let mut own = own.filter(|it| it.name == rule.name).map(|it| it.histogram.clone());
            let Some(mut histogram) = own.next() else { continue };
            own.for_each(|other| histogram.merge(&other));
            all.metrics.extend(quantiles(&rule.name, &histogram));
            all.histograms.push(Histogrammed { name: rule.name.clone(), histogram });
        }
        for (instance, reading) in (0u32..).zip(readings) {
            all.take_settings(reading.settings);
            let is_new = |absence: &Absence, all: &WorkloadReading| {
                all.absences.iter().all(|known| known.metric != absence.metric)
            };
            for absence in reading.absences {
                if is_new(&absence, &all) {
                    all.absences.push(absence);
                }
            }
            let number = |Metric { name, unit, value, .. }: Metric| Instanced {
                instance,
                metric: name,
                unit,
                value,
            };
            all.instances.extend(reading.metrics.into_iter().map(number));
        }
        all
    }
}

impl WorkloadReading {
    /// Adds what another instance says that it was measured with, where that is something else.
    fn take_settings(&mut self, settings: Vec<(String, String)>) {
        if self.settings.is_empty() {
            self.settings = settings;
            return;
        }
        for ((_, known), (_, said)) in self.settings.iter_mut().zip(settings) {
            if !known.split(BESIDE).any(|one| one == said) {
                *known = format!("{known}{BESIDE}{said}");
            }
        }
    }
}

/// One metric of all instances, if all have it.
fn together(rule: &Rule, readings: &[WorkloadReading]) -> Option<Metric> {
    let of = |reading: &WorkloadReading| {
        reading.metrics.iter().find(|metric| metric.name == rule.name).map(|metric| metric.value)
    };
    let values: Vec<f64> = readings.iter().map(of).collect::<Option<_>>()?;
    let value = rule.fold.of(&values);
    Some(Metric { name: rule.name.clone(), unit: rule.unit.kept, better: rule.better, value })
}

#[cfg(test)]
mod tests {
    use crate::workload::Workload;

    const FILE: &str = r#"
about = "x"
command = ["x", "--rate", "{rate}", "--port", "{port}", "--file", "/tmp/x.{instance}"]
[parameters]
rate = { about = "how many", default = 10, min = 2, max = 100, instances = "split" }
port = { about = "where", default = 5000, min = 1, max = 5003, instances = "next" }
[[metric]]
name = "rate"
unit = "1/s"
better = "higher"
regex = 'rate (\d+)'
[[metric]]
name = "delay"
unit = "us"
better = "lower"
regex = 'delay (\d+)'
[[metric]]
name = "worst"
unit = "us"
better = "lower"
regex = 'worst (\d+)'
instances = "largest"
[[histogram]]
name = "latency"
unit = "ns"
jsonpath = "$.bins"
[[setting]]
name = "place"
jsonpath = "$.place"
"#;

    fn workload(parameters: &[(&str, &str)]) -> Workload {
        let pairs = parameters.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Workload::of("./x.toml", String::from(FILE), pairs.collect()).unwrap()
    }

    #[test]
    fn a_load_is_split_evenly_and_each_instance_has_a_port_and_a_file_of_its_own() {
        let of = |count| -> Vec<String> {
            let all = workload(&[]).instances(count).unwrap();
            all.iter().map(|it| it.command[2..].join(" ")).collect()
        };
        assert_eq!(of(1), ["10 --port 5000 --file /tmp/x.0"]);
        assert_eq!(
            of(3),
            [
                "4 --port 5000 --file /tmp/x.0", "3 --port 5001 --file /tmp/x.1",
                "3 --port 5002 --file /tmp/x.2"
            ]
        );
        assert_eq!(workload(&[]).resolve().unwrap().command[2], "10");
    }

    #[test]
    fn a_load_that_is_too_small_for_so_many_or_a_port_beyond_the_last_is_refused() {
        let fault = workload(&[("rate", "7")]).instances(4).unwrap_err();
        assert_eq!(
            fault.message,
            "instance 3 of 4 would have `rate=1`, which cannot be a parameter of `./x.toml`"
        );
        assert_eq!(fault.hint.as_deref(), Some("`rate` is a whole number from 2 to 100"));
        let fault = workload(&[("rate", "100")]).instances(5).unwrap_err();
        assert!(fault.message.starts_with("instance 4 of 5 would have `port=5004`"), "{fault}");
    }

    #[test]
    fn rates_add_up_and_times_do_not_and_quantiles_are_of_all_values() {
        let definition = workload(&[]).resolve().unwrap();
        let read = |rate: u32, delay: u32, bin: u32, place: &str| {
            let printed = format!(
                "rate {rate}\ndelay {delay}\nworst {delay}\n{{\"bins\": [[{bin}, 100]], \"place\": \
                 \"{place}\"}}\n"
            );
            definition.read(&printed).unwrap()
        };
        let all = definition.together(vec![read(300, 10, 1_000, "a"), read(100, 30, 9_000, "b")]);
        let value = |name: &str| all.metrics.iter().find(|it| it.name == name).unwrap().value;
        assert_eq!([value("rate"), value("delay"), value("worst")], [400.0, 20e3, 30e3]);
        assert_eq!(all.histograms[0].histogram.count(), 200);
        assert!((990.0..1_010.0).contains(&value("latency_p10")), "{}", value("latency_p10"));
        assert!((8_990.0..9_010.0).contains(&value("latency_p90")));
        assert_eq!(all.settings, [(String::from("place"), String::from("a; beside it b"))]);
        let rates: Vec<_> = all.instances.iter().filter(|it| it.metric == "rate").collect();
        assert_eq!((rates[0].instance, rates[0].value), (0, 300.0));
        assert_eq!((rates[1].instance, rates[1].value), (1, 100.0));
    }
}
