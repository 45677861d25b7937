//! Forged replies: somebody who is not the agent says what it would say, and none of it may count.
//!
//! Two campaigns. On a **channel** of its own, with a real link at one end, every kind of reply is
//! forged without the key, replayed, doubled, sent before its turn, and split by somebody else's
//! bytes. In **layers**, a command writes into every descriptor of its agent that it can reach, and
//! the trial goes the whole path to the findings. It fails where it reaches none, so that a trial
//! which counts has been lied to.

use super::bench::{TRIALS_OF_A_FAILED_RUN, draft};
use super::proof::ended;
use super::{Bar, Bench, Figure, Proof, Size, Stopped};
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Blame, Doing, Fault};
use crate::plan::Word;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::specimen::{KINDS, specimen};
use surtax_instrument::wire::{
    Hello, Opener, PROTOCOL, Reply, Request, Sealer, WireError, agents, read_request, write_reply,
};

/// The part that has no layer.
const CHANNEL: &str = "channel";

/// Layers in which a command forges, the quick ones first.
const LAYERS: [&str; 12] = [
    "native",
    "runc",
    "bubblewrap",
    "gvisor",
    "crun",
    "namespaces",
    "lxc",
    "nspawn",
    "docker",
    "podman",
    "qemu:accel=tcg",
    "qemu:accel=tcg+runc",
];

/// Number of them that are quick.
const QUICK_LAYERS: usize = 4;

/// Kinds of frame forged there in a quick campaign: one that would make a number, an end, and one
/// that is nothing.
const QUICK_KINDS: [&str; 3] = ["exited", "stopped", "garbage"];

/// Amounts of a frame that a command writes.
const AMOUNTS: [&str; 3] = ["whole", "half", "twice"];

/// Time that a reply may take on a channel within this process.
const SOON: Duration = Duration::from_secs(20);

pub(super) struct Forged;

impl Proof for Forged {
    fn name(&self) -> &'static str {
        "forged"
    }

    fn summary(&self) -> &'static str {
        "replies forged by the command: how many count"
    }

    fn parts(&self, size: Size) -> Vec<String> {
        std::iter::once(CHANNEL).chain(layers(size).iter().copied()).map(part_of).collect()
    }

    fn run_count(&self, size: Size) -> u32 {
        layers(size).iter().map(|layer| per_layer(layer, size)).sum()
    }

    fn run_ms(&self, size: Size, run: u32) -> u32 {
        let mut before = 0;
        let layer = layers(size).iter().find(|layer| {
            before += per_layer(layer, size);
            run < before
        });
        if layer.is_some_and(|layer| is_guest(layer)) { 100_000 } else { 700 }
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let mut lines = Vec::new();
        for manner in MANNERS {
            if !bench.takes(&part_of(CHANNEL), 0) {
                break;
            }
            let mut count = Count::default();
            let done = on_a_channel(manner, size, &mut count);
            lines.push(count.line(format!("on a channel, {}", manner.name())));
            if let Err(fault) = done {
                return Err(Stopped { fault, lines });
            }
        }
        for layer in layers(size) {
            if !bench.takes(&part_of(layer), per_layer(layer, size)) {
                continue;
            }
            let mut count = Count::default();
            let done = in_a_layer(bench, layer, size, &mut count);
            lines.extend(count.lines_of_a_layer(layer));
            if let Err(fault) = done {
                return Err(Stopped { fault, lines });
            }
        }
        ended(Ok(()), lines)
    }
}

fn part_of(layer: &str) -> String {
    format!("forged/{layer}")
}

fn layers(size: Size) -> &'static [&'static str] {
    match size {
        Size::Quick => &LAYERS[..QUICK_LAYERS],
        Size::Full => &LAYERS,
    }
}

fn kinds(size: Size) -> &'static [&'static str] {
    match size {
        Size::Quick => &QUICK_KINDS,
        Size::Full => &KINDS,
    }
}

/// Returns the number of runs of each kind in a layer: in full, of four trials each, a thousand
/// trials. The first forged frame ends a session, so that each trial boots a guest; a guest that is
/// translated takes half a minute for it, and gets twelve.
fn per_kind(layer: &str, size: Size) -> u32 {
    let trials = if is_guest(layer) { 12 } else { 1000 };
    size.pick(1, trials / TRIALS_OF_A_FAILED_RUN)
}

/// Returns the number of runs in a layer.
fn per_layer(layer: &str, size: Size) -> u32 {
    u32::try_from(kinds(size).len()).unwrap_or(u32::MAX) * per_kind(layer, size)
}

fn is_guest(layer: &str) -> bool {
    layer.starts_with("qemu")
}

/// Counts of the tries and of what came of them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    tried: u32,
    /// Somebody was believed.
    believed: u32,
    /// It was told that somebody wrote who is not the agent.
    told: u32,
    /// Nothing could be written at all.
    out_of_reach: u32,
    /// The layer is not usable here.
    unavailable: u32,
}

impl Count {
    fn line(self, part: String) -> Figure {
        Figure {
            proof: "forged",
            part,
            tried: self.tried,
            found: self.believed,
            what: "counted",
            bar: Bar::AtMost(0),
            because: String::from("what does not bear the seal is no number"),
        }
    }

    /// The line of a layer, and how many of those that reached the channel were told of.
    fn lines_of_a_layer(self, layer: &str) -> Vec<Figure> {
        let reached = self.tried - self.out_of_reach;
        let why = format!("{} of them found no way to the agent's channel", self.out_of_reach);
        let all = Figure { because: why, ..self.line(String::from(layer)) };
        if self.unavailable > 0 {
            let because = String::from("the layer is not usable here");
            return vec![Figure { bar: Bar::Shown, because, ..all }];
        }
        let told = Figure {
            part: format!("{layer}, those that reached the channel"),
            tried: reached,
            found: self.told,
            what: "told of",
            bar: Bar::AtLeast(reached),
            because: String::from("the trial is invalid and says that somebody wrote"),
            ..all.clone()
        };
        vec![all, told]
    }
}

/// Manner of an attack on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    Forged,
    Replayed,
    Doubled,
    Early,
    Split,
}

const MANNERS: [Attack; 5] =
    [Attack::Forged, Attack::Replayed, Attack::Doubled, Attack::Early, Attack::Split];

impl Attack {
    fn name(self) -> &'static str {
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
fn on_a_channel(manner: Attack, size: Size, count: &mut Count) -> Result<(), Fault> {
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
        let clock = Reply::Clock { at: Nanoseconds(2) };
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

/// Has commands forge in a layer.
fn in_a_layer(bench: &Bench<'_>, layer: &str, size: Size, count: &mut Count) -> Result<(), Fault> {
    for kind in kinds(size) {
        for seed in bench.units(per_kind(layer, size)) {
            let amount = AMOUNTS[usize::try_from(seed).unwrap_or(0) % AMOUNTS.len()];
            let unit = format!("forged/{layer}/{kind}/{seed}");
            let found = bench.unit(&unit, 1, || forge(bench, layer, kind, amount, seed))?;
            found.iter().for_each(|(state, why)| count.add(state, why));
            if count.unavailable > 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Makes one run whose command forges, and returns the state of each of its trials and the reason
/// for it.
fn forge(
    bench: &Bench<'_>,
    layer: &str,
    kind: &str,
    amount: &str,
    seed: u32,
) -> Result<Vec<(String, String)>, Fault> {
    let mut draft = draft(layer, &[], TRIALS_OF_A_FAILED_RUN / 2, seed.into())?;
    let words =
        ["@surtax", "engine", "forge", "--kind", kind, "--manner", amount, "--duration", "20ms"];
    draft.command = words.map(Word::from).to_vec();
    let findings = bench.findings(draft)?;
    let trials = findings.arms.into_iter().flat_map(|arm| arm.trials);
    Ok(trials.map(|trial| (trial.state, trial.why)).collect())
}

impl Count {
    fn add(&mut self, state: &str, why: &str) {
        if state == "unavailable" {
            self.unavailable += 1;
            return;
        }
        self.tried += 1;
        match state {
            "done" | "disturbed" => self.believed += 1,
            "failed" => self.out_of_reach += 1,
            "invalid" => self.told += u32::from(why.contains("somebody wrote into")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manner_is_noticed_on_a_channel() {
        for manner in MANNERS {
            let mut count = Count::default();
            on_a_channel(manner, Size::Quick, &mut count).unwrap();
            assert_eq!((count.tried, count.believed), (70, 0), "{manner:?}");
        }
    }

    #[test]
    fn guests_are_booted_a_few_times_and_the_others_started_a_thousand() {
        let (all, kinds) = (LAYERS.len(), KINDS.len());
        let runs = u32::try_from((all - 2) * kinds * 250 + 2 * kinds * 3).unwrap();
        assert_eq!(Forged.run_count(Size::Full), runs);
        let took = |run| Forged.run_ms(Size::Full, run);
        let last = u32::try_from((all - 2) * kinds * 250).unwrap();
        assert_eq!([took(0), took(last - 1), took(last), took(runs)], [700, 700, 100_000, 700]);
    }

    #[test]
    fn a_trial_that_counts_and_one_that_is_not_told_of_miss_a_bar() {
        let lines = |states: &[(&str, &str)]| -> Vec<bool> {
            let mut count = Count::default();
            states.iter().for_each(|(state, why)| count.add(state, why));
            count.lines_of_a_layer("native").iter().map(Figure::is_met).collect()
        };
        let told = ("invalid", "somebody wrote into the agent's channel of `native`: …");
        assert_eq!(lines(&[told, ("failed", "")]), [true, true]);
        assert_eq!(lines(&[told, ("done", "")]), [false, false]);
        assert_eq!(lines(&[told, ("broken", "the agent is gone")]), [true, false]);
        assert_eq!(lines(&[("unavailable", "")]), [true]);
    }
}
