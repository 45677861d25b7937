//! `surtax why --confirm`: runs an explained stack beside the same with one part exchanged.

use crate::campaign::Campaign;
use crate::campaign::interrupts::{Interrupts, Urgency};
use crate::cli::run_and_report::{OpenedLab, findings_of, new_on_shelf};
use crate::cli::{Globals, note, progress};
use crate::fault::Fault;
use crate::finding::why::confirmed::{Variant, confirmed, variants};
use crate::finding::{ConfirmedFindings, Findings, why};
use crate::layer::StackSpec;
use crate::plan::{Arm, Plan};
use surtax_instrument::clock;

/// Exchanges parts of every explained stack, each in a run of its own that is kept. Returns what
/// was shown, and false where it was interrupted.
pub(super) fn confirm(
    (findings, plan): (&Findings, &Plan),
    runs: u32,
    globals: &Globals,
) -> Result<(Vec<ConfirmedFindings>, bool), Fault> {
    let mut shown = Vec::new();
    let opened = OpenedLab::open(globals)?;
    let confirmed = all(&opened, (findings, plan), runs, &mut shown, globals);
    let closed = opened.close(globals);
    let is_complete = confirmed?;
    closed.map(|()| (shown, is_complete))
}

fn all(
    opened: &OpenedLab,
    (findings, plan): (&Findings, &Plan),
    runs: u32,
    shown: &mut Vec<ConfirmedFindings>,
    globals: &Globals,
) -> Result<bool, Fault> {
    let interrupts = opened.interrupts(globals)?;
    let arms = plan.arms();
    let stack_of =
        |index: u32| arms.iter().find(|arm| arm.index == index).map(|arm: &Arm| &arm.stack);
    for arm in findings.arms.iter().filter(|arm| arm.why.is_some()) {
        let Some(stack) = stack_of(arm.arm) else { continue };
        let variants = variants(arm, stack)?;
        if variants.is_empty() {
            note(&why::nothing_to_exchange(arm), globals);
            continue;
        }
        let plan = exchanged(plan, stack, &variants, runs);
        note(&format!("runs `{stack}` with one part exchanged, {} times", variants.len()), globals);
        shown.extend(one(opened, &plan, &variants, &interrupts, globals)?);
        if interrupts.urgency() > Urgency::None {
            return Ok(false);
        }
    }
    Ok(true)
}

fn one(
    opened: &OpenedLab,
    plan: &Plan,
    variants: &[Variant],
    interrupts: &Interrupts,
    globals: &Globals,
) -> Result<Vec<ConfirmedFindings>, Fault> {
    let mut ledger = new_on_shelf(plan, globals)?;
    let (context, mut observer) = (opened.context(plan), progress::of_plan(plan, [], globals));
    Campaign::new(plan, &mut ledger, &context, observer.as_mut(), interrupts).run()?;
    drop(observer);
    Ok(confirmed(variants, &findings_of(&ledger, globals)?))
}

/// The plan of the same command in a stack, which is the baseline, and in its variants.
fn exchanged(plan: &Plan, stack: &StackSpec, variants: &[Variant], runs: u32) -> Plan {
    let title = format!("parts of {stack} exchanged: {}", plan.title);
    let others = variants.iter().map(|variant| variant.stack.clone());
    Plan {
        title: title.chars().take(200).collect(),
        stacks: std::iter::once(stack.clone()).chain(others).collect(),
        baseline: stack.clone(),
        beside: Vec::new(),
        meters: Vec::new(),
        runs: Some(runs),
        time_budget_ns: None,
        precision_ppm: None,
        looks: 1,
        seed: clock::wall().0 / 1_000 % 1_000_000,
        ..plan.clone()
    }
}
