//! Has the kernel kill what this program starts before this program, when a layer's memory runs
//! out.
//!
//! By size alone it can take the agent, which is larger than many a command, and does so where the
//! memory of its first victim is not free yet when the next is due: then nobody is left to say what
//! happened. What the agent starts begins with a higher score, of which the agent is rid again at
//! once; to lower its own for good would take a right that it lacks in most layers.
//!
//! Source: `/proc/PID/oom_score_adj` in `proc_pid_oom_score_adj(5)`; `oom_badness` and
//! `__set_oom_adj` of Linux.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Amount that a start adds to the score, in thousandths of the memory that ran out: that many of
/// it a command may be smaller than the agent. Three levels of agents fit below the kernel's most,
/// each before the one around it.
const MORE: i32 = 300;

/// The kernel's most.
const MOST: i32 = 1000;

/// This process's own score, which may be written to; `None` where there is none, as in some
/// sandboxes.
static OWN: OnceLock<Option<Score>> = OnceLock::new();

struct Score {
    file: File,
    value: i32,
}

impl Score {
    fn open() -> Option<Self> {
        let mut file =
            File::options().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(Self { value: text.trim().parse().ok()?, file })
    }

    fn set(&self, value: i32) {
        // A refusal leaves it as it was, which costs at most a trial that is told as broken.
        let _ = self.file.write_all_at(value.to_string().as_bytes(), 0);
    }
}

/// Opens this process's score while it may: who is closed to others is closed to itself without
/// their rights.
pub fn open() {
    OWN.get_or_init(Score::open);
}

/// Does `start` with the higher score, which what it starts inherits.
///
/// Nothing else runs in between: this program has one thread, and the start holds it.
pub fn starting<T>(start: impl FnOnce() -> T) -> T {
    let Some(own) = OWN.get_or_init(Score::open) else {
        return start();
    };
    own.set((own.value + MORE).min(MOST));
    let started = start();
    own.set(own.value);
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a process of the test's own")]
    #[test]
    fn what_is_started_has_the_higher_score_and_who_starts_it_has_its_own_again() {
        let own = || std::fs::read_to_string("/proc/thread-self/oom_score_adj").unwrap();
        let before = own();
        let cat = || std::process::Command::new("cat").arg("/proc/self/oom_score_adj").output();
        let started = starting(cat).unwrap();
        let said: i32 = String::from_utf8(started.stdout).unwrap().trim().parse().unwrap();
        assert_eq!(said, (before.trim().parse::<i32>().unwrap() + MORE).min(MOST));
        assert_eq!(own(), before);
    }
}
