//! A domain of libvirt's that the user already has: the agent in its guest, and nothing of it
//! changed.
//!
//! surtax (host) ── libvirtd ── qemu ── vCPU threads ── guest kernel ── guest agent ── agent (leased) ── command
//!                              └───── virtio-serial channel, attached while it runs ─────┘
//!
//! - **Needs** `virsh`, a libvirt on this machine, root, and a domain with Linux on x86-64 whose
//!   `qemu-guest-agent` may start programs; it runs, or is shut off.
//! - **Leaves out** limits, networks and disks: those are the domain's own, and are only said. What
//!   QEMU has outside of its process, such as virtiofsd or vhost workers, is nobody's payer.
//! - **Payers** vCPU threads: guest kernel, with the workload in it; QEMU's other threads:
//!   hypervisor.
//! - **Checked against** libvirt 9.0.0 and qemu-guest-agent 7.2.22 of Debian 12.
//!
//! The guest agent is asked to start one shell. That opens the channel, takes our agent from it and
//! becomes it, as a login shell does on another machine (`ssh`): the same script, the same lease.
//! The channel is attached to what runs and to nothing that is stored. A domain that was shut off
//! is started, and asked to shut down afterwards; one that would not runs on, and that is said.

pub(super) mod definition;
mod guest;
mod process;

use crate::agent::ssh_bootstrap::{Arrival, KEEP_ALIVE, LEASE};
use crate::agent::{ConsoleTail, Link, ssh_bootstrap};
use crate::fault::{Doing, Fault};
use crate::guest::memory::has_memory;
use crate::lab::{self, Domain, DomainState, Limits, Room, VIRSH};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Payer, RootKind, Running, Site, Started, Unavailable,
    Usable, option, require_program, value_of,
};
use crate::vm::accelerator::Accelerator;
use definition::{Definition, SOURCE};
use guest::GuestProgram;
use process::Qemu;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// URI at which libvirt is asked, unless the user names one.
const DEFAULT_URI: &str = "qemu:///system";

/// The command that installs the client.
const REMEDY: &str = "apt-get install libvirt-clients";

/// Time that the guest agent of a running domain may take to answer.
const AGENT_DEADLINE: Duration = Duration::from_secs(5);

/// Time that our agent may take to leave when its channel has ended.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A domain of libvirt's.
pub struct Libvirt;

pub(super) static DESCRIPTOR: Descriptor = Descriptor {
    kind: "libvirt",
    summary: "a virtual machine that libvirt already has, by its guest agent; writes to its disks \
              stay",
    reach: &[],
    options: &[
        option("domain", &[]).help("its name, as `virsh list --all` shows it: `libvirt:web`"),
        option("uri", &[])
            .help("where libvirt is asked (default: LIBVIRT_DEFAULT_URI, else qemu:///system)"),
    ],
    subject: Some("domain"),
    limits: &[],
    holds_layers: true,
    is_remote: true,
    roots: &[RootKind::Host],
    ..Descriptor::MACHINE
};

/// Lists files of the domain that a layer borrows, as this level's libvirt describes it; none where
/// it knows none.
pub(super) fn files(spec: &LayerSpec) -> Vec<PathBuf> {
    let Ok(DomainOptions { uri, name: Some(name) }) = DomainOptions::read(spec) else {
        return Vec::new();
    };
    if lab::find(VIRSH).is_none() {
        return Vec::new();
    }
    let described = Domain { uri, id: name }.question("dumpxml", &[]);
    let described = described.and_then(|text| Definition::read(&text));
    described.map_or_else(|_| Vec::new(), |definition| definition.files)
}

/// Options, as they were asked for.
struct DomainOptions {
    uri: String,
    name: Option<String>,
}

/// A domain that was found, as it is.
struct ExistingDomain {
    domain: Domain,
    was_off: bool,
}

impl DomainOptions {
    fn read(spec: &LayerSpec) -> Result<Self, Fault> {
        let named = spec.option("uri").map(String::from);
        let uri = named
            .or_else(|| std::env::var("LIBVIRT_DEFAULT_URI").ok().filter(|uri| !uri.is_empty()))
            .unwrap_or_else(|| String::from(DEFAULT_URI));
        // `qemu+ssh://host/system` is another machine, and so is `qemu://host/system`.
        if !uri.starts_with("qemu:///") {
            return Err(Fault::user(format!("libvirt: `{uri}` is not this machine's QEMU")).hint(
                "write `uri=qemu:///system`; to go to another machine, `ssh:HOST+libvirt:DOMAIN`",
            ));
        }
        let name = spec.option("domain").map(String::from);
        if let Some(name) = name.as_ref().filter(|name| name.starts_with('-')) {
            return Err(Fault::user(format!("libvirt: `{name}` could be an option of `{VIRSH}`"))
                .hint("name the domain by its UUID"));
        }
        Ok(Self { uri, name })
    }

    /// The domain, if it is one that can be borrowed.
    fn find(&self) -> Result<ExistingDomain, Fault> {
        let name = self.name.as_deref().unwrap_or_default();
        let (uri, id) = (self.uri.clone(), name.to_owned());
        let named = Domain { uri, id };
        let definition = named.question("dumpxml", &[]).map_err(|fault| {
            fault
                .during(format_args!("libvirt: there is no domain `{name}`"))
                .hint(format!("{VIRSH} -c {} list --all", self.uri))
        })?;
        let definition = Definition::read(&definition)?;
        let domain = Domain { id: definition.uuid.clone(), ..named };
        if definition.guest_agent.is_none() {
            return Err(Fault::machine(format!(
                "libvirt: the domain `{name}` has no channel for a guest agent"
            ))
            .hint(format!(
                "{VIRSH} -c {} edit {name}: add <channel type='unix'><target type='virtio' \
                 name='org.qemu.guest_agent.0'/></channel>, and install `qemu-guest-agent` in the \
                 guest",
                self.uri
            )));
        }
        let was_off = match domain.state()? {
            DomainState::Running => false,
            DomainState::ShutOff => true,
            DomainState::Paused => return Err(self.refuse_state(name, "paused", "resume")),
            DomainState::Other(state) => {
                return Err(self.refuse_state(name, &state, "domstate --reason"));
            }
        };
        let information = domain.question("dominfo", &[])?;
        let saved = information.lines().find_map(|line| line.strip_prefix("Managed save:"));
        if was_off && saved.is_some_and(|saved| saved.trim() != "no") {
            return Err(Fault::machine(format!(
                "libvirt: the domain `{name}` has a saved state, which a start would use up"
            ))
            .hint(format!("{VIRSH} -c {} start {name}", self.uri)));
        }
        Ok(ExistingDomain { domain, was_off })
    }

    fn refuse_state(&self, name: &str, state: &str, verb: &str) -> Fault {
        Fault::machine(format!(
            "libvirt: the domain `{name}` is {state}, neither running nor shut off"
        ))
        .hint(format!("{VIRSH} -c {} {verb} {name}", self.uri))
    }
}

impl Layer for Libvirt {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(&self, spec: &LayerSpec, _: &Limits, _: Option<Inner<'_>>) -> Result<(), Fault> {
        DomainOptions::read(spec).map(drop)
    }

    /// Without a domain, as the doctor asks, it is only seen whether libvirt answers.
    fn check(&self, spec: &LayerSpec, _: &Site<'_>) -> Result<Usable, Unavailable> {
        require_program(VIRSH, REMEDY)?;
        let asked = DomainOptions::read(spec)?;
        let mut facts = versions(&asked.uri)?;
        if asked.name.is_some() {
            let found = asked.find()?;
            if !found.was_off {
                guest::awaited(&found.domain, AGENT_DEADLINE)?;
                let version = guest::version(&found.domain)?;
                facts.push(Fact::new("guest_agent_version", version, "guest-info"));
            }
        }
        Ok(Usable { facts })
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let asked = DomainOptions::read(spec)?;
        let versions = versions(&asked.uri).map_err(Unavailable::fault)?;
        let agent = fs::read(site.agent)
            .doing(format_args!("read the static agent `{}`", site.agent.display()))?;
        let ExistingDomain { domain, was_off } = asked.find()?;
        let channel = site.container_name(room);
        room.borrow_domain(&domain, &channel, was_off)?;
        let definition = Definition::read(&domain.question("dumpxml", &[])?)?;
        let socket = definition.socket(&Domain::alias(&channel)).ok_or_else(|| {
            Fault::machine("libvirt: it says nothing of the channel that it attached")
        })?;
        let qemu = Qemu::find(&definition.uuid, definition.user.as_deref())?;
        // Before the shell opens its end: one without a host at the other end reads nothing but its
        // end.
        let stream = qemu.connect(Path::new(socket))?;
        guest::awaited(&domain, site.start_deadline)?;
        let guest_agent = guest::version(&domain)?;
        let started =
            guest::start(&domain, &guest::shell(&channel, agent.len(), site.start_deadline))?;
        let copy = stream.try_clone().doing("share a domain's channel")?;
        let ends = (File::from(OwnedFd::from(copy)), File::from(OwnedFd::from(stream)));
        let arrived = ssh_bootstrap::bring(ends, agent, site.start_deadline);
        let (arrival, to_agent, replies) = arrived
            .map_err(|fault| guest::explained(&domain, &definition.name, &started, fault))?;
        let console = ConsoleTail::new();
        let name = format!("libvirt:{}", definition.name);
        let link = Link::kept_alive(name, replies, to_agent, &console, KEEP_ALIVE)?;
        let borrowed = Borrowed { domain, channel, was_off };
        let facts = [versions, vec![Fact::new("guest_agent_version", guest_agent, "guest-info")]];
        let facts = facts.concat();
        let running = RunningDomain { borrowed, definition, qemu, started, arrival, facts };
        Ok(Started::new(link, running))
    }
}

/// Parts of a domain that must be given back.
struct Borrowed {
    domain: Domain,
    channel: String,
    was_off: bool,
}

/// A domain that runs, with our agent in it.
struct RunningDomain {
    borrowed: Borrowed,
    definition: Definition,
    qemu: Qemu,
    started: GuestProgram,
    arrival: Arrival,
    facts: Vec<Fact>,
}

impl Running for RunningDomain {
    fn payers(&self) -> Vec<Payer> {
        self.qemu.payers()
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let (domain, definition) = (&self.borrowed.domain, &self.definition);
        let arrival = &self.arrival;
        agree(
            "its kernel",
            ("the shell there", &arrival.release),
            value_of(inside, "kernel_release")?,
        )?;
        agree("its user", ("the shell there", &arrival.user_id), value_of(inside, "user_id")?)?;
        let signature = signature(&definition.accelerator)?;
        agree(
            "its hypervisor",
            ("the domain's type", signature),
            value_of(inside, "hypervisor_vendor")?,
        )?;
        let stats = domain.question("domstats", &["--vcpu", "--balloon"])?;
        let cpus = stat(&stats, "vcpu.current")?;
        agree("its CPUs", ("domstats", cpus), value_of(inside, "cpus_online")?)?;
        let threads = self.qemu.vcpus().len().to_string();
        agree("its virtual CPUs", ("domstats", cpus), &threads)?;
        let memory = stat(&stats, "balloon.current")?;
        let given = memory.parse::<u64>().unwrap_or_default().saturating_mul(1024);
        let seen = value_of(inside, "memory_total_bytes")?;
        if !has_memory(given, given, seen) {
            return Err(Fault::machine(format!(
                "libvirt: the domain has {given} bytes of memory, and the guest sees {seen}"
            )));
        }
        let accelerator = if definition.accelerator == "kvm" { "kvm" } else { "tcg" };
        let was =
            if self.borrowed.was_off { "shut off, and is started for this" } else { "running" };
        let said = |key: &str, value: &str| Fact::new(key, value, SOURCE);
        let mut facts = vec![
            said("domain", &definition.name),
            said("domain_uuid", &definition.uuid),
            Fact::new("libvirt_uri", &domain.uri, "its start"),
            Fact::new("domain_was", was, "virsh domstate"),
            Fact::new(
                "accelerator",
                accelerator,
                "the domain's type, and CPUID leaf 0x40000000 inside",
            ),
            said("machine", &definition.machine),
            said("cpu_model", &definition.cpu),
            Fact::new("cpus", cpus, "virsh domstats, and sched_getaffinity(2) inside"),
            Fact::new("memory_bytes", given.to_string(), "virsh domstats, and MemTotal inside"),
            Fact::new("kernel_release", &arrival.release, "uname(1) there, and uname(2) inside"),
            Fact::new("user_id", &arrival.user_id, "id(1) there, and getuid(2) inside"),
            Fact::new("boot_id", &arrival.boot_id, "/proc/sys/kernel/random/boot_id there"),
            Fact::new("root", "host", "the domain's own root"),
        ];
        facts.extend(definition.devices());
        facts.append(&mut self.facts);
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let name = &self.definition.name;
        (!self.qemu.is_alive()).then(|| format!("the process of the domain `{name}` has ended"))
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        let Borrowed { domain, channel, was_off } = &self.borrowed;
        let left = self.started.end(domain, STOP_DEADLINE).is_some();
        Room::give_back(domain, channel, *was_off)?;
        if left || *was_off {
            return Ok(());
        }
        let (name, seconds) = (&self.definition.name, LEASE.as_secs());
        Err(Fault::machine(format!(
            "libvirt: the agent in `{name}` had not left when its channel was taken off; its lease \
             ends within {seconds} s"
        )))
    }
}

/// Asks libvirt for its version and its hypervisor's.
fn versions(uri: &str) -> Result<Vec<Fact>, Unavailable> {
    let said = Domain::ask(uri, &["version"]).map_err(|fault| {
        Unavailable::new(
            format!("libvirt does not answer at `{uri}`: {}", fault.message),
            "start it (`systemctl start libvirtd`), or install it (`apt-get install \
             libvirt-daemon-system`)",
        )
    })?;
    let after = |words: &str| said.lines().find_map(|line| line.trim().strip_prefix(words));
    let fact = |key: &str, words: &str| {
        Fact::new(key, after(words).unwrap_or("unknown").trim(), "virsh version")
    };
    Ok(vec![
        fact("libvirt_version", "Using library: libvirt"),
        fact("qemu_version", "Running hypervisor: QEMU"),
    ])
}

/// Returns what a guest sees of the hypervisor that a domain's type names.
fn signature(accelerator: &str) -> Result<&'static str, Fault> {
    match accelerator {
        "kvm" => Ok(Accelerator::Kvm.signature()),
        "qemu" => Ok(Accelerator::Tcg.signature()),
        other => Err(Fault::machine(format!("libvirt: a domain of type `{other}` is not known"))),
    }
}

/// A number of `virsh domstats`.
fn stat<'a>(stats: &'a str, key: &str) -> Result<&'a str, Fault> {
    let found = stats.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    found
        .ok_or_else(|| Fault::machine(format!("libvirt: `virsh domstats` says nothing of `{key}`")))
}

/// Requires that the agent sees what somebody else says.
fn agree(what: &str, (who, said): (&str, &str), seen: &str) -> Result<(), Fault> {
    if said == seen {
        return Ok(());
    }
    let (said, seen) = (said.escape_debug(), seen.escape_debug());
    Err(Fault::machine(format!("libvirt: of {what} {who} says `{said}`, and the agent `{seen}`")))
}

#[cfg(test)]
mod tests;
