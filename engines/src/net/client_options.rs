//! Options of a client's measurement, and what of it the server must know: the deal.

use super::Kind;
use super::cpu_request::CpuRequest;
use super::wire::Patience;
use crate::{Options, Refused};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;
use surtax_instrument::clock;

/// The variable in which a command finds the address of the outside.
pub(crate) const PEER: &str = "SURTAX_PEER";

/// The longest message, in bytes.
const MESSAGE_LIMIT: u32 = 16 << 20;

/// The longest datagram, in bytes: IPv4's 65,535 without two headers.
const DATAGRAM_LIMIT: u32 = 65_507;

/// Settings that both ends must know alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    pub(super) kind: Kind,
    /// Bytes of a request, or of what is sent at once.
    pub(super) request: usize,
    pub(super) response: usize,
    pub(super) sockets: usize,
    pub(super) is_nodelay: bool,
    pub(super) is_polling: bool,
    pub(super) is_gso: bool,
    /// CPUs that both are to have.
    pub(super) cpu_request: CpuRequest,
    pub(super) patience: Duration,
}

/// Options of a client's measurement.
#[derive(Clone, Debug)]
pub(super) struct ClientOptions {
    pub(super) handshake: Handshake,
    pub(super) connect: SocketAddr,
    pub(super) time: Duration,
    pub(super) warm_up: Option<Duration>,
    /// Transactions per second, where they begin by a schedule.
    pub(super) rate: Option<f64>,
    pub(super) worst: usize,
    /// The other side is a plain echo.
    pub(super) is_echo: bool,
}

impl ClientOptions {
    /// Reads what was typed.
    ///
    /// # Errors
    /// The user's: an option makes no sense, or two of them together.
    pub(super) fn read(kind: Kind, options: &Options) -> Result<Self, Refused> {
        let usual = match kind {
            Kind::TcpStream | Kind::TcpMaerts => 128 << 10,
            Kind::UdpStream => 1472,
            _ => 1,
        };
        let key = if kind.is_stream() { "message" } else { "request" };
        let longest = if kind.is_udp() { DATAGRAM_LIMIT } else { MESSAGE_LIMIT }.into();
        let request = options.small(key, usual, 1..=longest)?;
        let usual = if options.has("echo") { request as u64 } else { 1 };
        let response = options.small("response", usual, 1..=longest)?;
        let handshake = Handshake {
            kind,
            request,
            response,
            sockets: options.small("sockets", 1, 1..=256)?,
            // A connection of one request gains nothing by a call for it.
            is_nodelay: switch(options, "nodelay", !kind.is_udp() && kind != Kind::TcpCrr)?,
            is_polling: switch(options, "poll", false)?,
            is_gso: switch(options, "gso", false)?,
            cpu_request: cpu_request(options.text("place"))?,
            patience: options.duration("patience", Duration::from_secs(5))?,
        };
        let warm_up = options.has("warm-up").then(|| options.duration("warm-up", Duration::ZERO));
        let asked = Self {
            handshake,
            connect: address(options.text("connect"))?,
            time: options.duration("time", Duration::from_secs(10))?,
            warm_up: warm_up.transpose()?,
            rate: options.text("rate").map(rate).transpose()?,
            worst: options.small("worst", 20, 0..=5000)?,
            is_echo: options.has("echo"),
        };
        asked.require_sense()?;
        Ok(asked)
    }

    /// Says how long to wait for the other side, from now on.
    pub(super) fn patience(&self, control: Option<RawFd>) -> Patience {
        let until = clock::monotonic_raw()
            + self.warm_up.unwrap_or_default().into()
            + self.time.into()
            + self.handshake.patience.into();
        Patience { until, control, is_polling: self.handshake.is_polling }
    }

    fn require_sense(&self) -> Result<(), Refused> {
        let handshake = &self.handshake;
        let is_many = self.rate.is_some() || handshake.sockets > 1;
        if self.handshake.kind == Kind::UdpRr
            && is_many
            && handshake.request.min(handshake.response) < 8
        {
            return Err(Refused::user(
                "several datagrams on their way must be told apart by a number of 8 bytes",
            )
            .hint("ask for `--request 8 --response 8` or more"));
        }
        if self.is_echo && handshake.request != handshake.response {
            return Err(Refused::user("an echo answers with what it is sent")
                .hint("leave `--response` out, or give it the length of `--request`"));
        }
        if self.is_echo
            && matches!(handshake.cpu_request, CpuRequest::Named { server: Some(_), .. })
        {
            return Err(Refused::user("an echo does not let its CPU be chosen")
                .hint("name the client's alone: `--place 0/any`"));
        }
        Ok(())
    }
}

/// `on` or `off`.
fn switch(options: &Options, key: &str, usual: bool) -> Result<bool, Refused> {
    match options.text(key) {
        None => Ok(usual),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => {
            let shown = other.escape_debug();
            Err(Refused::user(format!("`--{key} {shown}` is neither `on` nor `off`")))
        }
    }
}

fn cpu_request(text: Option<&str>) -> Result<CpuRequest, Refused> {
    let Some(text) = text else { return Ok(CpuRequest::Free) };
    CpuRequest::parse(text).ok_or_else(|| {
        let shown = text.escape_debug();
        Refused::user(format!("`--place {shown}` says nothing about two CPUs")).hint(
            "write `apart`, `together`, `free`, or the client's and the server's: `0/1`, `any/1`",
        )
    })
}

/// The rate that was typed, per second.
///
/// # Errors
/// The user's: it is none.
pub(crate) fn rate(text: &str) -> Result<f64, Refused> {
    let number = text.parse().ok().filter(|rate: &f64| (0.001..=1e8).contains(rate));
    number.ok_or_else(|| {
        let shown = text.escape_debug();
        Refused::user(format!("`--rate {shown}` is no number of transactions per second"))
    })
}

/// The address that was typed; `peer:PORT` is that of the outside.
///
/// # Errors
/// The user's: it is none, or nobody says where the outside is.
pub(crate) fn address(text: Option<&str>) -> Result<SocketAddr, Refused> {
    let text = text.ok_or_else(|| {
        Refused::user("nobody says where the other side is")
            .hint("write `--connect ADDRESS:PORT`, where its server listens")
    })?;
    if let Some(port) = text.strip_prefix("peer:") {
        let peer: Option<IpAddr> = std::env::var(PEER).ok().and_then(|peer| peer.parse().ok());
        let peer = peer.ok_or_else(|| {
            Refused::user(format!("the outside's address is not in `{PEER}`"))
                .hint("run in a stack with a network (`net=…`)")
        })?;
        let port = port.parse().map_err(|_| refused_address(text))?;
        return Ok(SocketAddr::new(peer, port));
    }
    text.parse().map_err(|_| refused_address(text))
}

/// Returns the refusal of a text that is no address with a port.
pub(super) fn refused_address(text: &str) -> Refused {
    let shown = text.escape_debug();
    Refused::user(format!("`{shown}` is no address with a port"))
        .hint("write numbers, such as `198.18.0.2:5201` or `[::1]:5201`")
}

/// One line, as the client sends it.
impl fmt::Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            request, response, sockets, is_nodelay, is_polling, is_gso, cpu_request, ..
        } = self;
        write!(
            f,
            "{} {request} {response} {sockets} {is_nodelay} {is_polling} {is_gso} {cpu_request} {}",
            self.kind.word(),
            self.patience.as_nanos()
        )
    }
}

impl Handshake {
    /// Reads such a line; nothing where it is none, or beyond what a client may ask.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let &[kind, request, response, sockets, nodelay, polling, gso, cpu_request, patience] =
            words.as_slice()
        else {
            return None;
        };
        let length =
            |word: &str| word.parse().ok().filter(|it| (1..=MESSAGE_LIMIT as usize).contains(it));
        Some(Self {
            kind: Kind::of_word(kind)?,
            request: length(request)?,
            response: length(response)?,
            sockets: sockets.parse().ok().filter(|count| (1..=256).contains(count))?,
            is_nodelay: nodelay.parse().ok()?,
            is_polling: polling.parse().ok()?,
            is_gso: gso.parse().ok()?,
            cpu_request: CpuRequest::parse(cpu_request)?,
            patience: Duration::from_nanos(patience.parse().ok()?),
        })
    }
}
