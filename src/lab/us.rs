//! The user namespace that this process made, and who it is outside.
//!
//! Who is not root can be root of a user namespace of their own: may mount, and make namespaces,
//! and is to the machine still the user who made it. Files of other users are shown there as those
//! of 65534, so a helper who stayed outside tells the real owner.
//!
//! Source: `user_namespaces(7)`, `unix(7)`.

pub(super) mod kin;
mod witness;

use crate::fault::{Doing, Fault};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions, set_dumpable_behavior, waitpid};
use rustix::thread::UnshareFlags;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// Variable by which this program tells itself who it is outside, and who says whose a file is.
const TOLD: &str = "SURTAX_OUTSIDE";

/// Bytes of a reason that are heard.
const SAID_MAX: u64 = 500;

/// Number by which a namespace shows all users whom it does not have.
const NOBODYS: u32 = 65_534;

/// Reason why there is none, where one was wanted.
static REFUSED: OnceLock<String> = OnceLock::new();

/// User and group that we are outside of the namespace that we made.
static OUTSIDE: OnceLock<(u32, u32)> = OnceLock::new();

/// Gives a user namespace for another, the one that it lies in. Source: `ioctl_nsfs(2)`.
const GET_PARENT: libc::c_ulong = 0xb702;

/// Tells whether this process is root of the machine: root of a user namespace is somebody else.
pub(crate) fn is_machines_root() -> bool {
    rustix::process::geteuid().is_root() && OUTSIDE.get().is_none()
}

/// Tells whether this process is in a namespace of its own making, whose root it is.
pub(crate) fn is_in_a_namespace() -> bool {
    OUTSIDE.get().is_some()
}

/// User and group that we are outside of the namespace that we made, if we made one.
pub(crate) fn outside() -> Option<(u32, u32)> {
    OUTSIDE.get().copied()
}

/// Returns the number that a file of ours gets to look like one of this owner: in a namespace that
/// does not have the owner, our own.
pub(crate) fn like(owner: u32) -> u32 {
    if owner == NOBODYS && is_in_a_namespace() { 0 } else { owner }
}

/// Returns whose a file is that is shown as this owner's: in a namespace of ours the machine's root
/// is root, too. One of whom nobody can say so stays nobody's.
pub(crate) fn owner(file: impl AsFd, shown: u32) -> u32 {
    if shown != NOBODYS || !is_in_a_namespace() {
        return shown;
    }
    witness::owner(file.as_fd()).unwrap_or(shown)
}

/// The same of what has a path, where that is no link.
pub(crate) fn owner_of(path: &Path, shown: u32) -> u32 {
    if shown != NOBODYS || !is_in_a_namespace() {
        return shown;
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_or(shown, |file| owner(file, shown))
}

/// Tells whether an owner is one whom the user namespace of this process does not have.
pub(crate) fn is_unmapped(owner: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mut words = map.split_whitespace();
    let is_whole = words.next() == Some("0") && words.next() == Some("0");
    owner == NOBODYS && !is_whole && !is_in_a_namespace()
}

/// Says why this process is in no namespace of its own, where one was wanted.
pub(crate) fn refused() -> Option<&'static str> {
    REFUSED.get().map(String::as_str)
}

/// Becomes root of a user namespace of our own, with its own mounts; nothing for who is root
/// already. For the main thread, before there is another. A machine may let nobody make one, or
/// nobody mount in it: then all stays as it is.
///
/// # Errors
/// The machine's: what it let a process of ours do it does not let us do.
pub(crate) fn enter_namespace() -> Result<(), Fault> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        return Ok(());
    }
    let made = || {
        // The files in `/proc` of a process that is not dumpable are root's.
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        let made = make_namespace(user.as_raw(), group.as_raw());
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        made
    };
    // There is no way back from one in which nothing can be mounted.
    if let Err(refused) = tried(made) {
        let _ = REFUSED.set(refused);
        return Ok(());
    }
    let witness = witness::stay_outside()?;
    made()?;
    begin_again(user.as_raw(), group.as_raw(), &witness)
}

/// Executes this program once more in the namespace: only then may helpers there read what is of us
/// in `/proc`, and processes outside not.
fn begin_again(user: u32, group: u32, witness: &OwnedFd) -> Result<(), Fault> {
    let doing = "begin again in a user namespace";
    rustix::io::fcntl_setfd(witness, FdFlags::empty()).doing(doing)?;
    let words: Result<Vec<CString>, _> =
        std::env::args_os().map(|word| CString::new(word.into_vec())).collect();
    let said = format!("{user} {group} {}", witness.as_raw_fd());
    // SAFETY: there is no other thread that could read it.
    unsafe { std::env::set_var(TOLD, said) };
    let words = words.doing(doing)?;
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the list ends with a null, and each word with a zero byte.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
    Err(std::io::Error::last_os_error()).doing(doing)
}

/// Words for another process of this program, that we start: a variable and its value, and a
/// descriptor that it must find open. Nothing where there is nothing to tell.
pub(super) fn told() -> Option<(&'static str, String, RawFd)> {
    let ((user, group), witness) = (outside()?, witness::number()?);
    Some((TOLD, format!("{user} {group} {witness}"), witness))
}

/// Hears, as a program that was begun again, where it is. Before there is another thread. The
/// variable is believed only where `/proc/self/uid_map` agrees.
pub fn hear() {
    let Ok(said) = std::env::var(TOLD) else { return };
    // SAFETY: there is no other thread that could read it.
    unsafe { std::env::remove_var(TOLD) };
    let numbers: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [user, group, witness] = numbers[..] else { return };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_so = map.split_whitespace().eq(["0", &user.to_string(), "1"]);
    if is_so && rustix::process::geteuid().is_root() && witness::is_at(witness) {
        let _ = OUTSIDE.set((user, group));
        // Executed as `/proc/self/exe` it is called `exe`.
        let _ = rustix::thread::set_name(c"surtax");
    }
}

/// Lets a process of ours try it first; says why it could not.
fn tried(made: impl Fn() -> Result<(), Fault>) -> Result<(), String> {
    let failed = |_| String::from("no process can be made");
    let (read, written) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    // SAFETY: there is no other thread, so the child has all that it needs.
    match unsafe { libc::fork() } {
        0 => {
            drop(read);
            if let Err(fault) = made() {
                let _ = rustix::io::write(&written, fault.to_string().as_bytes());
            }
            // SAFETY: nothing of the parent's is to be done at its end.
            unsafe { libc::_exit(0) }
        }
        pid => {
            drop(written);
            let mut said = String::new();
            let heard = File::from(read).take(SAID_MAX).read_to_string(&mut said);
            let pid = Pid::from_raw(pid).ok_or("no process can be made")?;
            let ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            match (heard, ended, said.is_empty()) {
                (Ok(_), Ok(Some((_, status))), true) if status.exit_status() == Some(0) => Ok(()),
                (_, _, true) => Err(String::from("the process that tried it died")),
                _ => Err(said),
            }
        }
    }
}

/// The user who runs us, for a program that is to be them again: in a namespace below ours.
#[derive(Debug)]
pub(super) struct Themselves {
    users: String,
    groups: String,
}

impl Themselves {
    /// Those outside of our namespace; `None` where we made none.
    pub(super) fn outside() -> Option<Self> {
        let (user, group) = outside()?;
        Some(Self { users: format!("{user} 0 1"), groups: format!("{group} 0 1") })
    }

    /// Becomes them, as a child that makes system calls only.
    pub(super) fn become_them(&self) -> Result<(), Errno> {
        // Without it the files are the machine's root's, who we are not.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        // SAFETY: a child has one thread.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
        for (file, text) in [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", &self.users),
            (c"/proc/self/gid_map", &self.groups),
        ] {
            let file = rustix::fs::open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(file, text.as_bytes())?;
        }
        Ok(())
    }
}

/// The user namespace of a process, which lies in ours, as a link in `/proc` names it.
///
/// # Errors
/// The machine's: it is in another.
pub(crate) fn below_ours(pid: u32) -> Result<String, Fault> {
    let path = format!("/proc/{pid}/ns/user");
    let doing = || format!("look at `{path}`");
    let theirs = File::open(&path).doing(doing())?;
    let parent = parent(&theirs).doing(doing())?;
    let number = |file: &File| file.metadata().map(|it| it.ino());
    let ours = File::open("/proc/self/ns/user").and_then(|file| number(&file));
    if number(&parent).doing(doing())? != ours.doing("look at our user namespace")? {
        return Err(Fault::machine(format!("`{path}` does not lie in our user namespace")));
    }
    let link = fs::read_link(&path).doing(doing())?;
    Ok(link.to_string_lossy().into_owned())
}

/// The user namespace in which one lies. It fails for one that we are not above.
fn parent(namespace: &File) -> std::io::Result<File> {
    // SAFETY: the call takes no argument, and gives a new descriptor or fails.
    let parent = unsafe { libc::ioctl(namespace.as_raw_fd(), GET_PARENT) };
    if parent < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: nobody else has the descriptor.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(parent) }))
}

fn make_namespace(user: u32, group: u32) -> Result<(), Fault> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::FS;
    // SAFETY: no other thread is there that could share what is taken apart.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|error| match error {
        Errno::NOSPC => Fault::machine(
            "no more user namespaces may be made: `user.max_user_namespaces` (`sysctl`) is reached",
        ),
        error => Fault::machine(format!("cannot make a user namespace: {error}")),
    })?;
    for (file, text) in [
        ("setgroups", String::from("deny")),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text)
            .doing(format_args!("write `/proc/self/{file}` of a user namespace"))?;
    }
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).doing("keep mounts in a user namespace to itself")
}
