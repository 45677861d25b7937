//! Tests of what an inside says at the end of a command, and of what is believed of it.

use super::*;
use crate::agent::ConsoleTail;
use crate::agent::tests::AgentEnd;
use crate::fault::Blame;
use std::os::unix::net::UnixStream;
use surtax_instrument::amount::Amounts;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::{Outcome, Output, Reading, Role, Status, Watching};

const SOON: Duration = Duration::from_secs(20);

fn outcome() -> Outcome {
    Outcome {
        status: Status::Exit(0),
        wall: Nanoseconds(1),
        cpu_user: Nanoseconds(1),
        cpu_system: Nanoseconds(1),
        memory_peak: Bytes(1),
        stdout: Output::default(),
        stderr: Output::default(),
        instances: Vec::new(),
        calls: None,
        stops: None,
        oom_kill_count: None,
        left_running_count: 0,
        counts: Amounts::NONE,
        agent_cpu: Nanoseconds(0),
        machine: Vec::new(),
    }
}

fn payer(level: u8) -> Reading {
    Reading {
        payer: String::from("a payer"),
        role: Role::Engine,
        level,
        amounts: Amounts::of_cpu(Nanoseconds(1_000_000_000_000_000), Nanoseconds(0)),
        carries_workload: true,
        is_shared: false,
    }
}

/// The end of a command in a stack of two layers, whose starter presents this bill.
fn end_with(bill: Vec<Reading>) -> Result<TimedRun, Fault> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("nested", reader, ours, &ConsoleTail::new()).unwrap();
    let mut starter = AgentEnd::greeted(theirs, &mut link);
    starter.say(&Reply::Ended { at: Nanoseconds(2) });
    starter.say(&Reply::Exited(outcome().into()));
    starter.say(&Reply::Bill(bill));
    let mut ear = Overheard::default();
    end_of(&mut link, Nanoseconds(1), (SOON, SOON), (Deeper::of(0, 2), &mut ear), || ())
}

#[test]
fn one_that_is_gone_is_not_waited_for_again() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("gone", reader, ours, &ConsoleTail::new()).unwrap();
    drop(AgentEnd::greeted(theirs, &mut link));
    let mut ear = Overheard::default();
    let ended = end_of(&mut link, Nanoseconds(1), (SOON, SOON), (None, &mut ear), || {
        panic!("it was woken")
    });
    assert_eq!(ended.map(|_| ()).unwrap_err().message, "gone: the agent is gone");
}

#[test]
fn one_that_is_silent_after_the_deadline_is_woken() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("frozen", reader, ours, &ConsoleTail::new()).unwrap();
    let mut agent = AgentEnd::greeted(theirs, &mut link);
    let limits = (Duration::ZERO, Duration::from_millis(100));
    let mut ear = Overheard::default();
    let ended = end_of(&mut link, Nanoseconds(1), limits, (None, &mut ear), || {
        agent.say(&Reply::Ended { at: Nanoseconds(2) });
        agent.say(&Reply::Exited(outcome().into()));
    });
    assert_eq!(ended.unwrap().outcome.status, Status::Exit(0));
    let fault =
        end_of(&mut link, Nanoseconds(1), limits, (None, &mut ear), || ()).map(|_| ()).unwrap_err();
    assert_eq!(fault.message, "frozen: no answer within 0.1 s");
}

#[test]
fn a_starter_that_claims_what_level_0_used_makes_the_trial_invalid() {
    assert_eq!(end_with(vec![payer(1)]).map(|ran| ran.bill.len()).unwrap(), 1);
    let fault = end_with(vec![payer(1), payer(0)]).map(|_| ()).unwrap_err();
    assert!(fault.message.contains("names a payer (Engine) of level 0"), "{fault}");
    // Such a fault makes a trial invalid.
    assert_eq!(fault.blame, Blame::Inside);
}

/// A reading of a whole machine of this level.
fn machine(level: u8) -> Reading {
    Reading { role: Role::Machine, carries_workload: false, ..payer(level) }
}

/// The end of a command in a guest, who sends these samples meanwhile, and tells of these machines
/// at the end.
fn end_of_watched(
    ear: &mut Overheard,
    samples: &[Reading],
    machine: Vec<Reading>,
) -> Result<TimedRun, Fault> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("watched", reader, ours, &ConsoleTail::new()).unwrap();
    let mut agent = AgentEnd::greeted(theirs, &mut link);
    let sampled = |reading: &Reading, at: u64| {
        let (at, readings) = (Nanoseconds(at), vec![reading.clone()]);
        Reply::Sampled { at, readings }
    };
    samples.iter().for_each(|it| agent.say(&sampled(it, 1)));
    agent.say(&Reply::Ended { at: Nanoseconds(2) });
    samples.iter().for_each(|it| agent.say(&sampled(it, 3)));
    agent.say(&Reply::Exited(Outcome { machine, ..outcome() }.into()));
    end_of(&mut link, Nanoseconds(1), (SOON, SOON), (None, ear), || ())
}

#[test]
fn samples_that_were_asked_for_are_heard_before_and_after_the_end_of_a_command() {
    let watching = Watching { kernel_begin_ns: 0, level: 1, every: Nanoseconds(1_000_000_000) };
    let mut ear = Overheard::of(0, watching.clone());
    ear.run_begins();
    let ran = end_of_watched(&mut ear, &[machine(1)], vec![machine(1)]).unwrap();
    assert_eq!((ear.tracks[&1].sample_count(), ran.bill.len()), (2, 1));
    assert!(ran.outcome.machine.is_empty(), "it is in the bill");
    // Of another level, or where nobody has asked, the inside has no say.
    let heard = |ear: &mut Overheard, samples: &[Reading], machine: Vec<Reading>| {
        ear.run_begins();
        end_of_watched(ear, samples, machine).map(|_| ()).unwrap_err().blame
    };
    let asked = || Overheard::of(0, watching.clone());
    assert_eq!(heard(&mut asked(), &[machine(0)], Vec::new()), Blame::Inside);
    assert_eq!(heard(&mut asked(), &[], vec![machine(0)]), Blame::Inside);
    assert_eq!(heard(&mut asked(), &[], vec![payer(1)]), Blame::Inside);
    assert_eq!(heard(&mut Overheard::default(), &[machine(1)], Vec::new()), Blame::Inside);
    assert_eq!(heard(&mut Overheard::default(), &[], vec![machine(1)]), Blame::Inside);
}
