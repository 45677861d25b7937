//! One measurement: connections, a warm-up that is forgotten, and what counts, with the server's
//! part of it.

use super::arrival::Schedule;
use super::client_options::ClientOptions;
use super::connection::Connection;
use super::keys::Keys;
use super::random::mixed;
use super::record::Record;
use super::round::{Round, RoundMode};
use super::server::{Server, State};
use crate::Refused;
use crate::threads::together;
use std::io;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Most keys on their way while they are stored, and most bytes.
const LOAD_DEPTH: usize = 64;
const LOAD_BYTES: usize = 4 << 20;

/// By when all threads have surely begun.
const BEGIN: Duration = Duration::from_millis(5);

/// Subject of a measurement: its options, the keys and the server.
pub(super) struct Bench<'a> {
    pub(super) asked: &'a ClientOptions,
    pub(super) keys: &'a Keys,
    pub(super) server: Server,
}

/// Result of a measurement.
pub(super) struct Measured {
    pub(super) record: Record,
    /// The server's CPU time meanwhile, in nanoseconds.
    pub(super) server_cpu_ns: u64,
    /// State of the server afterwards, as it says itself.
    pub(super) state: State,
    /// Number of keys that the server dropped meanwhile.
    pub(super) evictions: u64,
}

impl<'a> Bench<'a> {
    /// Stores every key, over one connection.
    ///
    /// # Errors
    /// The server does not store one of them, or does not answer.
    pub(super) fn load(&mut self) -> Result<(), Refused> {
        let depth = (LOAD_BYTES / self.keys.longest.max(1)).clamp(1, LOAD_DEPTH);
        let now = clock::monotonic_raw();
        let mut record = Record::of(now, Nanoseconds(u64::MAX), 0);
        let mut round = self.rounds(&[1], depth)?.remove(0);
        round.load(&mut record)?;
        match record.refusal {
            None => Ok(()),
            Some(why) => {
                let (refused, count) = (record.refused_count, self.keys.count());
                Err(Refused::machine(format!(
                    "the server does not store {refused} of {count} keys: `{why}`"
                ))
                .hint("give it more memory, or ask for fewer or smaller values"))
            }
        }
    }

    /// Measures in a closed loop, or at a rate.
    ///
    /// # Errors
    /// A connection cannot be made or breaks, or the server falls silent.
    pub(super) fn measure(&mut self, rate: Option<f64>) -> Result<Measured, Refused> {
        let ClientOptions { connections, threads, depth, .. } = *self.asked;
        let parts: Vec<usize> = (0..threads).map(|part| (connections + part) / threads).collect();
        let mut rounds = self.rounds(&parts, depth)?;
        if let Some(warm_up) = self.asked.warm_up {
            self.once(&mut rounds, rate, warm_up)?;
            if rounds.iter().any(Round::is_going) {
                rounds = self.rounds(&parts, depth)?;
            }
        }
        let before = self.server.state()?;
        let cpu = clock::process_cpu();
        let mut record = self.once(&mut rounds, rate, self.asked.time)?;
        record.cpu_ns = clock::process_cpu().since(cpu).0;
        let state = self.server.state()?;
        Ok(Measured {
            record,
            server_cpu_ns: state.cpu_ns.saturating_sub(before.cpu_ns),
            evictions: state.evictions.saturating_sub(before.evictions),
            state,
        })
    }

    /// One part of the connections for each thread.
    fn rounds(&self, parts: &[usize], depth: usize) -> Result<Vec<Round<'a>>, Refused> {
        let asked = self.asked;
        let mode = RoundMode {
            depth,
            updates: asked.updates,
            is_polling: asked.is_polling,
            is_alone: parts == [1],
            patience: asked.patience,
            seed: 0,
        };
        let round = |(number, count): (u64, &usize)| {
            let connection = |_| {
                let socket = self.server.connect()?;
                Ok(Connection::new(socket, asked.protocol, depth, self.keys.longest))
            };
            let connections = (0..*count).map(connection).collect::<Result<Vec<_>, Refused>>()?;
            let mode = RoundMode { seed: mixed(asked.seed ^ mixed(number)), ..mode };
            Round::new(connections, self.keys, mode).map_err(cannot)
        };
        (1..).zip(parts).map(round).collect()
    }

    /// All threads once, for so long.
    fn once(
        &self,
        rounds: &mut [Round<'_>],
        rate: Option<f64>,
        time: Duration,
    ) -> Result<Record, Refused> {
        let count = rounds.len();
        let begin = if count > 1 { BEGIN } else { Duration::ZERO };
        let began = clock::monotonic_raw() + begin.into();
        let empty = || Record::of(began, began + time.into(), self.asked.worst);
        let one = |number: u64, round: &mut Round<'_>, mut record: Record| {
            match rate {
                None => round.closed(&mut record)?,
                Some(rate) => {
                    let seed = mixed(self.asked.seed ^ mixed(!number));
                    let schedule = Schedule::of(self.asked.gaps, rate / count as f64, seed);
                    round.open(schedule, &mut record)?;
                }
            }
            Ok::<_, Refused>(record)
        };
        if let [round] = rounds {
            return one(0, round, empty());
        }
        let (one, mut all) = (&one, empty());
        let works = (0..).zip(rounds).map(|(number, round)| {
            let record = empty();
            move || Ok(one(number, round, record))
        });
        for record in together(works).map_err(cannot)? {
            all.merge(record?);
        }
        Ok(all)
    }
}

fn cannot(error: io::Error) -> Refused {
    Refused::machine(format!("the requests cannot be made: {error}"))
}
