//! A share of a campaign: every so many of its units, so that several surtaxes make it at the same time.

use std::str::FromStr;

/// Which of how many shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Counted from 0.
    number: u32,
    count: u32,
}

impl Share {
    /// Whether a unit is in it.
    #[must_use]
    pub fn holds(self, unit: u32) -> bool {
        unit % self.count == self.number
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || format!("`{text}` is no share: write it as in `1/2`, the first of two");
        let (number, count) = text.split_once('/').ok_or_else(refused)?;
        let number: u32 = number.parse().map_err(|_| refused())?;
        let count: u32 = count.parse().map_err(|_| refused())?;
        if number == 0 || number > count {
            return Err(refused());
        }
        Ok(Self { number: number - 1, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_units_and_each_unit_is_in_one() {
        let shares = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Share>().unwrap());
        for unit in 0..20 {
            assert_eq!(shares.iter().filter(|share| share.holds(unit)).count(), 1, "{unit}");
        }
        for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
