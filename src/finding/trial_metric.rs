//! Metrics that every trial has, and the one table in which all names of them stand.
//!
//! Any other metric is a workload's, whose definition says the same of it.

/// Wall time: the metric that gets a verdict and quantiles.
pub(crate) const WALL: &str = "wall_ns";

/// Energy that the whole machine took meanwhile, where it says.
pub(crate) const ENERGY: &str = "energy_uj";

/// Peak memory of the others: the one of them that is absent where it is not known of a trial.
pub(crate) const OTHERS_MEMORY: &str = "memory_others_peak_bytes";

/// A metric that every trial has whose machine says so much; less of it is better.
pub(crate) struct TrialMetric {
    /// Name of its field in every format; it ends with its unit.
    pub(crate) name: &'static str,
    /// Unit in which it is counted.
    pub(crate) unit: &'static str,
    /// Word for it that people type.
    pub(crate) typed: &'static str,
    /// Words by which people call it.
    pub(crate) spoken: &'static str,
    /// True of a part of the CPU time, which a claim of the inside divides.
    pub(crate) is_split: bool,
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    typed: &'static str,
    spoken: &'static str,
) -> TrialMetric {
    TrialMetric { name, unit, typed, spoken, is_split: false }
}

/// A part of the CPU time.
const fn part(name: &'static str, typed: &'static str, spoken: &'static str) -> TrialMetric {
    TrialMetric { name, unit: "ns", typed, spoken, is_split: true }
}

/// Every one, in the order of a report.
pub(crate) static TRIAL_METRICS: [TrialMetric; 10] = [
    metric(WALL, "ns", "wall", "wall time"),
    part("cpu_user_ns", "cpu-user", "CPU, user"),
    part("cpu_system_ns", "cpu-system", "CPU, system"),
    part("cpu_others_ns", "cpu-others", "CPU, others"),
    metric("cpu_total_ns", "ns", "cpu", "CPU, all"),
    metric("memory_peak_bytes", "bytes", "memory", "memory, peak"),
    metric(OTHERS_MEMORY, "bytes", "memory-others", "memory of others, peak"),
    metric("start_ns", "ns", "start", "time to start"),
    metric("stop_ns", "ns", "stop", "time to stop"),
    metric(ENERGY, "uJ", "energy", "energy of the machine"),
];

impl TrialMetric {
    /// The metric of a name, as formats have it or as people type it; `None` of a workload's.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        TRIAL_METRICS.iter().find(|it| it.name == name || it.typed == name)
    }
}

/// The name of a metric as people type it; that of a workload's is its own.
pub(crate) fn typed(metric: &str) -> &str {
    TrialMetric::of(metric).map_or(metric, |it| it.typed)
}

/// A metric as people call it; one of a workload's has no other name.
pub(crate) fn spoken(metric: &str) -> &str {
    TrialMetric::of(metric).map_or(metric, |it| it.spoken)
}

/// Tells whether every trial has this metric; any other metric is a workload's.
pub(crate) fn is_of_every_trial(metric: &str) -> bool {
    TRIAL_METRICS.iter().any(|it| it.name == metric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::metric::RESERVED;

    #[test]
    fn every_name_that_people_type_and_that_ledgers_have_is_closed_to_workloads() {
        for it in &TRIAL_METRICS {
            let plain = it.typed.replace('-', "_");
            assert!([&plain, it.name].iter().all(|name| RESERVED.contains(name)), "{plain}");
        }
    }
}
