//! A fork bomb: every process makes others as fast as it can, until a limit refuses it, and goes on
//! asking.
//!
//! Each process sees to its own end: at the deadline, and when the one that made it dies.
//!
//! Source: `fork(2)` (`EAGAIN`), `PR_SET_CHILD_SUBREAPER` and `PR_SET_PDEATHSIG` in `prctl(2)`.

use super::limits::{self, What};
use super::shared::Counters;
use super::{DURATION, Term, UNTIL_ENDED, die_first, duration, per_second};
use crate::{Answer, Engine, Options, Refused, option};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

/// The bomb.
pub(crate) const ENGINE: Engine = Engine {
    name: "forkbomb",
    about: "processes that make processes, until a limit refuses them",
    options: &[option("processes", "N", "the most at a time; 512"), DURATION, UNTIL_ENDED],
    run,
};

/// The most that it ever makes at a time, whatever it is asked for.
const MOST: u64 = 4096;

/// After a refusal, so that the deadline is not waited for by spinning alone.
const PAUSE: Duration = Duration::from_micros(200);

const MADE: usize = 0;
const REFUSED: usize = 1;
const LIVING: usize = 2;
const REFUSED_AT: usize = 3;
const BOUND: usize = 4;

fn run(options: &Options) -> Result<Answer, Refused> {
    let most = options.number("processes", 512, 1..=MOST)?;
    let duration = duration(options)?;
    let holder = limits::require(What::Processes)?;
    let counters = Counters::new()?;
    // Whoever loses its parent becomes ours, so that all can be waited for.
    let us = getpid();
    set_child_subreaper(Some(us))
        .map_err(|error| Refused::machine(format!("cannot wait for what is forked: {error}")))?;
    let term = Term::of(duration);
    breed(&counters, most, term);
    let took_ns = term.gone_ns();
    while wait(WaitOptions::empty()).is_ok() {}
    let count = |place: usize| counters[place].load(Relaxed);
    let mut answer = Answer::of(ENGINE.name);
    answer.text("held_by", &holder.by);
    answer.whole_or_null("limit", holder.limit);
    answer.whole("processes_most", most);
    answer.whole("processes_made", count(MADE));
    answer.whole("forks_refused", count(REFUSED));
    let first_refusal = Some(count(REFUSED_AT)).filter(|at| *at > 0);
    answer.whole_or_null("first_refusal_ns", first_refusal);
    answer.truth("is_own_bound_reached", count(BOUND) > 0);
    answer.whole("took_ns", took_ns);
    answer.number("attempts_per_s", per_second(count(MADE) + count(REFUSED), took_ns));
    Ok(answer)
}

/// Makes processes that do the same.
fn breed(counters: &Counters, most: u64, term: Term) {
    while !term.is_over() {
        // This one is counted before it is there: so they never are more than that.
        if counters[LIVING].fetch_add(1, Relaxed) >= most {
            counters[LIVING].fetch_sub(1, Relaxed);
            counters[BOUND].store(1, Relaxed);
            sleep(PAUSE);
            continue;
        }
        let parent = getpid();
        // SAFETY: this process has one thread, and the child goes on with what it finds.
        match unsafe { libc::fork() } {
            -1 => {
                counters[LIVING].fetch_sub(1, Relaxed);
                counters[REFUSED].fetch_add(1, Relaxed);
                let at = term.gone_ns();
                let _ = counters[REFUSED_AT].compare_exchange(0, at, Relaxed, Relaxed);
                sleep(PAUSE);
            }
            0 => {
                follow(parent);
                breed(counters, most, term);
                // SAFETY: ends the child, and runs nothing of its parent's.
                unsafe { libc::_exit(0) }
            }
            // Later, the places of those that have ended are taken once more.
            _ if term.is_over() => return,
            _ => {
                counters[MADE].fetch_add(1, Relaxed);
            }
        }
    }
}

/// Dies with the one that made it, also if that is dead already; and before any other, where memory
/// ends first.
fn follow(parent: Pid) {
    die_first();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        // SAFETY: ends the child, and runs nothing of its parent's.
        unsafe { libc::_exit(0) }
    }
}
