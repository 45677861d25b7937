//! Checks before a campaign: what an arm needs is there, and what outlives its trials stands.

use super::command;
use super::trial_workload::TrialWorkload;
use crate::driver::{self, rights};
use crate::fault::Fault;
use crate::layer::{Root, StackSpec, Unavailable};
use crate::plan::{Arm, Neighbour, Plan};
use crate::rootfs;
use crate::stack::start::StartContext;

/// Starts what outlives a trial for the outermost layer of a stack, and unpacks its image, which is
/// fetched where it is not here.
///
/// # Errors
/// The driver's.
pub fn prepare(stack: &StackSpec, context: &StartContext<'_>) -> Result<(), Fault> {
    let Some(outermost) = stack.layers.first() else { return Ok(()) };
    let (view, limits) = (context.view(outermost)?, outermost.limits()?);
    if let Root::Oci(_) | Root::Registry(_) = view.root {
        rootfs::root::lowers(&view.root, context.cache)?;
    }
    let site = context.site(&view, &limits, stack.layers.len() > 1);
    driver::find(&outermost.kind)?.prepare(outermost, &site)
}

/// Tells whether the outermost layer of an arm can run; the deeper ones can only be asked from
/// inside.
///
/// # Errors
/// Ours, or the machine's: it could not be asked.
pub fn check(
    arm: &Arm,
    plan: &Plan,
    context: &StartContext<'_>,
) -> Result<Result<(), Unavailable>, Fault> {
    let Some(outermost) = arm.stack.layers.first() else { return Ok(Ok(())) };
    let work = TrialWorkload::of(plan)?;
    if let Some(gap) = work.gap(&arm.stack) {
        return Ok(Err(gap));
    }
    let (view, limits) = (context.view(outermost)?, outermost.limits()?);
    if let Err(refused) = rights::require(&arm.stack.layers, &limits) {
        return Ok(Err(refused));
    }
    if let Root::Registry(name) = &view.root
        && let Err(gap) = rootfs::registry::require(name, context.cache)
    {
        return Ok(Err(gap));
    }
    let command = work.inside(&command::command(plan, &arm.stack));
    let context = StartContext { command: Some(&command), ..*context };
    let site = context.site(&view, &limits, arm.stack.layers.len() > 1);
    let usable = driver::find(&outermost.kind)?.check(outermost, &site).map(|_| ());
    for (place, Neighbour { workload, stack }) in plan.neighbours(arm.index).iter().enumerate() {
        if usable.is_err() {
            break;
        }
        if let Some(gap) = TrialWorkload::beside(workload, place)?.gap(stack) {
            return Ok(Err(gap));
        }
        let Some(outermost) = stack.layers.first() else { continue };
        let (view, limits) = (context.view(outermost)?, outermost.limits()?);
        if let Err(refused) = rights::require(&stack.layers, &limits) {
            return Ok(Err(refused));
        }
        let site = context.site(&view, &limits, false);
        if let Err(unavailable) = driver::find(&outermost.kind)?.check(outermost, &site) {
            return Ok(Err(unavailable));
        }
    }
    Ok(usable)
}
