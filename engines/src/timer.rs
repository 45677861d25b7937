//! Lateness of threads that sleep until a time: one held to each CPU, every lateness kept.
//!
//! What cyclictest does with `--mlockall --smp`: absolute sleeps at a fixed interval on
//! `CLOCK_MONOTONIC`, with real-time priority where that is allowed. A time that has passed already
//! when a thread wakes up is counted and not made up for. Unlike cyclictest, it does not keep CPUs
//! out of their idle states (`/dev/cpu_dma_latency`), since that is a setting of the whole machine.
//!
//! Source: `clock_nanosleep(2)`, `sched(7)`, `mlockall(2)`, `PR_SET_TIMERSLACK` in `prctl(2)`.

use super::threads::for_each_cpu;
use super::{Answer, Engine, Options, Refused, cpu, option};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::io;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::quantity::Nanoseconds;

/// Threads that wake up.
pub(crate) const ENGINE: Engine = Engine {
    name: "timer",
    about: "how late a thread wakes up, on every CPU",
    options: &[
        option("interval", "TIME", "from one wake-up to the next; 1ms"),
        option("duration", "TIME", "for how long; 10s"),
        option(
            "priority",
            "N",
            "real-time priority (SCHED_FIFO), 0 for none; 80 where it is allowed",
        ),
    ],
    run,
};

/// The priority of cyclictest's own examples: above interrupt threads, which have 50.
const PRIORITY: u64 = 80;

/// By when all threads have surely begun to sleep.
const BEGIN: Nanoseconds = Nanoseconds(10_000_000);

/// Measures on every CPU that may be used.
fn run(options: &Options) -> Result<Answer, Refused> {
    let interval = options.duration("interval", Duration::from_millis(1))?;
    let duration = options.duration("duration", Duration::from_secs(10))?;
    if interval > duration {
        return Err(Refused::user(
            "the interval is longer than the duration: nothing would wake up",
        ));
    }
    let asked = options.number("priority", PRIORITY, 0..=99)?;
    let machine = |error: io::Error| Refused::machine(format!("the timers do not run: {error}"));
    let (priority, why) = match set_priority(asked) {
        Ok(()) => (asked, None),
        Err(error) if !options.has("priority") => (0, Some(error.to_string())),
        Err(error) => {
            let what = format!("a real-time priority of {asked} is not allowed here: {error}");
            return Err(Refused::machine(what).hint("use `--priority 0`, or give the right to it"));
        }
    };
    let is_locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
    let begin = clock::monotonic() + BEGIN;
    // What is inherited by a thread is its starter's priority.
    let woken = for_each_cpu(|cpu| wake_up(cpu, begin, interval, duration)).map_err(machine)?;

    let mut all = Histogram::new();
    woken.iter().for_each(|it| all.merge(&it.latencies));
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("thread_count", woken.len() as u64);
    answer.whole("interval_ns", Nanoseconds::from(interval).0);
    answer.text("policy", if priority > 0 { "fifo" } else { "other" });
    answer.whole("priority", priority);
    if let Some(why) = why {
        answer.text("priority_why", &why);
    }
    answer.truth("is_memory_locked", is_locked);
    answer.whole("wake_up_count", all.count());
    answer.whole("missed_count", woken.iter().map(|it| it.missed).sum());
    let longest = |it: &Woken| (it.cpu as u64, it.latencies.highest_ns().unwrap_or(0));
    answer.pairs("cpu_max_ns", woken.iter().map(longest));
    answer.histogram(&all);
    Ok(answer)
}

/// Findings of one thread.
struct Woken {
    cpu: usize,
    latencies: Histogram,
    missed: u64,
}

fn wake_up(
    cpu: usize,
    begin: Nanoseconds,
    interval: Duration,
    duration: Duration,
) -> io::Result<Woken> {
    cpu::pin(cpu)?;
    cpu::sleep_precisely();
    let interval = Nanoseconds::from(interval);
    let mut woken = Woken { cpu, latencies: Histogram::new(), missed: 0 };
    let end = begin + duration.into();
    let mut until = begin;
    while until <= end {
        sleep_until(until)?;
        let now = clock::monotonic();
        // A clock of whole nanoseconds may say that none has passed.
        woken.latencies.record(now.since(until).0.max(1));
        until += interval;
        // What was due after the end is not missed.
        let late = now.min(end);
        if until <= late {
            let missed = late.since(until).0 / interval.0 + 1;
            woken.missed += missed;
            until += Nanoseconds(interval.0.saturating_mul(missed));
        }
    }
    Ok(woken)
}

/// Sleeps until that time of `CLOCK_MONOTONIC`.
///
/// # Errors
/// The kernel's, also where a signal ended the sleep.
pub(super) fn sleep_until(until: Nanoseconds) -> io::Result<()> {
    let seconds = i64::try_from(until.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(until.0 % 1_000_000_000).unwrap_or(0);
    let time = Timespec { tv_sec: seconds, tv_nsec: rest };
    Ok(clock_nanosleep_absolute(ClockId::Monotonic, &time)?)
}

/// Gives this thread, and those that it starts, a real-time priority; none for 0.
fn set_priority(priority: u64) -> io::Result<()> {
    let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let priority = libc::c_int::try_from(priority).map_err(io::Error::other)?;
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a live parameter, which is only read.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer_to;

    fn answer(line: &str) -> Result<String, Refused> {
        answer_to(&format!("timer {line}"))
    }

    #[test]
    fn every_cpu_wakes_up_as_often_as_asked() {
        let cpus = cpu::allowed().unwrap().len();
        // Each begins at once and then every millisecond; those that a busy machine misses are
        // counted.
        let answer = answer("--interval 1ms --duration 30ms --priority 0").unwrap();
        let field = |key: &str| -> usize {
            let from = answer.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
            let digits: String = answer[from..].chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        assert_eq!(field("thread_count"), cpus);
        assert_eq!(field("wake_up_count") + field("missed_count"), 31 * cpus, "{answer}");
        assert!(answer.contains("\"policy\":\"other\",\"priority\":0,"), "{answer}");
    }

    #[test]
    fn nobody_wakes_up_early() {
        let begin = clock::monotonic() + Nanoseconds(1_000_000);
        let (interval, duration) = (Duration::from_micros(300), Duration::from_millis(3));
        let woken = wake_up(cpu::allowed().unwrap()[0], begin, interval, duration).unwrap();
        assert_eq!(woken.latencies.count() + woken.missed, 11);
        assert_eq!(woken.latencies.outside_count(), 0);
    }

    #[test]
    fn an_interval_beyond_the_duration_is_refused() {
        let refused = answer("--interval 2s --duration 1s").unwrap_err();
        assert!(refused.is_users && refused.what.starts_with("the interval is longer"));
    }
}
