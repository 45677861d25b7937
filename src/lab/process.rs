//! Processes: the only place in surtax where one is started.
//!
//! A program is put into its groups and its mount namespace before its first instruction, and dies
//! with the *thread* that started it (`PR_SET_PDEATHSIG`): programs that must outlive a helper
//! thread are started from the main one. Between `fork` and `exec` only system calls are made that
//! allocate nothing and take no lock; everything else is prepared before.

use super::confinement::{Confinement, become_user, last_errno};
use super::exclusive::c_path;
use super::{environment, keyring, open_files};
use crate::fault::{Doing, Fault};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};
use rustix::thread::LinkNameSpaceType;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::command_file::is_program;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Cause;

/// Program to start, and the place in which it runs.
#[derive(Debug, Default)]
pub struct Program {
    /// Program and arguments; the program is looked up in this process's `PATH`, in a mount
    /// namespace of its own in `PATH` of `environment`.
    pub argv: Vec<String>,
    /// The whole environment if given, else that of tools.
    pub environment: Option<Vec<(String, String)>>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Standard input, output and error; `/dev/null` where absent.
    pub stdio: [Option<OwnedFd>; 3],
    /// Descriptors to hand down at these numbers.
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// The group it is put into before `exec`; the room's own where absent.
    pub group: Option<PathBuf>,
    /// True if it stays in the group of this process, and is found by its session alone.
    pub is_ungrouped: bool,
    /// The mount namespace it enters before `exec`.
    pub mount_namespace: Option<OwnedFd>,
    /// The network namespace it enters before `exec`.
    pub network_namespace: Option<OwnedFd>,
    /// The user and the group that it becomes before `exec`, with no other groups and no
    /// privileges; ours where absent.
    pub user: Option<u32>,
    /// Whom it runs as and the little that it may, where it serves somebody who is not trusted.
    pub confinement: Option<Confinement>,
    /// Largest number of files that it may have open; as for the user's own programs where absent.
    pub open_files: Option<u64>,
    /// True if it begins with an empty session keyring: for what runs a command that is not to have
    /// the keys of our caller's session. It is ours where false.
    pub own_keyring: bool,
}

/// A program that was started. It dies with the thread that started it. Dropped, it is killed and
/// reaped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Becomes readable when the process ends.
    handle: OwnedFd,
    /// For messages.
    name: String,
}

impl Process {
    /// Returns its process id, on this level.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits at most so long; `None` when it still runs.
    ///
    /// # Errors
    /// The machine's, if it cannot be waited for.
    pub fn wait(&mut self, deadline: Duration) -> Result<Option<ExitStatus>, Fault> {
        let begin = monotonic_raw();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let left = Nanoseconds::from(deadline).since(monotonic_raw().since(begin));
            if left == Nanoseconds(0) {
                return Ok(None);
            }
            // A longer wait than the kernel can express is cut into several.
            let pause = Duration::from(left).min(Duration::from_secs(3600));
            let timeout = rustix::event::Timespec {
                tv_sec: i64::try_from(pause.as_secs()).unwrap_or(3600),
                tv_nsec: i64::from(pause.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).doing(format_args!("wait for `{}`", self.name)),
            }
        }
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>, Fault> {
        self.child.try_wait().doing(format_args!("ask whether `{}` has ended", self.name))
    }

    /// Kills it with `SIGKILL`. It has not necessarily ended when this returns; [`Process::wait`]
    /// says.
    ///
    /// # Errors
    /// The machine's, if we may not.
    pub fn kill(&mut self) -> Result<(), Fault> {
        self.child.kill().doing(format_args!("kill `{}` ({})", self.name, self.child.id()))
    }

    /// Sends a signal; one that has ended already is no error.
    ///
    /// # Errors
    /// The machine's, if we may not.
    pub fn signal(&mut self, signal: Signal) -> Result<(), Fault> {
        match rustix::process::pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).doing(format_args!("signal `{}`", self.name)),
        }
    }

    /// A descriptor that becomes readable when the process ends, for whoever polls.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for one that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Descriptors, and the number that each must get in the child.
type InheritedFds = Vec<(OwnedFd, RawFd)>;

/// Steps of a child between `fork` and `exec`, prepared so that they need no memory.
struct Entry {
    /// `cgroup.procs` of its groups.
    doors: Vec<File>,
    cwd: Option<CString>,
    /// Descriptors as they are now, each with the number that it must get.
    descriptors: InheritedFds,
    /// Limit on the files that it may have open.
    open_files: Rlimit,
    parent: u32,
    program: Program,
    /// Descriptor on which the failed step is reported.
    report: OwnedFd,
}

/// The steps of [`Entry::run`], for messages.
const STEPS: [&str; 12] = [
    "die with surtax", "enter its group", "enter its network namespace",
    "enter its mount namespace", "enter its working directory", "begin a session",
    "close foreign descriptors", "take its descriptors", "become its user",
    "have as many files open as it may", "give up its privileges", "begin a session keyring",
];

impl Entry {
    fn run(&self) -> Result<(), (u8, Errno)> {
        self.die_with_surtax()?;
        for door in &self.doors {
            rustix::io::write(door, b"0").map_err(at(1))?;
        }
        if let Some(namespace) = &self.program.network_namespace {
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).map_err(at(2))?;
        }
        if let Some(namespace) = &self.program.mount_namespace {
            let kind = Some(LinkNameSpaceType::Mount);
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).map_err(at(3))?;
        }
        if let Some(cwd) = &self.cwd {
            rustix::process::chdir(cwd.as_c_str()).map_err(at(4))?;
        }
        rustix::process::setsid().map_err(at(5))?;
        if self.program.own_keyring {
            keyring::begin_session().map_err(at(11))?;
        }
        self.hand_down()?;
        let limit = self.open_files;
        rustix::process::setrlimit(Resource::Nofile, limit).map_err(at(9))?;
        if let Some(user) = self.program.user {
            become_user(user).map_err(at(8))?;
            // The kernel forgets it when a process changes its user.
            self.die_with_surtax()?;
        }
        if let Some(confinement) = &self.program.confinement {
            confinement.enter().map_err(at(10))?;
            self.die_with_surtax()?;
        }
        Ok(())
    }

    fn die_with_surtax(&self) -> Result<(), (u8, Errno)> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(0))?;
        let parent =
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        if parent == Some(self.parent) { Ok(()) } else { Err((0, Errno::SRCH)) }
    }

    fn hand_down(&self) -> Result<(), (u8, Errno)> {
        close_others_on_exec().map_err(at(6))?;
        for (from, to) in &self.descriptors {
            // SAFETY: `to` is a plain number; what was there is a reserved copy of `/dev/null` or
            // a descriptor of the parent's that the child does not use.
            if unsafe { libc::dup2(from.as_raw_fd(), *to) } < 0 {
                return Err((7, last_errno()));
            }
        }
        Ok(())
    }
}

/// Moves the calling thread into a network namespace: for threads that end there.
pub(super) fn enter_network(namespace: BorrowedFd<'_>) -> Result<(), Fault> {
    let kind = Some(LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(namespace, kind)
        .doing("enter a network namespace")
        .map_err(|fault| fault.hint("run as root"))
}

/// Does something in a thread of its own, with which the namespaces end that it enters.
pub(super) fn aside<T: Send>(work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|_| Err(Fault::bug("a thread in its own namespace panicked")))
    })
}

fn at(step: u8) -> impl Fn(Errno) -> (u8, Errno) {
    move |error| (step, error)
}

/// Marks all descriptors but the first three to be closed by `exec`: what a careless parent left
/// open for us is not handed on. One system call, for use after `fork`.
pub(super) fn close_others_on_exec() -> Result<(), Errno> {
    const CLOEXEC: libc::c_uint = 4;
    // SAFETY: the call takes three numbers, and closes nothing itself.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Starts a program in the groups behind these doors.
pub(super) fn spawn(mut program: Program, doors: Vec<File>) -> Result<Process, Fault> {
    let Some(name) = program.argv.first().cloned() else {
        return Err(Fault::bug("a program without a name"));
    };
    let (report, sent) = pipe().map_err(|fault| fault.during(format_args!("start `{name}`")))?;
    let mut report = File::from(report);
    let mut command = command(&program)?;
    let [input, output, error] = std::mem::take(&mut program.stdio);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.map_or_else(Stdio::null, Stdio::from));
    command.stderr(error.map_or_else(Stdio::null, Stdio::from));

    let (descriptors, reserved) = raise_descriptors(std::mem::take(&mut program.descriptors))?;
    let entry = Entry {
        doors,
        cwd: program.cwd.as_deref().map(c_path).transpose()?,
        descriptors,
        open_files: match program.open_files {
            most @ Some(_) => Rlimit { current: most, maximum: most },
            None => open_files::before(),
        },
        parent: std::process::id(),
        program,
        report: sent,
    };
    let enter = move || {
        entry.run().map_err(|(step, error)| {
            // The parent knows the step by this byte; without it, it still knows the error.
            let _ = rustix::io::write(&entry.report, &[step]);
            std::io::Error::from(error)
        })
    };
    // SAFETY: `enter` makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(enter) };
    let spawned = command.spawn();
    // The closure holds the other end of `report`.
    drop(command);
    drop(reserved);
    let child = spawned.map_err(|error| refusal(&name, &error, &mut report))?;
    started(child, name)
}

fn started(mut child: Child, name: String) -> Result<Process, Fault> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let opened = pid
        .ok_or(Errno::SRCH)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
    match opened {
        Ok(handle) => Ok(Process { child, handle, name }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error).doing(format_args!("hold on to `{name}`"))
        }
    }
}

/// The command line, environment and program file.
fn command(program: &Program) -> Result<Command, Fault> {
    let name = &program.argv[0];
    let file = if program.mount_namespace.is_some() || name.contains('/') {
        PathBuf::from(name)
    } else {
        find(name).ok_or_else(|| {
            Fault::machine(format!("cannot start `{name}`: there is no such program in `PATH`"))
                .hint(format!("install `{name}`, or add its directory to `PATH`"))
                .because(Cause::NoSuchProgram)
        })?
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where processes are started"
    )]
    let mut command = Command::new(file);
    command.arg0(name).args(&program.argv[1..]);
    let environment = program.environment.clone().unwrap_or_else(environment::of_tools);
    command.env_clear();
    command.envs(environment);
    Ok(command)
}

/// Looks a program up in this process's `PATH`.
#[must_use]
pub fn find(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(&name))
        .find(|file| is_program(file))
}

fn refusal(name: &str, error: &std::io::Error, report: &mut File) -> Fault {
    let mut step = [0];
    let doing = match report.read(&mut step) {
        Ok(1) => STEPS.get(usize::from(step[0])).copied(),
        _ => None,
    };
    match doing {
        Some(doing) => {
            let why = format!("cannot start `{name}`: it could not {doing}: {error}");
            Fault::machine(why).because(Cause::of(error))
        }
        None => Fault::machine(format!("cannot start `{name}`: {error}"))
            .because(Cause::of_start(error)),
    }
}

/// Moves descriptors above all the numbers that they must get, so that none is overwritten before
/// it is copied; and occupies those numbers, so that no pipe of the standard library sits on one.
fn raise_descriptors(descriptors: InheritedFds) -> Result<(InheritedFds, Vec<OwnedFd>), Fault> {
    let above = descriptors.iter().map(|(_, to)| to + 1).max().unwrap_or(0).max(3);
    let mut raised = Vec::new();
    let mut reserved = Vec::new();
    for (from, to) in descriptors {
        if to < 3 {
            return Err(Fault::bug(format!("descriptor {to} is handed down through `stdio`")));
        }
        let copy = rustix::io::fcntl_dupfd_cloexec(&from, above)
            .doing(format_args!("copy a descriptor above {above}"))?;
        raised.push((copy, to));
        let place = rustix::io::fcntl_dupfd_cloexec(&from, to)
            .doing(format_args!("reserve descriptor {to}"))?;
        if place.as_raw_fd() == to {
            reserved.push(place);
        }
    }
    Ok((raised, reserved))
}

/// Sends a signal to a process that somebody else started; one that has ended already is no error.
///
/// # Errors
/// The machine's, if we may not.
pub fn signal(pid: u32, signal: Signal) -> Result<(), Fault> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match target.map_or(Err(Errno::SRCH), |pid| rustix::process::kill_process(pid, signal)) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).doing(format_args!("signal process {pid}")),
    }
}

/// This very program, to be started outside of every room: it makes a lab of its own, and a proof
/// ends it in any way.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "what is killed on purpose must not be held by our lab"
)]
pub fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

/// A pipe, its reading end first. No program that is started inherits it by accident.
///
/// # Errors
/// The machine's: too many files are open.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Fault> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).doing("make a pipe")
}
