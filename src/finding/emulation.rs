//! Emulation: which stacks had a machine whose instructions were translated.
//!
//! What such a machine costs says nothing of one whose instructions the CPU executes.

use crate::finding::{ArmFindings, Findings};

/// Accelerator of a machine whose instructions are translated.
const EMULATED: &str = "tcg";

/// Mark of a stack whose machine was emulated, behind its name.
pub(crate) const MARK: &str = " (emulated)";

/// Tells whether machines ran here, and none of them on the CPU itself.
pub(crate) fn is_all(findings: &Findings) -> bool {
    let words = || findings.arms.iter().flat_map(accelerators);
    words().next().is_some() && words().all(|word| word == EMULATED)
}

/// Tells whether a machine of a stack ran here, and not on the CPU itself.
pub(crate) fn is_of(arm: &ArmFindings) -> bool {
    accelerators(arm).any(|word| word == EMULATED)
}

/// Tells whether a machine of a stack ran here.
pub(crate) fn is_machine(arm: &ArmFindings) -> bool {
    accelerators(arm).next().is_some()
}

/// The name of a stack, marked where a machine of it was emulated.
pub(crate) fn name(arm: &ArmFindings) -> String {
    if !is_of(arm) {
        return arm.name.clone();
    }
    // A machine that was emulated for want of better has a mark of its own.
    let name = arm.name.strip_suffix(&format!(" ({EMULATED})")).unwrap_or(&arm.name);
    format!("{name}{MARK}")
}

/// Lists what executed the instructions of a stack's machines.
fn accelerators(arm: &ArmFindings) -> impl Iterator<Item = &str> {
    let facts = arm.evidence.iter().flat_map(|level| &level.facts);
    facts.filter(|fact| fact.key == "accelerator").map(|fact| fact.value.as_str())
}
