//! Sends and receives on one socket, blocking or polling, until patience ends.
//!
//! `send(2)` and `recv(2)` themselves, without a library's function around them: that made requests
//! over TCP a hundredth quicker.

use crate::Refused;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Number of fruitless looks at a socket between two at the clock.
const LOOKS: u32 = 4096;

/// Reason why nothing more comes by a socket.
#[derive(Debug)]
pub(super) enum Lost {
    /// The other side has closed it, or said that all is done.
    Closed,
    /// The other side has not answered in time.
    Silent,
    /// The kernel has refused.
    Io(io::Error),
}

impl Lost {
    /// As the reason why there are no numbers.
    pub(super) fn refused(self) -> Refused {
        match self {
            Self::Closed => Refused::machine("the other side ended before the measurement did"),
            Self::Silent => Refused::machine("the other side does not answer")
                .hint("look at its own output, or allow it more with `--patience`"),
            Self::Io(error) => Refused::machine(format!("the connection broke: {error}")),
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Lost {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Time to wait for the other side, and whether to spin meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Time at which it ends, by `CLOCK_MONOTONIC_RAW`.
    pub(super) until: Nanoseconds,
    /// A connection on which the other side says that all is done, or whose end says it.
    pub(super) control: Option<RawFd>,
    /// True to ask again and again, and not to sleep.
    pub(super) is_polling: bool,
}

impl Patience {
    /// Allows to wait on.
    ///
    /// # Errors
    /// The reason to wait no longer.
    pub(super) fn lasts(&self) -> Result<(), Lost> {
        if self.control.is_some_and(has_news) {
            return Err(Lost::Closed);
        }
        if clock::monotonic_raw() >= self.until { Err(Lost::Silent) } else { Ok(()) }
    }

    /// Does something that may be interrupted or come too early until it succeeds or patience ends.
    #[inline]
    pub(super) fn go_on<T>(
        &self,
        mut call: impl FnMut(libc::c_int) -> Result<T, Errno>,
    ) -> Result<T, Lost> {
        let flags = if self.is_polling { libc::MSG_DONTWAIT } else { 0 };
        let mut looks = 0;
        loop {
            match call(flags) {
                Ok(done) => return Ok(done),
                Err(Errno::AGAIN) if self.is_polling => {
                    looks += 1;
                    if looks % LOOKS == 0 {
                        self.lasts()?;
                    }
                    std::hint::spin_loop();
                }
                // A tick; or a datagram that was refused, and the next may be taken.
                Err(Errno::INTR | Errno::CONNREFUSED) => self.lasts()?,
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(Lost::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives what is there, at least one byte or one datagram.
    #[inline]
    pub(crate) fn receive(&self, socket: RawFd, into: &mut [u8]) -> Result<usize, Lost> {
        self.go_on(|flags| receive(socket, into, flags))
    }

    /// Receives exactly so much of a stream.
    #[inline]
    pub(super) fn receive_whole(&self, socket: RawFd, into: &mut [u8]) -> Result<(), Lost> {
        let mut rest = into;
        loop {
            let count = self.receive(socket, rest)?;
            if count == rest.len() {
                return Ok(());
            }
            if count == 0 {
                return Err(Lost::Closed);
            }
            rest = &mut rest[count..];
        }
    }

    /// Sends all of it.
    #[inline]
    pub(crate) fn send(&self, socket: RawFd, bytes: &[u8]) -> Result<(), Lost> {
        let mut rest = bytes;
        loop {
            let count = self.go_on(|flags| send(socket, rest, flags))?;
            if count == rest.len() {
                return Ok(());
            }
            rest = &rest[count..];
        }
    }
}

/// `recv(2)`.
#[inline]
pub(crate) fn receive(socket: RawFd, into: &mut [u8], flags: libc::c_int) -> Result<usize, Errno> {
    // SAFETY: the callers hold the socket open for as long as they use its number.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let flags = RecvFlags::from_bits_retain(flags.cast_unsigned());
    rustix::net::recv(socket, into, flags).map(|(count, _)| count)
}

/// `send(2)`; a stream that is closed is an error and no signal.
#[inline]
pub(crate) fn send(socket: RawFd, bytes: &[u8], flags: libc::c_int) -> Result<usize, Errno> {
    // SAFETY: the callers hold the socket open for as long as they use its number.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let flags = SendFlags::from_bits_retain(flags.cast_unsigned()) | SendFlags::NOSIGNAL;
    rustix::net::send(socket, bytes, flags)
}

/// Tells whether something waits on a connection, its end included.
fn has_news(socket: RawFd) -> bool {
    let mut byte = [0];
    let heard = receive(socket, &mut byte, libc::MSG_DONTWAIT | libc::MSG_PEEK);
    matches!(heard, Ok(_) | Err(Errno::CONNRESET))
}

/// Sets an option of a socket to a whole number.
pub(crate) fn set(
    socket: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the value is a live variable of the length that is said.
    let answer =
        unsafe { libc::setsockopt(socket, level, option, (&raw const value).cast(), length) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the entry for `poll` that watches one socket for these events.
pub(super) fn watched(socket: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: socket, events, revents: 0 }
}

/// Waits until one of them can be used, at most so long (for ever without a limit), or until a
/// tick.
pub(super) fn wait(sockets: &mut [libc::pollfd], limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    for socket in sockets.iter_mut() {
        socket.revents = 0;
    }
    // SAFETY: the list is live and as long as is said; the limit is live or null.
    unsafe {
        libc::ppoll(sockets.as_mut_ptr(), sockets.len() as libc::nfds_t, limit, std::ptr::null())
    };
}
