//! Student's t: how far a mean of few values may stray, in standard errors.
//!
//! For whole degrees of freedom the distribution is a finite sum (Abramowitz and Stegun, Handbook
//! of Mathematical Functions, 1964, 26.7.3 and 26.7.4), so no approximation enters where values are
//! few; the critical value is its bisection.

use crate::confidence::Confidence;
use crate::normal;

/// Above this the normal quantile is used; it is smaller by 0.12 % there.
const NORMAL_FROM: u32 = 1000;

/// The t beyond which, on both sides together, `1 - confidence` of the distribution lies.
///
/// ```
/// use surtax_statistics::{Confidence, critical_value};
///
/// // Every printed t table: 12.706 for 1 degree of freedom, 4.303 for 2, 2.262 for 9.
/// assert!((critical_value(1, Confidence::P95) - 12.706).abs() < 1e-3);
/// assert!((critical_value(2, Confidence::P95) - 4.303).abs() < 1e-3);
/// assert!((critical_value(9, Confidence::P95) - 2.262).abs() < 1e-3);
/// ```
///
/// Zero degrees of freedom give infinity: one value says nothing about its own error.
#[must_use]
pub fn critical_value(degrees_of_freedom: u32, confidence: Confidence) -> f64 {
    if degrees_of_freedom == 0 {
        return f64::INFINITY;
    }
    if degrees_of_freedom > NORMAL_FROM {
        return normal::quantile(1.0 - confidence.tail());
    }
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..60 {
        let angle = f64::midpoint(low, high);
        if share_within(angle, degrees_of_freedom) < confidence.share() {
            low = angle;
        } else {
            high = angle;
        }
    }
    f64::from(degrees_of_freedom).sqrt() * low.tan()
}

/// The share within ±t, where `angle` is the arc tangent of t / √(degrees of freedom).
fn share_within(angle: f64, degrees_of_freedom: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees_of_freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    // Terms of 26.7.3 (odd) run cos θ, ⅔ cos³ θ, …; those of 26.7.4 (even) 1, ½ cos² θ, ….
    let mut power = if odd { 1 } else { 0 };
    while power + 2 <= degrees_of_freedom {
        sum += term;
        term *= cosine * cosine * f64::from(power + 1) / f64::from(power + 2);
        power += 2;
    }
    if odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum }
}

/// Variance of one value, as known from elsewhere than the scatter of the values themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    /// The variance, in the square of the values' unit.
    pub(crate) variance: f64,
    /// On how many degrees of freedom it rests.
    pub(crate) count: usize,
}

impl Within {
    /// Nothing is known.
    pub(crate) const NOTHING: Self = Self { variance: 0.0, count: 0 };
}

/// The interval of the mean of `values`: t standard errors to each side.
///
/// Source: Student, "The Probable Error of a Mean", Biometrika 6(1), 1908.
pub(crate) fn interval(values: &[f64], within: Within, confidence: Confidence) -> (f64, f64) {
    let (mean, error, degrees_of_freedom) = mean_and_error(values, within);
    let half = critical_value(degrees_of_freedom, confidence) * error;
    (mean - half, mean + half)
}

/// The chance of a mean so far from 0, were 0 the true one; two-sided, from few values.
///
/// 1 where `centre` and the mean lie on either side of 0: the interval holds both.
pub(crate) fn p_value(values: &[f64], within: Within, centre: f64) -> f64 {
    let (mean, error, degrees_of_freedom) = mean_and_error(values, within);
    let is_on_both_sides = mean.min(centre) <= 0.0 && 0.0 <= mean.max(centre);
    if is_on_both_sides {
        return 1.0;
    }
    // No error at all gives a right angle, within which everything lies.
    let angle = mean.abs().atan2(error * f64::from(degrees_of_freedom).sqrt());
    (1.0 - share_within(angle, degrees_of_freedom)).clamp(0.0, 1.0)
}

/// The mean, its standard error, and the degrees of freedom of that.
///
/// The error is that of the values' own scatter, or that of their scatter and the variance within
/// pooled, whichever is greater: few values that are alike by luck do not make an error small, and
/// values that scatter more than was known keep their own.
fn mean_and_error(values: &[f64], within: Within) -> (f64, f64, u32) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let degrees_of_freedom = u32::try_from(values.len() - 1).unwrap_or(u32::MAX);
    let own = squares / (count - 1.0);
    let known = within.count as f64;
    let pooled = (squares + known * within.variance) / (count - 1.0 + known);
    (mean, (own.max(pooled) / count).sqrt(), degrees_of_freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_printed_tables_at_95_and_99_percent() {
        let table = [
            (1, 12.706_205, 63.656_741),
            (2, 4.302_653, 9.924_843),
            (3, 3.182_446, 5.840_909),
            (4, 2.776_445, 4.604_095),
            (7, 2.364_624, 3.499_483),
            (30, 2.042_272, 2.749_996),
            (1000, 1.962_339, 2.580_755),
        ];
        for (degrees_of_freedom, p95, p99) in table {
            assert!((critical_value(degrees_of_freedom, Confidence::P95) - p95).abs() < 1e-5);
            assert!((critical_value(degrees_of_freedom, Confidence::P99) - p99).abs() < 1e-5);
        }
    }

    #[test]
    fn one_value_says_nothing_and_very_many_are_normal() {
        assert_eq!(critical_value(0, Confidence::P95), f64::INFINITY);
        assert!((critical_value(u32::MAX, Confidence::P95) - 1.959_964).abs() < 1e-5);
    }
}
