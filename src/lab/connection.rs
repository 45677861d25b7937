//! Reads both ends of the connections that a process holds, from its own sockets.
//!
//! What a process, or whoever it talks to, says of a connection is a claim; the kernel knows it.

use super::Process;
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Largest number of descriptors that are looked at.
const DESCRIPTOR_LIMIT: usize = 1024;

impl Process {
    /// Lists the connections over IP that it holds: its own end and the other one. None where the
    /// kernel, or whoever confines us, lets no socket be looked at (before Linux 5.6).
    #[must_use]
    pub fn connections(&self) -> Vec<(SocketAddr, SocketAddr)> {
        connections(self.pid(), &self.handle)
    }
}

fn connections(pid: u32, handle: &OwnedFd) -> Vec<(SocketAddr, SocketAddr)> {
    let listed = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ends = |number: i32| {
        let socket = pidfd_getfd(handle, number, PidfdGetfdFlags::empty()).ok()?;
        Some((address(getsockname(&socket).ok()?)?, address(getpeername(&socket).ok()??)?))
    };
    numbers.take(DESCRIPTOR_LIMIT).filter_map(ends).collect()
}

/// Returns an address of IP; one of version 4 in clothes of version 6 is one of version 4.
fn address(any: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(any).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_of_a_connection_are_those_that_its_sockets_have() {
        let server = TcpListener::bind("[::]:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let handle = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let of_port = || -> Vec<(SocketAddr, SocketAddr)> {
            let all = connections(std::process::id(), &handle);
            all.into_iter()
                .filter(|(own, other)| [own.port(), other.port()].contains(&port))
                .collect()
        };
        assert_eq!(of_port(), [], "who listens is connected with nobody");
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let accepted = server.accept().unwrap();
        let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let mut found = of_port();
        found.sort_by_key(|it| *it != (own, other));
        assert_eq!(found, [(own, other), (other, own)], "version 4 in version 6, too");
        drop((client, accepted));
        assert_eq!(of_port(), []);
    }
}
