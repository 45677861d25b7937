//! Reads what a workload measured: the numbers in what its command printed, of all runs in one
//! start and of all instances.

use super::conditions::real;
use super::trial_workload::TrialWorkload;
use crate::workload::{Histogrammed, Instanced, OUTPUT_LIMIT, SETTING, WorkloadReading};
use std::collections::BTreeMap;
use surtax_instrument::wire::{Fact, Instance, Outcome, Output, Status};
use surtax_statistics::{Sample, Summary};

/// Name of the time that an instance took, by the clock of the innermost level.
pub(super) const WALL_OF_INSTANCE: &str = "wall_ns";

/// Separator between two settings of one start.
const THEN: &str = "; then ";

impl TrialWorkload {
    /// The numbers of all runs of the command: medians, and histograms merged. Nothing of runs that
    /// failed.
    ///
    /// # Errors
    /// Why they cannot be believed.
    pub(super) fn read<'a>(
        &self,
        outcomes: impl Iterator<Item = &'a Outcome>,
    ) -> Result<WorkloadReading, String> {
        let mut readings = Vec::new();
        for outcome in outcomes.filter(|outcome| outcome.status == Status::Exit(0)) {
            readings.push(if self.count < 2 {
                self.read_one(&outcome.stdout, &outcome.stderr)?
            } else {
                self.read_each(outcome)?
            });
        }
        possible(whole(readings))
    }

    /// The numbers of several instances that ran at once, and the time that each took.
    fn read_each(&self, outcome: &Outcome) -> Result<WorkloadReading, String> {
        let (asked, ran) = (self.count, outcome.instances.len());
        if u32::try_from(ran) != Ok(asked) {
            return Err(format!("{asked} instances were to run at once, and {ran} are known of"));
        }
        let read = |(number, it): (u32, &Instance)| {
            let read = self.read_one(&it.stdout, &it.stderr);
            read.map_err(|why| format!("instance {number} of {asked}: {why}"))
        };
        let readings: Vec<WorkloadReading> =
            (0..).zip(&outcome.instances).map(read).collect::<Result<_, _>>()?;
        let mut all = self
            .definition
            .as_ref()
            .map_or_else(WorkloadReading::default, |it| it.together(readings));
        let wall = |(instance, it): (u32, &Instance)| Instanced {
            instance,
            metric: String::from(WALL_OF_INSTANCE),
            unit: "ns",
            value: real(it.wall.0),
        };
        all.instances.extend((0..).zip(&outcome.instances).map(wall));
        Ok(all)
    }

    /// The numbers in what one process printed.
    fn read_one(&self, stdout: &Output, stderr: &Output) -> Result<WorkloadReading, String> {
        let Some(definition) = &self.definition else { return Ok(WorkloadReading::default()) };
        if u64::try_from(stdout.tail.len()) != Ok(stdout.length.0) {
            return Err(format!(
                "it printed {}, and no more than {} KiB are read, of several instances together \
                 640",
                stdout.length,
                OUTPUT_LIMIT >> 10
            ));
        }
        let said = [&stdout.tail, &stderr.tail].map(|it| String::from_utf8_lossy(it));
        definition.read_beside(&said[0], &said[1])
    }
}

/// Returns what a workload says that it was measured with, as facts.
pub(super) fn settings(read: &WorkloadReading) -> Vec<Fact> {
    let fact = |(name, value): &(String, String)| {
        Fact::new(format!("{SETTING}{name}"), value, "what the workload says")
    };
    read.settings.iter().map(fact).collect()
}

/// Refuses what is more in all than anybody can have counted: it could not be read again.
fn possible(reading: WorkloadReading) -> Result<WorkloadReading, String> {
    match reading.histograms.iter().find(|it| !it.histogram.is_possible()) {
        None => Ok(reading),
        Some(Histogrammed { name, histogram }) => Err(format!(
            "`{name}` is said to have been counted {} times in all, more than anybody can have \
             recorded",
            histogram.count()
        )),
    }
}

/// Several runs in one start as one reading: a metric counts where every run has it.
fn whole(readings: Vec<WorkloadReading>) -> WorkloadReading {
    let count = readings.len();
    let mut readings = readings.into_iter();
    let Some(mut all) = readings.next() else { return WorkloadReading::default() };
    if count == 1 {
        return all;
    }
    let mut values: BTreeMap<(Option<u32>, String), Vec<f64>> = BTreeMap::new();
    let mut note = |reading: &WorkloadReading| {
        for it in &reading.metrics {
            values.entry((None, it.name.clone())).or_default().push(it.value);
        }
        for it in &reading.instances {
            let key = (Some(it.instance), it.metric.clone());
            values.entry(key).or_default().push(it.value);
        }
    };
    note(&all);
    for reading in readings {
        note(&reading);
        for absence in reading.absences {
            if all.absences.iter().all(|known| known.metric != absence.metric) {
                all.absences.push(absence);
            }
        }
        for Histogrammed { name, histogram } in reading.histograms {
            if let Some(sum) = all.histograms.iter_mut().find(|sum| sum.name == name) {
                sum.histogram.merge(&histogram);
            }
        }
        for ((_, known), (_, said)) in all.settings.iter_mut().zip(reading.settings) {
            if !known.split(THEN).any(|one| one == said) {
                *known = format!("{known}{THEN}{said}");
            }
        }
    }
    let settle = |value: &mut f64, instance: Option<u32>, metric: &str| {
        let values = values.get(&(instance, metric.to_owned()));
        let values = values.filter(|values| values.len() == count);
        let sample = values.and_then(|values| Sample::counts(values).ok());
        let median = sample.map(|sample| Summary::of(&sample).median);
        *value = median.unwrap_or(*value);
        median.is_some()
    };
    all.metrics.retain_mut(|it| settle(&mut it.value, None, &it.name));
    all.instances.retain_mut(|it| settle(&mut it.value, Some(it.instance), &it.metric));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_statistics::Histogram;

    #[test]
    fn runs_that_counted_more_together_than_can_be_read_again_are_refused() {
        let reading = |count: u64| {
            let mut histogram = Histogram::default();
            histogram.record_many(1_000, count).unwrap();
            let histograms = vec![Histogrammed { name: String::from("lat"), histogram }];
            WorkloadReading { histograms, ..WorkloadReading::default() }
        };
        let half = 1 << 47;
        let of = |counts: [u64; 2]| possible(whole(counts.map(reading).into()));
        let read = of([half, half]).unwrap().histograms.remove(0).histogram;
        assert!(Histogram::from_bytes(&read.to_bytes()).is_ok(), "it can be read again");
        let why = of([half, half + 1]).unwrap_err();
        assert!(why.starts_with("`lat` is said to have been counted"), "{why}");
    }
}
