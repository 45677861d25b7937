//! One trial as a campaign runs it, without the ledger.

use crate::opened_lab::OpenedLab;
use std::path::PathBuf;
use surtax::driver;
use surtax::plan::{Plan, TrialId, TrialSettings};
use surtax::stack::start::StartContext;
use surtax::trial::protocol::{self, Purpose};
use surtax::trial::{Measured, TrialResult};

/// A plan of one stack and one command, in this process's environment.
pub fn plan(stack: &str, command: &[&str]) -> Plan {
    let stack = driver::parse(stack).expect("the stack is spelled right");
    Plan {
        schema_version: surtax::plan::SCHEMA_VERSION,
        title: String::from("a benchmark"),
        stacks: vec![stack.clone()],
        baseline: stack,
        workload: None,
        beside: Vec::new(),
        meters: Vec::new(),
        command: command.iter().map(|word| (*word).into()).collect(),
        cwd: PathBuf::from("/"),
        environment: Vec::new(),
        inherit_environment: true,
        writable: Vec::new(),
        runs: None,
        time_budget_ns: None,
        precision_ppm: None,
        looks: 1,
        warm_up: 0,
        conduct: TrialSettings::plain(),
        command_deadline_ns: 600_000_000_000,
        start_deadline_ns: 180_000_000_000,
        equivalence_margin_ppm: 30_000,
        seed: 0,
    }
}

/// Runs trial `number` of a plan, to time it. It must succeed and leave nothing.
#[allow(dead_code, reason = "one benchmark counts")]
pub fn run(plan: &Plan, number: u32, opened: &OpenedLab) -> Measured {
    run_for(plan, number, Purpose::Timing, opened)
}

/// The same for another purpose.
pub fn run_for(plan: &Plan, number: u32, purpose: Purpose, opened: &OpenedLab) -> Measured {
    let trial = TrialId { block: number, position: 0, arm: 0 };
    let record = protocol::run(
        trial,
        &plan.baseline,
        (plan, purpose),
        &StartContext { writable: &plan.writable, ..opened.context() },
        &mut |_, _| {},
    );
    assert!(record.leftovers.is_empty(), "left behind: {:?}", record.leftovers);
    match record.result {
        TrialResult::Done(measured) => *measured,
        other => panic!("the trial failed: {other:?}"),
    }
}
