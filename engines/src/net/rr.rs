//! Requests and responses: one after another over one socket, or many and by a schedule
//! (`flow.rs`).

use super::Kind;
use super::alarm::Alarm;
use super::client_options::ClientOptions;
use super::place::EndPlace;
use super::record::Record;
use super::session::{Ends, Session, reach};
use super::wire::{Lost, Patience};
use super::{
    CONNECT, ECHO, NODELAY, PATIENCE, PLACE, POLL, RATE, REQUEST, RESPONSE, SOCKETS, TIME, WARM_UP,
    WORST,
};
use super::{flow, tell};
use crate::{Answer, Engine, Refused};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;

/// Requests over a connection.
pub(crate) const TCP_RR: Engine = Engine {
    name: "tcp_rr",
    about: "requests and responses over a TCP connection: latency of each, and their rate",
    options: &[
        CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, POLL, PLACE, REQUEST, RESPONSE, SOCKETS, RATE,
        WORST, ECHO,
    ],
    run: |options| run(&ClientOptions::read(Kind::TcpRr, options)?),
};

/// Requests as datagrams.
pub(crate) const UDP_RR: Engine = Engine {
    name: "udp_rr",
    about: "requests and responses as datagrams: latency of each, their rate, and how many are \
            lost",
    options: &[
        CONNECT, TIME, WARM_UP, PATIENCE, POLL, PLACE, REQUEST, RESPONSE, SOCKETS, RATE, WORST,
        ECHO,
    ],
    run: |options| run(&ClientOptions::read(Kind::UdpRr, options)?),
};

/// After so long a datagram counts as lost, unless patience is shorter.
const LOSS: Duration = Duration::from_secs(1);

/// Measures, and says what came of it.
///
/// # Errors
/// The other side cannot be reached, refuses, or falls silent.
pub(super) fn run(asked: &ClientOptions) -> Result<Answer, Refused> {
    let session = if asked.is_echo { None } else { Some(Session::open(asked)?) };
    let ends = match &session {
        Some(session) => session.ends.clone(),
        None => Ends::take(asked, EndPlace::here(), EndPlace::unknown())?,
    };
    let to = session.as_ref().map_or(asked.connect, |session| session.data);
    let sockets: Result<Vec<OwnedFd>, Refused> =
        (0..asked.handshake.sockets).map(|_| connect(asked, to)).collect();
    let sockets = sockets?;
    let alarm = Alarm::start();
    let patience = asked.patience(session.as_ref().map(Session::control));
    let record = match sockets.as_slice() {
        [socket] if asked.rate.is_none() => {
            Record::take(asked, |record| closed(asked, socket.as_raw_fd(), patience, record))
        }
        all => {
            let mut flow = flow::Flow::new(asked, all);
            Record::take(asked, |record| flow.round(patience, record))
        }
    };
    let record = record.map_err(Lost::refused)?;
    drop(alarm);
    drop(sockets);
    let served = session.map(Session::finish).transpose()?;
    Ok(tell::transactions(asked, &record, &ends, served))
}

/// A socket that reaches the other side's data.
pub(super) fn connect(asked: &ClientOptions, to: SocketAddr) -> Result<OwnedFd, Refused> {
    let cannot = |error| Refused::machine(format!("cannot connect to {to}: {error}"));
    if asked.handshake.kind.is_udp() {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).map_err(cannot)?;
        socket.connect(to).map_err(cannot)?;
        return Ok(socket.into());
    }
    // An echo may not listen yet, a server of ours does.
    let stream = match asked.is_echo {
        true => reach(to, asked.handshake.patience)?,
        false => TcpStream::connect_timeout(&to, asked.handshake.patience).map_err(cannot)?,
    };
    stream.set_nodelay(asked.handshake.is_nodelay).map_err(cannot)?;
    Ok(stream.into())
}

/// One transaction after another.
fn closed(
    asked: &ClientOptions,
    socket: RawFd,
    patience: Patience,
    record: &mut Record,
) -> Result<(), Lost> {
    let mut request = vec![0; asked.handshake.request];
    let mut response = vec![0; asked.handshake.response];
    if asked.handshake.kind == Kind::UdpRr {
        return datagrams(socket, patience, record, &mut request, &mut response);
    }
    record.repeat(|_| {
        patience.send(socket, &request)?;
        patience.receive_whole(socket, &mut response)?;
        Ok(true)
    })
}

/// The same with datagrams, which may be lost: each bears a number, as far as it has room.
fn datagrams(
    socket: RawFd,
    patience: Patience,
    record: &mut Record,
    request: &mut [u8],
    response: &mut [u8],
) -> Result<(), Lost> {
    let room = request.len().min(response.len()).min(8);
    let mut number = 0_u64;
    record.repeat(|at| {
        number += 1;
        request[..room].copy_from_slice(&number.to_le_bytes()[..room]);
        let lost_at = (at + LOSS.into()).min(patience.until);
        let limited = Patience { until: lost_at, ..patience };
        limited.send(socket, request)?;
        loop {
            match limited.receive(socket, response) {
                // What was given up comes late, and is none of ours any more.
                Ok(_) if response[..room] != request[..room] => {}
                Ok(_) => return Ok(true),
                Err(Lost::Silent) if lost_at < patience.until => return Ok(false),
                Err(lost) => return Err(lost),
            }
        }
    })
}

/// The server's part over one connection: until the client closes it.
///
/// # Errors
/// The connection's; [`Lost::Closed`] is its usual end.
pub(super) fn serve_one(
    socket: RawFd,
    patience: Patience,
    lengths: (usize, usize),
    count: &mut u64,
) -> Result<(), Lost> {
    let (mut request, response) = (vec![0; lengths.0], vec![0; lengths.1]);
    loop {
        patience.receive_whole(socket, &mut request)?;
        patience.send(socket, &response)?;
        *count += 1;
    }
}

/// The server's part with datagrams, each of which is answered to whom it came from.
///
/// # Errors
/// As [`serve_one`].
pub(super) fn serve_datagrams(
    socket: &UdpSocket,
    patience: Patience,
    lengths: (usize, usize),
    is_one: bool,
    count: &mut u64,
) -> Result<(), Lost> {
    let (mut request, mut response) = (vec![0; lengths.0], vec![0; lengths.1]);
    let room = lengths.0.min(lengths.1).min(8);
    if is_one {
        // A connected socket looks its way up once.
        let from = first(socket, patience)?;
        socket.connect(from)?;
        let socket = socket.as_raw_fd();
        loop {
            patience.receive(socket, &mut request)?;
            response[..room].copy_from_slice(&request[..room]);
            patience.send(socket, &response)?;
            *count += 1;
        }
    }
    loop {
        let from = patience.go_on(|flags| {
            let flags = RecvFlags::from_bits_retain(flags.cast_unsigned());
            recvfrom(socket, &mut request, flags).map(|(_, _, from)| from)
        })?;
        response[..room].copy_from_slice(&request[..room]);
        // What cannot be answered is lost, and its client counts it.
        let _ = from.map(|from| sendto(socket, &response, SendFlags::NOSIGNAL, &from));
        *count += 1;
    }
}

/// Returns the sender of the first datagram; the datagram stays where it is.
fn first(socket: &UdpSocket, patience: Patience) -> Result<SocketAddr, Lost> {
    let mut byte = [0];
    loop {
        match socket.peek_from(&mut byte) {
            Ok((_, from)) => return Ok(from),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                patience.lasts()?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the end of the patience of a server that has a client: never, since a client that lives
/// says when it ends.
pub(super) fn unlimited() -> Nanoseconds {
    Nanoseconds(u64::MAX)
}
