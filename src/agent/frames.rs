//! Frames put together again from pieces: each byte is looked at when its frame is whole, and not
//! before.
//!
//! Who sends decides how small the pieces are. So the work for a frame is that of its bytes, in how
//! many pieces they may come: its head is opened once, and nothing else until as many bytes are
//! there as it says.

use surtax_instrument::wire::{Opener, Reply, WireError, length_of_reply, read_reply};

/// Bytes that have come and are no reply yet.
pub(super) struct Frames {
    opener: Opener,
    bytes: Vec<u8>,
    /// Number of bytes in `bytes` that belong to replies that were taken.
    taken: usize,
    /// Length of the next frame in bytes, once its head is there.
    due: Option<usize>,
    /// Number of bytes read or moved so far.
    #[cfg(test)]
    worked: usize,
}

impl Frames {
    /// Frames that this end opens.
    pub(super) fn of(opener: Opener) -> Self {
        Self {
            opener,
            bytes: Vec::new(),
            taken: 0,
            due: None,
            #[cfg(test)]
            worked: 0,
        }
    }

    /// Keeps what has come.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        #[cfg(test)]
        {
            self.worked += bytes.len();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next reply, if all of it has come.
    ///
    /// # Errors
    /// What is malformed or forged: nothing that follows can be understood.
    pub(super) fn next(&mut self) -> Result<Option<Reply>, WireError> {
        if self.due.is_none() {
            let waiting = self.bytes.get(self.taken..).unwrap_or_default();
            self.due = length_of_reply(waiting, &self.opener)?;
        }
        let waiting = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(mut frame) = self.due.and_then(|due| waiting.get(..due)) else {
            self.forget();
            return Ok(None);
        };
        let length = frame.len();
        #[cfg(test)]
        {
            self.worked += length;
        }
        let reply = read_reply(&mut frame, &mut self.opener)?;
        (self.taken, self.due) = (self.taken + length, None);
        Ok(Some(reply))
    }

    /// Gives back what was taken. Less than one piece is moved for it, and never twice.
    fn forget(&mut self) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            #[cfg(test)]
            {
                self.worked += self.bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::quantity::Nanoseconds;
    use surtax_instrument::wire::{Hello, PROTOCOL, Sealer, agents, hosts, read_request};
    use surtax_instrument::wire::{Request, write_reply, write_request};

    /// Both ends of a session whose key is known, and what the inside has said for it.
    fn session() -> (Sealer, Frames) {
        let (mut asking, opener) = hosts().unwrap();
        let (mut sealer, mut asked) = agents();
        let mut frames = Frames::of(opener);
        let hello = Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) });
        frames.add(&said(&mut sealer, &hello));
        assert_eq!(frames.next().unwrap(), Some(hello));
        let mut opening = Vec::new();
        write_request(&mut opening, &mut asking, &Request::Go).unwrap();
        read_request(&mut opening.as_slice(), &mut asked).unwrap();
        frames.worked = 0;
        (sealer, frames)
    }

    fn said(sealer: &mut Sealer, reply: &Reply) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_reply(&mut bytes, sealer, reply).unwrap();
        bytes
    }

    #[test]
    fn a_frame_in_pieces_of_any_size_costs_what_its_bytes_cost() {
        for size in [1, 7, 8, 9, 1000, 70_000] {
            let (mut sealer, mut frames) = session();
            let replies: Vec<Reply> =
                [0, 60_000, 3, 65_536, 1].map(|length| Reply::Data(vec![7; length])).into();
            let bytes: Vec<u8> = replies.iter().flat_map(|it| said(&mut sealer, it)).collect();
            let mut heard = Vec::new();
            for piece in bytes.chunks(size) {
                frames.add(piece);
                while let Some(reply) = frames.next().unwrap() {
                    heard.push(reply);
                }
            }
            assert_eq!(heard, replies, "in pieces of {size}");
            // Kept once, read once, and at most once moved.
            assert!(frames.worked <= 3 * bytes.len(), "{} for {}", frames.worked, bytes.len());
            assert!(frames.bytes.is_empty());
        }
    }

    #[test]
    fn many_frames_in_one_piece_are_moved_by_none_of_them() {
        let (mut sealer, mut frames) = session();
        let count = 2_000;
        let bytes: Vec<u8> = (0..count).flat_map(|_| said(&mut sealer, &Reply::Written)).collect();
        frames.add(&bytes);
        for _ in 0..count {
            assert_eq!(frames.next().unwrap(), Some(Reply::Written));
        }
        assert_eq!(frames.next().unwrap(), None);
        assert_eq!(frames.worked, 2 * bytes.len());
    }

    #[test]
    fn a_head_that_nobody_sealed_is_told_before_its_length_is_waited_for() {
        let (_, mut frames) = session();
        frames.add(&[0; 7]);
        assert_eq!(frames.next().unwrap(), None);
        frames.add(&[0]);
        assert!(matches!(frames.next(), Err(WireError::Forged)));
    }
}
