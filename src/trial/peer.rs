//! Trials with two sides: a server and its client, one in the stack, the other outside of it, or in
//! another stack.
//!
//! The outside stands on the level of the measurement, in the network namespace that the stack's
//! network leads to (`Running::network`), as a stack `native` of its own: with a room, a group and
//! a root that is thrown away. The server is started first. Its client waits until it can be
//! reached, so both begin together; what the client prints is what was measured, and the side in
//! the stack is whose CPU time counts as the command's.
//!
//! A client in another stack is in the place of the outside: that stack is started beside the first
//! one, on the same bridge where it gets a link of its own, or on another machine. The time in
//! which it measures is its own kernel's, whose clock is watched as that of the first one is. Where
//! both find each other is told in `endpoints.rs`.

use super::clock_sync::{ClockSync, Rate};
use super::command_run::{begin, finish};
use super::endpoints::{Endpoints, meet};
use super::iterate::TimedRun;
use super::overheard::Overheard;
use super::workload_steps::{like, require_server};
use crate::driver;
use crate::fault::Fault;
use crate::layer::publish::Port;
use crate::layer::{Payer, StackSpec, Unavailable, WorkloadNetwork};
use crate::stack::reach::{Reachability, cannot_meet, promise, tell_address};
use crate::stack::start::{RunningStack, StartContext};
use crate::workload::Definition;
use crate::workload::definition::Client;
use std::net::IpAddr;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Command, Fact, Outcome, Request, Status, Watching};

/// Time limit for a side to end after the other one has.
const LAST: Duration = Duration::from_secs(10);

/// Placeholder of the server's address in the words of both sides.
const ADDRESS: &str = "{address}";

/// Keys of the facts that are told of a client's stack.
const TOLD: [&str; 3] = ["inside_kernel_release", "inside_cpus_online", "network"];

/// Both sides of a trial, and the outside.
pub(super) struct Peer {
    outside: RunningStack,
    client: Command,
    server: Command,
    place: Client,
    endpoints: Endpoints,
    /// True where the server goes on until it is told to end.
    stops_server: bool,
    /// The clock of the outside, or of the other stack.
    clock: ClockSync,
}

/// Place in which one of the two sides runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Stack,
    Outside,
}

/// Returns the command that runs in the stack: the server of a workload whose client is elsewhere,
/// else the plan's own.
pub(super) fn inside(definition: Option<&Definition>, command: &Command) -> Command {
    let server =
        definition.and_then(|it| it.server.as_ref().filter(|_| it.client != Client::Stack));
    let argv = server.map(|words| words.iter().map(|word| word.clone().into_bytes()).collect());
    Command { argv: argv.unwrap_or_else(|| command.argv.clone()), ..command.clone() }
}

/// Returns why the two sides of a workload cannot meet in a stack, where its text already says so.
pub(super) fn gap(definition: &Definition, stack: &StackSpec) -> Option<Unavailable> {
    definition.server.as_ref()?;
    if let Client::Beside(beside) = &definition.client
        && let Some((what, remedy)) = cannot_meet(stack, beside)
    {
        let why = format!("a server in `{stack}` and a client in `{beside}` cannot meet: {what}");
        return Some(Unavailable::new(why, remedy));
    }
    let (what, remedy) = match (promise(stack), &definition.client) {
        (Reachability::BothWays | Reachability::Unknown, _)
        | (Reachability::Outward, Client::Stack) => {
            return None;
        }
        (Reachability::Outward, _) => (
            "a command in it can call and not be called",
            "put the client into the stack: `client=stack`",
        ),
        (Reachability::Nothing, _) => {
            ("there is no way between it and the outside", "give it a network: `net=…`")
        }
    };
    Some(Unavailable::new(
        format!("`{stack}` cannot have one side of the workload: {what}"),
        remedy,
    ))
}

/// Makes of a command the client of a server that was booted as the stack itself.
///
/// # Errors
/// The machine's: the client is to be elsewhere, there are several, or they call another port.
pub(super) fn call(
    definition: &Definition,
    network: &WorkloadNetwork,
    port: u16,
    command: &mut Command,
) -> Result<(), Fault> {
    if definition.client != Client::Native {
        return Err(Fault::machine("the image is the server itself, and its client beside it")
            .hint("leave `client=` out"));
    }
    if !command.instances.is_empty() {
        return Err(Fault::machine("the image is one server, and several were asked for")
            .hint("leave `--instances` out"));
    }
    let there = format!("{ADDRESS}:{port}");
    if !definition.command.iter().any(|word| word.contains(&there)) {
        return Err(Fault::machine(format!(
            "the image serves at port {port}, and the workload's client does not call that"
        ))
        .hint(format!("take a client of such a server, such as `net.tcp_echo:port={port}`")));
    }
    let address = network.workload.unwrap_or(network.outside).to_string();
    let filled = |word: &String| word.replace(ADDRESS, &address).into_bytes();
    command.argv = definition.command.iter().map(filled).collect();
    Ok(())
}

impl Peer {
    /// Raises the outside of a stack that stands.
    ///
    /// # Errors
    /// The machine's: the stack has no way to the outside after all, or the outside cannot be
    /// started.
    pub(super) fn open(
        definition: &Definition,
        sides: &[Definition],
        running: &RunningStack,
        command: &Command,
        context: &StartContext<'_>,
        name: &str,
    ) -> Result<Option<Self>, Fault> {
        if definition.server.is_none() {
            return Ok(None);
        }
        let place = definition.client.clone();
        let network = running.network().ok_or_else(|| {
            Fault::machine("the stack has no way to the outside, where one side of its workload is")
                .hint(
                    "give it a network: `net=…`; another machine is reached directly, without \
                     `ProxyJump` and without translation of addresses",
                )
        })?;
        // A way to another machine begins on this level's own network.
        let is_of_the_level = network.is_shared || network.is_far;
        let namespace = (!is_of_the_level).then_some(network.namespace.as_path());
        let spec = match &place {
            Client::Beside(beside) => beside.clone(),
            Client::Native | Client::Stack => driver::parse("native")?,
        };
        // A layer that is made for one command wants to know its program; where the server is, is
        // not known yet.
        let outer = match place {
            Client::Stack => definition.server.clone().unwrap_or_default(),
            _ => definition.command.clone(),
        };
        let outer = like(command, &outer);
        let context = StartContext { command: Some(&outer), network: namespace, ..*context };
        let mut outside = spec
            .start(&context, &format!("{name}-outside"))
            .map_err(|fault| fault.during("the outside"))?;
        // What is published is what the outside of such a stack would call.
        let published =
            network.published.filter(|port| sides.len() == 1 && is_at(definition, *port));
        let endpoints = meet(network, outside.network(), &place)?.at_published(published, network);
        let words = |words: &[String], address: IpAddr| -> Vec<Vec<u8>> {
            let address = address.to_string();
            words.iter().map(|word| word.replace(ADDRESS, &address).into_bytes()).collect()
        };
        let servers = sides.iter().flat_map(|it| &it.server);
        let server = several(command, servers.map(|it| words(it, endpoints.listen)).collect());
        let clients = sides.iter().map(|it| words(&it.command, endpoints.address));
        let mut client = several(command, clients.collect());
        if place != Client::Stack {
            // As a command in the stack is told of the outside.
            tell_address(&mut client, (!endpoints.is_far).then_some(endpoints.address));
        }
        let patience = outside.patience();
        let clock = ClockSync::take(outside.link()?, patience)?;
        let stops_server = definition.stops_server;
        Ok(Some(Self { outside, client, server, place, endpoints, stops_server, clock }))
    }

    /// Begins both sides, the server first: who runs where, and when each began.
    ///
    /// # Errors
    /// Either could not be started.
    pub(super) fn begin(
        &mut self,
        stack: &mut RunningStack,
    ) -> Result<[(Side, Nanoseconds); 2], Fault> {
        let Self { outside, client, server, place, .. } = self;
        let (sides, serving, calling) = match place {
            Client::Stack => ([Side::Outside, Side::Stack], outside, stack),
            _ => ([Side::Stack, Side::Outside], stack, outside),
        };
        let mut nobody = Overheard::default();
        let server_began = begin(serving, server, &mut nobody);
        let server_began = server_began.map_err(|fault| fault.during("the server"))?;
        let client_began = begin(calling, client, &mut nobody);
        let client_began = client_began.map_err(|fault| fault.during("the client"))?;
        Ok([(sides[0], server_began), (sides[1], client_began)])
    }

    /// Returns the stack that stands outside.
    pub(super) fn outside(&mut self) -> &mut RunningStack {
        &mut self.outside
    }

    /// Runs both sides once.
    ///
    /// # Errors
    /// The server failed, or either could not be started or does not end.
    pub(super) fn run(
        &mut self,
        stack: &mut RunningStack,
        deadline: Duration,
        (watching, ear): (Watching, &mut Overheard),
    ) -> Result<TimedRun, Fault> {
        let Self { outside, client, server, place, stops_server, .. } = self;
        let mut nobody = Overheard::default();
        let mut watched = if *place == Client::Stack { client.clone() } else { server.clone() };
        watched.watching = Some(watching);
        let (serving, calling, server, client, server_ear, client_ear) = match place {
            Client::Stack => (outside, stack, &*server, &watched, &mut nobody, ear),
            _ => (stack, outside, &watched, &*client, ear, &mut nobody),
        };
        let server_began = begin(serving, server, server_ear)?;
        let called = begin(calling, client, client_ear)
            .and_then(|began| finish(calling, began, deadline, client_ear));
        let has_worked = called.as_ref().is_ok_and(|ran| ran.outcome.status == Status::Exit(0));
        if !has_worked || *stops_server {
            serving.link()?.send(&Request::Cancel)?;
        }
        // A server that could not start is the reason why its client found none.
        let served = finish(serving, server_began, LAST, server_ear);
        let (served, called) = match (served, called) {
            (Err(fault), _) => return Err(fault.during("the server")),
            (Ok(served), Ok(called)) => (served, called),
            (Ok(_), Err(fault)) => return Err(fault.during("the client")),
        };
        let has_failed = matches!(served.outcome.status, Status::Exit(code) if code != 0);
        if has_failed || (has_worked && !*stops_server) {
            require_server(&served.outcome, &called.outcome)?;
        }
        Ok(match place {
            Client::Stack => called,
            _ => TimedRun {
                began: called.began,
                between: called.between,
                outcome: Outcome {
                    cpu_user: served.outcome.cpu_user,
                    cpu_system: served.outcome.cpu_system,
                    memory_peak: served.outcome.memory_peak,
                    counts: served.outcome.counts.clone(),
                    stops: served.outcome.stops,
                    oom_kill_count: served.outcome.oom_kill_count,
                    ..called.outcome
                },
                bill: served.bill,
            },
        })
    }

    /// Tells whether what the side in the stack says is heard while it runs: a server is only
    /// listened to when its client has ended.
    pub(super) fn is_heard(&self) -> bool {
        self.place == Client::Stack
    }

    /// The side in the stack.
    pub(super) fn inside(&self) -> &Command {
        match self.place {
            Client::Stack => &self.client,
            _ => &self.server,
        }
    }

    /// Lists who works for the outside on this level: no part of the stack's bill.
    pub(super) fn payers(&self) -> Vec<Payer> {
        self.outside.payers()
    }

    /// Returns where the sides were, as evidence.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let place = match &self.place {
            Client::Native => String::from("outside, on the level of the measurement"),
            Client::Stack => String::from("in the stack"),
            Client::Beside(beside) => format!("in another stack, {beside}"),
        };
        let mut facts = vec![Fact::new("client_place", place, "how both sides were started")];
        facts.extend(self.endpoints.facts());
        if matches!(self.place, Client::Beside(_)) {
            let network = self.outside.network().filter(|network| !network.is_far);
            let address = network.and_then(|network| network.workload);
            let address = address.map(|address| address.to_string());
            facts.extend(address.map(|it| Fact::new("client_address", it, "that stack's network")));
            let is_shared = self.clock.is_shared();
            let clock = if is_shared { "the host's" } else { "its own, and watched" };
            facts.push(Fact::new("client_clock", clock, "exchanges with its agent"));
            let innermost = self.outside.evidence().last();
            let seen = innermost.into_iter().flat_map(|level| &level.facts);
            let told = seen.filter(|fact| TOLD.contains(&fact.key.as_str()));
            facts.extend(told.map(|Fact { key, value, source }| {
                Fact::new(format!("client_{key}"), value, source)
            }));
        }
        facts
    }

    /// Returns what is known of the clock of whoever runs the client, by which host time is told:
    /// the outside's, or the one `inside` the stack.
    pub(super) fn clock_of_the_client(&self, inside: ClockSync) -> ClockSync {
        if self.place == Client::Stack { inside } else { self.clock }
    }

    /// Returns how the clock by which a client in another stack has measured ran. `None` where it
    /// is the host's, or the client is in no other stack.
    ///
    /// # Errors
    /// The link's.
    pub(super) fn rate(&mut self) -> Result<Option<Rate>, Fault> {
        if self.clock.is_shared() || !matches!(self.place, Client::Beside(_)) {
            return Ok(None);
        }
        let patience = self.outside.patience();
        let now = ClockSync::take(self.outside.link()?, patience)?;
        Ok(Some(self.clock.rate_until(now)))
    }

    /// Ends the outside; what was left of it.
    pub(super) fn stop(self) -> Vec<String> {
        self.outside.stop().unwrap_or_else(|fault| vec![fault.message])
    }
}

/// Tells whether that is the port at which a client outside calls this workload's server.
fn is_at(definition: &Definition, port: Port) -> bool {
    definition.client == Client::Native
        && !definition.is_over_udp
        && definition.port == Some(port.number)
        && port.protocol == "tcp"
}

/// The command of these words, or several of it at once.
fn several(command: &Command, mut words: Vec<Vec<Vec<u8>>>) -> Command {
    let argv = words.first().cloned().unwrap_or_default();
    if words.len() == 1 {
        words.clear();
    }
    Command { argv, instances: words, ..command.clone() }
}

#[cfg(test)]
mod tests;
