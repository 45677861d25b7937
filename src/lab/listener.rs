//! Finds who listens at a port of this level: the process, the surtax that it belongs to, and the
//! run of that.
//!
//! Two runs at once may want the same port of this machine's own network. What fails then says that
//! the address is taken; this says by whom.

use super::connection::{Listed, listed, sockets};
use super::processes::{self, name};
use super::state::RUN_EXTENSION;
use std::fs;

/// Lists of sockets, with the state of those that listen. Source: Linux `net/tcp_states.h`,
/// `proc_pid_net(5)`.
const LISTS: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// Name that the main process of a surtax gives itself.
const SURTAX: &str = "surtax";

/// Describes in words who listens at a port here; `None` where nobody does, or nobody can be seen
/// to.
#[must_use]
pub fn listener(port: u16) -> Option<String> {
    let listening: Vec<u64> = LISTS
        .iter()
        .filter_map(|(list, state)| {
            let text = fs::read_to_string(format!("/proc/net/{list}")).ok()?;
            Some(inodes(&text, state, port))
        })
        .flatten()
        .collect();
    let holds = |pid: &u32| sockets(*pid).any(|inode| listening.contains(&inode));
    processes::ids().ok()?.find(holds).map(told)
}

/// A process in words, with the surtax that it belongs to.
pub(super) fn told(pid: u32) -> String {
    let owner = surtax_above(pid).filter(|owner| *owner != std::process::id());
    let of =
        owner.map_or_else(String::new, |owner| format!(", of the surtax with process id {owner}"));
    let run = run_of(owner.unwrap_or(pid));
    let run = run.map_or_else(String::new, |run| format!(", whose run is `{run}`"));
    format!("`{}` (process id {pid}{of}{run})", name(pid))
}

/// The file of the run that a surtax works on, if it may be seen.
fn run_of(pid: u32) -> Option<String> {
    if name(pid) != SURTAX {
        return None;
    }
    let mut open = processes::descriptors(pid).filter_map(|it| fs::read_link(it).ok());
    let run = open.find(|path| path.extension().is_some_and(|end| end == RUN_EXTENSION))?;
    Some(run.to_string_lossy().escape_debug().to_string())
}

/// The inodes of the sockets of a list that are in this state, at this port.
fn inodes(list: &str, state: &str, port: u16) -> Vec<u64> {
    let is_it = |it: &Listed<'_>| it.state == state && it.own.is_some_and(|own| own.port() == port);
    listed(list).filter(is_it).map(|it| it.inode).collect()
}

/// The nearest ancestor of a process that is a surtax.
fn surtax_above(pid: u32) -> Option<u32> {
    processes::line_of(pid).skip(1).find(|it| name(*it) == SURTAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    #[test]
    fn who_listens_at_a_port_is_named_and_nobody_is_where_nobody_does() {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let us = format!("(process id {})", std::process::id());
        assert!(listener(port).unwrap().contains(&us), "{:?}", listener(port));
        drop(tcp);
        assert_eq!(listener(port), None);
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listener(udp.local_addr().unwrap().port()).unwrap().contains(&us));
    }

    #[test]
    fn a_connection_from_a_port_is_nobody_who_listens_there() {
        let line = "  sl  local_address rem_address   st\n   0: 0100007F:1451 0100007F:0016 01 \
                    00000000:00000000 00:00000000 00000000     0        0 4711 1\n   1: \
                    00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000     0        0 4712 1\n";
        assert_eq!(inodes(line, "0A", 5201), [4712]);
        assert_eq!(inodes(line, "0A", 5202), [0; 0]);
    }
}
