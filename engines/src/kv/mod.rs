//! The key-value engine: what a request to memcached or Redis costs, of which every one is recorded
//! and read back.
//!
//! The server is another program; this is its client. Keys are stored first, then updated and read
//! in a closed loop (`round.rs`), by a schedule whatever the server does, or at the highest rate
//! that keeps a limit (`search.rs`). Every value that comes back is compared with the one that was
//! written.
//!
//! Source: J. Leverich, C. Kozyrakis, *Reconciling High Server Utilization and Sub-millisecond
//! Quality-of-Service*, EuroSys 2014 (mutilate); B. Atikoglu et al., *Workload Analysis of a
//! Large-Scale Key-Value Store*, SIGMETRICS 2012 (`size.rs`, `arrival.rs`).

mod arrival;
mod client_options;
mod binary;
mod keys;
mod connection;
mod measure;
mod protocol;
mod random;
mod record;
mod resp;
mod round;
mod search;
mod server;
mod size;
mod tell;
mod text;
mod work;

use super::{Answer, Engine, OptionSpec, Options, Refused, cpu, net, option};
use client_options::{ClientOptions, Pace};
use keys::Keys;
use measure::Bench;
use server::{Server, State};

const OPTIONS: &[OptionSpec] = &[
    option(
        "connect",
        "ADDRESS:PORT",
        "where the server is; `peer:PORT` is the address in SURTAX_PEER",
    ),
    option("protocol", "NAME", "memcached, memcached-binary or redis; memcached"),
    option("time", "TIME", "how long to measure, in a search at each of about ten rates; 10s"),
    net::WARM_UP,
    option("patience", "TIME", "how long to wait for the server; 5s"),
    option("keys", "N", "how many keys there are; 10000"),
    option("key-size", "etc|BYTES", "length of a key: all alike, or Facebook's ETC; etc"),
    option("value-size", "etc|BYTES", "the same of a value; etc"),
    option("ratio", "UPDATES:READS", "`1:0` only updates, and `0:1` only reads; 1:30"),
    option("connections", "N", "how many at once; 1"),
    option("depth", "N", "requests on their way on each, at most; 1, by a schedule 64"),
    option("threads", "N", "threads that share the connections; 1"),
    net::RATE,
    option("gaps", "exponential|even|etc", "between requests of a schedule; exponential"),
    option("search", "TIME", "find the highest rate whose latency stays below this; no search"),
    option("quantile", "pN", "which quantile of it; p99"),
    net::WORST,
    option("poll", "on|off", "spin and never sleep; off"),
    option("cpu", "N|any", "the CPU of this end; any"),
    option("no-load", "", "the keys are there already"),
    option("own-server", "", "the server is for this alone: it must be empty, and is told to end"),
    option("seed", "N", "what keys and requests are drawn from; 1"),
];

/// From when on a server was not started just now, in seconds.
const YOUNG_S: u64 = 60;

/// The engine.
pub(crate) const ENGINE: Engine = Engine {
    name: "kv",
    about: "updates and reads of a memcached or Redis server: latency of each, and their rate",
    options: OPTIONS,
    run,
};

fn run(options: &Options) -> Result<Answer, Refused> {
    let asked = ClientOptions::read(options)?;
    if let Some(cpu) = asked.cpu {
        cpu::pin(cpu).map_err(|error| {
            Refused::user(format!("CPU {cpu} is not to be had: {error}"))
                .hint("name one of `Cpus_allowed_list` in `/proc/self/status`")
        })?;
    }
    let keys = Keys::new(asked.keys, asked.key_size, asked.value_size, asked.seed)?;
    let mut server = Server::reach(asked.connect, asked.protocol, asked.patience)?;
    let state = server.state()?;
    if asked.is_own {
        require_own(&asked, &state)?;
    }
    let mut bench = Bench { asked: &asked, keys: &keys, server };
    if asked.is_loading {
        bench.load()?;
    }
    let answer = measured(&mut bench)?;
    if asked.is_own {
        bench.server.end()?;
    }
    Ok(answer)
}

/// Refuses a server that was not started for this: it would be filled, and ended.
///
/// # Errors
/// The user's.
fn require_own(asked: &ClientOptions, state: &State) -> Result<(), Refused> {
    let what = match state {
        State { items: 1.., .. } => format!("holds {} keys already", state.items),
        State { uptime_s: YOUNG_S.., .. } => format!("has run for {} s", state.uptime_s),
        _ => return Ok(()),
    };
    let at = asked.connect;
    Err(Refused::user(format!("the server at {at} {what}, so it is not there for this alone"))
        .hint("name the port of a server of your own, or leave `--own-server` out"))
}

fn measured(bench: &mut Bench<'_>) -> Result<Answer, Refused> {
    let (asked, keys) = (bench.asked, bench.keys);
    let rate = match asked.pace {
        Pace::Closed => None,
        Pace::Open(rate) => Some(rate),
        Pace::Search(limit) => {
            let found = search::run(limit, |rate| bench.measure(rate))?;
            let mut answer = tell::answer(asked, keys, &found.measured, Some(found.rate));
            tell::search(&mut answer, asked, &found);
            return Ok(answer);
        }
    };
    let measured = bench.measure(rate)?;
    Ok(tell::answer(asked, keys, &measured, rate))
}

#[cfg(test)]
mod tests;
