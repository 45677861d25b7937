//! Many transactions at once: over several sockets, or by a schedule (an open loop).
//!
//! By a schedule each has a time at which it is to begin, whatever became of those before it, and
//! its latency counts from there. So a server that stands still for a moment delays all that was
//! due meanwhile, and not just the one that happened to wait: nothing is omitted in coordination
//! with the server. What could not be sent or answered in time is the shortfall.

use super::Kind;
use super::client_options::ClientOptions;
use super::record::Record;
use super::wire::{Lost, Patience, receive, send, wait, watched};
use crate::cpu::sleep_precisely;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Nanoseconds, whole};

/// Most transactions of one socket on their way: a server that lags farther behind is a shortfall.
const AHEAD: usize = 4096;

/// Time that responses are awaited after the time is over.
const DRAIN: Duration = Duration::from_millis(500);

/// Number of transactions begun before responses are looked at again.
const BURST: u32 = 64;

/// One socket and what is on its way there.
struct FlowSocket {
    socket: RawFd,
    /// Number and begin of each, in the order of their going.
    going: VecDeque<(u64, Nanoseconds)>,
    /// Bytes of the next response that have come.
    come: usize,
}

/// All sockets of a client.
pub(super) struct Flow {
    flow_sockets: Vec<FlowSocket>,
    polled: Vec<libc::pollfd>,
    request: Vec<u8>,
    buffer: Vec<u8>,
    response: usize,
    is_udp: bool,
    /// Nanoseconds between two begins.
    interval_ns: Option<f64>,
    number: u64,
}

impl Flow {
    /// One over these sockets.
    pub(super) fn new(asked: &ClientOptions, sockets: &[OwnedFd]) -> Self {
        let flow_socket = |socket: &OwnedFd| FlowSocket {
            socket: socket.as_raw_fd(),
            going: VecDeque::with_capacity(AHEAD),
            come: 0,
        };
        sleep_precisely();
        Self {
            flow_sockets: sockets.iter().map(flow_socket).collect(),
            polled: sockets.iter().map(|it| watched(it.as_raw_fd(), libc::POLLIN)).collect(),
            request: vec![0; asked.handshake.request],
            buffer: vec![0; asked.handshake.response.max(64 << 10)],
            response: asked.handshake.response,
            is_udp: asked.handshake.kind == Kind::UdpRr,
            interval_ns: asked.rate.map(|rate| 1e9 / rate),
            number: 0,
        }
    }

    /// Goes on until the record's time is over, and then until all have come back or a little
    /// later.
    ///
    /// # Errors
    /// A connection breaks, or nothing comes any more.
    pub(super) fn round(&mut self, patience: Patience, record: &mut Record) -> Result<(), Lost> {
        let mut next = 0;
        loop {
            let now = clock::monotonic_raw();
            let is_over = now >= record.until;
            if !is_over {
                self.begin(now, &mut next, patience, record)?;
            } else if self.is_idle() || now.since(record.until) >= DRAIN.into() {
                break;
            }
            let is_any = self.take_all(record)?;
            if !is_any && !patience.is_polling {
                let pause = self.pause(record, next);
                wait(&mut self.polled, Some(pause));
            }
            patience.lasts()?;
        }
        let left: usize = self.flow_sockets.iter().map(|flow_socket| flow_socket.going.len()).sum();
        record.lost_count += left as u64;
        record.due_count = self.due(record.until.since(record.began)).unwrap_or(record.sent_count);
        for flow_socket in &mut self.flow_sockets {
            // A stream would have to be read to the end of what is late; the datagrams are known by
            // their numbers.
            flow_socket.going.clear();
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.flow_sockets.iter().all(|flow_socket| flow_socket.going.is_empty())
    }

    /// Returns the number of transactions due so long after the begin; `None` without a schedule.
    fn due(&self, after: Nanoseconds) -> Option<u64> {
        self.interval_ns.map(|interval| whole((after.0 as f64 / interval).ceil()))
    }

    /// Returns the time after the begin at which the transaction of that number in the schedule is
    /// due.
    fn due_at(interval_ns: f64, number: u64) -> Nanoseconds {
        Nanoseconds(whole(number as f64 * interval_ns))
    }

    /// Returns the time in which nothing is to be done but to receive.
    fn pause(&self, record: &Record, next: u64) -> Duration {
        let now = clock::monotonic_raw();
        let due = self.interval_ns.map(|interval| record.began + Self::due_at(interval, next));
        let is_over = now >= record.until;
        let last = if is_over { record.until + DRAIN.into() } else { record.until };
        let until = due.filter(|due| *due < record.until).unwrap_or(last);
        until.since(now).into()
    }

    /// Begins what is due, or without a schedule one on each socket that has none.
    fn begin(
        &mut self,
        now: Nanoseconds,
        next: &mut u64,
        patience: Patience,
        record: &mut Record,
    ) -> Result<(), Lost> {
        let Some(interval) = self.interval_ns else {
            for flow_socket in 0..self.flow_sockets.len() {
                if self.flow_sockets[flow_socket].going.is_empty() {
                    self.go(flow_socket, clock::monotonic_raw(), patience, record)?;
                }
            }
            return Ok(());
        };
        for _ in 0..BURST {
            let due = record.began + Self::due_at(interval, *next);
            let count = self.flow_sockets.len() as u64;
            let flow_socket = usize::try_from(*next % count).unwrap_or(0);
            if due > now || due >= record.until || !self.go(flow_socket, due, patience, record)? {
                break;
            }
            *next += 1;
            record.delays.record(clock::monotonic_raw().since(due).0.max(1));
        }
        Ok(())
    }

    /// Sends one request; false where there is no room for it.
    fn go(
        &mut self,
        flow_socket: usize,
        at: Nanoseconds,
        patience: Patience,
        record: &mut Record,
    ) -> Result<bool, Lost> {
        let flow_socket = &mut self.flow_sockets[flow_socket];
        if flow_socket.going.len() >= AHEAD {
            return Ok(false);
        }
        if self.is_udp {
            self.request[..8].copy_from_slice(&self.number.to_le_bytes());
        }
        let sent = match send(flow_socket.socket, &self.request, libc::MSG_DONTWAIT) {
            Ok(sent) => sent,
            Err(error) if is_for_later(error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The rest of a request must not be another one's begin.
        if sent < self.request.len() {
            patience.send(flow_socket.socket, &self.request[sent..])?;
        }
        flow_socket.going.push_back((self.number, at));
        self.number += 1;
        record.sent_count += 1;
        Ok(true)
    }

    /// Receives what has come; says whether anything has.
    fn take_all(&mut self, record: &mut Record) -> Result<bool, Lost> {
        let mut is_any = false;
        for flow_socket in &mut self.flow_sockets {
            loop {
                let count = receive(flow_socket.socket, &mut self.buffer, libc::MSG_DONTWAIT);
                let now = clock::monotonic_raw();
                match count {
                    Ok(0) if !self.is_udp => return Err(Lost::Closed),
                    Ok(count) if self.is_udp => {
                        flow_socket.datagram(&self.buffer[..count], now, record)
                    }
                    Ok(count) => flow_socket.stream(count, self.response, now, record),
                    Err(error) if is_for_later(error) => break,
                    Err(error) => return Err(error.into()),
                }
                is_any = true;
                if self.interval_ns.is_none() {
                    break;
                }
            }
        }
        Ok(is_any)
    }
}

impl FlowSocket {
    /// Takes so many bytes of responses, which come in the order of their requests.
    fn stream(&mut self, count: usize, response: usize, now: Nanoseconds, record: &mut Record) {
        self.come += count;
        while self.come >= response {
            self.come -= response;
            if let Some((_, begin)) = self.going.pop_front() {
                record.note(begin, now);
            }
        }
    }

    /// A response with a number; those that went before it and have not come are lost.
    fn datagram(&mut self, bytes: &[u8], now: Nanoseconds, record: &mut Record) {
        let Some(number) = bytes.first_chunk().map(|number| u64::from_le_bytes(*number)) else {
            return;
        };
        while let Some((first, begin)) = self.going.front().copied() {
            if first > number {
                return;
            }
            self.going.pop_front();
            if first == number {
                record.note(begin, now);
                return;
            }
            record.lost_count += 1;
        }
    }
}

/// Tells whether to try again later: there is no room or nothing there, or a tick came.
pub(super) fn is_for_later(error: Errno) -> bool {
    [Errno::AGAIN, Errno::INTR, Errno::CONNREFUSED, Errno::NOBUFS].contains(&error)
}

/// The server's part over several connections: until all are closed.
///
/// # Errors
/// A connection's.
pub(super) fn serve_many(
    sockets: &[OwnedFd],
    patience: Patience,
    lengths: (usize, usize),
    count: &mut u64,
) -> Result<(), Lost> {
    let mut polled: Vec<_> =
        sockets.iter().map(|it| watched(it.as_raw_fd(), libc::POLLIN)).collect();
    let mut come = vec![0_usize; polled.len()];
    let (mut buffer, response) = (vec![0; lengths.0.max(64 << 10)], vec![0; lengths.1]);
    let mut open = polled.len();
    while open > 0 {
        let limit = if patience.is_polling { Some(Duration::ZERO) } else { None };
        wait(&mut polled, limit);
        let mut is_any = false;
        for (socket, come) in polled.iter_mut().zip(&mut come).filter(|(it, _)| it.revents != 0) {
            is_any = true;
            match receive(socket.fd, &mut buffer, libc::MSG_DONTWAIT) {
                Ok(0) => {
                    open -= 1;
                    // Of a negative descriptor nothing is heard.
                    socket.fd = -1;
                }
                Ok(received) => *come += received,
                Err(error) if is_for_later(error) => {}
                Err(_) => return Err(Lost::Closed),
            }
            while *come >= lengths.0 && socket.fd >= 0 {
                *come -= lengths.0;
                patience.send(socket.fd, &response)?;
                *count += 1;
            }
        }
        if !is_any {
            patience.lasts()?;
        }
    }
    Err(Lost::Closed)
}
