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
mod crr;
mod echo;
mod flow;
mod offload;
mod place;
mod record;
mod rr;
mod serve;
mod session;
mod stream;
mod tell;
mod udp_stream;
mod wire;
mod cpu_request;
mod worst;

use super::{Engine, OptionSpec};
use client_options::ClientOptions;

/// Parts that the key-value engine shares with these.
pub(super) use client_options::{address, rate};
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

impl Kind {
    const ALL: [Self; 6] =
        [Self::TcpRr, Self::UdpRr, Self::TcpCrr, Self::TcpStream, Self::TcpMaerts, Self::UdpStream];

    fn name(self) -> &'static str {
        match self {
            Self::TcpRr => "tcp_rr",
            Self::UdpRr => "udp_rr",
            Self::TcpCrr => "tcp_crr",
            Self::TcpStream => "tcp_stream",
            Self::TcpMaerts => "tcp_maerts",
            Self::UdpStream => "udp_stream",
        }
    }

    fn is_udp(self) -> bool {
        matches!(self, Self::UdpRr | Self::UdpStream)
    }

    fn is_stream(self) -> bool {
        matches!(self, Self::TcpStream | Self::TcpMaerts | Self::UdpStream)
    }
}

const CONNECT: OptionSpec = OptionSpec {
    key: "connect",
    value: "ADDRESS:PORT",
    help: "where `serve` is; `peer:PORT` is the address in SURTAX_PEER",
};
const TIME: OptionSpec =
    OptionSpec { key: "time", value: "TIME", help: "how long to measure; 10s" };
const WARM_UP: OptionSpec = OptionSpec {
    key: "warm-up",
    value: "TIME",
    help: "how long to do the same before it; not at all",
};
const PATIENCE: OptionSpec =
    OptionSpec { key: "patience", value: "TIME", help: "how long to wait for the other side; 5s" };
const NODELAY: OptionSpec = OptionSpec {
    key: "nodelay",
    value: "on|off",
    help: "TCP_NODELAY on both sides; on, with tcp_crr off",
};
const POLL: OptionSpec = OptionSpec {
    key: "poll",
    value: "on|off",
    help: "both sides spin and never sleep, on CPUs of their own; off",
};
const PLACE: OptionSpec = OptionSpec {
    key: "place",
    value: "WHERE",
    help: "the CPUs of both ends: `apart`, `together`, `free`, or the client's and the server's, \
           `0/1`; free",
};
const REQUEST: OptionSpec =
    OptionSpec { key: "request", value: "BYTES", help: "length of a request; 1" };
const RESPONSE: OptionSpec =
    OptionSpec { key: "response", value: "BYTES", help: "length of a response; 1" };
const SOCKETS: OptionSpec = OptionSpec { key: "sockets", value: "N", help: "how many at once; 1" };
const RATE: OptionSpec = OptionSpec {
    key: "rate",
    value: "PER_SECOND",
    help: "begin so many by a schedule, whatever the server does (open loop); one after another",
};
const WORST: OptionSpec = OptionSpec {
    key: "worst",
    value: "N",
    help: "list so many of the longest with their time; 20",
};
const ECHO: OptionSpec = OptionSpec {
    key: "echo",
    value: "",
    help: "the other side is a plain echo (RFC 862), not `serve`",
};
const MESSAGE: OptionSpec = OptionSpec {
    key: "message",
    value: "BYTES",
    help: "length of what is sent at once; 131072, of a datagram 1472",
};
const GSO: OptionSpec = OptionSpec {
    key: "gso",
    value: "on|off",
    help: "let the kernels cut and join datagrams (UDP_SEGMENT, UDP_GRO); off",
};

const RR: &[OptionSpec] = &[
    CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, POLL, PLACE, REQUEST, RESPONSE, SOCKETS, RATE,
    WORST, ECHO,
];
const CRR: &[OptionSpec] =
    &[CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, POLL, PLACE, REQUEST, RESPONSE, WORST];
const STREAM: &[OptionSpec] = &[CONNECT, TIME, WARM_UP, PATIENCE, NODELAY, PLACE, MESSAGE, SOCKETS];
const UDP_RR: &[OptionSpec] =
    &[CONNECT, TIME, WARM_UP, PATIENCE, POLL, PLACE, REQUEST, RESPONSE, SOCKETS, RATE, WORST, ECHO];
const UDP_STREAM: &[OptionSpec] = &[CONNECT, TIME, WARM_UP, PATIENCE, PLACE, MESSAGE, GSO];

/// The engines of this folder.
pub(super) const SERVE: Engine = Engine {
    name: "serve",
    about: "the other end of every network engine: answers one after another, and says what that \
            took",
    options: &[
        OptionSpec { key: "listen", value: "ADDRESS:PORT", help: "where; 0.0.0.0:5201" },
        OptionSpec { key: "for", value: "TIME", help: "how long to wait for a client; 60s" },
        OptionSpec {
            key: "sessions",
            value: "N",
            help: "how many clients to answer before it ends; 1",
        },
        OptionSpec {
            key: "echo",
            value: "",
            help: "be a plain echo (RFC 862) until the last client has hung up",
        },
    ],
    run: serve::run,
};
pub(super) const TCP_RR: Engine = Engine {
    name: "tcp_rr",
    about: "requests and responses over a TCP connection: latency of each, and their rate",
    options: RR,
    run: |options| rr::run(&ClientOptions::read(Kind::TcpRr, options)?),
};
pub(super) const UDP_RR_ENGINE: Engine = Engine {
    name: "udp_rr",
    about: "requests and responses as datagrams: latency of each, their rate, and how many are \
            lost",
    options: UDP_RR,
    run: |options| rr::run(&ClientOptions::read(Kind::UdpRr, options)?),
};
pub(super) const TCP_CRR: Engine = Engine {
    name: "tcp_crr",
    about: "a TCP connection, a request, a response and the end: latency of each, and their rate",
    options: CRR,
    run: |options| crr::run(&ClientOptions::read(Kind::TcpCrr, options)?),
};
pub(super) const TCP_STREAM: Engine = Engine {
    name: "tcp_stream",
    about: "bytes from the client to the server, as many as go through",
    options: STREAM,
    run: |options| stream::run(&ClientOptions::read(Kind::TcpStream, options)?),
};
pub(super) const TCP_MAERTS: Engine = Engine {
    name: "tcp_maerts",
    about: "bytes from the server to the client, as many as go through",
    options: STREAM,
    run: |options| stream::run(&ClientOptions::read(Kind::TcpMaerts, options)?),
};
pub(super) const UDP_STREAM_ENGINE: Engine = Engine {
    name: "udp_stream",
    about: "datagrams from the client to the server: how many are sent, and how many arrive",
    options: UDP_STREAM,
    run: |options| udp_stream::run(&ClientOptions::read(Kind::UdpStream, options)?),
};

#[cfg(test)]
mod tests;
