//! The campaign on a channel: a real link at one end, and at the other one of whom every byte is
//! known.

use super::super::Size;
use super::Count;
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Blame, Doing, Fault};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::specimen::{KINDS, specimen};
use surtax_instrument::wire::{
    Hello, Opener, PROTOCOL, Reply, Request, Sealer, WireError, agents, read_request, write_reply,
};

/// Time that a reply may take on a channel within this process.
const SOON: Duration = Duration::from_secs(20);

/// Manner of an attack on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    Forged,
    Replayed,
    Doubled,
    Early,
    Split,
}

pub(super) const MANNERS: [Attack; 5] =
    [Attack::Forged, Attack::Replayed, Attack::Doubled, Attack::Early, Attack::Split];

impl Attack {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forged => "forged without the key",
            Self::Replayed => "replayed",
            Self::Doubled => "doubled",
            Self::Early => "before its turn",
            Self::Split => "split",
        }
    }
}

/// Attacks channels in one manner, with every kind of reply.
pub(super) fn on_a_channel(manner: Attack, size: Size, count: &mut Count) -> Result<(), Fault> {
    for kind in KINDS {
        let Some(reply) = specimen(kind) else { continue };
        for _ in 0..size.pick(5, 1000) {
            let is_noticed = Channel::open()?.attack(manner, &reply)?;
            count.tried += 1;
            count.believed += u32::from(!is_noticed);
        }
    }
    Ok(())
}

/// A link, and an agent at its other end of which every byte is known.
struct Channel {
    link: Link,
    stream: UnixStream,
    sealer: Sealer,
    opener: Opener,
}

impl Channel {
    fn open() -> Result<Self, Fault> {
        let (ours, stream) = UnixStream::pair().doing("make a channel to attack")?;
        let reader = ours.try_clone().doing("copy a channel to attack")?;
        let link = Link::over("forged", reader, ours, &ConsoleTail::new())?;
        let (sealer, opener) = agents();
        let mut channel = Self { link, stream, sealer, opener };
        let hello = Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) };
        let greeting = channel.sealed(&Reply::Hello(hello))?;
        channel.write(&greeting)?;
        channel.link.receive(SOON)?;
        channel.link.send(&Request::Identify)?;
        read_request(&mut channel.stream, &mut channel.opener).map_err(|error| {
            Fault::machine(format!("a channel broke before it was attacked: {error}"))
        })?;
        Ok(channel)
    }

    /// Returns what its agent says, as bytes.
    fn sealed(&mut self, reply: &Reply) -> Result<Vec<u8>, Fault> {
        sealed(&mut self.sealer, reply)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes).doing("write into a channel that is attacked")
    }

    /// Attacks it once; whether the host believes the honest frames and nothing else.
    fn attack(mut self, manner: Attack, reply: &Reply) -> Result<bool, Fault> {
        let clock = Reply::Clock { at: Nanoseconds(2), passed: Vec::new() };
        let mut honest = Vec::new();
        match manner {
            Attack::Forged => {
                let bytes = by_a_stranger(reply)?;
                self.write(&bytes)?;
            }
            Attack::Doubled => {
                let bytes = self.sealed(reply)?;
                self.write(&bytes.repeat(2))?;
                honest.push(reply.clone());
            }
            Attack::Replayed => {
                let (old, between) = (self.sealed(reply)?, self.sealed(&clock)?);
                self.write(&[old.as_slice(), &between, &old].concat())?;
                honest.extend([reply.clone(), clock.clone()]);
            }
            Attack::Early => {
                let _due = self.sealed(&clock)?;
                let early = self.sealed(reply)?;
                self.write(&early)?;
            }
            Attack::Split => {
                let (bytes, other) = (self.sealed(reply)?, by_a_stranger(reply)?);
                let (half, rest) = bytes.split_at(bytes.len() / 2);
                self.write(&[half, &other[..other.len() / 2], rest].concat())?;
            }
        }
        // What comes next makes whole what is only begun.
        let next = self.sealed(&clock)?;
        self.write(&next)?;
        for said in honest {
            if self.link.receive(SOON)?.reply != said {
                return Ok(false);
            }
        }
        Ok(self.link.receive(SOON).is_err_and(|fault| fault.blame == Blame::Inside))
    }
}

fn sealed(sealer: &mut Sealer, reply: &Reply) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    write_reply(&mut bytes, sealer, reply).map_err(|error: WireError| {
        Fault::machine(format!("a frame cannot be sealed for an attack: {error}"))
    })?;
    Ok(bytes)
}

/// The same, in a session of somebody else.
fn by_a_stranger(reply: &Reply) -> Result<Vec<u8>, Fault> {
    sealed(&mut Channel::open()?.sealer, reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manner_is_noticed_on_a_channel() {
        for manner in MANNERS {
            let mut count = Count::default();
            on_a_channel(manner, Size::Quick, &mut count).unwrap();
            assert_eq!((count.tried, count.believed), (75, 0), "{manner:?}");
        }
    }
}
