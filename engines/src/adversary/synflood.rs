//! A SYN flood: the first packet of a TCP connection, again and again, from ever other ports and
//! never a third one.
//!
//! It is sent to this machine's loopback, or to the other side of the stack (`SURTAX_PEER`), and
//! nowhere else; and from the own address: a false one would send the answers to somebody else. So
//! the kernel here refuses each answer, and what is flooded is the way there, the queue of
//! half-open connections, and the way back.
//!
//! Source: RFC 9293, 3.1 (header) and 3.5 (handshake); `raw(7)`.

use super::{DURATION, Term, duration, per_second};
use crate::net::PEER;
use crate::{Answer, Engine, Options, Refused, option};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;

/// The flood.
pub(crate) const ENGINE: Engine = Engine {
    name: "synflood",
    about: "first packets of TCP connections, to the loopback or the stack's own other side",
    options: &[
        option("to", "ADDRESS:PORT", "whom; needed"),
        option("packets", "N", "the most that are sent; 1000000"),
        DURATION,
    ],
    run,
};

/// The most that it ever sends, whatever it is asked for.
const MOST: u64 = 100_000_000;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// After so many packets, answers and the clock are looked at.
const BATCH: u64 = 32;

fn run(options: &Options) -> Result<Answer, Refused> {
    let text = options.text("to").ok_or_else(|| {
        Refused::user("nobody is named to be flooded").hint("name it by `--to ADDRESS:PORT`")
    })?;
    let to: SocketAddrV4 = text.parse().map_err(|_| {
        let shown = text.escape_debug();
        Refused::user(format!("`--to {shown}` is no IPv4 address with a port"))
            .hint("write `--to 127.0.0.1:5201`")
    })?;
    let peer = std::env::var(PEER).unwrap_or_default();
    if !may_flood(*to.ip(), &peer) {
        let ip = to.ip();
        return Err(Refused::user(format!("{ip} is neither the loopback nor the other side"))
            .hint("let it run in a workload with two sides, whose `{address}` it may flood"));
    }
    let most = options.number("packets", 1_000_000, 1..=MOST)?;
    let duration = duration(options)?;
    let from = own_address(to)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::TCP));
    let socket = socket.map_err(|error| {
        Refused::machine(format!("cannot send packets of its own: {error}"))
            .hint("it takes CAP_NET_RAW, which this stack does not give")
    })?;
    let term = Term::of(duration);
    let (mut sent, mut refused, mut answered) = (0_u64, 0_u64, 0_u64);
    while sent < most && !term.is_over() {
        for _ in 0..BATCH.min(most - sent) {
            let port = 1024 + u16::try_from((sent + refused) % 64_000).unwrap_or(0);
            let packet = syn(SocketAddrV4::new(from, port), to, sent);
            match sendto(&socket, &packet, SendFlags::empty(), &SocketAddr::V4(to)) {
                Ok(_) => sent += 1,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::CONNREFUSED) => refused += 1,
                Err(error) => {
                    return Err(Refused::machine(format!("cannot send to {to}: {error}")));
                }
            }
        }
        answered += answers(&socket, to);
    }
    let took_ns = term.gone_ns();
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("syn_count", sent);
    answer.whole("refused_count", refused);
    // At least so many: what this end had no time to read is lost.
    answer.whole("answer_count", answered);
    answer.truth("is_own_bound_reached", sent >= most);
    answer.whole("took_ns", took_ns);
    answer.number("syns_per_s", per_second(sent, took_ns));
    Ok(answer)
}

/// Tells whether an address may be flooded.
fn may_flood(ip: Ipv4Addr, peer: &str) -> bool {
    ip.is_loopback() || peer.parse() == Ok(ip)
}

/// Returns the source address that packets to that address have.
fn own_address(to: SocketAddrV4) -> Result<Ipv4Addr, Refused> {
    let ask = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(to)?;
        socket.local_addr()
    };
    match ask() {
        Ok(SocketAddr::V4(own)) => Ok(*own.ip()),
        Ok(SocketAddr::V6(_)) => Err(Refused::machine("an IPv4 socket has an IPv6 address")),
        Err(error) => Err(Refused::machine(format!("there is no way to {to}: {error}"))),
    }
}

/// The TCP header of a first packet.
fn syn(from: SocketAddrV4, to: SocketAddrV4, number: u64) -> [u8; 20] {
    let mut header = [0; 20];
    header[0..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..8].copy_from_slice(&number.to_be_bytes()[4..]);
    header[12] = 5 << 4;
    header[13] = SYN;
    header[14..16].copy_from_slice(&1024_u16.to_be_bytes());
    let sum = checksum(*from.ip(), *to.ip(), &header);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The checksum of a TCP header without data, the addresses included.
fn checksum(from: Ipv4Addr, to: Ipv4Addr, header: &[u8; 20]) -> u16 {
    let pairs = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
    };
    let sum = pairs(&from.octets()) + pairs(&to.octets()) + 6 + 20 + pairs(header);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Counts the answers from there that have come.
fn answers(socket: &OwnedFd, to: SocketAddrV4) -> u64 {
    let mut packet = [0; 128];
    let mut count = 0;
    // As many looks as packets were sent, and those of our own that a loopback brings back.
    for _ in 0..4 * BATCH {
        match recv(socket, &mut packet[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => count += u64::from(is_answer(&packet[..length.min(128)], to)),
            Err(_) => break,
        }
    }
    count
}

/// Tells whether a packet, from its IP header on, says SYN and ACK from there.
fn is_answer(packet: &[u8], to: SocketAddrV4) -> bool {
    let Some(first) = packet.first() else { return false };
    let header = usize::from(first & 0x0f) * 4;
    let Some(tcp) = packet.get(header..header + 14) else { return false };
    let is_from =
        packet.get(12..16) == Some(&to.ip().octets()[..]) && tcp[0..2] == to.port().to_be_bytes();
    is_from && tcp[13] & (SYN | ACK) == SYN | ACK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_up_to_zero() {
        let from = "10.1.2.3:1024".parse().unwrap();
        let to: SocketAddrV4 = "10.9.8.7:80".parse().unwrap();
        let header = syn(from, to, 0xdead_beef_1234);
        assert_eq!(checksum(*from.ip(), *to.ip(), &header), 0);
        assert_eq!((&header[0..4], header[13]), (&[4, 0, 0, 80][..], SYN));
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&[10, 9, 8, 7]);
        packet[20..22].copy_from_slice(&80_u16.to_be_bytes());
        packet[33] = SYN | ACK;
        assert!(is_answer(&packet, to) && !is_answer(&packet, from) && !is_answer(&[], to));
        packet[33] = SYN;
        assert!(!is_answer(&packet, to), "one of our own");
    }

    #[test]
    fn nobody_else_is_flooded() {
        assert!(may_flood("127.0.0.9".parse().unwrap(), ""));
        assert!(may_flood("10.0.0.2".parse().unwrap(), "10.0.0.2"));
        assert!(!may_flood("10.0.0.3".parse().unwrap(), "10.0.0.2"));
        assert!(!may_flood("10.0.0.3".parse().unwrap(), ""));
    }
}
