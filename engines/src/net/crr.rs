//! A connection for each request: connect, send, receive, and wait until the server has closed it.
//!
//! The server closes first, and so bears the time in which an address may not be used again: a
//! client that did would have used up its ports after 28,000 connections.

use super::alarm::Alarm;
use super::client_options::{ClientOptions, Handshake};
use super::record::Record;
use super::session::Session;
use super::wire::{Lost, Patience};
use super::{CONNECT, NODELAY, PATIENCE, PLACE, POLL, REQUEST, RESPONSE, TIME, WARM_UP, WORST};
use super::{Kind, tell};
use crate::{Answer, Engine, Refused};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socket_with};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

/// A connection for each request.
pub(crate) const ENGINE: Engine = Engine {
    name: "tcp_crr",
    about: "a TCP connection, a request, a response and the end: latency of each, and their rate",
    options: &[CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, POLL, PLACE, REQUEST, RESPONSE, WORST],
    run: |options| run(&ClientOptions::read(Kind::TcpCrr, options)?),
};

/// Measures, and says what came of it.
///
/// # Errors
/// The other side cannot be reached, refuses, or falls silent.
pub(super) fn run(asked: &ClientOptions) -> Result<Answer, Refused> {
    let session = Session::open(asked)?;
    let ends = session.ends.clone();
    let alarm = Alarm::start();
    let (patience, to) = (asked.patience(Some(session.control())), session.data);
    let record = Record::take(asked, |record| connections(&asked.handshake, to, patience, record));
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
    to: SocketAddr,
    patience: Patience,
    record: &mut Record,
) -> Result<(), Lost> {
    let request = vec![0; handshake.request];
    let mut response = vec![0; handshake.response];
    record.repeat(|_| {
        let socket = connect(to, handshake, patience)?;
        let number = socket.as_raw_fd();
        patience.send(number, &request)?;
        patience.receive_whole(number, &mut response)?;
        // The end that the server has made.
        patience.receive(number, &mut response[..1])?;
        Ok(true)
    })
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
    loop {
        let socket = accept(listener, patience)?;
        let number = socket.as_raw_fd();
        prepare(&socket, handshake)?;
        match patience.receive_whole(number, &mut request) {
            Ok(()) => patience.send(number, &response)?,
            // A client that gave this one up goes on with the next.
            Err(Lost::Closed) => patience.lasts()?,
            Err(lost) => return Err(lost),
        }
        *count += 1;
    }
}

/// The next connection.
///
/// # Errors
/// There comes none, or the client says that all is done.
pub(super) fn accept(listener: &TcpListener, patience: Patience) -> Result<OwnedFd, Lost> {
    patience.go_on(|_| accept_with(listener, SocketFlags::CLOEXEC))
}

/// Sets the options of a connection that differ from the kernel's own choice.
pub(super) fn prepare(socket: &OwnedFd, handshake: &Handshake) -> Result<(), Errno> {
    if handshake.is_nodelay { set_tcp_nodelay(socket, true) } else { Ok(()) }
}

fn connect(to: SocketAddr, handshake: &Handshake, patience: Patience) -> Result<OwnedFd, Lost> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    prepare(&socket, handshake)?;
    loop {
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            // A tick came: the connection is being made meanwhile.
            Err(Errno::INTR | Errno::ALREADY) => patience.lasts()?,
            Err(error) => return Err(error.into()),
        }
    }
}
