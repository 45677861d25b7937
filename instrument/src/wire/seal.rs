//! The seal of a session: who does not know its key can neither say anything nor repeat what was
//! said.
//!
//! The two ends greet each other in the clear, before any command exists: the agent says
//! [`Reply::Hello`], and the host's first frame is the key of this session, which goes together
//! with its first request. From then on every frame bears a seal, which is computed from the key,
//! the direction, the number of the frame in that direction, and its bytes. So a frame that
//! somebody else writes, and one that is repeated, left out, or sent the other way, does not bear
//! the seal that is due. The length of a frame has a seal of its own: what is not ours is noticed
//! before its length is believed.
//!
//! It keeps out whoever can write into a channel, or read it once the session stands. It does not
//! keep out who can read the memory of either end.
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; SipHash-2-4 with 128
//! bits of output.

use super::{Malformed, WireError};
use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::io::{self, Write};
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};

/// Before a frame: its length, and the seal of that.
pub(super) const HEAD: usize = 8;

/// After a frame: its seal.
pub(super) const TAIL: usize = 16;

/// Length of a key, in bytes.
const KEY: usize = 16;

/// Key that the greeting is sealed with: everybody knows it, and it finds only what was broken on
/// the way.
const EVERYBODYS: [u8; KEY] = [0; KEY];

/// Part of a frame that a seal is put on.
#[derive(Clone, Copy)]
enum Part {
    Length = 0,
    Body = 1,
}

/// Direction in which a frame goes.
#[derive(Clone, Copy)]
enum Direction {
    Inward = 0,
    Outward = 1,
}

/// The key of one session, which its ends share; nobody else is told. Gone with the last of them.
#[derive(Default)]
struct Key(OnceLock<[u8; KEY]>);

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(bytes) = self.0.get_mut() {
            wipe(bytes);
        }
    }
}

/// Overwrites what must not be found in memory later.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(&bytes);
    compiler_fence(Ordering::SeqCst);
}

/// One direction of a session, seen from one of its ends.
struct SealState {
    key: Arc<Key>,
    direction: Direction,
    /// The number of the next frame.
    next: u64,
}

impl SealState {
    fn of(key: &Arc<Key>, direction: Direction) -> Self {
        Self { key: Arc::clone(key), direction, next: 0 }
    }

    /// The seal that the next frame must bear; none before the key is known.
    fn seal(&self, part: Part, bytes: &[u8]) -> Option<u128> {
        let key = if self.next == 0 { &EVERYBODYS } else { self.key.0.get()? };
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(&[self.direction as u8, part as u8]);
        hasher.write(&self.next.to_le_bytes());
        hasher.write(bytes);
        Some(hasher.finish128().as_u128())
    }

    /// Tells whether the next frame's part bears its seal, or the beginning of it.
    fn bears(&self, part: Part, bytes: &[u8], borne: &[u8]) -> bool {
        self.seal(part, bytes).is_some_and(|seal| seal.to_le_bytes().starts_with(borne))
    }

    /// A quarter of it is enough for a length: who guesses wrong is not asked again.
    fn seal_of_length(&self, length: [u8; 4]) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.seal(Part::Length, &length)?.to_le_bytes();
        Some([a, b, c, d])
    }

    /// Returns what is wrong with a frame that does not bear the seal.
    fn forged(&self) -> WireError {
        if self.next == 0 { Malformed::Foreign.into() } else { WireError::Forged }
    }

    /// Seals one frame, of which `bytes` begins with room for its head.
    fn close(&mut self, bytes: &mut Vec<u8>) -> Result<(), WireError> {
        let early = || io::Error::other("a frame would be sent before the key of its session");
        let length = bytes.len() - HEAD;
        let prefix = u32::try_from(length).map_err(|_| Malformed::TooLong(length))?.to_le_bytes();
        let check = self.seal_of_length(prefix).ok_or_else(early)?;
        let seal = self.seal(Part::Body, &bytes[HEAD..]).ok_or_else(early)?;
        bytes[..4].copy_from_slice(&prefix);
        bytes[4..HEAD].copy_from_slice(&check);
        bytes.extend_from_slice(&seal.to_le_bytes());
        self.next += 1;
        Ok(())
    }
}

/// Seals what goes out, in one direction of one session.
pub struct Sealer {
    state: SealState,
    /// The session is this end's: its key goes before the first frame.
    is_hosts: bool,
}

/// Opens what comes in, in one direction of one session.
pub struct Opener {
    state: SealState,
    /// The session is the other end's: the first frame is its key.
    is_agents: bool,
}

/// The host's ends of a new session: for its requests, and for the replies.
///
/// # Errors
/// The kernel has no random bytes.
pub fn hosts() -> io::Result<(Sealer, Opener)> {
    let mut bytes = [0; KEY];
    let drawn = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if drawn != KEY {
        return Err(io::Error::other("the kernel gave too few random bytes for a key"));
    }
    let key = Arc::new(Key(OnceLock::from(bytes)));
    wipe(&mut bytes);
    let sealer = Sealer { state: SealState::of(&key, Direction::Inward), is_hosts: true };
    Ok((sealer, Opener { state: SealState::of(&key, Direction::Outward), is_agents: false }))
}

/// The agent's ends of a session, whose key it will be told: for its replies, and for the requests.
#[must_use]
pub fn agents() -> (Sealer, Opener) {
    let key = Arc::<Key>::default();
    let opener = Opener { state: SealState::of(&key, Direction::Inward), is_agents: true };
    (Sealer { state: SealState::of(&key, Direction::Outward), is_hosts: false }, opener)
}

impl Sealer {
    /// Writes one frame, of which `bytes` begins with room for its head, in one piece where the
    /// stream takes it so.
    pub(super) fn write(
        &mut self,
        stream: &mut impl Write,
        mut bytes: Vec<u8>,
    ) -> Result<(), WireError> {
        let is_first = self.is_hosts && self.state.next == 0;
        let mut opening = vec![0; if is_first { HEAD } else { 0 }];
        if is_first {
            let key = self.state.key.0.get().ok_or(WireError::Forged)?;
            opening.extend_from_slice(key);
            self.state.close(&mut opening)?;
        }
        self.state.close(&mut bytes)?;
        if is_first {
            opening.extend_from_slice(&bytes);
            bytes = opening;
        }
        stream.write_all(&bytes)?;
        stream.flush()?;
        if is_first {
            wipe(&mut bytes);
        }
        Ok(())
    }
}

impl Opener {
    /// Tells whether the next frame is the key.
    pub(super) fn wants_key(&self) -> bool {
        self.is_agents && self.state.next == 0
    }

    /// The length that the head of a frame says, if it bears the seal.
    pub(super) fn length(&self, head: [u8; HEAD]) -> Result<usize, WireError> {
        let [a, b, c, d, check @ ..] = head;
        let length = [a, b, c, d];
        if !self.state.bears(Part::Length, &length, &check) {
            return Err(self.state.forged());
        }
        Ok(usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX))
    }

    /// Returns the frame in `bytes`, whose seal is at their end. The next one is due then.
    pub(super) fn open<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
        let (body, seal) =
            bytes.split_last_chunk::<TAIL>().ok_or(WireError::Malformed(Malformed::Short))?;
        if !self.state.bears(Part::Body, body, seal) {
            return Err(self.state.forged());
        }
        self.state.next += 1;
        Ok(body)
    }

    /// Takes the key, which `bytes` are with the seal at their end, and wipes them.
    pub(super) fn take_key(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        let opened = self.open(bytes).and_then(|body| {
            let key = body.try_into().map_err(|_| WireError::Malformed(Malformed::Foreign))?;
            // The session is new: nobody has set another.
            let _ = self.state.key.0.set(key);
            Ok(())
        });
        wipe(bytes);
        opened
    }
}

#[cfg(test)]
mod tests;
