//! Distributions that a workload measured, as points of a percentile curve.

use crate::finding::{DistributionFindings, PercentilePoint};
use crate::ledger::Histograms;
use surtax_statistics::Histogram;

/// Number of points for each further nine.
const POINTS_PER_NINE: u32 = 10;

/// No run has so many values that more nines than these say anything.
const NINES_MAX: u32 = 9;

/// A point has at least so many values beyond it.
const BEYOND_MIN: f64 = 10.0;

/// Every distribution of an arm.
pub(crate) fn of_arm(histograms: &Histograms, arm: u32) -> Vec<DistributionFindings> {
    let own = histograms.iter().filter(|((of, _), _)| *of == arm);
    own.map(|((_, name), histogram)| of(super::foreign::line(name), histogram)).collect()
}

fn of(metric: String, histogram: &Histogram) -> DistributionFindings {
    let count = histogram.count();
    let values = super::estimate::float(count);
    let share = |step: u32| {
        let beyond = 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE));
        (values * beyond >= BEYOND_MIN).then_some(1.0 - beyond)
    };
    let point = |share: f64| Some(PercentilePoint { share, value_ns: histogram.quantile(share)? });
    let steps = 0..=POINTS_PER_NINE * NINES_MAX;
    let points = steps.map_while(share).filter_map(point).collect();
    DistributionFindings { metric, value_count: count, highest_ns: histogram.quantile(1.0), points }
}

#[cfg(test)]
mod tests {
    use crate::finding::distribution::*;

    #[test]
    fn a_curve_goes_from_the_least_value_to_the_last_nine_that_ten_values_support() {
        let mut histogram = Histogram::new();
        for value_ns in 1..=100_000 {
            histogram.record(value_ns).unwrap();
        }
        let found = of(String::from("latency"), &histogram);
        assert_eq!((found.value_count, found.points.len()), (100_000, 41));
        assert_eq!(found.points[0], PercentilePoint { share: 0.0, value_ns: 1 });
        let last = found.points[40];
        assert!(
            (last.share - 0.9999).abs() < 1e-9 && last.value_ns.abs_diff(99_990) < 100,
            "{last:?}"
        );
        assert!(found.highest_ns.is_some_and(|highest| highest >= 100_000));
    }
}
