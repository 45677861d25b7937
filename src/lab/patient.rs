//! A stream to somebody who may be anybody's by now: an answer has one deadline, however many
//! pieces it comes in.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;

/// A socket on which each answer is waited for so long and no longer.
#[derive(Debug)]
pub struct Patient {
    stream: UnixStream,
    patience: Duration,
    /// Time at which the answer was asked for.
    asked: Nanoseconds,
}

impl Patient {
    /// Takes a socket, whose first answer is waited for from now on.
    ///
    /// # Errors
    /// The kernel's: no time can be set for what is written.
    pub fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, patience, asked: monotonic_raw() })
    }

    /// Begins to wait for another answer.
    pub fn ask_anew(&mut self) {
        self.asked = monotonic_raw();
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.patience.saturating_sub(monotonic_raw().since(self.asked).into());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_piece_by_piece_has_one_deadline_and_the_next_another() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"x").unwrap();
        std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut patient = Patient::new(ours, Duration::from_millis(300)).unwrap();
        let mut read = 0;
        for _ in 0..2 {
            patient.ask_anew();
            let mut bytes = [0; 64];
            let error = loop {
                match patient.read(&mut bytes) {
                    Ok(count) => read += count,
                    Err(error) => break error,
                }
                assert!(read < 10_000, "it has no deadline");
            };
            assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        }
        assert!(read > 0, "what had come was read");
    }
}
