//! Births of processes: a child in its groups, which becomes a program.
//!
//! A process that is moved into a group waits until nobody is about to fork or to end: the kernel
//! asks every CPU, for a grace period of RCU, which is 5 ms where nothing else runs and more than
//! all the rest of a start. Who is born in a group of version 2 waits for nobody, nor does a thread
//! that moves itself alone, by `tasks` of version 1. What the kernel, or whoever confines us, does
//! not know of that is done by `cgroup.procs`.
//!
//! Source: `clone(2)`, `CLONE_INTO_CGROUP` (Linux 5.7); Linux `kernel/cgroup/cgroup.c`,
//! `cgroup_procs_write_start`; `execvp(3)`.

use super::confinement::last_errno;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::ffi::{CString, NulError, c_char};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories in which programs lie where nothing says so.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The groups that a child is in before its first instruction.
#[derive(Debug, Default)]
pub(super) struct Doors {
    /// `tasks` of each group of version 1.
    pub tasks: Vec<File>,
    /// The directory of the group of version 2, if there is one.
    pub unified: Option<OwnedFd>,
}

/// Side of a birth on which one finds oneself.
pub(super) enum Birth {
    /// The child, and whether it was born in its group of version 2.
    Child(bool),
    /// The parent of this process.
    Parent(Pid),
}

impl Doors {
    /// Makes a child of this process.
    ///
    /// # Errors
    /// The kernel's: too many processes, or no memory.
    ///
    /// # Safety
    /// Until it ends or is another program, the child neither allocates nor takes a lock: another
    /// thread of the parent's may have held it.
    pub(super) unsafe fn give_birth(&self) -> Result<Birth, Errno> {
        if let Some(group) = &self.unified {
            match clone_into(group) {
                Ok(None) => return Ok(Birth::Child(true)),
                Ok(Some(pid)) => return Ok(Birth::Parent(pid)),
                // Said once more, in words, by whoever tries to enter it.
                Err(_) => {}
            }
        }
        // SAFETY: the call takes nothing; the caller sees to the child.
        let forked = unsafe { libc::fork() };
        if forked < 0 {
            return Err(last_errno());
        }
        Ok(Pid::from_raw(forked).map_or(Birth::Child(false), Birth::Parent))
    }

    /// Enters them, as a child that was `born` in the group of version 2 or not.
    pub(super) fn enter(&self, born: bool) -> Result<(), Errno> {
        for door in &self.tasks {
            rustix::io::write(door, b"0")?;
        }
        if let (Some(group), false) = (&self.unified, born) {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let door = rustix::fs::openat(group, c"cgroup.procs", flags, Mode::empty())?;
            rustix::io::write(door, b"0")?;
        }
        Ok(())
    }
}

/// Forks into a group of version 2; `None` in the child.
fn clone_into(group: &OwnedFd) -> Result<Option<Pid>, Errno> {
    /// Bit 33 of `clone3`, which a number of C's does not hold everywhere.
    const INTO_CGROUP: u64 = 1 << 33;
    let group = u64::try_from(group.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let signal = u64::try_from(libc::SIGCHLD).map_err(|_| Errno::INVAL)?;
    // As in `linux/sched.h`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
    // tls, set_tid, set_tid_size, cgroup.
    let arguments: [u64; 11] = [INTO_CGROUP, 0, 0, 0, signal, 0, 0, 0, 0, 0, group];
    let size = std::mem::size_of_val(&arguments);
    // SAFETY: the kernel reads as many bytes of the array as are said. The child has a copy of all
    // memory, and goes on upon its own copy of this stack.
    let cloned = unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size) };
    match i32::try_from(cloned) {
        Ok(number) if number >= 0 => Ok(Pid::from_raw(number)),
        _ => Err(last_errno()),
    }
}

/// A program with its words and its environment, prepared so that a child needs no memory for it.
#[derive(Debug)]
pub(super) struct Image {
    /// Files that may be the program, in the order in which they are tried.
    files: Vec<CString>,
    argv: Words,
    environment: Words,
}

/// Texts as C passes them on: pointers to each, and a null.
#[derive(Debug)]
struct Words {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Words {
    fn of(texts: impl Iterator<Item = String>) -> Result<Self, NulError> {
        let texts: Vec<CString> = texts.map(CString::new).collect::<Result<_, _>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _texts: texts, pointers })
    }
}

impl Image {
    /// Prepares a program: a path, or a name that is looked up in `PATH` of its environment.
    ///
    /// # Errors
    /// One of the texts has a zero byte in it.
    pub(super) fn new(
        file: &Path,
        argv: &[String],
        environment: Vec<(String, String)>,
    ) -> Result<Self, NulError> {
        // Of several values of one name the last is meant.
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let files: Vec<PathBuf> = match file.as_os_str().as_bytes().contains(&b'/') {
            true => vec![file.to_path_buf()],
            false => path.split(':').map(|directory| Path::new(directory).join(file)).collect(),
        };
        let texts = |path: PathBuf| CString::new(path.into_os_string().into_encoded_bytes());
        let assigned = environment.iter().map(|(name, value)| format!("{name}={value}"));
        Ok(Self {
            files: files.into_iter().map(texts).collect::<Result<_, _>>()?,
            argv: Words::of(argv.iter().cloned())?,
            environment: Words::of(assigned)?,
        })
    }

    /// Becomes it, with no signal held back and none ignored for want of a reader. Returns why not.
    pub(super) fn become_it(&self) -> Errno {
        if let Err(error) = forget_signals() {
            return error;
        }
        let mut is_forbidden = false;
        let mut last = Errno::NOENT;
        let (argv, environment) = (&self.argv.pointers, &self.environment.pointers);
        for file in &self.files {
            // SAFETY: all three are texts that end in a zero, or lists of such that end in a null,
            // and live as long as `self`.
            unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
            last = last_errno();
            match last {
                Errno::ACCESS => is_forbidden = true,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                error => return error,
            }
        }
        if is_forbidden { Errno::ACCESS } else { last }
    }
}

/// Lets all signals through, and has a write that nobody reads end the program, as every program
/// expects; this one ignores that.
fn forget_signals() -> Result<(), Errno> {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written to, and is ours.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was made above, and the old one is not asked for.
    let set = unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: a signal and what the kernel does by itself.
    let usual = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if set < 0 || usual == libc::SIG_ERR { Err(last_errno()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, WaitOptions};
    use std::fs;
    use surtax_instrument::probe::cgroup::Hierarchies;

    /// Gives birth to a child that waits, asks something of it, and ends it.
    fn of_a_child<T>(doors: &Doors, ask: impl Fn(Pid) -> T) -> T {
        // SAFETY: the child waits, which is a system call.
        match unsafe { doors.give_birth() }.unwrap() {
            Birth::Child(_) => {
                // With the thread that asks, which may not come to end it.
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                loop {
                    // SAFETY: it takes nothing.
                    unsafe { libc::pause() };
                }
            }
            Birth::Parent(pid) => {
                let said = ask(pid);
                rustix::process::kill_process(pid, Signal::KILL).unwrap();
                rustix::process::waitpid(Some(pid), WaitOptions::empty()).unwrap();
                said
            }
        }
    }

    #[test]
    fn a_child_is_in_its_group_of_version_two_without_a_move_of_its_own() {
        let all = Hierarchies::discover().unwrap();
        let Some(unified) = all.unified() else {
            return println!("SKIPPED: no cgroup of version 2 is mounted");
        };
        let name = format!("surtax-birth-{}", std::process::id());
        let group = unified.directory(Path::new(&name));
        if let Err(why) = fs::create_dir(&group) {
            return println!("SKIPPED: no group can be made here: {why}");
        }
        let doors = Doors { tasks: Vec::new(), unified: Some(File::open(&group).unwrap().into()) };
        let groups = |pid: Pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let inside = of_a_child(&doors, groups);
        let outside = of_a_child(&Doors::default(), groups);
        fs::remove_dir(&group).unwrap();
        let is_in = |text: &str| text.lines().any(|line| line == format!("0::/{name}"));
        assert!(is_in(&inside), "{inside}");
        assert!(!is_in(&outside), "{outside}");
    }

    fn image(file: &str, path: &[(&str, &str)]) -> Vec<String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = path.iter().map(owned).collect();
        let image = Image::new(Path::new(file), &[file.to_owned()], environment).unwrap();
        image.files.into_iter().map(|file| file.into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_is_looked_up_and_a_path_is_not() {
        assert_eq!(image("ls", &[("PATH", "/a:/b")]), ["/a/ls", "/b/ls"]);
        assert_eq!(image("ls", &[("PATH", "/a"), ("PATH", ":/b")]), ["ls", "/b/ls"]);
        assert_eq!(image("ls", &[("HOME", "/a")]), ["/bin/ls", "/usr/bin/ls"]);
        assert_eq!(image("./ls", &[("PATH", "/a")]), ["./ls"]);
        assert!(Image::new(Path::new("/a"), &["b\0".to_owned()], Vec::new()).is_err());
    }
}
