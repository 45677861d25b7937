//! Datagrams from the client to the server: as many as can be sent, and how many of them arrive.
//!
//! Many are handed to the kernel at once (`sendmmsg(2)`), and many are taken at once: a receiver
//! that has taken all that there was naps for a moment and does not wait for the next one, because
//! to wake it would be the sender's work: half as many again arrive so. With `--gso` the kernel
//! gets one long message and cuts it itself (`UDP_SEGMENT`), and joins what arrives (`UDP_GRO`):
//! another way of working, which the answer names.

use super::alarm::Alarm;
use super::client_options::{ClientOptions, Handshake};
use super::flow::is_for_later;
use super::record::Record;
use super::session::{Served, Session};
use super::wire::{Lost, Patience, set};
use super::{CONNECT, MESSAGE, PATIENCE, PLACE, TIME, WARM_UP};
use super::{Kind, rr, tell};
use crate::cpu::sleep_precisely;
use crate::{Answer, Engine, Refused, option};
use rustix::io::Errno;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use surtax_instrument::clock;

/// Datagrams to the server.
pub(crate) const ENGINE: Engine = Engine {
    name: "udp_stream",
    about: "datagrams from the client to the server: how many are sent, and how many arrive",
    options: &[
        CONNECT,
        TIME,
        WARM_UP,
        PATIENCE,
        PLACE,
        MESSAGE,
        option(
            "gso",
            "on|off",
            "let the kernels cut and join datagrams (UDP_SEGMENT, UDP_GRO); off",
        ),
    ],
    run: |options| run(&ClientOptions::read(Kind::UdpStream, options)?),
};

/// Number of datagrams handed over at once.
const BATCH: usize = 64;

/// Nap of a receiver that has taken all there was. What comes meanwhile must find room, so it does
/// not nap with datagrams longer than a frame of Ethernet.
const NAP: Duration = Duration::from_micros(60);
const FRAME: usize = 1500;

/// Size of the receive buffer that is asked for, in bytes; a kernel gives what its
/// `net.core.rmem_max` allows.
const ROOM: libc::c_int = 1 << 20;

/// The longest message that the kernel cuts, in bytes, and in datagrams. Source: Linux
/// `net/ipv4/udp.c`.
const CUT_BYTES: usize = 65_000;

/// Measures, and says what came of it.
///
/// # Errors
/// The other side cannot be reached or refuses, or the kernel cannot cut datagrams.
pub(super) fn run(asked: &ClientOptions) -> Result<Answer, Refused> {
    let session = Session::open(asked)?;
    let ends = session.ends.clone();
    let socket = rr::connect(asked, session.data)?;
    let length = asked.handshake.request;
    let number = socket.as_raw_fd();
    let mut batch = if asked.handshake.is_gso {
        let cut = libc::c_int::try_from(length).unwrap_or(libc::c_int::MAX);
        set(number, libc::IPPROTO_UDP, libc::UDP_SEGMENT, cut).map_err(|error| {
            Refused::machine(format!("this kernel does not cut datagrams: {error}"))
                .hint("leave `--gso` out")
        })?;
        let count = (CUT_BYTES / length).clamp(1, BATCH);
        Batch::of(1, count * length)
    } else {
        Batch::of(BATCH, length)
    };
    let alarm = Alarm::start();
    let patience = asked.patience(Some(session.control()));
    let mut sent_bytes = 0;
    let record = Record::take(asked, |record| {
        sent_bytes = 0;
        while clock::monotonic_raw() < record.until {
            match batch.send(number) {
                Ok(bytes) => sent_bytes += bytes,
                Err(error) if is_for_later(error) => patience.lasts()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    });
    let record = record.map_err(Lost::refused)?;
    drop(alarm);
    let served = session.finish()?;
    Ok(tell::datagrams(asked, &record, sent_bytes, &ends, served))
}

/// Messages for one call, all in the same place: nobody reads what they say, and so it stays in the
/// nearest cache.
struct Batch {
    buffer: Vec<u8>,
    parts: Vec<libc::iovec>,
    heads: Vec<libc::mmsghdr>,
}

impl Batch {
    /// Makes room for so many messages of that length.
    fn of(count: usize, length: usize) -> Self {
        let mut buffer = vec![0x5a; length];
        let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: length };
        let mut parts = vec![part; count];
        let head = |part: &mut libc::iovec| {
            // SAFETY: a zeroed head is valid: no address, no control data, no flags.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            head.msg_hdr.msg_iov = std::ptr::from_mut(part);
            head.msg_hdr.msg_iovlen = 1;
            head
        };
        // The list of parts is never moved or made longer again: heads point into it.
        let heads = parts.iter_mut().map(head).collect();
        Self { buffer, parts, heads }
    }

    /// Sends them; how many bytes went.
    fn send(&mut self, socket: RawFd) -> Result<u64, Errno> {
        debug_assert!(self.parts.len() == self.heads.len() && !self.buffer.is_empty());
        let count = libc::c_uint::try_from(self.heads.len()).unwrap_or(0);
        // SAFETY: the heads and all that they point to are live, and as many as is said.
        let sent = unsafe { libc::sendmmsg(socket, self.heads.as_mut_ptr(), count, 0) };
        Ok(self.lengths(told(sent)?).sum())
    }

    /// Receives as many as there are; how many came.
    fn receive(&mut self, socket: RawFd, flags: libc::c_int) -> Result<usize, Errno> {
        let count = libc::c_uint::try_from(self.heads.len()).unwrap_or(0);
        let heads = self.heads.as_mut_ptr();
        // SAFETY: the heads and all that they point to are live, and as many as is said.
        let came = unsafe { libc::recvmmsg(socket, heads, count, flags, std::ptr::null_mut()) };
        told(came)
    }

    /// Returns the lengths of the first so many messages of the last call, in bytes.
    fn lengths(&self, count: usize) -> impl Iterator<Item = u64> {
        self.heads.iter().take(count).map(|head| u64::from(head.msg_len))
    }
}

/// Turns the answer of the last call of the library into a result: below zero it failed.
fn told(answer: libc::c_int) -> Result<usize, Errno> {
    usize::try_from(answer)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The server's part: receives until the client says that all is done, and then what is still
/// there.
///
/// # Errors
/// The socket's; [`Lost::Closed`] is the usual end.
pub(super) fn serve(
    socket: &UdpSocket,
    patience: Patience,
    handshake: &Handshake,
    served: &mut Served,
) -> Result<(), Lost> {
    let number = socket.as_raw_fd();
    if handshake.is_gso {
        // A kernel that joins nothing receives them one by one.
        let _ = set(number, libc::IPPROTO_UDP, libc::UDP_GRO, 1);
    }
    let is_napping = !handshake.is_gso && handshake.request <= FRAME;
    if is_napping {
        // What finds no room is lost, and counted as that.
        let _ = set(number, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM);
        sleep_precisely();
    }
    let (count, longest) =
        if handshake.is_gso { (8, 64 << 10) } else { (BATCH, handshake.request) };
    let mut batch = Batch::of(count, longest);
    let length = handshake.request as u64;
    let mut take = |batch: &Batch, came: usize| {
        for bytes in batch.lengths(came) {
            served.bytes += bytes;
            served.count += bytes.div_ceil(length);
        }
    };
    let ended = loop {
        match patience.go_on(|_| batch.receive(number, libc::MSG_WAITFORONE)) {
            Ok(came) => {
                take(&batch, came);
                if is_napping && came < count {
                    std::thread::sleep(NAP);
                }
            }
            Err(lost) => break lost,
        }
    };
    while let Ok(came) = batch.receive(number, libc::MSG_DONTWAIT) {
        take(&batch, came);
    }
    Err(ended)
}
