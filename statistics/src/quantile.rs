//! Quantiles, the five-number summary, and the distribution-free interval of a median.

use crate::confidence::Confidence;
use crate::sample::{Sample, TooFew};

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
#[expect(clippy::cast_precision_loss, reason = "samples are shorter than 2^52 values")]
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

/// What a sample looks like, in its own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many values.
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

/// A median with the two values of the sample that enclose the true one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// The sample's median.
    pub median: f64,
    /// Lower end, a value of the sample.
    pub low: f64,
    /// Upper end, a value of the sample.
    pub high: f64,
    /// What the interval really covers, at least what was asked: order statistics come in steps.
    pub confidence: f64,
}

/// The interval of the median between two order statistics, for independent values of any shape.
///
/// Source: David and Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1: the number of values
/// below the true median is binomial with one half.
///
/// ```
/// use surtax_statistics::{Confidence, Sample, median_interval};
///
/// let sample = Sample::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let interval = median_interval(&sample, Confidence::P95)?;
/// // Both ends fail when all six values are on one side: 2 / 2⁶ = 1 / 32.
/// assert_eq!((interval.low, interval.high), (1.0, 6.0));
/// assert_eq!(interval.confidence, 1.0 - 1.0 / 32.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// How many values it takes when even the whole range covers too seldom: 6 for 95 %.
pub fn median_interval(sample: &Sample, confidence: Confidence) -> Result<MedianInterval, TooFew> {
    let sorted = sample.sorted();
    let count = sorted.len();
    let (skipped, beyond) = values_to_skip(count, confidence.tail())
        .ok_or_else(|| TooFew { have: count, need: values_for_median(confidence) })?;
    Ok(MedianInterval {
        median: quantile(sample, 0.5),
        low: sorted[skipped],
        high: sorted[count - 1 - skipped],
        confidence: 1.0 - 2.0 * beyond,
    })
}

/// How many values at each end the interval may leave out, and the chance to miss at one end.
#[expect(clippy::cast_precision_loss, reason = "samples are shorter than 2^52 values")]
fn values_to_skip(count: usize, tail: f64) -> Option<(usize, f64)> {
    // Logarithms, since 2^-n is zero to a float from about a thousand values on.
    let mut ln_term = -(count as f64) * std::f64::consts::LN_2;
    let mut beyond = 0.0;
    let mut found = None;
    for below in 0..count {
        beyond += ln_term.exp();
        if beyond > tail * (1.0 + 1e-12) {
            break;
        }
        found = Some((below, beyond));
        ln_term += ((count - below) as f64 / (below + 1) as f64).ln();
    }
    found
}

/// The fewest values whose range covers the median often enough: 2^-n at most the tail.
fn values_for_median(confidence: Confidence) -> usize {
    let mut chance = 1.0;
    let mut count = 0;
    while chance > confidence.tail() * (1.0 + 1e-12) && count < 64 {
        chance /= 2.0;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests;
