//! The order of acts in a trial, held against what is written down in `golden/protocol`.
//!
//! `SURTAX_BLESS=1` writes it anew: a change of the protocol shows in review as changed lines.

use crate::golden::hold;
use crate::machine::{Machine, is_usable};
use crate::suite::lab;
use std::fmt::Write as _;
use std::time::Duration;
use surtax::driver;
use surtax::driver::registered;
use surtax::lab::Lab;
use surtax::plan::{Defaults, Draft, Neighbour, Plan, TrialId, TrialSettingsDraft};
use surtax::stack::start::StartContext;
use surtax::trial::protocol::{self, Purpose};
use surtax::trial::{Measured, Record, TrialResult};
use surtax::workload::Workload;

/// A workload with every step, and a command that says a number.
const STEPS: &str = r#"
about = "says a number"
command = ["sh", "-c", "echo 7"]
setup = [["true"], ["sh", "-c", "exit {fails}"]]
cleanup = [["true"]]
[version]
command = ["echo", "1.0"]
regex = '([0-9.]+)'
known = ["1.0"]
[parameters]
fails = { about = "how the set-up ends", default = 0, min = 0, max = 1 }
[[metric]]
name = "number"
unit = "count"
better = "higher"
regex = '([0-9]+)'
min = 0
max = 10
"#;

/// The plan of one stack that runs `workload`, or `sleep` where there is none.
fn draft(stack: &str, workload: Option<Workload>) -> Draft {
    Draft {
        stacks: vec![driver::parse(stack).unwrap()],
        command: if workload.is_none() { vec!["sleep".into(), "0.2".into()] } else { Vec::new() },
        workload,
        inherit_environment: Some(true),
        runs: Some(1),
        seed: Some(1),
        ..Draft::default()
    }
}

fn complete(draft: Draft) -> Plan {
    let descriptors = registered();
    let around = Defaults::of_no_machine(&descriptors);
    draft.complete(&around).unwrap().plan
}

/// One trial of the last arm of a plan: its acts, how it ended, and what was added to its evidence.
fn trace(lab: &Lab, plan: &Plan) -> String {
    let agent = lab.agent().unwrap();
    let cache = surtax::lab::cache_directory().unwrap();
    let context = StartContext {
        lab,
        level: 0,
        agent: &agent,
        cache: &cache,
        writable: &plan.writable,
        cwd: &plan.cwd,
        command: None,
        network: None,
        start_deadline: Duration::from_secs(60),
    };
    let arms = plan.arms();
    let arm = arms.last().unwrap();
    let trial = TrialId { block: 0, position: 0, arm: arm.index };
    let mut told = String::new();
    let record =
        protocol::run(trial, &arm.stack, (plan, Purpose::Timing), &context, &mut |who, act| {
            let _ = writeln!(told, "{who:?} {act:?}");
        });
    assert_eq!(record.leftovers, Vec::<String>::new());
    told + &ended(&record)
}

/// Tells how a trial ended, with what was found out around its command: by whom, and in which
/// order.
fn ended(record: &Record) -> String {
    let (how, measured): (&str, Option<&Measured>) = match &record.result {
        TrialResult::Done(measured) => ("done", Some(measured)),
        TrialResult::Disturbed(measured) => ("disturbed", Some(measured)),
        TrialResult::CommandFailed(measured) => ("command failed", Some(measured)),
        TrialResult::Unavailable { .. } => ("unavailable", None),
        TrialResult::Broken { .. } => ("broken", None),
        TrialResult::Invalid { measured, .. } => ("invalid", measured.as_deref()),
    };
    let mut said = format!("= {how}\n");
    let innermost = measured.and_then(|it| it.evidence.levels().last());
    let facts = innermost.into_iter().flat_map(|level| &level.facts);
    for fact in facts.skip_while(|fact| fact.key != "clock") {
        let _ = writeln!(said, "fact {}", fact.key);
    }
    let mut metrics: Vec<&str> = measured
        .into_iter()
        .flat_map(|it| &it.workload.metrics)
        .map(|it| it.name.as_str())
        .collect();
    // How many quantiles there are depends on how much was measured.
    metrics.retain(|metric| !metric.contains("_p"));
    metrics.sort_unstable();
    metrics.into_iter().for_each(|metric| {
        let _ = writeln!(said, "metric {metric}");
    });
    let of_trial = ["neighbour_", "instances_", "bracket_", "environment_"];
    let is_of_trial = |key: &&String| of_trial.iter().any(|begin| key.starts_with(begin));
    record.conditions.iter().map(|(key, _)| key).filter(is_of_trial).for_each(|key| {
        let _ = writeln!(said, "condition {key}");
    });
    said
}

fn steps(parameters: &[(&str, &str)]) -> Workload {
    let parameters =
        parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Workload::of("steps", STEPS.to_owned(), parameters).unwrap()
}

fn neighbour(text: &str) -> Vec<Neighbour> {
    vec![Neighbour::parse_with(text, &registered()).unwrap()]
}

fn iterations(count: u32) -> TrialSettingsDraft {
    TrialSettingsDraft { iterations: Some(count), ..TrialSettingsDraft::default() }
}

fn instances(count: u32) -> TrialSettingsDraft {
    TrialSettingsDraft { instances: Some(count), ..TrialSettingsDraft::default() }
}

#[test]
fn a_trial_does_what_it_does_in_the_order_that_is_written_down() {
    let machine = Machine::take();
    let lab = lab();
    let found = |typed: &str| Some(Workload::find(typed).unwrap());
    let plain = || draft("native", None);
    let of = |workload| draft("native", workload);
    let cases = [
        ("one-sided.txt", plain()),
        (
            "steps-thrice.txt",
            Draft { warm_up: Some(1), conduct: iterations(3), ..of(Some(steps(&[]))) },
        ),
        ("instances.txt", Draft { conduct: instances(2), ..plain() }),
        ("client-outside.txt", of(found("net.tcp_rr:time=100"))),
        ("client-inside.txt", of(found("net.tcp_rr:time=100,client=stack"))),
        ("neighbour.txt", Draft { beside: neighbour("adversary.load@native"), ..plain() }),
        (
            "neighbour-with-two-sides.txt",
            Draft { beside: neighbour("net.tcp_rr@native"), ..of(found("net.tcp_rr:time=100")) },
        ),
        ("failed-set-up.txt", of(Some(steps(&[("fails", "1")])))),
        (
            "neighbour-that-ends.txt",
            Draft {
                beside: neighbour("net.tcp_rr:time=1000@native"),
                command: vec!["sleep".into(), "3".into()],
                ..plain()
            },
        ),
    ];
    for (name, draft) in cases {
        hold("protocol", name, &trace(&lab, &complete(draft)));
    }
    lab.close().unwrap();
    machine.assert_as_before();
}

#[test]
fn two_sides_in_two_stacks_meet_on_a_bridge_that_ends_last() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let lab = lab();
    let workload = Workload::find("net.tcp_rr:time=100,client=runc:net=veth").unwrap();
    let plan = complete(draft("native", Some(workload)));
    hold("protocol", "client-in-another-stack.txt", &trace(&lab, &plan));
    lab.close().unwrap();
    machine.assert_as_before();
}
