//! SIGKILL at every system call of a ledger's life that can change a file: afterwards it opens,
//! shows, and goes on.

use super::super::fixture::{add, done, id, plan};
use super::super::{Ledger, RunState, TrialState, shelf};
use crate::finding::compare;
use crate::lab::tests::tracer::{kill_at_each, mark, place};
use std::collections::HashSet;
use std::path::Path;
use surtax_instrument::quantity::Nanoseconds;

/// The name of [`a_life`], for the program that is started again.
const LIFE: &str = "ledger::tests::kill_points::a_life";

/// The name of the test that kills.
const LIVES: &str = "ledger::tests::kill_points::\
                     a_kill_at_every_system_call_of_its_life_leaves_a_ledger_that_opens_shows_and_goes_on";

const TRIALS: u32 = 2;

/// Creates a run, half of it interrupted, and ends it: what the process that is traced does between
/// the two marks.
#[test]
fn a_life() {
    let Some(place) = place() else { return };
    mark();
    let names = shelf::names(&place, "make", Nanoseconds(0)).unwrap();
    let mut ledger = Ledger::create_first(names, &plan(&["native"]), &[], None).unwrap();
    println!("begun");
    let path = ledger.path().to_path_buf();
    for block in 0..TRIALS {
        if block == 1 {
            ledger.finish(RunState::Interrupted).unwrap();
            drop(ledger);
            ledger = Ledger::resume(&path).unwrap();
        }
        add(&mut ledger, &done(id(block, 0), 10));
        println!("ended");
    }
    ledger.finish(RunState::Finished).unwrap();
    drop(ledger);
    mark();
}

#[test]
fn a_kill_at_every_system_call_of_its_life_leaves_a_ledger_that_opens_shows_and_goes_on() {
    kill_at_each(LIVES, LIFE, |_, _| (), |place, said, point, ()| assert_whole(place, said, point));
}

/// Demands of what a kill has left all that was promised, and a run that can be ended.
fn assert_whole(place: &Path, said: &str, point: usize) {
    let is_beside = |name: &str| name.ends_with(".surtax-wal") || name.ends_with(".surtax-shm");
    let entries = std::fs::read_dir(place).unwrap().flatten();
    let names: Vec<String> =
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    let strange: Vec<&String> =
        names.iter().filter(|name| !name.ends_with(".surtax") && !is_beside(name)).collect();
    assert!(strange.is_empty(), "point {point} leaves {strange:?}");
    let found = shelf::find(&[place], "last");
    if !said.contains("begun") && found.is_err() {
        assert_eq!(names.len(), 0, "point {point}");
        return;
    }
    let path = found.unwrap_or_else(|fault| panic!("point {point}: {fault}; {names:?}"));
    let ended = said.matches("ended").count();
    let show = |what: &str| {
        let reader = Ledger::open(&path).unwrap_or_else(|it| panic!("point {point}, {what}: {it}"));
        let findings = compare(&reader).unwrap_or_else(|it| panic!("point {point}, {what}: {it}"));
        (findings, reader)
    };
    let (findings, reader) = show("after the kill");
    let counted = findings.arms[0].trial_count;
    assert!(counted as usize >= ended, "point {point}: {ended} ended, {counted} are there");
    let is_finished = reader.run().unwrap().state == RunState::Finished;
    assert!(!is_finished || ended == TRIALS as usize, "point {point}");
    drop(reader);
    let mut resumed = Ledger::resume(&path).unwrap_or_else(|it| panic!("point {point}: {it}"));
    resumed.void_unfinished().unwrap();
    let known = resumed.done().unwrap();
    let all: HashSet<_> = (0..TRIALS).map(|block| id(block, 0)).collect();
    for missing in all.difference(&known) {
        add(&mut resumed, &done(*missing, 10));
    }
    resumed.finish(RunState::Finished).unwrap();
    drop(resumed);
    let (_, reader) = show("after its end");
    let trials = reader.trials().unwrap();
    let done = trials.iter().filter(|trial| trial.state == TrialState::Done);
    assert_eq!(done.count(), TRIALS as usize, "point {point}");
    let left = std::fs::read_dir(place).unwrap().count();
    assert_eq!(left, 1, "point {point}: a finished run is one file");
}
