//! Simulated: a layer whose cost is known, in a time of its own, to test all that comes after it.
//!
//! surtax (host) ── a queue ── a command that takes 1 s × cost × noise, at once
//!
//! The same plan gives the same times: noise depends on the seed, the block, the position and the
//! arm, which a trial's room is named after, and on nothing else. `shape.rs` has its kinds.
//!
//! - **Needs** nothing.
//! - **Leaves out** everything real: no process is started and nothing waits.
//! - **Payers** none.
//! - **Checked against** itself: the whole path, plan to report, must recover `cost`.

mod shape;

/// Words that may follow `shape=`.
pub use shape::NAMES as NOISE_SHAPES;

use crate::agent::{Link, Listener, Speaker, Stamped};
use crate::fault::Fault;
use crate::lab::Room;
use crate::layer::{
    Descriptor, Files, Layer, LayerSpec, Payer, Rights, Running, Site, StartGuess, Started,
    Unavailable, Usable, option,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use shape::{Shape, TrialPosition};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surtax_instrument::amount::Amounts;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{
    Fact, Failure, Hello, Outcome, Output, PROTOCOL, Reply, Request, Status,
};

/// Time that the simulated command takes at cost 1 without noise, in nanoseconds.
const BASE_NS: f64 = 1e9;

/// The layer of known cost.
pub struct Simulated;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "simulated",
    summary: "no isolation at all: a known cost in simulated time, to test surtax itself",
    reach: &[],
    options: &[
        option("cost", &[]).help("true ratio to 1 s (default 1)"),
        option("noise", &[]).help("standard deviation of its logarithm (default 0.03)"),
        option("shape", shape::NAMES).help("kind of noise (default lognormal)"),
        option("seed", &[]).help("seed of the noise (default 0)"),
    ],
    limits: &[],
    rights: |_| Rights::User,
    files: Files::AsTheyAre,
    start_guess: StartGuess::of(0),
    is_listed: false,
    ..Descriptor::CONTAINER
};

impl Layer for Simulated {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        match Model::of(spec) {
            Ok(model) => Ok(Usable { facts: model.facts() }),
            Err(fault) => Err(fault.into()),
        }
    }

    fn start(&self, spec: &LayerSpec, _: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let model = Model::of(spec)?;
        let name = room.directory().file_name().unwrap_or_default();
        let own = ChaCha8Rng::seed_from_u64(fnv1a(name.as_encoded_bytes()) ^ model.seed);
        let place = place(&name.to_string_lossy(), model.seed);
        let hello = Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(0) };
        let inside =
            SimulatedAgent { model, place, own, now: Nanoseconds(0), said: VecDeque::new() };
        let inside = Arc::new(Mutex::new(inside));
        inside.lock().unwrap_or_else(PoisonError::into_inner).say(Reply::Hello(hello));
        let (speaker, listener) = (Box::new(Mouth(Arc::clone(&inside))), Box::new(Ear(inside)));
        Ok(Started::new(Link { speaker, listener }, RunningSimulated { model }))
    }
}

/// The trial's own share of the seed: its room's name, hashed (Fowler, Noll and Vo, FNV-1a).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reads a trial's position from its room's name `block-position-arm`. A stack that is no trial, as
/// with `surtax enter`, stands at the beginning.
fn place(room: &str, seed: u64) -> TrialPosition {
    let mut numbers = room.split('-').map_while(|part| part.parse().ok());
    let (block, position) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    TrialPosition { seed, block, position }
}

/// The options as numbers.
#[derive(Clone, Copy, Debug)]
struct Model {
    cost: f64,
    noise: f64,
    shape: Shape,
    seed: u64,
}

impl Model {
    fn of(spec: &LayerSpec) -> Result<Self, Fault> {
        let cost: f64 = number(spec, "cost", 1.0)?;
        let noise: f64 = number(spec, "noise", 0.03)?;
        if !(cost > 0.0 && cost.is_finite() && (0.0..=10.0).contains(&noise)) {
            return Err(Fault::user(format!(
                "simulated: cost {cost} with noise {noise} is no cost"
            ))
            .hint("use a `cost` above 0 and a `noise` from 0 to 10"));
        }
        let shape = match spec.option("shape") {
            None => Shape::Lognormal,
            Some(name) => Shape::named(name).ok_or_else(|| {
                Fault::user(format!("simulated: `{name}` is no shape of noise"))
                    .hint(format!("use one of `{}`", shape::NAMES.join("`, `")))
            })?,
        };
        Ok(Self { cost, noise, shape, seed: number(spec, "seed", 0)? })
    }

    fn facts(self) -> Vec<Fact> {
        let source = "the stack's own text";
        vec![
            Fact::new("simulated_cost", self.cost.to_string(), source),
            Fact::new("simulated_noise", self.noise.to_string(), source),
        ]
    }
}

fn number<T: std::str::FromStr>(spec: &LayerSpec, key: &str, default: T) -> Result<T, Fault> {
    let Some(text) = spec.option(key) else { return Ok(default) };
    text.parse().map_err(|_| {
        Fault::user(format!("simulated: `{key}={text}` is not a number"))
            .hint(format!("write for example `simulated:{key}=1`"))
    })
}

struct RunningSimulated {
    model: Model,
}

impl Running for RunningSimulated {
    fn payers(&self) -> Vec<Payer> {
        Vec::new()
    }

    fn evidence(&mut self, _: &[Fact]) -> Result<Vec<Fact>, Fault> {
        Ok(self.model.facts())
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

/// The agent that is none: it answers at once, in its own time.
struct SimulatedAgent {
    model: Model,
    place: TrialPosition,
    /// Random generator of this trial alone.
    own: ChaCha8Rng,
    now: Nanoseconds,
    said: VecDeque<Stamped>,
}

impl SimulatedAgent {
    fn say(&mut self, reply: Reply) {
        self.said.push_back(Stamped { reply, at: self.now });
    }

    fn hear(&mut self, request: &Request) {
        match request {
            Request::Run(_) => self.say(Reply::Started { at: self.now }),
            Request::Go => {
                let wall = self.draw();
                self.now += wall;
                self.say(Reply::Ended { at: self.now });
                self.say(Reply::Exited(outcome(wall).into()));
            }
            Request::Clock => self.say(Reply::Clock { at: self.now, passed: Vec::new() }),
            Request::Identify => self.say(Reply::Identity(self.model.facts())),
            Request::DropCaches => self.say(Reply::Dropped(Vec::new())),
            Request::Resolve(_) | Request::Locate(_) => self.say(Reply::Identity(Vec::new())),
            Request::Stop => self.say(Reply::Stopped),
            Request::Relay(_) => self.say(Reply::Failed(Failure {
                cause: None,
                what: String::from("`simulated` has no inside: nothing runs in it"),
                hint: String::from("enter a layer that `surtax doctor` calls usable"),
            })),
            _ => {}
        }
    }

    /// One duration around the true cost.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
    fn draw(&mut self) -> Nanoseconds {
        let Model { cost, noise, shape, .. } = self.model;
        let ln_noise = shape.ln_noise(noise, self.place, &mut self.own);
        Nanoseconds((BASE_NS * cost * ln_noise.exp()) as u64)
    }
}

fn outcome(wall: Nanoseconds) -> Outcome {
    Outcome {
        status: Status::Exit(0),
        wall,
        cpu_user: wall,
        cpu_system: Nanoseconds(0),
        memory_peak: Bytes(1 << 20),
        calls: None,
        stops: None,
        oom_kill_count: None,
        left_running_count: 0,
        counts: Amounts::NONE,
        agent_cpu: Nanoseconds(0),
        machine: Vec::new(),
        stdout: Output::default(),
        stderr: Output::default(),
        instances: Vec::new(),
    }
}

struct Mouth(Arc<Mutex<SimulatedAgent>>);
struct Ear(Arc<Mutex<SimulatedAgent>>);

impl Speaker for Mouth {
    fn send_within(&mut self, request: &Request, _: Duration) -> Result<(), Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hear(request);
        Ok(())
    }
}

impl Listener for Ear {
    fn wait(&mut self, _: Duration) -> Result<Option<Stamped>, Fault> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).said.pop_front())
    }

    fn silence(&self, _: Duration) -> Fault {
        Fault::bug("the simulated layer was asked nothing and has no answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_says_where_its_trial_stands_and_any_other_is_the_beginning() {
        assert_eq!(place("12-3-1", 5), TrialPosition { seed: 5, block: 12, position: 3 });
        assert_eq!(place("stack", 5), TrialPosition { seed: 5, block: 0, position: 0 });
    }
}
