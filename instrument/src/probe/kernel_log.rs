//! Reads what the kernel logs about processes that it kills because memory has run out, and about
//! those that it does not make because a group may have no more.
//!
//! - **Reads** records of `/dev/kmsg` from the moment on at which it was opened; of those the lines
//!   `oom-kill:`, which have the groups, `Killed process`, which have the number alone, and `fork
//!   rejected by pids controller`.
//! - **Costs** one `open`, and one `read` for each record that anybody logs meanwhile.
//! - **Cannot see** the groups of more than ten kills in five seconds: the kernel holds back the
//!   rest; more than the first refusal of a process in each group. Nor anything where the log may
//!   not be read.
//! - **Reference** Linux `Documentation/ABI/testing/dev-kmsg`, `mm/oom_kill.c` (`dump_oom_victim`,
//!   `__oom_kill_process`), `kernel/cgroup/pids.c` (`pids_event`).

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The longest record that the kernel gives.
const RECORD_BYTES: usize = 8192;

/// Largest number of records read at once, whoever fills the log.
const RECORDS_LIMIT: usize = 20_000;

/// Texts before the group that was full, and before the group of who was killed.
const LIMITED: &str = ",oom_memcg=";
const GROUP: &str = ",task_memcg=";

/// Words before the group in which a process could not be made.
const REFUSED: &str = "cgroup: fork rejected by pids controller in ";

/// The kernel's log from one moment on.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
    /// A record without the name of its group, which the next one has: so the kernel does where
    /// both together are longer than a record, of about 1 KiB.
    nameless: Option<Nameless>,
}

/// Something logged whose group is in the next record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Nameless {
    /// A kill.
    Killed(Victim),
    /// A process that could not be made.
    Refused,
}

/// One process that was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The group that it was in.
    pub group: String,
    /// The group whose limit was reached; `None` where the machine itself had run out.
    pub limited: Option<String>,
}

/// Kills, and processes that could not be made, that were logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Processes that were killed, with the groups, where the kernel did not hold them back.
    pub victims: Vec<Victim>,
    /// The numbers of the others, in the first pid namespace.
    pub pids: Vec<u32>,
    /// Groups in which a process could not be made, since a limit on their number was reached.
    pub refused: Vec<String>,
    /// True if records were overwritten before they were read.
    pub is_incomplete: bool,
}

impl KernelLog {
    /// Opens it at its end; `None` where it may not be read.
    #[must_use]
    pub fn open() -> Option<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self { file, nameless: None })
    }

    /// Reads who was killed or not made since it was opened, or last asked.
    pub fn read(&mut self) -> Logged {
        let mut logged = Logged::default();
        let mut told = BTreeSet::new();
        let mut record = [0; RECORD_BYTES];
        for _ in 0..RECORDS_LIMIT {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
                    self.hear(&text, &mut logged);
                    told.extend(told_of(&text));
                    logged.pids.extend(pid(&text));
                }
                // What was overwritten before it was read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    logged.is_incomplete = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Of those the groups say whose they were; a number alone may be somebody else's by now.
        logged.pids.retain(|pid| !told.contains(pid));
        logged
    }

    /// Takes what a record says of a group, or the name of the group of the one before it.
    fn hear(&mut self, record: &str, logged: &mut Logged) {
        let nameless = self.nameless.take();
        if let Some((nameless, group)) = nameless.zip(continued(record)) {
            match nameless {
                Nameless::Killed(victim) => logged.victims.push(Victim { group, ..victim }),
                Nameless::Refused => logged.refused.push(group),
            }
            return;
        }
        match (victim(record), refused(record)) {
            (Some(victim), _) if victim.group.is_empty() => {
                self.nameless = Some(Nameless::Killed(victim));
            }
            (_, Some(group)) if group.is_empty() => self.nameless = Some(Nameless::Refused),
            (victim, refused) => {
                logged.victims.extend(victim);
                logged.refused.extend(refused);
            }
        }
    }
}

/// The name that a record continues with, cut off as it may be: `6,1,2,-;/a/b`.
fn continued(record: &str) -> Option<String> {
    let text = of_kernel(record).filter(|text| text.starts_with('/'))?;
    Some(text.split(',').next().unwrap_or(text).to_owned())
}

/// Reads one record:
/// `6,1234,5678,-;oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=x,…`.
fn victim(record: &str) -> Option<Victim> {
    let words = of_kernel(record)?.strip_prefix("oom-kill:")?;
    // A process may be called `,task_memcg=`; its name comes after its group.
    let words = words.rsplit_once(",task=").map_or(words, |(groups, _)| groups);
    // A group may be called anything, `x,task_memcg=` too, by whoever may make one.
    let is_ambiguous = |key: &str| words.matches(key).count() > 1;
    if [LIMITED, GROUP].into_iter().any(is_ambiguous) {
        return None;
    }
    let value = |key: &str| Some(words.split_once(key)?.1.split(',').next()?.to_owned());
    Some(Victim { group: value(GROUP)?, limited: value(LIMITED) })
}

/// The number in such a record, ambiguous or not: it is the last but one of its values.
fn told_of(record: &str) -> Option<u32> {
    let words = of_kernel(record)?.strip_prefix("oom-kill:")?;
    words.rsplit_once(",pid=")?.1.split(',').next()?.parse().ok()
}

/// Reads one record: `3,1,2,-;Memory cgroup out of memory: Killed process 17 (x) total-vm:…`.
fn pid(record: &str) -> Option<u32> {
    let (why, who) = of_kernel(record)?.split_once(": Killed process ")?;
    // The kernel's own words, with nothing of the process's before them: its name comes after its
    // number.
    let is_memory = ["Out of memory", "Memory cgroup out of memory"].contains(&why);
    who.split_once(" (")?.0.parse().ok().filter(|_| is_memory)
}

/// Reads one record: `6,1,2,-;cgroup: fork rejected by pids controller in /a/b`.
fn refused(record: &str) -> Option<String> {
    of_kernel(record)?.strip_prefix(REFUSED).map(str::to_owned)
}

/// The first line of a record, if the kernel wrote it: a program that writes to the log cannot have
/// its facility, 0.
fn of_kernel(record: &str) -> Option<&str> {
    let (_, text) = record.split_once(';')?;
    let priority: u32 = record.split(',').next()?.parse().ok()?;
    text.lines().next().filter(|_| priority < 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_told_with_its_group_and_the_one_that_was_full() {
        let recorded = "6,1034,2477367262,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=container,\
            mems_allowed=0,oom_memcg=/surtax-3673f85f/0-3-3,task_memcg=/surtax-3673f85f/0-3-3/container,task=exe,\
            pid=17328,uid=0\n";
        let limited = Some(String::from("/surtax-3673f85f/0-3-3"));
        let group = String::from("/surtax-3673f85f/0-3-3/container");
        assert_eq!(victim(recorded), Some(Victim { group, limited }));
        let global = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
            task_memcg=/surtax-1/0-0-2,task=qemu-system-x86,pid=7,uid=0\n";
        assert_eq!(victim(global).unwrap().limited, None);
        for name in [",task_memcg=", ",task=,oom_memc"] {
            let called = recorded.replace("task=exe", &format!("task={name}"));
            assert_eq!(victim(&called), victim(recorded), "{name}");
        }
    }

    #[test]
    fn a_group_whose_name_names_another_is_nobodys() {
        let forged = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
            oom_memcg=/user.slice/x,task_memcg=/surtax-1/0-0-2,task_memcg=/user.slice/x,task=a,pid=7,uid=9\n";
        assert_eq!((victim(forged), told_of(forged)), (None, Some(7)));
        let named = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
            task_memcg=/surtax-1/0-0-2,task=,pid=1,uid=0,pid=7,uid=0\n";
        assert_eq!((victim(named).is_some(), told_of(named)), (true, Some(7)));
    }

    #[test]
    fn a_kill_whose_groups_are_held_back_has_its_number() {
        let of_group =
            "3,9,7,-;Memory cgroup out of memory: Killed process 17328 (exe) total-vm:1kB, UID:0\n";
        assert_eq!((pid(of_group), victim(of_group)), (Some(17328), None));
        assert_eq!(
            pid("3,9,7,-;Out of memory: Killed process 5 (a: Killed process 7 (b)) x"),
            Some(5)
        );
        assert_eq!(pid("12,9,7,-;Out of memory: Killed process 5 (a)"), None);
        assert_eq!(pid("3,9,7,-;audit: name=Out of memory: Killed process 5 (a)"), None);
    }

    #[test]
    fn a_process_that_was_not_made_is_told_with_its_group() {
        let recorded = "6,1070,13843278605,-;cgroup: fork rejected by pids controller in \
                        /surtax-c9d3c2a9/0-1-2/container\n";
        assert_eq!(refused(recorded).unwrap(), "/surtax-c9d3c2a9/0-1-2/container");
        assert_eq!(refused(&recorded.replacen('6', "14", 1)), None);
        assert_eq!(refused("6,1,2,-;x: cgroup: fork rejected by pids controller in /a\n"), None);
    }

    #[test]
    fn a_group_with_a_long_name_has_it_in_the_next_record() {
        let file = File::open("/dev/null").unwrap();
        let mut log = KernelLog { file, nameless: None };
        let mut logged = Logged::default();
        let limited = "/surtax-1/0-0-0/container";
        for record in [
            "6,1,2,-;cgroup: fork rejected by pids controller in \n",
            "6,2,2,-;/surtax-1/0-0-0/container/dddd\n",
            &format!(
                "6,3,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg={limited},task_memcg="
            ),
            "6,4,2,-;/surtax-1/0-0-0/container/eeee,task=x\n",
            "6,5,2,-;cgroup: fork rejected by pids controller in \n",
            "6,6,2,-;eth0: link up\n",
            "6,7,2,-;/not/a/name\n",
        ] {
            log.hear(record, &mut logged);
        }
        assert_eq!(logged.refused, ["/surtax-1/0-0-0/container/dddd"]);
        let group = String::from("/surtax-1/0-0-0/container/eeee");
        assert_eq!(logged.victims, [Victim { group, limited: Some(limited.into()) }]);
    }

    #[test]
    fn what_a_program_writes_into_the_log_is_no_victim() {
        let forged =
            "12,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/surtax-1/0-0-2,task=x\n";
        assert_eq!(victim(forged), None);
        assert_eq!(victim("6,1,2,-;eth0: link up\n"), None);
        assert_eq!(victim(""), None);
    }
}
