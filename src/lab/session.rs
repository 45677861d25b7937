//! Ends the processes of one session, on machines without cgroups.
//!
//! The number of a session stays taken while anybody is in it. Once nobody is, it may be another's,
//! whose leader was started at another time: so that is looked at before each kill, and where the
//! leader of that one has ended, too, nothing tells. What begins a session of its own escapes; that
//! is what groups are for.

use super::processes::{field, ids, kill, name};
use crate::fault::Fault;
use std::time::Duration;

/// Largest number of times that the list of processes is read before giving up.
const PASS_LIMIT: usize = 100;

/// Largest number of times that it is read for who leaves without being killed.
const GRACE_LIMIT: usize = 20;

/// Reads when a process was started, in clock ticks since boot; `None` where it is gone.
pub(super) fn started_ticks(pid: u32) -> Option<u64> {
    field(pid, 22)?.parse().ok()
}

/// Tells whether the process of this number that was started then has not ended.
pub(super) fn is_running(pid: u32, ticks: u64) -> bool {
    started_ticks(pid) == Some(ticks) && !has_ended(pid)
}

/// Tells whether it only waits to be reaped, or is gone.
fn has_ended(pid: u32) -> bool {
    field(pid, 3).is_none_or(|state| state == "Z" || state == "X")
}

/// Kills everything in the session that this process began. Says who was still alive.
pub(super) fn end(leader: u32, leader_started_ticks: u64) -> Result<Vec<String>, Fault> {
    let is_it = || started_ticks(leader).is_none_or(|ticks| ticks == leader_started_ticks);
    let mut found = Vec::new();
    // Who is about to leave by itself is not one that was left.
    for _ in 0..GRACE_LIMIT {
        if members(leader)?.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..PASS_LIMIT {
        let members = members(leader)?;
        if members.is_empty() || !is_it() {
            return Ok(found);
        }
        for pid in members {
            let line = format!("process `{}` ({pid}) was still alive", name(pid));
            if !found.contains(&line) {
                found.push(line);
            }
            kill(pid, || is_it() && is_in(leader, pid));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Fault::machine(format!("session {leader} still has processes after SIGKILL")))
}

fn members(leader: u32) -> Result<Vec<u32>, Fault> {
    Ok(ids()?.filter(|&pid| is_in(leader, pid)).filter(|&pid| !has_ended(pid)).collect())
}

fn is_in(leader: u32, pid: u32) -> bool {
    field(pid, 6).is_some_and(|session| session == leader.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a session that is not a room's")]
    fn a_session_is_ended_whole_and_another_of_its_number_is_not() {
        let mut command = Command::new("setsid");
        let command = command.args(["sh", "-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(leader.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = leader.id();
        let ticks = started_ticks(pid).unwrap();
        let none: [&str; 0] = [];
        assert_eq!(end(pid, ticks + 1).unwrap(), none, "its number is another's");
        assert_eq!(members(pid).unwrap().len(), 2, "which is left alone");
        assert_eq!(end(pid, ticks).unwrap().len(), 2);
        leader.wait().unwrap();
        assert_eq!(members(pid).unwrap(), [0; 0]);
    }
}
