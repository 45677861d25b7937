//! A connection for each request: connect, send, receive, and wait until the server has closed it.
//!
//! The server closes first, and so bears the time in which an address may not be used again: a
//! client that did would have used up its ports after 28,000 connections.

use super::alarm::Alarm;
use super::client_options::{ClientOptions, Handshake};
use super::record::Record;
use super::session::Session;
use super::tell;
use super::wire::{Lost, Patience, set, told};
use crate::{Answer, Refused};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use surtax_instrument::clock;

/// Measures, and says what came of it.
///
/// # Errors
/// The other side cannot be reached, refuses, or falls silent.
pub(super) fn run(asked: &ClientOptions) -> Result<Answer, Refused> {
    let session = Session::open(asked)?;
    let ends = session.ends.clone();
    let alarm = Alarm::start();
    let until = clock::monotonic_raw()
        + asked.warm_up.unwrap_or_default().into()
        + asked.time.into()
        + asked.handshake.patience.into();
    let control = Some(session.control());
    let patience = Patience { until, control, is_polling: asked.handshake.is_polling };
    let to = Raw::of(session.data);
    let record = Record::take(asked, |record| connections(&asked.handshake, &to, patience, record));
    let record = record.map_err(|lost| match lost {
        Lost::Io(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Refused::machine(
            "this end has no port left for another connection",
        )
        .hint(
            "wait a minute until those of earlier connections are free, or measure for less time",
        ),
        lost => lost.refused(),
    })?;
    drop(alarm);
    let served = session.finish()?;
    Ok(tell::transactions(asked, &record, &ends, Some(served)))
}

fn connections(
    handshake: &Handshake,
    to: &Raw,
    patience: Patience,
    record: &mut Record,
) -> Result<(), Lost> {
    let request = vec![0; handshake.request];
    let mut response = vec![0; handshake.response];
    let mut at = clock::monotonic_raw();
    loop {
        let socket = to.connect(handshake, patience)?;
        let number = socket.as_raw_fd();
        patience.send(number, &request)?;
        patience.receive_whole(number, &mut response)?;
        // The end that the server has made.
        patience.receive(number, &mut response[..1])?;
        drop(socket);
        let now = clock::monotonic_raw();
        record.note(at, now);
        if now >= record.until {
            return Ok(());
        }
        at = now;
    }
}

/// The server's part: answers one connection after another, until the client says that all is done.
///
/// # Errors
/// A connection's; [`Lost::Closed`] is the usual end.
pub(super) fn serve(
    listener: &TcpListener,
    patience: Patience,
    handshake: &Handshake,
    count: &mut u64,
) -> Result<(), Lost> {
    let (mut request, response) = (vec![0; handshake.request], vec![0; handshake.response]);
    let listener = listener.as_raw_fd();
    loop {
        let socket = accept(listener, patience)?;
        let number = socket.as_raw_fd();
        prepare(number, handshake).map_err(Lost::Io)?;
        match patience.receive_whole(number, &mut request) {
            Ok(()) => patience.send(number, &response)?,
            // A client that gave this one up goes on with the next.
            Err(Lost::Closed) => patience.over().map_or(Ok(()), Err)?,
            Err(lost) => return Err(lost),
        }
        *count += 1;
    }
}

/// The next connection.
///
/// # Errors
/// There comes none, or the client says that all is done.
pub(super) fn accept(listener: libc::c_int, patience: Patience) -> Result<OwnedFd, Lost> {
    let number = patience.go_on(|_| {
        // SAFETY: the caller's address is not asked for.
        let number = unsafe {
            libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC)
        };
        told(number as isize)
    })?;
    let number = libc::c_int::try_from(number).map_err(|_| Lost::Closed)?;
    // SAFETY: the kernel has just made this descriptor, and it is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The options of a connection that differ from the kernel's own choice.
pub(super) fn prepare(socket: libc::c_int, handshake: &Handshake) -> io::Result<()> {
    if handshake.is_nodelay { set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1) } else { Ok(()) }
}

/// An address as the kernel takes it.
#[derive(Clone, Copy)]
enum Raw {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Raw {
    fn of(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::V4(libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::V6(libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }

    fn connect(&self, handshake: &Handshake, patience: Patience) -> Result<OwnedFd, Lost> {
        let (family, pointer, length): (_, *const libc::sockaddr, _) = match self {
            Self::V4(raw) => (libc::AF_INET, std::ptr::from_ref(raw).cast(), size_of_val(raw)),
            Self::V6(raw) => (libc::AF_INET6, std::ptr::from_ref(raw).cast(), size_of_val(raw)),
        };
        // SAFETY: the call takes numbers.
        let number = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        if number < 0 {
            return Err(Lost::Io(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just made this descriptor, and it is nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        prepare(number, handshake).map_err(Lost::Io)?;
        let length = libc::socklen_t::try_from(length).unwrap_or(0);
        loop {
            // SAFETY: the address is live and as long as is said.
            if unsafe { libc::connect(number, pointer, length) } == 0 {
                return Ok(socket);
            }
            match io::Error::last_os_error() {
                // A tick came: the connection is being made meanwhile.
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.raw_os_error() == Some(libc::EALREADY) => {}
                error if error.raw_os_error() == Some(libc::EISCONN) => return Ok(socket),
                error => return Err(Lost::Io(error)),
            }
            patience.over().map_or(Ok(()), Err)?;
        }
    }
}

fn family(number: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(number).unwrap_or(0)
}
