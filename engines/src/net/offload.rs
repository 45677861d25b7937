//! The work that a network device takes off its kernel: whether long segments are cut and joined
//! below the protocols.
//!
//! With it a stream is handed on in pieces of up to 64 KiB, without it in packets of the device's
//! size: that alone has made it three to nine times as fast. Source: Linux
//! `Documentation/networking/segmentation-offloads.rst`, `ethtool(8)` (`SIOCETHTOOL`).

use std::io;
use std::net::IpAddr;
use surtax_instrument::link;

/// Work that is asked about, by the names that `ethtool -k` shortens it to, and the numbers of the
/// questions: commands of `linux/ethtool.h`.
const ASKED: [(&str, u32); 3] = [("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

/// Lists the offloads of the device with this address, as `tso+gso+gro` or `none`; a `?` where
/// nobody says.
pub(super) fn of(address: IpAddr) -> String {
    let on = |device: &str| {
        let asked = |(name, what)| Ok(link::is_left(device, what)?.then_some(name));
        ASKED.into_iter().map(asked).collect::<io::Result<Vec<Option<&str>>>>()
    };
    match link::with_address(address).map(|device| on(&device)) {
        Some(Ok(on)) if on.iter().any(Option::is_some) => {
            on.into_iter().flatten().collect::<Vec<_>>().join("+")
        }
        Some(Ok(_)) => String::from("none"),
        None | Some(Err(_)) => String::from("?"),
    }
}
