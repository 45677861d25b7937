//! Ports of this level's own network, for servers: no two surtaxes have the same one at a time.
//!
//! Who has a port is told by a lock on one byte of a file beside the journals, for as long as its
//! lab is open. The kernel lets go of it with the process, so there is no undo to write. A socket
//! would hold a port against other programs, too, and against the very server that is to have it:
//! so another program may still take one after it was looked at, and what fails then is told with
//! who has it.
//!
//! Two surtaxes whose journals are in different places (`SURTAX_STATE_DIR`, the file system of a
//! container) see of each other what listens, and no locks.
//!
//! Source: `ip(7)` on addresses that are reused, `fcntl_locking(2)` and `proc_pid_fdinfo(5)` on
//! locks.

use super::listener::{listener, told};
use super::{Lab, byte_lock, exclusive, journal, processes};
use crate::fault::{Doing, Fault};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// The file whose bytes are locked, beside the journals.
pub(super) const FILE: &str = "ports";

/// Ports that are tried when the usual one is taken: above those of known services, and below those
/// that the kernel gives to whoever calls (`net.ipv4.ip_local_port_range`).
const OTHERS: RangeInclusive<u16> = 20_000..=29_999;

/// The first of some ports in a row, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    first: u16,
    count: u16,
}

/// The ports of one lab.
#[derive(Debug)]
pub(super) struct Ports {
    file: File,
    path: PathBuf,
    /// Those that are kept, and for whom.
    kept: Vec<(String, Row)>,
}

/// By what a server is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// By connections.
    Tcp,
    /// By datagrams, and by connections beside them.
    Udp,
}

impl Lab {
    /// The first of `count` ports in a row at which nobody listens here and which no other surtax
    /// has: `usual` if it can be that one. `whose` has the same ones each time, for as long as
    /// nobody listens there meanwhile.
    ///
    /// # Errors
    /// The machine's: the file of ports cannot be locked, or all of `within` are taken.
    pub fn ports(
        &self,
        whose: &str,
        usual: u16,
        count: u16,
        within: &RangeInclusive<u16>,
    ) -> Result<u16, Fault> {
        self.with_ports(|ports| ports.choose(whose, usual, count, within))
    }

    /// Keeps other surtaxes from `count` ports in a row that a user has named.
    ///
    /// # Errors
    /// The machine's, with who has one of them.
    pub fn named_ports(
        &self,
        whose: &str,
        first: u16,
        count: u16,
        protocol: Protocol,
    ) -> Result<(), Fault> {
        self.with_ports(|ports| ports.insist(whose, Row { first, count }, protocol))
    }

    fn with_ports<T>(&self, act: impl FnOnce(&mut Ports) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if ports.is_none() {
            *ports = Some(Ports::open(&journal::state_directory()?)?);
        }
        act(ports.as_mut().ok_or_else(|| Fault::bug("the ports of a lab are lost"))?)
    }
}

impl Row {
    /// Returns its ports; `None` where the first or the last one would be none.
    fn all(self) -> Option<RangeInclusive<u16>> {
        let last = self.first.checked_add(self.count.checked_sub(1)?)?;
        (self.first > 0).then_some(self.first..=last)
    }
}

impl Ports {
    fn open(state: &Path) -> Result<Self, Fault> {
        let path = state.join(FILE);
        let file = exclusive::lock_file(&path)?;
        Ok(Self { file, path, kept: Vec::new() })
    }

    fn choose(
        &mut self,
        whose: &str,
        usual: u16,
        count: u16,
        within: &RangeInclusive<u16>,
    ) -> Result<u16, Fault> {
        let known = self.kept.iter().find(|(it, _)| it == whose).map(|(_, row)| row.first);
        let beyond = usual.saturating_add(1)..=*within.end();
        for first in known.into_iter().chain([usual]).chain(OTHERS).chain(beyond) {
            let row = Row { first, count };
            let is_within = row
                .all()
                .is_some_and(|it| [it.start(), it.end()].iter().all(|it| within.contains(it)));
            if is_within && self.keep(whose, row, is_free)?.is_ok() {
                return Ok(first);
            }
        }
        let (least, most) = (within.start(), within.end());
        Err(Fault::machine(format!(
            "no {count} ports from {least} to {most} are free here for the server of the workload"
        ))
        .hint("end what listens here, or name another port by the workload's `port=`"))
    }

    fn insist(&mut self, whose: &str, row: Row, protocol: Protocol) -> Result<(), Fault> {
        let kept = self.keep(whose, row, |port| is_free_at_the_loopback(port, protocol))?;
        let Err(port) = kept else { return Ok(()) };
        let holder = listener(port).or_else(|| self.holder(port));
        let holder = holder.unwrap_or_else(|| String::from("somebody who cannot be seen"));
        Err(Fault::machine(format!("port {port} is taken here, by {holder}, and was asked for"))
            .hint(
                "wait for the end of that, or leave the workload's `port=` out: then a free one \
                   is taken",
            ))
    }

    /// Locks a row in the place of what was kept for the same; or else the port that cannot be had.
    fn keep(
        &mut self,
        whose: &str,
        row: Row,
        is_free: impl Fn(u16) -> Result<bool, Fault>,
    ) -> Result<Result<(), u16>, Fault> {
        let Some(wanted) = row.all() else { return Ok(Err(row.first)) };
        let is_kept = |kept: &[(String, Row)], port: u16, by: &dyn Fn(&str) -> bool| {
            kept.iter().any(|(it, row)| by(it) && row.all().is_some_and(|all| all.contains(&port)))
        };
        let mut taken = Vec::new();
        let mut missing = None;
        for port in wanted.clone() {
            let is_anothers = is_kept(&self.kept, port, &|it| it != whose);
            if is_anothers || !self.lock(port)? {
                missing = Some(port);
                break;
            }
            if !is_kept(&self.kept, port, &|it| it == whose) {
                taken.push(port);
            }
            if !is_free(port)? {
                missing = Some(port);
                break;
            }
        }
        if let Some(port) = missing {
            taken.into_iter().try_for_each(|port| self.unlock(port))?;
            return Ok(Err(port));
        }
        let old = self.kept.iter().position(|(it, _)| it == whose);
        if let Some((_, old)) = old.map(|at| self.kept.swap_remove(at)) {
            let gone = old.all().into_iter().flatten().filter(|port| !wanted.contains(port));
            gone.into_iter().try_for_each(|port| self.unlock(port))?;
        }
        self.kept.push((whose.to_owned(), row));
        Ok(Ok(()))
    }

    fn lock(&self, port: u16) -> Result<bool, Fault> {
        byte_lock::try_lock(&self.file, port.into())
            .doing(format_args!("lock a port in `{}`", self.path.display()))
    }

    fn unlock(&self, port: u16) -> Result<(), Fault> {
        byte_lock::unlock(&self.file, port.into())
            .doing(format_args!("let go of a port in `{}`", self.path.display()))
    }

    /// The surtax that has the lock of a port, in words.
    fn holder(&self, port: u16) -> Option<String> {
        let has_it = |pid: &u32| {
            let is_ours = |it: &PathBuf| fs::read_link(it).is_ok_and(|it| it == self.path);
            processes::descriptors(*pid).filter(is_ours).any(|it| {
                let number = it.file_name().unwrap_or_default().display();
                let told = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
                told.is_ok_and(|told| locks(&told, port))
            })
        };
        let mut others = processes::ids().ok()?.filter(|pid| *pid != std::process::id());
        others.find(has_it).map(told)
    }
}

/// Tells whether a file of `/proc/PID/fdinfo` says that this byte is locked by its descriptor.
fn locks(fdinfo: &str, byte: u16) -> bool {
    fdinfo.lines().filter_map(|line| line.strip_prefix("lock:")).any(|line| {
        let range: Vec<u64> =
            line.split_whitespace().rev().take(2).filter_map(|it| it.parse().ok()).collect();
        matches!(range[..], [last, first] if (first..=last).contains(&byte.into()))
    })
}

/// Tells whether nobody has a port, at whatever address and by whatever protocol.
fn is_free(port: u16) -> Result<bool, Fault> {
    let everywhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    Ok(can_bind(everywhere, SocketType::STREAM)? && can_bind(everywhere, SocketType::DGRAM)?)
}

/// Tells whether nobody is in the way of a server at the loopback.
fn is_free_at_the_loopback(port: u16, protocol: Protocol) -> Result<bool, Fault> {
    let here = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let needs_datagrams = protocol == Protocol::Udp;
    Ok(can_bind(here, SocketType::STREAM)?
        && (!needs_datagrams || can_bind(here, SocketType::DGRAM)?))
}

/// Tells whether a server could have an address. Nobody listens there for that; what is left of
/// closed connections is not in the way, as it is in that of no server.
fn can_bind(address: SocketAddrV4, kind: SocketType) -> Result<bool, Fault> {
    let doing = format!("look whether port {} is free", address.port());
    let socket =
        socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None).doing(&doing)?;
    if kind == SocketType::STREAM {
        sockopt::set_socket_reuseaddr(&socket, true).doing(&doing)?;
    }
    match bind(&socket, &address) {
        Ok(()) => Ok(true),
        // A port below 1024 is not for everybody.
        Err(Errno::ADDRINUSE | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error).doing(&doing),
    }
}

#[cfg(test)]
mod tests;
