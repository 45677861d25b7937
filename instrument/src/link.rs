//! Links of a network: how one is set up, and what it says of itself.
//!
//! All of it is about the network namespace of the calling thread. The lab sets up the outer end of
//! a workload's network by this, and the first process of a virtual machine the inner one.
//!
//! Source: `netdevice(7)`, `rtnetlink(7)`, Linux `uapi/linux/ethtool.h`,
//! `Documentation/ABI/testing/sysfs-class-net`.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Work that can be left to a link, each with the number of the request that asks whether it is.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksum", 0x14),
    ("tx-checksum", 0x16),
    ("scatter-gather", 0x18),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];

/// Brings a link up.
///
/// # Errors
/// There is none of that name, or we may not.
pub fn bring_up(link: &str) -> io::Result<()> {
    send(libc::SIOCSIFFLAGS, link, |it| it.ifr_ifru.ifru_flags = short(libc::IFF_UP))
}

/// Takes a link down.
///
/// # Errors
/// There is none of that name, or we may not.
pub fn lower(link: &str) -> io::Result<()> {
    send(libc::SIOCSIFFLAGS, link, |it| it.ifr_ifru.ifru_flags = 0)
}

/// Gives a link an address of which the first `prefix` bits (0 to 32) name its network, and brings
/// it up.
///
/// # Errors
/// There is none of that name, or we may not.
pub fn give_address(link: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let host_bits = 32 - u32::from(prefix.min(32));
    let mask = Ipv4Addr::from(u32::MAX.checked_shl(host_bits).unwrap_or(0));
    for (what, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        send(what, link, |request| request.ifr_ifru.ifru_addr = socket_address(value))?;
    }
    bring_up(link)
}

/// Makes an address the way to everywhere.
///
/// # Errors
/// It is on no link's network, or there is such a way already.
pub fn lead_everywhere(gateway: Ipv4Addr) -> io::Result<()> {
    // SAFETY: all zeroes are a valid `rtentry`: no device, no addresses.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = socket_address(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    let socket = socket()?;
    // SAFETY: the socket is open and `route` is a live `rtentry`, as this request wants.
    said(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) })
}

/// Lists what is left to a link now, such as `tx-checksum` and `tso`.
///
/// # Errors
/// There is none of that name.
pub fn offloads(link: &str) -> io::Result<Vec<&'static str>> {
    let mut left = Vec::new();
    for (name, what) in OFFLOADS {
        match is_left(link, what) {
            Ok(true) => left.push(name),
            Ok(false) => {}
            // A driver need not know all of them.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// Tells whether a piece of work is left to a link now, by the number of the request that asks so.
///
/// # Errors
/// There is none of that name, or its driver does not know of such work.
pub fn is_left(link: &str, what: u32) -> io::Result<bool> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Question {
        what: u32,
        answer: u32,
    }
    let mut question = Question { what, answer: 0 };
    let place = (&raw mut question).cast();
    send(libc::SIOCETHTOOL, link, |it| it.ifr_ifru.ifru_data = place)?;
    Ok(question.answer != 0)
}

/// Counts the queues that a link receives by. Looks into `/sys`, which must be that of this
/// namespace.
#[must_use]
pub fn queues(link: &str) -> Option<usize> {
    let entries = fs::read_dir(Path::new("/sys/class/net").join(link).join("queues")).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Some(names.filter(|name| name.to_string_lossy().starts_with("rx-")).count())
}

/// A link's driver, if there is a device behind it. Looks into `/sys` as [`queues`] does.
#[must_use]
pub fn driver(link: &str) -> Option<String> {
    let path = Path::new("/sys/class/net").join(link).join("device/driver");
    Some(fs::read_link(path).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Tells whether frames come and go: the other end is there, and the kernel has noticed.
#[must_use]
pub fn is_ready(link: &str) -> bool {
    let text = |name: &str| {
        let path = Path::new("/sys/class/net").join(link).join(name);
        fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
    };
    text("carrier") == "1" && ["up", "unknown"].contains(&text("operstate").as_str())
}

/// Sends a request about a link, filled in by `fill`.
///
/// # Errors
/// The kernel's.
pub fn send(
    what: libc::c_ulong,
    link: &str,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<()> {
    let (socket, mut request) = (socket()?, request(link)?);
    fill(&mut request);
    // SAFETY: the socket is open and `request` is a live `ifreq`, as requests for links want.
    said(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut request) })
}

/// An empty request about a link.
///
/// # Errors
/// The name is too long for a link.
pub fn request(link: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes are a valid `ifreq`: an empty name and empty numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if link.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(link.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    Ok(request)
}

/// A link with one of its addresses, or without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// Name of the link.
    pub link: String,
    /// Internet address, if this is one.
    pub address: Option<IpAddr>,
    /// Mask of the network that the address is in.
    pub mask: Option<IpAddr>,
}

/// The link that has an address, if one has it.
#[must_use]
pub fn with_address(address: IpAddr) -> Option<String> {
    let found = addresses()?.into_iter().find(|it| it.address == Some(address));
    found.map(|it| it.link)
}

/// Lists all addresses of all links; `None` where the kernel does not tell. Source:
/// `getifaddrs(3)`.
#[must_use]
pub fn addresses() -> Option<Vec<Addressed>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is live; the kernel's list is given back below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut all = Vec::new();
    let mut at = list;
    // SAFETY: `at` is null or an entry of the list, which lives until it is given back.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: the name of an entry ends with a zero.
        let link = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: an address of an entry is null or live, and as long as its family says.
        let of = |address| unsafe { address_of(address) };
        all.push(Addressed { link, address: of(entry.ifa_addr), mask: of(entry.ifa_netmask) });
        at = entry.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Some(all)
}

/// An internet address in the kernel's form.
///
/// # Safety
/// It is null, or points to an address as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is one of these; it may lie anywhere.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: likewise.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(v6.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

/// Any socket will do to speak of links.
///
/// # Errors
/// The kernel has no sockets, or too many are open.
pub fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Turns what a request returned into a result.
///
/// # Errors
/// The last one of the system, unless it is 0.
pub fn said(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Flags as the kernel takes them: 16 bits, of which the highest is one of them.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "all flags of a link fit into 16 bits")]
pub fn short(flags: libc::c_int) -> libc::c_short {
    flags as libc::c_short
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all zeroes are a valid `sockaddr` without a family.
    let mut plain: libc::sockaddr = unsafe { std::mem::zeroed() };
    plain.sa_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    // `sockaddr_in`: two bytes of port, then the address in network order.
    for (place, byte) in plain.sa_data[2..].iter_mut().zip(address.octets()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_link_says_what_is_left_to_it() {
        assert!(offloads("lo").unwrap().contains(&"tx-checksum"));
        assert_eq!(driver("lo"), None);
        assert!(queues("lo").is_none_or(|count| count > 0));
    }

    #[test]
    fn a_link_that_is_not_there_is_an_error() {
        assert!(offloads("surtax-none").is_err());
        assert!(bring_up("surtax-none").is_err());
        assert_eq!(request("a-name-of-16-bytes").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(!is_ready("surtax-none"));
    }

    #[test]
    fn a_link_is_found_by_its_address() {
        assert_eq!(with_address(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
        assert_eq!(with_address(Ipv4Addr::new(192, 0, 2, 77).into()), None);
    }

    #[test]
    fn an_address_stands_behind_the_port() {
        let address = socket_address(Ipv4Addr::new(198, 18, 0, 1));
        let bytes: Vec<u8> =
            address.sa_data[..6].iter().map(|byte| byte.to_ne_bytes()[0]).collect();
        assert_eq!(bytes, [0, 0, 198, 18, 0, 1]);
    }
}
