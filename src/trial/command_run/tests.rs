//! Tests of what an inside says at the end of a command, and of what is believed of it.

use super::*;
use crate::agent::ConsoleTail;
use crate::agent::tests::AgentEnd;
use crate::fault::Blame;
use std::os::unix::net::UnixStream;
use surtax_instrument::amount::Amounts;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::{Outcome, Output, Reading, Role, Status};

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
    starter.say(&Reply::Exited(outcome()));
    starter.say(&Reply::Bill(bill));
    end_of(&mut link, Nanoseconds(1), (SOON, SOON), Deeper::of(0, 2), || ())
}

#[test]
fn one_that_is_gone_is_not_waited_for_again() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("gone", reader, ours, &ConsoleTail::new()).unwrap();
    drop(AgentEnd::greeted(theirs, &mut link));
    let ended = end_of(&mut link, Nanoseconds(1), (SOON, SOON), None, || panic!("it was woken"));
    assert_eq!(ended.map(|_| ()).unwrap_err().message, "gone: the agent is gone");
}

#[test]
fn one_that_is_silent_after_the_deadline_is_woken() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let reader = ours.try_clone().unwrap();
    let mut link = Link::over("frozen", reader, ours, &ConsoleTail::new()).unwrap();
    let mut agent = AgentEnd::greeted(theirs, &mut link);
    let limits = (Duration::ZERO, Duration::from_millis(100));
    let ended = end_of(&mut link, Nanoseconds(1), limits, None, || {
        agent.say(&Reply::Ended { at: Nanoseconds(2) });
        agent.say(&Reply::Exited(outcome()));
    });
    assert_eq!(ended.unwrap().outcome.status, Status::Exit(0));
    let fault = end_of(&mut link, Nanoseconds(1), limits, None, || ()).map(|_| ()).unwrap_err();
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
