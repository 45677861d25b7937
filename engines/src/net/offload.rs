//! The work that a network device takes off its kernel: whether long segments are cut and joined
//! below the protocols.
//!
//! With it a stream is handed on in pieces of up to 64 KiB, without it in packets of the device's
//! size: that alone has made it three to nine times as fast. Source: Linux
//! `Documentation/networking/segmentation-offloads.rst`, `ethtool(8)` (`SIOCETHTOOL`).

use std::net::IpAddr;
use std::os::fd::RawFd;
use surtax_instrument::link;

/// The request by which a device is asked, of `linux/sockios.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Questions to a device, as commands of `linux/ethtool.h`, by the names that `ethtool -k` shortens
/// them to.
const ASKED: [(&str, u32); 3] = [("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Lists the offloads of the device with this address, as `tso+gso+gro` or `none`; a `?` where
/// nobody says.
pub(super) fn of(address: IpAddr, socket: RawFd) -> String {
    let device = link::with_address(address);
    let Some(device) = device.as_deref().and_then(name_of) else { return String::from("?") };
    let answers = ASKED.map(|(name, command)| Some((name, ask(socket, &device, command)?)));
    if answers.iter().any(Option::is_none) {
        return String::from("?");
    }
    let on: Vec<&str> =
        answers.into_iter().flatten().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    if on.is_empty() { String::from("none") } else { on.join("+") }
}

/// The name of a device, as the kernel takes it.
type Name = [libc::c_char; libc::IFNAMSIZ];

fn ask(socket: RawFd, device: &Name, command: u32) -> Option<bool> {
    let mut value = Value { command, data: 0 };
    // SAFETY: a zeroed request is valid: an empty name and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = *device;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request is live and names a live value of the kind that these commands fill.
    let answer = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) };
    (answer == 0).then_some(value.data != 0)
}

fn name_of(text: &str) -> Option<Name> {
    let mut name: Name = [0; libc::IFNAMSIZ];
    let places = name.get_mut(..text.len())?;
    places.iter_mut().zip(text.as_bytes()).for_each(|(place, byte)| *place = byte.cast_signed());
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_device_is_found_by_its_address_and_asked() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let loopback = of(Ipv4Addr::LOCALHOST.into(), socket.as_raw_fd());
        // Linux joins and cuts on its loopback, and that cannot be switched off.
        assert!(loopback.starts_with("tso+gso"), "{loopback}");
        let nobodys = Ipv4Addr::new(192, 0, 2, 77);
        assert_eq!(of(nobodys.into(), socket.as_raw_fd()), "?");
    }
}
