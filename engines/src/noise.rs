//! Measures what takes CPUs away from a program that wants nothing but to run: gaps in a loop that
//! reads the clock.
//!
//! What the kernel's osnoise tracer does, seen from user space: one thread held to each CPU, and
//! whatever lies between two readings for longer than a threshold was not ours: interrupts, other
//! threads, the hypervisor and all that it does. It has no real-time priority, since a loop with
//! one would take its CPU from all others.
//!
//! Source: Linux `Documentation/trace/osnoise-tracer.rst`.

use super::threads::for_each_cpu;
use super::{Answer, Engine, Options, Refused, cpu, option};
use std::io;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::quantity::Nanoseconds;

/// Loops that are interrupted.
pub(crate) const ENGINE: Engine = Engine {
    name: "noise",
    about: "what takes each CPU away from a loop, and for how long",
    options: &[
        option("duration", "TIME", "for how long; 10s"),
        option("threshold", "TIME", "the shortest gap that counts; 5us"),
    ],
    run,
};

/// Measures on every CPU that may be used.
fn run(options: &Options) -> Result<Answer, Refused> {
    let duration = options.duration("duration", Duration::from_secs(10))?;
    let threshold = options.duration("threshold", Duration::from_micros(5))?;
    let machine = |error: io::Error| Refused::machine(format!("the loops do not run: {error}"));
    let heard = for_each_cpu(|cpu| listen(cpu, duration, threshold)).map_err(machine)?;

    let mut all = Histogram::new();
    heard.iter().for_each(|it| all.merge(&it.gaps));
    let elapsed_ns: u64 = heard.iter().map(|it| it.elapsed.0).sum();
    let readings: u64 = heard.iter().map(|it| it.readings).sum();
    let gaps_ns: u128 = heard.iter().map(|it| it.gaps.sum_ns()).sum();
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("thread_count", heard.len() as u64);
    answer.whole("threshold_ns", Nanoseconds::from(threshold).0);
    answer.whole("elapsed_ns", elapsed_ns);
    answer.number("reading_ns", elapsed_ns as f64 / readings as f64);
    answer.number("noise_percent", gaps_ns as f64 / elapsed_ns as f64 * 100.0);
    answer.number("gaps_per_s", all.count() as f64 / elapsed_ns as f64 * 1e9);
    answer.whole("gap_count", all.count());
    let longest = |it: &Heard| (it.cpu as u64, it.gaps.highest_ns().unwrap_or(0));
    answer.pairs("cpu_max_ns", heard.iter().map(longest));
    answer.histogram(&all);
    Ok(answer)
}

/// Findings of one thread.
struct Heard {
    cpu: usize,
    gaps: Histogram,
    readings: u64,
    elapsed: Nanoseconds,
}

fn listen(cpu: usize, duration: Duration, threshold: Duration) -> io::Result<Heard> {
    cpu::pin(cpu)?;
    let mut gaps = Histogram::new();
    let threshold_ns = Nanoseconds::from(threshold).0;
    let began = clock::monotonic_raw();
    let end = began + duration.into();
    let (mut last, mut readings) = (began, 0);
    while last < end {
        let now = clock::monotonic_raw();
        let gap_ns = now.since(last).0;
        if gap_ns >= threshold_ns {
            gaps.record(gap_ns);
        }
        (last, readings) = (now, readings + 1);
    }
    Ok(Heard { cpu, gaps, readings, elapsed: last.since(began) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn every_gap_is_heard_and_their_sum_is_within_the_time() {
        let cpu = cpu::allowed().unwrap()[0];
        let duration = Duration::from_millis(20);
        // Every reading takes a nanosecond, so each is a gap.
        let heard = listen(cpu, duration, Duration::from_nanos(1)).unwrap();
        assert!(heard.readings > 1000, "{} readings", heard.readings);
        assert_eq!(heard.gaps.sum_ns(), u128::from(heard.elapsed.0));
        assert!(heard.gaps.count() <= heard.readings);
    }

    #[test]
    fn a_thread_that_wants_the_same_cpu_is_heard() {
        let cpu = *cpu::allowed().unwrap().last().unwrap();
        let (duration, threshold) = (Duration::from_millis(60), Duration::from_micros(500));
        let other = thread::spawn(move || listen(cpu, duration, threshold).unwrap());
        let heard = listen(cpu, duration, threshold).unwrap();
        let other = other.join().unwrap();
        // They share 60 ms: whatever the one has, the other one misses.
        assert!(heard.gaps.sum_ns() + other.gaps.sum_ns() > 20_000_000);
    }
}
