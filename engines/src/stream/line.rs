//! A line at which threads wait for each other without sleeping, so that all begin within less than
//! a microsecond.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::yield_now;

/// Looks before the CPU is offered to somebody else: there may be more threads than CPUs.
const LOOKS: u32 = 10_000;

/// A line that all threads cross together, again and again.
pub struct StartingLine {
    threads: usize,
    arrived: AtomicUsize,
    crossed: AtomicUsize,
    is_given_up: AtomicBool,
}

impl StartingLine {
    /// One for so many threads.
    pub fn of(threads: usize) -> Self {
        let (arrived, crossed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { threads, arrived, crossed, is_given_up: AtomicBool::new(false) }
    }

    /// Waits until all are there.
    pub fn wait(&self) {
        let before = self.crossed.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.crossed.fetch_add(1, Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.crossed.load(Ordering::Acquire) == before
            && !self.is_given_up.load(Ordering::Relaxed)
        {
            looks += 1;
            if looks < LOOKS { spin_loop() } else { yield_now() }
        }
    }

    /// Lets everybody go on alone.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_crosses_before_all_are_there() {
        const ROUNDS: usize = 200;
        let (line, rounds) = (StartingLine::of(4), [const { AtomicUsize::new(0) }; 4]);
        std::thread::scope(|scope| {
            for own in &rounds {
                let (line, rounds) = (&line, &rounds);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        own.store(round, Ordering::SeqCst);
                        line.wait();
                        let all = rounds.iter().map(|it| it.load(Ordering::SeqCst));
                        assert!(all.min() >= Some(round), "somebody has not begun round {round}");
                    }
                });
            }
        });
    }
}
