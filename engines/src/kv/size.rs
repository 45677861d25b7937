//! Lengths of keys and values: fixed, or those of Facebook's pool ETC.
//!
//! Source: B. Atikoglu, Y. Xu, E. Frachtenberg, S. Jiang, M. Paleczny, *Workload Analysis of a
//! Large-Scale Key-Value Store*, SIGMETRICS 2012, section 5 and table 5. Lengths of keys follow the
//! generalised extreme value distribution,
//!
//! F(x) = exp(−(1 + k (x − µ) / σ)^(−1/k)), with µ = 30.7984, σ = 8.20449, k = 0.078688;
//!
//! values of up to 14 bytes have the shares of the table below, and longer ones follow the
//! generalised Pareto distribution,
//!
//! F(x) = 1 − (1 + k (x − θ) / σ)^(−1/k), with θ = 15, σ = 214.476, k = 0.348238.
//!
//! Both are drawn by the inverse of F, and rounded to the nearest byte.

use super::random::{mixed, share_of};
use crate::{Options, Refused};
use surtax_instrument::quantity::whole;

/// The longest key that memcached takes, in bytes.
const KEY_LIMIT: usize = 250;

/// The longest value, in bytes: memcached's limit of 1 MiB counts what it keeps beside the value
/// too.
pub(super) const VALUE_LIMIT: usize = 1_000_000;

/// The shares of values of 0 to 14 bytes.
const HEAD: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// A distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// All alike.
    Fixed(usize),
    /// Of keys in ETC.
    EtcKey,
    /// Of values there.
    EtcValue,
}

impl Size {
    /// Reads the length of keys that was typed.
    ///
    /// # Errors
    /// The user's: it is neither `etc` nor a length.
    pub(super) fn of_keys(options: &Options) -> Result<Self, Refused> {
        read(options, "key-size", Self::EtcKey, 1..=KEY_LIMIT as u64)
    }

    /// Reads the length of values that was typed.
    ///
    /// # Errors
    /// The user's: it is neither `etc` nor a length.
    pub(super) fn of_values(options: &Options) -> Result<Self, Refused> {
        read(options, "value-size", Self::EtcValue, 0..=VALUE_LIMIT as u64)
    }

    /// The length that belongs to a number, in bytes: always the same one.
    pub(super) fn of(self, number: u64) -> usize {
        let share = share_of(mixed(number));
        match self {
            Self::Fixed(length) => length,
            Self::EtcKey => nearest(extreme(share)).clamp(1, KEY_LIMIT),
            Self::EtcValue => nearest(etc_value(share)).min(VALUE_LIMIT),
        }
    }
}

fn read(
    options: &Options,
    key: &str,
    etc: Size,
    limits: std::ops::RangeInclusive<u64>,
) -> Result<Size, Refused> {
    if options.text(key).is_none_or(|text| text == "etc") {
        return Ok(etc);
    }
    let length = options.number(key, 0, limits);
    let length = length.map_err(|refused| refused.hint("a length in bytes, or `etc`"))?;
    Ok(Size::Fixed(usize::try_from(length).unwrap_or(VALUE_LIMIT)))
}

/// The length of a key that so large a share of all does not exceed.
fn extreme(share: f64) -> f64 {
    let (location, scale, shape) = (30.7984, 8.20449, 0.078_688);
    location + scale * ((-share.ln()).powf(-shape) - 1.0) / shape
}

/// The same of a value.
fn etc_value(share: f64) -> f64 {
    let mut passed = 0.0;
    for (length, part) in (0_u32..).zip(HEAD) {
        passed += part;
        if share < passed {
            return f64::from(length);
        }
    }
    15.0 + pareto((share - passed) / (1.0 - passed), 214.476, 0.348_238)
}

/// Returns the quantile, at a share from 0 to 1, of a generalised Pareto distribution that begins
/// at 0.
pub(super) fn pareto(share: f64, scale: f64, shape: f64) -> f64 {
    scale * ((1.0 - share).powf(-shape) - 1.0) / shape
}

/// To the nearest byte; what is too long is cut by the caller.
fn nearest(length: f64) -> usize {
    usize::try_from(whole(length.round())).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 400_000;

    fn drawn(size: Size) -> Vec<f64> {
        (0..COUNT).map(|number| size.of(number) as f64).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn share_up_to(values: &[f64], limit: f64) -> f64 {
        values.iter().filter(|value| **value <= limit).count() as f64 / values.len() as f64
    }

    #[test]
    fn keys_have_the_moments_and_quantiles_of_the_published_distribution() {
        let keys = drawn(Size::EtcKey);
        // µ + σ (Γ(1 − k) − 1) / k with Γ(0.921312) = 1.052027, and σ² (Γ(1 − 2k) − Γ(1 − k)²) / k²
        // with Γ(0.842624) = 1.119588. A rounded number has a twelfth more variance.
        assert!((mean(&keys) - 36.2230).abs() < 0.08, "{}", mean(&keys));
        let about = mean(&keys);
        let variance = mean(&keys.iter().map(|key| (key - about).powi(2)).collect::<Vec<_>>());
        assert!((variance - 139.53).abs() < 4.0, "{variance}");
        // F(x) at a few lengths, by hand from the formula; half a byte, since lengths are rounded.
        for (length, share) in
            [(20.5, 0.023_53), (30.5, 0.354_48), (40.5, 0.724_10), (70.5, 0.983_57)]
        {
            let found = share_up_to(&keys, length);
            assert!((found - share).abs() < 0.003, "{length}: {found} and not {share}");
        }
    }

    #[test]
    fn values_have_the_head_of_the_table_and_the_tail_of_the_formula() {
        let values = drawn(Size::EtcValue);
        for (length, share) in (0_u32..).zip(HEAD) {
            let found = values.iter().filter(|it| **it == f64::from(length)).count() as f64;
            let found = found / COUNT as f64;
            assert!((found - share).abs() < 0.003, "{length}: {found} and not {share}");
        }
        // 0.55845 (15 + σ / (1 − k)) + 2.29836.
        assert!((mean(&values) - 194.44).abs() < 3.0, "{}", mean(&values));
        // 0.44155 + 0.55845 (1 − (1 + k (x − 15) / σ)^(−1/k)).
        for (length, share) in [(100.5, 0.615_53), (500.5, 0.894_78), (2000.5, 0.991_08)] {
            let found = share_up_to(&values, length);
            assert!((found - share).abs() < 0.003, "{length}: {found} and not {share}");
        }
    }
}
