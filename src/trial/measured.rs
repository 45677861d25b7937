//! Puts runs and companions together: one measurement, and why it cannot be believed, if it cannot.

use super::clock_sync::ClockSync;
use super::companion::Seen;
use super::held_against::{self, Host, Kernel};
use super::iterate::{self, TimedRun};
use super::stage::Placed;
use super::{Evidence, Measured};
use crate::driver;
use crate::fault::Fault;
use crate::layer::StackSpec;
use crate::workload::WorkloadReading;
use surtax_instrument::probe::machine;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::{LevelFacts, Reading, Role};

/// Reason why a workload has no numbers though it printed some: they are in the time of its own
/// level.
const CLOCK_RAN_WRONG: &str = "the clock that it was measured by ran wrong";

/// Facts known of a trial beside what its companions saw.
pub(super) struct Around {
    /// Facts that the layers have proved, outermost first.
    pub levels: Vec<LevelFacts>,
    /// Level of whoever measures.
    pub own_level: u8,
    /// The clock by which the command was timed, where that is not the innermost level's.
    pub clock_of_the_client: Option<ClockSync>,
    /// True where the workload has another side.
    pub has_two_sides: bool,
    /// The least CPU time that a level of the stack is limited to, in thousandths of a CPU.
    pub quota_millis: Option<u32>,
    /// Most memory that its command can have; `None` where that may be another machine's.
    pub memory: Option<Bytes>,
}

impl Around {
    /// Gathers what is known of a workload in its place.
    pub(super) fn of(placed: &Placed, stack: &StackSpec, own_level: u8, seen: &Seen) -> Self {
        let Placed { peer, running, .. } = placed;
        let clock = seen.clock.zip(peer.as_ref());
        // A client may be beside the levels, and not in them.
        let holders = if peer.is_none() { running.evidence() } else { &[] };
        let is_here = !driver::runs_elsewhere(stack);
        Self {
            levels: running.evidence().to_vec(),
            own_level,
            clock_of_the_client: clock.map(|(clock, it)| it.clock_of_the_client(clock)),
            has_two_sides: peer.is_some(),
            quota_millis: stack
                .layers
                .iter()
                .filter_map(|layer| layer.limits().ok()?.cpu_millis)
                .min(),
            memory: is_here.then(|| held_against::memory_of(holders)),
        }
    }
}

/// One measurement, why it cannot be believed, and the conditions around it.
pub(super) struct Judged {
    pub measured: Measured,
    pub flaw: Option<String>,
    pub conditions: Vec<(String, f64)>,
    /// True where the innermost level has the same kernel as the trial's own: it is no machine.
    pub has_our_kernel: bool,
}

/// Puts together what was found.
///
/// # Errors
/// Ours: a level proved nothing, nobody asked for the time, or nothing was run.
pub(super) fn put_together(
    runs: Vec<TimedRun>,
    mut seen: Seen,
    around: Around,
) -> Result<Judged, Fault> {
    let Around { mut levels, own_level, clock_of_the_client, has_two_sides, quota_millis, memory } =
        around;
    if let Some(innermost) = levels.last_mut() {
        innermost.facts.extend(seen.proved());
    }
    let evidence = Evidence::of(levels)
        .map_err(|layer| Fault::bug(format!("`{layer}` proved nothing about itself")))?;
    let inside =
        seen.clock.ok_or_else(|| Fault::bug("nobody asked a trial's stack for the time"))?;
    let clock = clock_of_the_client.unwrap_or(inside);
    let kernel = Kernel::shared(inside, evidence.levels());
    let (group, is_of_the_timed) = (seen.group_cpu, !has_two_sides);
    let kernel = kernel.map(|kernel| Kernel { group, is_of_the_timed, ..kernel });
    let is_in_our_group = is_of_the_timed && kernel.is_some_and(|kernel| kernel.group.is_some());
    let kept_waiting = seen.kept_waiting;
    let lie = Host { clock, quota_millis, memory, kernel, kept_waiting }.contradicts(&runs);
    // Of a guest whose clock ran wrong no number of its own is kept anyway.
    let is_guest_time_void = seen.is_guest_time_void;
    let held = if is_guest_time_void { None } else { Some(&seen.workload) };
    let too_long = held.and_then(|read| held_against::too_long(read, &runs));
    let mut conditions = seen.conditions;
    conditions.extend(held_against::excess(clock, &runs));
    let read = seen.bill.into_iter().chain(seen.machines).collect();
    let (mut machines, readings): (Vec<Reading>, Vec<Reading>) =
        iterate::per_iteration(read, &runs)
            .into_iter()
            .partition(|reading| reading.role == Role::Machine);
    let has_our_kernel = kernel.is_some();
    machines.retain(|reading| {
        let is_ours = reading.level == own_level;
        !machine::is_silent(&reading.amounts) && (is_ours || !has_our_kernel)
    });
    let iterations = iterate::iterations(&runs, clock);
    let (wall, mut outcome) = iterate::whole(&iterations, runs)?;
    if is_in_our_group {
        conditions.extend(held_against::with_unwaited(&mut outcome, &readings));
    }
    let flaw = lie.or(too_long).or(seen.flaws.first());
    let read = if flaw.is_none() { seen.workload } else { WorkloadReading::default() };
    let workload = if is_guest_time_void { read.without_numbers(CLOCK_RAN_WRONG) } else { read };
    let (energy_uj, calls) = (seen.energy_uj, seen.calls);
    let measured = Measured {
        wall,
        outcome,
        readings,
        machines,
        iterations,
        energy_uj,
        calls,
        workload,
        evidence,
        is_guest_time_void,
    };
    Ok(Judged { measured, flaw, conditions, has_our_kernel })
}
