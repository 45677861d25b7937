//! Namespaces without any tool: makes those that it is told, and serves as the first process in
//! them.
//!
//! `agent enclosed pid,net,…`. Where a kind only begins with a child (`pid`, `time`), that child
//! serves and this process waits for it, with nothing else to do.
//!
//! Source: `unshare(2)`, `pid_namespaces(7)`, `user_namespaces(7)`, `time_namespaces(7)`.

use crate::init::{bring_loopback_up, mount_fresh};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;
use std::fs;
use std::io;
use std::process::ExitCode;

/// Every user and group is mapped to itself; the last number means "nobody" and cannot be.
const EVERYBODY: &str = "0 0 4294967295";

/// Serves in namespaces of these kinds, named as in `/proc/self/ns` with commas between them.
pub fn main(kinds: &str) -> ExitCode {
    let kinds: Vec<&str> = kinds.split(',').filter(|kind| !kind.is_empty()).collect();
    match enclose(&kinds) {
        Ok(Role::First) => crate::serve_stdio(Ok(())),
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
    Ok(Role::First)
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
