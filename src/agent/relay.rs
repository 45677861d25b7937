//! A link through a link: frames to a starter, carried as `Data` by the agent that started it.
//!
//! A frame is stamped with the arrival of the outer frame that completed it.

use super::{Link, Listener, Speaker, Stamped, refused, unexpected};
use crate::fault::Fault;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    CHUNK, Malformed, Reply, Request, WireError, read_reply, write_request,
};

/// A link to the process that `outer`'s agent relays.
pub fn over(name: &str, outer: Link) -> Link {
    Link {
        speaker: Box::new(RelaySpeaker { outer: outer.speaker }),
        listener: Box::new(RelayListener {
            name: name.to_owned(),
            outer: outer.listener,
            bytes: Vec::new(),
            at: Nanoseconds(0),
        }),
    }
}

struct RelaySpeaker {
    outer: Box<dyn Speaker>,
}

impl Speaker for RelaySpeaker {
    fn send(&mut self, request: &Request) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        write_request(&mut bytes, request)
            .map_err(|error| Fault::bug(format!("a request does not fit into a frame: {error}")))?;
        bytes.chunks(CHUNK).try_for_each(|chunk| self.outer.send(&Request::Data(chunk.to_vec())))
    }
}

struct RelayListener {
    name: String,
    outer: Box<dyn Listener>,
    bytes: Vec<u8>,
    /// When the newest of `bytes` came.
    at: Nanoseconds,
}

impl RelayListener {
    /// The next whole frame, if it is there. The length of a frame is checked by its reader.
    fn take_frame(&mut self) -> Result<Option<Reply>, Malformed> {
        let mut rest = self.bytes.as_slice();
        match read_reply(&mut rest) {
            Ok(reply) => {
                let used = self.bytes.len() - rest.len();
                self.bytes.drain(..used);
                Ok(Some(reply))
            }
            Err(WireError::Malformed(malformed)) => Err(malformed),
            // A slice has no other failure than its end: the frame is not complete yet.
            Err(WireError::Closed | WireError::Io(_)) => Ok(None),
        }
    }
}

impl Listener for RelayListener {
    fn wait(&mut self, limit: Duration) -> Result<Option<Stamped>, Fault> {
        let began = clock::monotonic_raw();
        loop {
            let frame = self.take_frame().map_err(|malformed| {
                Fault::machine(format!("{}: its answer was not understood: {malformed}", self.name))
            })?;
            if let Some(reply) = frame {
                return Ok(Some(Stamped { reply, at: self.at }));
            }
            // The limit is that of the whole frame, or one byte now and then would be waited for without end.
            let left = limit.saturating_sub(clock::monotonic_raw().since(began).into());
            if left.is_zero() && !limit.is_zero() {
                return Ok(None);
            }
            let Some(outer) = self.outer.wait(left)? else { return Ok(None) };
            self.at = outer.at;
            match outer.reply {
                Reply::Data(bytes) => self.bytes.extend(bytes),
                Reply::Failed(failure) => return Err(refused(failure)),
                Reply::RelayEnded { status, stderr } => {
                    let last_words = super::ConsoleTail::new();
                    last_words.keep(&stderr);
                    return Err(Fault::machine(format!(
                        "{}: it ended with {status}{}",
                        self.name,
                        last_words.quote()
                    )));
                }
                other => return Err(unexpected(&other, "a relayed request")),
            }
        }
    }

    fn silence(&self, limit: Duration) -> Fault {
        self.outer.silence(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use surtax_instrument::wire::write_reply;

    struct Script(VecDeque<Stamped>);

    impl Listener for Script {
        fn wait(&mut self, _: Duration) -> Result<Option<Stamped>, Fault> {
            Ok(self.0.pop_front())
        }

        fn silence(&self, _: Duration) -> Fault {
            Fault::machine("the script is over")
        }
    }

    fn listener(chunks: &[(&[u8], u64)]) -> RelayListener {
        let said = chunks.iter().map(|(bytes, at)| Stamped {
            reply: Reply::Data(bytes.to_vec()),
            at: Nanoseconds(*at),
        });
        let outer = Box::new(Script(said.collect()));
        RelayListener { name: "starter".into(), outer, bytes: Vec::new(), at: Nanoseconds(0) }
    }

    /// An inside that says one more byte of a long frame whenever it is listened to.
    struct Drip(u32);

    impl Listener for Drip {
        fn wait(&mut self, limit: Duration) -> Result<Option<Stamped>, Fault> {
            self.0 += 1;
            assert!(self.0 < 10_000, "it is listened to for ever");
            let pause = Duration::from_millis(1);
            std::thread::sleep(pause.min(limit));
            let reply = Reply::Data(vec![1]);
            Ok((limit >= pause).then_some(Stamped { reply, at: Nanoseconds(1) }))
        }

        fn silence(&self, _: Duration) -> Fault {
            Fault::machine("it drips")
        }
    }

    #[test]
    fn an_inside_that_never_ends_its_frame_is_given_up_in_time() {
        let outer = Box::new(Drip(0));
        // The length of a frame that never comes.
        let bytes = vec![0, 0, 1, 0];
        let mut listener = RelayListener { outer, bytes, ..listener(&[]) };
        let fault = listener.receive(Duration::from_millis(20)).unwrap_err();
        assert_eq!(fault.message, "it drips");
    }

    #[test]
    fn a_frame_in_pieces_has_the_time_of_its_last_piece_and_two_in_one_have_the_same() {
        let mut bytes = Vec::new();
        write_reply(&mut bytes, &Reply::Written).unwrap();
        write_reply(&mut bytes, &Reply::Stopped).unwrap();
        let mut listener = listener(&[(&bytes[..3], 10), (&bytes[3..], 20)]);
        let deadline = Duration::ZERO;
        let first = listener.receive(deadline).unwrap();
        assert_eq!(first, Stamped { reply: Reply::Written, at: Nanoseconds(20) });
        let second = listener.receive(deadline).unwrap();
        assert_eq!(second, Stamped { reply: Reply::Stopped, at: Nanoseconds(20) });
        assert!(listener.receive(deadline).is_err());
    }
}
