//! The caution that the stacks ran on different kernels, and which had which.
//!
//! Another kernel is what a virtual machine is; but what two versions of Linux do differently is
//! then in its overhead, and where two machines differ in a device and in their kernel, the device
//! is not what was compared: Debian's kernel for clouds has no driver of an IDE disk or of an
//! E1000. A sandbox that brings a kernel of its own kind has no version to choose.

use crate::finding::caution::signs::caution;
use crate::finding::foreign::line;
use crate::finding::stacks::{Stacks, joined, named};
use crate::finding::{ArmFindings, Caution};
use std::collections::BTreeSet;

/// The keys under which a level says its kernel, the surest first.
const RELEASE: [&str; 2] = ["inside_kernel_release", "kernel_release"];

/// Mark in the releases of kernels that are no Linux: gVisor's.
pub(super) const NOT_LINUX: &str = "gvisor";

/// The kernel on which the command of an arm ran.
fn release(arm: &ArmFindings) -> Option<&str> {
    let level = arm.evidence.last()?;
    let release = RELEASE.iter().find_map(|key| level.fact(key))?;
    (!release.contains(NOT_LINUX)).then_some(release)
}

pub(super) fn differ(arms: &[ArmFindings]) -> Option<Caution> {
    let counted = || arms.iter().filter(|arm| arm.trial_count > 0);
    let found: Vec<(&str, &str)> =
        counted().filter_map(|arm| Some((arm.stack.as_str(), release(arm)?))).collect();
    let own = found.first().map(|(_, release)| *release)?;
    let others: BTreeSet<&str> =
        found.iter().map(|(_, release)| *release).filter(|release| *release != own).collect();
    if others.is_empty() {
        return None;
    }
    let all = Stacks::counted(arms);
    let words = all.by_words(found.iter().copied());
    let words = words.map(|(release, stacks)| format!("{stacks} on `{}`", line(release)));
    let advice = if others.len() > 1 {
        let shown: Vec<String> = others.iter().map(|release| line(release)).collect();
        format!(
            "compare only stacks of one kernel with each other, or name one kernel for all \
             machines, as in `qemu:kernel=/boot/vmlinuz-…`: between {} a device's cost and a \
             kernel's cannot be told apart",
            named(shown.iter().map(String::as_str))
        )
    } else {
        String::from(
            "what the two kernels do differently is in the overhead; name the baseline's for the \
             machine, as in `qemu:kernel=/boot/vmlinuz-…`, where that has its drivers",
        )
    };
    let elsewhere = found.iter().filter(|(_, release)| *release != own);
    Some(
        caution(
            "kernels-differ",
            format!("the kernels were not the same: {}", joined(words, "; ")?),
            advice,
        )
        .of(elsewhere.map(|(stack, _)| *stack)),
    )
}

#[cfg(test)]
mod tests {
    use crate::finding::Caution;
    use crate::finding::compare::tests::example;
    use crate::ledger::fixture::fact;
    use crate::trial::{Evidence, TrialResult};
    use surtax_instrument::wire::LevelFacts;

    /// Returns what is said of an example whose second stack ran on this kernel, and whose baseline
    /// on 6.18.44.
    fn said(release: &str) -> Option<Caution> {
        let findings = example(6, |record| {
            let arm = record.trial.arm;
            let TrialResult::Done(measured) = &mut record.result else { return };
            let release = if arm == 2 { release } else { "6.18.44" };
            let facts = vec![fact("inside_kernel_release", release)];
            let layer = String::from("runc");
            measured.evidence = Evidence::of(vec![LevelFacts { layer, facts }]).unwrap();
        });
        findings.cautions.into_iter().find(|caution| caution.code == "kernels-differ")
    }

    #[test]
    fn stacks_on_different_kernels_are_named_with_them() {
        let caution = said("6.1.0-56-cloud-amd64").unwrap();
        assert_eq!(
            caution.finding,
            "the kernels were not the same: `native` on `6.18.44`; `runc` on `6.1.0-56-cloud-amd64`"
        );
        assert!(caution.advice.contains("`qemu:kernel="), "{}", caution.advice);
        assert_eq!(caution.stacks, ["runc"]);
    }

    #[test]
    fn one_kernel_for_all_or_one_that_is_no_linux_is_worth_no_word() {
        assert_eq!(said("6.18.44"), None);
        assert_eq!(said("4.19.0-gvisor"), None);
    }
}
