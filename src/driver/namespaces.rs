//! Plain namespaces, without any tool: the least that a container costs, one kind at a time.
//!
//! surtax (host) ── unshare(2) ── agent (PID 1 of its namespace) ── command
//!
//! - **Needs** root, and a kernel that has the kinds asked for.
//! - **Leaves out** capabilities, seccomp, devices of its own, a fresh `/sys`, and the mount
//!   namespace, which `native` has as well for the throw-away layer over `/`: what is left is the
//!   cost of each kind of namespace alone, so that `namespaces:pid=host` beside `namespaces` is
//!   that of one.
//! - **Payers** the agent and the command, in one group: surtax.
//! - **Checked against** `namespaces(7)`, `unshare(2)`, Linux 6.18.

use super::native::{Grouping, PlainProcess, same_kernel};
use crate::container::first_process::FirstProcess;
use crate::container::oci::NET;
use crate::fault::{Doing, Fault};
use crate::lab::{Limits, Room};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Limit, OptionSpec, Payer, Reach, Rights, Running, Site,
    StartGuess, Started, Unavailable, Usable, WorkloadNetwork, medium, option,
};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// Namespaces of this level's kernel.
pub struct Namespaces;

/// Option for a kind of namespace: one of its own, or this level's.
const fn choice(key: &'static str, help: &'static str) -> OptionSpec {
    option(key, &["private", "host"]).help(help)
}

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "namespaces", "namespaces:pid=host", "namespaces:net=host", "namespaces:ipc=host",
    "namespaces:uts=host", "namespaces:cgroup=host", "namespaces:group=none",
    "namespaces:user=private", "namespaces:time=private",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "namespaces",
    // Nobody but root has users to map.
    rights: |spec| if spec.says("user", "private") { Rights::Root } else { Rights::Namespace },
    summary: "plain namespaces without any tool: the least that a container costs",
    reach: &[("host", Reach::Level)],
    options: &[
        choice("pid", "process ids of its own, or this level's (default: private)"),
        NET,
        choice("ipc", "System V and POSIX queues of its own (default: private)"),
        choice("uts", "a host name of its own (default: private)"),
        choice("cgroup", "its own group as the root of them all (default: private)"),
        option(GROUP, &["own", "none"]).help(
            "a group of its own in the hierarchies of cgroups, or this level's as it is (default: \
             own)",
        ),
        choice("user", "users of its own, each mapped to itself (default: host)"),
        choice("time", "clock offsets of its own, all of them zero (default: host)"),
        medium::CHOICE,
    ],
    limits: Limit::OF_A_GROUP,
    both_ways: &["host"],
    start_guess: StartGuess::of(2_000),
    variants: VARIANTS,
    ..Descriptor::CONTAINER
};

/// The key of the option for its group.
const GROUP: &str = "group";

/// Returns the group that the layer is put into.
fn grouping(spec: &LayerSpec) -> Grouping {
    match spec.option(GROUP) {
        Some("none") => Grouping::OfTheLevel,
        _ => Grouping::Own,
    }
}

/// The kinds, and what each is unless told.
const KINDS: [(&str, bool); 7] = [
    ("pid", true),
    ("net", true),
    ("ipc", true),
    ("uts", true),
    ("cgroup", true),
    ("user", false),
    ("time", false),
];

/// The kinds of which it gets its own.
fn private(spec: &LayerSpec) -> Vec<&'static str> {
    let is_private = |(kind, by_default): &(&'static str, bool)| {
        let told = spec.option(kind).map(|word| word != "host");
        told.unwrap_or(*by_default).then_some(*kind)
    };
    KINDS.iter().filter_map(is_private).collect()
}

impl Layer for Namespaces {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(&self, spec: &LayerSpec, limits: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        if grouping(spec) == Grouping::Own {
            return Ok(());
        }
        if *limits != Limits::default() {
            return Err(Fault::user(
                "namespaces: a limit is one of a group, and `group=none` has none",
            )
            .hint("leave the limit or `group=none` out"));
        }
        if !private(spec).contains(&"pid") {
            return Err(Fault::user(
                "namespaces: with `group=none` and `pid=host` nobody could find what its command \
                 leaves behind",
            )
            .hint("leave `pid=host` or `group=none` out"));
        }
        Ok(())
    }

    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        let kinds = private(spec);
        let is_missing = |kind: &&&str| !Path::new("/proc/self/ns").join(kind).exists();
        if let Some(kind) = kinds.iter().find(is_missing) {
            return Err(Unavailable::new(
                format!("this kernel has no {kind} namespaces"),
                format!("use `namespaces:{kind}=host`"),
            ));
        }
        Ok(Usable { facts: vec![Fact::new("own_namespaces", kinds.join(" "), "/proc/self/ns")] })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let private = private(spec);
        let (link, plain) = PlainProcess::start(
            None,
            grouping(spec),
            DESCRIPTOR.kind,
            &["enclosed", &private.join(",")],
            site,
            room,
        )?;
        Ok(Started::new(link, RunningNamespaces { plain, private }))
    }
}

struct RunningNamespaces {
    plain: PlainProcess,
    private: Vec<&'static str>,
}

impl Running for RunningNamespaces {
    fn payers(&self) -> Vec<Payer> {
        self.plain.payers()
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        (!self.private.contains(&"net")).then(WorkloadNetwork::of_level)
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let agent = self.plain.agent(inside)?;
        let mut facts = vec![self.group(&agent)?];
        for (kind, _) in KINDS {
            let path = format!("/proc/self/ns/{kind}");
            if !Path::new(&path).exists() {
                continue;
            }
            let ours = fs::read_link(&path).doing(format_args!("read the link `{path}`"))?;
            let is_own = agent.namespace(kind)? != ours.to_string_lossy();
            if is_own != self.private.contains(&kind) {
                let whose = if is_own { "its own" } else { "this level's" };
                return Err(Fault::machine(format!(
                    "namespaces: its {kind} namespace is {whose}, and the other was asked for"
                )));
            }
        }
        facts.push(Fact::new("own_namespaces", self.private.join(" "), "/proc/PID/ns"));
        facts.push(same_kernel("namespaces", inside)?);
        facts.extend(agent.privileges()?);
        facts.extend(self.plain.facts(&agent)?);
        Ok(facts)
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        self.plain.stop()
    }
}

impl RunningNamespaces {
    /// That the agent is in the group that it was to be in.
    fn group(&self, agent: &FirstProcess) -> Result<Fact, Fault> {
        let source = "/proc/PID/cgroup";
        let own = |group: &PathBuf| agent.group_is(group).map(|_| Fact::new(GROUP, "own", source));
        if let Some(group) = &self.plain.group {
            // A machine may have no hierarchy to make one in.
            let has_any = !self.plain.hierarchies.0.is_empty();
            return if has_any { own(group) } else { Ok(Fact::new(GROUP, "none", source)) };
        }
        let path = "/proc/self/cgroup";
        let ours = fs::read_to_string(path).doing(format_args!("read `{path}`"))?;
        let its = agent.text("cgroup")?;
        if its == ours {
            return Ok(Fact::new(GROUP, "none", source));
        }
        let its = its.trim().replace('\n', ", ");
        Err(Fault::machine(format!(
            "namespaces: `group=none` was asked for, and its groups are not ours but {its}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_can_be_switched_alone() {
        let mut spec = LayerSpec { kind: "namespaces".into(), options: [].into() };
        assert_eq!(private(&spec), ["pid", "net", "ipc", "uts", "cgroup"]);
        spec.options.insert("net".into(), "host".into());
        spec.options.insert("time".into(), "private".into());
        assert_eq!(private(&spec), ["pid", "ipc", "uts", "cgroup", "time"]);
    }

    #[test]
    fn every_kind_is_an_option() {
        let keys: Vec<&str> = DESCRIPTOR.options.iter().map(|choice| choice.key).collect();
        assert!(KINDS.iter().all(|(kind, _)| keys.contains(kind)), "{keys:?}");
    }
}
