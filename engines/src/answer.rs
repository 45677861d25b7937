//! The answer of an engine: one line of JSON with flat numbers and at most a few lists.
//!
//! Written by hand, since the agent carries no JSON library. Field names are ours and need no
//! escape; texts do.

use std::fmt::Write;
use surtax_instrument::histogram::{Histogram, SHARES};

/// Raised when a field changes its meaning: a workload file says which it can read.
const VERSION: u32 = 1;

/// A line that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    text: String,
}

impl Answer {
    /// The answer of this engine, with the versions of what it is written by.
    #[must_use]
    pub fn of(engine: &str) -> Self {
        let mut answer = Self { text: String::from("{") };
        answer.text("engine", engine);
        answer.whole("version", u64::from(VERSION));
        answer.text("surtax", env!("CARGO_PKG_VERSION"));
        answer
    }

    fn key(&mut self, key: &str) {
        let comma = if self.text.ends_with('{') { "" } else { "," };
        let _ = write!(self.text, "{comma}\"{key}\":");
    }

    /// A whole number.
    pub fn whole(&mut self, key: &str, value: u64) {
        self.key(key);
        let _ = write!(self.text, "{value}");
    }

    /// Any number; one that is none (no quotient of zeros) is left out, so that it is missing and
    /// not wrong.
    pub fn number(&mut self, key: &str, value: f64) {
        if value.is_finite() {
            self.key(key);
            let _ = write!(self.text, "{value}");
        }
    }

    /// A number that there is not here: `null`, for a reader who must not take a missing key for
    /// it.
    pub fn absent(&mut self, key: &str) {
        self.key(key);
        self.text.push_str("null");
    }

    /// A whole number, or `null` where there is none.
    pub fn whole_or_null(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.whole(key, value),
            None => self.absent(key),
        }
    }

    /// Yes or no.
    pub fn truth(&mut self, key: &str, value: bool) {
        self.key(key);
        let _ = write!(self.text, "{value}");
    }

    /// A text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push('"');
        for letter in value.chars() {
            match letter {
                '"' | '\\' => self.text.extend(['\\', letter]),
                control if control < ' ' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(control));
                }
                plain => self.text.push(plain),
            }
        }
        self.text.push('"');
    }

    /// Pairs of whole numbers, as a list of lists.
    pub fn pairs(&mut self, key: &str, pairs: impl IntoIterator<Item = (u64, u64)>) {
        self.key(key);
        self.text.push('[');
        for (place, (left, right)) in pairs.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(self.text, "{comma}[{left},{right}]");
        }
        self.text.push(']');
    }

    /// A histogram: its ends, mean, the quantiles that it supports, and all of its bins.
    pub fn histogram(&mut self, histogram: &Histogram) {
        let ends =
            [("latency_min_ns", histogram.lowest_ns()), ("latency_max_ns", histogram.highest_ns())];
        for (key, value) in ends {
            value.into_iter().for_each(|value| self.whole(key, value));
        }
        self.number("latency_mean_ns", histogram.sum_ns() as f64 / histogram.count() as f64);
        self.quantiles("", histogram);
        self.whole("latency_outside_count", histogram.outside_count());
        self.pairs("histogram", histogram.bins());
    }

    /// The quantiles that a histogram supports, in nanoseconds; the names of their fields begin
    /// with `prefix`.
    pub fn quantiles(&mut self, prefix: &str, histogram: &Histogram) {
        for (name, share) in SHARES.into_iter().filter(|(_, share)| histogram.supports(*share)) {
            let value = histogram.quantile(share);
            value.into_iter().for_each(|it| self.whole(&format!("{prefix}latency_{name}_ns"), it));
        }
    }

    /// The whole line, without its end.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_of_json() {
        let mut answer = Answer::of("x");
        answer.whole("count", 3);
        answer.number("rate", 0.5);
        answer.number("nothing", f64::NAN);
        answer.absent("other");
        answer.truth("is_polling", false);
        answer.text("place", "a \"b\"\\\n\u{1b}é");
        let mut histogram = Histogram::new();
        (1..=20).for_each(|_| histogram.record(5000));
        answer.histogram(&histogram);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            answer.finish(),
            format!(
                "{{\"engine\":\"x\",\"version\":1,\"surtax\":\"{version}\",\"count\":3,\"rate\":0.5,\"other\":null,\"is_polling\":false,\"place\":\"a \
                 \\\"b\\\"\\\\\\u000a\\u001bé\",\"latency_min_ns\":5000,\"latency_max_ns\":5000,\"latency_mean_ns\":5000,\"latency_p50_ns\":5000,\"latency_outside_count\":0,\"histogram\":[[5000,20]]}}"
            )
        );
    }
}
