//! What a record says as samples: one number per metric, nothing for what is unknown.
//!
//! The kernel of level 0 counts the command too, inside the payers that carry it, so "the others"
//! are all of level 0 minus the command. `report/bill.rs` splits them further.

use crate::trial::{Measured, Record};
use surtax_instrument::wire::Reading;

/// A metric, its unit, and the number in that unit.
pub(super) type NewSample = (&'static str, &'static str, u64);

/// Every number of one trial.
pub(super) fn of(record: &Record, measured: Option<&Measured>) -> Vec<NewSample> {
    let around = [("start_ns", "ns", record.start_wall.0), ("stop_ns", "ns", record.stop_wall.0)];
    let mut samples = Vec::from(around); // zero means that it never came so far
    samples.retain(|(_, _, value)| *value > 0);
    let Some(measured) = measured else { return samples };

    let outcome = &measured.outcome;
    samples.extend([
        ("wall_ns", "ns", measured.wall.0),
        ("memory_peak_bytes", "bytes", outcome.memory_peak.0),
    ]);
    if !measured.is_guest_time_void {
        samples.extend([
            ("wall_inside_ns", "ns", outcome.wall.0),
            ("cpu_user_ns", "ns", outcome.cpu_user.0),
            ("cpu_system_ns", "ns", outcome.cpu_system.0),
        ]);
    }
    let command_cpu = (outcome.cpu_user + outcome.cpu_system).0;
    if let Some(others) =
        others(&measured.readings, command_cpu, |it| Some((it.cpu_user + it.cpu_system).0))
    {
        if !measured.is_guest_time_void {
            samples.push(("cpu_others_ns", "ns", others));
        }
        samples.push(("cpu_total_ns", "ns", command_cpu.saturating_add(others)));
    }
    if let Some(others) =
        others(&measured.readings, outcome.memory_peak.0, |it| it.memory_peak.map(|peak| peak.0))
    {
        samples.push(("memory_others_peak_bytes", "bytes", others));
    }
    samples
}

/// What level 0 used beside the command; `None` where nobody on level 0 was read.
///
/// Threads share the memory of their process, so one payer without a peak leaves the sum as it is.
fn others(
    readings: &[Reading],
    command: u64,
    amount: impl Fn(&Reading) -> Option<u64>,
) -> Option<u64> {
    let read: Vec<_> = readings
        .iter()
        .filter(|reading| reading.level == 0)
        .filter_map(|reading| amount(reading).map(|amount| (reading.carries_workload, amount)))
        .collect();
    if read.is_empty() {
        return None;
    }
    let sum = |carries| {
        let of_kind = read.iter().filter(|(kind, _)| *kind == carries);
        of_kind.fold(0u64, |sum, (_, amount)| sum.saturating_add(*amount))
    };
    Some(sum(true).saturating_sub(command).saturating_add(sum(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::quantity::Nanoseconds;
    use surtax_instrument::wire::Role;

    fn reading(level: u8, cpu_ns: u64, carries_workload: bool) -> Reading {
        Reading {
            payer: String::from("someone"),
            role: Role::Engine,
            level,
            cpu_user: Nanoseconds(cpu_ns),
            cpu_system: Nanoseconds(0),
            memory_peak: None,
            carries_workload,
        }
    }

    fn cpu_others(readings: &[Reading], command: u64) -> Option<u64> {
        others(readings, command, |it| Some(it.cpu_user.0))
    }

    #[test]
    fn the_command_is_taken_out_of_those_who_carry_it_and_of_nobody_else() {
        assert_eq!(cpu_others(&[reading(0, 100, true), reading(0, 7, false)], 90), Some(17));
        assert_eq!(cpu_others(&[reading(0, 7, false)], 90), Some(7));
    }

    #[test]
    fn deeper_levels_are_already_inside_level_0() {
        assert_eq!(cpu_others(&[reading(0, 100, true), reading(1, 95, true)], 90), Some(10));
    }

    #[test]
    fn where_nobody_was_read_the_others_are_unknown_and_not_zero() {
        assert_eq!(cpu_others(&[reading(1, 95, true)], 90), None);
    }

    #[test]
    fn a_command_that_claims_more_than_its_carriers_leaves_zero() {
        assert_eq!(cpu_others(&[reading(0, 100, true), reading(0, 7, false)], 130), Some(7));
    }
}
