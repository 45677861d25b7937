//! Domains of libvirt, which are the user's: what we do to one while it is borrowed, and how that
//! is undone.
//!
//! Nothing of a domain's stored definition is touched: a channel is attached to what runs and is
//! gone with it. One that was shut off is started before a single instruction of it runs, so that
//! it has our channel from its beginning; so whoever finds it without the channel knows that it is
//! not ours any more. It is asked to shut down, and never switched off: its disks are the user's.

use super::ask;
use super::process::Program;
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};
use surtax_instrument::wire::Cause;

/// The client's program.
pub const PROGRAM: &str = "virsh";

/// Time limit for one question to libvirt.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);

/// Time limit for a domain to shut down.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(60);

/// Time limit for a domain to let go of a channel.
const DETACH_DEADLINE: Duration = Duration::from_secs(5);

/// Pause between two looks at a domain meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Time that a domain is waited for before its power button is pressed, too.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// Largest CPU time that a machine which has not run has used, in nanoseconds: what its threads
/// took to start.
const NEVER_RAN_NS: u64 = 100_000_000;

/// Prefix of the alias of a device that is not libvirt's own.
const ALIAS_PREFIX: &str = "ua-";

/// A domain, by what never changes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Connection URI of libvirt, such as `qemu:///system`.
    pub uri: String,
    /// UUID of the domain, or its name as long as that is all that is known.
    pub id: String,
}

/// State of a domain, as libvirt tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainState {
    /// It runs.
    Running,
    /// It was started and is halted.
    Paused,
    /// It does not run.
    ShutOff,
    /// Something else, in libvirt's words.
    Other(String),
}

impl Domain {
    /// The command line by which libvirt is asked.
    #[must_use]
    pub fn command_line(uri: &str, words: &[&str]) -> Vec<String> {
        let before = [PROGRAM, "--quiet", "--connect", uri];
        before.iter().chain(words).map(|&word| word.to_owned()).collect()
    }

    /// Asks libvirt something; its answer.
    ///
    /// # Errors
    /// The machine's: libvirt is not there, or refuses; with its last words.
    pub fn ask(uri: &str, words: &[&str]) -> Result<String, Fault> {
        let argv = Self::command_line(uri, words);
        let program = Program { argv, ..Program::default() };
        ask::run(program, ANSWER_DEADLINE)
    }

    fn tell(&self, verb: &str, words: &[&str]) -> Result<String, Fault> {
        let words = [&[verb, "--domain", &self.id], words].concat();
        Self::ask(&self.uri, &words)
    }

    /// A question about this domain: `dominfo`, `dumpxml`, `domstats` and the like.
    ///
    /// # Errors
    /// As [`Domain::ask`].
    pub fn question(&self, verb: &str, words: &[&str]) -> Result<String, Fault> {
        self.tell(verb, words)
    }

    /// Asks libvirt for the present state of the domain.
    ///
    /// # Errors
    /// As [`Domain::ask`].
    pub fn state(&self) -> Result<DomainState, Fault> {
        let said = self.tell("domstate", &[])?;
        Ok(match said.trim() {
            "running" | "idle" => DomainState::Running,
            "paused" => DomainState::Paused,
            "shut off" => DomainState::ShutOff,
            other => DomainState::Other(other.to_owned()),
        })
    }

    /// The alias of our channel of this name: it carries our tag, and libvirt keeps it.
    #[must_use]
    pub fn alias(channel: &str) -> String {
        format!("{ALIAS_PREFIX}{channel}")
    }

    fn has(&self, channel: &str) -> Result<bool, Fault> {
        let alias = format!("<alias name='{}'/>", Self::alias(channel));
        Ok(self.tell("dumpxml", &[])?.contains(&alias))
    }

    /// Attaches a channel to what runs, from a file with its description.
    pub(super) fn attach(&self, file: &str) -> Result<(), Fault> {
        self.tell("attach-device", &["--live", "--file", file]).map(drop)
    }

    /// Starts it, and halts it before its first instruction.
    pub(super) fn start_halted(&self) -> Result<(), Fault> {
        self.tell("start", &["--paused"]).map(drop)
    }

    /// Lets it run.
    pub(super) fn resume(&self) -> Result<(), Fault> {
        self.tell("resume", &[]).map(drop)
    }

    /// Takes our channel off what runs, and waits until it is off: that libvirt 9.0 says when it is
    /// not yet and when it is already.
    pub(super) fn detach(&self, channel: &str) -> Result<(), Fault> {
        let alias = Self::alias(channel);
        let told = self.tell("detach-device-alias", &["--live", "--alias", &alias]);
        let gone = || self.has(channel).map(|has| (!has).then_some(())).transpose();
        look_until(DETACH_DEADLINE, LOOK_AGAIN, gone).unwrap_or_else(|| {
            let id = &self.id;
            let late = format!("the domain `{id}` still has our channel `{channel}`");
            told.and_then(|_| Err(Fault::machine(late)))
        })
    }

    /// Asks it to shut down, by its guest agent and then by its power button, and waits until it
    /// has.
    pub(super) fn shut_down(&self) -> Result<(), Fault> {
        let begin = monotonic_raw();
        let passed = || Duration::from(monotonic_raw().since(begin));
        let (mut agent_agreed, mut button_pressed) = (false, false);
        while passed() < SHUTDOWN_DEADLINE {
            // In a guest that still boots there is nobody yet, and in some there is no button.
            agent_agreed = agent_agreed || self.tell("shutdown", &["--mode", "agent"]).is_ok();
            if passed() >= ASK_AGAIN && !button_pressed {
                button_pressed = true;
                let _ = self.tell("shutdown", &["--mode", "acpi"]);
            }
            if self.is_off()? {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let (id, seconds) = (&self.id, SHUTDOWN_DEADLINE.as_secs());
        Err(Fault::machine(format!(
            "the domain `{id}` was started by us and did not shut down within {seconds} s; it runs \
             on"
        ))
        .hint(format!("{PROGRAM} -c {} shutdown {id}", self.uri)))
    }

    /// Tells whether the domain is off, or is not there any more.
    fn is_off(&self) -> Result<bool, Fault> {
        match self.state() {
            Ok(state) => Ok(state == DomainState::ShutOff),
            Err(fault) if fault.cause == Some(Cause::Absent) => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    /// Tells whether the virtual CPUs of the domain have never run.
    fn never_ran(&self) -> Result<bool, Fault> {
        Ok(have_never_run(&self.tell("domstats", &["--vcpu"])?))
    }

    /// Undoes what a borrower did: takes its channel off, and shuts down what it started.
    pub(super) fn give_back(&self, channel: &str, was_started: bool) -> Result<Vec<String>, Fault> {
        let id = &self.id;
        let state = match self.state() {
            Ok(state) => state,
            // Neither a domain nor a libvirt that is gone has anything of ours.
            Err(fault) if fault.cause == Some(Cause::Absent) => return Ok(Vec::new()),
            Err(fault) => return Err(fault),
        };
        if state == DomainState::ShutOff {
            return Ok(Vec::new());
        }
        if self.has(channel)? {
            if state == DomainState::Paused && was_started {
                self.resume()?;
            }
            if was_started {
                self.shut_down()?;
                return Ok(vec![format!("domain `{id}`, which was started by us, still ran")]);
            }
            self.detach(channel)?;
            return Ok(vec![format!("domain `{id}` still had our channel")]);
        }
        if was_started && state == DomainState::Paused && self.never_ran()? {
            // Killed between two steps: nothing of its disks was ever in its memory.
            self.tell("destroy", &[])?;
            return Ok(vec![format!("domain `{id}` was started by us and had not run")]);
        }
        Ok(Vec::new())
    }
}

/// Tells whether none of the virtual CPUs of which `virsh domstats` says a time has run; of nothing
/// that is said this is not known.
fn have_never_run(said: &str) -> bool {
    let times = said.lines().filter_map(|line| line.trim().split_once(".time="));
    let used_ns: Vec<u64> = times.map(|(_, value)| value.parse().unwrap_or(u64::MAX)).collect();
    !used_ns.is_empty() && used_ns.iter().all(|used| *used < NEVER_RAN_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_of_ours_is_known_by_an_alias_that_libvirt_lets_users_choose() {
        assert_eq!(Domain::alias("surtax-1-enter"), "ua-surtax-1-enter");
    }

    #[test]
    fn a_domain_of_whose_cpus_nothing_is_said_may_have_run() {
        let said = "Domain: 'web'\n  vcpu.current=2\n  vcpu.0.time=0\n  vcpu.1.time=10000000\n";
        assert!(have_never_run(said));
        assert!(!have_never_run(&said.replace("=10000000", "=200000000")));
        assert!(!have_never_run(&said.replace("=10000000", "=soon")));
        assert!(!have_never_run("Domain: 'web'\n  vcpu.current=2\n"));
    }

    #[test]
    fn a_domain_whose_libvirt_is_gone_has_nothing_of_ours() {
        if crate::lab::find(PROGRAM).is_none() {
            println!("SKIPPED: `{PROGRAM}` is not here");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let uri = format!("qemu:///system?socket={}/none", place.path().display());
        let domain = Domain { uri, id: String::from("tiny") };
        assert_eq!(domain.give_back("surtax-1-enter", true).unwrap(), Vec::<String>::new());
        assert!(domain.state().is_err());
    }
}
