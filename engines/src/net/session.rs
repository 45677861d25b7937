//! The control connection: a few short lines, by which both ends begin together and the server
//! tells its part.
//!
//! ```text
//! client                                          server
//! surtax 3 tcp_rr 1 1 1 true false false apart … ▶
//! from 0-1 1763…                                ▶
//!                                               ◀ data 40123 1 1763… none gso  (or: refused WHY)
//!    … over other sockets, what is measured …
//! end                                           ▶
//!                                               ◀ done CPU_NS COUNT BYTES CPU
//! ```

use super::client_options::{ClientOptions, Handshake};
use super::offload;
use super::place::{EndPlace, are_siblings};
use crate::Refused;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use surtax_instrument::clock;

/// Words that both begin with; the number is that of this protocol.
pub(super) const GREETING: &str = "surtax 3 ";

/// Word that the client's second line begins with.
const FROM: &str = "from ";

/// The longest line, in bytes.
const LINE_LIMIT: usize = 4096;

/// Pause between two tries to reach a server that is not there yet.
const PAUSE: Duration = Duration::from_millis(10);

/// Counters and CPU use of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// CPU time of its process, user and system, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Transactions, or datagrams.
    pub(super) count: u64,
    /// Bytes that it received, or sent.
    pub(super) bytes: u64,
    /// The CPU on which it ended.
    pub(super) cpu: u64,
}

/// A client's end.
pub(super) struct Session {
    control: TcpStream,
    /// Address that the data goes to.
    pub(super) data: SocketAddr,
    /// Places where both run.
    pub(super) ends: Ends,
}

/// Places of both ends.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) client: EndPlace,
    pub(super) server: EndPlace,
}

impl Ends {
    /// Those of a client, which goes where it is to be, and a server that is where it is.
    ///
    /// # Errors
    /// The user's: there is no such CPU, or both would poll on one.
    pub(super) fn take(
        asked: &ClientOptions,
        client: EndPlace,
        server: EndPlace,
    ) -> Result<Self, Refused> {
        let cpu = asked.handshake.cpu_request.of_client(&client, &server, are_siblings);
        let client = client.moved_to(cpu)?;
        if asked.handshake.is_polling {
            client.require_own_cpus(&server)?;
        }
        Ok(Self { client, server })
    }
}

impl Session {
    /// Reaches the server, waiting for it as long as patience lasts, and makes the deal.
    ///
    /// # Errors
    /// Nobody answers in time, or the server refuses.
    pub(super) fn open(asked: &ClientOptions) -> Result<Self, Refused> {
        let control = reach(asked.connect, asked.handshake.patience)?;
        let mut control = limited(control, asked.handshake.patience)?;
        let mut here = EndPlace::here();
        let address = control.local_addr().map_err(|error| broken(&error))?.ip();
        here.offloads = offload::of(address);
        let EndPlace { cpus, kernel, .. } = &here;
        say(&mut control, &format!("{GREETING}{}\n{FROM}{cpus} {kernel}", asked.handshake))?;
        let line = hear(&mut control)?;
        let words: Vec<&str> = line.split(' ').collect();
        let &["data", port, cpus, kernel, idle, offloads] = words.as_slice() else {
            return Err(odd(&line));
        };
        let port = port.parse().map_err(|_| odd(&line))?;
        let [cpus, kernel, idle, offloads] = [cpus, kernel, idle, offloads].map(String::from);
        let server = EndPlace { cpus, kernel, idle, offloads };
        let data = SocketAddr::new(asked.connect.ip(), port);
        Ok(Self { control, data, ends: Ends::take(asked, here, server)? })
    }

    /// The descriptor of the control connection.
    pub(super) fn control(&self) -> RawFd {
        self.control.as_raw_fd()
    }

    /// Says that all is done, and hears what the server has counted.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn finish(mut self) -> Result<Served, Refused> {
        say(&mut self.control, "end")?;
        let line = hear(&mut self.control)?;
        Served::parse(&line).ok_or_else(|| odd(&line))
    }
}

impl Served {
    /// As a line.
    pub(super) fn line(self) -> String {
        format!("done {} {} {} {}", self.cpu_ns, self.count, self.bytes, self.cpu)
    }

    fn parse(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix("done ")?.split(' ').map(str::parse::<u64>);
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        let &[cpu_ns, count, bytes, cpu] = numbers.as_slice() else { return None };
        Some(Self { cpu_ns, count, bytes, cpu })
    }
}

/// A server's end, before the deal: what the client asks, and where it is.
///
/// # Errors
/// Whoever called is no client of ours.
pub(super) fn greet(control: &mut TcpStream) -> Result<(Handshake, EndPlace), Refused> {
    let line = hear(control)?;
    let handshake =
        line.strip_prefix(GREETING).and_then(Handshake::parse).ok_or_else(|| odd(&line))?;
    let line = hear(control)?;
    let from = line.strip_prefix(FROM).and_then(|rest| rest.split_once(' '));
    let (cpus, kernel) = from.ok_or_else(|| odd(&line))?;
    Ok((handshake, EndPlace { cpus: cpus.into(), kernel: kernel.into(), ..EndPlace::unknown() }))
}

/// Connects, again and again until somebody listens.
///
/// # Errors
/// Nobody does in time.
pub(super) fn reach(to: SocketAddr, patience: Duration) -> Result<TcpStream, Refused> {
    connect_within(to, patience).map_err(|error| {
        Refused::machine(format!("nobody answers at {to}: {error}"))
            .hint("start `@surtax engine serve` there, or allow it more with `--patience`")
    })
}

/// The same of any server.
///
/// # Errors
/// The last one of the kernel's.
pub(crate) fn connect_within(to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let began = clock::monotonic_raw();
    loop {
        let left = patience.saturating_sub(clock::monotonic_raw().since(began).into());
        match TcpStream::connect_timeout(&to, left.max(Duration::from_millis(1))) {
            Err(_) if !left.is_zero() => std::thread::sleep(PAUSE.min(left)),
            connected => return connected,
        }
    }
}

/// A connection on which nothing is waited for any longer than that.
///
/// # Errors
/// The kernel's.
pub(super) fn limited(control: TcpStream, patience: Duration) -> Result<TcpStream, Refused> {
    let set = control
        .set_read_timeout(Some(patience))
        .and_then(|()| control.set_write_timeout(Some(patience)))
        .and_then(|()| control.set_nodelay(true));
    set.map(|()| control).map_err(|error| broken(&error))
}

/// Sends a line.
///
/// # Errors
/// The other side is gone.
pub(super) fn say(control: &mut TcpStream, line: &str) -> Result<(), Refused> {
    control.write_all(format!("{line}\n").as_bytes()).map_err(|error| broken(&error))
}

/// Receives a line, byte by byte: there are few.
///
/// # Errors
/// The other side is gone, silent, or refuses.
pub(super) fn hear(control: &mut TcpStream) -> Result<String, Refused> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_LIMIT {
        match control.read(&mut byte) {
            Ok(0) => return Err(Refused::machine("the other side has hung up")),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&error)),
        }
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    match line.strip_prefix("refused ") {
        Some(why) => Err(Refused::user(format!("the server refuses: {}", why.escape_debug()))),
        None => Ok(line),
    }
}

fn broken(error: &io::Error) -> Refused {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Refused::machine("the other side says nothing in time")
        }
        _ => Refused::machine(format!("the control connection broke: {error}")),
    }
}

fn odd(line: &str) -> Refused {
    let shown: String = line.chars().take(60).flat_map(char::escape_debug).collect();
    Refused::machine(format!("the other side is no engine of ours: it says `{shown}`"))
        .hint("let both ends be of one version of surtax")
}
