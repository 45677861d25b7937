//! Network engines: what a request, a connection, a byte costs between two ends, of which we are
//! both.
//!
//! `serve` is one end, and each other engine of this folder the other; they agree on a control
//! connection (`session.rs`), and the server tells there what it has counted and used. The measures
//! are those of netperf, whose names they have; its wire is another one. Every transaction is
//! recorded.
//!
//! Source: R. Jones, *Care and feeding of netperf*, 2012; G. Tene, *How not to measure latency*,
//! 2013, for the open loop (`flow.rs`).

mod alarm;
mod client_options;
pub(super) mod crr;
mod echo;
mod flow;
mod offload;
mod place;
mod record;
pub(super) mod rr;
pub(super) mod serve;
mod session;
pub(super) mod stream;
mod tell;
pub(super) mod udp_stream;
mod wire;
mod cpu_request;
mod worst;

use super::{OptionSpec, option};

/// Parts that the key-value engine shares with these.
pub(super) use client_options::{PEER, address, rate};
pub(super) use session::connect_within;
pub(super) use wire::{receive, send, set};
pub(super) use worst::Worst;

/// Exchange between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A request and a response at a time, over one connection.
    TcpRr,
    /// The same as datagrams.
    UdpRr,
    /// A connection for each.
    TcpCrr,
    /// Bytes from the client to the server.
    TcpStream,
    /// Bytes from the server to the client.
    TcpMaerts,
    /// Datagrams from the client to the server.
    UdpStream,
}

surtax_instrument::words!(Kind {
    TcpRr: "tcp_rr",
    UdpRr: "udp_rr",
    TcpCrr: "tcp_crr",
    TcpStream: "tcp_stream",
    TcpMaerts: "tcp_maerts",
    UdpStream: "udp_stream",
});

impl Kind {
    fn is_udp(self) -> bool {
        matches!(self, Self::UdpRr | Self::UdpStream)
    }

    fn is_stream(self) -> bool {
        matches!(self, Self::TcpStream | Self::TcpMaerts | Self::UdpStream)
    }
}

const CONNECT: OptionSpec = option(
    "connect",
    "ADDRESS:PORT",
    "where `serve` is; `peer:PORT` is the address in SURTAX_PEER",
);
const TIME: OptionSpec = option("time", "TIME", "how long to measure; 10s");
pub(super) const WARM_UP: OptionSpec =
    option("warm-up", "TIME", "how long to do the same before it; not at all");
const PATIENCE: OptionSpec = option("patience", "TIME", "how long to wait for the other side; 5s");
const NODELAY: OptionSpec =
    option("nodelay", "on|off", "TCP_NODELAY on both sides; on, with tcp_crr off");
const POLL: OptionSpec =
    option("poll", "on|off", "both sides spin and never sleep, on CPUs of their own; off");
const PLACE: OptionSpec = option(
    "place",
    "WHERE",
    "the CPUs of both ends: `apart`, `together`, `free`, or the client's and the server's, \
           `0/1`; free",
);
const REQUEST: OptionSpec = option("request", "BYTES", "length of a request; 1");
const RESPONSE: OptionSpec = option("response", "BYTES", "length of a response; 1");
const SOCKETS: OptionSpec = option("sockets", "N", "how many at once; 1");
pub(super) const RATE: OptionSpec = option(
    "rate",
    "PER_SECOND",
    "begin so many by a schedule, whatever the server does (open loop); one after another",
);
pub(super) const WORST: OptionSpec =
    option("worst", "N", "list so many of the longest with their time; 20");
const ECHO: OptionSpec =
    option("echo", "", "the other side is a plain echo (RFC 862), not `serve`");
const MESSAGE: OptionSpec =
    option("message", "BYTES", "length of what is sent at once; 131072, of a datagram 1472");

#[cfg(test)]
mod tests;
