//! The networks of stacks whose texts leave them out, for a workload with two sides: one side is outside.

use super::refuse::Draft;
use crate::fault::Fault;
use crate::layer::{self, Card};
use crate::stack::reach::{Promise, promise};
use crate::stack::{LayerSpec, StackSpec};

/// The option.
const KEY: &str = "net";

/// Networks on which a layer's inside and the outside can call each other: what is nearest to a cable first.
const BOTH_WAYS: [&str; 6] = ["veth", "bridge", "tap", "sandbox", "slirp4netns", "host"];

/// The one on which each layer further in is on the network of its own level.
const SHARED: [&str; 1] = ["host"];

impl Draft {
    /// Whether one side of what is measured is outside of the stack.
    ///
    /// # Errors
    /// The user's: the workload's parameters do not fit.
    pub(super) fn has_two_sides(&self) -> Result<bool, Fault> {
        let Some(workload) = &self.workload else { return Ok(false) };
        Ok(workload.resolve()?.server.is_some())
    }

    /// What is said of the stacks that have got a network, if any.
    ///
    /// # Errors
    /// The user's: the workload's parameters do not fit.
    pub(super) fn network_note(&self, cards: &[&'static Card]) -> Result<Option<String>, Fault> {
        let Some(workload) = self.workload.as_ref().filter(|_| !self.stacks.is_empty()) else {
            return Ok(None);
        };
        if !self.has_two_sides()? {
            return Ok(None);
        }
        let changed = self.stacks.iter().filter_map(|stack| {
            let connected = connected(stack, cards);
            (connected != *stack).then(|| format!("`{stack}` is `{connected}`"))
        });
        let changed = changed.collect::<Vec<_>>().join(", ");
        let name = workload.name.escape_debug();
        Ok((!changed.is_empty())
            .then(|| format!("one side of `{name}` is outside of the stack, so {changed}")))
    }
}

/// The stack with a way to the outside: where its text says that there is none, each layer that names no network
/// gets one. Where no network helps, it stays as it is, and is a gap that says why.
pub(super) fn connected(stack: &StackSpec, cards: &[&'static Card]) -> StackSpec {
    if promise(stack) != Promise::Nothing {
        return stack.clone();
    }
    let mut connected = stack.clone();
    for depth in 0..connected.layers.len() {
        let words: &[&str] = if depth == 0 { &BOTH_WAYS } else { &SHARED };
        let inside = connected.layers.get(depth + 1).cloned();
        if let Some(layer) = connected.layers.get_mut(depth)
            && let Some(word) = network(layer, inside.as_ref(), words, cards)
        {
            layer.options.insert(KEY.to_owned(), word.to_owned());
        }
    }
    if promise(&connected) == Promise::Nothing { stack.clone() } else { connected }
}

/// The first of some networks that a layer can have, if it names none itself.
fn network(
    layer: &LayerSpec,
    inside: Option<&LayerSpec>,
    words: &[&'static str],
    cards: &[&'static Card],
) -> Option<&'static str> {
    if layer.options.contains_key(KEY) {
        return None;
    }
    let card = cards.iter().find(|card| card.kind == layer.kind)?;
    let choice = card.options.iter().find(|choice| choice.key == KEY)?;
    let limits = layer.limits().ok()?;
    words.iter().copied().filter(|word| choice.values.contains(word)).find(|word| {
        let mut with = layer.clone();
        with.options.insert(KEY.to_owned(), (*word).to_owned());
        layer::find(&layer.kind).is_ok_and(|driver| driver.refuse(&with, &limits, inside).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::registered;

    #[test]
    fn a_stack_without_a_network_gets_the_one_that_is_nearest_to_a_cable() {
        for (text, expected) in [
            ("native", "native"),
            ("runc", "runc:net=veth"),
            ("runc:net=host", "runc:net=host"),
            ("docker", "docker"),
            ("podman", "podman:net=bridge"),
            ("podman:rootless=on", "podman:net=slirp4netns,rootless=on"),
            ("gvisor", "gvisor:net=sandbox"),
            ("lxc", "lxc:net=veth"),
            ("nspawn:init=busybox", "nspawn:init=busybox,net=veth"),
            ("qemu", "qemu:net=tap"),
            ("qemu:accel=tcg+runc", "qemu:accel=tcg,net=tap+runc:net=host"),
            ("qemu:net=user+docker", "qemu:net=user+docker"),
            ("runc+runc", "runc:net=veth+runc:net=host"),
            // What is asked for stays, also where it leads nowhere.
            ("runc:net=none", "runc:net=none"),
            ("runc+runc:net=none", "runc+runc:net=none"),
            ("simulated", "simulated"),
        ] {
            let stack = StackSpec::parse(text).unwrap();
            let expected = StackSpec::parse(expected).unwrap();
            assert_eq!(connected(&stack, &registered()), expected, "{text}");
        }
    }
}
