//! Native: the agent as an ordinary process of this level, and nothing between it and the kernel.
//!
//! surtax (host) ── agent ── command
//!
//! - **Needs** root, for the throw-away layer over `/`; with `root=host` nothing.
//! - **Leaves out** every namespace but the mount namespace that holds the merged root.
//! - **Payers** the agent, in one group with the command: surtax.
//! - **Checked against** `unshare(2)`, `mount(8)`.

use super::first_process::FirstProcess;
use super::{Card, Choice, Layer, Limit, Payer, Root, Running, Site, Source, Unavailable, Usable};
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Process, Program, Room};
use crate::stack::{LayerSpec, Limits, root};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, Role};

/// How long the agent may take to leave after it was asked to.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// The level's own kernel and processes.
pub struct Native;

static CARD: Card = Card {
    kind: "native",
    summary: "an ordinary process of this machine, on a throw-away layer over its files",
    options: &[] as &[Choice],
    subject: None,
    limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Pids],
    holds_layers: false,
    elsewhere: false,
    ran_on_hardware: true,
};

impl Layer for Native {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root && spec.options.get("root").is_none_or(|root| root != "host") {
            return Err(Unavailable {
                why: String::from("a throw-away layer over `/` can only be mounted by root"),
                remedy: Some(String::from("sudo surtax …, or `native:root=host`")),
            });
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(Usable { facts: vec![Fact::new("kernel_release", release, "uname(2)")] })
    }

    fn start(
        &self,
        _: &LayerSpec,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Box<dyn Running>, Fault> {
        let group = room.subgroup("command", site.limits)?;
        let (requests, to_agent) = lab::pipe()?;
        let (replies, from_agent) = lab::pipe()?;
        let (last_words, stderr) = lab::pipe()?;
        let mut program = Program {
            argv: vec![site.agent.to_string_lossy().into_owned(), String::from("stdio")],
            stdio: [Some(requests), Some(from_agent), Some(stderr)],
            group: Some(group.clone()),
            ..Program::default()
        };
        let lowers = match site.view.root {
            Root::Host => Vec::new(),
            _ => root::lowers(&site.view.root, site.cache)?,
        };
        if site.view.root != Root::Host {
            let mounts = root::merge_for_native(site.view, site.cache, room.directory())?;
            program.mount_namespace = Some(room.mount_namespace(&mounts)?);
            program.root = Some(root::merged_at(room.directory()));
        }
        let console = ConsoleTail::new();
        console.drain(last_words);
        let process = room.spawn(program)?;
        let link = Link::over("native", File::from(replies), File::from(to_agent), &console);
        Ok(Box::new(RunningNative {
            process,
            link: Some(link),
            group,
            hierarchies: site.lab.hierarchies().clone(),
            limits: site.limits.clone(),
            root_facts: root::facts(&site.view.root, &lowers),
        }))
    }
}

struct RunningNative {
    process: Process,
    link: Option<Link>,
    group: PathBuf,
    hierarchies: Hierarchies,
    limits: Limits,
    root_facts: Vec<Fact>,
}

impl Running for RunningNative {
    fn link(&mut self) -> Result<Link, Fault> {
        self.link.take().ok_or_else(|| Fault::bug("the link of `native` was taken twice"))
    }

    fn payers(&self) -> Vec<Payer> {
        vec![Payer {
            name: String::from("surtax agent"),
            role: Role::Surtax,
            source: Source::Group(self.group.clone()),
            carries_workload: true,
        }]
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        for namespace in ["ipc", "net", "pid", "user", "uts"] {
            let path = format!("/proc/self/ns/{namespace}");
            let ours = std::fs::read_link(&path).doing(format!("read `{path}`"))?;
            let key = format!("namespace_{namespace}");
            let theirs = super::value_of(inside, &key)?;
            if ours.to_string_lossy() != theirs {
                let ours = ours.display();
                return Err(Fault::machine(format!(
                    "native: its {namespace} namespace is `{theirs}`, and this level's is `{ours}`"
                )));
            }
            facts.push(Fact::new(key, theirs, path));
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let theirs = super::value_of(inside, "kernel_release")?;
        if release != theirs {
            return Err(Fault::machine(format!(
                "native: it runs on kernel `{theirs}`, and this level on `{release}`"
            )));
        }
        facts.push(Fact::new("kernel_release", release, "uname(2), outside and inside"));
        if self.limits != Limits::default() {
            let first = FirstProcess::of(self.process.pid(), &self.hierarchies);
            facts.push(first.group_is(&self.group)?);
            facts.extend(first.limits(&self.group, &self.limits)?);
        }
        facts.append(&mut self.root_facts);
        Ok(facts)
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        drop(self.link.take());
        match self.process.wait(STOP_DEADLINE)? {
            Some(_) => Ok(()),
            None => Err(Fault::machine("native: the agent did not leave and was killed")),
        }
    }
}
