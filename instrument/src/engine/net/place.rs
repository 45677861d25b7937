//! Where an end runs: the CPUs that it may use, and the kernel that it runs on.
//!
//! Both alone have moved such figures severalfold, so every answer prints them. Source: `sched_setaffinity(2)`.

use crate::engine::Refused;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::fmt;

/// Tells one kernel from another.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An end's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The CPUs that it may use, as the kernel writes lists: `0-3,6`. A `?` where nobody says.
    pub(super) cpus: String,
    /// Which kernel; a `?` where that has no name.
    pub(super) kernel: String,
}

impl Place {
    /// That of the other end where it is not ours and says nothing.
    pub(super) fn unknown() -> Self {
        Self { cpus: String::from("?"), kernel: String::from("?") }
    }

    /// Ours, after a move to a CPU of the caller's choice.
    ///
    /// # Errors
    /// The user's: there is no such CPU, or it is not ours to use.
    pub(super) fn take(cpu: Option<usize>) -> Result<Self, Refused> {
        if let Some(cpu) = cpu {
            let mut set = CpuSet::new();
            if cpu < CpuSet::MAX_CPU {
                set.set(cpu);
            }
            sched_setaffinity(None, &set).map_err(|error| {
                Refused::user(format!("CPU {cpu} cannot be used: {error}"))
                    .hint("name one of those in `/proc/self/status`, `Cpus_allowed_list`")
            })?;
        }
        let cpus = sched_getaffinity(None).map(|set| list(&set));
        let kernel = std::fs::read_to_string(BOOT_ID).map(|text| text.trim().to_owned());
        let is_word = |text: &String| !text.is_empty() && !text.contains(char::is_whitespace);
        Ok(Self {
            cpus: cpus.unwrap_or_else(|_| String::from("?")),
            kernel: kernel.ok().filter(is_word).unwrap_or_else(|| String::from("?")),
        })
    }

    /// Refuses two ends that might poll on one CPU, where each waits for the other to be preempted.
    ///
    /// # Errors
    /// The user's.
    pub(super) fn require_own_cpus(&self, other: &Self) -> Result<(), Refused> {
        let is_one_kernel = self.kernel == other.kernel && self.kernel != "?";
        let theirs = numbers(&other.cpus);
        if is_one_kernel && numbers(&self.cpus).iter().any(|cpu| theirs.contains(cpu)) {
            let (ours, theirs) = (&self.cpus, &other.cpus);
            return Err(Refused::user(format!(
                "both ends would poll, on CPUs {ours} and {theirs}, and may meet on one"
            ))
            .hint(
                "give them CPUs of their own (`--cpu 0 --server-cpu 1`), or leave `--poll` out",
            ));
        }
        Ok(())
    }
}

/// The CPUs of a list such as `0-3,6`.
fn numbers(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(
            first.parse::<usize>().ok()?
                ..=last.parse().ok().filter(|last| *last < CpuSet::MAX_CPU)?,
        )
    });
    ranges.flatten().collect()
}

/// The CPU on which this thread runs right now.
pub(super) fn current_cpu() -> u64 {
    sched_getcpu() as u64
}

/// A set of CPUs as the kernel writes it.
fn list(set: &CpuSet) -> String {
    let mut ranges: Vec<Range> = Vec::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == cpu => range.last = cpu,
            _ => ranges.push(Range { first: cpu, last: cpu }),
        }
    }
    ranges.iter().map(Range::to_string).collect::<Vec<_>>().join(",")
}

struct Range {
    first: usize,
    last: usize,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last > self.first { write!(f, "-{}", self.last) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_cpus_is_written_as_the_kernel_does() {
        let mut set = CpuSet::new();
        [0, 1, 2, 5, 7, 8].into_iter().for_each(|cpu| set.set(cpu));
        assert_eq!(list(&set), "0-2,5,7-8");
    }

    #[test]
    fn two_ends_that_poll_need_cpus_of_their_own_on_one_kernel() {
        let place = |cpus: &str, kernel: &str| Place { cpus: cpus.into(), kernel: kernel.into() };
        let here = place("1-2,5", "a");
        for (cpus, kernel, is_fine) in [
            ("0,3-4", "a", true),
            ("5", "a", false),
            ("0-1", "a", false),
            ("0-1", "b", true),
            ("?", "?", true),
        ] {
            let answer = here.require_own_cpus(&place(cpus, kernel));
            assert_eq!(answer.is_ok(), is_fine, "{cpus} {kernel}");
        }
        assert!(place("0", "?").require_own_cpus(&place("0", "?")).is_ok());
    }
}
