//! Units: what a tool prints, and what the ledger keeps of it.
//!
//! A ledger has one unit for each kind of quantity, so that two tools that measure the same thing
//! can be compared: times are nanoseconds, sizes bytes, whatever their tools print.

use crate::table::rows;
use std::sync::LazyLock;

/// A unit that a tool prints, the one that the ledger keeps, and how many of that one it is.
#[derive(Debug)]
pub struct Unit {
    /// As a workload file says it.
    pub printed: &'static str,
    /// As the ledger and the reports say it.
    pub kept: &'static str,
    /// Times this.
    pub factor: f64,
}

/// Every unit that a workload file may name.
pub static UNITS: LazyLock<Vec<Unit>> = LazyLock::new(|| {
    let unit = |[printed, kept, factor]: [&'static str; 3]| Unit {
        printed,
        kept,
        factor: factor.parse().unwrap_or(f64::NAN),
    };
    rows(include_str!("units.tsv")).map(unit).collect()
});

/// The unit that a word means which people write in its place.
fn of_word(written: &str) -> Option<&'static Unit> {
    let [_, printed] = rows(include_str!("unit_words.tsv")).find(|[word, _]| *word == written)?;
    find(printed)
}

/// The unit that somebody meant who wrote another word: `µs`, `ops/s`, `MB/sec`.
pub fn meant(written: &str) -> Option<&'static Unit> {
    if let Some(unit) = of_word(written) {
        return Some(unit);
    }
    let (what, per) = written.split_once('/')?;
    if !["s", "sec", "second"].contains(&per) {
        return None;
    }
    let is_counted = what.len() > 1
        && what.bytes().all(|byte| byte.is_ascii_lowercase())
        && !["bit", "byte"].iter().any(|size| what.contains(size));
    if is_counted {
        return find("1/s");
    }
    let known = format!("{what}/s");
    find(&known).or_else(|| of_word(&known))
}

/// The unit of this name.
pub fn find(printed: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| unit.printed == printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_so_many_of_the_one_that_is_kept_and_each_word_means_one() {
        for unit in UNITS.iter() {
            let kept = find(unit.kept).map(|kept| (kept.kept, kept.factor));
            assert!(unit.factor > 0.0 && kept == Some((unit.kept, 1.0)), "{unit:?}");
        }
        for [word, _] in rows::<2>(include_str!("unit_words.tsv")) {
            assert!(of_word(word).is_some(), "{word}");
        }
    }

    #[test]
    fn a_unit_in_other_words_is_understood_and_one_that_may_be_two_is_not() {
        for (written, printed) in [
            ("\u{b5}s", "us"),
            ("\u{3bc}s", "us"),
            ("ops/s", "1/s"),
            ("req/s", "1/s"),
            ("words/sec", "1/s"),
            ("MB/sec", "MB/s"),
            ("B/sec", "bytes/s"),
            ("%", "percent"),
        ] {
            assert_eq!(meant(written).map(|unit| unit.printed), Some(printed), "{written}");
        }
        for written in ["Mb/s", "mbits/s", "m/s", "MB/min", "parsec", "/s"] {
            assert!(meant(written).is_none(), "{written}");
        }
    }
}
