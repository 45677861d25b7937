//! Quantiles, the five-number summary, and the distribution-free interval of a quantile.

use crate::confidence::Confidence;
use crate::sample::Sample;
use std::fmt;

/// The quantile at `share` (0 is the least value, 1 the greatest), of Hyndman and Fan's type 7.
///
/// Linear between the two nearest values, as in R and `NumPy` by default. Source: Hyndman and Fan,
/// "Sample Quantiles in Statistical Packages", The American Statistician 50(4), 1996. A share
/// outside 0 to 1 is taken as the nearer end, a NaN as 0.
///
/// ```
/// use surtax_statistics::{Sample, quantile};
///
/// let sample = Sample::new(&[4.0, 1.0, 3.0, 2.0])?;
/// // (4 - 1) × 0.25 = 0.75: three quarters of the way from 1 to 2.
/// assert_eq!(quantile(&sample, 0.25), 1.75);
/// assert_eq!(quantile(&sample, 0.5), 2.5);
/// # Ok::<(), surtax_statistics::Unusable>(())
/// ```
#[must_use]
pub fn quantile(sample: &Sample, share: f64) -> f64 {
    quantile_of_sorted(sample.sorted(), share)
}

/// [`quantile`] of values that are ascending and at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the place is floored and lies within the sample"
)]
pub(crate) fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let place = last as f64 * share;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = place - place.floor();
    if part == 0.0 {
        return sorted[below];
    }
    sorted[below] * (1.0 - part) + sorted[above] * part
}

/// Summary of a sample, in its own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// First quartile, type 7.
    pub quartile_first: f64,
    /// The median.
    pub median: f64,
    /// Third quartile, type 7.
    pub quartile_third: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Tukey's five numbers, with quartiles of type 7 (Exploratory Data Analysis, 1977, chapter 2).
    ///
    /// ```
    /// use surtax_statistics::{Sample, Summary};
    ///
    /// let summary = Summary::of(&Sample::new(&[5.0, 1.0, 4.0, 2.0, 3.0])?);
    /// assert_eq!((summary.count, summary.min, summary.max), (5, 1.0, 5.0));
    /// assert_eq!((summary.quartile_first, summary.median, summary.quartile_third), (2.0, 3.0, 4.0));
    /// # Ok::<(), surtax_statistics::Unusable>(())
    /// ```
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        Self {
            count: sample.sorted().len(),
            min: quantile(sample, 0.0),
            quartile_first: quantile(sample, 0.25),
            median: quantile(sample, 0.5),
            quartile_third: quantile(sample, 0.75),
            max: quantile(sample, 1.0),
        }
    }
}

/// A quantile with two values of the sample that enclose the true one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileInterval {
    /// The sample's quantile, of type 7.
    pub quantile: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Actual coverage of the interval, at least what was asked: order statistics come in steps.
    pub confidence: f64,
}

/// The sample is too small to enclose the quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Number of values in the sample.
    pub have: usize,
    /// Number of values that it takes; `None` where no number would do: nothing encloses the least
    /// value or the greatest.
    pub need: Option<usize>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.need {
            Some(need) => {
                write!(
                    f,
                    "an interval of this quantile takes {need} values, there are {}",
                    self.have
                )
            }
            None => {
                write!(f, "no number of values encloses a quantile that is not between 0 and 1")
            }
        }
    }
}

impl std::error::Error for Unsupported {}

/// The interval of the quantile at `p` between two order statistics, for independent values of any
/// shape.
///
/// Source: David and Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1: the number of
/// values below the true quantile is binomial with `p`. A tail that the sample does not reach is
/// refused and not extrapolated.
///
/// ```
/// use surtax_statistics::{Confidence, Sample, Unsupported, quantile_interval};
///
/// // Of 36 values all are below the true p90 with chance 0.9³⁶ = 0.0225, and at most 28 with 0.0235.
/// let values: Vec<f64> = (1..=36).map(f64::from).collect();
/// let p90 = quantile_interval(&Sample::new(&values)?, 0.9, Confidence::P95)?;
/// assert_eq!((p90.low, p90.quantile, p90.high), (29.0, 32.5, 36.0));
///
/// // For p99.9 it takes ln 0.025 / ln 0.999 = 3687.04 of them.
/// let p999 = quantile_interval(&Sample::new(&values)?, 0.999, Confidence::P95);
/// assert_eq!(p999, Err(Unsupported { have: 36, need: Some(3688) }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// How many values it takes when even the whole range covers too seldom.
pub fn quantile_interval(
    sample: &Sample,
    p: f64,
    confidence: Confidence,
) -> Result<QuantileInterval, Unsupported> {
    let sorted = sample.sorted();
    let count = sorted.len();
    let skipped = |share| values_to_skip(count, share, confidence.tail());
    let ((below, below_chance), (above, above_chance)) = (p > 0.0 && p < 1.0)
        .then(|| skipped(p).zip(skipped(1.0 - p)))
        .flatten()
        .ok_or_else(|| Unsupported { have: count, need: values_needed(p, confidence) })?;
    let found = quantile(sample, p);
    Ok(QuantileInterval {
        quantile: found,
        // At a low confidence both may lie on one side of what is interpolated.
        low: sorted[below].min(found),
        high: sorted[count - 1 - above].max(found),
        confidence: 1.0 - below_chance - above_chance,
    })
}

/// Returns how many values at the lower end the interval of the quantile at `p` may leave out, and
/// the chance that the quantile lies below what is left. `None` where the sample is too small.
fn values_to_skip(count: usize, p: f64, tail: f64) -> Option<(usize, f64)> {
    // Logarithms, since 2^-n is zero to a float from about a thousand values on.
    let mut ln_term = count as f64 * (1.0 - p).ln();
    let ln_odds = p.ln() - (1.0 - p).ln();
    let mut beyond = 0.0;
    let mut found = None;
    for below in 0..count {
        beyond += ln_term.exp();
        if beyond > tail * (1.0 + 1e-12) {
            break;
        }
        found = Some((below, beyond));
        ln_term += ((count - below) as f64 / (below + 1) as f64).ln() + ln_odds;
    }
    found
}

/// The fewest values whose range covers the quantile: all on one side with at most the tail's
/// chance.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive whole number; one beyond all integers becomes the greatest"
)]
fn values_needed(p: f64, confidence: Confidence) -> Option<usize> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    // The same slack as above, as a logarithm.
    let ln_tail = (confidence.tail() * (1.0 + 1e-12)).ln();
    Some((ln_tail / p.max(1.0 - p).ln()).ceil().max(1.0) as usize)
}

#[cfg(test)]
mod tests;
