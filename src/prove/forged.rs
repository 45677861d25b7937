//! Forged replies: somebody who is not the agent says what it would say, and none of it may count.
//!
//! Two campaigns. On a **channel** of its own, with a real link at one end, every kind of reply is
//! forged without the key, replayed, doubled, sent before its turn, and split by somebody else's
//! bytes. In **layers**, a command writes into every descriptor of its agent that it can reach, and
//! the trial goes the whole path to the ledger. Where an agent is in its command's reach the first
//! frame ends the trial, which is invalid; a trial that counts has been lied to. Where it is out of
//! reach the command tries many times in a start and says so in words that no forged frame has; a
//! trial that counts without them has been lied to.

use super::bench::{TRIALS_OF_A_FAILED_RUN, draft};
use super::proof::ended;
use super::{Bar, Bench, Figure, Proof, Size, Stopped};
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Blame, Doing, Fault};
use crate::ledger::{StoredTrial, TrialState};
use crate::plan::Word;
use serde::{Deserialize, Serialize};
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
const LAYERS: [Layer; 12] = [
    Layer::open("native"),
    Layer::shut("runc"),
    Layer::open("bubblewrap"),
    Layer::shut("gvisor"),
    Layer::shut("crun"),
    Layer::open("namespaces"),
    Layer::open("lxc"),
    Layer::open("nspawn"),
    Layer::shut("docker"),
    Layer::shut("podman"),
    // Each of its starts boots a translated guest, which takes half a minute on a busy machine.
    Layer { starts: 12, is_guest: true, ..Layer::open("qemu:accel=tcg") },
    Layer { starts: 12, tries: 84, is_guest: true, ..Layer::shut("qemu:accel=tcg+runc") },
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

/// Least time that a try takes where nothing is in reach; a frame that is forged says less.
const SHORTEST_TRY_NS: f64 = 1e6;

/// A layer in which a command forges.
struct Layer {
    stack: &'static str,
    /// Number of starts for each kind of frame, in full.
    starts: u32,
    /// Number of tries in each start: one where the first ends it.
    tries: u32,
    /// The agent is where its command cannot reach it.
    is_shut: bool,
    is_guest: bool,
}

impl Layer {
    const fn open(stack: &'static str) -> Self {
        Self { stack, starts: 1000, tries: 1, is_shut: false, is_guest: false }
    }

    const fn shut(stack: &'static str) -> Self {
        Self { stack, starts: 100, tries: 10, is_shut: true, is_guest: false }
    }

    /// Number of runs of each kind.
    fn per_kind(&self, size: Size) -> u32 {
        size.pick(1, self.starts / TRIALS_OF_A_FAILED_RUN)
    }

    /// Number of runs.
    fn run_count(&self, size: Size) -> u32 {
        u32::try_from(kinds(size).len()).unwrap_or(u32::MAX) * self.per_kind(size)
    }
}

pub(super) struct Forged;

impl Proof for Forged {
    fn name(&self) -> &'static str {
        "forged"
    }

    fn summary(&self) -> &'static str {
        "replies forged by the command: how many count"
    }

    fn parts(&self, size: Size) -> Vec<String> {
        let stacks = layers(size).iter().map(|layer| layer.stack);
        std::iter::once(CHANNEL).chain(stacks).map(part_of).collect()
    }

    fn run_count(&self, size: Size) -> u32 {
        layers(size).iter().map(|layer| layer.run_count(size)).sum()
    }

    fn run_ms(&self, size: Size, run: u32) -> u32 {
        let mut before = 0;
        let layer = layers(size).iter().find(|layer| {
            before += layer.run_count(size);
            run < before
        });
        if layer.is_some_and(|layer| layer.is_guest) { 100_000 } else { 700 }
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
            if !bench.takes(&part_of(layer.stack), layer.run_count(size)) {
                continue;
            }
            let mut count = Count::default();
            let done = in_a_layer(bench, layer, size, &mut count);
            lines.extend(count.lines_of_a_layer(layer.stack));
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

fn layers(size: Size) -> &'static [Layer] {
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
fn in_a_layer(
    bench: &Bench<'_>,
    layer: &Layer,
    size: Size,
    count: &mut Count,
) -> Result<(), Fault> {
    for kind in kinds(size) {
        for seed in bench.units(layer.per_kind(size)) {
            let amount = AMOUNTS[usize::try_from(seed).unwrap_or(0) % AMOUNTS.len()];
            let unit = format!("forged/{}/{kind}/{seed}", layer.stack);
            let ends = bench.unit(&unit, 1, || forge(bench, layer, kind, amount, seed))?;
            ends.into_iter().for_each(|end| count.add(end));
            if count.unavailable > 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What came of one trial whose command forges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    Unavailable,
    /// Nothing could be written, so many times.
    OutOfReach(u32),
    Believed,
    Told,
    /// It counts not, and nobody is told why it should not.
    Untold,
}

/// Makes one run whose command forges: what came of each of its trials.
fn forge(
    bench: &Bench<'_>,
    layer: &Layer,
    kind: &str,
    amount: &str,
    seed: u32,
) -> Result<Vec<End>, Fault> {
    let mut draft = draft(layer.stack, &[], TRIALS_OF_A_FAILED_RUN / 2, seed.into())?;
    let words =
        ["@surtax", "engine", "forge", "--kind", kind, "--manner", amount, "--duration", "20ms"];
    let shut = layer.is_shut.then_some("--shut");
    draft.command = words.into_iter().chain(shut).map(Word::from).collect();
    draft.conduct.iterations = Some(layer.tries);
    Ok(bench.stored(draft)?.iter().map(|trial| layer.end(trial)).collect())
}

impl Layer {
    fn end(&self, trial: &StoredTrial) -> End {
        let is_shut = || {
            let said = format!("{}\n", surtax_engines::shut().finish());
            let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(said.as_bytes()));
            let took = &trial.iterations;
            trial.stdout_hash == Some(hash)
                && u32::try_from(took.len()) == Ok(self.tries)
                && took.iter().all(|took| *took >= SHORTEST_TRY_NS)
        };
        match trial.state {
            TrialState::Unavailable => End::Unavailable,
            TrialState::Done | TrialState::Disturbed if self.is_shut && is_shut() => {
                End::OutOfReach(self.tries)
            }
            TrialState::Done | TrialState::Disturbed => End::Believed,
            TrialState::Failed if !self.is_shut => End::OutOfReach(1),
            TrialState::Invalid if trial.why.contains("somebody wrote into") => End::Told,
            _ => End::Untold,
        }
    }
}

impl Count {
    fn add(&mut self, end: End) {
        let tries = match end {
            End::OutOfReach(tries) => tries,
            End::Unavailable => 0,
            _ => 1,
        };
        self.tried += tries;
        match end {
            End::Unavailable => self.unavailable += 1,
            End::OutOfReach(tries) => self.out_of_reach += tries,
            End::Believed => self.believed += 1,
            End::Told => self.told += 1,
            End::Untold => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::{add, done, id, ledger};

    #[test]
    fn every_manner_is_noticed_on_a_channel() {
        for manner in MANNERS {
            let mut count = Count::default();
            on_a_channel(manner, Size::Quick, &mut count).unwrap();
            assert_eq!((count.tried, count.believed), (70, 0), "{manner:?}");
        }
    }

    #[test]
    fn every_layer_is_tried_a_thousand_times_for_each_kind_and_an_open_guest_twelve_times() {
        let tries =
            |layer: &Layer| layer.per_kind(Size::Full) * TRIALS_OF_A_FAILED_RUN * layer.tries;
        let few = |layer: &Layer| layer.is_guest && !layer.is_shut;
        for layer in &LAYERS {
            let least = if few(layer) { 12 } else { 1000 };
            assert!((least..=least + 8).contains(&tries(layer)), "{}", layer.stack);
        }
        let counts = LAYERS.iter().map(|layer| layer.run_count(Size::Full));
        let runs = Forged.run_count(Size::Full);
        assert_eq!(runs, counts.sum::<u32>());
        let guests = u32::try_from(KINDS.len()).unwrap() * (3 + 3);
        let took =
            [0, runs - guests - 1, runs - guests, runs].map(|run| Forged.run_ms(Size::Full, run));
        assert_eq!(took, [700, 700, 100_000, 700]);
    }

    #[test]
    fn a_trial_that_counts_and_one_that_is_not_told_of_miss_a_bar() {
        let lines = |ends: &[End]| -> Vec<bool> {
            let mut count = Count::default();
            ends.iter().for_each(|end| count.add(*end));
            count.lines_of_a_layer("native").iter().map(Figure::is_met).collect()
        };
        assert_eq!(lines(&[End::Told, End::OutOfReach(50)]), [true, true]);
        assert_eq!(lines(&[End::Told, End::Believed]), [false, false]);
        assert_eq!(lines(&[End::Told, End::Untold]), [true, false]);
        assert_eq!(lines(&[End::Unavailable]), [true]);
    }

    #[test]
    fn a_try_counts_as_out_of_reach_where_it_says_so_itself_and_took_its_time() {
        let shut = Layer { tries: 2, ..Layer::shut("runc") };
        let said = format!("{}\n", surtax_engines::shut().finish());
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&dir.path().join("one.surtax"), &["native"]);
        add(&mut ledger, &done(id(0, 0), 1));
        let mut trial = ledger.trials().unwrap().remove(0);
        let mut end = |said: &str, took: &[f64], state| {
            trial.stdout_hash =
                Some(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(said.as_bytes())));
            (trial.iterations, trial.state) = (took.to_vec(), state);
            shut.end(&trial)
        };
        let two = [2e6, 3e6];
        assert_eq!(end(&said, &two, TrialState::Done), End::OutOfReach(2));
        assert_eq!(end(&said, &two, TrialState::Disturbed), End::OutOfReach(2));
        assert_eq!(end("", &two, TrialState::Done), End::Believed);
        assert_eq!(end(&said, &[1e3, 3e6], TrialState::Done), End::Believed);
        assert_eq!(end(&said, &[3e6], TrialState::Done), End::Believed);
        assert_eq!(end(&said, &two, TrialState::Failed), End::Untold);
    }
}
