//! Conditions: what else this machine was doing. What cannot be read is absent, never zero.
//!
//! Each number has a stable key. Counters are read before and after a trial and kept as their
//! difference; levels are kept as read before it.

use std::fs;

/// A reading of the machine's own counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    levels: Vec<(&'static str, f64)>,
    counters: Vec<(&'static str, f64)>,
}

impl Conditions {
    /// Reads them now.
    #[must_use]
    pub fn read() -> Self {
        let mut conditions = Self::default();
        if let Some(load) = first_number("/proc/loadavg", 0) {
            conditions.levels.push(("load_1min", load));
        }
        for (key, path) in [
            ("pressure_cpu_some_us", "/proc/pressure/cpu"),
            ("pressure_io_some_us", "/proc/pressure/io"),
            ("pressure_memory_some_us", "/proc/pressure/memory"),
        ] {
            if let Some(total) = pressure_total(path) {
                conditions.counters.push((key, total));
            }
        }
        // The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks.
        if let Some(steal) = first_number("/proc/stat", 8) {
            conditions.counters.push(("steal_ticks", steal));
        }
        if let Some(swapped) = named_number("/proc/vmstat", "pswpout") {
            conditions.counters.push(("swap_out_pages", swapped));
        }
        conditions
    }

    /// What happened since `before`, with the levels of then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<(String, f64)> {
        let levels = before.levels.iter().map(|(key, value)| ((*key).to_owned(), *value));
        let changes = self.counters.iter().filter_map(|(key, now)| {
            let (_, then) = before.counters.iter().find(|(other, _)| other == key)?;
            Some(((*key).to_owned(), now - then))
        });
        levels.chain(changes).collect()
    }
}

fn first_number(path: &str, word: usize) -> Option<f64> {
    fs::read_to_string(path).ok()?.lines().next()?.split_whitespace().nth(word)?.parse().ok()
}

fn named_number(path: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// Microseconds in which some task waited, since boot.
fn pressure_total(path: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split("total=").nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_kept_as_its_difference_and_a_level_as_it_was_before() {
        let before = Conditions { levels: vec![("load", 2.0)], counters: vec![("steal", 5.0)] };
        let after = Conditions { levels: vec![("load", 9.0)], counters: vec![("steal", 8.0)] };
        let kept = after.since(&before);
        assert_eq!(kept, [(String::from("load"), 2.0), (String::from("steal"), 3.0)]);
    }

    #[test]
    fn what_could_not_be_read_before_is_absent_and_not_zero() {
        let after = Conditions { levels: vec![], counters: vec![("steal", 8.0)] };
        assert!(after.since(&Conditions::default()).is_empty());
    }

    #[test]
    fn this_machine_says_its_load() {
        assert!(Conditions::read().levels.iter().any(|(key, _)| *key == "load_1min"));
    }
}
