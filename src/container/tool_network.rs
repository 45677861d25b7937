//! The network of a container: a namespace of the room, in which a tool makes its own links.
//!
//! The tool runs in that namespace and finds there what its links hang on: a bridge, or a link for
//! a macvlan. An OCI runtime makes no links: as an engine's network plugin would, surtax prepares a
//! namespace for the container, with one end of a pair in it. All of that is gone with the
//! container, and nothing of it is seen on the machine.

use crate::container::engine_runtime::Kernel;
use crate::fault::Fault;
use crate::lab::network::OUTSIDE;
use crate::lab::{self, Mount, Process, Room, Shaped};
use crate::layer::{
    LayerSpec, NETWORK, OptionSpec, Site, Unavailable, WorkloadNetwork, impairment, option,
    value_of,
};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::wire::Fact;

/// Between two looks for a link.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Wiring of the namespace, as a tool finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// A bridge with the address of the outside.
    Bridge,
    /// A link for a macvlan, paired with one that has the address of the outside.
    Pair,
    /// Nothing but `lo`: the tool's outer end, whose name begins so, gets the address of the
    /// outside.
    OuterEnd(&'static str),
    /// Nothing but `lo`: the tool makes a bridge and chooses addresses.
    Bare,
    /// Nothing but `lo`: the tool makes a bridge with this address, as it was told, and chooses
    /// others.
    Given(Ipv4Addr),
    /// A bridge, and a namespace for the container that is connected with it.
    Prepared,
    /// Nothing but `lo`, which the container reaches through a process that copies its packets.
    UserMode,
}

/// A network that a tool has: its word, and on what it is made.
pub(crate) type NamedNetwork = (&'static str, Wiring);

/// The option of a tool that has these networks.
pub(crate) const fn choice(values: &'static [&'static str]) -> OptionSpec {
    option(NETWORK, values).help(
        "the network: only `lo` (`none`, default), this level's own (`host`), or a link in a \
         namespace of the trial's, that leads to the outside of the container",
    )
}

/// The words of those whose link surtax makes: it can be shaped.
pub(crate) fn made_here(known: &[NamedNetwork]) -> Vec<&'static str> {
    let is_made = |(_, wiring): &&NamedNetwork| *wiring == Wiring::Prepared;
    known.iter().filter(is_made).map(|(word, _)| *word).collect()
}

/// That what makes the network of a spec is there.
pub(crate) fn require(spec: &LayerSpec, known: &[NamedNetwork]) -> Result<(), Unavailable> {
    let word = spec.option(NETWORK).unwrap_or("none");
    if [Wiring::Pair, Wiring::Prepared].into_iter().any(|wiring| known.contains(&(word, wiring)))
        && lab::find("ip").is_none()
    {
        return Err(Unavailable::new(
            format!("`net={word}` takes `ip`, which is not in `PATH`"),
            "apt-get install iproute2",
        ));
    }
    Ok(())
}

/// The network of a container.
#[derive(Debug)]
pub(crate) struct ToolNetwork {
    /// The word of the option.
    pub word: String,
    wiring: Wiring,
    /// The namespace in which the tool runs, where it is not this level's.
    held: Option<lab::RoomNetwork>,
    /// The one that was prepared for the container.
    prepared: Option<lab::RoomNetwork>,
    /// Shaping of its link, where that is worse than it could be.
    shaped: Option<Shaped>,
    /// Addresses of the outside and, if it can be called, of the workload, as the agent saw them.
    seen: Option<(IpAddr, Option<IpAddr>)>,
}

impl ToolNetwork {
    /// Makes what the tool needs for the network that a spec names.
    ///
    /// # Errors
    /// The machine's: no bridges, no veth, or no `ip`.
    pub fn make(
        spec: &LayerSpec,
        known: &[NamedNetwork],
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Self, Fault> {
        let word = spec.option(NETWORK).unwrap_or("none");
        let wiring = known.iter().find(|(name, _)| *name == word).map(|(_, wiring)| *wiring);
        let held = match wiring {
            None => None,
            // Beside another stack it stands on that one's bridge.
            Some(Wiring::Prepared) if site.network.is_some() => {
                site.network.map(|namespace| room.join(namespace)).transpose()?
            }
            Some(Wiring::Bridge | Wiring::Prepared) => Some(room.network()?),
            Some(Wiring::Pair) => Some(room.paired_network()?),
            Some(Wiring::OuterEnd(_) | Wiring::Bare | Wiring::Given(_) | Wiring::UserMode) => {
                Some(room.bare_network()?)
            }
        };
        let prepared = match (wiring, &held) {
            (Some(Wiring::Prepared), Some(outside)) => {
                let prepared = room.bare_network()?;
                outside.connect_empty(&prepared)?;
                Some(prepared)
            }
            _ => None,
        };
        let shape =
            impairment::read(spec, &made_here(known)).map_err(|fault| fault.during(&spec.kind))?;
        let shaped = match (&held, shape) {
            (Some(outside), Some(shape)) => {
                Some(Shaped::make(outside, outside.outer_end(), shape)?)
            }
            _ => None,
        };
        let wiring = wiring.unwrap_or(Wiring::Bare);
        Ok(Self { word: word.to_owned(), wiring, held, prepared, shaped, seen: None })
    }

    /// Tells whether the container is in this level's network.
    pub fn is_shared(&self) -> bool {
        self.word == "host"
    }

    /// The namespace in which the tool runs, where it is not this level's.
    pub fn held(&self) -> Option<&lab::RoomNetwork> {
        self.held.as_ref()
    }

    /// The namespace that was prepared for the container, as a file.
    pub fn prepared(&self) -> Option<PathBuf> {
        self.prepared.as_ref().map(lab::RoomNetwork::path)
    }

    /// Gives the tool's outer end its address as soon as it is there, if nobody else does.
    ///
    /// # Errors
    /// The machine's: it is not there in time. A tool that has ended says why elsewhere.
    pub fn finish(&self, tool: &mut Process, deadline: Duration) -> Result<(), Fault> {
        let (Wiring::OuterEnd(begins), Some(held)) = (self.wiring, &self.held) else {
            return Ok(());
        };
        let began = monotonic_raw();
        while !held.adopt(begins)? {
            if tool.wait(LOOK_AGAIN)?.is_some() {
                return Ok(());
            }
            if Duration::from(monotonic_raw().since(began)) > deadline {
                let seconds = deadline.as_secs_f64();
                return Err(Fault::machine(format!(
                    "the tool made no link `{begins}…` within {seconds:.1} s"
                )));
            }
        }
        Ok(())
    }

    /// That the link inside is of the kind asked for, with the addresses that it was to have.
    ///
    /// # Errors
    /// The machine's: it is not.
    pub fn prove(&mut self, kernel: Kernel, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        if self.held.is_none() {
            return Ok(Vec::new());
        }
        let (interfaces, drivers) =
            (value_of(inside, "interfaces")?, value_of(inside, "link_drivers")?);
        let route = value_of(inside, "default_route")?;
        let asked = &self.word;
        let refuse = || {
            Fault::machine(format!(
                "`net={asked}` was asked for, and the container has `{interfaces}` with the \
                 drivers `{drivers}` and the way out `{route}`"
            ))
        };
        let driver = match asked.as_str() {
            // A sandbox's own stack has no drivers.
            _ if kernel == Kernel::Gvisor => None,
            "macvlan" => Some("macvlan"),
            "slirp4netns" => Some("tun"),
            _ => Some("veth"),
        };
        let (link, gateway) = route.split_once(' ').ok_or_else(refuse)?;
        let address = address_of(interfaces, link).ok_or_else(refuse)?;
        let gateway: Ipv4Addr = gateway.parse().map_err(|_| refuse())?;
        let workload = self.held.as_ref().map(lab::RoomNetwork::workload);
        let is_ours = match self.wiring {
            Wiring::Bare | Wiring::UserMode => true,
            Wiring::Given(bridge) => gateway == bridge,
            _ => (Some(address), gateway) == (workload, OUTSIDE),
        };
        let is_driver = driver
            .is_none_or(|driver| drivers.split(' ').any(|told| told == format!("{link}={driver}")));
        if !is_ours || !is_driver {
            return Err(refuse());
        }
        // Nobody finds the address of a container whose packets a process makes anew.
        let workload = (self.wiring != Wiring::UserMode).then_some(address.into());
        self.seen = Some((gateway.into(), workload));
        // Where a tool makes the bridge, it also makes others share its address.
        let translation = match self.wiring {
            Wiring::Bare | Wiring::Given(_) => "masquerade",
            Wiring::UserMode => "user mode",
            _ => "none",
        };
        let mut facts = vec![
            Fact::new("network", asked, "its start"),
            Fact::new("network_driver", driver.unwrap_or("none"), "ethtool_drvinfo inside"),
            Fact::new("network_translation", translation, "who made the bridge"),
            Fact::new("network_address", address.to_string(), "getifaddrs(3) inside"),
            Fact::new("network_gateway", gateway.to_string(), "/proc/net/route inside"),
        ];
        if let (Some(shaped), Some(held)) = (&self.shaped, &self.held) {
            facts.extend(shaped.prove(held)?);
        }
        Ok(facts)
    }

    /// Returns the network between the workload and the outside; `None` where none is known.
    pub fn reach(&self) -> Option<WorkloadNetwork> {
        if self.is_shared() {
            return Some(WorkloadNetwork::of_level());
        }
        let (outside, workload) = self.seen?;
        let namespace = self.held.as_ref()?.path();
        Some(WorkloadNetwork::apart(namespace, outside, workload))
    }
}

/// The links of the network namespace where `/sys` shows those of the level: what is not there is
/// no bridge to a tool, and no link.
pub(crate) fn own_links(fresh: &Path) -> Vec<Mount> {
    // In a user namespace only what is here, whole and as writable, can be mounted again.
    let mut mounts = vec![Mount::fresh("sysfs", fresh, "nosuid,nodev,noexec")];
    mounts.extend(
        ["class/net", "devices/virtual/net"]
            .map(|place| Mount::bind_read_only(fresh.join(place), Path::new("/sys").join(place))),
    );
    mounts
}

/// The first address of a link, in what the agent says of all of them.
fn address_of(interfaces: &str, link: &str) -> Option<Ipv4Addr> {
    let (_, addresses) = interfaces
        .split(' ')
        .filter_map(|word| word.split_once('='))
        .find(|(name, _)| *name == link)?;
    addresses.split(['/', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::container::tool_network::*;

    #[test]
    fn an_address_is_that_of_its_link() {
        let interfaces = "eth0=198.18.0.2/24,10.0.0.1/8 lo=127.0.0.1/8 tap0";
        assert_eq!(address_of(interfaces, "eth0"), Some(lab::network::WORKLOAD));
        assert_eq!(address_of(interfaces, "tap0"), None);
        assert_eq!(address_of(interfaces, "eth1"), None);
    }

    #[test]
    fn a_container_without_a_network_of_its_own_needs_no_namespace_of_the_rooms() {
        let network = |word: &str| ToolNetwork {
            word: word.into(),
            wiring: Wiring::Bare,
            held: None,
            prepared: None,
            shaped: None,
            seen: None,
        };
        assert!(network("host").reach().unwrap().is_shared);
        assert!(network("none").reach().is_none());
        assert_eq!(network("none").prove(Kernel::Shared, &[]), Ok(Vec::new()));
    }
}
