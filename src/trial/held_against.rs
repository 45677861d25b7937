//! Holds what the inside says of a command against what this host saw meanwhile: a claim is not
//! believed alone.
//!
//! The seal of a channel keeps out who has no key. Root beside an agent can read its memory, and a
//! kernel that is not ours says what it likes; but neither can make the host's own time pass
//! faster, or its counters stand still:
//!
//! - **Time** by a clock that is the host's lies between the two frames that it came between. It is
//!   never more, and less only by what a frame may be late: see [`Host::slack`]. Time by another
//!   clock is not believed at all, it is the host's anyway; it must be some.
//! - **CPU time** by a kernel that is the host's is in the group that holds the command, and at
//!   most all of the CPUs' time. By another kernel it only divides what was seen outside: see
//!   decision 34.
//! - **Memory** is at most all that this machine has, and in a guest of its what the guest was
//!   given. The peak of a group says nothing against it: files that are in memory already are in a
//!   process's resident set, and not in its group's bill.
//! - **A time that a workload measured** of something that it did, such as one request, is at most
//!   the time that its command took.

use super::clock_sync::ClockSync;
use super::conditions::real;
use super::iterate::TimedRun;
use super::outside::{Cpu, settle};
use super::workload_reading::WALL_OF_INSTANCE;
use crate::layer::{Payer, Source};
use crate::workload::WorkloadReading;
use std::time::Duration;
use surtax_instrument::amount::CPU_COMMAND_GROUP;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{LevelFacts, Outcome, Reading};

/// By how much two readings of one clock may contradict each other: what two CPUs of one machine
/// differ by.
const TICK: Nanoseconds = Nanoseconds(20_000);

/// Time that a frame may be late on a machine that does other things too: the agent waits for a CPU
/// before it starts the command, and again after it has ended. Decision 32 has how it was measured.
const LATE: Duration = Duration::from_millis(500);

/// Number of shortest round trips by which it may be late as well.
const LATE_ROUND_TRIPS: u64 = 50;

/// Part of the whole time by which it may be late as well, one in so many: whoever presses on a
/// machine for long slows the agent too.
const LATE_PART: u64 = 20;

/// Part of a command's time by which a time that it measured may be longer, one in so many: bins
/// are wide, and another kernel's clock is another clock.
const MEASURED_PART: u64 = 8;

/// And by how much more: a tick of 100 Hz at each end. Our bracket holds all of the command, so no
/// frame that is late makes it shorter.
const MEASURED_TICKS: Nanoseconds = CPU_TICKS;

/// Time that a group waits for its next share where its CPU time is limited.
const PERIOD: Duration = Duration::from_millis(100);

/// Most CPU time that the agent takes around a command.
const AGENTS_CPU: Duration = Duration::from_millis(5);

/// Difference allowed between counters of CPU time that count the same: a tick of 100 Hz on each
/// side.
const CPU_TICKS: Nanoseconds = Nanoseconds(20_000_000);

/// And what part of it, one in so many.
const CPU_PART: u64 = 50;

/// CPU time that may be used beside a command in its group, by who waits for the agent to end.
const UNWAITED_LEAST: Nanoseconds = Nanoseconds(5_000_000);

/// And what part of the command's, one in so many.
const UNWAITED_PART: u64 = 20;

/// Observations of this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Facts known of the clock that the command was timed by.
    pub clock: ClockSync,
    /// The least CPU time that any level is limited to, in thousandths of a CPU.
    pub quota_millis: Option<u32>,
    /// Most memory that the command can have had; `None` where it may be another machine's.
    pub memory: Option<Bytes>,
    /// The counters of a kernel that all levels share, if they do.
    pub kernel: Option<Kernel>,
    /// Time that neighbours can have kept the agent and this surtax from a CPU, over all runs.
    pub kept_waiting: Nanoseconds,
}

/// Counters of the kernel that a command ran on, which is this host's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// CPU time of the group that holds the command, over all of its runs, if there is one and it
    /// was read.
    pub group: Option<Nanoseconds>,
    /// Of how many CPUs.
    pub cpus: u32,
    /// True where the CPU time is that of the command that was timed, and not of another one beside
    /// it.
    pub is_of_the_timed: bool,
}

impl Kernel {
    /// This host's, if every level of a stack says that it runs on it and the clock is the same.
    pub(super) fn shared(clock: ClockSync, levels: &[LevelFacts]) -> Option<Self> {
        let system = rustix::system::uname();
        let ours = [("release", system.release()), ("version", system.version())];
        let is_ours = |level: &LevelFacts| {
            ours.iter().all(|(key, value)| {
                let theirs = level.facts.iter().find(|fact| {
                    fact.key.strip_prefix("inside_kernel_").is_some_and(|name| name == *key)
                });
                theirs.is_some_and(|theirs| theirs.value.as_bytes() == value.to_bytes())
            })
        };
        if !clock.is_shared() || levels.is_empty() || !levels.iter().all(is_ours) {
            return None;
        }
        // SAFETY: the name is a constant, and no memory is named.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        // Of so many, the claim is at most that; nothing is held against what is not known.
        let cpus = u32::try_from(cpus).ok().filter(|cpus| *cpus > 0).unwrap_or(u32::MAX);
        Some(Self { group: None, cpus, is_of_the_timed: true })
    }
}

/// Returns the most memory that a command in these levels can have, all of this machine's: what the
/// outermost guest was given, as who made it says, and else all there is, swap included.
pub(super) fn memory_of(levels: &[LevelFacts]) -> Bytes {
    let facts = levels.first().map_or(&[][..], |outermost| &outermost.facts);
    let given = facts.iter().find(|fact| fact.key == "memory_bytes");
    let given = given.and_then(|fact| fact.value.parse().ok());
    let info = rustix::system::sysinfo();
    let all = info.totalram.saturating_add(info.totalswap).saturating_mul(info.mem_unit.into());
    Bytes(given.unwrap_or(all))
}

/// The CPU time of the group among these payers that holds the command, as it was read.
pub(super) fn of_the_group(payers: &[Payer], readings: &[Reading]) -> Option<Nanoseconds> {
    let is_it = |it: &&Payer| it.carries_workload && matches!(it.source, Source::Group(_));
    let payer = payers.iter().find(is_it)?;
    let read = readings.iter().find(|reading| reading.payer == payer.name)?;
    read.cpu_total()
}

/// Adds to a command's CPU time what its group used beside it and the agent: work of processes that
/// nobody waited for, since their parent ignores that they end, is in no other counter. How much
/// that was, in nanoseconds, where it is more than what else is in such a group explains.
///
/// `readings` are those of a stack on this host's kernel. Where the command's group has others in
/// it, who work for the layer, it is unknown.
pub(super) fn with_unwaited(outcome: &mut Outcome, readings: &[Reading]) -> Option<(String, f64)> {
    let claim = Cpu { user: outcome.cpu_user.0, system: outcome.cpu_system.0 };
    let split = settle(readings, Some(claim)).split?;
    let group = readings.iter().find_map(|it| it.amounts.get(CPU_COMMAND_GROUP))?;
    let carriers = || readings.iter().zip(&split.own).filter(|(it, _)| it.carries_workload);
    let deepest = carriers().map(|(it, _)| it.level).max()?;
    let mut innermost = carriers().filter(|(it, _)| it.level == deepest).map(|(_, own)| *own);
    let (own, None) = (innermost.next()?, innermost.next()) else { return None };
    let beside = Nanoseconds(group.saturating_sub(claim.total()).min(own.total()));
    let unwaited = beside.since(outcome.agent_cpu);
    if unwaited <= Nanoseconds(claim.total() / UNWAITED_PART) + UNWAITED_LEAST {
        return None;
    }
    let of_agent = own.total().saturating_sub(unwaited.0);
    let user = own.user.saturating_sub(of_agent);
    outcome.cpu_user += Nanoseconds(user);
    outcome.cpu_system += Nanoseconds(unwaited.0.saturating_sub(user));
    Some((String::from("cpu_unwaited_ns"), real(unwaited.0)))
}

/// By how much the host's brackets were longer than what the commands are said to have taken, the
/// most of them, in nanoseconds; nothing where the time is the host's own.
pub(super) fn excess(clock: ClockSync, runs: &[TimedRun]) -> Option<(String, f64)> {
    let excess = runs.iter().map(|ran| ran.between.since(ran.outcome.wall).0).max();
    let found = excess.filter(|_| clock.is_shared()).map(real);
    Some((String::from("bracket_excess_ns"), found?))
}

/// Returns the longest time that a workload can have measured within a command that ran so long.
pub(crate) fn longest_measured(wall: Nanoseconds) -> Nanoseconds {
    wall + Nanoseconds(wall.0 / MEASURED_PART) + MEASURED_TICKS
}

/// The first histogram of a workload, or time of an instance, with a time that is longer than any
/// run of its command, with both values; nothing where all may be true. A clock inside may run a
/// little faster than ours.
pub(super) fn too_long(read: &WorkloadReading, runs: &[TimedRun]) -> Option<String> {
    let longest = runs.iter().map(|ran| ran.between).max()?;
    let most = longest_measured(longest);
    let of_histograms = read.histograms.iter().filter_map(|it| {
        let claim = Nanoseconds(it.histogram.quantile(1.0)?);
        (claim > most).then(|| format!("`{}` holds a time of {claim}", it.name))
    });
    let of_instances = read.instances.iter().filter(|it| it.metric == WALL_OF_INSTANCE);
    let of_instances = of_instances.filter(|it| it.value > real(most.0));
    let of_instances = of_instances.map(|it| {
        let claim = Duration::try_from_secs_f64(it.value / 1e9).unwrap_or(Duration::MAX);
        format!("instance {} is said to have taken {}", it.instance, Nanoseconds::from(claim))
    });
    let claim = of_histograms.chain(of_instances).next()?;
    Some(format!("{claim}, and this host waited for {longest} for the whole command"))
}

impl Host {
    /// The first claim that contradicts what this host saw, with both values; nothing where all may
    /// be true.
    pub(super) fn contradicts(&self, runs: &[TimedRun]) -> Option<String> {
        let mut starved = self.starved();
        runs.iter()
            .find_map(|ran| self.time(ran, &mut starved).or_else(|| self.memory(ran)))
            .or_else(|| self.cpu(runs))
    }

    /// Returns how long neighbours surely kept the agent and us from a CPU. What the command's own
    /// group used may be what was waited for, and under a quota nobody knows.
    fn starved(&self) -> Nanoseconds {
        let group = self.kernel.filter(|kernel| kernel.is_of_the_timed).and_then(|it| it.group);
        let (Some(group), None) = (group, self.quota_millis) else { return Nanoseconds(0) };
        self.kept_waiting.since(group)
    }

    /// Returns how much shorter than the host's own bracket a command may have been.
    fn slack(&self, between: Nanoseconds) -> Nanoseconds {
        let trips = Nanoseconds(self.clock.round_trip().0.saturating_mul(LATE_ROUND_TRIPS));
        let waits = self.quota_millis.map_or(Duration::ZERO, |millis| {
            PERIOD + AGENTS_CPU.saturating_mul(1000) / millis.max(1)
        });
        trips + Nanoseconds(between.0 / LATE_PART) + LATE.into() + waits.into()
    }

    /// `starved` is what is left of the time that neighbours kept the agent and us from a CPU.
    fn time(&self, ran: &TimedRun, starved: &mut Nanoseconds) -> Option<String> {
        let (between, claim) = (ran.between, self.clock.wall(ran.between, &ran.outcome));
        if claim == Nanoseconds(0) {
            return Some(String::from("the command is said to have taken no time at all"));
        }
        if claim > between + TICK {
            return Some(format!(
                "the command is said to have taken {claim}, and this host waited for {between}"
            ));
        }
        let slack = self.slack(between);
        let unexplained = between.since(claim + slack);
        if unexplained > *starved {
            let explained = slack + *starved;
            return Some(format!(
                "the command is said to have taken {claim}, and this host waited for {between}, \
                 of which an agent explains {explained}"
            ));
        }
        *starved = starved.since(unexplained);
        None
    }

    fn memory(&self, ran: &TimedRun) -> Option<String> {
        let all = self.memory?;
        // Instances may have the same files in memory.
        let count = u64::try_from(ran.outcome.instances.len()).unwrap_or(u64::MAX).max(1);
        let claim = ran.outcome.memory_peak;
        (claim.0 / count > all.0).then(|| {
            format!(
                "the command is said to have had {} MiB in memory, and its machine has {} MiB",
                claim.mebibytes(),
                all.mebibytes()
            )
        })
    }

    fn cpu(&self, runs: &[TimedRun]) -> Option<String> {
        let kernel = self.kernel?;
        let used = |ran: &TimedRun| ran.outcome.cpu_user + ran.outcome.cpu_system;
        let claim = sum(runs.iter().map(used));
        let waited = sum(runs.iter().map(|ran| ran.between));
        let most = Nanoseconds(waited.0.saturating_mul(kernel.cpus.max(1).into()));
        if kernel.is_of_the_timed && claim > with_tolerance(most) {
            return Some(format!(
                "the command is said to have used {claim} of CPU time, and {} CPUs had {most}",
                kernel.cpus
            ));
        }
        let group = kernel.group?;
        (claim > with_tolerance(group)).then(|| {
            format!(
                "the command is said to have used {claim} of CPU time, and the group that holds it \
                 used {group}"
            )
        })
    }
}

fn with_tolerance(seen: Nanoseconds) -> Nanoseconds {
    seen + Nanoseconds(seen.0 / CPU_PART) + CPU_TICKS
}

fn sum(times: impl Iterator<Item = Nanoseconds>) -> Nanoseconds {
    times.fold(Nanoseconds(0), |sum, time| Nanoseconds(sum.0.saturating_add(time.0)))
}

#[cfg(test)]
mod tests;
