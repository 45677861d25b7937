//! Bytes in one direction, as many as go through: `tcp_stream` to the server, `tcp_maerts` from it.
//!
//! What counts is what was received. To the server, time ends when it has taken the last byte and
//! closed.

use super::Kind;
use super::alarm::Alarm;
use super::client_options::ClientOptions;
use super::record::Record;
use super::session::Session;
use super::wire::{Lost, Patience, receive, send, wait, watched};
use super::{CONNECT, MESSAGE, NODELAY, PATIENCE, PLACE, SOCKETS, TIME, WARM_UP};
use super::{rr, tell};
use crate::{Answer, Engine, OptionSpec, Refused};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use surtax_instrument::clock;

/// Options of both directions.
const OPTIONS: &[OptionSpec] =
    &[CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, PLACE, MESSAGE, SOCKETS];

/// Bytes to the server.
pub(crate) const TCP_STREAM: Engine = Engine {
    name: "tcp_stream",
    about: "bytes from the client to the server, as many as go through",
    options: OPTIONS,
    run: |options| run(&ClientOptions::read(Kind::TcpStream, options)?),
};

/// Bytes from the server.
pub(crate) const TCP_MAERTS: Engine = Engine {
    name: "tcp_maerts",
    about: "bytes from the server to the client, as many as go through",
    options: OPTIONS,
    run: |options| run(&ClientOptions::read(Kind::TcpMaerts, options)?),
};

/// Number of bytes received at once, unless messages are longer: as much as a receiver's usual
/// buffer.
const RECEIVED_AT_ONCE: usize = 128 << 10;

/// Measures, and says what came of it.
///
/// # Errors
/// The other side cannot be reached, refuses, or falls silent.
pub(super) fn run(asked: &ClientOptions) -> Result<Answer, Refused> {
    let session = Session::open(asked)?;
    let ends = session.ends.clone();
    let sockets: Result<Vec<OwnedFd>, Refused> =
        (0..asked.handshake.sockets).map(|_| rr::connect(asked, session.data)).collect();
    let sockets = sockets?;
    let numbers: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let alarm = Alarm::start();
    let patience = asked.patience(Some(session.control()));
    let length = asked.handshake.request;
    let mut bytes = 0;
    let mut is_warming_up = asked.warm_up.is_some();
    let record = Record::take(asked, |record| {
        let has_ended = || clock::monotonic_raw() >= record.until;
        bytes = match asked.handshake.kind {
            Kind::TcpMaerts => take_all(&numbers, patience, length, has_ended)?,
            _ => give(&numbers, patience, length, has_ended)?,
        };
        // What was sent counts when it has arrived.
        if asked.handshake.kind == Kind::TcpStream && !std::mem::take(&mut is_warming_up) {
            close(&numbers, patience)?;
        }
        Ok(())
    });
    let record = record.map_err(Lost::refused)?;
    drop(alarm);
    drop(sockets);
    let served = session.finish()?;
    // The server has counted the warm-up too; all that was sent has arrived.
    let bytes = match asked.handshake.kind {
        Kind::TcpStream if asked.warm_up.is_none() => served.bytes,
        _ => bytes,
    };
    Ok(tell::stream(asked, &record, bytes, &ends, served))
}

/// Says that no more comes, and waits until the other side has taken all and closed as well.
fn close(sockets: &[RawFd], patience: Patience) -> Result<(), Lost> {
    for &socket in sockets {
        // SAFETY: the call takes numbers.
        unsafe { libc::shutdown(socket, libc::SHUT_WR) };
    }
    for &socket in sockets {
        match patience.receive(socket, &mut [0]) {
            Ok(_) | Err(Lost::Closed) => {}
            Err(lost) => return Err(lost),
        }
    }
    Ok(())
}

/// Receives until all are closed or the time is over; how many bytes.
///
/// # Errors
/// A connection breaks, or nothing comes for too long.
pub(super) fn take_all(
    sockets: &[RawFd],
    patience: Patience,
    length: usize,
    has_ended: impl Fn() -> bool,
) -> Result<u64, Lost> {
    let mut buffer = vec![0; length.max(RECEIVED_AT_ONCE)];
    move_bytes(sockets, libc::POLLIN, patience, has_ended, |socket, flags| {
        receive(socket, &mut buffer, flags)
    })
}

/// Sends until the time is over, or the other side closes; how many bytes.
///
/// # Errors
/// As [`take_all`].
pub(super) fn give(
    sockets: &[RawFd],
    patience: Patience,
    length: usize,
    has_ended: impl Fn() -> bool,
) -> Result<u64, Lost> {
    let message = vec![0x5a; length];
    move_bytes(sockets, libc::POLLOUT, patience, has_ended, |socket, flags| {
        send(socket, &message, flags)
    })
}

/// Moves bytes over every socket that is ready for it, until the time is over or all are closed,
/// where nothing is moved any more; how many in all. One alone is not waited for but by the call
/// itself.
#[inline]
fn move_bytes(
    sockets: &[RawFd],
    ready: libc::c_short,
    patience: Patience,
    has_ended: impl Fn() -> bool,
    mut call: impl FnMut(RawFd, libc::c_int) -> Result<usize, Errno>,
) -> Result<u64, Lost> {
    let mut polled: Vec<_> = sockets.iter().map(|it| watched(*it, ready)).collect();
    let (mut bytes, mut open) = (0, polled.len());
    let is_one = open == 1;
    let flags = if is_one { 0 } else { libc::MSG_DONTWAIT };
    while open > 0 && !has_ended() {
        if !is_one {
            wait(&mut polled, None);
        }
        for socket in polled.iter_mut().filter(|it| is_one || it.revents != 0) {
            match call(socket.fd, flags) {
                Ok(0) => {
                    socket.fd = -1;
                    open -= 1;
                }
                Ok(count) => bytes += count as u64,
                Err(error) => later_or_lost(patience, error)?,
            }
        }
    }
    Ok(bytes)
}

/// After a call that did nothing: whether to go on.
fn later_or_lost(patience: Patience, error: Errno) -> Result<(), Lost> {
    match error {
        Errno::AGAIN | Errno::INTR => patience.lasts(),
        Errno::PIPE | Errno::CONNRESET => Err(Lost::Closed),
        _ => Err(error.into()),
    }
}
