//! Processes: the only place in surtax where one is started.
//!
//! A program is put into its groups and its mount namespace before its first instruction, and dies
//! with the *thread* that started it (`PR_SET_PDEATHSIG`): programs that must outlive a helper
//! thread are started from the main one. Between `fork` and `exec` only system calls are made that
//! allocate nothing and take no lock; everything else is prepared before.

mod descriptors;

use self::descriptors::{raise_descriptors, report_above};
use super::birth::{Birth, Doors, Image};
use super::confinement::{Confinement, become_user, last_errno};
use super::exclusive::c_path;
use super::{environment, keyring, open_files, us};
use crate::fault::{Doing, Fault};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::LinkNameSpaceType;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::command_file::is_program;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Cause;

/// Pause in which a kernel forgets a process that has just ended; it lasts as long as a timer's
/// slack.
const FORGOTTEN: Duration = Duration::from_micros(1);

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
    /// True if it is to be the user who runs us, where we are root of a namespace of theirs.
    pub as_themselves: bool,
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
    pid: Pid,
    /// Status with which it ended, once it was waited for: its number may be somebody else's then.
    status: Option<ExitStatus>,
    /// Becomes readable when the process ends.
    handle: OwnedFd,
    /// For messages.
    name: String,
}

impl Process {
    /// Returns its process id, on this level.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
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
                // The kernel says so before it has forgotten what was seen of it in `/proc`. Woken
                // on the same CPU, we would turn round in `waitpid` for a tick until it has.
                Ok(_) => std::thread::sleep(FORGOTTEN),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).doing(format_args!("wait for `{}`", self.name)),
            }
        }
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>, Fault> {
        self.reap(WaitOptions::NOHANG).doing(format_args!("ask whether `{}` has ended", self.name))
    }

    fn reap(&mut self, manner: WaitOptions) -> Result<Option<ExitStatus>, Errno> {
        if self.status.is_none() {
            let ended =
                rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.pid), manner))?;
            self.status = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.status)
    }

    /// Kills it with `SIGKILL`. It has not necessarily ended when this returns; [`Process::wait`]
    /// says.
    ///
    /// # Errors
    /// The machine's, if we may not.
    pub fn kill(&mut self) -> Result<(), Fault> {
        self.signal(Signal::KILL)
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
        let _ = self.kill();
        let _ = self.reap(WaitOptions::empty());
    }
}

/// Descriptors, and the number that each must get in the child.
type InheritedFds = Vec<(OwnedFd, RawFd)>;

/// Steps of a child between `fork` and `exec`, prepared so that they need no memory.
struct Entry {
    doors: Doors,
    image: Image,
    /// Standard input, output and error.
    stdio: [OwnedFd; 3],
    cwd: Option<CString>,
    /// Descriptors as they are now, each with the number that it must get.
    descriptors: InheritedFds,
    /// Limit on the files that it may have open.
    open_files: Rlimit,
    parent: u32,
    themselves: Option<us::Themselves>,
    program: Program,
}

/// The steps of [`Entry::run`], for messages.
const STEPS: [&str; 14] = [
    "die with surtax", "enter its group", "enter its network namespace",
    "enter its mount namespace", "enter its working directory", "begin a session",
    "close foreign descriptors", "take its descriptors", "become its user",
    "have as many files open as it may", "give up its privileges", "begin a session keyring",
    "take its input and output", "be the user again who runs us",
];

/// In place of a step: all were done, and there is no such program.
const START: u8 = u8::MAX;

impl Entry {
    /// Becomes the program; returns the step that could not be done.
    fn begin(&self, born: bool) -> (u8, Errno) {
        match self.run(born) {
            Ok(()) => (START, self.image.become_it()),
            Err(failed) => failed,
        }
    }

    fn run(&self, born: bool) -> Result<(), (u8, Errno)> {
        self.die_with_surtax()?;
        self.doors.enter(born).map_err(at(1))?;
        for (number, from) in (0..).zip(&self.stdio) {
            // SAFETY: the first three numbers are nobody's in the child but these.
            if unsafe { libc::dup2(from.as_raw_fd(), number) } < 0 {
                return Err((12, last_errno()));
            }
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
        if let Some(themselves) = &self.themselves {
            themselves.become_them().map_err(at(13))?;
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
        open_files::close_others_on_exec().map_err(at(6))?;
        for (from, to) in &self.descriptors {
            // SAFETY: `to` is a plain number; what was there the child has no more use for.
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

/// Starts a program in the groups behind these doors.
pub(super) fn spawn(mut program: Program, doors: Doors) -> Result<Process, Fault> {
    let Some(name) = program.argv.first().cloned() else {
        return Err(Fault::bug("a program without a name"));
    };
    let image = image(&program)?;
    let (descriptors, above) = raise_descriptors(std::mem::take(&mut program.descriptors))?;
    let starting = |fault: Fault| fault.during(format_args!("start `{name}`"));
    let (report, sent) = report_above(above).map_err(starting)?;
    let stdio = std::mem::take(&mut program.stdio);
    let entry = Entry {
        doors,
        image,
        stdio: with_nothing(stdio).map_err(starting)?,
        cwd: program.cwd.as_deref().map(c_path).transpose()?,
        descriptors,
        open_files: match program.open_files {
            most @ Some(_) => Rlimit { current: most, maximum: most },
            None => open_files::before(),
        },
        parent: std::process::id(),
        themselves: program.as_themselves.then(us::Themselves::outside).flatten(),
        program,
    };
    // SAFETY: the child makes system calls only, and ends or is another program.
    let birth = unsafe { entry.doors.give_birth() };
    let pid = match birth {
        Ok(Birth::Parent(pid)) => pid,
        Ok(Birth::Child(born)) => fail(&sent, entry.begin(born)),
        Err(error) => return Err(refusal(&name, START, error)),
    };
    drop((sent, entry));
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    let failed = failure(report);
    if handle.is_err() || failed.is_some() {
        // It ends by itself, or is not one that can be held on to.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        let _ =
            rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
    }
    match (failed, handle) {
        (Some((step, error)), _) => Err(refusal(&name, step, error)),
        (None, Ok(handle)) => Ok(Process { pid, status: None, handle, name }),
        (None, Err(error)) => Err(error).doing(format_args!("hold on to `{name}`")),
    }
}

/// Says, as a child, what it could not do, and ends.
fn fail(report: &OwnedFd, (step, error): (u8, Errno)) -> ! {
    let mut said = [step; 5];
    said[1..].copy_from_slice(&error.raw_os_error().to_ne_bytes());
    // Who does not hear it sees it ended.
    let _ = rustix::io::write(report, &said);
    // SAFETY: nothing of the parent's is to be done at its end.
    unsafe { libc::_exit(127) }
}

/// Waits until a child is another program; returns the step that it could not do.
fn failure(report: OwnedFd) -> Option<(u8, Errno)> {
    let mut said = Vec::new();
    File::from(report).take(5).read_to_end(&mut said).ok()?;
    let [step, error @ ..] = <[u8; 5]>::try_from(said).ok()?;
    Some((step, Errno::from_raw_os_error(i32::from_ne_bytes(error))))
}

/// Standard input, output and error, with nothing in place of what is absent.
fn with_nothing(given: [Option<OwnedFd>; 3]) -> Result<[OwnedFd; 3], Fault> {
    let nothing = || {
        let mut how = File::options();
        how.read(true).write(true).open("/dev/null").map(OwnedFd::from).doing("open `/dev/null`")
    };
    let [input, output, error] = given.map(|end| end.map_or_else(nothing, Ok));
    Ok([input?, output?, error?])
}

/// The program file, its words and its environment.
fn image(program: &Program) -> Result<Image, Fault> {
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
    let environment = program.environment.clone().unwrap_or_else(environment::of_tools);
    Image::new(&file, &program.argv, environment)
        .map_err(|_| Fault::machine(format!("cannot start `{name}`: a word has a zero byte in it")))
}

/// Looks a program up in this process's `PATH`.
#[must_use]
pub fn find(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(&name))
        .find(|file| is_program(file))
}

fn refusal(name: &str, step: u8, error: Errno) -> Fault {
    let error = std::io::Error::from(error);
    match STEPS.get(usize::from(step)) {
        Some(doing) => {
            let why = format!("cannot start `{name}`: it could not {doing}: {error}");
            Fault::machine(why).because(Cause::of(&error))
        }
        None => Fault::machine(format!("cannot start `{name}`: {error}"))
            .because(Cause::of_start(&error)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_could_not_do_is_written_to_no_number_that_it_hands_down() {
        let (read, write) = pipe().unwrap();
        let free = read.as_raw_fd();
        // As if another thread had closed it between two calls.
        drop(read);
        let (descriptors, above) = raise_descriptors(vec![(write, free)]).unwrap();
        let (_report, sent) = report_above(above).unwrap();
        assert!(sent.as_raw_fd() > free && descriptors[0].0.as_raw_fd() > free);
        let (_read, write) = pipe().unwrap();
        assert!(raise_descriptors(vec![(write, 2)]).is_err());
        assert_eq!(raise_descriptors(Vec::new()).unwrap().1, 3);
    }
}
