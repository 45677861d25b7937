//! A run with one condition, for the tests of what is said about it.

use super::compare;
use crate::ledger::fixture::{add, done, id, ledger};
use crate::trial::Record;

/// Returns what a caution says of a run of three blocks of a second, of `native` twice and then
/// `runc`, in which `value` gives the condition of a trial by its block and its arm, if it has one.
pub(super) fn caution_of_run(
    code: &str,
    condition: &str,
    value: impl Fn(u32, u32) -> Option<f64>,
) -> Option<String> {
    caution_of_records(code, |block, arm, record| {
        record.conditions.extend(value(block, arm).map(|value| (condition.to_owned(), value)));
    })
}

/// The same of trials as `change` leaves them.
pub(super) fn caution_of_records(
    code: &str,
    change: impl Fn(u32, u32, &mut Record),
) -> Option<String> {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc"]);
    for (block, arm) in (0..3).flat_map(|block| (0..3).map(move |arm| (block, arm))) {
        let mut record = done(id(block, arm), 1_000_000_000 + u64::from(block));
        change(block, arm, &mut record);
        add(&mut ledger, &record);
    }
    let found = compare(&ledger).unwrap();
    let caution = found.cautions.into_iter().find(|caution| caution.code == code);
    caution.map(|caution| caution.finding)
}
