//! Evidence of a network device: what QEMU, this level and the guest say of it, held against each
//! other.

use super::{BACKEND_ID, Backend, Model, NIC_ID, NetBackend, Nic, VHOST_DEVICE};
use crate::fault::{Doing, Fault};
use crate::layer::value_of;
use crate::vm::claims::as_asked;
use crate::vm::qmp::Qmp;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// Those of virtio's features without which a device has no offloads worth the name, by their
/// number.
///
/// Source: virtio 1.2, section 5.1.3: `CSUM`, `GUEST_CSUM`, `GUEST_TSO4`, `GUEST_TSO6`,
/// `HOST_TSO4`, `HOST_TSO6`, `MRG_RXBUF`.
const VIRTIO_BITS: [u32; 7] = [0, 1, 7, 8, 11, 12, 15];

/// Words that a link with offloads must say, and that one without must not say.
const LINK_OFFLOADS: [&str; 2] = ["tx-checksum", "tso"];

impl Nic {
    /// The device as QEMU, this level and the guest have it.
    ///
    /// # Errors
    /// One of them does not have what was asked for.
    pub(crate) fn prove(
        &self,
        qmp: &mut Qmp,
        pid: u32,
        wires: &NetBackend,
        bus: &str,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let driver = value_of(inside, "link_driver")?;
        let offloads = value_of(inside, "link_offloads")?;
        let told = Told::read(&qmp.networks()?);
        let queues = self.queues.to_string();
        let mut claims = vec![
            ("model", self.model.device(bus), told.model),
            ("backend", self.backend_of_qemu().to_owned(), told.backend),
            ("address", self.address().to_owned(), told.address),
            ("address", self.address().to_owned(), value_of(inside, "link_address")?.to_owned()),
            ("driver", self.model.driver().to_owned(), driver.to_owned()),
            ("number of queues", queues.clone(), told.queues.to_string()),
            ("number of queues", queues.clone(), value_of(inside, "link_queues")?.to_owned()),
            ("vhost", on(self.has_vhost), on(holds(pid, VHOST_DEVICE)? > 0)),
        ];
        let mut facts = vec![
            Fact::new("network", self.backend_name(), "info network of QEMU"),
            Fact::new("nic_model", self.model.device(bus), "info network of QEMU"),
            Fact::new("nic_address", self.address(), "info network of QEMU, and /sys inside"),
            Fact::new("nic_driver", driver, "/sys inside"),
            Fact::new("nic_offloads", offloads, "ethtool(8) inside"),
            Fact::new("nic_queues", &queues, "info network of QEMU, and /sys inside"),
            Fact::new("vhost", on(self.has_vhost), "/proc/PID/fd of QEMU"),
        ];
        if let Some(network) = &wires.network {
            let name = network.tap_name();
            match &wires.switch {
                None => {
                    claims.push(("number of queues", queues, tap_queues(pid, name)?.to_string()));
                }
                Some(switch) => {
                    let held = tap_queues(switch.process.pid(), name)? > 0;
                    claims.push(("tap", String::from("the switch's"), whose(held)));
                    facts.push(Fact::new("switch", &switch.command_line, "its start"));
                }
            }
            let tap = network.tap_offloads()?.join(" ");
            if self.model == Model::Virtio {
                let features = value_of(inside, "link_virtio_features")?;
                let expected = on(self.has_offloads);
                claims.extend([
                    ("offloads", expected.clone(), all_or_none(&LINK_OFFLOADS, offloads)),
                    ("offloads", expected.clone(), all_or_none(&LINK_OFFLOADS, &tap)),
                    ("offloads", expected, all_or_none(&VIRTIO_BITS, features)),
                ]);
                facts.push(Fact::new("nic_virtio_features", features, "/sys inside"));
            }
            facts.push(Fact::new("tap_offloads", tap, "ethtool(8) of the tap"));
            if let Some(bridge) = &wires.bridge {
                facts.extend(bridge.prove()?);
            }
            if let Some(shaped) = &wires.shaped {
                facts.extend(shaped.prove(network)?);
            }
        }
        let claims = claims.iter().map(|(what, asked, found)| (*what, &**asked, &**found));
        as_asked("the network device", claims)?;
        Ok(facts)
    }
}

impl Nic {
    /// Returns QEMU's name for what is behind the device: of a bridge it sees the tap alone.
    fn backend_of_qemu(&self) -> &'static str {
        match self.backend {
            Backend::OpenVswitch => "tap",
            _ => self.backend_name(),
        }
    }
}

/// Facts that QEMU tells of its network device.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    model: String,
    backend: String,
    address: String,
    /// As many as it has lines about the device.
    queues: usize,
}

impl Told {
    /// Reads `info network`: a line for each queue of a device, each followed by one about its
    /// backend. Only the first says more, as in
    /// `nic: index=0,type=nic,model=virtio-net-pci,macaddr=…`.
    fn read(text: &str) -> Self {
        let mut told = Self::default();
        for line in text.lines() {
            let Some((name, rest)) = line.trim_start_matches([' ', '\\']).split_once(": ") else {
                continue;
            };
            let value = |key: &str| {
                let pair = rest.trim_end().split(',').find_map(|pair| pair.strip_prefix(key));
                pair.unwrap_or_default().to_owned()
            };
            if name == NIC_ID {
                if told.queues == 0 {
                    (told.model, told.address) = (value("model="), value("macaddr="));
                }
                told.queues += 1;
            } else if name == BACKEND_ID {
                told.backend = value("type=");
            }
        }
        told
    }
}

fn on(is_on: bool) -> String {
    String::from(if is_on { "on" } else { "off" })
}

fn whose(is_of_the_switch: bool) -> String {
    String::from(if is_of_the_switch { "the switch's" } else { "nobody's" })
}

/// Tells whether all of `wanted` are in a list of words, or none of them; anything else is quoted.
fn all_or_none<T: ToString>(wanted: &[T], list: &str) -> String {
    let words: Vec<&str> = list.split(' ').collect();
    let count = wanted.iter().filter(|one| words.contains(&one.to_string().as_str())).count();
    match count {
        0 => on(false),
        all if all == wanted.len() => on(true),
        _ => list.to_owned(),
    }
}

/// Counts a process's descriptors of a file.
fn holds(pid: u32, file: &str) -> Result<usize, Fault> {
    let directory = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = fs::read_dir(&directory)
        .doing(format_args!("list the descriptors in `{}`", directory.display()))?;
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links.filter(|link| link == Path::new(file)).count())
}

/// Counts the queues of the tap of this name that a process holds. Source: Linux
/// `drivers/net/tun.c`, `tun_chr_show_fdinfo`.
fn tap_queues(pid: u32, name: &str) -> Result<usize, Fault> {
    let directory = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let entries = fs::read_dir(&directory)
        .doing(format_args!("list what is known in `{}`", directory.display()))?;
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let is_tap = |line: &str| line.strip_prefix("iff:").is_some_and(|it| it.trim() == name);
    Ok(texts.filter(|text| text.lines().any(is_tap)).count())
}

#[cfg(test)]
mod tests {
    use super::super::MAC;
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    /// A QEMU that answers `info network`.
    fn qemu(networks: &'static str) -> Qmp {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let version =
                r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}}}"#;
            writeln!(theirs, "{version}").unwrap();
            let mut requests = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (id, answer) in [(1, "{}".into()), (2, serde_json::json!(networks).to_string())] {
                requests.next().unwrap().unwrap();
                writeln!(theirs, r#"{{"return": {answer}, "id": {id}}}"#).unwrap();
            }
        });
        Qmp::open(ours).unwrap()
    }

    /// Proves a virtio device on QEMU's own stack, of which QEMU and the guest say this.
    fn prove(networks: &'static str, seen: &[(&str, &str)]) -> Result<Vec<Fact>, Fault> {
        let nic = Nic {
            backend: Backend::User,
            model: Model::Virtio,
            has_vhost: false,
            has_offloads: false,
            queues: 1,
            shape: None,
            socket: PathBuf::new(),
            is_second: false,
        };
        let plain = [
            ("link_driver", "virtio_net"),
            ("link_address", MAC),
            ("link_queues", "1"),
            ("link_offloads", "gro"),
        ];
        let inside: Vec<Fact> =
            seen.iter().chain(&plain).map(|(key, value)| Fact::new(*key, *value, "x")).collect();
        nic.prove(&mut qemu(networks), std::process::id(), &NetBackend::default(), "pci", &inside)
    }

    const USER: &str = "nic: index=0,type=nic,model=virtio-net-pci,macaddr=52:54:00:12:34:56\r\n \
                        \\ network: index=0,type=user,net=10.0.2.0,restrict=off\r\n";

    #[test]
    fn a_device_that_is_another_one_to_qemu_or_to_the_guest_proves_nothing() {
        let facts = prove(USER, &[]).unwrap();
        assert_eq!((facts[0].key.as_str(), facts[0].value.as_str()), ("network", "user"));
        let fault = prove("nic: index=0,type=nic,model=e1000,macaddr=52:54:00:12:34:56", &[]);
        let text = "the network device's model was to be `virtio-net-pci`, and is `e1000`";
        assert_eq!(fault.unwrap_err().message, text);
        for (key, other, what) in [
            ("link_driver", "e1000", "driver"),
            ("link_address", "52:54:00:00:00:01", "address"),
            ("link_queues", "2", "number of queues"),
        ] {
            let fault = prove(USER, &[(key, other)]).unwrap_err();
            assert!(fault.message.contains(&format!("device's {what} was to be")), "{fault}");
            assert!(fault.message.ends_with(&format!("and is `{other}`")), "{fault}");
        }
    }

    #[test]
    fn what_qemu_says_of_its_device_is_read_with_its_queues() {
        let text = "nic: index=0,type=nic,model=virtio-net-pci,macaddr=52:54:00:12:34:56\r\n \
                    \\ network: index=0,type=tap,fd=5\r\n\
                    nic: index=1,type=nic,\r\n \
                    \\ network: index=1,type=tap,fd=6\r\n";
        let told = Told::read(text);
        assert_eq!((told.model.as_str(), told.backend.as_str()), ("virtio-net-pci", "tap"));
        assert_eq!((told.address.as_str(), told.queues), (MAC, 2));
        assert_eq!(Told::read("no network\n"), Told::default());
    }

    #[test]
    fn offloads_are_on_or_off_and_half_of_them_is_neither() {
        assert_eq!(all_or_none(&LINK_OFFLOADS, "rx-checksum tx-checksum tso"), "on");
        assert_eq!(all_or_none(&LINK_OFFLOADS, "rx-checksum gro"), "off");
        assert_eq!(all_or_none(&LINK_OFFLOADS, "tx-checksum gro"), "tx-checksum gro");
        assert_eq!(all_or_none(&VIRTIO_BITS, "0 1 5 7 8 11 12 15 16 32"), "on");
        assert_eq!(all_or_none(&VIRTIO_BITS, "5 16 32"), "off");
    }
}
