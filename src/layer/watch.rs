//! Reads what every payer uses, before and after a run.
//!
//! Payers are found when the watch begins; what a process used is lost to us if it ends before the
//! watch does, unless it is counted by its group. The memory of a payer is its peak since it began; what it consists of
//! is known of groups, at the end.

use crate::layer::{Payer, Source};
use std::io;
use surtax_instrument::probe::cgroup::{Group, Hierarchies};
use surtax_instrument::probe::cpu_time::CpuTime;
use surtax_instrument::probe::guest_memory;
use surtax_instrument::probe::oom::Kills;
use surtax_instrument::probe::process::{self, usage, usage_of_other_threads, usage_of_threads};
use surtax_instrument::probe::xen::Domain;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::{MemoryParts, Reading, Role};

/// The counters of the payers of one level, read once.
pub struct Watch {
    level: u8,
    meters: Vec<(Payer, Meter, Usage, Option<Kills>)>,
    hierarchies: Hierarchies,
}

/// Where one payer's usage is read.
enum Meter {
    Group(Group),
    Processes,
    Domain(Domain),
}

#[derive(Clone, Copy, Default)]
struct Usage {
    cpu: CpuTime,
    memory_peak: Option<Bytes>,
    memory_parts: Option<MemoryParts>,
}

impl Watch {
    /// Finds the counters and reads them for the first time.
    #[must_use]
    pub fn begin(payers: Vec<Payer>, level: u8) -> Self {
        let hierarchies = Hierarchies::discover().unwrap_or_default();
        let meters = payers
            .into_iter()
            .filter_map(|payer| {
                let meter = Meter::open(&payer.source, &hierarchies)?;
                let usage = meter.read(&payer.source)?;
                let kills = kills(&payer.source, &hierarchies);
                Some((payer, meter, usage, kills))
            })
            .collect();
        Self { level, meters, hierarchies }
    }

    /// Reads them again: what each payer used in between. A payer that is gone is left out.
    #[must_use]
    pub fn end(self) -> Vec<Reading> {
        let (level, hierarchies) = (self.level, self.hierarchies);
        self.meters
            .into_iter()
            .filter_map(|(payer, meter, before, kills_before)| {
                let after = meter.read(&payer.source)?;
                let (cpu_user, cpu_system) = after.cpu.since(before.cpu);
                let memory_peak = memory(&payer, after.memory_peak);
                Some(Reading {
                    payer: payer.name,
                    role: payer.role,
                    level,
                    cpu_user,
                    cpu_system,
                    memory_peak,
                    memory_parts: after.memory_parts,
                    oom_kill_count: kills(&payer.source, &hierarchies)
                        .map(|now| now.since(&kills_before.unwrap_or_default())),
                    carries_workload: payer.carries_workload,
                    is_shared: payer.is_shared,
                })
            })
            .collect()
    }
}

/// The memory of a payer. That of a process is all its threads', so a guest's is told apart from what its emulator has
/// beside it.
fn memory(payer: &Payer, peak: Option<Bytes>) -> Option<Bytes> {
    match &payer.source {
        Source::Threads { pid, .. } if payer.role == Role::GuestKernel => {
            guest_memory::of_process(*pid)
        }
        Source::OtherThreads { pid, .. } => {
            let of_guest = guest_memory::of_process(*pid).unwrap_or_default();
            peak.and_then(|peak| peak.0.checked_sub(of_guest.0)).map(Bytes)
        }
        _ => peak,
    }
}

/// Kills in a group; what is no group of its own has none that would be its alone.
fn kills(source: &Source, hierarchies: &Hierarchies) -> Option<Kills> {
    match source {
        Source::Group(group) => Kills::of_group(hierarchies, group),
        _ => None,
    }
}

impl Meter {
    /// `None` when this machine does not count what the source names.
    fn open(source: &Source, hierarchies: &Hierarchies) -> Option<Self> {
        match source {
            Source::Group(path) => Group::open(hierarchies, path).ok().map(Self::Group),
            Source::Process(_) | Source::Threads { .. } | Source::OtherThreads { .. } => {
                Some(Self::Processes)
            }
            Source::Domain(id) => Domain::open(*id).ok().map(Self::Domain),
        }
    }

    fn read(&self, source: &Source) -> Option<Usage> {
        let used: io::Result<process::Usage> = match (self, source) {
            (Self::Group(group), _) => {
                let used = group.read();
                return Some(Usage {
                    cpu: used.cpu?,
                    memory_peak: used.memory_peak,
                    memory_parts: group.memory_parts(),
                });
            }
            // Xen does not say how much of it was the domain's kernel.
            (Self::Domain(domain), _) => {
                let used = domain.read().ok()?;
                return Some(Usage {
                    cpu: CpuTime { total: used.cpu, ..CpuTime::default() },
                    memory_peak: Some(used.memory),
                    memory_parts: None,
                });
            }
            (Self::Processes, Source::Process(pid)) => usage(*pid),
            (Self::Processes, Source::Threads { pid, tids }) => usage_of_threads(*pid, tids),
            (Self::Processes, Source::OtherThreads { pid, except }) => {
                usage_of_other_threads(*pid, except)
            }
            (Self::Processes, Source::Group(_) | Source::Domain(_)) => return None,
        };
        let used = used.ok()?;
        Some(Usage { cpu: used.cpu, memory_peak: used.memory_peak, memory_parts: None })
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::watch::*;

    /// Guests beside a command of the host's own, such as a client of theirs, do not carry it.
    #[test]
    fn a_guests_memory_is_its_own_line_whether_or_not_it_carries_the_command() {
        const SIZE: usize = 256 << 20;
        let memory = std::hint::black_box(vec![1_u8; SIZE]);
        let pid = std::process::id();
        let payer = |name: &str, role, source, carries_workload| Payer {
            name: name.into(),
            role,
            source,
            carries_workload,
            is_shared: false,
        };
        for carries in [true, false] {
            let tids = vec![pid];
            let guest = Source::Threads { pid, tids: tids.clone() };
            let others = Source::OtherThreads { pid, except: tids };
            let payers = vec![
                payer("vCPU threads", Role::GuestKernel, guest, carries),
                payer("QEMU's other threads", Role::Hypervisor, others, false),
            ];
            let readings = Watch::begin(payers, 0).end();
            let found: Vec<Option<Bytes>> = readings.iter().map(|it| it.memory_peak).collect();
            let whole = usage(pid).unwrap().memory_peak.unwrap();
            assert!(found[0].unwrap().0 >= SIZE as u64, "{found:?}");
            // The tests beside this one take and give back memory of the same process meanwhile.
            assert!(found[1].unwrap().0 <= whole.0 - SIZE as u64 / 2, "{found:?} of {whole:?}");
        }
        assert!(memory.iter().all(|byte| *byte == 1));
    }
}
