//! Way by which a stack's command reaches the outside, and how it is told.
//!
//! The outside stands on the level from which the measurement is made. A command reaches it through
//! the outermost layer alone: each layer further in must leave its inside on the network of its own
//! level, or there is no way through.

use crate::driver;
use crate::layer::{LayerSpec, Reach, StackSpec, WorkloadNetwork};
use std::net::IpAddr;
use surtax_instrument::wire::{Command, Fact, LevelFacts};

/// The variable in which a command finds the outside's address; unset where it cannot be reached.
pub const PEER: &str = "SURTAX_PEER";

/// The fact by which a level says whose network its inside is on.
const KEY: &str = "network_reach";

/// Value of that fact where the network is the level's own.
const SHARED: &str = "this level's own network";

/// Source of a layer's facts about the way to the outside.
const SOURCE: &str = "how the layer was started";

/// Statement of a stack's text about the way between its command and the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// There is none.
    Nothing,
    /// The command can call, and not be called.
    Outward,
    /// Either can call the other.
    BothWays,
    /// It depends on what is found when the stack is started.
    Unknown,
}

/// Returns what can be known before anything is started.
#[must_use]
pub fn promise(stack: &StackSpec) -> Reachability {
    let Some((outermost, deeper)) = stack.layers.split_first() else {
        return Reachability::Nothing;
    };
    let leads_on = |layer| matches!(of_layer(layer), Reach::Level | Reach::Daemon | Reach::Unknown);
    if !deeper.iter().all(leads_on) {
        return Reachability::Nothing;
    }
    match of_layer(outermost) {
        Reach::Nothing => Reachability::Nothing,
        Reach::Outward => Reachability::Outward,
        Reach::Level | Reach::Link | Reach::Bridge { .. } | Reach::Engine | Reach::Far => {
            Reachability::BothWays
        }
        Reach::Daemon | Reach::Unknown => Reachability::Unknown,
    }
}

/// Returns what the layer's own descriptor says of its network.
fn of_layer(layer: &LayerSpec) -> Reach {
    // The text of a stack is checked against the registry when it is read.
    driver::find(&layer.kind).map_or(Reach::Nothing, |driver| driver.descriptor().reach_of(layer))
}

/// Returns where the inside of a stack is, for another stack that is to meet it: on the way of its
/// outermost layer, if each further in stays on its level's.
fn reach_outside(stack: &StackSpec) -> Reach {
    let Some((outermost, deeper)) = stack.layers.split_first() else { return Reach::Nothing };
    if deeper.iter().any(|layer| of_layer(layer) != Reach::Level) {
        return Reach::Nothing;
    }
    match of_layer(outermost) {
        // That it is indeed the level's own is proved when it stands.
        Reach::Daemon => Reach::Level,
        other => other,
    }
}

/// Tells whether two stacks are on one network of an engine's.
fn is_of_one_engine(server: &StackSpec, client: &StackSpec) -> bool {
    let network = |stack: &StackSpec| {
        let layer = stack.layers.first()?;
        Some((layer.kind.clone(), layer.option("net")?.to_owned()))
    };
    network(server).is_some() && network(server) == network(client)
}

/// Says why a client in a stack of its own cannot meet a server in another one, and what would
/// help, as far as their texts say; `None` where they can meet. Two stacks meet on their level's
/// own network, by which another machine is reached too, on one engine's, or on the bridge of the
/// first.
#[must_use]
pub fn cannot_meet(server: &StackSpec, client: &StackSpec) -> Option<(&'static str, String)> {
    let (one, other) = (reach_outside(server), reach_outside(client));
    let is_possible = match (one, other) {
        (Reach::Level, Reach::Level | Reach::Far | Reach::Outward)
        | (Reach::Far, Reach::Level)
        | (Reach::Bridge { .. }, Reach::Bridge { joins: true }) => true,
        (Reach::Engine, Reach::Engine) => is_of_one_engine(server, client),
        _ => needs_bridge(server, client),
    };
    if is_possible {
        return None;
    }
    let (what, remedy) = match (one, other) {
        (Reach::Far, Reach::Far) => (
            "how one other machine reaches another one is not known here",
            "let one side be on this machine: leave `client=` out, or put the server into `native`",
        ),
        (_, Reach::Far) => (
            "another machine reaches none but this machine's own network",
            "let the server be there: `native`, or `net=host` in every layer",
        ),
        (Reach::Far, _) => (
            "the server is on another machine, which is reached over this machine's own network \
             alone",
            "let the client be there: `client=runc:net=host`, or leave `client=` out",
        ),
        _ => return Some(("there is no network that both can be in", on_one_network())),
    };
    Some((what, String::from(remedy)))
}

/// Way of a bridge that a second stack can join.
const JOINED: Reach = Reach::Bridge { joins: true };

/// Returns how two stacks come to be on one network.
fn on_one_network() -> String {
    let mut ways: Vec<(&str, Vec<String>)> = Vec::new();
    for descriptor in driver::registered() {
        let words = descriptor.reach.iter().filter(|(_, reach)| *reach == JOINED);
        for (word, _) in words {
            let kind = format!("`{}`", descriptor.kind);
            match ways.iter_mut().find(|(known, _)| known == word) {
                Some((_, kinds)) => kinds.push(kind),
                None => ways.push((word, vec![kind])),
            }
        }
    }
    let clients = ways.iter().map(|(word, kinds)| {
        let kinds = match kinds.as_slice() {
            [several @ .., last] if !several.is_empty() => {
                format!("{} and {last}", several.join(", "))
            }
            one => one.concat(),
        };
        format!("{kinds} with `net={word}`")
    });
    let clients = clients.collect::<Vec<_>>().join(" or ");
    format!(
        "let both be on this machine's network (`native`, `net=host`), or both containers of one \
         engine, or the client one of {clients}"
    )
}

/// Tells whether the two meet on a bridge that neither of them makes: the server is an ordinary
/// process, which then stands where the outside of the client would.
#[must_use]
pub fn needs_bridge(server: &StackSpec, client: &StackSpec) -> bool {
    let is_native = matches!(server.layers.as_slice(), [layer] if layer.kind == "native");
    is_native && reach_outside(client) == Reach::Bridge { joins: true }
}

/// Returns facts about a layer's network, as evidence.
pub(super) fn facts(network: Option<&WorkloadNetwork>) -> Vec<Fact> {
    let Some(network) = network else {
        return vec![Fact::new(KEY, "none", SOURCE)];
    };
    let reach = match (network.is_shared, network.workload) {
        (true, _) => SHARED,
        (false, Some(_)) => "both ways",
        (false, None) => "outward only",
    };
    let mut facts = vec![Fact::new(KEY, reach, SOURCE)];
    if network.is_far {
        // Both are addresses of machines themselves.
        return facts;
    }
    facts.push(Fact::new("outside_address", network.outside.to_string(), SOURCE));
    facts.extend(network.workload.map(|it| Fact::new("workload_address", it.to_string(), SOURCE)));
    facts
}

/// Keys of what an agent says of the links and addresses that it sees.
const OF_LINKS: [&str; 3] = ["interfaces", "link_drivers", "default_route"];

/// Tells whether a fact of the inside may be written down: the addresses of a machine itself are
/// nobody's business.
pub(super) fn may_be_told(network: Option<&WorkloadNetwork>, key: &str) -> bool {
    !OF_LINKS.contains(&key) || network.is_some_and(|network| !network.is_shared && !network.is_far)
}

/// The network between the innermost level and the outside of the outermost layer, given what the
/// levels below that one proved.
pub(super) fn through(
    outermost: Option<WorkloadNetwork>,
    below: &[LevelFacts],
) -> Option<WorkloadNetwork> {
    let is_shared = |fact: &Fact| fact.key == KEY && fact.value == SHARED;
    outermost.filter(|_| below.iter().all(|level| level.facts.iter().any(is_shared)))
}

/// Puts the outside's address into a command's environment, and takes away one that is not ours.
/// What is named there may be flooded, so no machine is.
pub(super) fn tell(network: Option<&WorkloadNetwork>, command: &mut Command) {
    tell_address(command, network.filter(|it| !it.is_far).map(|network| network.outside));
}

/// Puts the address of the other side into a command's environment, and takes away one that is not
/// ours.
pub(crate) fn tell_address(command: &mut Command, address: Option<IpAddr>) {
    command.env.retain(|(key, _)| key != PEER.as_bytes());
    let address = address.map(|address| address.to_string().into_bytes());
    command.env.extend(address.map(|address| (PEER.as_bytes().to_vec(), address)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(network: Option<&WorkloadNetwork>) -> LevelFacts {
        LevelFacts { layer: "x".into(), facts: facts(network) }
    }

    fn wired() -> WorkloadNetwork {
        let outside = [198, 18, 0, 1].into();
        WorkloadNetwork { outside, workload: None, is_shared: false, ..WorkloadNetwork::of_level() }
    }

    #[test]
    fn a_command_reaches_the_outside_only_through_levels_that_share_their_network() {
        let shared = WorkloadNetwork::of_level();
        let through = |below: &[LevelFacts]| through(Some(wired()), below);
        assert_eq!(through(&[]), Some(wired()));
        assert_eq!(through(&[level(Some(&shared)), level(Some(&shared))]), Some(wired()));
        assert_eq!(through(&[level(Some(&shared)), level(None)]), None);
        assert_eq!(through(&[level(Some(&wired())), level(Some(&shared))]), None);
        assert_eq!(super::through(None, &[level(Some(&shared))]), None);
    }

    #[test]
    fn what_a_stack_promises_is_known_from_its_text() {
        for (text, expected) in [
            ("native", Reachability::BothWays),
            ("runc", Reachability::Nothing),
            ("runc:net=veth", Reachability::BothWays),
            ("namespaces", Reachability::Nothing),
            ("qemu", Reachability::Nothing),
            ("qemu:net=user", Reachability::Outward),
            ("qemu:net=tap+runc:net=host", Reachability::BothWays),
            ("qemu:net=tap+runc", Reachability::Nothing),
            ("qemu:net=user+runc:net=host", Reachability::Outward),
            ("docker", Reachability::Unknown),
            ("xen", Reachability::Nothing),
            ("xen:net=bridge", Reachability::BothWays),
            ("simulated", Reachability::Nothing),
        ] {
            assert_eq!(promise(&driver::parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn the_addresses_of_a_machine_itself_are_not_written_down() {
        assert!(may_be_told(None, "kernel_release"));
        assert!(may_be_told(Some(&wired()), "interfaces"));
        assert!(!may_be_told(Some(&WorkloadNetwork::of_level()), "interfaces"));
        assert!(!may_be_told(None, "default_route"));
    }

    #[test]
    fn a_command_is_told_the_outsides_address_or_nothing() {
        let inherited = (PEER.as_bytes().to_vec(), b"10.9.8.7".to_vec());
        let mut command = Command { env: vec![inherited], ..Command::default() };
        tell(Some(&wired()), &mut command);
        assert_eq!(command.env, [(PEER.as_bytes().to_vec(), b"198.18.0.1".to_vec())]);
        tell(None, &mut command);
        assert_eq!(command.env, []);
    }
}
