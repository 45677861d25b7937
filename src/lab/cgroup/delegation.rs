//! A place of our own in cgroup v2 where systemd is the first process: a scope that it delegates.
//!
//! The top of the tree is systemd's there, which gives and takes controllers as its units need
//! them: groups beside its own would share them without its knowing. It leaves a delegated scope
//! and all below it alone, and takes it away when nobody is in it any more. The lab's reaper is who
//! the scope is made for: it outlives all that the lab makes, and ends last.
//!
//! Source: systemd `docs/CGROUP_DELEGATION.md`, `org.freedesktop.systemd1(5)`
//! (`StartTransientUnit`), `sd_booted(3)`.

use super::{Groups, enable, make_directory, missing, read, write};
use crate::fault::{Doing, Fault};
use crate::lab::{PREFIX, ask, process};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::look_until;

/// Directory that exists where systemd runs.
const BOOTED: &str = "/run/systemd/system";

/// Socket of the bus of systemd, and the tool that speaks to it.
const BUS: &str = "/run/dbus/system_bus_socket";
const TOOL: &str = "busctl";

/// The slice of the scope.
pub(in crate::lab) const SLICE: &str = "system.slice";

/// The child of the scope in which the reaper is: in cgroup v2 a group whose children have
/// controllers has no processes itself.
const KEEPER: &str = "keeper";

/// Time limit for systemd to answer, and to make the scope.
const DEADLINE: Duration = Duration::from_secs(20);

/// Between two looks for a process that is being moved.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Groups {
    /// The scope of a lab, relative to the hierarchy's mount point; none where nobody has to be
    /// asked for a place.
    pub(in crate::lab) fn scope(&self, lab: &str) -> Option<PathBuf> {
        let is_alone = self.hierarchies.0.len() == 1 && self.hierarchies.unified().is_some();
        let is_there = is_alone
            && Path::new(BOOTED).is_dir()
            && Path::new(BUS).exists()
            && process::find(TOOL).is_some();
        is_there.then(|| Path::new(SLICE).join(unit(lab)))
    }

    /// Has systemd make the scope for a process of ours, and gives its children all controllers
    /// that we use.
    ///
    /// # Errors
    /// The machine's: systemd refuses, or does not come to it in time.
    pub(in crate::lab) fn move_in(&self, scope: &Path, lab: &str, pid: u32) -> Result<(), Fault> {
        let Some(unified) = self.hierarchies.unified() else {
            return Err(Fault::bug("a scope was asked for where there is no cgroup v2"));
        };
        ask::ask(&call(lab, pid), None, DEADLINE)
            .map_err(|fault| fault.during("ask systemd for a scope of the lab's own"))?;
        let place = Path::new("/").join(scope).display().to_string();
        let file = format!("/proc/{pid}/cgroup");
        let is_there = |told: String| {
            told.lines().any(|line| line.strip_prefix("0::") == Some(place.as_str())).then_some(())
        };
        let look = || read(Path::new(&file)).map(is_there).transpose();
        look_until(DEADLINE, LOOK_AGAIN, look).unwrap_or_else(|| {
            let seconds = DEADLINE.as_secs();
            let late = format!("systemd did not make the scope `{place}` within {seconds} s");
            Err(Fault::machine(late))
        })?;
        let top = unified.directory(scope);
        let keeper = top.join(KEEPER);
        make_directory(&keeper)?;
        write(&keeper.join("cgroup.procs"), &pid.to_string())?;
        let Some((_, names)) = self.enabling() else { return Ok(()) };
        enable(&top, &missing(&top, &names), super::Occupied::Ask)
            .doing(format_args!("enable {} in the scope `{place}`", names.join(", ")))
    }
}

fn unit(lab: &str) -> String {
    format!("{PREFIX}{lab}.scope")
}

/// Five properties: who is in it, that all below it is ours, where it is, that a process which is
/// killed for memory in a group of ours takes nobody else with it, and that it has no limit on
/// tasks, which every other unit has and no stack.
fn call(lab: &str, pid: u32) -> Vec<String> {
    let (unit, pid) = (unit(lab), pid.to_string());
    // `infinity` in a unit's file.
    let no_limit = u64::MAX.to_string();
    let words = [
        TOOL, "--system", "--quiet", "call", "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "StartTransientUnit",
        "ssa(sv)a(sa(sv))", &unit, "fail", "5", "PIDs", "au", "1", &pid, "Delegate", "b", "true",
        "Slice", "s", SLICE, "OOMPolicy", "s", "continue", "TasksMax", "t", &no_limit, "0",
    ];
    words.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_asked_for_a_delegated_scope_by_the_lab_s_name() {
        let line = call("ab12", 7).join(" ");
        assert!(line.ends_with(
            "StartTransientUnit ssa(sv)a(sa(sv)) surtax-ab12.scope fail 5 PIDs au 1 7 Delegate b \
             true Slice s system.slice OOMPolicy s continue \
             TasksMax t 18446744073709551615 0"
        ));
    }

    #[test]
    fn where_groups_of_v1_are_too_or_no_systemd_runs_nobody_is_asked() {
        let groups = Groups::discover().unwrap();
        if groups.hierarchies.0.len() > 1 || !Path::new(BOOTED).is_dir() {
            assert_eq!(groups.scope("ab12"), None);
        }
    }
}
