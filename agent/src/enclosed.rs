//! Namespaces without any tool: makes those that it is told, and serves as the first process in
//! them.
//!
//! `agent enclosed pid,net,… a80425fb`. Where a kind only begins with a child (`pid`, `time`), that
//! child serves and this process waits for it, with nothing else to do. The last word is the set of
//! capabilities, as `/proc/PID/status` has it, that commands may have.
//!
//! Source: `unshare(2)`, `pid_namespaces(7)`, `user_namespaces(7)`, `time_namespaces(7)`,
//! `capabilities(7)`.

use crate::init::{bring_loopback_up, mount_fresh};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Every user and group is mapped to itself; the last number means "nobody" and cannot be.
const EVERYBODY: &str = "0 0 4294967295";

/// Place of the hierarchies of groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Serves in namespaces of these kinds, named as in `/proc/self/ns` with commas between them, with
/// commands that have these capabilities at most.
pub fn main(kinds: &str, kept: &str) -> ExitCode {
    let kinds: Vec<&str> = kinds.split(',').filter(|kind| !kind.is_empty()).collect();
    match enclose(&kinds).and_then(|role| confine(kept).map(|()| role)) {
        Ok(Role::First) => crate::serve_stdio(),
        Ok(Role::Parent(first)) => wait_for(first),
        Err(error) => {
            eprintln!("surtax agent: its namespaces could not be made: {error}");
            ExitCode::from(3)
        }
    }
}

/// Role of this process after namespaces were made.
enum Role {
    /// The first one in them.
    First,
    /// The one outside that has that child.
    Parent(Pid),
}

fn enclose(kinds: &[&str]) -> io::Result<Role> {
    let mut flags = UnshareFlags::empty();
    for kind in kinds {
        flags |= flag(kind)?;
    }
    if kinds.contains(&"user") {
        // Mounts are made by whoever owns the mount namespace.
        unshare_with_users(flags | UnshareFlags::NEWNS)?;
    } else {
        unshare(flags)?;
    }
    if kinds.contains(&"pid") || kinds.contains(&"time") {
        if let Some(child) = fork()? {
            return Ok(Role::Parent(child));
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    if kinds.contains(&"pid") {
        mount_fresh("proc", "/proc", "")?;
    }
    if kinds.contains(&"net") {
        bring_loopback_up()?;
    }
    shut_groups()?;
    Ok(Role::First)
}

/// Makes the hierarchies of groups read-only: whoever leaves his group is on nobody's bill.
fn shut_groups() -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    for point in points.filter(|point| Path::new(point).starts_with(GROUPS)) {
        let flags = MountFlags::BIND
            | MountFlags::RDONLY
            | MountFlags::NOSUID
            | MountFlags::NODEV
            | MountFlags::NOEXEC;
        rustix::mount::mount_remount(point, flags, "")?;
    }
    Ok(())
}

/// Bounds what a program that is executed from now on may do; this process keeps what it has.
fn confine(kept: &str) -> io::Result<()> {
    let kept = u64::from_str_radix(kept, 16).map_err(io::Error::other)?;
    for bit in (0..u64::BITS).filter(|bit| kept >> bit & 1 == 0) {
        // SAFETY: numbers alone are passed on; one that this kernel does not know is refused.
        let dropped =
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(bit), 0, 0, 0) };
        let error = io::Error::last_os_error();
        if dropped != 0 && error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    Ok(())
}

fn flag(kind: &str) -> io::Result<UnshareFlags> {
    Ok(match kind {
        "cgroup" => UnshareFlags::NEWCGROUP,
        "ipc" => UnshareFlags::NEWIPC,
        "net" => UnshareFlags::NEWNET,
        "pid" => UnshareFlags::NEWPID,
        "time" => UnshareFlags::NEWTIME,
        "user" => UnshareFlags::NEWUSER,
        "uts" => UnshareFlags::NEWUTS,
        other => return Err(io::Error::other(format!("there is no namespace `{other}`"))),
    })
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: this process has one thread, and no descriptor table is shared away.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Only a process outside of a user namespace may map more than one user into it.
fn unshare_with_users(flags: UnshareFlags) -> io::Result<()> {
    let (made, is_made) = rustix::pipe::pipe()?;
    let outside = rustix::process::getpid();
    match fork()? {
        Some(helper) => {
            drop(made);
            unshare(flags)?;
            drop(is_made);
            match waitpid(Some(helper), WaitOptions::empty())? {
                Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
                _ => Err(io::Error::other("its users could not be mapped")),
            }
        }
        None => {
            drop(is_made);
            // Its end is the sign.
            let _ = rustix::io::read(&made, &mut [0; 1]);
            let directory = format!("/proc/{}", outside.as_raw_nonzero());
            let map = |name: &str| fs::write(format!("{directory}/{name}"), EVERYBODY);
            let mapped = map("uid_map").and_then(|()| map("gid_map"));
            std::process::exit(i32::from(mapped.is_err()));
        }
    }
}

/// The child's process id in the parent, nothing in the child.
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so the child may do all that its parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Stays out of the way until the first process of the namespaces ends.
fn wait_for(first: Pid) -> ExitCode {
    // Its own ends of the channel would keep it open when the other end of it is gone.
    for descriptor in 0..2 {
        // SAFETY: nothing in this process uses its standard input and output any more.
        unsafe { libc::close(descriptor) };
    }
    loop {
        match waitpid(Some(first), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
                return ExitCode::from(code.unwrap_or(3));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::from(3),
        }
    }
}
