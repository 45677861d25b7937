//! Place of an end: the CPUs that it may use, the kernel that it runs on, and what those do when
//! nothing is to be done.
//!
//! Each alone has moved such figures severalfold, so every answer prints them. Source:
//! `sched_setaffinity(2)`, Linux `Documentation/admin-guide/pm/cpuidle.rst`,
//! `Documentation/admin-guide/cputopology.rst`.

use crate::{Refused, cpu};
use rustix::thread::{CpuSet, sched_getcpu};
use std::fs;
use surtax_instrument::clock;

/// Directory in which the kernel describes its CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// Word that stands where nobody says.
const UNKNOWN: &str = "?";

/// An end's place. All are words without a space; a `?` where nobody says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndPlace {
    /// The CPUs that it may use, as the kernel writes lists: `0-3,6`.
    pub(super) cpus: String,
    /// Kernel that it runs on, by the time at which that began: [`clock::kernel_begin_ns`].
    pub(super) kernel: String,
    /// Idle states of its CPU: driver, governor and states, `intel_idle:menu:POLL,C1,C6`; `none`
    /// for one that halts.
    pub(super) idle: String,
    /// Work that its network device takes off the kernel.
    pub(super) offloads: String,
}

impl EndPlace {
    /// That of the other end where it is not ours and says nothing.
    pub(super) fn unknown() -> Self {
        let unknown = || String::from(UNKNOWN);
        Self { cpus: unknown(), kernel: unknown(), idle: unknown(), offloads: unknown() }
    }

    /// Ours.
    pub(super) fn here() -> Self {
        let kernel = clock::kernel_begin_ns().to_string();
        let mut place = Self { kernel, ..Self::unknown() };
        place.look();
        place
    }

    /// Ours, after a move to a CPU if one was chosen.
    ///
    /// # Errors
    /// The user's: there is no such CPU, or it is not ours to use.
    pub(super) fn moved_to(mut self, cpu: Option<usize>) -> Result<Self, Refused> {
        if let Some(cpu) = cpu {
            cpu::pin(cpu).map_err(|error| {
                Refused::user(format!("CPU {cpu} cannot be used: {error}"))
                    .hint("name one of those in `/proc/self/status`, `Cpus_allowed_list`")
            })?;
            self.look();
        }
        Ok(self)
    }

    fn look(&mut self) {
        if let Ok(cpus) = cpu::allowed() {
            self.cpus = list(&cpus);
        }
        let cpu = list_of(&self.cpus).last().copied();
        self.idle = cpu.and_then(idle).unwrap_or_else(|| String::from(UNKNOWN));
    }

    /// Tells whether the other end is known to be on the same kernel.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|place| place.kernel.parse().ok());
        ours.zip(theirs).is_some_and(|(ours, theirs)| clock::is_one_kernel(ours, theirs))
    }

    /// Refuses two ends that might poll on one CPU, where each waits for the other to be preempted.
    ///
    /// # Errors
    /// The user's.
    pub(super) fn require_own_cpus(&self, other: &Self) -> Result<(), Refused> {
        let theirs = list_of(&other.cpus);
        if self.is_with(other) && list_of(&self.cpus).iter().any(|cpu| theirs.contains(cpu)) {
            let (ours, theirs) = (&self.cpus, &other.cpus);
            return Err(Refused::user(format!(
                "both ends would poll, on CPUs {ours} and {theirs}, and may meet on one"
            ))
            .hint("give them CPUs of their own (`--place apart`), or leave `--poll` out"));
        }
        Ok(())
    }

    /// Says where both ends are, in words: a client at this place, its server at the other.
    pub(super) fn with_server(&self, server: &Self) -> String {
        let words = |cpus: &str| match list_of(cpus).as_slice() {
            [one] => format!("on CPU {one}"),
            _ => format!("on any of CPUs {cpus}"),
        };
        let (ours, theirs) = (words(&self.cpus), words(&server.cpus));
        if server.kernel == UNKNOWN && server.cpus == UNKNOWN {
            return format!("client {ours}, server nobody knows where");
        }
        if !self.is_with(server) {
            return format!("client {ours}, server {theirs} of another kernel");
        }
        let near = match (list_of(&self.cpus).as_slice(), list_of(&server.cpus).as_slice()) {
            (&[one], &[other]) if one != other && are_siblings(one, other) => {
                ", two halves of a core"
            }
            (&[one], &[other]) if package(one) != package(other) => ", in two packages",
            _ => "",
        };
        format!("client {ours}, server {theirs}{near}")
    }
}

/// Tells whether two CPUs are threads of one core.
pub(super) fn are_siblings(one: usize, other: usize) -> bool {
    let siblings = said(&format!("{CPUS}/cpu{one}/topology/thread_siblings_list"));
    siblings.is_some_and(|siblings| list_of(&siblings).contains(&other))
}

fn package(cpu: usize) -> Option<String> {
    said(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"))
}

/// Describes the idle states of a CPU.
fn idle(cpu: usize) -> Option<String> {
    let driver = said(&format!("{CPUS}/cpuidle/current_driver"))?;
    if driver == "none" {
        return Some(driver);
    }
    let governor = ["current_governor", "current_governor_ro"];
    let governor = governor.iter().find_map(|name| said(&format!("{CPUS}/cpuidle/{name}")));
    let state = |number| {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle/state{number}");
        let is_on = said(&format!("{folder}/disable")).is_none_or(|word| word == "0");
        Some((said(&format!("{folder}/name"))?, is_on))
    };
    let states: Vec<String> =
        (0..16).map_while(state).filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    let word = format!("{driver}:{}:{}", governor.as_deref().unwrap_or(UNKNOWN), states.join(","));
    Some(word).filter(|word| is_word(word))
}

fn said(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

/// The CPUs of a list such as `0-3,6`, lowest first.
pub(super) fn list_of(text: &str) -> Vec<usize> {
    let ranges = text.split(',').filter_map(|range| {
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

/// CPUs, lowest first, as the kernel writes a list of them.
fn list(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|one, next| one + 1 == *next).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(usize::to_string).collect(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpus: &str, kernel: &str) -> EndPlace {
        EndPlace { cpus: cpus.into(), kernel: kernel.into(), ..EndPlace::unknown() }
    }

    #[test]
    fn a_set_of_cpus_is_written_as_the_kernel_does() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn two_ends_that_poll_need_cpus_of_their_own_on_one_kernel() {
        let here = place("1-2,5", "100000000000");
        for (cpus, kernel, is_fine) in [
            ("0,3-4", "100000000000", true),
            ("5", "100000000000", false),
            // Read a little later, between other interruptions.
            ("0-1", "100000700000", false),
            ("0-1", "101000000000", true),
            ("?", "?", true),
        ] {
            let answer = here.require_own_cpus(&place(cpus, kernel));
            assert_eq!(answer.is_ok(), is_fine, "{cpus} {kernel}");
        }
        assert!(place("0", "?").require_own_cpus(&place("0", "?")).is_ok());
    }

    #[test]
    fn where_both_ends_are_is_said_in_words() {
        let here = place("0", "1");
        let words = |cpus, kernel| here.with_server(&place(cpus, kernel));
        assert_eq!(words("0", "1"), "client on CPU 0, server on CPU 0");
        assert_eq!(words("0-3", "1"), "client on CPU 0, server on any of CPUs 0-3");
        assert_eq!(words("0", "2000000000"), "client on CPU 0, server on CPU 0 of another kernel");
        assert_eq!(words("0", "?"), "client on CPU 0, server on CPU 0 of another kernel");
        assert_eq!(words("?", "?"), "client on CPU 0, server nobody knows where");
    }

    #[test]
    fn all_that_is_said_of_a_place_is_one_word_each() {
        let EndPlace { cpus, kernel, idle, offloads } = EndPlace::here();
        for word in [&cpus, &kernel, &idle, &offloads] {
            assert!(is_word(word), "{word:?}");
        }
        assert!(!list_of(&cpus).is_empty());
    }
}
