//! Claims: numbers that this machine's kernel has not counted itself, said beside them.
//!
//! What a kernel further in says of its own processes, and what a workload prints, is held against
//! what this host saw: see `trial/held_against.rs`. Within that only they know it.

use crate::driver;
use crate::finding::stacks::{Stacks, grouped, joined};
use crate::finding::trial_metric::is_of_every_trial;
use crate::finding::{ArmFindings, Findings, LevelEvidence, MetricFindings};
use std::collections::BTreeSet;
use surtax_instrument::amount::PAGE_FAULTS;
use surtax_instrument::wire::{Fact, Role};

/// Claimant of what this machine's kernel does not count: a kernel further in.
const INSIDE: &str = "a kernel further in";

/// Claimant where this machine counts nothing and sees nothing: the one that another layer is on.
const ELSEWHERE: &str = "another machine";

/// Claimant of what no kernel counts: the workload.
const WORKLOAD: &str = "the workload";

/// Metrics that the kernel counts on which the command runs, and those that are what it leaves of
/// what this host saw.
const OF_THE_KERNEL: [&str; 5] = [
    "cpu_user_ns", "cpu_system_ns", "cpu_others_ns", "memory_peak_bytes",
    "memory_others_peak_bytes",
];

/// Notes in each metric who claims it, if somebody does.
pub(crate) fn mark(arms: &mut [ArmFindings], machine: &[Fact]) {
    let ours = machine.iter().find(|fact| fact.key == "kernel_release");
    for arm in arms {
        let kernel = kernel_of(arm, ours.map(|fact| fact.value.as_str()));
        for metric in &mut arm.metrics {
            let name = metric.metric.as_str();
            let claimed = match () {
                () if !is_of_every_trial(name) => Some(WORKLOAD),
                () if OF_THE_KERNEL.contains(&name) => kernel,
                () => None,
            };
            metric.claimed_by = claimed.map(str::to_owned);
        }
    }
}

/// The kernel that the command runs on, where that may be another than this machine's: its release
/// is another or not known, a guest carries it, or it is another machine.
fn kernel_of(arm: &ArmFindings, ours: Option<&str>) -> Option<&'static str> {
    let facts = arm.evidence.last().into_iter().flat_map(|level| &level.facts);
    let mut said = facts.filter(|fact| fact.key == "inside_kernel_release");
    let guest = Role::GuestKernel.word();
    let is_elsewhere = |level: &LevelEvidence| {
        let kind = level.layer.split(':').next().unwrap_or_default();
        driver::descriptor(kind).is_some_and(|descriptor| descriptor.is_remote)
    };
    if arm.evidence.iter().any(is_elsewhere) {
        return Some(ELSEWHERE);
    }
    let is_inside = arm.payers.iter().any(|payer| payer.role == guest)
        || !said.any(|fact| ours == Some(fact.value.as_str()));
    is_inside.then_some(INSIDE)
}

/// Says which numbers of a page are claims; `None` where this host counted all of them.
pub(crate) fn remark(findings: &Findings) -> Option<String> {
    let inside = of_a_kernel(findings, INSIDE).map(|what| {
        format!("{what}, which the kernel inside counts and this host checks against what it saw")
    });
    let elsewhere = of_a_kernel(findings, ELSEWHERE).map(|what| {
        format!("{what}, which {ELSEWHERE} counts and of which this host sees nothing")
    });
    let counts = counted_inside(findings).map(|stacks| {
        format!("its page faults and switches in {stacks}, which nothing here is held against")
    });
    let workload = (!claimed(findings, WORKLOAD, |_| true).is_empty())
        .then(|| String::from("the workload's own numbers"));
    joined([inside, elsewhere, counts, workload].into_iter().flatten(), "; ")
}

/// Says what of the command one claimant counts, and in which stacks; `None` where it is nothing.
fn of_a_kernel(findings: &Findings, who: &str) -> Option<String> {
    let stacks = Stacks::counted(&findings.arms);
    let [mut cpu, memory] = ["cpu_", "memory_"]
        .map(|prefix| claimed(findings, who, |it| it.metric.starts_with(prefix)));
    // Of little of it no sample has the parts, and the bill has their sum.
    let any = claimed(findings, who, |_| true);
    let has_cpu = |arm: &&ArmFindings| arm.command_cpu_ns().is_some();
    let known = findings.arms.iter().filter(has_cpu).map(|arm| arm.stack.as_str());
    cpu.extend(known.filter(|stack| any.contains(stack)));
    let parts = [("CPU time", cpu), ("memory", memory)];
    let parts = parts.into_iter().filter(|(_, set)| !set.is_empty());
    // What is claimed in the same stacks is said at once.
    let said = grouped(parts.map(|(what, set)| (set, what))).into_iter().map(|(set, what)| {
        let what = match what.as_slice() {
            [others @ .., last] if !others.is_empty() => others.join(", ") + " and " + last,
            only => only.concat(),
        };
        format!("{what} in {}", stacks.words(&set))
    });
    Some(format!("the command's {}", joined(said, " and ")?))
}

/// Names the stacks in which another kernel counted events of the command; `None` where there are
/// none.
fn counted_inside(findings: &Findings) -> Option<String> {
    let is_inside = |arm: &&ArmFindings| {
        let mut claims = arm.metrics.iter().filter_map(|it| it.claimed_by.as_deref());
        has_counts(arm) && claims.any(|who| who == INSIDE || who == ELSEWHERE)
    };
    let arms = findings.arms.iter().filter(is_inside);
    let stacks: BTreeSet<&str> = arms.map(|arm| arm.stack.as_str()).collect();
    (!stacks.is_empty()).then(|| Stacks::counted(&findings.arms).words(&stacks))
}

/// Tells whether something is counted of the command of an arm beside its CPU time and memory.
fn has_counts(arm: &ArmFindings) -> bool {
    let command = arm.payers.iter().filter(|payer| payer.role == Role::Workload.word());
    // No process runs without one: where they are counted, they are known.
    command.into_iter().any(|payer| payer.amounts.get(PAGE_FAULTS).is_some())
}

/// The stacks in which somebody claims a metric that is such a one.
fn claimed<'a>(
    findings: &'a Findings,
    who: &str,
    is_such: impl Fn(&MetricFindings) -> bool,
) -> BTreeSet<&'a str> {
    let is_it = |it: &MetricFindings| it.claimed_by.as_deref() == Some(who) && is_such(it);
    let arms = findings.arms.iter().filter(|arm| arm.metrics.iter().any(is_it));
    arms.map(|arm| arm.stack.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::ledger::fixture::fact;
    use crate::report::{html, markdown, terminal};
    use crate::trial::{Evidence, TrialResult};

    fn of_kernel(release: &str) -> Findings {
        example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            let mut levels = measured.evidence.levels().to_vec();
            let inside = if record.trial.arm == 2 { release } else { "6.1-host" };
            levels[0].facts.push(fact("inside_kernel_release", inside));
            measured.evidence = Evidence::of(levels).unwrap();
        })
    }

    #[test]
    fn what_another_kernel_counted_is_its_claim_on_every_page() {
        let mut findings = of_kernel("4.19-sandbox");
        mark(&mut findings.arms, &[fact("kernel_release", "6.1-host")]);
        let claimed = |arm: usize| {
            let claims = findings.arms[arm].metrics.iter().filter(|it| it.claimed_by.is_some());
            claims.map(|it| it.metric.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(claimed(0), [""; 0]);
        assert!(claimed(2).contains(&"memory_peak_bytes"), "{:?}", claimed(2));
        assert!(!claimed(2).contains(&"cpu_total_ns") && !claimed(2).contains(&"wall_ns"));
        for text in [
            terminal::render(&findings, terminal::PLAIN),
            markdown::markdown(&findings),
            html::html(&findings),
        ] {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains("which the kernel inside counts and this host checks"), "{flat}");
        }
    }

    #[test]
    fn what_is_claimed_in_some_stacks_alone_is_said_of_these() {
        let mut findings = of_kernel("4.19-sandbox");
        mark(&mut findings.arms, &[fact("kernel_release", "6.1-host")]);
        let said = |findings: &Findings| remark(findings).unwrap();
        let both = "the command's CPU time and memory in `runc`, which the kernel inside";
        assert!(said(&findings).starts_with(both), "{}", said(&findings));
        findings.arms[2].metrics.retain(|it| !it.metric.starts_with("cpu_"));
        findings.arms[2].payers.retain(|it| it.role != "workload");
        let memory = "the command's memory in `runc`, which";
        assert!(said(&findings).starts_with(memory), "{}", said(&findings));
        for metric in &mut findings.arms[2].metrics {
            metric.claimed_by = Some(String::from(ELSEWHERE));
        }
        assert!(said(&findings).contains("counts and of which this host sees nothing"));
    }

    #[test]
    fn on_one_kernel_this_host_counts_and_nothing_is_said() {
        let mut findings = of_kernel("6.1-host");
        mark(&mut findings.arms, &[fact("kernel_release", "6.1-host")]);
        assert_eq!(remark(&findings), None);
        mark(&mut findings.arms, &[]);
        assert!(remark(&findings).is_some(), "of a machine of which nothing is known");
    }
}
