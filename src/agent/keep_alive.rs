//! Says regularly to an agent with a lease that its host is still there.
//!
//! A thread of its own writes one frame of five bytes every so often, also while a command runs, which
//! costs a wake-up here and one there. It ends with the link.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surtax_instrument::wire::{Request, write_request};

/// A writer for [`super::Link::over`] through which frames go whole, and keep-alives between them.
pub struct KeptAlive<W> {
    writer: Arc<Mutex<W>>,
    /// Dropped, it wakes and ends the thread.
    _link: Sender<()>,
}

impl<W: Write + Send + 'static> KeptAlive<W> {
    /// Says `KeepAlive` to `writer` every so often, first when that time has passed once.
    pub fn over(writer: W, every: Duration) -> Self {
        let writer = Arc::new(Mutex::new(writer));
        let (link, ended) = channel::<()>();
        // Weak, so that the stream ends with the link: its end is what tells an agent to leave.
        let ours = Arc::downgrade(&writer);
        std::thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(writer) = ours.upgrade() else { return };
                // Who cannot be written to any more is noticed by those who wait for an answer.
                if write_request(&mut *lock(&writer), &Request::KeepAlive).is_err() {
                    return;
                }
            }
        });
        Self { writer, _link: link }
    }
}

impl<W: Write> Write for KeptAlive<W> {
    /// Takes all of it: a frame is one write, into which no other must come.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.writer).write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.writer).flush()
    }
}

fn lock<W>(writer: &Mutex<W>) -> MutexGuard<'_, W> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use surtax_instrument::wire::{WireError, read_request};

    #[test]
    fn frames_and_keep_alives_do_not_mix_and_the_stream_ends_with_the_link() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut kept = KeptAlive::over(writer, Duration::from_micros(50));
        let data = Request::Data(vec![7; 40_000]);
        let sent = data.clone();
        let sender = std::thread::spawn(move || {
            for _ in 0..200 {
                write_request(&mut kept, &sent).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let (mut frames, mut keep_alives) = (0, 0);
        loop {
            match read_request(&mut reader) {
                Ok(Request::KeepAlive) => keep_alives += 1,
                Ok(request) => {
                    assert_eq!(request, data);
                    frames += 1;
                }
                Err(WireError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        sender.join().unwrap();
        assert_eq!(frames, 200);
        assert!(keep_alives > 0, "none in 20 ms");
    }

    #[test]
    fn a_link_that_is_dropped_ends_its_stream_at_once() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(KeptAlive::over(writer, Duration::from_secs(3600)));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
