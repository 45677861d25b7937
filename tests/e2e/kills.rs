//! Quick campaigns of SIGKILLs at random moments, and of several surtaxes at once;
//! `surtax prove --only kills,at-once` are the whole ones.

use crate::machine::{Machine, is_required};
use crate::prove::lines;

#[test]
fn nothing_is_left_and_no_finished_trial_is_lost_after_a_kill_at_any_moment() {
    let machine = Machine::alone();
    let lines = lines(&machine, "kills");
    let (all, stacks): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["part"] == "all");
    for line in stacks {
        let stack = line["part"].as_str().unwrap();
        let is_gap = line["bar"] == "shown";
        assert!(!(is_gap && is_required(stack)), "`{stack}` must be killed here: {line:#}");
    }
    let hits = all[0]["tried"].as_u64().unwrap();
    assert!(hits >= 10, "only {hits} kills hit anything");
    machine.assert_as_before();
}

#[test]
fn four_at_once_do_not_disturb_each_other() {
    let machine = Machine::alone();
    let lines = lines(&machine, "at-once");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0]["tried"].as_u64() >= Some(4), "{lines:#?}");
    machine.assert_as_before();
}
