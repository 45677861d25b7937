//! The work that a network device takes off its kernel: whether long segments are cut and joined
//! below the protocols.
//!
//! With it a stream is handed on in pieces of up to 64 KiB, without it in packets of the device's
//! size: that alone has made it three to nine times as fast. Source: Linux
//! `Documentation/networking/segmentation-offloads.rst`, `ethtool(8)` (`SIOCETHTOOL`).

use std::net::IpAddr;
use surtax_instrument::link;

/// Work that is asked about, by the names that `ethtool -k` shortens it to, and the numbers of the
/// questions: commands of `linux/ethtool.h`.
const ASKED: [(&str, u32); 3] = [("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

/// Lists the offloads of the device with this address, as `tso+gso+gro` or `none`; a `?` where
/// nobody says.
pub(super) fn of(address: IpAddr) -> String {
    let nobody_says = || String::from("?");
    let Some(device) = link::with_address(address) else { return nobody_says() };
    let mut on = Vec::new();
    for (name, question) in ASKED {
        match link::is_left(&device, question) {
            Ok(true) => on.push(name),
            Ok(false) => {}
            Err(_) => return nobody_says(),
        }
    }
    if on.is_empty() { String::from("none") } else { on.join("+") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_device_is_found_by_its_address_and_asked() {
        // Linux joins and cuts on its loopback, and that cannot be switched off.
        let loopback = of(Ipv4Addr::LOCALHOST.into());
        assert!(loopback.starts_with("tso+gso"), "{loopback}");
        assert_eq!(of(Ipv4Addr::new(192, 0, 2, 77).into()), "?");
    }
}
