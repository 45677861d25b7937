//! Sees the command stopped and continued by a signal, any instance of it, and the agent itself:
//! all look like a slow command.
//!
//! The kernel tells a parent of each stop of its child (`SIGCHLD`, then `waitid`), and a process of
//! its own continuation (`SIGCONT`, which has a handler). `SIGCHLD` is taken from a descriptor
//! while the command runs, and blocked only then, so that the command inherits no blocked signal.
//!
//! Not seen: processes that the command started, and a control group that was frozen.
//!
//! Source: `signalfd(2)`, `waitid(2)`, `signal(7)`.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Stops;

/// The size of what is read for one signal.
const INFO: usize = size_of::<libc::signalfd_siginfo>();

/// Most changes of a child that are taken in at once; the kernel keeps one.
const LOOK_LIMIT: u32 = 16;

/// Number of times that this process was continued since it began to listen.
static CONTINUED: AtomicU32 = AtomicU32::new(0);

/// Counts stops from the start of a command to its end.
pub struct Watcher {
    signals: File,
    watched: Vec<Watched>,
    /// A signal spoke of a stop or its end.
    was_told: bool,
    /// [`CONTINUED`] when the watch began.
    continued_before: u32,
}

/// One process of the command: the only one, or an instance.
struct Watched {
    pid: Pid,
    /// Since when it stands still.
    since: Option<Nanoseconds>,
    count: u32,
    time: Nanoseconds,
}

impl Watched {
    fn of(pid: Pid) -> Self {
        Self { pid, since: None, count: 0, time: Nanoseconds(0) }
    }

    fn look(&mut self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        for _ in 0..LOOK_LIMIT {
            let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), options) else { break };
            let now = clock::monotonic_raw();
            if status.stopped() {
                self.stopped(now);
            } else {
                self.continued(now);
            }
        }
    }

    fn stopped(&mut self, now: Nanoseconds) {
        self.count += 1;
        self.since.get_or_insert(now);
    }

    fn continued(&mut self, now: Nanoseconds) {
        match self.since.take() {
            Some(since) => self.time += now.since(since),
            // It was over before anybody looked.
            None => self.count += 1,
        }
    }
}

impl Watcher {
    /// Makes ready to watch; `None` where the kernel cannot tell.
    pub fn open() -> Option<Self> {
        if !listen_to_own_continuation() {
            return None;
        }
        let set = child_signal();
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the pointer is to a live set, which is only read.
        let descriptor = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Some(Self {
            signals: File::from(descriptor),
            watched: Vec::new(),
            was_told: false,
            continued_before: CONTINUED.load(Ordering::Relaxed),
        })
    }

    /// Watches children that have just been started.
    pub fn begin(mut self, pids: impl IntoIterator<Item = Pid>) -> Self {
        mask(libc::SIG_BLOCK);
        self.watched.extend(pids.into_iter().map(Watched::of));
        // What happened before the signal was blocked has left none.
        self.look();
        self
    }

    /// For `poll`.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Takes in what has happened since the last look.
    pub fn look(&mut self) {
        self.listen();
        self.watched.iter_mut().for_each(Watched::look);
    }

    /// Reads the signal that waits: at most one does.
    fn listen(&mut self) {
        let mut buffer = [0; INFO];
        while let Ok(length @ 1..) = self.signals.read(&mut buffer) {
            for info in buffer.get(..length).unwrap_or_default().chunks_exact(INFO) {
                // `ssi_signo`, `ssi_code`, `ssi_pid` of `struct signalfd_siginfo`.
                let [signal, code, sender] = [0, 8, 12].map(|offset| number(info, offset));
                let is_stop = code == libc::CLD_STOPPED || code == libc::CLD_CONTINUED;
                let is_ours = |it: &Watched| it.pid.as_raw_nonzero().get() == sender;
                self.was_told |=
                    signal == libc::SIGCHLD && is_stop && self.watched.iter().any(is_ours);
            }
        }
    }

    /// Returns the stops that were seen, of a command that has ended.
    pub fn end(mut self) -> Stops {
        let now = clock::monotonic_raw();
        self.look();
        let (mut of_command, mut time) = (0, Nanoseconds(0));
        for process in &self.watched {
            of_command += process.count;
            time += process.time;
            if let Some(since) = process.since {
                time += now.since(since);
            }
        }
        // The two may have been stopped together.
        let of_agent = CONTINUED.load(Ordering::Relaxed).wrapping_sub(self.continued_before);
        let count = of_command.max(of_agent).max(u32::from(self.was_told));
        Stops { count, time }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        mask(libc::SIG_UNBLOCK);
    }
}

fn number(info: &[u8], offset: usize) -> i32 {
    let bytes = info.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_ne_bytes)
}

extern "C" fn count_continuation(_: libc::c_int) {
    CONTINUED.fetch_add(1, Ordering::Relaxed);
}

/// Has each `SIGCONT` to this process counted; what it starts has no handler for it.
fn listen_to_own_continuation() -> bool {
    // SAFETY: all zeroes are a valid `sigaction`: no flags, and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count_continuation as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler only touches an atomic number, and the old action is not asked for.
    unsafe { libc::sigaction(libc::SIGCONT, &raw const action, std::ptr::null_mut()) == 0 }
}

/// The set of `SIGCHLD` alone.
fn child_signal() -> libc::sigset_t {
    // SAFETY: all zeroes are a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set, and the number is that of a signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    set
}

fn mask(how: libc::c_int) {
    let set = child_signal();
    // SAFETY: the set is live and only read, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}
