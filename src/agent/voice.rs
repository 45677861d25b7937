//! Speaks to an agent: one request after another, each whole and with its seal, and a sign of life
//! between them.
//!
//! To an agent with a lease a thread of its own says regularly that its host is still there, also
//! while a command runs, which costs a wake-up here and one there. It ends with the link.
//!
//! Who is spoken to may have stopped listening, on purpose or not: what it does not take in time is
//! given up, and a sign of life is left out where there is no room for it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Request, Sealer, WireError, write_request};

/// Largest number of bytes written at once: a pipe that has room has room for this much. Source:
/// `PIPE_BUF` in `pipe(7)`.
const PIECE: usize = 4096;

/// The way to an agent, and the seal of what goes there.
struct Mouth<W> {
    writer: W,
    sealer: Sealer,
    /// A request was left in the middle: whatever follows would be taken for the rest of it.
    is_torn: bool,
}

/// Speaker to an agent. Several may hold one: their requests do not mix.
pub(super) struct Voice<W> {
    mouth: Arc<Mutex<Mouth<W>>>,
    /// Dropped, it wakes and ends the thread.
    _link: Option<Sender<()>>,
}

impl<W: Write + AsFd + Send + 'static> Voice<W> {
    /// Speaks to `writer`.
    pub(super) fn over(writer: W, sealer: Sealer) -> Self {
        Self { mouth: Arc::new(Mutex::new(Mouth { writer, sealer, is_torn: false })), _link: None }
    }

    /// The same, and says `KeepAlive` every so often, first when that time has passed once.
    pub(super) fn kept_alive(self, every: Duration) -> Self {
        let (link, ended) = channel::<()>();
        // Weak, so that the stream ends with the link: its end is what tells an agent to leave.
        let ours = Arc::downgrade(&self.mouth);
        std::thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(mouth) = ours.upgrade() else { return };
                // Who cannot be written to any more is noticed by those who wait for an answer.
                if say_alive(&mouth).is_err() {
                    return;
                }
            }
        });
        Self { _link: Some(link), ..self }
    }

    /// Says one request, whole, to whoever takes it within this time.
    ///
    /// # Errors
    /// It does not fit into a frame, the way is gone, or it is not taken in time: nothing can be
    /// said any more then.
    pub(super) fn say(&self, request: &Request, patience: Duration) -> Result<(), WireError> {
        let mut mouth = self.mouth.lock().unwrap_or_else(PoisonError::into_inner);
        mouth.say(request, patience)
    }
}

impl<W: Write + AsFd> Mouth<W> {
    fn say(&mut self, request: &Request, patience: Duration) -> Result<(), WireError> {
        if self.is_torn {
            let text = "an earlier request was not taken whole";
            return Err(WireError::Io(io::Error::new(ErrorKind::BrokenPipe, text)));
        }
        let mut writer = InTime { writer: &mut self.writer, began: monotonic_raw(), patience };
        let said = write_request(&mut writer, &mut self.sealer, request);
        self.is_torn = matches!(said, Err(WireError::Io(_)));
        said
    }
}

/// Says `KeepAlive`, or nothing where somebody speaks just now or what was said is not taken: an
/// agent that reads hears enough.
fn say_alive<W: Write + AsFd>(mouth: &Mutex<Mouth<W>>) -> Result<(), WireError> {
    let mut mouth = match mouth.try_lock() {
        Ok(mouth) => mouth,
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Poisoned(mouth)) => mouth.into_inner(),
    };
    match has_room(&mouth.writer, Duration::ZERO).map_err(WireError::Io)? {
        true => mouth.say(&Request::KeepAlive, super::PATIENCE),
        false => Ok(()),
    }
}

/// Writes while there is room, and not longer than this.
struct InTime<'a, W> {
    writer: &'a mut W,
    began: Nanoseconds,
    patience: Duration,
}

impl<W: Write + AsFd> Write for InTime<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.patience.saturating_sub(monotonic_raw().since(self.began).into());
        if !has_room(self.writer, left)? {
            let seconds = self.patience.as_secs_f64();
            let text = format!("it was not taken within {seconds:.1} s");
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        self.writer.write(bytes.get(..PIECE).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Tells whether something can be written within so long.
fn has_room(writer: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).ok();
    let mut ways = [PollFd::new(writer, PollFlags::OUT)];
    loop {
        match poll(&mut ways, limit.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use surtax_instrument::wire::{agents, hosts, read_request};

    #[test]
    fn requests_and_keep_alives_do_not_mix_and_the_stream_ends_with_the_link() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let voice = Voice::over(writer, hosts().unwrap().0).kept_alive(Duration::from_micros(50));
        let data = Request::Data(vec![7; 40_000]);
        let sent = data.clone();
        let sender = std::thread::spawn(move || {
            for _ in 0..200 {
                voice.say(&sent, Duration::from_secs(60)).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let (mut frames, mut keep_alives) = (0, 0);
        let (_, mut opener) = agents();
        loop {
            match read_request(&mut reader, &mut opener) {
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
    fn who_takes_nothing_keeps_nobody_waiting_for_ever() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let voice = Voice::over(writer, hosts().unwrap().0).kept_alive(Duration::from_millis(1));
        let soon = Duration::from_millis(200);
        let large = Request::Data(vec![7; 40_000]);
        let said: Vec<_> = (0..9).map(|_| voice.say(&large, soon)).collect();
        let Some(Err(WireError::Io(error))) = said.into_iter().find(Result::is_err) else {
            panic!("a pipe took everything");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it was not taken within 0.2 s");
        let Err(WireError::Io(error)) = voice.say(&Request::Stop, soon) else {
            panic!("what is left in the middle is gone on with");
        };
        assert_eq!(error.to_string(), "an earlier request was not taken whole");
    }

    #[test]
    fn a_link_that_is_dropped_ends_its_stream_at_once() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(Voice::over(writer, hosts().unwrap().0).kept_alive(Duration::from_secs(3600)));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
