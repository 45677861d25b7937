//! Xen: a domain beside this machine, which is itself one, Dom0, and serves the others' devices.
//!
//! surtax (Dom0) ── xl ── Xen ── domain's vCPUs ── guest kernel ── agent (PID 1)
//!              ├── QEMU, started by xl ── 9p: root file system; a second console: the agent's channel; a disk
//!              └── xen-netback ── bridge: the outside
//!
//! - **Needs** Dom0 of Xen 4.17 with `xl`, xenstored, xenconsoled and the QEMU that serves
//!   paravirtual devices; root; a kernel as `qemu` finds it. `qemu:hypervisor=xen` makes such a
//!   machine.
//! - **Leaves out** the tools' own scripts: a disk is a file that the same QEMU serves, and a
//!   network device's other end is moved onto a bridge of ours, in a namespace of its own.
//! - **Payers** the domain: guest kernel, with the workload in it; all of Dom0, with the QEMU that
//!   serves the domain, and with us: hypervisor. Both are counted by Xen.
//! - **Checked against** Xen 4.17.7 and QEMU 7.2.22 of Debian 12, `type=pv` under QEMU's
//!   translator. `pvh` and `hvm` have not yet run: Linux hangs there in Xen's hardware domains,
//!   while another image does not. None has yet run on hardware.

pub(super) mod application;
mod configuration;
mod evidence;
pub(super) mod image;
mod toolstack;
mod vbd;
mod vif;

use crate::agent::{ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::guest::channel::Channel;
use crate::guest::kernel;
use crate::guest::share::Protocol;
use crate::lab::{Limits, Room};
use crate::layer::{
    Descriptor, Inner, Layer, LayerSpec, Limit, Need, Payer, Reach, RootKind, Running, Site,
    Source, StartGuess, Started, Unavailable, Usable, WorkloadNetwork, medium, option,
    require_program,
};
use crate::vm::board::Board;
use crate::vm::disk::{self, DiskDefaults};
use crate::vm::equipped_guest::{EquippedGuest, GuestTraits};
use crate::vm::request::{VmDefaults, require_cpus};
use configuration::Domain;
pub(in crate::driver) use configuration::require_plain;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};
use surtax_instrument::wire::{Fact, Role};
use toolstack::Info;
use vif::{Nic, Vif};

/// File in which Linux says what a domain may do; it holds `control_d` in Dom0.
const CAPABILITIES: &str = "/proc/xen/capabilities";

/// Time that the QEMU of a destroyed domain may take to end.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Least time that the socket of the agent's channel may take to appear.
const LISTEN_DEADLINE: Duration = Duration::from_secs(10);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The most virtual CPUs of a domain.
const CPUS_MAX: u32 = 128;

/// Everybody's weight with us, and with Xen.
const WEIGHTS: (u32, u32) = (100, 256);

/// Domains of Xen.
pub struct Xen;

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "xen:type=pv",
    "xen:type=pvh",
    "xen:type=hvm",
    "xen:scratch=blkfront",
    "xen:scratch=blkfront,cache=writeback",
    "xen:scratch=blkfront,format=qcow2",
    "xen:scratch=blkfront,format=qcow2-backed",
    "xen:net=bridge",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "xen",
    summary: "a domain of Xen's, by `xl` in Dom0; not yet run on hardware",
    reach: &[("bridge", Reach::Bridge { joins: false })],
    options: &[
        option("type", &["pv", "pvh", "hvm"]).help(
            "how it is virtualized: by a kernel that knows Xen alone, by the processor without a \
             machine around it, or with one (default: pv; pvh and hvm have not yet run)",
        ),
        option("kernel", &[]).path().help(
            "an unpacked kernel's file that Xen can enter, its modules in ../lib/modules (default: \
             as `qemu:files=9p`)",
        ),
        medium::choice(&["layer", "tmpfs", "blkfront"]),
        disk::FORMAT,
        vbd::CACHE,
        disk::DISK_SIZE,
        vif::NET,
    ],
    limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Weight],
    holds_layers: true,
    both_ways: &["bridge"],
    roots: &[RootKind::Overlay, RootKind::Directory, RootKind::Oci, RootKind::Packed],
    start_guess: StartGuess::of(5_000),
    variants: VARIANTS,
    is_seen_from_outside: false,
    is_below_kernel: true,
    needs: |_| &[Need::Xen],
    ..Descriptor::MACHINE
};

/// Way in which a domain is virtualized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By a kernel that asks Xen for everything.
    Pv,
    /// By the processor, entered like a paravirtual one.
    Pvh,
    /// By the processor, with a machine that QEMU emulates.
    Hvm,
}

impl Kind {
    fn of(spec: &LayerSpec) -> Self {
        match spec.option("type") {
            Some("pvh") => Self::Pvh,
            Some("hvm") => Self::Hvm,
            _ => Self::Pv,
        }
    }

    /// As `xl` writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pv => "pv",
            Self::Pvh => "pvh",
            Self::Hvm => "hvm",
        }
    }

    /// Name of the ability that Xen must have.
    fn ability(self) -> &'static str {
        match self {
            Self::Pv => "pv",
            Self::Pvh | Self::Hvm => "hvm",
        }
    }

    /// Name of the type in the words of the domain's kernel.
    fn seen_as(self) -> &'static str {
        match self {
            Self::Pv => "PV",
            Self::Pvh => "PVH",
            Self::Hvm => "HVM",
        }
    }
}

/// Values of a domain where a spec names nothing.
const DEFAULTS: VmDefaults = VmDefaults {
    disk: DiskDefaults { medium: "blkfront", ..DiskDefaults::QEMU },
    ..VmDefaults::of(Board::Q35)
};

/// Returns what Xen gives a domain: no bus, and no memory that it shares with others.
fn traits(has_nic: bool) -> GuestTraits {
    GuestTraits {
        defaults: DEFAULTS,
        cpus_most: CPUS_MAX,
        channel: Channel::Console(1),
        files: Protocol::XenNinep,
        nic_module: has_nic.then_some("xen_netfront"),
        signature: None,
        is_virtio: false,
        fact_source: "xl list",
    }
}

impl Layer for Xen {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(
        &self,
        spec: &LayerSpec,
        limits: &Limits,
        inside: Option<Inner<'_>>,
    ) -> Result<(), Fault> {
        let why = format!("domains have at most {CPUS_MAX} CPUs");
        require_cpus(spec, limits, DEFAULTS, (CPUS_MAX, &why))?;
        match inside.filter(|inside| inside.needs(Need::Xen)) {
            Some(_) => Err(Fault::user("xen: a domain is no Dom0, and starts no other domain")
                .hint(
                    "put a machine with a Xen of its own between them, as in \
                       `xen+qemu:hypervisor=xen+xen`",
                )),
            None => Ok(()),
        }
    }

    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        kernel::files(spec, &DESCRIPTOR)
    }

    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        let kind = Kind::of(spec);
        let usable = usable(kind, Nic::is_asked_for(spec), site)?;
        require_linux(kind).map(|()| usable)
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let kind = Kind::of(spec);
        self.check(spec, site).map_err(|it| it.fault().during("xen"))?;
        let has_nic = Nic::is_asked_for(spec);
        let nic = has_nic.then(|| Nic::prepare(site, room)).transpose()?;
        let mut guest = EquippedGuest::prepare(spec, traits(has_nic), site, room, None)?;
        let served = guest.export();
        let domain = Domain {
            name: site.container_name(room),
            kind,
            cpus: guest.cpus,
            cpuset: site.limits.cpuset.clone(),
            memory_mib: guest.memory_mib,
            weight: site.limits.weight.map(weight),
            kernel: guest.kernel().to_owned(),
            initramfs: Some(guest.initramfs().to_owned()),
            command_line: configuration::COMMAND_LINE.to_owned(),
            export: served.as_ref().map(|(export, _)| export.clone()),
            disk: guest.disk.as_ref().map(vbd::text),
            nic,
            socket: Some(room.directory().join("agent.sock")),
        };
        let network = has_nic.then(|| room.network()).transpose()?;
        let namespace = served.as_ref().map(|(_, namespace)| namespace);
        let id = toolstack::create(&domain, namespace, room, site.start_deadline)?;
        let console = ConsoleTail::new();
        console.drain(toolstack::console(id)?);
        toolstack::require_channel(id)?;
        let server = device_model(id)?;
        let vif = network.map(|network| Vif::plug_in(id, network)).transpose()?;
        let socket = domain.socket.as_deref().unwrap_or(Path::new(""));
        let channel = connect(socket, site.start_deadline)?;
        toolstack::unpause(&domain.name)?;
        let link = Link::over_socket("xen", channel, &console)?;
        Ok(Started::new(link, RunningXen { guest, domain, id, server, vif }))
    }
}

/// That such a domain can be made here.
fn usable(kind: Kind, has_nic: bool, site: &Site<'_>) -> Result<Usable, Unavailable> {
    require_dom0()?;
    if has_nic {
        vif::require(site)?;
    }
    let info = Info::ask()?;
    require_ability(kind, &info)?;
    let fact = |key: &str, name: &str| Fact::new(key, info.get(name), "xl info");
    Ok(Usable {
        facts: vec![fact("xen_version", "xen_version"), fact("xen_abilities", "virt_caps")],
    })
}

/// That this machine is a Dom0 with its tools.
fn require_dom0() -> Result<(), Unavailable> {
    let capabilities = fs::read_to_string(CAPABILITIES).unwrap_or_default();
    if !capabilities.contains("control_d") {
        let why = "no Xen runs under this machine, or it is not its Dom0";
        let remedy = "boot Xen, or let QEMU do it: `qemu:hypervisor=xen+xen`";
        return Err(Unavailable::new(why, remedy));
    }
    require_program(toolstack::XL, "apt-get install xen-utils-4.17 qemu-system-xen").map(drop)
}

/// That Xen can make such domains here.
fn require_ability(kind: Kind, info: &Info) -> Result<(), Unavailable> {
    let (ability, told) = (kind.ability(), info.get("virt_caps"));
    if !told.split_ascii_whitespace().any(|word| word == ability) {
        return Err(Unavailable::new(
            format!("Xen cannot make `{}` domains here: `xl info` says `{told}`", kind.name()),
            "use a processor with VT-x or SVM that is switched on",
        ));
    }
    Ok(())
}

/// That Linux comes up in such a domain here: where QEMU translates Xen's instructions, it does so
/// in a paravirtual one alone. Other images are not refused: one of them, GRUB's, runs by PVH there
/// too.
fn require_linux(kind: Kind) -> Result<(), Unavailable> {
    if kind != Kind::Pv && is_translated() {
        return Err(Unavailable::new(
            format!("Linux hangs in `{}` domains where QEMU's translator runs Xen", kind.name()),
            "use a paravirtual domain (`type=pv`), or Xen on hardware or under KVM",
        ));
    }
    Ok(())
}

/// Tells whether the processor is QEMU's translator, which Dom0 sees through Xen.
#[cfg(target_arch = "x86_64")]
fn is_translated() -> bool {
    const SIGNATURE: &[u8] = b"TCGTCGTCGTCG";
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let seen: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    seen == SIGNATURE
}

/// Other processors are not asked so.
#[cfg(not(target_arch = "x86_64"))]
fn is_translated() -> bool {
    false
}

/// The same part of what everybody else has.
fn weight(ours: u32) -> u32 {
    let (our_default, theirs) = WEIGHTS;
    (ours.saturating_mul(theirs) / our_default).max(1)
}

/// The process id of the QEMU that serves the domain's devices.
fn device_model(id: u16) -> Result<u32, Fault> {
    let text = toolstack::read(&format!("/local/domain/{id}/image/device-model-pid"))?;
    text.parse().doing(format_args!("take `{text}` for the process id of a domain's QEMU"))
}

/// Tells whether a process has not ended. A zombie has: to wait for it is its parent's affair.
fn is_alive(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

/// Takes the end of the domain's channel that is Dom0's.
fn connect(socket: &Path, start_deadline: Duration) -> Result<UnixStream, Fault> {
    let (began, patience) = (monotonic_raw(), start_deadline.max(LISTEN_DEADLINE));
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Duration::from(monotonic_raw().since(began)) > patience => {
                return Err(error)
                    .doing(format_args!("reach the domain's channel at `{}`", socket.display()));
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

/// A domain that runs.
struct RunningXen {
    guest: EquippedGuest,
    domain: Domain,
    id: u16,
    /// The QEMU that serves its devices.
    server: u32,
    /// The other end of its network device, if it has one.
    vif: Option<Vif>,
}

/// Lists who pays for a domain.
fn payers(id: u16, carries_workload: bool) -> Vec<Payer> {
    let payer = |name: &str, role, id, carries_workload| {
        Payer::new(name, role, Source::Domain(id)).carrying(carries_workload)
    };
    vec![
        payer("the domain's vCPUs", Role::GuestKernel, id, carries_workload),
        payer("Dom0", Role::Hypervisor, 0, false),
    ]
}

impl Running for RunningXen {
    fn payers(&self) -> Vec<Payer> {
        payers(self.id, true)
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        self.vif.as_ref().map(Vif::network)
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = evidence::of_domain(&self.domain, self.id, inside)?;
        facts.extend(self.guest.prove(inside)?);
        if let Some(disk) = &self.guest.disk {
            facts.extend(vbd::prove(disk, self.id, self.server, inside)?);
        }
        match &self.vif {
            Some(vif) => facts.extend(vif.prove(inside)?),
            None => facts.push(Fact::new("network", "none", "the domain's configuration")),
        }
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let listed = toolstack::list(&self.domain.name).ok()?;
        let is_over = listed.state.contains(['s', 'c', 'd']);
        is_over.then(|| format!("the domain has ended: `xl list` says `{}`", listed.state))
    }

    fn stop(self: Box<Self>) -> Result<(), Fault> {
        toolstack::destroy(&self.domain.name, self.id)?;
        // It has nobody to serve any more, and ends by itself.
        look_until(STOP_DEADLINE, LOOK_AGAIN, || (!is_alive(self.server)).then_some(()))
            .ok_or_else(|| Fault::machine("xen: the QEMU of a domain did not end with it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_xen_is_told_how_it_gets_one() {
        if fs::read_to_string(CAPABILITIES).is_err() {
            let Unavailable { why, remedy, .. } = require_dom0().unwrap_err();
            assert_eq!(why, "no Xen runs under this machine, or it is not its Dom0");
            assert!(remedy.unwrap().contains("`qemu:hypervisor=xen+xen`"));
        }
    }

    #[test]
    fn a_weight_is_the_same_part_of_everybody_s() {
        assert_eq!([1, 100, 10_000].map(weight), [2, 256, 25_600]);
    }
}
