//! Counts the system calls of a run's command, once in each of its stacks: in trials that are in no
//! time, after all that are.

use super::interrupts::{Interrupts, Urgency};
use crate::fault::Fault;
use crate::ledger::{Ledger, TrialState};
use crate::plan::{Arm, ArmPart, Cache, Plan, TrialId, TrialSettings};
use crate::stack::start::StartContext;
use crate::trial::protocol::{self, Purpose};
use crate::trial::{CountedCalls, Record, TrialResult, check};
use surtax_instrument::wire::Calls;

/// Lists the arms in which a command is counted: each stack once, alone, if any trial of it counts.
///
/// # Errors
/// The ledger's.
pub fn arms(plan: &Plan, ledger: &Ledger) -> Result<Vec<Arm>, Fault> {
    let trials = ledger.attempts()?;
    let counts =
        |arm: u32| trials.iter().any(|it| it.id.arm == arm && it.state == TrialState::Done);
    let is_wanted = |arm: &Arm| {
        let is_again = arm.part() == ArmPart::BaselineAgain;
        !is_again && plan.neighbours(arm.index).is_empty() && counts(arm.index)
    };
    Ok(plan.arms().into_iter().filter(is_wanted).collect())
}

/// Counts in each of these arms; `told` hears of each before. Returns false where it was
/// interrupted.
///
/// # Errors
/// The ledger's. What goes wrong in a trial is the reason why nothing was counted in it.
pub fn count(
    plan: &Plan,
    (arms, ledger): (&[Arm], &mut Ledger),
    context: &StartContext<'_>,
    interrupts: &Interrupts,
    mut told: impl FnMut(&Arm),
) -> Result<bool, Fault> {
    context.lab.begin_with_places(&plan.writable)?;
    // What was timed had been looked at before.
    let is_first =
        plan.warm_up == 0 && plan.conduct.iterations == 1 && plan.conduct.cache != Cache::Warm;
    let plan = once(plan);
    for arm in arms {
        if interrupts.urgency() > Urgency::None {
            return Ok(false);
        }
        told(arm);
        // What outlives a trial is started by the first that needs it, as a rule.
        let prepared = check::prepare(&arm.stack, context);
        let id = TrialId { block: 0, position: arm.index, arm: arm.index };
        let counting = (&plan, Purpose::Counting);
        let record = protocol::run(id, &arm.stack, counting, context, &mut |_, _| {});
        if interrupts.urgency() == Urgency::Now {
            return Ok(false);
        }
        let began_at = record.began_at;
        let counted = counted(record).map(|it| as_timed(it, is_first));
        let counted = counted.unwrap_or_else(|why| {
            let more = prepared.err().map_or_else(String::new, |fault| format!("; {fault}"));
            let failure = format!("{why}{more}");
            CountedCalls { is_of_this_level: false, calls: Calls { failure, ..Calls::default() } }
        });
        ledger.keep_counted(arm.index, began_at, &counted)?;
    }
    Ok(true)
}

/// The plan with one run of the command in each start, and none before it that would be counted,
/// too.
fn once(plan: &Plan) -> Plan {
    let conduct = TrialSettings { iterations: 1, padding_limit_bytes: 0, ..plan.conduct };
    let warm_up = if conduct.cache == Cache::Warm { plan.warm_up } else { 0 };
    Plan { conduct, warm_up, ..plan.clone() }
}

/// The counts as those of a run that was timed: of one after another no file is looked at for the
/// first time.
fn as_timed(mut counted: CountedCalls, is_first: bool) -> CountedCalls {
    if !is_first {
        counted.calls.counted.iter_mut().for_each(|call| call.fresh = 0);
    }
    counted
}

/// Returns what a trial counted, or why nothing of it can be believed.
fn counted(record: Record) -> Result<CountedCalls, String> {
    match record.result {
        TrialResult::Done(measured) | TrialResult::Disturbed(measured) => {
            measured.calls.ok_or_else(|| String::from("nobody counted"))
        }
        TrialResult::CommandFailed(measured) => {
            let status = measured.outcome.status;
            Err(format!("the command failed where it was counted, with {status}"))
        }
        TrialResult::Unavailable(reason) | TrialResult::Broken(reason) => Err(reason.why),
        TrialResult::Invalid { reason, .. } => Err(reason.why),
    }
}
