//! Metrics of a workload: a named number with a unit and a better direction.

use surtax_instrument::histogram::SHARES;
use surtax_instrument::words;
use surtax_statistics::Histogram;

/// Direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, sizes.
    Lower,
    /// Rates.
    Higher,
}

/// One number of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name in the ledger and in reports.
    pub name: String,
    /// Unit in the ledger and in reports.
    pub unit: &'static str,
    /// Direction that is better.
    pub better: Better,
    /// The number in that unit.
    pub value: f64,
}

/// The names that mean something else already, as people type them and as ledgers have them.
pub const RESERVED: [&str; 24] = [
    "wall", "wall_ns", "wall_inside_ns", "cpu", "cpu_total_ns", "cpu_user", "cpu_user_ns",
    "cpu_system", "cpu_system_ns", "cpu_others", "cpu_others_ns", "cpu_unseen_ns",
    "cpu_user_inside_ns", "cpu_system_inside_ns", "memory", "memory_peak_bytes", "memory_others",
    "memory_others_peak_bytes", "start", "start_ns", "stop", "stop_ns", "energy", "energy_uj",
];

/// A quantile takes so many times on its thinner side.
const BEYOND_MIN: f64 = 10.0;

/// The longest name, in bytes.
const NAME_LIMIT: usize = 48;

words!(Better { Lower: "lower", Higher: "higher" });

/// Tells whether a text can be a name in a workload file.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()) && text.bytes().all(is_plain)
}

/// Returns why a name cannot be that of a metric, if it cannot.
#[must_use]
pub fn name_fault(name: &str) -> Option<&'static str> {
    if !is_name(name) {
        return Some("a name is small letters, digits and `_`, and begins with a letter");
    }
    if name.len() > NAME_LIMIT {
        return Some("a name has at most 48 letters");
    }
    let is_taken = is_of_a_meter(name) || RESERVED.contains(&name);
    is_taken.then_some("surtax measures something of that name itself")
}

/// Tells whether it is the energy by a meter that somebody named.
#[must_use]
pub fn is_of_a_meter(name: &str) -> bool {
    name.starts_with("energy_") && name.ends_with("_uj")
}

/// The name of a quantile of a histogram, given what engines call it: `p99_9` is written `p99.9`.
#[must_use]
pub fn quantile_name(histogram: &str, end: &str) -> String {
    format!("{histogram}_{}", end.replace('_', "."))
}

/// The quantiles of a histogram that it has enough times for, in nanoseconds; less is better.
///
/// Each has at least ten times on its thinner side, so p99 takes a thousand.
#[must_use]
pub fn quantiles(name: &str, histogram: &Histogram) -> Vec<Metric> {
    let count = histogram.count() as f64;
    let supported = |share: f64| count * share.min(1.0 - share) >= BEYOND_MIN * (1.0 - 1e-9);
    let of = |(end, share): (&str, f64)| {
        let value = histogram.quantile(share).filter(|_| supported(share))?;
        let value = value as f64;
        let name = quantile_name(name, end);
        Some(Metric { name, unit: "ns", better: Better::Lower, value })
    };
    SHARES.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_takes_ten_times_on_its_thinner_side() {
        let names = |count: u64| -> Vec<String> {
            let mut histogram = Histogram::new();
            for value in 1..=count {
                histogram.record(value).unwrap();
            }
            quantiles("latency", &histogram).into_iter().map(|metric| metric.name).collect()
        };
        assert!(names(19).is_empty());
        assert_eq!(names(20), ["latency_p50"]);
        assert_eq!(names(999).last().unwrap(), "latency_p95");
        assert_eq!(names(1_000).last().unwrap(), "latency_p99");
        assert_eq!(names(1_000).len(), 7);
        assert_eq!(names(100_000).last().unwrap(), "latency_p99.99");
    }

    #[test]
    fn a_name_is_plain_and_not_one_of_ours() {
        for name in ["iops", "latency_p95", "a1"] {
            assert_eq!(name_fault(name), None, "{name}");
        }
        let ours = ["wall", "memory_peak_bytes", "energy_snmp_uj"];
        for name in ["", "1a", "Iops", "a-b", "a.b", &"x".repeat(49)].into_iter().chain(ours) {
            assert!(name_fault(name).is_some(), "{name}");
        }
    }
}
