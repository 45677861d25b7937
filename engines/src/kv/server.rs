//! State of a key-value server, as it says itself, and whether it is ours to fill and to end.
//!
//! A connection beside those that are measured: for its version, what it holds and how much CPU
//! time it has used, before and after. Source: memcached, `doc/protocol.txt` (`stats`, `shutdown`);
//! Redis, `INFO`, `SHUTDOWN`.

use super::connection::shown;
use super::protocol::Protocol;
use crate::Refused;
use crate::net::connect_within;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time that a connection is waited on at once.
const LOOK: Duration = Duration::from_millis(100);

/// The most that a server says of itself, in bytes.
const SAID_LIMIT: usize = 256 << 10;

/// A server, over a connection of its own.
pub(super) struct Server {
    stream: TcpStream,
    to: SocketAddr,
    protocol: Protocol,
    patience: Duration,
}

/// State of a server at one time, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) version: String,
    /// Threads that serve, where it says so.
    pub(super) threads: Option<u64>,
    /// CPU time that it has used, user and system, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Time that it has run, in seconds.
    pub(super) uptime_s: u64,
    /// Number of keys that it holds.
    pub(super) items: u64,
    /// Number of keys that it has dropped for others.
    pub(super) evictions: u64,
}

impl Server {
    /// Reaches a server, waiting for it as long as patience lasts.
    ///
    /// # Errors
    /// Nobody listens in time.
    pub(super) fn reach(
        to: SocketAddr,
        protocol: Protocol,
        patience: Duration,
    ) -> Result<Self, Refused> {
        let stream = connect_within(to, patience).map_err(|error| {
            Refused::machine(format!("no key-value server listens at {to}: {error}"))
                .hint("start it there, or allow it more with `--patience`")
        })?;
        let set = stream.set_read_timeout(Some(patience));
        let set = set.and_then(|()| stream.set_write_timeout(Some(patience)));
        set.map_err(|error| broken(&error))?;
        Ok(Self { stream, to, protocol, patience })
    }

    /// One more connection to it.
    ///
    /// # Errors
    /// It takes no more.
    pub(super) fn connect(&self) -> Result<TcpStream, Refused> {
        let connected = TcpStream::connect_timeout(&self.to, self.patience);
        let connected = connected.and_then(|it| {
            it.set_nodelay(true)?;
            // Who waits for answers looks at the clock now and then.
            it.set_read_timeout(Some(LOOK))?;
            Ok(it)
        });
        connected.map_err(|error| {
            Refused::machine(format!("the server takes no connection more: {error}"))
                .hint("ask for fewer (`--connections`), or let the server allow more")
        })
    }

    /// Asks the server for its state.
    ///
    /// # Errors
    /// It does not answer, or says nothing of the kind.
    pub(super) fn state(&mut self) -> Result<State, Refused> {
        match self.protocol {
            Protocol::Resp => {
                let said = self.ask("INFO", |said| {
                    let line = said.split_inclusive('\n').next()?;
                    let digits = line.trim_end().strip_prefix('$')?;
                    let length = digits.parse::<usize>().ok()?;
                    (said.len() >= line.len() + length + 2).then_some(())
                })?;
                redis(&said).ok_or_else(|| self.odd(&said))
            }
            _ => {
                let said = self.ask("stats", |said| said.ends_with("END\r\n").then_some(()))?;
                memcached(&said).ok_or_else(|| self.odd(&said))
            }
        }
    }

    /// Tells it to end, and waits until it does.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn end(mut self) -> Result<(), Refused> {
        let word = if self.protocol == Protocol::Resp { "SHUTDOWN NOSAVE" } else { "shutdown" };
        match self.ask(word, |said| said.contains('\n').then_some(())) {
            Ok(said) if said.is_empty() => Ok(()),
            Ok(said) => Err(Refused::machine(format!(
                "the server does not end when it is told to: `{}`",
                shown(said.as_bytes())
            ))
            .hint("start memcached with `--enable-shutdown`, or leave `--own-server` out")),
            Err(refused) => Err(refused),
        }
    }

    /// Says a line, and hears until it is enough or the server hangs up.
    fn ask(
        &mut self,
        line: &str,
        is_enough: impl Fn(&str) -> Option<()>,
    ) -> Result<String, Refused> {
        let sent = self.stream.write_all(format!("{line}\r\n").as_bytes());
        sent.map_err(|error| self.failed(&error))?;
        let (mut said, mut room) = (Vec::new(), [0; 4096]);
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(self.failed(&error)),
            }
            let text = String::from_utf8_lossy(&said);
            let is_refused = ["ERROR", "-", "HTTP/"].iter().any(|word| text.starts_with(word));
            if is_enough(&text).is_some() || is_refused || said.len() > SAID_LIMIT {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn failed(&self, error: &io::Error) -> Refused {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let (to, seconds) = (self.to, self.patience.as_secs_f64());
                Refused::machine(format!(
                    "the server at {to} takes connections and has not answered for {seconds:.1} s"
                ))
                .hint("look at its own output: it may be stopped, or speak another language")
            }
            _ => broken(error),
        }
    }

    fn odd(&self, said: &str) -> Refused {
        let (name, shown) = (self.protocol.name(), shown(said.as_bytes()));
        Refused::machine(format!("who listens at {} is no server of {name}: `{shown}`", self.to))
            .hint("name its language (`--protocol`), or another port")
    }
}

fn broken(error: &io::Error) -> Refused {
    Refused::machine(format!("the server cannot be asked about itself: {error}"))
}

/// The rest of the line that begins so.
fn after<'a>(said: &'a str, begin: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(begin)).map(str::trim)
}

/// Reads the answer to `stats`: lines of `STAT NAME VALUE`.
fn memcached(said: &str) -> Option<State> {
    let find = |name: &str| after(said, &format!("STAT {name} "));
    let number = |name| find(name)?.parse().ok();
    Some(State {
        version: find("version")?.to_owned(),
        threads: number("threads"),
        cpu_ns: nanoseconds(find("rusage_user")?)? + nanoseconds(find("rusage_system")?)?,
        uptime_s: number("uptime")?,
        items: number("curr_items")?,
        evictions: number("evictions")?,
    })
}

/// Reads the answer to `INFO`: lines of `NAME:VALUE`; a database that holds nothing is not named.
fn redis(said: &str) -> Option<State> {
    let find = |name: &str| after(said, &format!("{name}:"));
    let items = said.lines().filter(|line| line.starts_with("db")).filter_map(|line| {
        let (_, rest) = line.split_once(":keys=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    Some(State {
        version: find("redis_version")?.to_owned(),
        threads: None,
        cpu_ns: nanoseconds(find("used_cpu_user")?)? + nanoseconds(find("used_cpu_sys")?)?,
        uptime_s: find("uptime_in_seconds")?.parse().ok()?,
        items: items.sum(),
        evictions: find("evicted_keys")?.parse().ok()?,
    })
}

/// Nanoseconds of a time in seconds.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    u64::try_from(time.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_they_describe_themselves() {
        let said = "STAT pid 7\r\nSTAT uptime 8\r\nSTAT version 1.6.18\r\nSTAT rusage_user \
                    0.250000\r\nSTAT rusage_system 1.500001\r\nSTAT curr_items 12\r\nSTAT threads \
                    4\r\nSTAT evictions 3\r\nEND\r\n";
        let state = State {
            version: String::from("1.6.18"),
            threads: Some(4),
            cpu_ns: 1_750_001_000,
            uptime_s: 8,
            items: 12,
            evictions: 3,
        };
        assert_eq!(memcached(said), Some(state.clone()));
        let said = "$99\r\n# \
                    Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:8\r\nused_cpu_sys:1.500001\r\nused_cpu_user:0.250000\r\nevicted_keys:3\r\n# \
                    Keyspace\r\ndb0:keys=5,expires=0,avg_ttl=0\r\ndb3:keys=7,expires=0,avg_ttl=0\r\n";
        let redis_state = State { version: String::from("7.0.15"), threads: None, ..state };
        assert_eq!(redis(said), Some(redis_state));
        assert_eq!((memcached(said), redis("ERROR\r\n")), (None, None));
    }
}
