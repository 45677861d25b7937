//! Speaks to an agent: one request after another, each whole and with its seal, and a sign of life between them.
//!
//! To an agent with a lease a thread of its own says regularly that its host is still there, also while a
//! command runs, which costs a wake-up here and one there. It ends with the link.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surtax_instrument::wire::{Request, Sealer, WireError, write_request};

/// The way to an agent, and the seal of what goes there.
struct Mouth<W> {
    writer: W,
    sealer: Sealer,
}

/// Who speaks to an agent. Several may hold one: their requests do not mix.
pub(super) struct Voice<W> {
    mouth: Arc<Mutex<Mouth<W>>>,
    /// Dropped, it wakes and ends the thread.
    _link: Option<Sender<()>>,
}

impl<W: Write + Send + 'static> Voice<W> {
    /// Speaks to `writer`.
    pub(super) fn over(writer: W, sealer: Sealer) -> Self {
        Self { mouth: Arc::new(Mutex::new(Mouth { writer, sealer })), _link: None }
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
                if say(&mouth, &Request::KeepAlive).is_err() {
                    return;
                }
            }
        });
        Self { _link: Some(link), ..self }
    }

    /// Says one request, whole.
    pub(super) fn say(&self, request: &Request) -> Result<(), WireError> {
        say(&self.mouth, request)
    }
}

fn say<W: Write>(mouth: &Mutex<Mouth<W>>, request: &Request) -> Result<(), WireError> {
    let mut mouth = mouth.lock().unwrap_or_else(PoisonError::into_inner);
    let Mouth { writer, sealer } = &mut *mouth;
    write_request(writer, sealer, request)
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
                voice.say(&sent).unwrap();
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
    fn a_link_that_is_dropped_ends_its_stream_at_once() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(Voice::over(writer, hosts().unwrap().0).kept_alive(Duration::from_secs(3600)));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
