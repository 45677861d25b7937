//! Options of a measurement.

use super::arrival::Gaps;
use super::protocol::Protocol;
use super::size::Size;
use super::work::Updates;
use crate::net::{address, rate};
use crate::{Options, Refused};
use std::net::SocketAddr;
use std::time::Duration;
use surtax_instrument::histogram::SHARES;

/// Most requests of a connection that may be on their way by a schedule, where nobody says.
const OPEN_DEPTH: u64 = 64;

/// Pace at which requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// The next when an answer has come: a closed loop.
    Closed,
    /// Rate in requests per second, by a schedule: an open loop.
    Open(f64),
    /// By a schedule, at the highest rate at which a quantile stays below a limit.
    Search(Limit),
}

/// Limit of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limit {
    /// The name of the quantile.
    pub(super) name: &'static str,
    pub(super) share: f64,
    pub(super) most: Duration,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct ClientOptions {
    pub(super) connect: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) time: Duration,
    pub(super) warm_up: Option<Duration>,
    pub(super) patience: Duration,
    pub(super) keys: u32,
    pub(super) key_size: Size,
    pub(super) value_size: Size,
    pub(super) updates: Updates,
    pub(super) connections: usize,
    pub(super) depth: usize,
    pub(super) threads: usize,
    pub(super) pace: Pace,
    pub(super) gaps: Gaps,
    pub(super) worst: usize,
    pub(super) is_polling: bool,
    pub(super) cpu: Option<usize>,
    pub(super) is_loading: bool,
    /// The server is there for this measurement alone.
    pub(super) is_own: bool,
    pub(super) seed: u64,
}

impl ClientOptions {
    /// Reads what was typed.
    ///
    /// # Errors
    /// The user's: an option makes no sense, or two of them together.
    pub(super) fn read(options: &Options) -> Result<Self, Refused> {
        let pace = pace(options)?;
        let depth = if pace == Pace::Closed { 1 } else { OPEN_DEPTH };
        let cpu = match options.text("cpu") {
            None | Some("any") => None,
            Some(_) => Some(options.small("cpu", 0, 0..=65_535)?),
        };
        let asked = Self {
            connect: address(options.text("connect"))?,
            protocol: Protocol::read_option(options)?,
            time: options.duration("time", Duration::from_secs(10))?,
            warm_up: options
                .has("warm-up")
                .then(|| options.duration("warm-up", Duration::ZERO))
                .transpose()?,
            patience: options.duration("patience", Duration::from_secs(5))?,
            keys: u32::try_from(options.number("keys", 10_000, 1..=10_000_000)?).unwrap_or(1),
            key_size: Size::of_keys(options)?,
            value_size: Size::of_values(options)?,
            updates: updates(options.text("ratio").unwrap_or("1:30"))?,
            connections: options.small("connections", 1, 1..=4096)?,
            depth: options.small("depth", depth, 1..=4096)?,
            threads: options.small("threads", 1, 1..=256)?,
            pace,
            gaps: Gaps::read(options)?,
            worst: options.small("worst", 20, 0..=5000)?,
            is_polling: options.word("poll", &["off", "on"])? == "on",
            cpu,
            is_loading: !options.has("no-load"),
            is_own: options.has("own-server"),
            seed: options.number("seed", 1, 0..=u64::MAX)?,
        };
        asked.require_sense(options)?;
        Ok(asked)
    }

    fn require_sense(&self, options: &Options) -> Result<(), Refused> {
        let (connections, threads) = (self.connections, self.threads);
        if threads > connections {
            let what = format!("{threads} threads cannot share {connections} connections");
            return Err(Refused::user(what).hint(
                "each thread has connections of its own: ask for more, or for fewer threads",
            ));
        }
        if threads > 1 && self.cpu.is_some() {
            return Err(Refused::user("several threads would share one CPU")
                .hint("leave `--cpu` out, or `--threads`"));
        }
        if self.pace == Pace::Closed && options.has("gaps") {
            return Err(Refused::user("there are no gaps without a schedule")
                .hint("name its rate (`--rate`), or leave `--gaps` out"));
        }
        if options.has("quantile") && !options.has("search") {
            return Err(Refused::user("there is no limit for the quantile")
                .hint("name it: `--search 1ms`, or leave `--quantile` out"));
        }
        if self.is_own && !self.is_loading {
            return Err(Refused::user("a server that is there for this alone has no keys yet")
                .hint("leave `--no-load` out, or `--own-server`"));
        }
        Ok(())
    }
}

fn pace(options: &Options) -> Result<Pace, Refused> {
    match (options.text("rate"), options.has("search")) {
        (Some(_), true) => Err(Refused::user("a rate cannot be both given and searched for")
            .hint("leave `--rate` out, or `--search`")),
        (Some(text), false) => rate(text).map(Pace::Open),
        (None, false) => Ok(Pace::Closed),
        (None, true) => {
            let most = options.duration("search", Duration::from_millis(1))?;
            let wanted = options.text("quantile").unwrap_or("p99");
            let known = SHARES.iter().find(|(name, _)| name.replace('_', ".") == wanted);
            let &(name, share) = known.ok_or_else(|| {
                let shown = wanted.escape_debug();
                let known: Vec<_> = SHARES.iter().map(|(name, _)| name.replace('_', ".")).collect();
                Refused::user(format!("`--quantile {shown}` is none that is told"))
                    .hint(format!("name one of {}", known.join(", ")))
            })?;
            Ok(Pace::Search(Limit { name, share, most }))
        }
    }
}

/// Reads the ratio of requests that store to requests that read, as `1:30`.
fn updates(text: &str) -> Result<Updates, Refused> {
    let number = |text: &str| text.parse().ok().filter(|number| *number <= 1_000_000);
    let pair = text.split_once(':').and_then(|(sets, gets)| Some((number(sets)?, number(gets)?)));
    let pair = pair.filter(|(sets, gets)| sets + gets > 0);
    let (sets, gets) = pair.ok_or_else(|| {
        let shown = text.escape_debug();
        Refused::user(format!("`--ratio {shown}` is no ratio of updates to reads")).hint(
            "write two whole numbers, such as `1:30`; `1:0` only updates, and `0:1` only reads",
        )
    })?;
    Ok(Updates { sets, gets })
}
