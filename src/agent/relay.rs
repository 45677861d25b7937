//! A link through a link: frames to a starter, carried as `Data` by the agent that started it.
//!
//! A frame is stamped with the arrival of the outer frame that completed it.

use super::frames::Frames;
use super::{Link, Listener, Speaker, Stamped, forged, refused, unexpected};
use crate::fault::{Doing, Fault};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{CHUNK, Reply, Request, Sealer, WireError, hosts, write_request};

/// Time for which who does not wait takes what is there already: an outer end that sends pieces of
/// nothing without end never ends a frame.
const AT_HAND: Duration = Duration::from_secs(1);

/// A link to the process that `outer`'s agent relays, with a session of its own.
pub fn over(name: &str, outer: Link) -> Result<Link, Fault> {
    let (sealer, opener) = hosts().doing("draw the key of a starter's session")?;
    Ok(Link {
        speaker: Box::new(RelaySpeaker { outer: outer.speaker, sealer }),
        listener: Box::new(RelayListener {
            name: name.to_owned(),
            outer: outer.listener,
            frames: Frames::of(opener),
            at: Nanoseconds(0),
        }),
    })
}

struct RelaySpeaker {
    outer: Box<dyn Speaker>,
    sealer: Sealer,
}

impl Speaker for RelaySpeaker {
    fn send_within(&mut self, request: &Request, patience: Duration) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        write_request(&mut bytes, &mut self.sealer, request)
            .map_err(|error| Fault::bug(format!("a request does not fit into a frame: {error}")))?;
        bytes
            .chunks(CHUNK)
            .try_for_each(|chunk| self.outer.send_within(&Request::Data(chunk.to_vec()), patience))
    }
}

struct RelayListener {
    name: String,
    outer: Box<dyn Listener>,
    frames: Frames,
    /// Time at which the newest piece of `frames` came.
    at: Nanoseconds,
}

impl RelayListener {
    /// Makes the fault that says why what came is no frame.
    fn misunderstood(&self, error: &WireError) -> Fault {
        let name = &self.name;
        match error {
            WireError::Forged => forged(name),
            error => Fault::machine(format!("{name}: its answer was not understood: {error}")),
        }
    }
}

impl Listener for RelayListener {
    fn wait(&mut self, limit: Duration) -> Result<Option<Stamped>, Fault> {
        let began = clock::monotonic_raw();
        let most = if limit.is_zero() { AT_HAND } else { limit };
        loop {
            let frame = self.frames.next().map_err(|error| self.misunderstood(&error))?;
            if let Some(reply) = frame {
                return Ok(Some(Stamped { reply, at: self.at }));
            }
            // The limit is that of the whole frame, or one byte now and then would be waited for
            // without end.
            let passed = Duration::from(clock::monotonic_raw().since(began));
            if passed >= most {
                return Ok(None);
            }
            let left = limit.saturating_sub(passed);
            let Some(outer) = self.outer.wait(left)? else { return Ok(None) };
            self.at = outer.at;
            match outer.reply {
                Reply::Data(bytes) => self.frames.add(&bytes),
                Reply::Failed(failure) => return Err(refused(failure)),
                Reply::RelayEnded { status, stderr } => {
                    let last_words = super::ConsoleTail::new();
                    last_words.keep(&stderr);
                    let ended = format!("{}: it ended with {status}", self.name);
                    return Err(Fault::machine(ended).saying(&last_words.quote()));
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
    use crate::agent::tests::Talker;
    use std::collections::VecDeque;
    use surtax_instrument::wire::{Hello, PROTOCOL, agents, write_reply};

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
        let (_, opener) = hosts().unwrap();
        RelayListener {
            name: "starter".into(),
            outer,
            frames: Frames::of(opener),
            at: Nanoseconds(0),
        }
    }

    fn greeting() -> Vec<u8> {
        let mut bytes = Vec::new();
        let hello = Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) };
        write_reply(&mut bytes, &mut agents().0, &Reply::Hello(hello)).unwrap();
        bytes
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
        // The length of a frame, under its seal, that does not come in time.
        let mut listener = RelayListener { outer, ..listener(&[]) };
        listener.frames.add(&greeting()[..8]);
        let fault = listener.receive(Duration::from_millis(20)).unwrap_err();
        assert_eq!(fault.message, "it drips");
    }

    #[test]
    fn who_does_not_wait_is_not_kept_by_pieces_of_nothing() {
        let pieces = Talker::new(Reply::Data(Vec::new()), usize::MAX, Reply::Stopped);
        let mut listener = RelayListener { outer: Box::new(pieces), ..listener(&[]) };
        assert_eq!(listener.wait(Duration::ZERO), Ok(None));
    }

    #[test]
    fn a_frame_in_pieces_has_the_time_of_its_last_piece() {
        let bytes = greeting();
        let mut listener = listener(&[(&bytes[..3], 10), (&bytes[3..20], 15), (&bytes[20..], 20)]);
        let first = listener.receive(Duration::ZERO).unwrap();
        assert!(
            matches!(first, Stamped { reply: Reply::Hello(_), at: Nanoseconds(20) }),
            "{first:?}"
        );
        assert!(listener.receive(Duration::ZERO).is_err());
    }

    #[test]
    fn two_frames_in_one_piece_have_the_same_time_and_the_second_greeting_is_forged() {
        let bytes = greeting().repeat(2);
        let mut listener = listener(&[(&bytes, 20)]);
        assert_eq!(listener.receive(Duration::ZERO).unwrap().at, Nanoseconds(20));
        let fault = listener.receive(Duration::ZERO).unwrap_err();
        assert!(fault.message.contains("wrote into the agent's channel of `starter`"), "{fault}");
    }
}
