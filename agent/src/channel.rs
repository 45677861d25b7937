//! The channel to the host, and the lease under which an agent on another machine lives.
//!
//! A link that is lost there says nothing: the kernel may take hours to give a connection up. So an
//! agent under a lease ends when its host was not heard for so long, whatever it waits for: a
//! request, the rest of one, or a host that does not take its answers. All that comes in renews the
//! lease, also what nobody has read yet. Without a lease reads and writes wait for ever, and
//! nothing is added.
//!
//! All that goes over it bears the seal of the session, whose key is the first thing that the host
//! says.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Opener, Reply, Request, Sealer, WireError, agents, read_request, write_reply,
};

/// Both directions to the host.
pub struct Channel {
    ends: Ends,
    sealer: Sealer,
    opener: Opener,
}

/// The two ends of the stream.
struct Ends {
    requests: File,
    replies: File,
    lease: Option<Lease>,
}

/// Until when there is no need to hear the host.
struct Lease {
    limit: Duration,
    /// Time at which something came last.
    heard: Nanoseconds,
    /// Number of bytes that waited to be read at the last look.
    waiting: u64,
}

impl Channel {
    /// A channel over these two ends; they may be the same file.
    pub fn new(requests: File, replies: File) -> Self {
        Self::over(Ends { requests, replies, lease: None })
    }

    /// The same, to be left when nothing has come for `limit`.
    pub fn leased(requests: File, replies: File, limit: Duration) -> io::Result<Self> {
        // A write that waits cannot look at the time.
        ioctl_fionbio(&replies, true)?;
        let lease = Lease { limit, heard: clock::monotonic_raw(), waiting: 0 };
        Ok(Self::over(Ends { requests, replies, lease: Some(lease) }))
    }

    fn over(ends: Ends) -> Self {
        let (sealer, opener) = agents();
        Self { ends, sealer, opener }
    }

    /// Reads the next request.
    pub fn ask(&mut self) -> Result<Request, WireError> {
        read_request(&mut self.ends, &mut self.opener)
    }

    /// Says something to the host.
    pub fn answer(&mut self, reply: &Reply) -> Result<(), WireError> {
        write_reply(&mut self.ends, &mut self.sealer, reply)
    }

    /// Tells whether the host is on another machine, which goes on without it.
    pub fn is_leased(&self) -> bool {
        self.ends.lease.is_some()
    }

    /// For `poll`.
    pub fn requests(&self) -> &File {
        &self.ends.requests
    }

    /// Returns the time that `poll` may wait before [`Channel::require_lease`] is to be asked;
    /// `None` without a lease.
    pub fn time_left(&self) -> Option<Duration> {
        self.ends.time_left()
    }

    /// Fails when the host was not heard for too long.
    pub fn require_lease(&mut self) -> io::Result<()> {
        self.ends.require_lease()
    }
}

impl Ends {
    fn time_left(&self) -> Option<Duration> {
        self.lease.as_ref().map(Lease::left)
    }

    fn require_lease(&mut self) -> io::Result<()> {
        let Some(lease) = &mut self.lease else { return Ok(()) };
        if !lease.left().is_zero() {
            return Ok(());
        }
        let waiting = ioctl_fionread(&self.requests).unwrap_or(0);
        if waiting > lease.waiting {
            lease.renew(waiting);
            return Ok(());
        }
        let seconds = lease.limit.as_secs_f64();
        let what = format!("the host was not heard for {seconds} s");
        Err(io::Error::new(ErrorKind::TimedOut, what))
    }

    /// Waits, within the lease, until one of the ends is ready.
    fn wait(&mut self, flags: PollFlags) -> io::Result<()> {
        loop {
            let timeout = self.time_left().and_then(|left| Timespec::try_from(left).ok());
            let end = if flags == PollFlags::IN { &self.requests } else { &self.replies };
            match poll(&mut [PollFd::new(end, flags)], timeout.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => self.require_lease()?,
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Lease {
    fn left(&self) -> Duration {
        let passed = Duration::from(clock::monotonic_raw().since(self.heard));
        self.limit.saturating_sub(passed)
    }

    fn renew(&mut self, waiting: u64) {
        self.heard = clock::monotonic_raw();
        self.waiting = waiting;
    }
}

impl Read for Ends {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.lease.is_none() {
            return self.requests.read(buffer);
        }
        loop {
            self.wait(PollFlags::IN)?;
            match self.requests.read(buffer) {
                // Both ends may be one file, which then never waits either.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    if let Some(lease) = &mut self.lease {
                        lease.renew(0);
                    }
                    return Ok(count);
                }
            }
        }
    }
}

impl Write for Ends {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.replies.write(bytes) {
                Err(error) if self.lease.is_some() && error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.replies.flush()
    }
}
