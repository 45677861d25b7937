//! Ends a test that holds the machine for ever, and says what it was waiting for.

use crate::machine::{is_below_us, pids, process, text};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time that one test may hold the machine: several times what the longest needs.
const LIMIT: Duration = Duration::from_secs(900);

/// Time until it is asked a second time.
const AGAIN: Duration = Duration::from_secs(1);

/// Time that what we ask to end may take to remove what it made.
const GRACE: Duration = Duration::from_secs(90);

/// Dropped with the turn that it watches over.
pub struct Watchdog {
    _turn: Sender<()>,
}

impl Watchdog {
    /// Watches over a turn that begins now.
    pub fn new() -> Self {
        let (turn, ended) = channel::<()>();
        std::thread::spawn(move || {
            // Once is a request to finish the running trial, which may be what hangs.
            for (limit, signal) in
                [(LIMIT, Signal::TERM), (AGAIN, Signal::TERM), (GRACE, Signal::KILL)]
            {
                if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                end_all(signal);
            }
        });
        Self { _turn: turn }
    }
}

/// Tells of everything that our tests have started, and ends every surtax among it: then what waits
/// for it goes on, and fails.
fn end_all(signal: Signal) {
    eprintln!(
        "a test has held the machine for {} s or more; it is ended by {signal:?}:",
        LIMIT.as_secs()
    );
    for pid in pids().into_iter().filter(|pid| is_below_us(*pid)) {
        let read = |name| std::fs::read(process(pid).join(name)).unwrap_or_default();
        let line = text(&read("cmdline")).replace('\0', " ");
        eprintln!(
            "  {pid} in {}: {line}\n    {}",
            text(&read("wchan")),
            text(&read("stat")).trim_end()
        );
        let exe = std::fs::read_link(process(pid).join("exe")).unwrap_or_default();
        // Its helpers (`surtax __…`) take away what it leaves.
        if exe.ends_with("surtax") && !line.contains(" __") {
            let _ = Pid::from_raw(pid.cast_signed()).map(|pid| kill_process(pid, signal));
        }
    }
}
