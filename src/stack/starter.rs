//! The starter: this program on the inside of a layer, starting the rest of the stack there.
//!
//! It speaks the agent's language on its standard input and output. `StartNested` it does itself;
//! every other request goes on to the layer that it started, and every reply comes back, the
//! replies by a thread of their own so that nothing waits for anything. When the command ends it
//! adds the bill of its own level.

use super::deeper::Deeper;
use super::start::{ELSEWHERE, RunningStack, StartContext};
use crate::agent::{FOREVER, Listener, PATIENCE, Speaker, Stamped};
use crate::driver;
use crate::fault::{Blame, Doing, Fault};
use crate::lab::{self, Lab};
use crate::layer::Payer;
use crate::stack::sampler::{Sample, Sampler};
use crate::stack::watch::Watch;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surtax_instrument::calls::Counter;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::probe::stops;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Calls, Cause, Command, Failure, Hello, Opener, PROTOCOL, Reply, Request, Sealer, StartNested,
    WireError, agents, read_request, write_reply,
};
use surtax_instrument::{cache, clock};

/// Time limit for the layers below to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// Time limit for the next level's bill after the command has ended.
const BILL_DEADLINE: Duration = Duration::from_secs(20);

/// The stream to the level above, and its seal. Both threads write whole frames to it.
type Upward = Arc<Mutex<(File, Sealer)>>;

/// Requests of the level above.
struct Requests {
    stream: File,
    opener: Opener,
}

impl Requests {
    fn next(&mut self) -> Result<Request, WireError> {
        read_request(&mut self.stream, &mut self.opener)
    }
}

/// Those who look at this level while a command runs.
type Lookouts = Arc<Mutex<Option<Lookout>>>;

/// The watch over this level's payers while a command runs, whoever looks again and again, and who
/// counts its system calls.
struct Lookout {
    watch: Watch,
    sampler: Option<Sampler>,
    counting: Counting,
}

/// Counter of a command's system calls, where somebody wants them and its agent is a process here.
type Counting = Option<io::Result<Counter>>;

/// Serves the level above until it says `Stop` or is gone.
///
/// # Errors
/// The machine's, when the stream breaks; nothing that was started is left.
pub fn serve() -> Result<(), Fault> {
    let (sealer, opener) = agents();
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let stream = File::from(stdin.doing("take the starter's standard input")?);
    let mut requests = Requests { stream, opener };
    let replies = std::io::stdout().as_fd().try_clone_to_owned();
    let replies = File::from(replies.doing("take the starter's standard output")?);
    let upward = Arc::new(Mutex::new((replies, sealer)));
    // What anybody prints from now on must not end up between two frames.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).doing("set standard output aside")?;
    let hello = Hello { protocol: PROTOCOL, pid: std::process::id(), at: clock::monotonic_raw() };
    say(&upward, &Reply::Hello(hello))?;

    // On another machine these are not the mounts of a container.
    let lab = if std::env::args_os().nth(2).is_some_and(|place| place == ELSEWHERE) {
        Lab::open()?
    } else {
        lab::unlock_groups();
        Lab::open_in_level()?
    };
    let Some((what, running)) = answer_starts(&mut requests, &upward, &lab)? else {
        lab.close()?;
        return say(&upward, &Reply::Stopped);
    };
    let below = pass_on(&mut requests, &upward, running, what.level, lab.hierarchies());
    let leftovers = below.and_then(|running| running.0.finish(running.1));
    if let Err(fault) = &leftovers {
        eprintln!("surtax starter: {fault}");
    }
    lab.close()?;
    say(&upward, &Reply::Stopped)
}

/// Waits for a `StartNested` that succeeds. `None`: the level above does not want one any more.
fn answer_starts(
    requests: &mut Requests,
    upward: &Upward,
    lab: &Lab,
) -> Result<Option<(StartNested, RunningStack)>, Fault> {
    loop {
        match requests.next() {
            Ok(Request::StartNested(what)) => match start(&what, lab) {
                Ok(running) => {
                    say(upward, &Reply::StartedNested(running.evidence().to_vec()))?;
                    return Ok(Some((what, running)));
                }
                Err(fault) => say(upward, &failed(fault))?,
            },
            Ok(Request::Stop) | Err(WireError::Closed) => return Ok(None),
            Ok(_) => say(
                upward,
                &failed(Fault::bug("a starter was asked before it started the rest of the stack")),
            )?,
            Err(error) => return Err(Fault::machine(format!("a starter lost its host: {error}"))),
        }
    }
}

fn start(what: &StartNested, lab: &Lab) -> Result<RunningStack, Fault> {
    let path = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(bytes));
    let writable: Vec<PathBuf> = what.writable.iter().map(path).collect();
    let agent = lab.agent()?;
    let cache = crate::lab::cache_directory()?;
    let context = StartContext {
        lab,
        level: what.level,
        agent: &agent,
        cache: &cache,
        writable: &writable,
        cwd: Path::new(OsStr::from_bytes(&what.cwd)),
        command: what.command.as_ref(),
        network: None,
        start_deadline: what.start_deadline.into(),
    };
    driver::parse(&what.stack)?.start(&context, "stack")
}

/// Passes requests down and replies up. Gives the stack back with how the levels below ended.
fn pass_on(
    requests: &mut Requests,
    upward: &Upward,
    mut running: RunningStack,
    level: u8,
    hierarchies: &Hierarchies,
) -> Result<(RunningStack, Result<(), Fault>), Fault> {
    let lookouts = Lookouts::default();
    let (stopped, has_stopped) = channel();
    let link = running.take_link()?;
    let mut speaker = link.speaker;
    let deeper = running.deeper();
    let replies = Replies { listener: link.listener, lookouts: lookouts.clone(), deeper, level };
    let thread_upward = upward.clone();
    std::thread::spawn(move || replies.pass_up(&thread_upward, &stopped));
    loop {
        let mut request = match requests.next() {
            Ok(Request::Stop) | Err(_) => break,
            Ok(request) => request,
        };
        if let Request::Run(command) = &mut request {
            let counting = count(command, running.agent());
            let (payers, every) = watched(command, running.payers());
            let sampler =
                every.map(|every| sampler(upward, payers.clone(), level, hierarchies, every));
            let watch = Watch::begin(payers, level, hierarchies);
            let _ = stops::of_children(); // what was before is not of this command
            let mut lookout = lookouts.lock().unwrap_or_else(PoisonError::into_inner);
            *lookout = Some(Lookout { watch, sampler, counting });
        }
        // Input waits until a command reads; whoever sent it has a limit of its own for an agent
        // that takes none.
        let is_behind_input =
            matches!(request, Request::Data(_) | Request::CloseRelay | Request::Resize { .. });
        let patience = if is_behind_input { FOREVER } else { PATIENCE };
        if let Err(fault) = speaker.send_within(&request, patience) {
            say(upward, &failed(fault))?;
        }
    }
    let below = stop_below(speaker.as_mut(), &has_stopped);
    Ok((running, below))
}

/// Returns whom to look at on this level while a command runs, its machine too where its kernel is
/// not that of the level outside, and how often, if again and again. Tells the level below of this
/// kernel.
fn watched(command: &mut Command, mut payers: Vec<Payer>) -> (Vec<Payer>, Option<Duration>) {
    let Some(watching) = &mut command.watching else { return (payers, None) };
    let own = clock::kernel_begin_ns();
    if !clock::is_one_kernel(watching.kernel_begin_ns, own) {
        payers.extend(Payer::whole_machine());
    }
    watching.kernel_begin_ns = own;
    let every = (watching.every > Nanoseconds(0)).then(|| watching.every.into());
    (payers, every)
}

/// Looks so often, and tells the level above.
fn sampler(
    upward: &Upward,
    payers: Vec<Payer>,
    level: u8,
    hierarchies: &Hierarchies,
    every: Duration,
) -> Sampler {
    let upward = Arc::clone(upward);
    Sampler::begin(payers, level, hierarchies, every, move |Sample { at, readings }| {
        // Whoever cannot be told is missed by the thread that answers.
        let _ = say(&upward, &Reply::Sampled { at, readings });
    })
}

/// Counts in the place of an agent that is a process of this level, which is then not asked to.
fn count(command: &mut Command, agent: Option<u32>) -> Counting {
    let agent = agent.filter(|_| command.counts_calls)?;
    command.counts_calls = false;
    Some(Counter::begin(agent))
}

fn stop_below(speaker: &mut dyn Speaker, has_stopped: &Receiver<()>) -> Result<(), Fault> {
    speaker.send(&Request::Stop)?;
    has_stopped
        .recv_timeout(STOP_DEADLINE)
        .map_err(|_| Fault::machine("the layer below the starter did not say that it stopped"))
}

/// The thread that carries replies up.
struct Replies {
    listener: Box<dyn Listener>,
    lookouts: Lookouts,
    /// Levels that a starter below speaks for.
    deeper: Option<Deeper>,
    /// This level.
    level: u8,
}

impl Replies {
    fn pass_up(mut self, upward: &Upward, stopped: &Sender<()>) {
        loop {
            let mut reply = match self.listener.receive(FOREVER) {
                Ok(Stamped { reply: Reply::Stopped, .. }) => {
                    let _ = stopped.send(());
                    return;
                }
                Ok(stamped) => stamped.reply,
                Err(fault) => {
                    drop(self.sampler());
                    let _ = say(upward, &failed(fault));
                    return;
                }
            };
            reply = match reply {
                Reply::Dropped(below) => {
                    let here = std::iter::once(cache::drop_page_cache());
                    Reply::Dropped(here.chain(below).collect())
                }
                // Nobody further in speaks for this level.
                Reply::Sampled { readings, .. }
                    if readings.iter().any(|it| it.level <= self.level) =>
                {
                    continue;
                }
                Reply::Clock { at, mut passed } => {
                    passed.retain(|(level, _)| *level > self.level);
                    passed.push((self.level, clock::monotonic_raw()));
                    Reply::Clock { at, passed }
                }
                // The command could not be begun.
                Reply::Failed(failure) => {
                    drop(self.sampler());
                    Reply::Failed(failure)
                }
                reply => reply,
            };
            if let Reply::Exited(outcome) = &mut reply {
                // Whoever carries the command on this level stood still with it.
                let carriers = u32::try_from(stops::of_children()).unwrap_or(u32::MAX);
                if let Some(stops) = &mut outcome.stops {
                    stops.count = stops.count.max(carriers);
                }
                // Nothing that it sees may come after the end.
                drop(self.sampler());
                let mut lookout = self.lookouts.lock().unwrap_or_else(PoisonError::into_inner);
                let counting = lookout.as_mut().and_then(|it| it.counting.take());
                if let Some(counter) = counting {
                    let counted = counter.and_then(Counter::end);
                    outcome.calls = Some(Box::new(Calls::of(counted)));
                }
            }
            let has_ended = matches!(reply, Reply::Exited(_));
            if say(upward, &reply).is_err() || (has_ended && self.add_bill(upward).is_err()) {
                return;
            }
        }
    }

    /// Takes whoever looks again and again.
    fn sampler(&self) -> Option<Sampler> {
        let mut lookout = self.lookouts.lock().unwrap_or_else(PoisonError::into_inner);
        lookout.as_mut()?.sampler.take()
    }

    /// This level's readings, and below them those of the next level, as one bill.
    fn add_bill(&mut self, upward: &Upward) -> Result<(), Fault> {
        let lookout = self.lookouts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut readings = lookout.map(|it| it.watch.end()).unwrap_or_default();
        if let Some(deeper) = self.deeper {
            match self.listener.receive(BILL_DEADLINE)?.reply {
                Reply::Bill(below) => readings.extend(deeper.checked(below)?),
                other => return Err(crate::agent::unexpected(&other, "the end of a command")),
            }
        }
        say(upward, &Reply::Bill(readings))
    }
}

fn failed(fault: Fault) -> Reply {
    let hint = fault.hint.unwrap_or_default();
    let forged = (fault.blame == Blame::Inside).then_some(Cause::Forged);
    Reply::Failed(Failure { cause: forged.or(fault.cause), what: fault.message, hint })
}

fn say(upward: &Upward, reply: &Reply) -> Result<(), Fault> {
    let mut upward = upward.lock().unwrap_or_else(PoisonError::into_inner);
    let (stream, sealer) = &mut *upward;
    write_reply(stream, sealer, reply).doing("answer the level above")
}
