//! Drivers: one entry per environment, and the registry of all.

mod appliance;
mod bubblewrap;
mod docker;
mod gvisor;
pub mod krun;
mod libvirt;
mod lxc;
mod lxd;
mod machine_group;
mod monitor;
mod namespaces;
mod native;
mod nspawn;
mod oci;
mod podman;
mod qemu;
pub mod rights;
pub mod scratch_proof;
mod simulated;
mod ssh;
pub mod untrusted;
mod xen;

/// The kinds of noise that `simulated` knows: what may follow `shape=`.
pub use simulated::NOISE_SHAPES;

use crate::container::first_process::FirstProcess;
use crate::container::users;
use crate::fault::Fault;
use crate::layer::{Descriptor, Files, Inner, Layer, LayerSpec, Payer, StackSpec, parse_list_with};
use std::path::PathBuf;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::Fact;

/// Every kind of layer, in the order in which `doctor` lists them.
pub static REGISTRY: &[&dyn Layer] = &[
    &native::Native,
    &namespaces::Namespaces,
    &bubblewrap::BUBBLEWRAP,
    &oci::RUNC,
    &oci::CRUN,
    &oci::YOUKI,
    &nspawn::NSPAWN,
    &lxc::LXC,
    &lxd::Lxd,
    &gvisor::GVISOR,
    &docker::Docker,
    &podman::PODMAN,
    &qemu::Qemu,
    &monitor::CLOUD_HYPERVISOR,
    &monitor::FIRECRACKER,
    &krun::Krun,
    &xen::Xen,
    &appliance::Appliance,
    &libvirt::Libvirt,
    &ssh::Ssh,
    &simulated::Simulated,
];

/// The driver of a kind.
///
/// # Errors
/// Ours: the text of a stack is checked against the registry when it is read.
pub fn find(kind: &str) -> Result<&'static dyn Layer, Fault> {
    known(kind).ok_or_else(|| Fault::bug(format!("no driver is registered for `{kind}`")))
}

fn known(kind: &str) -> Option<&'static dyn Layer> {
    REGISTRY.iter().find(|driver| driver.descriptor().kind == kind).copied()
}

/// The descriptors of the registry, in its order.
#[must_use]
pub fn registered() -> Vec<&'static Descriptor> {
    REGISTRY.iter().map(|layer| layer.descriptor()).collect()
}

/// The descriptors of the containers: those that lay an overlay over their level's files, of which
/// `native` is the least.
pub fn containers() -> impl Iterator<Item = &'static Descriptor> {
    let is_one = |it: &&Descriptor| it.is_listed && it.files == Files::Overlaid;
    registered().into_iter().filter(is_one)
}

/// The descriptor of a kind; none of one that only another surtax knows.
#[must_use]
pub fn descriptor(kind: &str) -> Option<&'static Descriptor> {
    known(kind).map(|driver| driver.descriptor())
}

/// A layer with its descriptor, as the one inside of another; none that only another surtax knows.
#[must_use]
pub fn inner(spec: &LayerSpec) -> Option<Inner<'_>> {
    descriptor(&spec.kind).map(|descriptor| Inner { spec, descriptor })
}

/// Reads a stack and checks it against the registry.
///
/// # Errors
/// See [`StackSpec::parse_with`].
pub fn parse(text: &str) -> Result<StackSpec, Fault> {
    StackSpec::parse_with(text, &registered())
}

/// Reads a comma-separated list of stacks and checks each against the registry.
///
/// # Errors
/// The first stack's that is refused; see [`StackSpec::parse_with`].
pub fn parse_list(text: &str) -> Result<Vec<StackSpec>, Fault> {
    parse_list_with(text, &registered())
}

/// Refuses a layer inside another one whose files it cannot have.
///
/// # Errors
/// The user's: it maps users of its own, and the kernel maps no owners of the files there.
pub fn refuse_inside(outer: &LayerSpec, inner: Inner<'_>) -> Result<(), Fault> {
    users::refuse_users_on_a_layer(outer, inner)
}

/// Finds the agent among those who work for a layer, by what it saw of itself, where it is a
/// process of this level.
#[must_use]
pub fn agent(payers: &[Payer], hierarchies: &Hierarchies, inside: &[Fact]) -> Option<u32> {
    FirstProcess::agent_of(payers, hierarchies, inside).map(|agent| agent.pid())
}

/// Tells whether a layer is another machine. One that only another surtax knows is none.
#[must_use]
pub fn is_elsewhere(layer: &LayerSpec) -> bool {
    descriptor(&layer.kind).is_some_and(|descriptor| descriptor.is_remote)
}

/// Tells whether a command in a stack runs on another machine, with other files.
#[must_use]
pub fn runs_elsewhere(stack: &StackSpec) -> bool {
    stack.layers.iter().any(is_elsewhere)
}

/// Tells whether what a command in a stack writes stays on another machine.
#[must_use]
pub fn writes_stay_elsewhere(stack: &StackSpec) -> bool {
    stack.innermost().is_some_and(is_elsewhere)
}

/// Tells whether what its level keeps secret is empty in a layer: where it starts from that level's
/// own root.
#[must_use]
pub fn conceals_secrets(layer: &LayerSpec) -> bool {
    descriptor(&layer.kind).is_some_and(|descriptor| layer.is_concealed_by(descriptor))
}

/// Lists files of this machine that a layer is made of, absolute; none of a layer that only another
/// surtax knows.
#[must_use]
pub fn files(layer: &LayerSpec) -> Vec<PathBuf> {
    known(&layer.kind).map_or_else(Vec::new, |driver| driver.files(layer))
}

/// Lists files of the machine that a stack borrows on this level, as its owner described it; none
/// where it borrows none, or nobody knows it.
#[must_use]
pub fn borrowed(stack: &StackSpec) -> Vec<PathBuf> {
    let first = stack.layers.first().filter(|layer| layer.kind == libvirt::DESCRIPTOR.kind);
    first.map_or_else(Vec::new, libvirt::files)
}

#[cfg(test)]
mod tests {
    mod pages;

    use super::*;
    use crate::layer::Limit;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_variant_is_one_that_can_be_asked_for_and_stands_there_once() {
        let mut seen = BTreeSet::new();
        for descriptor in registered() {
            for text in descriptor.variants {
                let stack = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
                assert_eq!(stack.layers[0].kind, descriptor.kind, "{text}");
                assert!(seen.insert(stack.to_string()), "{text} stands there twice");
            }
            assert!(descriptor.not_yet_run.iter().all(|text| descriptor.variants.contains(text)));
        }
        assert!(seen.len() > 150, "{seen:?}");
    }

    /// A slip in a key that is read would be an option that nobody gives.
    #[test]
    fn every_option_that_is_read_is_one_of_a_layer() {
        let own = registered().into_iter().flat_map(|it| it.options).map(|option| option.key);
        let limits = Limit::ALL.into_iter().flat_map(|limit| limit.keys().iter().copied());
        let known: BTreeSet<&str> = own.chain(limits).chain(["root"]).collect();
        let mut read = BTreeSet::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    read.extend(options_read(&std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let unknown: Vec<&String> =
            read.iter().filter(|key| !known.contains(key.as_str())).collect();
        assert!(unknown.is_empty() && read.len() > 50, "{unknown:?} of {read:?}");
    }

    /// Keys that a source reads as words.
    fn options_read(source: &str) -> Vec<String> {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let ways = [".option(\"", ".says(\"", ".options.get(\"", ".options.contains_key(\""];
        let keys = ways.into_iter().flat_map(|way| code.split(way).skip(1));
        keys.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    }
}
