//! A network device of the machine: what it is, what stands behind it, and what is left to it.
//!
//! `user` is QEMU's own network stack: the guest calls this level's loopback network at an address
//! of its own and cannot be called. `tap` is a bridge in a network namespace of the room, in which
//! QEMU runs then; with `vhost-user`, a switch in user space stands between QEMU and that tap, and
//! with `ovs` the bridge is one of Open vSwitch's. Frames on their way to the guest can be held
//! back or lost there. What was asked is read back in three places: from QEMU, from its process and
//! the tap on this level, and from the guest.

mod proof;
mod queues;

use super::accelerator::Accelerator;
use super::board::Board;
use super::open_vswitch::{self, Bridge};
use super::switch::{self, Switch};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Jail, Room, Shape, Shaped, ToolRun, kernel_part, network};
use crate::layer::{LayerSpec, OptionSpec, Site, Unavailable, WorkloadNetwork, impairment, option};
use queues::queues;
pub(crate) use queues::vhost_workers;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The descriptor at which QEMU finds the first queue of its tap; the others follow.
pub(crate) const TAP_DESCRIPTOR: i32 = 5;

/// The descriptor at which it finds the first worker of this level's kernel; the others follow.
pub(crate) const VHOST_DESCRIPTOR: i32 = 70;

/// QEMU's name for the device, and for what stands behind it.
const NIC_ID: &str = "nic";
const BACKEND_ID: &str = "network";
const SWITCH_ID: &str = "switch";

/// The device's own address, out of those that QEMU gives by default.
pub(crate) const MAC: &str = "52:54:00:12:34:56";

/// That of a second machine on the same bridge.
const SECOND_MAC: &str = "52:54:00:12:34:57";

/// Addresses of QEMU's own stack: the guest's, and the one under which it finds this level's
/// loopback network. Source: QEMU `docs/system/devices/net.rst`, "Using the user mode network
/// stack".
const USER_GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const USER_OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Device by which the host's kernel copies frames itself.
const VHOST_DEVICE: &str = "/dev/vhost-net";

/// Virtio features that are offloads, by QEMU's names.
const VIRTIO_OFFLOADS: [&str; 12] = [
    "csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ufo", "guest_ecn", "host_tso4",
    "host_tso6", "host_ecn", "host_ufo", "mrg_rxbuf",
];

/// The options of a network device.
pub(crate) const NET: OptionSpec = option("net", &["none", "user", "tap", "ovs", "vhost-user"])
    .help(
        "the network: `user` is QEMU's own stack, `tap` a bridge on this level, `ovs` one of Open \
     vSwitch's, `vhost-user` the first behind a switch in user space (default: none)",
    );
pub(crate) const NIC: OptionSpec =
    option("nic", &["virtio", "e1000", "rtl8139"]).help("the network device (default: virtio)");
pub(crate) const VHOST: OptionSpec = option("vhost", &["on", "off"]).help(
    "whether this level's kernel moves the frames of a virtio device on a tap, and not QEMU \
     (default: off; not yet run on hardware)",
);
pub(crate) const OFFLOADS: OptionSpec = option("offloads", &["on", "off"])
    .help("whether checksums and large frames are left to a virtio device on a tap (default: on)");
pub(crate) const QUEUES: OptionSpec = option("queues", &[])
    .help("how many pairs of queues a virtio device on a tap has (default: 1)");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    User,
    Tap,
    OpenVswitch,
    VhostUser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Virtio,
    E1000,
    Rtl8139,
}

/// Backends that have a tap on this level, whose link can be shaped.
const TAPS: [&str; 3] = ["tap", "ovs", "vhost-user"];

/// A network device, as asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nic {
    backend: Backend,
    model: Model,
    has_vhost: bool,
    has_offloads: bool,
    queues: u32,
    /// Shape that makes the way to the guest worse, if one was asked for.
    pub(crate) shape: Option<Shape>,
    /// Path of the socket where QEMU finds a switch.
    socket: PathBuf,
    /// True if the tap is to be on the bridge of another stack.
    is_second: bool,
}

/// Parts of this level that stand behind a network device.
#[derive(Default)]
pub(crate) struct NetBackend {
    /// The namespace with the bridge, where there is one.
    pub(crate) network: Option<lab::RoomNetwork>,
    /// The queues of the tap.
    pub(crate) taps: Vec<OwnedFd>,
    /// Workers of this level's kernel, one for each queue, where there are any.
    pub(crate) vhosts: Vec<OwnedFd>,
    /// Switch between QEMU and the tap.
    switch: Option<Switch>,
    /// The bridge, where it is not the kernel's own.
    bridge: Option<Bridge>,
    /// The way to the guest, where it is worse than it could be.
    shaped: Option<Shaped>,
}

impl NetBackend {
    /// Lists programs that move the frames, each with its process number.
    pub(crate) fn daemons(&self) -> Vec<(&'static str, u32)> {
        let bridge = self.bridge.iter().flat_map(|bridge| {
            let database = (open_vswitch::DATABASE, bridge.database.pid());
            [(open_vswitch::DAEMON, bridge.daemon.pid()), database]
        });
        let switch = self.switch.iter().map(|switch| (switch::PROGRAM, switch.process.pid()));
        bridge.chain(switch).collect()
    }

    /// Ends them.
    ///
    /// # Errors
    /// The machine's, if one cannot be waited for.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.switch.take().map_or(Ok(()), Switch::stop)?;
        self.bridge.take().map_or(Ok(()), Bridge::stop)
    }
}

/// Tells whether a switch in user space reads and writes the machine's memory.
pub(crate) fn has_switch(spec: &LayerSpec) -> bool {
    spec.says("net", "vhost-user")
}

impl Model {
    /// Returns what follows `-device`; `bus` ends the names of the board's virtio devices.
    fn device(self, bus: &str) -> String {
        match self {
            Self::Virtio => format!("virtio-net-{bus}"),
            Self::E1000 => String::from("e1000"),
            Self::Rtl8139 => String::from("rtl8139"),
        }
    }

    /// The guest's driver.
    fn driver(self) -> &'static str {
        match self {
            Self::Virtio => "virtio_net",
            Self::E1000 => "e1000",
            // QEMU's has the registers of the later C+ chip.
            Self::Rtl8139 => "8139cp",
        }
    }
}

impl Nic {
    /// The device that a spec asks for, if it asks for one.
    ///
    /// # Errors
    /// The user's: options of a device without one, or ones that contradict each other.
    pub(crate) fn read(spec: &LayerSpec, board: Board, cpus: u32) -> Result<Option<Self>, Fault> {
        let own = ["nic", "vhost", "offloads", "queues"];
        let said =
            |keys: &[&'static str]| keys.iter().copied().find(|key| spec.option(key).is_some());
        let shape = impairment::read(spec, &TAPS)?;
        let backend = match (spec.option("net"), said(&own)) {
            (Some("user"), _) => Backend::User,
            (Some("tap"), _) => Backend::Tap,
            (Some("ovs"), _) => Backend::OpenVswitch,
            (Some("vhost-user"), _) => Backend::VhostUser,
            (_, None) => return Ok(None),
            (_, Some(key)) => {
                return Err(Fault::user(format!(
                    "`{key}=` is of a network device, and the machine has none"
                ))
                .hint("name what stands behind it, as in `net=tap`"));
            }
        };
        let model = match spec.option("nic") {
            Some("e1000") => Model::E1000,
            Some("rtl8139") => Model::Rtl8139,
            _ => Model::Virtio,
        };
        if board == Board::Microvm && model != Model::Virtio {
            let word = spec.option("nic").unwrap_or_default();
            return Err(Fault::user(format!("a microvm has no PCI for `nic={word}`"))
                .hint("use `machine=q35` or `machine=pc`, or `nic=virtio`"));
        }
        if backend == Backend::VhostUser && model != Model::Virtio {
            let word = spec.option("nic").unwrap_or_default();
            return Err(Fault::user(format!("`net=vhost-user` knows no `nic={word}`"))
                .hint("use `nic=virtio`, or `net=tap`"));
        }
        let is_on_tap = matches!(backend, Backend::Tap | Backend::OpenVswitch);
        let is_virtio_on_tap = model == Model::Virtio && is_on_tap;
        if let Some(key) = said(&own[1..]).filter(|_| !is_virtio_on_tap) {
            return Err(Fault::user(format!("`{key}=` is of a virtio device on a tap"))
                .hint("use `net=tap` and `nic=virtio`"));
        }
        let queues = spec.option("queues").map_or(Ok(1), |text| queues(text, cpus))?;
        Ok(Some(Self {
            backend,
            model,
            has_vhost: spec.says("vhost", "on"),
            has_offloads: is_virtio_on_tap && !spec.says("offloads", "off"),
            queues,
            shape,
            socket: PathBuf::new(),
            is_second: false,
        }))
    }

    /// The same device on the bridge of another stack, if there is one: with an address of its own,
    /// in either sense.
    pub(crate) fn beside(self, other: Option<&Path>) -> Self {
        Self { is_second: other.is_some(), ..self }
    }

    /// The address of the device itself.
    fn address(&self) -> &'static str {
        if self.is_second { SECOND_MAC } else { MAC }
    }

    /// The address that the guest gets on a bridge of ours.
    fn guest(&self) -> Ipv4Addr {
        if self.is_second { network::SECOND } else { network::WORKLOAD }
    }

    /// That this level has what stands behind the device; looks, and makes nothing. Only in a guest
    /// of ours modules are loaded first: that kernel is ours to change.
    ///
    /// # Errors
    /// The machine's: it has no taps, or its kernel moves no frames.
    pub(crate) fn require(&self, site: &Site<'_>, room: &Room) -> Result<(), Fault> {
        if self.backend != Backend::User && site.level > 0 && kernel_part::is_of_a_guest_of_ours() {
            // Where one is built in, or there is none, what needs it will tell.
            let is_ovs = self.backend == Backend::OpenVswitch;
            let bridge = if is_ovs { open_vswitch::MODULE } else { "bridge" };
            let _ = ToolRun::new(&["modprobe", "-a", "tun", bridge, "vhost_net"]).run(room);
        }
        impairment::require(self.shape, site).map_err(Unavailable::fault)?;
        self.is_possible()
    }

    fn is_possible(&self) -> Result<(), Fault> {
        if self.backend != Backend::User {
            network::require_taps()?;
        }
        if self.backend == Backend::VhostUser {
            switch::require()?;
        }
        if self.backend == Backend::OpenVswitch {
            open_vswitch::require()?;
        }
        if self.has_vhost && !Path::new(VHOST_DEVICE).exists() {
            return Err(Fault::machine(format!("there is no `{VHOST_DEVICE}` for `vhost=on`"))
                .hint("modprobe vhost_net, or leave `vhost=on` out"));
        }
        Ok(())
    }

    /// Tells whether the model is virtio, which was made for virtual machines.
    pub(crate) fn is_virtio(&self) -> bool {
        self.model == Model::Virtio
    }

    /// Modules of the guest's kernel that it needs.
    pub(crate) fn modules(&self) -> Vec<&'static str> {
        vec![self.model.driver()]
    }

    /// The address of the guest with the length of its network, and the way out.
    pub(crate) fn addresses(&self) -> (String, Ipv4Addr) {
        let (guest, outside) = match self.backend {
            Backend::User => (USER_GUEST, USER_OUTSIDE),
            _ => (self.guest(), network::OUTSIDE),
        };
        (format!("{guest}/{}", network::PREFIX), outside)
    }

    /// Makes what stands behind it.
    ///
    /// # Errors
    /// As [`Nic::require`]; or the namespace, the bridge or the tap could not be made.
    pub(crate) fn make(
        &mut self,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<NetBackend, Fault> {
        if self.backend == Backend::User {
            return Ok(NetBackend::default());
        }
        let is_bare = self.backend == Backend::OpenVswitch;
        let network = match site.network {
            Some(namespace) => room.join(namespace)?,
            None if is_bare => room.bare_network()?,
            None => room.network()?,
        };
        let mut wires = NetBackend::default();
        match self.backend {
            Backend::OpenVswitch => {
                wires.taps = network.loose_tap(self.queues)?;
                wires.bridge = Some(Bridge::start(&network, room, group)?);
            }
            Backend::VhostUser => {
                let switch = Switch::start(&network, site, room, group)?;
                self.socket.clone_from(&switch.socket);
                wires.switch = Some(switch);
            }
            Backend::Tap | Backend::User => wires.taps = network.tap(self.queues)?,
        }
        if self.has_vhost {
            let worker = || {
                let opened = File::options().read(true).write(true).open(VHOST_DEVICE);
                opened.map(OwnedFd::from).doing(format_args!("open `{VHOST_DEVICE}`"))
            };
            wires.vhosts = (0..self.queues).map(|_| worker()).collect::<Result<_, _>>()?;
        }
        if let Some(shape) = self.shape {
            wires.shaped = Some(Shaped::make(&network, network.tap_name(), shape)?);
        }
        wires.network = Some(network);
        Ok(wires)
    }

    /// The same device where a program in a jail sees what stands behind it.
    ///
    /// # Errors
    /// The machine's: the socket of a switch cannot be given away.
    pub(crate) fn within(mut self, jail: &mut Jail) -> Result<Self, Fault> {
        if self.backend == Backend::VhostUser {
            self.socket = jail.lend("network.sock", &self.socket)?;
        }
        Ok(self)
    }

    /// Returns how the guest and the outside reach each other; `pid` is QEMU's.
    pub(crate) fn network(&self, pid: u32) -> WorkloadNetwork {
        match self.backend {
            Backend::User => WorkloadNetwork {
                outside: USER_OUTSIDE.into(),
                workload: None,
                is_shared: false,
                ..WorkloadNetwork::of_level()
            },
            _ => {
                let namespace = PathBuf::from(format!("/proc/{pid}/ns/net"));
                WorkloadNetwork::apart(namespace, network::OUTSIDE, Some(self.guest()))
            }
        }
    }

    /// The options of QEMU's command line; `bus` ends the names of the board's virtio devices.
    pub(crate) fn arguments(&self, bus: &str, accelerator: Accelerator) -> Vec<[String; 2]> {
        let mut options = Vec::new();
        if self.backend == Backend::VhostUser {
            let socket = self.socket.display().to_string().replace(',', ",,");
            options
                .push([String::from("-chardev"), format!("socket,id={SWITCH_ID},path={socket}")]);
        }
        let backend = match self.backend {
            Backend::User => format!("user,id={BACKEND_ID},ipv6=off"),
            Backend::VhostUser => format!("vhost-user,id={BACKEND_ID},chardev={SWITCH_ID}"),
            Backend::Tap | Backend::OpenVswitch => {
                let descriptors = |key: &str, first: i32| {
                    let first = first.unsigned_abs();
                    let numbers: Vec<String> =
                        (first..first + self.queues).map(|number| number.to_string()).collect();
                    let plural = if self.queues > 1 { "s" } else { "" };
                    format!("{key}{plural}={}", numbers.join(":"))
                };
                let taps = descriptors("fd", TAP_DESCRIPTOR);
                let vhost = match self.has_vhost {
                    true => format!("on,{}", descriptors("vhostfd", VHOST_DESCRIPTOR)),
                    false => String::from("off"),
                };
                format!("tap,id={BACKEND_ID},{taps},vhost={vhost}")
            }
        };
        let mut device = format!(
            "{},id={NIC_ID},netdev={BACKEND_ID},mac={}",
            self.model.device(bus),
            self.address()
        );
        if bus == "pci" {
            // Nobody boots from it, and its code for that would be read at every start.
            device += ",romfile=";
        }
        if self.queues > 1 {
            device += ",mq=on";
            if bus == "pci" {
                device += &format!(",vectors={}", 2 * self.queues + 2);
            }
        }
        if self.backend == Backend::VhostUser && bus == "pci" && accelerator == Accelerator::Tcg {
            // With a vector for each queue, QEMU 7.2 follows a null pointer here.
            device += ",vectors=0";
        }
        if self.backend != Backend::User && self.is_virtio() && !self.has_offloads {
            device.extend(VIRTIO_OFFLOADS.map(|name| format!(",{name}=off")));
        }
        options.push([String::from("-netdev"), backend]);
        options.push([String::from("-device"), device]);
        options
    }

    fn backend_name(&self) -> &'static str {
        match self.backend {
            Backend::User => "user",
            Backend::Tap => "tap",
            Backend::OpenVswitch => "ovs",
            Backend::VhostUser => "vhost-user",
        }
    }
}

#[cfg(test)]
mod tests;
