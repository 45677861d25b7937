//! Selection from a campaign: all of its parts or a few, every unit or one of so many.

use std::str::FromStr;

/// Parts of campaigns, and units of those, that are made.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Share of the units of each part.
    pub share: Share,
    /// Beginnings of the names of its parts, such as `kills/qemu`; all if empty.
    pub parts: Vec<String>,
}

impl Selection {
    /// Tells whether a part of a campaign, such as `kills/qemu+runc`, is in it.
    #[must_use]
    pub fn takes(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|begin| part.starts_with(begin))
    }
}

/// One of so many shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Counted from 0.
    number: u32,
    count: u32,
}

impl Share {
    /// Tells whether a unit is in it.
    #[must_use]
    pub fn holds(self, unit: u32) -> bool {
        unit % self.count == self.number
    }
}

impl Default for Share {
    fn default() -> Self {
        Self { number: 0, count: 1 }
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
    fn parts_are_taken_by_how_they_begin() {
        let asked = |parts: &[&str]| Selection {
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            ..Selection::default()
        };
        assert!(asked(&[]).takes("kills/runc"));
        let guests = asked(&["kills/qemu", "forged/lxc"]);
        assert!(guests.takes("kills/qemu+runc") && guests.takes("forged/lxc"));
        assert!(!guests.takes("kills/runc") && !guests.takes("forged/qemu"));
    }

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
