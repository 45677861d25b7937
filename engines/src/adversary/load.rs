//! A load held at a share of CPUs, and an amount of memory that is kept in use: a neighbour as
//! lookbusy is one.
//!
//! Each thread computes until it has had its share of a period, by its own CPU clock, and sleeps
//! until the next. What it could not have in a period, since others had the CPU, is a shortfall and
//! never made up for: catching up would turn a share into a burst.
//!
//! Source: `CLOCK_THREAD_CPUTIME_ID` in `clock_gettime(2)`; lookbusy's manual.

use super::{DURATION, Term, UNTIL_ENDED, bytes, duration};
use crate::region::{Region, require_memory};
use crate::threads::joined;
use crate::timer::sleep_until;
use crate::{Answer, Engine, Options, Refused, option};
use std::hint::black_box;
use std::io;
use std::thread;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};

/// The load.
pub(crate) const ENGINE: Engine = Engine {
    name: "load",
    about: "threads that use a share of a CPU each, and memory that is kept in use",
    options: &[
        option("cpu", "PERCENT", "of a CPU, each thread; 50"),
        option("threads", "N", "how many; 1"),
        option("memory", "SIZE", "kept in use; none"),
        option("period", "TIME", "in which a share is had; 20ms"),
        DURATION,
        UNTIL_ENDED,
    ],
    run,
};

/// The most memory, whatever it is asked for; and never more than three quarters of what is free.
const MOST: Bytes = Bytes(1 << 40);

const PAGE: usize = 4096;

/// In how many periods all of the memory is written to once.
const ROUND: usize = 50;

fn run(options: &Options) -> Result<Answer, Refused> {
    let percent = options.number("cpu", 50, 1..=100)?;
    let threads = options.number("threads", 1, 1..=1024)?;
    let memory = match options.text("memory") {
        None | Some("0") => 0,
        Some(_) => bytes(options, "memory", Bytes(0), MOST)?,
    };
    let period = options.duration("period", Duration::from_millis(20))?;
    let duration = duration(options)?;
    if period < Duration::from_millis(1) || period > duration {
        return Err(Refused::user("a period is at least 1 ms, and not longer than the duration"));
    }
    let machine = |error: io::Error| Refused::machine(format!("the load does not run: {error}"));
    require_memory(memory).map_err(machine)?;
    let mut kept = Region::new(usize::try_from(memory).unwrap_or(usize::MAX)).map_err(machine)?;
    let kept = kept.bytes();
    kept.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    let share = Nanoseconds(Nanoseconds::from(period).0 / 100 * percent);
    let term = Term::of(duration);
    let all = thread::scope(|scope| {
        let start = |_| {
            thread::Builder::new().spawn_scoped(scope, move || hold(share, period.into(), term))
        };
        let started: io::Result<Vec<_>> = (0..threads).map(start).collect();
        keep(kept, period.into(), term)?;
        started?.into_iter().map(joined).collect::<io::Result<Vec<_>>>()
    });
    let all = all.map_err(machine)?;
    let sum = |of: fn(&Held) -> u64| all.iter().map(of).sum::<u64>();
    let (cpu_ns, rounds, elapsed_ns) =
        (sum(|it| it.cpu.0), sum(|it| it.rounds), sum(|it| it.elapsed.0));
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("thread_count", threads);
    answer.whole("asked_percent", percent);
    answer.whole("memory_bytes", memory);
    answer.whole("cpu_ns", cpu_ns);
    answer.whole("elapsed_ns", elapsed_ns);
    answer.whole("period_count", sum(|it| it.periods));
    answer.whole("short_period_count", sum(|it| it.short));
    answer.number("cpu_percent", cpu_ns as f64 / elapsed_ns as f64 * 100.0);
    answer.number("rounds_per_cpu_s", rounds as f64 / cpu_ns as f64 * 1e9);
    Ok(answer)
}

/// Result of one thread.
#[derive(Debug, Default)]
struct Held {
    cpu: Nanoseconds,
    elapsed: Nanoseconds,
    rounds: u64,
    periods: u64,
    /// Periods in which the share could not be had.
    short: u64,
}

/// Uses its share of each period.
fn hold(share: Nanoseconds, period: Nanoseconds, term: Term) -> io::Result<Held> {
    let mut held = Held::default();
    let began = clock::thread_cpu();
    let mut next = term.began + period;
    while next <= term.end {
        let until = clock::thread_cpu() + share;
        let mut number = 1_u64;
        while clock::thread_cpu() < until && clock::monotonic() < next {
            for _ in 0..1000 {
                number = black_box(number.wrapping_mul(6_364_136_223_846_793_005) ^ (number >> 29));
            }
            held.rounds += 1;
        }
        held.periods += 1;
        held.short += u64::from(clock::thread_cpu() < until);
        sleep_until(next)?;
        next = next.max(clock::monotonic()) + period;
    }
    held.cpu = clock::thread_cpu().since(began);
    held.elapsed = clock::monotonic().since(term.began);
    Ok(held)
}

/// Writes to a part of the memory in each period, so that none of it is taken for unused.
fn keep(kept: &mut [u8], period: Nanoseconds, term: Term) -> io::Result<()> {
    let part = kept.len().div_ceil(ROUND).next_multiple_of(PAGE);
    let mut next = term.began;
    for place in (0..ROUND).cycle() {
        next += period;
        if kept.is_empty() || next > term.end {
            return Ok(());
        }
        let pages = kept.iter_mut().skip(place * part).take(part).step_by(PAGE);
        pages.for_each(|byte| *byte = byte.wrapping_add(1));
        sleep_until(next)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_exceeded_by_more_than_a_round_and_an_idle_rest_is_slept() {
        let (share, period) = (Nanoseconds(1_000_000), Nanoseconds(10_000_000));
        let held = hold(share, period, Term::of(Duration::from_millis(100))).unwrap();
        assert!(held.periods <= 10, "{held:?}");
        let most = held.periods * 1_500_000;
        assert!(held.cpu.0 < most, "{held:?}");
        assert!(held.short > 0 || held.cpu.0 >= held.periods * 1_000_000, "{held:?}");
    }
}
