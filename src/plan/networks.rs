//! The networks of stacks whose texts leave them out, for a workload with two sides: one side is
//! outside.

use super::refuse::Draft;
use crate::driver;
use crate::fault::Fault;
use crate::layer::{Descriptor, LayerSpec, NETWORK, StackSpec};
use crate::stack::reach::{Reachability, promise};

/// The network on which each layer further in is: that of its own level.
const SHARED: &str = "host";

impl Draft {
    /// Tells whether one side of what is measured is outside of the stack.
    ///
    /// # Errors
    /// The user's: the workload's parameters do not fit.
    pub(super) fn has_two_sides(&self) -> Result<bool, Fault> {
        let Some(workload) = &self.workload else { return Ok(false) };
        Ok(workload.resolve()?.server.is_some())
    }

    /// Describes the stacks that have got a network, each before and after, if there are any.
    pub(super) fn network_note(&self, joined: &[(StackSpec, StackSpec)]) -> Option<String> {
        let workload = self.workload.as_ref().filter(|_| !joined.is_empty())?;
        let changed = joined.iter().map(|(stack, joined)| format!("`{stack}` is `{joined}`"));
        let changed = changed.collect::<Vec<_>>().join(", ");
        let name = workload.name.escape_debug();
        Some(format!("one side of `{name}` is outside of the stack, so {changed}"))
    }
}

/// The stack with a way to the outside: where its text says that there is none, each layer that
/// names no network gets one. Where no network helps, it stays as it is, and is a gap that says
/// why.
pub(super) fn connected(stack: &StackSpec, descriptors: &[&'static Descriptor]) -> StackSpec {
    if promise(stack) != Reachability::Nothing {
        return stack.clone();
    }
    let mut connected = stack.clone();
    for depth in 0..connected.layers.len() {
        let inside = connected.layers.get(depth + 1).cloned();
        if let Some(layer) = connected.layers.get_mut(depth)
            && let Some(word) = network(layer, inside.as_ref(), depth > 0, descriptors)
        {
            layer.options.insert(NETWORK.to_owned(), word.to_owned());
        }
    }
    if promise(&connected) == Reachability::Nothing { stack.clone() } else { connected }
}

/// The first network by which a layer can be called, if it names none itself; a layer further in
/// takes only its level's.
fn network(
    layer: &LayerSpec,
    inside: Option<&LayerSpec>,
    is_further_in: bool,
    descriptors: &[&'static Descriptor],
) -> Option<&'static str> {
    if layer.options.contains_key(NETWORK) {
        return None;
    }
    let descriptor = Descriptor::of_kind(&layer.kind, descriptors)?;
    let limits = layer.limits().ok()?;
    let fits = |word: &&str| !is_further_in || *word == SHARED;
    descriptor.both_ways.iter().copied().filter(fits).find(|word| {
        let mut with = layer.clone();
        with.options.insert(NETWORK.to_owned(), (*word).to_owned());
        let inner = inside.and_then(driver::inner);
        driver::find(&layer.kind).is_ok_and(|driver| driver.refuse(&with, &limits, inner).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::registered;

    #[test]
    fn what_a_descriptor_calls_a_way_in_and_out_is_a_word_of_its_network() {
        for descriptor in registered() {
            let choice = descriptor.options.iter().find(|choice| choice.key == NETWORK);
            let words = choice.map_or(&[][..], |choice| choice.values);
            for word in descriptor.both_ways {
                assert!(words.contains(word), "`net={word}` of `{}`", descriptor.kind);
            }
            let is_shared = words.contains(&SHARED);
            assert_eq!(descriptor.both_ways.contains(&SHARED), is_shared, "`{}`", descriptor.kind);
        }
    }

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
            let stack = driver::parse(text).unwrap();
            let expected = driver::parse(expected).unwrap();
            assert_eq!(connected(&stack, &registered()), expected, "{text}");
        }
    }
}
