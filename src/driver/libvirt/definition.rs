//! A domain's definition: what is read of libvirt's XML, of a domain that runs or of one that is
//! stored.
//!
//! Source: libvirt, `formatdomain.html`.

use crate::fault::Fault;
use roxmltree::{Document, Node};
use std::path::PathBuf;
use surtax_instrument::wire::Fact;

/// The name of the channel on which a domain's guest agent is spoken to.
const GUEST_AGENT: &str = "org.qemu.guest_agent.0";

/// Source that the evidence names.
pub(super) const SOURCE: &str = "virsh dumpxml";

/// A domain, as libvirt describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Definition {
    /// Name of the domain.
    pub(super) name: String,
    /// UUID of the domain.
    pub(super) uuid: String,
    /// `kvm` or `qemu`.
    pub(super) accelerator: String,
    /// The board, with its version.
    pub(super) machine: String,
    /// Way in which its CPU is chosen, and the model's name where there is one.
    pub(super) cpu: String,
    /// User as whom its QEMU runs, by number or name; `None` where libvirt gives it none of its
    /// own.
    pub(super) user: Option<String>,
    /// State of the channel for a guest agent, as libvirt says it; `None` where there is no such
    /// channel.
    pub(super) guest_agent: Option<String>,
    /// Files that it is made of, by their paths: of its disks, with what lies below these, and what
    /// it boots from.
    pub(super) files: Vec<PathBuf>,
    disks: Vec<Disk>,
    interfaces: Vec<String>,
    channels: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Disk {
    target: String,
    text: String,
}

impl Definition {
    /// Reads what `virsh dumpxml` printed.
    ///
    /// # Errors
    /// The machine's: it is no description of a domain.
    pub(in crate::driver) fn read(xml: &str) -> Result<Self, Fault> {
        let document = Document::parse(xml).map_err(|error| {
            Fault::machine(format!("libvirt: `virsh dumpxml` printed no XML: {error}"))
        })?;
        let domain = document.root_element();
        let missing = |what: &str| {
            Fault::machine(format!("libvirt: the description of a domain names no `{what}`"))
        };
        let text = |name: &str| {
            child(domain, name)
                .and_then(|node| node.text())
                .map(str::to_owned)
                .ok_or_else(|| missing(name))
        };
        let devices = child(domain, "devices").ok_or_else(|| missing("devices"))?;
        let machine = child(domain, "os")
            .and_then(|os| child(os, "type"))
            .map(|kind| attribute(kind, "machine"));
        let channels = all(devices, "channel");
        let guest_agent = channels.iter().find_map(|channel| {
            let target = child(*channel, "target")?;
            let state = || target.attribute("state").unwrap_or("not running").to_owned();
            (attribute(target, "name") == GUEST_AGENT).then(state)
        });
        let label = all(domain, "seclabel").into_iter().find(|it| attribute(*it, "model") == "dac");
        let label = label.and_then(|it| child(it, "label")?.text());
        let user =
            label.and_then(|text| text.split(':').next()).map(|it| it.trim_start_matches('+'));
        let place = |channel: &Node<'_, '_>| {
            let alias = child(*channel, "alias").map(|alias| attribute(alias, "name"))?;
            Some((alias, attribute(child(*channel, "source")?, "path")))
        };
        Ok(Self {
            name: text("name")?,
            uuid: text("uuid")?,
            accelerator: attribute(domain, "type"),
            machine: machine.unwrap_or_else(|| String::from("unknown")),
            cpu: child(domain, "cpu").map_or_else(|| String::from("default"), cpu),
            user: user.map(str::to_owned),
            guest_agent,
            files: files(domain),
            disks: all(devices, "disk").into_iter().map(Disk::read).collect(),
            interfaces: all(devices, "interface").into_iter().map(interface).collect(),
            channels: channels.iter().filter_map(place).collect(),
        })
    }

    /// Returns the path at which libvirt made the socket of the channel with this alias.
    pub(in crate::driver) fn socket(&self, alias: &str) -> Option<&str> {
        let found = self.channels.iter().find(|(name, path)| name == alias && !path.is_empty());
        found.map(|(_, path)| path.as_str())
    }

    /// Describes its disks and its network, with what decides how fast they are.
    pub(in crate::driver) fn devices(&self) -> Vec<Fact> {
        let disks = self.disks.iter();
        let mut facts: Vec<Fact> = disks
            .map(|disk| Fact::new(format!("disk_{}", disk.target), &disk.text, SOURCE))
            .collect();
        let networks = if self.interfaces.is_empty() {
            String::from("none")
        } else {
            self.interfaces.join("; ")
        };
        facts.push(Fact::new("network", networks, SOURCE));
        facts
    }
}

impl Disk {
    /// Describes a disk. An attribute that is not written there is QEMU's default, and said to be.
    fn read(disk: Node<'_, '_>) -> Self {
        let target = child(disk, "target");
        let driver = child(disk, "driver");
        let of = |node: Option<Node<'_, '_>>, name: &str| {
            node.and_then(|node| node.attribute(name)).unwrap_or("default").to_owned()
        };
        let source = child(disk, "source").and_then(|source| {
            let places = ["file", "dev", "name", "volume", "dir"];
            places.iter().find_map(|place| source.attribute(*place))
        });
        let text = format!(
            "{} on {}, {}, cache={}, aio={}, {}",
            disk.attribute("device").unwrap_or("disk"),
            of(target, "bus"),
            of(driver, "type"),
            of(driver, "cache"),
            of(driver, "io"),
            source.unwrap_or("no medium")
        );
        Self { target: of(target, "dev"), text }
    }
}

/// Lists the files that a domain's description names.
fn files(domain: Node<'_, '_>) -> Vec<PathBuf> {
    let parts = |name| child(domain, name).into_iter().flat_map(|part| part.descendants());
    let disks = parts("devices").filter(|node| node.has_tag_name("disk"));
    let sources = disks.flat_map(|disk| disk.descendants()).filter(|it| it.has_tag_name("source"));
    let places = ["file", "dev", "dir"];
    let sources = sources.filter_map(|it| places.iter().find_map(|place| it.attribute(*place)));
    let boots = ["kernel", "initrd", "loader", "nvram"];
    let boot = parts("os").filter(|node| boots.contains(&node.tag_name().name()));
    sources.chain(boot.filter_map(|node| node.text())).map(PathBuf::from).collect()
}

fn cpu(cpu: Node<'_, '_>) -> String {
    let mode = cpu.attribute("mode").unwrap_or("custom").to_owned();
    let model = child(cpu, "model").and_then(|model| model.text());
    model.map_or(mode.clone(), |model| format!("{mode} {model}"))
}

fn interface(interface: Node<'_, '_>) -> String {
    let model = child(interface, "model").map(|model| attribute(model, "type"));
    let driver = child(interface, "driver").map(|driver| attribute(driver, "name"));
    let source = child(interface, "source")
        .and_then(|source| source.attributes().next().map(|first| first.value().to_owned()));
    let kind = interface.attribute("type").unwrap_or("unknown").to_owned();
    let words = [Some(kind), source, model, driver];
    words.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn all<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Vec<Node<'a, 'input>> {
    node.children().filter(|child| child.has_tag_name(name)).collect()
}

fn attribute(node: Node<'_, '_>, name: &str) -> String {
    node.attribute(name).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<domain type='kvm' id='3'><name>web</name>\
        <uuid>a097cbdb-cda7-444f-8132-976ad8644c51</uuid>\
        <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>\
        <cpu mode='custom'><model fallback='forbid'>EPYC</model></cpu><devices>\
        <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none' io='native'/>\
        <source file='/images/web.qcow2'/><target dev='vda' bus='virtio'/></disk>\
        <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>\
        <interface type='network'><source network='default'/><model type='virtio'/></interface>\
        <channel type='unix'><source mode='bind' path='/var/lib/a'/>\
        <target type='virtio' name='org.qemu.guest_agent.0' state='connected'/>\
        <alias name='channel0'/></channel>\
        <channel type='unix'><source mode='bind' path='/var/lib/b'/>\
        <target type='virtio' name='surtax-1'/><alias name='ua-surtax-1'/></channel>\
        </devices><seclabel type='dynamic' model='apparmor' relabel='yes'><label>libvirt-a</label>\
        </seclabel><seclabel type='dynamic' model='dac' relabel='yes'><label>+64055:+104</label>\
        </seclabel></domain>";

    #[test]
    fn what_decides_how_fast_a_domain_is_is_read() {
        let domain = Definition::read(XML).unwrap();
        assert_eq!((domain.name.as_str(), domain.accelerator.as_str()), ("web", "kvm"));
        assert_eq!((domain.machine.as_str(), domain.cpu.as_str()), ("pc-q35-7.2", "custom EPYC"));
        assert_eq!(domain.guest_agent.as_deref(), Some("connected"));
        assert_eq!(domain.user.as_deref(), Some("64055"));
        let unlabelled = Definition::read(&XML.replace("model='dac'", "model='selinux'")).unwrap();
        assert_eq!(unlabelled.user, None);
        assert_eq!(domain.socket("ua-surtax-1"), Some("/var/lib/b"));
        assert_eq!(domain.socket("ua-surtax-2"), None);
        assert_eq!(domain.files, [PathBuf::from("/images/web.qcow2")]);
        let facts = domain.devices();
        let told: Vec<_> =
            facts.iter().map(|fact| format!("{}: {}", fact.key, fact.value)).collect();
        assert_eq!(
            told,
            [
                "disk_vda: disk on virtio, qcow2, cache=none, aio=native, /images/web.qcow2",
                "disk_sda: cdrom on sata, default, cache=default, aio=default, no medium",
                "network: network default virtio",
            ]
        );
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        let fault = Definition::read("Domain not found").unwrap_err();
        assert!(fault.message.contains("printed no XML"), "{fault}");
        let fault = Definition::read("<domain type='kvm'><name>web</name></domain>").unwrap_err();
        assert!(fault.message.contains("names no `devices`"), "{fault}");
    }
}
