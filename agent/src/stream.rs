//! Output of a process: hashed whole, and kept only at its end.

use crate::serve::watched;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Output, WireError};
use xxhash_rust::xxh3::Xxh3Default;

/// Most buffers that are read at once: a pipe holds four.
const READ_LIMIT: u32 = 64;

/// One output stream: hashed whole, kept at its end.
pub struct Stream {
    file: Option<File>,
    hash: Xxh3Default,
    length: u64,
    tail: VecDeque<u8>,
    keep: usize,
}

impl Stream {
    /// A stream that keeps the last `keep` bytes.
    pub fn new(file: Option<OwnedFd>, keep: usize) -> Self {
        let file = file.map(File::from);
        if let Some(file) = &file {
            let _ = rustix::io::ioctl_fionbio(file, true);
        }
        let tail = VecDeque::new();
        Self { file, hash: Xxh3Default::new(), length: 0, tail, keep }
    }

    /// For `poll`.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        watched(&self.file)
    }

    /// Reads at most one buffer of what is there.
    pub fn read_available(&mut self) -> Result<(), WireError> {
        let mut buffer = [0; 16 << 10];
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.read(&mut buffer) {
            Ok(0) => self.file = None,
            Ok(count) => self.take(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads what is there, one buffer after another.
    pub fn read_all_available(&mut self) -> Result<(), WireError> {
        for _ in 0..READ_LIMIT {
            let before = self.length;
            self.read_available()?;
            if self.length == before {
                break;
            }
        }
        Ok(())
    }

    /// Reads to the end, or until that time.
    pub fn drain(&mut self, until: Nanoseconds) -> Result<(), WireError> {
        while self.file.is_some() && clock::monotonic_raw() < until {
            let before = self.length;
            self.read_available()?;
            if self.length == before && self.file.is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        self.tail.extend(bytes);
        let excess = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..excess);
    }

    /// Returns the output that came.
    pub fn output(&self) -> Output {
        Output {
            hash: self.hash.digest128(),
            length: Bytes(self.length),
            tail: self.tail.iter().copied().collect(),
        }
    }
}
