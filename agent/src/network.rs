//! The network on the inside: interfaces with their addresses, and the way out; read, and given to
//! a link that a tool leaves without them.
//!
//! Asked of the kernel that the agent runs on, which may be a sandbox's own.
//!
//! Source: `getifaddrs(3)`, `netdevice(7)`, `proc(5)` on `/proc/net/route`.

use crate::init::{self, LINK, LOOK_AGAIN};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use surtax_instrument::clock::look_until;
use surtax_instrument::link::{self, Addressed};

/// Time that a link may take until frames come and go.
const READY_DEADLINE: Duration = Duration::from_secs(10);

/// The most interfaces that are told of.
const INTERFACE_LIMIT: usize = 32;

/// Directory in which the kernel lists its links.
const LINKS: &str = "/sys/class/net";

/// The link that the machine was given, where it does not bear the kernel's own name.
static OF_THE_MACHINE: OnceLock<String> = OnceLock::new();

/// The network device of a machine of ours; elsewhere it is not ours, and nobody's business.
pub fn of_the_machine() -> Option<&'static str> {
    OF_THE_MACHINE.get().map(String::as_str).or_else(|| init::is_this_process().then_some(LINK))
}

/// Says that this link is the machine's network device.
pub fn belongs_to_the_machine(link: &str) {
    OF_THE_MACHINE.get_or_init(|| link.to_owned());
}

/// The link with this hardware address, whatever it is called. A link on top of another may share
/// that one's address, and has no device.
pub fn with_address(address: &str) -> Option<String> {
    let has_it = |link: &fs::DirEntry| {
        let said = fs::read_to_string(link.path().join("address")).unwrap_or_default();
        said.trim() == address && link.path().join("device").exists()
    };
    let found = fs::read_dir(LINKS).ok()?.flatten().find(has_it)?;
    found.file_name().into_string().ok()
}

/// Tells whether there is a link, or cannot be known to be none. To be asked before anything else:
/// for the name of a link that is not there, the kernel starts `modprobe`.
pub fn may_be_there(link: &str) -> bool {
    link::addresses().is_none_or(|all| all.iter().any(|it| it.link == link))
}

/// Tells whether a link has an address with the length of its network, in what is said of all
/// [`interfaces`].
pub fn has(interfaces: &str, link: &str, address: &str) -> bool {
    let mut words = interfaces.split(' ').filter_map(|word| word.split_once('='));
    words.any(|(name, given)| name == link && given.split(',').any(|one| one == address))
}

/// Every interface, in the order of their names, with its IPv4 addresses:
/// `eth0=172.17.0.2/16 lo=127.0.0.1/8`.
pub fn interfaces() -> Option<String> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Addressed { link, address, mask } in link::addresses()? {
        let addresses = found.entry(link).or_default();
        if let Some(IpAddr::V4(address)) = address {
            let bits = match mask {
                Some(IpAddr::V4(mask)) => mask.to_bits().count_ones(),
                _ => 32,
            };
            addresses.push(format!("{address}/{bits}"));
        }
    }
    let words = found.into_iter().take(INTERFACE_LIMIT).map(|(name, addresses)| {
        if addresses.is_empty() { name } else { format!("{name}={}", addresses.join(",")) }
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The driver of every one of these interfaces that tells it: `eth0=veth`.
pub fn link_drivers(interfaces: &str) -> String {
    let names = interfaces.split(' ').filter_map(|word| word.split('=').next());
    let told = names.filter_map(|name| Some(format!("{name}={}", driver(name)?)));
    told.collect::<Vec<_>>().join(" ")
}

/// Source: Linux `include/uapi/linux/ethtool.h`, `struct ethtool_drvinfo`.
fn driver(link: &str) -> Option<String> {
    const GET_DRIVER: u32 = 3;
    let mut answer = [0_u8; 196];
    answer[..4].copy_from_slice(&GET_DRIVER.to_ne_bytes());
    let place = answer.as_mut_ptr();
    link::send(libc::SIOCETHTOOL, link, |request| request.ifr_ifru.ifru_data = place.cast())
        .ok()?;
    let name = answer[4..36].split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The interface and the gateway of the first default route: `eth0 172.17.0.1`; `none` without one.
pub fn default_route() -> Option<String> {
    let text = fs::read_to_string("/proc/net/route").ok()?;
    Some(default_route_in(&text).unwrap_or_else(|| String::from("none")))
}

fn default_route_in(text: &str) -> Option<String> {
    let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.into_iter().find(|row| row.get(1) == Some(&"00000000"))?;
    // The kernel prints the address as the number that its four bytes are on this machine.
    let gateway = u32::from_str_radix(row.get(2)?, 16).ok()?;
    Some(format!("{} {}", row.first()?, Ipv4Addr::from(gateway.to_ne_bytes())))
}

/// Gives a link an address such as `198.18.0.2/24`, and makes the gateway the way to everywhere.
pub fn give(link: &str, address: &str, gateway: &str) -> io::Result<()> {
    let parse = |text: &str| text.parse().map_err(io::Error::other);
    let (address, prefix) = address.split_once('/').unwrap_or((address, "32"));
    link::give_address(link, parse(address)?, prefix.parse().map_err(io::Error::other)?)?;
    link::lead_everywhere(parse(gateway)?)
}

/// The same, and waits until frames come and go.
pub fn take_address(link: &str, address: &str, gateway: &str) -> io::Result<()> {
    give(link, address, gateway)?;
    // The other end is brought up at the same time. Where `/sys` is another namespace's, nobody
    // knows.
    let is_known = Path::new(LINKS).join(link).exists();
    let settled = || (!is_known || link::is_ready(link)).then_some(());
    look_until(READY_DEADLINE, LOOK_AGAIN, settled)
        .ok_or_else(|| io::Error::other("it does not get ready"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_is_read_from_the_table_of_routes() {
        let head = "Iface\tDestination\tGateway\tFlags\n";
        let table =
            format!("{head}eth0\t000011AC\t00000000\t0001\neth0\t00000000\t010011AC\t0003\n");
        assert_eq!(default_route_in(&table).as_deref(), Some("eth0 172.17.0.1"));
        assert_eq!(default_route_in(head), None);
    }

    #[test]
    fn an_address_is_that_of_its_link_and_of_no_other() {
        let interfaces = "ens2=198.18.0.2/24,10.0.0.1/8 lo=127.0.0.1/8 tap0";
        assert!(has(interfaces, "ens2", "10.0.0.1/8"));
        assert!(!has(interfaces, "ens2", "198.18.0.2/2"));
        assert!(!has(interfaces, "lo", "10.0.0.1/8"));
        assert!(!has(interfaces, "tap0", ""));
    }

    #[test]
    fn a_link_without_a_device_is_not_the_machine_s() {
        assert_eq!(with_address("00:00:00:00:00:00"), None, "the loopback has no device");
    }

    #[test]
    fn every_machine_has_its_loopback() {
        let interfaces = interfaces().unwrap_or_default();
        assert!(interfaces.split(' ').any(|word| word.starts_with("lo")), "{interfaces}");
        assert!(may_be_there("lo") && !may_be_there("l") && !may_be_there("surtax-none"));
    }
}
