//! Samples: measured values that were looked at before anything is computed from them.
//!
//! A time of zero, a negative time, an infinity or a NaN is a defect of the measurement. It is
//! refused here by name and place, so that no estimator has to say what the logarithm of it means.

use thiserror::Error;

/// Reason why values cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Unusable {
    /// There is no value at all.
    #[error("there are no values")]
    Empty,
    /// A value is infinite or not a number.
    #[error("value {index} is `{value}`, not a finite number")]
    NotFinite {
        /// Index of the value, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value is zero or negative where a ratio will be taken.
    #[error("value {index} is `{value}`: a ratio needs values above zero")]
    NotPositive {
        /// Index of the value, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value that counts something is below zero.
    #[error("value {index} is `{value}`: a count cannot be below zero")]
    Negative {
        /// Index of the value, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
}

/// There are too few repeats for an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an interval needs at least {need} repeats, there are {have}")]
pub struct TooFew {
    /// Number at hand.
    pub have: usize,
    /// Number needed.
    pub need: usize,
}

/// Values in ascending order: at least one, each finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Takes times, sizes or whatever else must be above zero.
    ///
    /// ```
    /// use surtax_statistics::{Sample, Unusable};
    ///
    /// let refused = Sample::new(&[1.5, 0.0]);
    /// assert_eq!(refused, Err(Unusable::NotPositive { index: 1, value: 0.0 }));
    /// ```
    ///
    /// # Errors
    /// The first value that is not a positive finite number, or that there is none.
    pub fn new(values: &[f64]) -> Result<Self, Unusable> {
        let sample = Self::counts(values);
        match values.iter().position(|&value| value <= 0.0) {
            Some(index) if !matches!(sample, Err(Unusable::NotFinite { .. })) => {
                Err(Unusable::NotPositive { index, value: values[index] })
            }
            _ => sample,
        }
    }

    /// Takes counts, which may be zero: page faults, or the CPU time of a short command in ticks.
    ///
    /// # Errors
    /// The first value that is negative or not finite, or that there is none.
    pub fn counts(values: &[f64]) -> Result<Self, Unusable> {
        if values.is_empty() {
            return Err(Unusable::Empty);
        }
        for (index, &value) in values.iter().enumerate() {
            if !value.is_finite() {
                return Err(Unusable::NotFinite { index, value });
            }
            if value < 0.0 {
                return Err(Unusable::Negative { index, value });
            }
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// The values, ascending; never empty.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_time_is_refused_by_name_and_place() {
        assert_eq!(Sample::new(&[]), Err(Unusable::Empty));
        assert_eq!(Sample::new(&[1.0, -2.0]), Err(Unusable::NotPositive { index: 1, value: -2.0 }));
        assert_eq!(
            Sample::new(&[f64::INFINITY]),
            Err(Unusable::NotFinite { index: 0, value: f64::INFINITY })
        );
        assert!(matches!(
            Sample::new(&[1.0, f64::NAN]),
            Err(Unusable::NotFinite { index: 1, value }) if value.is_nan()
        ));
    }

    #[test]
    fn a_count_may_be_zero_but_not_below() {
        assert!(Sample::counts(&[0.0, 3.0]).is_ok());
        assert_eq!(Sample::counts(&[-1.0]), Err(Unusable::Negative { index: 0, value: -1.0 }));
    }

    #[test]
    fn every_refusal_says_which_value_it_was() {
        let refused = Sample::new(&[1.0, -2.0]).unwrap_err();
        assert_eq!(refused.to_string(), "value 1 is `-2`: a ratio needs values above zero");
        let few = TooFew { have: 2, need: 3 };
        assert_eq!(few.to_string(), "an interval needs at least 3 repeats, there are 2");
    }
}
