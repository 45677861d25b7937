//! Starts a stack, outermost layer first, and keeps it while it stands.
//!
//! This level starts one layer. If the stack goes on, the agent in that layer starts a **starter**
//! (this program, see `starter.rs`), which does the same with the rest of the stack there. So
//! every nesting, to any depth, is this one function at work on several levels.

use super::deeper::Deeper;
use super::reach;
use super::talk::{greet, identify, patience, stop_and_wait};
use crate::agent::{Link, unexpected};
use crate::driver;
use crate::driver::scratch_proof;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Lab, Limits, Room};
use crate::layer::{
    Descriptor, LayerSpec, Payer, Root, Running, Site, StackSpec, Started, View, WorkloadNetwork,
    medium,
};
use crate::stack::watch::groups;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::probe::command_group::CommandGroup;
use surtax_instrument::wire::{
    CHUNK, Command, Fact, LevelFacts, PUSHED_STARTER, Reply, Request, StartNested,
};

/// The hidden first argument that makes this program a starter.
pub const STARTER: &str = "__starter";

/// Word after [`STARTER`] where the starter is on another machine, whose own settings it must
/// leave.
pub const ELSEWHERE: &str = "elsewhere";

/// This program's own file, also where it was deleted or never had a name.
const OURSELVES: &str = "/proc/self/exe";

/// Context in which stacks of this level are started.
#[derive(Clone, Copy)]
pub struct StartContext<'a> {
    /// The one door to this level's objects.
    pub lab: &'a Lab,
    /// 0 is the host.
    pub level: u8,
    /// The static agent, as a file of this level.
    pub agent: &'a Path,
    /// Kernels, unpacked images and verdicts that outlive a run.
    pub cache: &'a Path,
    /// Directories whose writes are kept.
    pub writable: &'a [PathBuf],
    /// The command's working directory.
    pub cwd: &'a Path,
    /// The command, where it is known before the stack stands.
    pub command: Option<&'a Command>,
    /// The network namespace of the outermost layer's process, where that is not this level's own.
    pub network: Option<&'a Path>,
    /// Time limit for one layer to start.
    pub start_deadline: Duration,
}

impl StartContext<'_> {
    /// Returns what a command sees in a stack whose outermost layer is this one.
    ///
    /// # Errors
    /// The user's: the layer's `root` is none.
    pub fn view(&self, outermost: &LayerSpec) -> Result<View, Fault> {
        let (writable, cwd) = (self.writable.to_vec(), self.cwd.to_path_buf());
        let scratch = medium::of(outermost);
        let shows_secrets = outermost.shows_secrets();
        Ok(View { root: outermost.root()?, writable, cwd, scratch, shows_secrets })
    }

    /// Returns the site at which the outermost layer of a stack is asked about, or started.
    #[must_use]
    pub fn site<'s>(
        &'s self,
        view: &'s View,
        limits: &'s Limits,
        carries_layers: bool,
    ) -> Site<'s> {
        let Self { lab, level, agent, cache, command, network, start_deadline, .. } = *self;
        Site {
            lab,
            level,
            agent,
            cache,
            view,
            command,
            limits,
            carries_layers,
            network,
            start_deadline,
        }
    }
}

/// A stack that stands: an agent answers on its innermost level. Dropped, it falls without a
/// report.
pub struct RunningStack {
    // Dropped in this order: the way in, the layer, and last the room with all that is left.
    link: Option<Link>,
    running: Box<dyn Running>,
    room: Room,
    evidence: Vec<LevelFacts>,
    network: Option<WorkloadNetwork>,
    /// The agent of the innermost level, where that is a process of this one.
    agent: Option<u32>,
    /// The group that the command shares with nobody of the layer, where this level counts it.
    command: Option<CommandGroup>,
    /// Levels that may be in the bill of the levels below.
    deeper: Option<Deeper>,
    /// Time limit for an answer of its inside.
    patience: Duration,
    /// Set once it has broken and that was told.
    has_failed: bool,
}

impl StackSpec {
    /// Starts the stack; `name` is that of its room.
    ///
    /// # Errors
    /// What could not be started, or proved; nothing of the stack is left then.
    pub fn start(&self, context: &StartContext<'_>, name: &str) -> Result<RunningStack, Fault> {
        let (outermost, rest) = self
            .layers
            .split_first()
            .ok_or_else(|| Fault::bug("a stack without a layer came as far as its start"))?;
        let room = context.lab.room(name)?;
        let view = context.view(outermost)?;
        context.lab.require_same_places(view.places())?;
        let limits = outermost.limits()?;
        room.limit_huge_pages(&limits).map_err(|fault| fault.during(&outermost.kind))?;
        let site = context.site(&view, &limits, !rest.is_empty());
        let driver = driver::find(&outermost.kind)?;
        let Started { mut running, mut link } = driver.start(outermost, &site, &room)?;
        let patience = patience(context.start_deadline);
        let mut has_ended = || running.exit_reason().is_some();
        let inside = greet(&mut link, &outermost.kind, context.start_deadline, &mut has_ended)
            .and_then(|_| identify(&mut link, patience))
            .map_err(|fault| with_exit_reason(fault, running.as_mut()))?;
        let mut evidence = vec![prove(
            outermost,
            running.as_mut(),
            &inside,
            &view,
            context.lab.hierarchies(),
            &room,
        )?];
        // What a tool chose itself is known when it was seen.
        let network = running.network();
        if !rest.is_empty() {
            let inside =
                InnerLevel { descriptor: driver.descriptor(), root: &view.root, lab: context.lab };
            let (deeper, facts) = start_nested(link, rest, context, &inside)?;
            link = deeper;
            evidence.extend(facts);
        }
        context.lab.require_same_places(view.places())?; // nobody has exchanged them meanwhile
        let network = reach::through(network, &evidence[1..]);
        let payers = running.payers();
        let agent = agent_of(&payers, context.lab.hierarchies(), &evidence);
        let command =
            agent.and_then(|agent| command_group(&payers, context.lab.hierarchies(), agent));
        Ok(RunningStack {
            link: Some(link),
            running,
            room,
            evidence,
            network,
            agent,
            command,
            deeper: Deeper::of(context.level, self.layers.len()),
            patience,
            has_failed: false,
        })
    }
}

impl RunningStack {
    /// Returns what every level proved, outermost first.
    #[must_use]
    pub fn evidence(&self) -> &[LevelFacts] {
        &self.evidence
    }

    /// Returns the process that is the innermost agent, where it is one of this level. It was found
    /// before any command ran.
    #[must_use]
    pub fn agent(&self) -> Option<u32> {
        self.agent
    }

    /// Returns how the command and the outside reach each other, if they do.
    #[must_use]
    pub fn network(&self) -> Option<&WorkloadNetwork> {
        self.network.as_ref()
    }

    /// Tells a command where it reaches the outside, in its environment: see [`reach::PEER`].
    pub fn tell(&self, command: &mut Command) {
        reach::tell(self.network(), command);
    }

    /// Returns the levels that a starter may speak for, if there is one.
    #[must_use]
    pub fn deeper(&self) -> Option<Deeper> {
        self.deeper
    }

    /// Returns the time limit for its inside to answer a question that is soon answered.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The same fault, with how the outermost layer's own process has ended, if it has.
    #[must_use]
    pub fn explained(&mut self, fault: Fault) -> Fault {
        self.has_failed = true;
        with_exit_reason(fault, self.running.as_mut())
    }

    /// Lists who works for the outermost layer on this level, right now.
    #[must_use]
    pub fn payers(&self) -> Vec<Payer> {
        let mut payers = self.running.payers();
        for payer in payers.iter_mut().filter(|payer| payer.carries_workload) {
            payer.command.clone_from(&self.command);
        }
        payers
    }

    /// The way to the agent, or to the next level's starter.
    ///
    /// # Errors
    /// Ours: somebody has taken it for good.
    pub fn link(&mut self) -> Result<&mut Link, Fault> {
        self.link
            .as_mut()
            .ok_or_else(|| Fault::bug("the link of a stack is used after it was taken"))
    }

    /// The same, with its room, in which it may have to be woken.
    ///
    /// # Errors
    /// As [`RunningStack::link`].
    pub fn link_and_room(&mut self) -> Result<(&mut Link, &Room), Fault> {
        let taken = || Fault::bug("the link of a stack is waited for after it was taken");
        Ok((self.link.as_mut().ok_or_else(taken)?, &self.room))
    }

    /// The way to the agent, for good: who takes it must also end it (`finish`).
    ///
    /// # Errors
    /// Ours: somebody has taken it before.
    pub(super) fn take_link(&mut self) -> Result<Link, Fault> {
        self.link.take().ok_or_else(|| Fault::bug("the link of a stack was taken twice"))
    }

    /// Ends it, innermost layer first. What was still there, and had to be removed by force.
    ///
    /// # Errors
    /// Something could not be removed.
    pub fn stop(mut self) -> Result<Vec<String>, Fault> {
        let patience = self.patience;
        let stopped = self.link().and_then(|link| stop_and_wait(link, patience));
        self.finish(stopped)
    }

    /// Ends this level's layer, given how the levels below it have ended.
    pub(super) fn finish(self, below: Result<(), Fault>) -> Result<Vec<String>, Fault> {
        let Self { link, running, room, has_failed, .. } = self;
        // The link goes first: the end of its stream is what tells an agent to leave.
        drop(link);
        // Who is gone with what failed does not say farewell.
        let below = below.err().filter(|_| !has_failed);
        let mut leftovers: Vec<String> = below.into_iter().map(|fault| fault.message).collect();
        leftovers.extend(running.stop().err().map(|fault| fault.message));
        leftovers.extend(room.close()?);
        Ok(leftovers)
    }
}

/// The agent of the innermost level, which is found by what it saw of itself.
fn agent_of(payers: &[Payer], hierarchies: &Hierarchies, evidence: &[LevelFacts]) -> Option<u32> {
    let innermost = evidence.last()?.facts.iter();
    let inside: Vec<Fact> = innermost
        .filter_map(|fact| Some(Fact::new(fact.key.strip_prefix("inside_")?, &fact.value, "it")))
        .collect();
    driver::agent(payers, hierarchies, &inside)
}

/// The group of an agent.
fn command_group(payers: &[Payer], hierarchies: &Hierarchies, agent: u32) -> Option<CommandGroup> {
    let hierarchies = hierarchies.clone().of_all(groups(payers));
    let carriers = payers.iter().filter(|payer| payer.carries_workload);
    groups(carriers).find_map(|group| CommandGroup::of(&hierarchies, group, agent))
}

fn with_exit_reason(mut fault: Fault, running: &mut dyn Running) -> Fault {
    if let Some(exit_reason) = running.exit_reason() {
        fault.message = format!("{exit_reason}; {}", fault.message);
    }
    fault
}

/// The layer's own proof, and what was seen on the inside, marked as such. Without the names that
/// only this trial has, so that equal trials have equal proofs.
fn prove(
    layer: &LayerSpec,
    running: &mut dyn Running,
    inside: &[Fact],
    view: &View,
    hierarchies: &Hierarchies,
    room: &Room,
) -> Result<LevelFacts, Fault> {
    let mut facts = running.evidence(inside)?;
    let proved = scratch_proof::prove(view, running, hierarchies, inside);
    facts.extend(proved.map_err(|fault| fault.during(&layer.kind))?);
    let network = running.network();
    facts.extend(reach::facts(network.as_ref()));
    let is_told = |fact: &&Fact| reach::may_be_told(network.as_ref(), &fact.key);
    let seen = inside.iter().filter(is_told).map(|Fact { key, value, source }| {
        Fact::new(format!("inside_{key}"), value, format!("{source} on the inside"))
    });
    facts.extend(seen);
    let texts = facts.iter_mut().flat_map(|fact| [&mut fact.value, &mut fact.source]);
    for text in texts.filter(|text| text.contains('/')) {
        *text = room.redact_paths(text);
    }
    Ok(LevelFacts { layer: layer.to_string(), facts })
}

/// Surroundings that a starter finds on the inside of a layer.
struct InnerLevel<'a> {
    descriptor: &'static Descriptor,
    root: &'a Root,
    lab: &'a Lab,
}

impl InnerLevel<'_> {
    /// The starter's file there, if the inside sees this program's own.
    fn starter(&self) -> Result<Option<PathBuf>, Fault> {
        let exe = match self.lab.executable() {
            Some(other) => other.to_owned(),
            None => std::env::current_exe().doing("find this program's own file")?,
        };
        let is_ours = matches!(self.root, Root::Overlay | Root::Host) && !self.descriptor.is_remote;
        // A starter on another machine has no file of its own that it could show.
        Ok((is_ours && exe.exists()).then_some(exe))
    }

    /// A starter that was pushed into a foreign root found no C library there, or another one.
    fn wrong_root_fault(&self, fault: Fault) -> Fault {
        let place = match self.root {
            _ if self.descriptor.is_remote => format!("{}:…", self.descriptor.kind),
            Root::Overlay | Root::Host | Root::Packed => return fault,
            Root::Directory(path) => format!("root=dir:{}", path.display()),
            Root::Oci(path) => format!("root=oci:{}", path.display()),
            Root::Registry(name) => format!("root=docker://{name}"),
            Root::Image(path) => format!("root=image:{}", path.display()),
        };
        fault.during(format_args!("surtax cannot start the next layer in `{place}`")).hint(
            "give that root this machine's C library and the next layer's own programs, or leave \
             `root=` to the innermost layer",
        )
    }
}

/// Starts a starter behind `link`, and through it the rest of the stack.
fn start_nested(
    mut link: Link,
    rest: &[LayerSpec],
    context: &StartContext<'_>,
    inside: &InnerLevel<'_>,
) -> Result<(Link, Vec<LevelFacts>), Fault> {
    let starter = match inside.starter()? {
        Some(starter) => starter,
        None => {
            let program = context.lab.executable().unwrap_or(Path::new(OURSELVES));
            push(&mut link, program, patience(context.start_deadline))?;
            PathBuf::from(PUSHED_STARTER)
        }
    };
    let stack = StackSpec { layers: rest.to_vec() }.to_string();
    let environment = lab::environment::of_tools().into_iter();
    let mut argv = vec![starter.as_os_str().as_bytes().to_vec(), STARTER.as_bytes().to_vec()];
    argv.extend(inside.descriptor.is_remote.then(|| ELSEWHERE.as_bytes().to_vec()));
    let env = environment.map(|(key, value)| (key.into(), value.into())).collect();
    let command = Command { argv, env, cwd: b"/".to_vec(), ..Command::default() };
    let mut deeper = link.relay(&format!("the starter of `{stack}`"), command)?;
    greet(&mut deeper, &stack, context.start_deadline, &mut || false)
        .map_err(|fault| inside.wrong_root_fault(fault))?;
    let depth = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let request = Request::StartNested(StartNested {
        stack,
        level: context.level + 1,
        writable: context
            .writable
            .iter()
            .map(|path| path.as_os_str().as_bytes().to_vec())
            .collect(),
        cwd: context.cwd.as_os_str().as_bytes().to_vec(),
        command: context.command.cloned(),
        start_deadline: context.start_deadline.into(),
    });
    // Each deeper layer has the whole deadline, and its check may have to prove KVM first.
    let answer = deeper.ask(&request, context.start_deadline.saturating_mul(2 * depth))?;
    match answer.reply {
        Reply::StartedNested(facts) if facts.len() == rest.len() => Ok((deeper, facts)),
        other => Err(unexpected(&other, "the request to start the rest of the stack")),
    }
}

/// Copies this program to the inside.
fn push(link: &mut Link, program: &Path, patience: Duration) -> Result<(), Fault> {
    let program = std::fs::read(program).doing(format_args!("read `{}`", program.display()))?;
    for chunk in program.chunks(CHUNK) {
        let request = Request::Put {
            path: PUSHED_STARTER.as_bytes().to_vec(),
            mode: 0o755,
            bytes: chunk.to_vec(),
        };
        link.ask(&request, patience)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_start_for_long_may_answer_as_late_and_nobody_has_less_than_20_seconds() {
        let of = |seconds| patience(Duration::from_secs(seconds)).as_secs();
        assert_eq!([of(0), of(5), of(20), of(600)], [20, 20, 20, 600]);
    }
}
