//! Check that every arm found its files in memory, or that none did.
//!
//! What a command reads from a disk in one stack and from the page cache in another is charged to
//! the stack. The counter is this machine's own and whoever reads at the same time is in it, so the
//! words are of the machine, medians are compared, and only what is large.

use crate::finding::Caution;
use crate::finding::caution::{Signs, caution};
use crate::finding::estimate::median;
use crate::finding::number;
use crate::finding::stacks::Stacks;

/// Less than this is what programs and their libraries come to, and what others read meanwhile.
const SLACK_BYTES: f64 = 8.0 * 1_048_576.0;

/// Ratio above which a difference is not put down to chance.
const FACTOR: f64 = 2.0;

/// The arms that read much more or much less from disks than the baseline.
pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let of = |arms: std::ops::Range<usize>| {
        let columns = signs.columns.get(arms).unwrap_or_default();
        let trials = columns.iter().flat_map(|column| &column.counted);
        let read: Vec<f64> =
            trials.filter_map(|trial| signs.conditions.page_ins.get(&trial.id).copied()).collect();
        median(&read)
    };
    let expected = of(0..2)?;
    let is_unequal = |read: &f64| {
        let (less, more) = (read.min(expected), read.max(expected));
        more - less > SLACK_BYTES && more > FACTOR * less
    };
    let found: Vec<(&str, f64)> = (2..signs.arms.len())
        .filter_map(|arm| Some((signs.arms.get(arm)?, of(arm..arm + 1).filter(is_unequal)?)))
        .map(|(arm, read)| (arm.stack.as_str(), read))
        .collect();
    found.first()?;
    let all = Stacks::counted(signs.arms);
    let words = all.with_numbers("ran,", &found, |read| number::amount(read, "bytes"));
    Some(caution(
        "unequal-cache",
        format!(
            "while the baseline ran, the whole machine read {} from its disks in a trial, but \
             while {words}: what one found in memory the other did not, or somebody else read \
             meanwhile, who is counted as well",
            number::amount(expected, "bytes")
        ),
        "let every stack find the same: let the command read its files once more with `--warmup 1`",
    ).of(found.iter().map(|(stack, _)| *stack)))
}

#[cfg(test)]
mod tests {
    use crate::finding::tests::caution_of_run;

    /// Returns what is said where the compared arm read so many MiB per trial, and the baseline so
    /// many.
    fn said(baseline: f64, compared: f64) -> Option<String> {
        caution_of_run("unequal-cache", "page_in_bytes", |_, arm| {
            Some(if arm == 2 { compared } else { baseline } * 1_048_576.0)
        })
    }

    #[test]
    fn a_stack_that_found_a_cold_cache_is_told_of_and_so_is_a_baseline() {
        let cold = said(0.0, 32.0).unwrap();
        let whole = "while the baseline ran, the whole machine read 0 B from its disks in a trial, \
                     but while `runc` ran, 32.0 MiB";
        assert!(cold.contains(whole), "{cold}");
        assert!(!cold.contains("`runc` read"), "nobody knows that it was the stack: {cold}");
        assert!(said(64.0, 1.0).is_some());
    }

    #[test]
    fn a_little_more_or_as_much_is_no_sign() {
        assert_eq!(said(0.0, 7.0), None);
        assert_eq!(said(64.0, 65.0), None);
        assert_eq!(said(20.0, 32.0), None);
    }
}
