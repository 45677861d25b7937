//! Reduces many trials to few stretches of time, keeping what the eye looks for: level and range.

use crate::finding::TrialPoint;
use crate::finding::estimate::float;

/// The trials that began within one stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bin {
    /// Begin of its first trial.
    pub from_ns: f64,
    /// Begin of its last trial.
    pub to_ns: f64,
    /// Number of trials.
    pub trial_count: u32,
    /// The fastest.
    pub wall_ns_min: f64,
    /// The middle one; of an even number, the mean of the middle two.
    pub wall_ns_median: f64,
    /// The slowest.
    pub wall_ns_max: f64,
}

/// Cuts trials in time order into at most `count` runs of as equal a length as possible.
///
/// Stretches hold the same number of trials rather than the same time, so that none is empty and
/// each median has the same weight.
pub fn thin(trials: &[&TrialPoint], count: usize) -> Vec<Bin> {
    let length = trials.len().div_ceil(count.max(1)).max(1);
    trials.chunks(length).filter_map(bin).collect()
}

fn bin(trials: &[&TrialPoint]) -> Option<Bin> {
    let mut walls_ns: Vec<u64> = trials.iter().filter_map(|trial| trial.wall_ns).collect();
    walls_ns.sort_unstable();
    let (min, max) = (*walls_ns.first()?, *walls_ns.last()?);
    let (below, above) = (walls_ns[(walls_ns.len() - 1) / 2], walls_ns[walls_ns.len() / 2]);
    Some(Bin {
        from_ns: float(trials.first()?.at_ns),
        to_ns: float(trials.last()?.at_ns),
        trial_count: u32::try_from(walls_ns.len()).unwrap_or(u32::MAX),
        wall_ns_min: float(min),
        wall_ns_median: f64::midpoint(float(below), float(above)),
        wall_ns_max: float(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::TrialUsage;
    use std::collections::BTreeMap;

    fn trial(at_ns: u64, wall_ns: u64) -> TrialPoint {
        TrialPoint {
            block: 0,
            position: 0,
            attempt: 1,
            at_ns,
            wall_ns: Some(wall_ns),
            start_ns: None,
            usage: TrialUsage::default(),
            metrics: BTreeMap::new(),
            state: "done".into(),
            why: String::new(),
            remedy: None,
            disturbances: Vec::new(),
        }
    }

    #[test]
    fn stretches_keep_level_range_and_number() {
        let trials: Vec<_> = (0..10).map(|i| trial(i, 100 + i)).collect();
        let bins = thin(&trials.iter().collect::<Vec<_>>(), 2);
        assert_eq!(bins.len(), 2);
        assert_eq!(bins[0].trial_count + bins[1].trial_count, 10);
        let first = (bins[0].wall_ns_min, bins[0].wall_ns_median, bins[0].wall_ns_max);
        assert_eq!(first, (100.0, 102.0, 104.0));
        assert_eq!((bins[1].from_ns, bins[1].to_ns), (5.0, 9.0));
    }

    #[test]
    fn an_outlier_survives_thinning() {
        let mut trials: Vec<_> = (0..1_000).map(|i| trial(i, 100)).collect();
        trials[500].wall_ns = Some(9_999);
        let bins = thin(&trials.iter().collect::<Vec<_>>(), 7);
        assert!(bins.len() <= 7);
        assert!(bins.iter().any(|bin| bin.wall_ns_max > 9_998.0));
    }

    #[test]
    fn no_trials_make_no_stretch() {
        assert_eq!(thin(&[], 5), []);
    }
}
