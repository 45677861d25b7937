//! Reads what every payer uses, before and after a run.
//!
//! Payers are found when the watch begins; what a process used is lost to us if it ends before the
//! watch does, unless it is counted by its group: then it is a payer of whom nothing is known, and
//! so is a sum of which it is a part. The memory of a payer is its peak since it began;
//! what it consists of is known of groups, at the end.

use crate::layer::{Payer, Source};
use std::cell::RefCell;
use std::path::Path;
use surtax_instrument::amount::{
    Amounts, CONTEXT_SWITCHES, CPU_COMMAND_GROUP, CPU_SYSTEM, CPU_USER, MAJOR_FAULTS, MEMORY_PEAK,
    OOM_KILLS, PAGE_FAULTS, PROCESSES_REFUSED,
};
use surtax_instrument::probe::cgroup::{Group, Hierarchies};
use surtax_instrument::probe::command_group::CommandGroup;
use surtax_instrument::probe::cpu_time::CpuTime;
use surtax_instrument::probe::guest_memory::{self, GuestMemory};
use surtax_instrument::probe::kvm::Exits;
use surtax_instrument::probe::machine::{Links, Machine};
use surtax_instrument::probe::oom::Kills;
use surtax_instrument::probe::process::{
    Usage, moment, moment_of_other_threads, moment_of_threads, usage, usage_of_other_threads,
    usage_of_threads,
};
use surtax_instrument::probe::refusals::Refusals;
use surtax_instrument::probe::xen::Domain;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reading, Role};

/// The counters of the payers of one level, read once.
pub struct Watch {
    level: u8,
    watched: Vec<Watched>,
    hierarchies: Hierarchies,
}

/// One payer.
struct Watched {
    payer: Payer,
    meter: Meter,
    /// Counters at the beginning, and what they rose by in pauses; `None` where that is unknown.
    before: Option<Usage>,
    events_before: Events,
    /// Counters when the pause began.
    paused: Option<Usage>,
}

/// Source from which one payer's usage is read.
pub(super) enum Meter {
    Group {
        all: Box<Group>,
        /// The group in it that holds the agent and the command alone.
        command: Option<Box<Group>>,
    },
    Processes,
    /// Virtual CPUs among a process's threads.
    VirtualCpus(Exits),
    Domain(Domain),
    Machine(RefCell<Machine>),
    Links(Links),
}

impl Watch {
    /// Finds the counters, in these hierarchies, and reads them for the first time. A payer whom
    /// this machine does not count is left out.
    #[must_use]
    pub fn begin(payers: Vec<Payer>, level: u8, hierarchies: &Hierarchies) -> Self {
        let hierarchies = hierarchies.clone().of_all(groups(&payers));
        let watched = payers
            .into_iter()
            .filter_map(|payer| {
                let meter = Meter::open(&payer, &hierarchies)?;
                let before = meter.read(&payer.source);
                if before.is_none() && !matches!(meter, Meter::Processes | Meter::VirtualCpus(_)) {
                    return None;
                }
                let events_before = Events::of(&payer.source, &hierarchies);
                Some(Watched { payer, meter, before, events_before, paused: None })
            })
            .collect();
        Self { level, watched, hierarchies }
    }

    /// Looks away: of what grows, and is no rare event, what is used until [`Self::resume`] is
    /// nobody's.
    pub fn pause(&mut self) {
        for it in &mut self.watched {
            it.paused = it.meter.read(&it.payer.source);
        }
    }

    /// Looks again. Returns the CPU time that all of them used in the pause.
    pub fn resume(&mut self) -> Nanoseconds {
        let mut all = Nanoseconds(0);
        for it in &mut self.watched {
            let now = it.meter.read(&it.payer.source);
            let (Some(before), Some(paused), Some(now)) = (&mut it.before, it.paused.take(), now)
            else {
                it.before = None;
                continue;
            };
            if it.payer.role != Role::Machine {
                all += now.cpu.total.since(paused.cpu.total);
            }
            go_on(before, &paused, now);
        }
        all
    }

    /// Reads them again: what each payer used in between. Of a payer that is gone, nothing is
    /// known.
    #[must_use]
    pub fn end(self) -> Vec<Reading> {
        let (level, hierarchies) = (self.level, self.hierarchies);
        self.watched
            .into_iter()
            .map(|Watched { payer, meter, before, events_before, .. }| {
                let after = meter.read(&payer.source);
                let events = Events::of(&payer.source, &hierarchies);
                let used = before.zip(after).map(|(before, after)| used(&payer, &before, &after));
                Reading {
                    amounts: events.since(events_before, used.unwrap_or_default()),
                    payer: payer.name,
                    role: payer.role,
                    level,
                    carries_workload: payer.carries_workload,
                    is_shared: payer.is_shared,
                }
            })
            .collect()
    }
}

/// Raises what a payer had used before by what it used in a pause. What is unknown until then stays
/// so, also of threads that ended before the pause or in it; those that began in it are there from
/// now on.
fn go_on(before: &mut Usage, paused: &Usage, now: Usage) {
    let until_then = paused.since(before);
    before.cpu = before.cpu.plus(now.cpu.without(paused.cpu));
    before.amounts.go_on(&now.since(paused));
    before.forget_switches_unless(until_then.get(CONTEXT_SWITCHES).is_some());
    (before.threads, before.of_ended) = (now.threads, now.of_ended);
}

/// Lists the groups of these payers.
pub(crate) fn groups<'p>(
    payers: impl IntoIterator<Item = &'p Payer>,
) -> impl Iterator<Item = &'p Path> {
    payers.into_iter().filter_map(|payer| match &payer.source {
        Source::Group(group) => Some(group.as_path()),
        _ => None,
    })
}

/// Returns what a payer used between two readings.
fn used(payer: &Payer, before: &Usage, after: &Usage) -> Amounts {
    let (user, system) = after.cpu.since(before.cpu);
    let peak = memory(payer, after.amounts.get(MEMORY_PEAK), guest_memory::of_process);
    let mut amounts = after.since(before).with(MEMORY_PEAK, peak);
    // The kernel adds up a group's once there are enough of them: none may be a few.
    if matches!(payer.source, Source::Group(_)) && amounts.get(PAGE_FAULTS) == Some(0) {
        amounts.remove(PAGE_FAULTS);
        amounts.remove(MAJOR_FAULTS);
    }
    match payer.source {
        Source::Link(_) => amounts,
        _ => amounts.with(CPU_USER, user.0).with(CPU_SYSTEM, system.0),
    }
}

/// The memory of a payer. That of a process is all its threads', so a guest's is told apart from
/// what its emulator has beside it, and from what a server of its files shares with it.
fn memory(
    payer: &Payer,
    peak: Option<u64>,
    of_guest: impl Fn(u32) -> Option<GuestMemory>,
) -> Option<u64> {
    let without =
        |guest: Option<GuestMemory>| peak?.checked_sub(guest.map_or(0, |guest| guest.resident.0));
    match &payer.source {
        Source::Threads { pid, .. } if payer.role == Role::GuestKernel => {
            of_guest(*pid).map(|guest| guest.held.0)
        }
        Source::OtherThreads { pid, .. } => without(of_guest(*pid)),
        Source::Process(pid) if payer.role == Role::Hypervisor => {
            without(of_guest(*pid).filter(|guest| guest.is_backend))
        }
        _ => peak,
    }
}

/// Rare events in a group; what is no group of its own has none that would be its alone.
#[derive(Default)]
struct Events {
    kills: Option<Kills>,
    refusals: Option<Refusals>,
}

impl Events {
    fn of(source: &Source, hierarchies: &Hierarchies) -> Self {
        let Source::Group(group) = source else { return Self::default() };
        Self {
            kills: Kills::of_group(hierarchies, group),
            refusals: Refusals::of_group(hierarchies, group),
        }
    }

    /// These amounts, and how many there were since an earlier reading.
    fn since(&self, earlier: Self, amounts: Amounts) -> Amounts {
        let kills = earlier.kills.unwrap_or_default();
        let refusals = earlier.refusals.unwrap_or_default();
        amounts
            .with(OOM_KILLS, self.kills.as_ref().map(|now| now.since(&kills)))
            .with(PROCESSES_REFUSED, self.refusals.as_ref().map(|now| now.since(&refusals)))
    }
}

impl Meter {
    /// `None` when this machine does not count what the source names.
    pub(super) fn open(payer: &Payer, hierarchies: &Hierarchies) -> Option<Self> {
        match &payer.source {
            Source::Group(path) => {
                let all = Box::new(Group::open(hierarchies, path).ok()?);
                let command = payer.command.as_ref().and_then(CommandGroup::open).map(Box::new);
                Some(Self::Group { all, command })
            }
            Source::Threads { pid, .. } if payer.role == Role::GuestKernel => {
                Some(Self::VirtualCpus(Exits::open(Path::new("/"), *pid)))
            }
            Source::Process(_) | Source::Threads { .. } | Source::OtherThreads { .. } => {
                Some(Self::Processes)
            }
            Source::Domain(id) => Domain::open(*id).ok().map(Self::Domain),
            Source::Machine => Some(Self::Machine(Machine::open(Path::new("/")).into())),
            Source::Link(_) => Some(Self::Links(Links::open(Path::new("/")))),
        }
    }

    /// `None` where its CPU time cannot be read.
    fn read(&self, source: &Source) -> Option<Usage> {
        match (self, source) {
            (Self::Group { all, command }, _) => {
                // The command's first: it is never more than all.
                let of_command = command.as_ref().and_then(|group| Some(group.cpu()?.total.0));
                let cpu = all.cpu()?;
                let amounts = all.amounts().with(CPU_COMMAND_GROUP, of_command);
                Some(Usage { cpu, amounts, ..Usage::default() })
            }
            // Xen does not say how much of it was the domain's kernel.
            (Self::Domain(domain), _) => {
                let used = domain.read().ok()?;
                let cpu = CpuTime { total: used.cpu, ..CpuTime::default() };
                let amounts = Amounts::default().with(MEMORY_PEAK, used.memory.0);
                Some(Usage { cpu, amounts, ..Usage::default() })
            }
            (Self::Processes, Source::Process(pid)) => usage(*pid).ok(),
            (Self::Processes, Source::Threads { pid, tids }) => usage_of_threads(*pid, tids).ok(),
            (Self::Processes, Source::OtherThreads { pid, except }) => {
                usage_of_other_threads(*pid, except).ok()
            }
            (Self::VirtualCpus(exits), Source::Threads { pid, tids }) => {
                usage_of_threads(*pid, tids).ok().map(|used| with_exits(used, exits))
            }
            (Self::Machine(machine), _) => of_machine(machine.borrow_mut().read()),
            (Self::Links(links), Source::Link(link)) => {
                links.read_one(link).map(|amounts| Usage { amounts, ..Usage::default() })
            }
            (Self::Processes | Self::VirtualCpus(_) | Self::Links(_), _) => None,
        }
    }

    /// Reads what is worth a look again and again while a command runs. `None` where nothing is.
    pub(super) fn moment(&self, source: &Source) -> Option<Usage> {
        match (self, source) {
            (Self::Group { all, .. }, _) => {
                Some(Usage { cpu: all.cpu()?, amounts: all.moment(), ..Usage::default() })
            }
            (Self::Processes, Source::Process(pid)) => moment(*pid).ok(),
            (Self::Processes, Source::Threads { pid, tids }) => moment_of_threads(*pid, tids).ok(),
            (Self::Processes, Source::OtherThreads { pid, except }) => {
                moment_of_other_threads(*pid, except).ok()
            }
            (Self::VirtualCpus(exits), Source::Threads { pid, tids }) => {
                moment_of_threads(*pid, tids).ok().map(|used| with_exits(used, exits))
            }
            _ => self.read(source),
        }
    }
}

fn with_exits(used: Usage, exits: &Exits) -> Usage {
    Usage { amounts: used.amounts.with_all(exits.read()), ..used }
}

/// Use of a machine: its CPU time is in ticks, and in user and system alone.
fn of_machine(amounts: Amounts) -> Option<Usage> {
    let (user, system) = (amounts.get(CPU_USER)?, amounts.get(CPU_SYSTEM)?);
    let cpu = CpuTime { total: Nanoseconds(user.saturating_add(system)), user, system };
    Some(Usage { cpu, amounts, ..Usage::default() })
}

#[cfg(test)]
mod tests {
    use crate::stack::watch::*;
    use surtax_instrument::quantity::Bytes;

    /// Threads come and go; in a pause nobody misses them.
    #[test]
    fn switches_are_unknown_where_a_thread_ended_also_before_a_pause() {
        let read = |switches, threads: &[&str], ended: u64| Usage {
            amounts: Amounts::default().with(CONTEXT_SWITCHES, Some(switches)),
            threads: threads.iter().map(std::ffi::OsString::from).collect(),
            of_ended: Some((Nanoseconds(ended), Nanoseconds(ended))),
            ..Usage::default()
        };
        let told = |before: Usage, paused: Usage, now: Usage, after: Usage| {
            let mut before = before;
            go_on(&mut before, &paused, now);
            after.since(&before).get(CONTEXT_SWITCHES)
        };
        let (one, two) = (&["1"][..], &["1", "2"][..]);
        let known = told(read(5, one, 0), read(7, one, 0), read(9, two, 0), read(12, two, 0));
        assert_eq!(known, Some(5), "two before the pause and three after it");
        let gone = told(read(5, two, 0), read(7, one, 9), read(9, one, 9), read(12, one, 9));
        assert_eq!(gone, None, "one ended before the pause");
        let short = told(read(5, one, 0), read(7, one, 9), read(9, one, 9), read(12, one, 9));
        assert_eq!(short, None, "one came and went before the pause");
        let later = told(read(5, one, 0), read(7, one, 0), read(9, two, 0), read(12, one, 9));
        assert_eq!(later, None, "one that began in the pause ended after it");
    }

    /// A server of a guest's files maps all of the guest's memory, and huge pages are in nobody's
    /// resident set.
    #[test]
    fn memory_that_a_server_shares_with_a_guest_is_the_guests_alone() {
        let holds = |held, resident, is_backend| {
            move |_| Some(GuestMemory { held: Bytes(held), resident: Bytes(resident), is_backend })
        };
        let of = |role, source| Payer::new("one", role, source);
        let (pid, tids) = (7, vec![8]);
        let guest = of(Role::GuestKernel, Source::Threads { pid, tids: tids.clone() });
        let emulator = of(Role::Hypervisor, Source::OtherThreads { pid, except: tids });
        let server = of(Role::Hypervisor, Source::Process(pid));
        let peak = Some(100);
        for (payer, small, huge) in
            [(&guest, Some(90), Some(90)), (&emulator, Some(10), peak), (&server, Some(10), peak)]
        {
            assert_eq!(memory(payer, peak, holds(90, 90, true)), small, "{payer:?}");
            assert_eq!(memory(payer, peak, holds(90, 0, true)), huge, "{payer:?}");
        }
        // The largest of a process's own memory is no guest's that it shares.
        assert_eq!(memory(&server, peak, holds(90, 90, false)), peak);
        assert_eq!(memory(&emulator, peak, |_| None), peak);
    }

    #[test]
    fn no_page_faults_of_a_group_are_some_that_are_not_added_up_yet() {
        let faults_of = |source, faults: u64| {
            let reading = |faults: u64| Usage {
                amounts: Amounts::default().with(PAGE_FAULTS, faults),
                ..Usage::default()
            };
            let payer = Payer::new("one", Role::Workload, source);
            used(&payer, &reading(7), &reading(7 + faults)).get(PAGE_FAULTS)
        };
        let group = || Source::Group("/a".into());
        assert_eq!((faults_of(group(), 0), faults_of(group(), 44)), (None, Some(44)));
        assert_eq!(faults_of(Source::Process(std::process::id()), 0), Some(0));
    }

    /// Unknown is not the same as nothing.
    #[test]
    fn of_a_process_that_ends_meanwhile_or_had_ended_before_nothing_is_known() {
        let mut child = sleeper();
        let payer = Payer::new("a server", Role::Hypervisor, Source::Process(child.id()));
        let watch = begin(vec![payer.clone()]);
        child.kill().and_then(|()| child.wait()).unwrap();
        for readings in [watch.end(), begin(vec![payer]).end()] {
            let [reading] = &readings[..] else { panic!("{readings:?}") };
            assert!(!reading.is_counted() && reading.payer == "a server", "{reading:?}");
        }
        let untold = begin(vec![Payer::untold("a server", Role::Engine)]).end();
        assert!(!untold[0].is_counted(), "{untold:?}");
        let of_self = Payer::new("we", Role::Hypervisor, Source::Process(std::process::id()));
        assert!(begin(vec![of_self]).end()[0].is_counted());
    }

    /// Also what it reads and faults in, and never more of it than there was.
    #[test]
    fn what_is_used_in_a_pause_is_on_nobodys_bill() {
        let work = |milliseconds: u64| {
            let begun = surtax_instrument::clock::thread_cpu();
            while surtax_instrument::clock::thread_cpu().since(begun).0 < milliseconds * 1_000_000 {
            }
        };
        let id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let source = Source::Threads { pid: std::process::id(), tids: vec![id] };
        let payer = Payer::new("we", Role::Hypervisor, source);
        let mut watch = begin(vec![payer]);
        work(20);
        watch.pause();
        work(400);
        // Even of huge pages these are 128, each touched for the first time.
        let touched = std::hint::black_box(vec![1_u8; 256 << 20]);
        let paused = watch.resume().0;
        work(20);
        let reading = &watch.end()[0];
        let used = reading.cpu_total().unwrap().0;
        assert!(touched[0] == 1 && reading.amounts.get(PAGE_FAULTS).unwrap() < 64, "{reading:?}");
        assert!(paused >= 400_000_000, "{paused}");
        assert!(used < paused / 2, "{used} beside {paused} in the pause");
    }

    /// Use in the pause cannot be told from use beside it.
    #[test]
    fn of_a_payer_that_could_not_be_read_in_a_pause_nothing_is_known() {
        let source = Source::Process(std::process::id());
        let mut watch = begin(vec![Payer::new("we", Role::Hypervisor, source.clone())]);
        watch.watched[0].payer.source = Source::Process(0);
        watch.pause();
        watch.watched[0].payer.source = source;
        watch.resume();
        let reading = &watch.end()[0];
        assert!(!reading.is_counted(), "{reading:?}");
    }

    fn begin(payers: Vec<Payer>) -> Watch {
        Watch::begin(payers, 0, &Hierarchies::discover().unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "no lab is needed for a process that sleeps")]
    fn sleeper() -> std::process::Child {
        std::process::Command::new("sleep").arg("60").spawn().unwrap()
    }

    /// Guests beside a command of the host's own, such as a client of theirs, do not carry it.
    #[test]
    fn a_guests_memory_is_its_own_line_whether_or_not_it_carries_the_command() {
        const SIZE: usize = 256 << 20;
        let memory = std::hint::black_box(vec![1_u8; SIZE]);
        let pid = std::process::id();
        let payer = |name: &str, role, source, carries_workload| {
            Payer::new(name, role, source).carrying(carries_workload)
        };
        for carries in [true, false] {
            let tids = vec![pid];
            let guest = Source::Threads { pid, tids: tids.clone() };
            let others = Source::OtherThreads { pid, except: tids };
            let payers = vec![
                payer("vCPU threads", Role::GuestKernel, guest, carries),
                payer("QEMU's other threads", Role::Hypervisor, others, false),
            ];
            let readings = begin(payers).end();
            let found: Vec<Option<u64>> =
                readings.iter().map(|it| it.amounts.get(MEMORY_PEAK)).collect();
            let whole = usage(pid).unwrap().amounts.get(MEMORY_PEAK).unwrap();
            assert!(found[0].unwrap() >= SIZE as u64, "{found:?}");
            // The tests beside this one take and give back memory of the same process meanwhile.
            assert!(found[1].unwrap() <= whole - SIZE as u64 / 2, "{found:?} of {whole:?}");
        }
        assert!(memory.iter().all(|byte| *byte == 1));
    }
}
