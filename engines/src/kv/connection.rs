//! A connection to a key-value server, and what is on its way there.

use super::keys::Keys;
use super::protocol::{Protocol, Reply};
use super::record::Record;
use crate::Refused;
use crate::net::{receive, send, set};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use surtax_instrument::quantity::Nanoseconds;

/// Twice the most bytes that an answer has beside its value.
const AROUND: usize = 4096;

/// The least room for answers, in bytes: so much is received at once.
const ROOM: usize = 64 << 10;

/// Most bytes of answers that are awaited together: less than the room.
const TOGETHER: usize = ROOM / 2;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Going {
    key: u32,
    is_set: bool,
    from: Nanoseconds,
}

/// One connection.
pub(super) struct Connection {
    socket: TcpStream,
    protocol: Protocol,
    /// Requests, of which the first so many bytes are sent.
    out: Vec<u8>,
    sent: usize,
    /// Room for answers, which are there from `begin` to `end`.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    going: VecDeque<Going>,
    /// Number of waiting bytes at which the kernel gives news.
    awaited: usize,
}

/// Result of a look at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollResult {
    /// Nothing is there.
    Nothing,
    /// As much as there was room for, so that there may be more.
    Full,
    /// All that there was.
    All,
}

impl Connection {
    /// A connection with room for so many requests, and for the answer to any of them.
    pub(super) fn new(socket: TcpStream, protocol: Protocol, depth: usize, longest: usize) -> Self {
        Self {
            socket,
            protocol,
            out: Vec::with_capacity(ROOM),
            sent: 0,
            input: vec![0; ROOM.max(longest + AROUND)],
            begin: 0,
            end: 0,
            going: VecDeque::with_capacity(depth),
            awaited: 1,
        }
    }

    /// Returns the socket's descriptor.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Counts the requests that wait for an answer.
    #[inline]
    pub(super) fn going_count(&self) -> usize {
        self.going.len()
    }

    /// Tells whether some of the requests could not be sent yet.
    #[inline]
    pub(super) fn has_rest(&self) -> bool {
        !self.out.is_empty()
    }

    /// Writes a request, whose latency counts from a time; it goes with the next
    /// [`Connection::flush`].
    #[inline]
    pub(super) fn ask(&mut self, keys: &Keys, key: u32, is_set: bool, from: Nanoseconds) {
        if is_set {
            self.protocol.set(keys.name(key), keys.value(key), &mut self.out);
        } else {
            self.protocol.get(keys.name(key), &mut self.out);
        }
        self.going.push_back(Going { key, is_set, from });
    }

    /// Sends what was written, as far as there is room for it.
    ///
    /// # Errors
    /// The connection's.
    #[inline]
    pub(super) fn flush(&mut self) -> Result<(), Refused> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            match send(self.socket.as_raw_fd(), rest, libc::MSG_DONTWAIT) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(broken(&error.into())),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Asks the kernel to give news of this connection only when all answers are there that are
    /// awaited, or many bytes: a server sends them one by one, and to take each by itself costs
    /// both ends more than the request.
    ///
    /// Source: `socket(7)`, `SO_RCVLOWAT`.
    ///
    /// # Errors
    /// The connection's.
    #[inline]
    pub(super) fn await_all(&mut self, keys: &Keys) -> Result<(), Refused> {
        let expected = |going: &Going| {
            let (name, value) = (keys.name(going.key), keys.value(going.key));
            self.protocol.expected(name, value, going.is_set)
        };
        let due: usize = self.going.iter().map(expected).sum();
        // What has come of them already is in no queue of the kernel.
        let left = due.saturating_sub(self.end - self.begin);
        self.await_bytes(left.clamp(1, TOGETHER))
    }

    /// Asks the kernel to give news of whatever comes.
    ///
    /// # Errors
    /// The connection's.
    #[inline]
    pub(super) fn await_any(&mut self) -> Result<(), Refused> {
        self.await_bytes(1)
    }

    #[inline]
    fn await_bytes(&mut self, count: usize) -> Result<(), Refused> {
        if count == self.awaited {
            return Ok(());
        }
        self.awaited = count;
        let count = libc::c_int::try_from(count).unwrap_or(1);
        set(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, count)
            .map_err(|error| broken(&error))
    }

    /// Since when the request has waited that was made first, where there is one.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Nanoseconds> {
        self.going.front().map(|going| going.from)
    }

    /// Receives what is there; with `flags` of 0 it waits for something, or for a tick.
    ///
    /// # Errors
    /// The connection's, or the server has closed it.
    #[inline]
    pub(super) fn receive(&mut self, flags: libc::c_int) -> Result<PollResult, Refused> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.input.len() - self.end < AROUND {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = &mut self.input[self.end..];
        let length = room.len();
        match receive(self.socket.as_raw_fd(), room, flags) {
            Ok(0) => Err(Refused::machine("the server has closed the connection")
                .hint("look at the server's own output: it may have ended")),
            Ok(count) => {
                self.end += count;
                Ok(if count == length { PollResult::Full } else { PollResult::All })
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(PollResult::Nothing),
            Err(error) => Err(broken(&error.into())),
        }
    }

    /// Reads the answers that have come by `now`, and notes each.
    ///
    /// # Errors
    /// They are none.
    #[inline]
    pub(super) fn take(
        &mut self,
        keys: &Keys,
        now: Nanoseconds,
        record: &mut Record,
    ) -> Result<(), Refused> {
        while self.begin < self.end {
            let bytes = &self.input[self.begin..self.end];
            let Some(going) = self.going.front().copied() else { return Err(strange(bytes)) };
            let read = self.protocol.read(bytes, keys.name(going.key));
            let Some((length, reply)) = read.map_err(|_| strange(bytes))? else { break };
            match reply {
                Reply::Value(value) if !going.is_set => {
                    record.hit_count += 1;
                    record.wrong_count += u64::from(value != keys.value(going.key));
                }
                Reply::Stored if going.is_set => {}
                Reply::Missing if !going.is_set => record.miss_count += 1,
                Reply::Refused(why) => {
                    record.refused_count += 1;
                    record.refusal.get_or_insert_with(|| shown(why));
                }
                _ => return Err(strange(bytes)),
            }
            let expected =
                self.protocol.expected(keys.name(going.key), keys.value(going.key), going.is_set);
            record.odd_count += u64::from(length != expected);
            record.note(going.is_set, going.from, now);
            record.received_bytes += length as u64;
            self.begin += length;
            self.going.pop_front();
        }
        Ok(())
    }
}

fn broken(error: &io::Error) -> Refused {
    Refused::machine(format!("the connection to the server broke: {error}"))
}

fn strange(bytes: &[u8]) -> Refused {
    Refused::machine(format!("the server says what is no answer: `{}`", shown(bytes)))
        .hint("name the server's own language: `--protocol memcached|memcached-binary|redis`")
}

/// The begin of what a server says, for people.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
    text.trim_end().escape_debug().to_string()
}
