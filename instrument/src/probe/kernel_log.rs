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
use std::time::Duration;

/// The longest record that the kernel gives.
const RECORD_BYTES: usize = 8192;

/// Largest number of records read at once, whoever fills the log.
const RECORDS_LIMIT: usize = 20_000;

/// Word before the groups of who was killed.
const KILLED: &str = "oom-kill:";

/// Texts before the group that was full, and before the group of who was killed.
const LIMITED: &str = ",oom_memcg=";
const GROUP: &str = ",task_memcg=";

/// The longest name of a process in the log: 15 bytes, each of which may be written as four.
const NAME_BYTES: usize = 60;

/// Longest line that is put together: three paths, each of them a record, which the kernel cuts off
/// at 2 KiB or 4.
const LINE_BYTES: usize = 16 << 10;

/// Number of looks for the end of a line that somebody writes just now, 1 ms apart.
const LOOKS: u32 = 4;

/// Words before the group in which a process could not be made.
const REFUSED: &str = "cgroup: fork rejected by pids controller in ";

/// The kernel's log from one moment on.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
    /// Lines that go on in later records. So the kernel does where a path is too long for a record,
    /// of about 1 KiB, and where another CPU logs meanwhile.
    begun: Begun,
    /// Numbers of those who were killed, of whom the groups were told.
    told: BTreeSet<u32>,
}

/// Lines whose end was not read yet.
#[derive(Debug, Default)]
struct Begun {
    /// That of a kill, as far as it was.
    killed: Option<String>,
    /// True if it is that of a process that could not be made, of which the group is to come.
    refused: bool,
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
    /// True if records were overwritten before they were read, or a line has no end that says whose
    /// it is.
    pub is_incomplete: bool,
}

impl KernelLog {
    /// Opens it at its end; `None` where it may not be read.
    #[must_use]
    pub fn open() -> Option<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self::of(file))
    }

    fn of(file: File) -> Self {
        Self { file, begun: Begun::default(), told: BTreeSet::new() }
    }

    /// Reads who was killed or not made since it was opened, or last asked.
    pub fn read(&mut self) -> Logged {
        let mut logged = Logged::default();
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.read_all(&mut logged);
            if self.begun.killed.is_none() && !self.begun.refused {
                break;
            }
        }
        self.give_up(&mut logged);
        // Of those the groups say whose they were; a number alone may be somebody else's by now.
        logged.pids.retain(|pid| !self.told.remove(pid));
        logged
    }

    fn read_all(&mut self, logged: &mut Logged) {
        let mut record = [0; RECORD_BYTES];
        for _ in 0..RECORDS_LIMIT {
            match self.file.read(&mut record) {
                Ok(0) => return,
                Ok(length) => {
                    let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
                    self.hear(&text, logged);
                }
                // What was overwritten before it was read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    self.give_up(logged);
                    logged.is_incomplete = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        logged.is_incomplete = true;
    }

    /// Takes what a record says, or what a line says of which it is a part.
    fn hear(&mut self, record: &str, logged: &mut Logged) {
        let Some(text) = of_kernel(record) else { return };
        if goes_on(record) {
            self.go_on(text, logged);
        } else if text.starts_with(KILLED) {
            self.give_up_kill(logged);
            self.hear_kill(text.to_owned(), logged);
        } else if let Some(group) = text.strip_prefix(REFUSED) {
            match group {
                // Two that wait for a group cannot be told apart.
                "" => logged.is_incomplete |= std::mem::replace(&mut self.begun.refused, true),
                group if is_path(group) => logged.refused.push(group.to_owned()),
                // `(name too long)`.
                _ => logged.is_incomplete = true,
            }
        } else {
            logged.pids.extend(pid(text));
        }
    }

    /// Takes a later part of a line: anybody's, who was interrupted.
    fn go_on(&mut self, text: &str, logged: &mut Logged) {
        let is_path = is_path(text);
        let is_refused = is_path && std::mem::take(&mut self.begun.refused);
        logged.refused.extend(is_refused.then(|| text.to_owned()));
        let awaits = |line: &mut String| awaits_path(line) == is_path;
        match self.begun.killed.take_if(awaits) {
            Some(line) => {
                // It may be the one's or the other's.
                logged.is_incomplete |= is_refused;
                self.hear_kill(line + text, logged);
            }
            // One whose beginning was lost, or that was taken for the end of another.
            None => {
                let is_part = is_path || [LIMITED, GROUP].iter().any(|key| text.starts_with(key));
                logged.is_incomplete |= is_part && !is_refused;
            }
        }
    }

    /// Takes the line of a kill, or keeps it where it is not whole.
    fn hear_kill(&mut self, line: String, logged: &mut Logged) {
        let is_whole = line.strip_prefix(KILLED).and_then(before_task).is_some();
        self.told.extend(is_whole.then(|| told_of(&line)).flatten());
        let is_long = line.len() >= LINE_BYTES;
        self.begun.killed = Some(line);
        if is_whole || is_long {
            self.give_up_kill(logged);
        }
    }

    /// Takes what is known of a kill whose line does not go on.
    fn give_up_kill(&mut self, logged: &mut Logged) {
        let Some(line) = self.begun.killed.take() else { return };
        match victim(&line) {
            Some(victim) => logged.victims.push(victim),
            None => logged.is_incomplete = true,
        }
    }

    /// Takes what is known of lines that do not go on.
    fn give_up(&mut self, logged: &mut Logged) {
        self.give_up_kill(logged);
        logged.is_incomplete |= std::mem::take(&mut self.begun.refused);
    }
}

/// Tells whether a part of a line begins with a group's path. The name of the set of all CPUs is
/// `/`, and goes on with a comma.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text != "/" && !text.starts_with("/,")
}

/// Tells whether the next part of a line is a path.
fn awaits_path(line: &str) -> bool {
    [LIMITED, GROUP].iter().any(|key| line.ends_with(key))
}

/// Tells whether a record is a later part of a line: `4,1,2,c;/a/b`.
fn goes_on(record: &str) -> bool {
    let head = record.split(';').next().unwrap_or_default();
    head.split(',').nth(3).is_some_and(|flags| flags.contains('c'))
}

/// Reads a line, whole or as far as it came:
/// `oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=x,pid=7,uid=0`.
///
/// A group may be called anything, `x,task_memcg=` too, by whoever may make one; but no name has a
/// `/`, so where the first path begins is certain, and where it is the machine's or ours, whatever
/// somebody made below it, so is all that it is known by. The second path is below the first one,
/// or is not believed.
fn victim(line: &str) -> Option<Victim> {
    let words = line.strip_prefix(KILLED)?;
    let words = before_task(words).unwrap_or(words);
    let path = |key: &str| {
        let found = words.match_indices(key).map(|(at, _)| at + key.len());
        let mut found = found.filter(|at| words.get(*at..).is_some_and(|it| it.starts_with('/')));
        found.next()
    };
    let (limited, group) = (path(LIMITED), path(GROUP));
    let first = limited.into_iter().chain(group).min()?;
    let (before, paths) = words.split_at_checked(first)?;
    // The set of CPUs has a name alone, and that of all is `/`. Another path was put in by chance.
    if before.replacen(",cpuset=/,", ",", 1).contains('/') {
        return None;
    }
    if limited != Some(first) {
        return Some(Victim { group: paths.to_owned(), limited: None });
    }
    let (limited, group) = paths.split_once(GROUP).unwrap_or((paths, ""));
    let below = group.strip_prefix(limited);
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let group = if is_below { group } else { limited };
    Some(Victim { group: group.to_owned(), limited: Some(limited.to_owned()) })
}

/// The part of a line before who was killed, `,task=x,pid=7,uid=0`; `None` where it does not end
/// so. A process may be called `,task=`, and a group, too.
fn before_task(words: &str) -> Option<&str> {
    // It is behind a path; a set of CPUs may be called so, too.
    let paths = words.find("=/")?;
    let (named, _) = words.rsplit_once(",pid=")?;
    let tasks = named.match_indices(",task=").map(|(at, key)| (at, at + key.len()));
    let mut tasks = tasks.filter(|(at, _)| *at > paths);
    let (at, _) = tasks.find(|(_, name)| named.len() - name <= NAME_BYTES)?;
    words.get(..at)
}

/// The number in such a line: it is the last but one of its values.
fn told_of(line: &str) -> Option<u32> {
    let words = line.strip_prefix(KILLED)?;
    words.rsplit_once(",pid=")?.1.split(',').next()?.parse().ok()
}

/// Reads one line: `Memory cgroup out of memory: Killed process 17 (x) total-vm:…`.
fn pid(text: &str) -> Option<u32> {
    let (why, who) = text.split_once(": Killed process ")?;
    // The kernel's own words, with nothing of the process's before them: its name comes after its
    // number.
    let why = why.strip_suffix(" (oom_kill_allocating_task)").unwrap_or(why);
    let is_memory = ["Out of memory", "Memory cgroup out of memory"].contains(&why);
    who.split_once(" (")?.0.parse().ok().filter(|_| is_memory)
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

    fn victim_of(record: &str) -> Option<Victim> {
        victim(of_kernel(record)?)
    }

    fn pid_of(record: &str) -> Option<u32> {
        pid(of_kernel(record)?)
    }

    fn refused_of(record: &str) -> Option<String> {
        heard(&[record]).0.refused.pop()
    }

    /// Hears these records, one after the other.
    fn heard(records: &[&str]) -> (Logged, Vec<u32>) {
        let file = File::open("/dev/null").unwrap();
        let mut log = KernelLog::of(file);
        let mut logged = Logged::default();
        records.iter().for_each(|record| log.hear(record, &mut logged));
        log.give_up(&mut logged);
        (logged, log.told.into_iter().collect())
    }

    #[test]
    fn a_victim_is_told_with_its_group_and_the_one_that_was_full() {
        let recorded = "6,1034,2477367262,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=container,\
            mems_allowed=0,oom_memcg=/surtax-3673f85f/0-3-3,task_memcg=/surtax-3673f85f/0-3-3/container,task=exe,\
            pid=17328,uid=0\n";
        let limited = Some(String::from("/surtax-3673f85f/0-3-3"));
        let group = String::from("/surtax-3673f85f/0-3-3/container");
        assert_eq!(victim_of(recorded), Some(Victim { group, limited }));
        let global = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
            task_memcg=/surtax-1/0-0-2,task=qemu-system-x86,pid=7,uid=0\n";
        assert_eq!(victim_of(global).unwrap().limited, None);
        for name in [",task_memcg=", ",task=,oom_memc"] {
            let called = recorded.replace("task=exe", &format!("task={name}"));
            assert_eq!(victim_of(&called), victim_of(recorded), "{name}");
        }
    }

    #[test]
    fn a_group_whose_name_names_another_is_no_other() {
        let forged = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
            oom_memcg=/user.slice/x,task_memcg=/surtax-1/0-0-2,task_memcg=/user.slice/x,task=a,pid=7,uid=9\n";
        let theirs = || String::from("/user.slice/x");
        let found = Victim { group: theirs(), limited: Some(theirs()) };
        assert_eq!(victim_of(forged), Some(found));
        assert_eq!(told_of(of_kernel(forged).unwrap()), Some(7));
        let named = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
            task_memcg=/surtax-1/0-0-2,task=,pid=1,uid=0,pid=7,uid=0\n";
        assert_eq!(
            (victim_of(named).is_some(), told_of(of_kernel(named).unwrap())),
            (true, Some(7))
        );
    }

    #[test]
    fn a_kill_whose_groups_are_held_back_has_its_number() {
        let of_group =
            "3,9,7,-;Memory cgroup out of memory: Killed process 17328 (exe) total-vm:1kB, UID:0\n";
        assert_eq!((pid_of(of_group), victim_of(of_group)), (Some(17328), None));
        assert_eq!(
            pid_of("3,9,7,-;Out of memory: Killed process 5 (a: Killed process 7 (b)) x"),
            Some(5)
        );
        assert_eq!(pid_of("12,9,7,-;Out of memory: Killed process 5 (a)"), None);
        let own = "3,9,7,-;Out of memory (oom_kill_allocating_task): Killed process 5 (a)";
        assert_eq!(pid_of(own), Some(5));
        assert_eq!(pid_of("3,9,7,-;audit: name=Out of memory: Killed process 5 (a)"), None);
    }

    #[test]
    fn a_process_that_was_not_made_is_told_with_its_group() {
        let recorded = "6,1070,13843278605,-;cgroup: fork rejected by pids controller in \
                        /surtax-c9d3c2a9/0-1-2/container\n";
        assert_eq!(refused_of(recorded).unwrap(), "/surtax-c9d3c2a9/0-1-2/container");
        assert_eq!(refused_of(&recorded.replacen('6', "14", 1)), None);
        assert_eq!(refused_of("6,1,2,-;x: cgroup: fork rejected by pids controller in /a\n"), None);
    }

    /// As recorded: a command in a stack names its groups so.
    #[test]
    fn a_group_named_like_a_part_of_the_line_is_where_it_is() {
        let recorded = "6,303625,42195943443,-;oom-kill:constraint=CONSTRAINT_MEMCG,\
            nodemask=(null),cpuset=inside,mems_allowed=0,oom_memcg=/surtax-1/0-0-1/container,\
            task_memcg=\
            /surtax-1/0-0-1/container/inside/x,task_memcg=y,task=ph,pid=20998,uid=0\n";
        let group = String::from("/surtax-1/0-0-1/container/inside/x,task_memcg=y");
        let limited = Some(String::from("/surtax-1/0-0-1/container"));
        assert_eq!(victim_of(recorded), Some(Victim { group, limited }));
        // A set of CPUs that is named so.
        let set = recorded.replace("cpuset=inside", "cpuset=x,task=y,pid=7");
        assert_eq!(victim_of(&set), victim_of(recorded));
        let (one, two) = set.split_once("/surtax").unwrap();
        let (logged, told) = heard(&[one, &format!("4,1,2,c;/surtax{two}")]);
        assert_eq!((logged.victims.len(), &told[..]), (1, &[20998][..]));
        // A limit of its own, on a group that is named so.
        let own = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),\
            cpuset=x,oom_memcg=,mems_allowed=0,\
            oom_memcg=/surtax-1/0-0-1/x,task_memcg=/surtax-2/0-0-1,task_memcg=\
            /surtax-1/0-0-1/x,task_memcg=/surtax-2/0-0-1,task=,task=,pid=8,uid=0\n";
        let (logged, told) = heard(&[own]);
        let [Victim { group, .. }] = &logged.victims[..] else { panic!("{logged:?}") };
        assert_eq!((group.as_str(), &told[..]), ("/surtax-1/0-0-1/x", &[8][..]));
    }

    /// As recorded: where a path makes the line too long, and where another CPU logs meanwhile.
    #[test]
    fn a_line_goes_on_in_a_later_record() {
        let limited = "/surtax-1/0-0-0/container";
        let (logged, told) = heard(&[
            "6,1,2,-;cgroup: fork rejected by pids controller in \n",
            "3,2,2,-;tmpfs: Bad value for 'size'\n",
            "4,3,2,c;/surtax-1/0-0-0/container/dddd\n",
            "4,4,2,c;\n",
            &format!(
                "6,5,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg={limited},task_memcg="
            ),
            "4,6,2,c;/surtax-1/0-0-0/container/eeee\n",
            "3,7,2,-;tmpfs: Bad value for 'size'\n",
            "4,8,2,c;,task=ph,pid=20898,uid=0\n",
            "6,9,2,-;eth0: link up\n",
            "6,10,2,-;/not/a/name\n",
        ]);
        assert_eq!(logged.refused, ["/surtax-1/0-0-0/container/dddd"]);
        let group = String::from("/surtax-1/0-0-0/container/eeee");
        assert_eq!(logged.victims, [Victim { group, limited: Some(limited.into()) }]);
        assert_eq!((told, logged.is_incomplete), (vec![20898], false));
    }

    #[test]
    fn a_line_without_an_end_is_a_gap() {
        let refused = "6,1,2,-;cgroup: fork rejected by pids controller in \n";
        // One that is whole leaves one that waits as it is.
        let whole = refused.replace(" in ", " in /b");
        let (logged, _) = heard(&[refused, &whole, "4,3,2,c;/a\n"]);
        let both = ["/b".to_owned(), "/a".to_owned()];
        assert_eq!((&logged.refused[..], logged.is_incomplete), (&both[..], false));
        let (logged, _) = heard(&[refused, refused, "4,3,2,c;/a\n"]);
        assert_eq!((&logged.refused[..], logged.is_incomplete), (&["/a".to_owned()][..], true));
        for lost in [
            "4,3,2,c;/a\n",
            "6,1,2,-;cgroup: fork rejected by pids controller in (name too long)\n",
        ] {
            assert_eq!(heard(&[lost]).0, Logged { is_incomplete: true, ..Logged::default() });
        }
        assert_eq!(heard(&["4,3,2,c; likely on CPU 0\n"]).0, Logged::default());
        assert!(heard(&[refused]).0.is_incomplete);
        assert!(
            heard(&["6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n"])
                .0
                .is_incomplete
        );
        assert!(heard(&["4,3,2,c;,oom_memcg=/a\n"]).0.is_incomplete);
    }

    /// The kernel cuts a record off, and writes a byte that is no letter as four.
    #[test]
    fn a_kill_whose_line_is_cut_off_is_of_the_group_that_was_full() {
        let begun = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=inside,\
                     mems_allowed=0,oom_memcg=/surtax-1/0-0-1/container";
        let full = String::from("/surtax-1/0-0-1/container");
        let of_full = Victim { group: full.clone(), limited: Some(full.clone()) };
        for rest in ["", ",task_memcg=", ",task_memcg=(name too long),task=x,pid=7,uid=0"] {
            assert_eq!(
                heard(&[&format!("{begun}{rest}")]).0.victims,
                std::slice::from_ref(&of_full),
                "{rest}"
            );
        }
        let cut = format!("{begun},task_memcg={full}/inside/{}", "\\x01".repeat(400));
        let (logged, _) = heard(&[&cut]);
        let [Victim { group, limited }] = &logged.victims[..] else { panic!("{logged:?}") };
        assert!(group.starts_with(&format!("{full}/inside/")) && limited.as_ref() == Some(&full));
        // Until the next kill, or as long as a line may be.
        let long = format!("4,2,2,c;{}", "/d".repeat(LINE_BYTES));
        for end in [begun, &long] {
            let records = [format!("{begun},task_memcg="), end.to_owned()];
            let (logged, _) = heard(&records.each_ref().map(String::as_str));
            assert_eq!(logged.victims[0], of_full, "{}", &end[..20]);
        }
    }

    /// Parts of lines of two CPUs in one another.
    #[test]
    fn parts_of_another_line_are_not_taken_for_a_groups_name() {
        let killed = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n";
        let refused = "6,2,2,-;cgroup: fork rejected by pids controller in \n";
        let limited = String::from("/surtax-1/0-0-1/container");
        let (logged, told) = heard(&[
            killed,
            refused,
            "4,3,2,c; likely on CPU 0 (core 0, socket 0)\n",
            "4,4,2,c;,cpuset=\n",
            "4,4,2,c;/,mems_allowed=0,oom_memcg=\n",
            &format!("4,5,2,c;{limited}\n"),
            "4,6,2,c;,task_memcg=\n",
            &format!("4,7,2,c;{limited}/inside\n"),
            "4,8,2,c;,task=x,pid=7,uid=0\n",
        ]);
        assert_eq!(logged.refused, std::slice::from_ref(&limited));
        assert!(logged.victims.iter().all(|it| it.group.starts_with(&limited)), "{logged:?}");
        assert_eq!((logged.victims.len(), &told[..]), (1, &[7][..]));
        assert!(logged.is_incomplete, "whose path was whose is not known");
        // Somebody's own refusal within somebody's own kill names nobody else.
        let path = "/user.slice/x,oom_memcg=/surtax-1/0-0-2/y,task_memcg=/surtax-1/0-0-2/y";
        let (logged, _) = heard(&[
            "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=\n",
            &format!("4,2,2,c;{path}\n"),
        ]);
        assert!(logged.victims.is_empty() && logged.is_incomplete, "{logged:?}");
    }

    #[test]
    fn what_a_program_writes_into_the_log_is_no_victim() {
        let forged = "12,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/surtax-1/0-0-2,\
             task=x,pid=7,uid=0\n";
        assert_eq!(victim_of(forged), None);
        assert!(victim(forged.split_once(';').unwrap().1.trim()).is_some());
        assert_eq!(victim_of("6,1,2,-;eth0: link up\n"), None);
        assert_eq!(victim_of(""), None);
    }
}
