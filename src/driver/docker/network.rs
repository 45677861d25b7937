//! A container's network: which of the daemon's it gets, and those that are made for it.
//!
//! `none`, `host` and `bridge` are there with the daemon. A network of the user's own (`user`: a
//! bridge with a resolver of names) and a `macvlan` are made once per lab, by the Engine API. A
//! macvlan needs a link below it: one end of a pair in the private daemon's namespace, whose other
//! end is the gateway.

use super::REQUEST_DEADLINE;
use super::daemon::Daemon;
use super::engine::{About, Engine};
use crate::fault::{Doing, Fault};
use crate::lab::{Room, ToolRun, Undo};
use crate::layer::publish::Port;
use crate::layer::{LayerSpec, OptionSpec, Site, option, value_of};
use bollard::models::{
    ContainerInspectResponse, Ipam, IpamConfig, NetworkCreateRequest, PortBinding, PortMap,
};
use std::fs;
use std::net::IpAddr;
use surtax_instrument::wire::Fact;

/// The option that names the network.
pub const NET: OptionSpec = option("net", &["none", "host", "bridge", "user", "macvlan"]).help(
    "the network: the daemon's bridge, one of its own (`user`), or a link's own address \
     (`macvlan`) (default: bridge if the daemon has one, else none)",
);

/// The link below a macvlan, and the one that it is paired with.
const PARENT: [&str; 2] = ["surtax0", "surtax1"];

/// The addresses of a macvlan. Nothing but what is in the daemon's namespace ever sees them.
const SUBNET: &str = "172.31.240.0/24";

/// The address of the other end of the pair.
const GATEWAY: &str = "172.31.240.1";

/// Network options that a spec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkOptions<'a> {
    word: Option<&'a str>,
    port: Option<Port>,
}

/// The network of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerNetwork {
    /// The word of the option.
    pub word: String,
    /// The engine's name for it.
    pub name: String,
    pub(super) port: Option<Port>,
}

impl<'a> NetworkOptions<'a> {
    /// Reads a spec.
    ///
    /// # Errors
    /// The user's: a port that is none, or one of a network that has no NAT.
    pub fn read(spec: &'a LayerSpec) -> Result<Self, Fault> {
        let word = spec.option("net");
        let port = Port::read(spec, word.unwrap_or("bridge"))?;
        Ok(Self { word, port })
    }

    /// Tells whether a private daemon must be in a network namespace of its own for the options.
    pub fn needs_own_namespace(&self) -> bool {
        matches!(self.word, Some("bridge" | "user" | "macvlan")) || self.port.is_some()
    }

    /// Chooses the one of a daemon's networks that the options name.
    ///
    /// # Errors
    /// The user's: a daemon of the machine has none of the name.
    pub fn choose(
        &self,
        about: &About,
        is_private: bool,
        lab: &str,
    ) -> Result<ContainerNetwork, Fault> {
        let has = |name: &str| about.networks.iter().any(|network| network == name);
        let network = |word: &str, name: String| {
            Ok(ContainerNetwork { word: word.to_owned(), name, port: self.port })
        };
        match self.word {
            None if has("bridge") => network("bridge", "bridge".to_owned()),
            None if self.port.is_none() => network("none", "none".to_owned()),
            Some("macvlan") if !is_private => Err(Fault::user(
                "docker: `net=macvlan` would put containers on a link of this machine",
            )
            .hint("stop the machine's own daemon, so that a private one brings its own link")),
            Some(word @ ("user" | "macvlan")) => network(word, format!("surtax-{lab}-{word}")),
            Some(word) if has(word) => network(word, word.to_owned()),
            word => Err(Fault::user(format!(
                "docker: the daemon has no network `{}`, only {}",
                word.unwrap_or("bridge"),
                about.networks.join(", ")
            ))
            .hint("use `net=none` or `net=host`, or start the machine's own daemon")),
        }
    }
}

impl ContainerNetwork {
    /// Tells whether the container is in this level's network.
    pub fn is_shared(&self) -> bool {
        self.name == "host"
    }

    /// The ports that are published.
    pub fn ports(&self) -> Option<PortMap> {
        let port = self.port?;
        let binding = PortBinding { host_ip: None, host_port: Some(port.number.to_string()) };
        Some([(port.word(), Some(vec![binding]))].into())
    }

    /// Makes it, if it is one that is made; once, and removed when the lab is closed.
    ///
    /// # Errors
    /// The daemon's; or that of `ip`, which makes the link below a macvlan.
    pub fn make(&self, site: &Site<'_>, daemon: &Daemon, engine: &Engine) -> Result<(), Fault> {
        if !matches!(self.word.as_str(), "user" | "macvlan") {
            return Ok(());
        }
        let service = format!("{}-network-{}", daemon.name, self.word);
        site.lab.service(&service, |room| {
            if self.word == "macvlan" {
                make_parent(daemon, room)?;
            }
            room.promise(Undo::EngineNetwork {
                socket: daemon.socket.clone(),
                name: self.name.clone(),
            })?;
            engine.make_network(self.request())?;
            Ok(None)
        })?;
        Ok(())
    }

    fn request(&self) -> NetworkCreateRequest {
        let name = self.name.clone();
        if self.word != "macvlan" {
            let driver = Some("bridge".to_owned());
            return NetworkCreateRequest { name, driver, ..NetworkCreateRequest::default() };
        }
        let addresses = IpamConfig {
            subnet: Some(SUBNET.to_owned()),
            gateway: Some(GATEWAY.to_owned()),
            ..IpamConfig::default()
        };
        NetworkCreateRequest {
            name,
            driver: Some("macvlan".to_owned()),
            ipam: Some(Ipam { config: Some(vec![addresses]), ..Ipam::default() }),
            options: Some([("parent".to_owned(), PARENT[0].to_owned())].into()),
            ..NetworkCreateRequest::default()
        }
    }

    /// The addresses of the outside and of the container, where the engine says both.
    pub fn addresses(
        &self,
        inspected: &ContainerInspectResponse,
    ) -> Option<(IpAddr, Option<IpAddr>)> {
        let networks = inspected.network_settings.as_ref()?.networks.as_ref()?;
        let endpoint = networks.get(&self.name)?;
        let read = |text: Option<&String>| text?.parse().ok();
        Some((read(endpoint.gateway.as_ref())?, read(endpoint.ip_address.as_ref())))
    }

    /// Proves the network: what the engine says of it must be what was asked for, and agree with
    /// what is seen inside.
    ///
    /// # Errors
    /// The machine's: it is another network, or the container has another address than the engine
    /// says.
    pub fn prove(
        &self,
        engine: &Engine,
        inspected: &ContainerInspectResponse,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let driver = engine.network_driver(&self.name)?;
        let expected = if self.word == "user" { "bridge" } else { &self.word };
        // The two that are no networks are called so by the engine as well, but for `none`.
        if driver != expected && !(driver == "null" && expected == "none") {
            return Err(Fault::machine(format!(
                "docker: `net={}` was asked for, and the network's driver is `{driver}`",
                self.word
            )));
        }
        let settings = inspected.network_settings.as_ref();
        let networks = settings.and_then(|all| all.networks.as_ref());
        let endpoint = networks.and_then(|networks| networks.get(&self.name));
        let some = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let mut facts = vec![
            Fact::new("network", &self.word, "GET /containers/NAME/json"),
            Fact::new("network_driver", &driver, "GET /networks/NAME"),
        ];
        if driver == "bridge" || driver == "macvlan" {
            let translation = if driver == "bridge" { "masquerade" } else { "none" };
            facts.push(Fact::new("network_translation", translation, "the network's driver"));
        }
        if endpoint.is_none() {
            let found = networks.map(|all| all.keys().cloned().collect::<Vec<_>>().join(", "));
            return Err(Fault::machine(format!(
                "docker: the container was to be in the network `{}`, and is in `{}`",
                self.name,
                found.unwrap_or_default()
            )));
        }
        if let Some(address) = some(endpoint.and_then(|endpoint| endpoint.ip_address.as_ref())) {
            require_inside(inside, &address)?;
            facts.push(Fact::new("network_address", address, "GET /containers/NAME/json"));
        }
        if let Some(gateway) = some(endpoint.and_then(|endpoint| endpoint.gateway.as_ref())) {
            facts.push(Fact::new("network_gateway", gateway, "GET /containers/NAME/json"));
        }
        if let Some(port) = self.port {
            let ports = settings.and_then(|all| all.ports.as_ref());
            let bound = ports.and_then(|ports| ports.get(&port.word())?.as_ref());
            let bound = bound.into_iter().flatten().filter_map(|bound| bound.host_port.clone());
            let bound = bound.collect::<Vec<_>>().join(", ");
            if bound.split(", ").next() != Some(&port.number.to_string()) {
                return Err(Fault::machine(format!(
                    "docker: the port {} was to be published, and those outside are `{bound}`",
                    port.word()
                )));
            }
            facts.push(Fact::new("published_port", port.word(), "GET /containers/NAME/json"));
        }
        Ok(facts)
    }
}

/// That one of the interfaces inside has this address.
fn require_inside(inside: &[Fact], address: &str) -> Result<(), Fault> {
    let interfaces = value_of(inside, "interfaces")?;
    let mut found = interfaces.split([' ', '=', ',']).filter_map(|word| word.split_once('/'));
    if found.any(|(found, _)| found == address) {
        return Ok(());
    }
    Err(Fault::machine(format!(
        "docker: the container's address is `{address}`, and what it has inside is `{interfaces}`"
    )))
}

/// A pair of links in the private daemon's namespace; gone with it.
fn make_parent(daemon: &Daemon, room: &Room) -> Result<(), Fault> {
    let service = daemon.private.as_ref().ok_or_else(|| {
        Fault::bug("a link was to be made for a macvlan of the machine's own daemon")
    })?;
    let file = service.directory.join("pid");
    let pid = fs::read_to_string(&file).doing(format_args!("read `{}`", file.display()))?;
    let namespace = format!("--net=/proc/{}/ns/net", pid.trim());
    let [parent, peer] = PARENT;
    let orders = format!(
        "link add {parent} type veth peer name {peer}\n\
         address add {GATEWAY}/24 dev {peer}\n\
         link set {parent} up\nlink set {peer} up\n"
    );
    let argv = ["nsenter", &namespace, "ip", "-batch", "-"];
    let tool_run = ToolRun {
        input: Some(orders.as_bytes()),
        deadline: REQUEST_DEADLINE,
        ..ToolRun::new(&argv)
    };
    tool_run.run(room).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("docker", options)
    }

    #[test]
    fn a_port_is_published_only_where_addresses_are_translated() {
        assert!(NetworkOptions::read(&spec(&[("publish", "8080")])).unwrap().needs_own_namespace());
        let udp = spec(&[("net", "user"), ("publish", "5201/udp")]);
        assert_eq!(NetworkOptions::read(&udp).unwrap().port.unwrap().word(), "5201/udp");
        for net in ["none", "host", "macvlan"] {
            let fault =
                NetworkOptions::read(&spec(&[("net", net), ("publish", "80")])).unwrap_err();
            assert!(fault.message.contains(&format!("`net={net}`")), "{fault}");
        }
    }

    fn about(networks: &[&str]) -> About {
        About {
            spoken: bollard::API_DEFAULT_VERSION.to_owned(),
            version: bollard::models::SystemVersion::default(),
            info: bollard::models::SystemInfo::default(),
            networks: networks.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_network_is_the_daemons_or_made_for_it() {
        let name = |net: &str, has: &[&str], is_private| {
            let spec = spec(&[("net", net)]);
            let asked = NetworkOptions::read(&spec).unwrap();
            asked.choose(&about(has), is_private, "7").map(|network| network.name)
        };
        let all = ["bridge", "host", "none"];
        assert_eq!(name("user", &all, false).unwrap(), "surtax-7-user");
        assert_eq!(name("macvlan", &all, true).unwrap(), "surtax-7-macvlan");
        assert_eq!(name("host", &all, false).unwrap(), "host");
        assert!(name("macvlan", &all, false).unwrap_err().message.contains("this machine"));
        let fault = name("bridge", &all[1..], false).unwrap_err();
        assert!(fault.message.ends_with("no network `bridge`, only host, none"), "{fault}");
        let nothing = spec(&[]);
        let chosen = NetworkOptions::read(&nothing).unwrap().choose(&about(&all[1..]), true, "7");
        assert_eq!(chosen.unwrap().word, "none");
    }

    #[test]
    fn an_address_that_is_not_there_is_named() {
        let inside = [Fact::new("interfaces", "eth0=172.17.0.2/16 lo=127.0.0.1/8", "test")];
        assert!(require_inside(&inside, "172.17.0.2").is_ok());
        let fault = require_inside(&inside, "172.17.0.20").unwrap_err();
        assert!(fault.message.contains("`172.17.0.20`"), "{fault}");
    }
}
