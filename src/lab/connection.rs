//! The connections over TCP that a process holds, with both ends, as the kernel lists them.
//!
//! What a process, or whoever it talks to, says of a connection is a claim; the kernel knows it.
//!
//! Source: `proc_pid_net(5)`, Linux `net/ipv4/tcp_ipv4.c`, `get_tcp4_sock`; `net/tcp_states.h`.

use super::Process;
use super::processes::descriptors;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// State of a connection that stands.
const ESTABLISHED: &str = "01";

/// A socket of a list such as `/proc/net/tcp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed<'a> {
    /// The socket's own end; `None` where the list has it in a form that is not known.
    pub(super) own: Option<SocketAddr>,
    /// The other one.
    pub(super) other: Option<SocketAddr>,
    /// Number of its state, in hexadecimal digits.
    pub(super) state: &'a str,
    /// Number of its inode, by which a descriptor names it.
    pub(super) inode: u64,
}

/// Reads a list of sockets.
pub(super) fn listed(list: &str) -> impl Iterator<Item = Listed<'_>> {
    list.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (own, other) = (end(fields.get(1)?), end(fields.get(2)?));
        Some(Listed { own, other, state: fields.get(3)?, inode: fields.get(9)?.parse().ok()? })
    })
}

/// Reads an end: an address as the kernel's memory has it, in words of 32 bits, and a port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            // One of version 4 in clothes of version 6 is one of version 4.
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

impl Process {
    /// Lists the connections over TCP that it holds: its own end and the other one.
    #[must_use]
    pub fn connections(&self) -> Vec<(SocketAddr, SocketAddr)> {
        connections(self.pid())
    }
}

/// Lists the inodes of the sockets that a process has open.
pub(super) fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    descriptors(pid).filter_map(|link| {
        let name = fs::read_link(link).ok()?;
        name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

fn connections(pid: u32) -> Vec<(SocketAddr, SocketAddr)> {
    let held: BTreeSet<u64> = sockets(pid).collect();
    let mut found = Vec::new();
    for list in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{list}")).unwrap_or_default();
        let stand = listed(&text).filter(|it| it.state == ESTABLISHED && held.contains(&it.inode));
        found.extend(stand.filter_map(|it| Some((it.own?, it.other?))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_of_a_connection_are_those_that_its_sockets_have() {
        let server = TcpListener::bind("[::]:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let of_port = || -> Vec<(SocketAddr, SocketAddr)> {
            let of_port =
                |it: &(SocketAddr, SocketAddr)| [it.0.port(), it.1.port()].contains(&port);
            connections(std::process::id()).into_iter().filter(of_port).collect()
        };
        assert_eq!(of_port(), [], "who listens is connected with nobody");
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let accepted = server.accept().unwrap();
        let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        assert_eq!(of_port(), [(own, other), (other, own)], "version 4 in version 6, too");
        drop(accepted);
        drop(client);
        assert_eq!(of_port(), []);
        let of_version_6 = TcpStream::connect(("::1", port)).unwrap();
        assert!(
            of_port()
                .contains(&(of_version_6.local_addr().unwrap(), of_version_6.peer_addr().unwrap()))
        );
    }

    #[test]
    fn an_end_in_a_form_that_is_not_known_is_none() {
        for text in ["", "0100007F", "0100007F:", "100007F:0016", "0100007F:10016", "é00007F:1"] {
            assert_eq!(end(text), None, "{text}");
        }
    }
}
