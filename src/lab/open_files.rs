//! Open files, and the limit on them: surtax takes all that it may have, and what it starts gets
//! what the user had.
//!
//! A plan with many stacks keeps pipes, groups and namespaces open by the hundred, and a shell's
//! usual limit of 1,024 is one that is there to be raised. A command must not see that: its limit
//! is part of what is measured.

use super::confinement::last_errno;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Limit on open files when this process began.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit to the highest one that is allowed. What is refused stays as it is.
pub fn raise() {
    let before = *BEFORE.get_or_init(|| getrlimit(Resource::Nofile));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
}

/// The limit as the user set it: for all that is started.
#[must_use]
pub fn before() -> Rlimit {
    BEFORE.get().copied().unwrap_or_else(|| getrlimit(Resource::Nofile))
}

/// File of the limit that no process may exceed, whatever its rights.
const CEILING: &str = "/proc/sys/fs/nr_open";

/// The first of all user namespaces: `PROC_USER_INIT_INO` of `linux/proc_ns.h`.
const FIRST: &str = "user:[4026531837]";

/// The most that a server of surtax's own may be given: a privileged surtax exceeds the user's
/// limit, which was not meant for somebody who holds the files of a whole guest open.
#[must_use]
pub fn most() -> u64 {
    let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    // The kernel asks for the right in the first of all user namespaces, not in ours.
    let is_first = fs::read_link("/proc/self/ns/user").is_ok_and(|own| own == Path::new(FIRST));
    let is_able = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::SYS_RESOURCE);
    let may_exceed = is_first && capabilities(None).is_ok_and(is_able);
    let ceiling = fs::read_to_string(CEILING).ok().and_then(|text| text.trim().parse().ok());
    ceiling.filter(|_| may_exceed).map_or(own, |ceiling: u64| ceiling.max(own))
}

/// Marks all descriptors but the first three to be closed by `exec`: what a careless parent left
/// open for us is not handed on. One system call, for use after `fork`.
pub(super) fn close_others_on_exec() -> Result<(), Errno> {
    const CLOEXEC: libc::c_uint = 4;
    // SAFETY: the call takes three numbers, and closes nothing itself.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_gets_the_limit_that_the_user_had() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("open-files").unwrap();
        // Remembered once for a process, whatever it was then.
        let user = before().current;
        raise();
        assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
        let argv = ["sh", "-c", "ulimit -Sn"].map(String::from).to_vec();
        let program = crate::lab::Program { argv, ..crate::lab::Program::default() };
        let said = crate::lab::tests::output(&room, program);
        let user = user.map_or_else(|| String::from("unlimited"), |most| most.to_string());
        assert_eq!(said.trim_end(), user);
    }

    #[test]
    fn a_server_may_have_more_open_than_the_user() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("many-open-files").unwrap();
        let argv = ["sh", "-c", "ulimit -Sn; ulimit -Hn"].map(String::from).to_vec();
        let open_files = Some(most());
        let program = crate::lab::Program { argv, open_files, ..crate::lab::Program::default() };
        let said = crate::lab::tests::output(&room, program);
        assert_eq!(said, format!("{}\n", most()).repeat(2));
        assert!(before().maximum.is_none_or(|own| own <= most()));
    }
}
