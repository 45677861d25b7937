//! An allocation bomb: a process takes memory and writes to every page of it, until it is refused
//! or killed.
//!
//! Beside another it begins anew each time, until its own time is over: a bomb that is killed in a
//! moment disturbs nobody.
//!
//! It is a child, and asks to be the first to be killed, so that somebody is left to say how far it
//! got.

use super::limits::{self, What};
use super::shared::Counters;
use super::{DURATION, Term, UNTIL_ENDED, bytes, die_first, duration};
use crate::region::Region;
use crate::{Answer, Engine, Options, Refused, option};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;
use surtax_instrument::quantity::Bytes;

/// The bomb.
pub(crate) const ENGINE: Engine = Engine {
    name: "allocbomb",
    about: "a process that takes memory until it is refused or killed",
    options: &[
        option("bytes", "SIZE", "the most that it takes; 1G"),
        DURATION,
        UNTIL_ENDED,
        option("rounds", "N", "how often it begins, if there is time; 1"),
    ],
    run,
};

/// The most that it ever takes, whatever it is asked for.
const MOST: Bytes = Bytes(1 << 40);

/// Size of the region taken at a time, in bytes.
const PIECE: usize = 1 << 20;

const PAGE: usize = 4096;

/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(1);

/// The child's status where the kernel gave it no more memory.
const WAS_REFUSED: i32 = 7;

const TAKEN: usize = 0;

fn run(options: &Options) -> Result<Answer, Refused> {
    let most = bytes(options, "bytes", Bytes(1 << 30), MOST)?;
    let rounds = options.number("rounds", 1, 1..=u64::from(u32::MAX))?;
    let rounds = if options.has(UNTIL_ENDED.key) { u64::MAX } else { rounds };
    let duration = duration(options)?;
    let holder = limits::require(What::Memory)?;
    let counters = Counters::new()?;
    let term = Term::of(duration);
    let (mut end, mut took_ns) = round(&counters, most, term)?;
    let mut done = 1;
    while done < rounds && !term.is_over() {
        counters[TAKEN].store(0, Relaxed);
        (end, took_ns) = round(&counters, most, term)?;
        done += 1;
    }
    let mut answer = Answer::of(ENGINE.name);
    answer.text("held_by", &holder.by);
    answer.whole_or_null("limit_bytes", holder.limit);
    answer.whole("bytes_most", most);
    answer.whole("rounds", done);
    answer.whole("bytes_taken", counters[TAKEN].load(Relaxed));
    answer.text("end", end);
    answer.truth("is_killed", end == "killed");
    answer.whole("took_ns", took_ns);
    Ok(answer)
}

/// Once, from nothing until it ends.
fn round(counters: &Counters, most: u64, term: Term) -> Result<(&'static str, u64), Refused> {
    // SAFETY: this process has one thread, and the child goes on with what it finds.
    let child = match unsafe { libc::fork() } {
        -1 => {
            let error = std::io::Error::last_os_error();
            return Err(Refused::machine(format!("cannot fork who would take memory: {error}")));
        }
        0 => {
            let status = take(counters, most, term);
            // SAFETY: ends the child, and runs nothing of its parent's.
            unsafe { libc::_exit(status) }
        }
        child => child,
    };
    watch(child, term)
}

/// Takes pieces, and writes to each page of them.
fn take(counters: &Counters, most: u64, term: Term) -> i32 {
    die_first();
    let mut pieces = Vec::new();
    while counters[TAKEN].load(Relaxed) < most && !term.is_over() {
        let Ok(mut piece) = Region::new(PIECE) else { return WAS_REFUSED };
        for page in piece.bytes().chunks_mut(PAGE) {
            page.fill(1);
            counters[TAKEN].fetch_add(PAGE as u64, Relaxed);
        }
        pieces.push(piece);
    }
    0
}

/// Waits for the child and returns how and when it ended, in nanoseconds counted from the begin.
/// One that is stuck is killed a second after its term.
fn watch(child: i32, term: Term) -> Result<(&'static str, u64), Refused> {
    let lost = |error| Refused::machine(format!("lost who takes memory: {error}"));
    let child = Pid::from_raw(child);
    loop {
        if let Some((_, status)) = waitpid(child, WaitOptions::NOHANG).map_err(lost)? {
            let end = match (status.exit_status(), term.is_over()) {
                (Some(WAS_REFUSED), _) => "refused",
                (Some(_), true) => "time",
                (Some(_), false) => "bytes",
                (None, _) => "killed",
            };
            return Ok((end, term.gone_ns()));
        }
        // A child that cannot go on, since its group has no memory left and nobody is killed.
        if term.gone_ns() > term.end.since(term.began).0 + 1_000_000_000
            && let Some(pid) = child
        {
            let _ = kill_process(pid, Signal::KILL);
            waitpid(child, WaitOptions::empty()).map_err(lost)?;
            return Ok(("stuck", term.gone_ns()));
        }
        sleep(PAUSE);
    }
}
