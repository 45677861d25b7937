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
    if arm.stack.layers.is_empty() {
        return Ok(Ok(()));
    }
    let work = TrialWorkload::of(plan)?;
    if let Some(gap) = work.gap(&arm.stack) {
        return Ok(Err(gap));
    }
    let command = work.inside(&command::command(plan, &arm.stack));
    let context = StartContext { command: Some(&command), ..*context };
    let mut usable = outermost(&arm.stack, &context)?;
    for (place, Neighbour { workload, stack }) in plan.neighbours(arm.index).iter().enumerate() {
        if usable.is_err() {
            break;
        }
        if let Some(gap) = TrialWorkload::beside(workload, place)?.gap(stack) {
            return Ok(Err(gap));
        }
        usable = outermost(stack, &context)?;
    }
    Ok(usable)
}

/// Tells whether the outermost layer of a stack can run: whoever starts it may, its image can be
/// had, and its driver finds what it needs.
fn outermost(
    stack: &StackSpec,
    context: &StartContext<'_>,
) -> Result<Result<(), Unavailable>, Fault> {
    let Some(layer) = stack.layers.first() else { return Ok(Ok(())) };
    let holds_layers = stack.layers.len() > 1;
    let (view, limits) = (context.view(layer)?, layer.limits()?);
    let (driver, site) = (driver::find(&layer.kind)?, context.site(&view, &limits, holds_layers));
    let image = || match &view.root {
        Root::Registry(name) => rootfs::registry::require(name, context.cache),
        _ => Ok(()),
    };
    Ok(rights::require(&stack.layers, &limits)
        .and_then(|()| image())
        .and_then(|()| driver.check(layer, &site).map(drop)))
}
