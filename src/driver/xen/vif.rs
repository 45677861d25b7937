//! A network device of a domain's, and its other end in Dom0: a link of xen-netback's on a bridge
//! of ours.
//!
//! Xen's tools would have a script of the machine's put that link on a bridge of the machine's.
//! Here they run a program that does nothing; the link is moved into a network namespace of the
//! room, onto the bridge on which taps and veth pairs are in other layers, and then the store says
//! of it what such a script would.
//!
//! Source: `xl-network-configuration(5)` of Xen 4.17, Linux `drivers/net/xen-netback/xenbus.c`.

use super::toolstack;
use super::vbd::CONNECTED;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Room, ToolRun, kernel_part, network};
use crate::layer::{
    LayerSpec, OptionSpec, Site, Unavailable, WorkloadNetwork, option, require_program, value_of,
};
use crate::vm::claims::as_asked;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surtax_instrument::wire::Fact;

/// The device's own address, out of those that are Xen's.
const MAC: &str = "00:16:3e:12:34:56";

/// Directory of the driver at the other end, in Dom0's kernel.
const NETBACK: &str = "/sys/bus/xen-backend/drivers/vif";

/// Program that does nothing, in place of a script.
const NO_SCRIPT: &str = "true";

/// The option.
pub(super) const NET: OptionSpec = option("net", &["none", "bridge"])
    .help("the network: `bridge` is one of this level's, through xen-netback (default: none)");

/// A network device, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nic {
    /// Script that Xen's tools run when they have made the device.
    pub(super) script: PathBuf,
}

impl Nic {
    /// Tells whether a spec asks for a network device.
    pub(super) fn is_asked_for(spec: &LayerSpec) -> bool {
        spec.says("net", "bridge")
    }

    /// Sees to it that there is something for the other end. Only in a guest of ours a module is
    /// loaded: that kernel is ours to change.
    ///
    /// # Errors
    /// The machine's: Dom0's kernel has no xen-netback.
    pub(super) fn prepare(site: &Site<'_>, room: &Room) -> Result<Self, Fault> {
        if may_load(site) {
            // Where it is built in, or there is none, what needs it will tell.
            let _ = ToolRun::new(&["modprobe", "-a", "xen-netback", "bridge"]).run(room);
        }
        require_netback().map_err(Unavailable::fault)?;
        let script = require_program(NO_SCRIPT, "apt-get install coreutils")
            .map_err(|it| it.fault().during("xen"))?;
        Ok(Self { script })
    }

    /// Returns the text that follows `vif=`.
    pub(super) fn text(&self) -> String {
        format!("mac={MAC},script={}", self.script.display())
    }
}

/// That there is something for the other end; looks, and loads nothing.
///
/// # Errors
/// Dom0's kernel has no xen-netback, or has not loaded it.
pub(super) fn require(site: &Site<'_>) -> Result<(), Unavailable> {
    if may_load(site) { Ok(()) } else { require_netback() }
}

fn may_load(site: &Site<'_>) -> bool {
    site.level > 0 && kernel_part::is_of_a_guest_of_ours()
}

fn require_netback() -> Result<(), Unavailable> {
    if Path::new(NETBACK).is_dir() {
        return Ok(());
    }
    Err(Unavailable::new(
        "Dom0's kernel has not loaded xen-netback for `net=bridge`",
        "modprobe xen-netback",
    ))
}

/// The other end of a domain's network device.
pub(super) struct Vif {
    id: u16,
    name: String,
    /// Network that the device is on.
    pub(super) network: Arc<lab::RoomNetwork>,
}

impl Vif {
    /// Puts the link of a domain that waits onto the bridge, and has the store say so.
    ///
    /// # Errors
    /// The machine's: there is no such link, or it cannot be moved.
    pub(super) fn plug_in(id: u16, network: lab::RoomNetwork) -> Result<Self, Fault> {
        let vif = Self { id, name: format!("vif{id}.0"), network: Arc::new(network) };
        vif.network.take_in(&vif.name)?;
        toolstack::write(&format!("{}/hotplug-status", vif.place()), "connected")?;
        Ok(vif)
    }

    /// Returns the path of Dom0's half in the store.
    fn place(&self) -> String {
        format!("/local/domain/0/backend/vif/{}/0", self.id)
    }

    /// Describes how the domain and the outside reach each other.
    pub(super) fn network(&self) -> WorkloadNetwork {
        let (outside, workload) = (network::OUTSIDE, Some(self.network.workload()));
        WorkloadNetwork::apart(self.network.path(), outside, workload)
    }

    /// The device as the store, Dom0's kernel and the domain have it.
    ///
    /// # Errors
    /// One of them does not have what was asked for.
    pub(super) fn prove(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let state = |place: &str| toolstack::read(&format!("{place}/state"));
        let (ours, theirs) =
            (state(&self.place())?, state(&format!("/local/domain/{}/device/vif/0", self.id))?);
        let claims = [
            ("state for Dom0", CONNECTED, ours.as_str()),
            ("state for the domain", CONNECTED, theirs.as_str()),
            ("address in the domain", MAC, value_of(inside, "link_address")?),
            ("driver in the domain", "vif", value_of(inside, "link_driver")?),
        ];
        as_asked("xen: the network device", claims)?;
        let mut facts = self.prove_outside()?;
        facts.extend([
            Fact::new("nic_driver", "xen-netfront", "/sys inside: its name there is `vif`"),
            Fact::new("nic_offloads", value_of(inside, "link_offloads")?, "ethtool(8) inside"),
            Fact::new("nic_queues", value_of(inside, "link_queues")?, "/sys inside"),
        ]);
        Ok(facts)
    }

    /// The same, as far as it can be told without asking inside.
    ///
    /// # Errors
    /// As [`Vif::prove`].
    pub(super) fn prove_outside(&self) -> Result<Vec<Fact>, Fault> {
        let address = toolstack::read(&format!("{}/mac", self.place()))?;
        let device = format!("/sys/bus/xen-backend/devices/vif-{}-0/driver", self.id);
        let driver = fs::read_link(&device).doing(format_args!("see whose `{device}` is"))?;
        let driver = driver.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_plugged_in = if self.network.has(&self.name)? { "there" } else { "elsewhere" };
        let claims = [
            ("address for Dom0", MAC, address.as_str()),
            ("driver in Dom0", "vif", driver.as_str()),
            ("link on the bridge", "there", is_plugged_in),
        ];
        as_asked("xen: the network device", claims)?;
        let offloads = self.network.offloads(&self.name)?.join(" ");
        Ok(vec![
            Fact::new("network", "bridge", "xenstore, and the bridge's namespace"),
            // Nothing of it is translated: nothing leads out of it.
            Fact::new("network_translation", "none", "the bridge's namespace"),
            Fact::new("nic_model", "vif", "xenstore"),
            Fact::new("nic_address", MAC, "xenstore"),
            Fact::new(
                "nic_backend",
                "xen-netback",
                "/sys/bus/xen-backend: its name there is `vif`",
            ),
            Fact::new("vif_offloads", offloads, "ethtool(8) of netback's link"),
        ])
    }
}
