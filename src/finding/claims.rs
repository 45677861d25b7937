//! Claims: numbers that this machine's kernel has not counted itself, said beside them.
//!
//! What a kernel further in says of its own processes, and what a workload prints, is held against
//! what this host saw: see `trial/held_against.rs`. Within that only they know it.

use crate::driver;
use crate::finding::stacks::Stacks;
use crate::finding::{ArmFindings, Findings, LevelEvidence, MetricFindings, estimate};
use crate::ledger::role_word;
use std::collections::BTreeSet;
use surtax_instrument::wire::{Fact, Role};

/// Claimant of what this machine's kernel does not count: a kernel further in.
const INSIDE: &str = "a kernel further in";

/// Claimant of what no kernel counts: the workload.
const WORKLOAD: &str = "the workload";

/// Metrics that the kernel counts on which the command runs.
const OF_THE_KERNEL: [&str; 3] = ["cpu_user_ns", "cpu_system_ns", "memory_peak_bytes"];

/// Notes in each metric who claims it, if somebody does.
pub(crate) fn mark(arms: &mut [ArmFindings], machine: &[Fact]) {
    let ours = machine.iter().find(|fact| fact.key == "kernel_release");
    for arm in arms {
        let is_inside = has_own_kernel(arm, ours.map(|fact| fact.value.as_str()));
        for metric in &mut arm.metrics {
            let name = metric.metric.as_str();
            let claimed = match () {
                () if !estimate::is_of_every_trial(name) => Some(WORKLOAD),
                () if is_inside && OF_THE_KERNEL.contains(&name) => Some(INSIDE),
                () => None,
            };
            metric.claimed_by = claimed.map(str::to_owned);
        }
    }
}

/// Tells whether the command may run on another kernel than this machine's: its release is another
/// or not known, a guest carries it, or it is another machine.
fn has_own_kernel(arm: &ArmFindings, ours: Option<&str>) -> bool {
    let facts = arm.evidence.last().into_iter().flat_map(|level| &level.facts);
    let mut said = facts.filter(|fact| fact.key == "inside_kernel_release");
    let guest = role_word(Role::GuestKernel);
    let is_elsewhere = |level: &LevelEvidence| {
        let kind = level.layer.split(':').next().unwrap_or_default();
        driver::descriptor(kind).is_some_and(|descriptor| descriptor.elsewhere)
    };
    arm.evidence.iter().any(is_elsewhere)
        || arm.payers.iter().any(|payer| payer.role == guest)
        || !said.any(|fact| ours == Some(fact.value.as_str()))
}

/// Says which numbers of a page are claims; `None` where this host counted all of them.
pub(crate) fn remark(findings: &Findings) -> Option<String> {
    let of = |who: &str, kind: &str| {
        let is_it = |it: &MetricFindings| {
            it.claimed_by.as_deref() == Some(who) && it.metric.starts_with(kind)
        };
        let arms = findings.arms.iter().filter(|arm| arm.metrics.iter().any(is_it));
        arms.map(|arm| arm.stack.as_str()).collect::<BTreeSet<&str>>()
    };
    let (cpu, memory, workload) = (of(INSIDE, "cpu_"), of(INSIDE, "memory_"), of(WORKLOAD, ""));
    let all: BTreeSet<&str> = cpu.union(&memory).copied().collect();
    let what = if cpu.is_empty() { "memory" } else { "CPU time and memory" };
    let stacks = Stacks::counted(&findings.arms).words(&all);
    let inside = (!all.is_empty()).then(|| {
        format!(
            "the command's {what} in {stacks}, as {INSIDE} counts them and this host has held \
             them against what it saw"
        )
    });
    let workload =
        (!workload.is_empty()).then(|| String::from("the workload's numbers, as it prints them"));
    let said: Vec<String> = inside.into_iter().chain(workload).collect();
    (!said.is_empty()).then(|| said.join("; "))
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
            assert!(flat.contains("as a kernel further in counts them and this host"), "{flat}");
        }
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
