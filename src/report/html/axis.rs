//! Places values on a line: linear, or logarithmic when they span more than a factor of three.
//!
//! The positions of linear and of decimal ticks are the chart library's; ratios have ticks of their
//! own, because +10 % and 2× are what people say, and 1.25892541 is not.

use crate::finding::number;
use kuva::render::render_utils::{generate_ticks, generate_ticks_log};

/// From values to positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// True if equal distances are equal factors.
    pub is_log: bool,
    start: f64,
    end: f64,
}

/// A position on an axis, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// In pixels.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// For people.
    pub label: String,
}

/// Values that span more than this factor get a logarithmic axis.
const LOG_FROM_FACTOR: f64 = 3.0;
/// Factors on an axis that spans less are told apart by two decimals.
const FINE_BELOW: f64 = 2.0;
/// No ratio and no time in nanoseconds is sensibly smaller.
const SMALLEST: f64 = 1e-6;
/// Thirty thousand years in nanoseconds.
const LARGEST: f64 = 1e21;

impl Axis {
    /// Spans the values that are finite and above zero, with a margin, from one pixel to another.
    pub fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.clamp(SMALLEST, LARGEST))
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        let is_log = high / low > LOG_FROM_FACTOR;
        let (low, high) = if is_log {
            let margin = (high / low).powf(0.06);
            (low / margin, high * margin)
        } else {
            let margin = ((high - low) * 0.08).max(high * 0.005);
            (low - margin, high + margin)
        };
        Self { low, high, is_log, start, end }
    }

    /// Starts at zero; for lengths, and for the time since the start.
    pub fn from_zero(high: f64, start: f64, end: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        Self { low: 0.0, high, is_log: false, start, end }
    }

    /// The position of a value, kept within the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + (self.end - self.start) * share.clamp(0.0, 1.0)
    }

    /// The same values between other pixels.
    pub fn between(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    /// Tells whether a value lies on the axis.
    pub fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Ticks for ratios to the baseline, at least `apart` pixels from each other.
    pub fn ratio_ticks(&self, apart: f64) -> Vec<Tick> {
        const RATIOS: [f64; 24] = [
            1.0, 10.0, 100.0, 1_000.0, 0.1, 0.01, 2.0, 5.0, 20.0, 50.0, 200.0, 500.0, 0.5, 0.2,
            3.0, 30.0, 300.0, 1.5, 0.75, 1.2, 0.9, 1.1, 0.8, 1.05,
        ];
        let is_fine = self.high - self.low < FINE_BELOW;
        let label = |ratio: f64| match ratio {
            2.0.. if is_fine => format!("{}×", number::trimmed(ratio, 2)),
            _ => number::ratio_tick(ratio),
        };
        if self.is_log {
            return self.spread(RATIOS.into_iter(), apart, label);
        }
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let ticks = generate_ticks(percent(self.low), percent(self.high), self.room(apart));
        let ratios = std::iter::once(0.0).chain(ticks).map(|percent| 1.0 + percent / 100.0);
        self.spread(ratios, apart * 0.75, label)
    }

    /// Ticks for durations in nanoseconds, all in one unit.
    pub fn time_ticks(&self, apart: f64) -> Vec<Tick> {
        let (unit_ns, unit) = match self.high {
            ..2e3 => (1.0, "ns"),
            ..2e6 => (1e3, "µs"),
            ..2e9 => (1e6, "ms"),
            ..3e11 => (1e9, "s"),
            ..2e13 => (6e10, "min"),
            _ => (3.6e12, "h"),
        };
        let label = |ns: f64| format!("{} {unit}", number::trimmed(ns / unit_ns, 3));
        let (low, high) = (self.low / unit_ns, self.high / unit_ns);
        let ticks = if self.is_log {
            generate_ticks_log(low, high)
        } else {
            generate_ticks(low, high, self.room(apart))
        };
        self.spread(ticks.into_iter().map(|tick| tick * unit_ns), apart * 0.75, label)
    }

    /// Ticks for durations in nanoseconds over many factors of ten, each in a unit of its own.
    pub fn span_ticks(&self, apart: f64) -> Vec<Tick> {
        let decades = || (0..14i32).map(|power| 10f64.powi(power));
        let between = decades().flat_map(|decade| [2.0 * decade, 5.0 * decade]);
        let label = |ns: f64| {
            let (unit_ns, unit) = match ns {
                ..1e3 => (1.0, "ns"),
                ..1e6 => (1e3, "µs"),
                ..1e9 => (1e6, "ms"),
                _ => (1e9, "s"),
            };
            format!("{} {unit}", number::trimmed(ns / unit_ns, 3))
        };
        if self.is_log {
            self.spread(decades().chain(between), apart, label)
        } else {
            self.time_ticks(apart)
        }
    }

    /// As many ticks have room that stand so far apart.
    fn room(&self, apart: f64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 2 and 10"
        )]
        let count = ((self.end - self.start).abs() / apart).clamp(2.0, 10.0) as usize;
        count
    }

    /// Keeps the ticks that lie on the axis and not too near to an earlier one.
    fn spread(
        &self,
        values: impl Iterator<Item = f64>,
        apart: f64,
        label: impl Fn(f64) -> String,
    ) -> Vec<Tick> {
        let mut ticks: Vec<Tick> = Vec::new();
        for value in values.filter(|value| self.has(*value)) {
            let at = self.at(value);
            if ticks.iter().all(|tick| (tick.at - at).abs() >= apart) {
                ticks.push(Tick { at, value, label: label(value) });
            }
        }
        ticks.sort_by(|a, b| a.value.total_cmp(&b.value));
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn overheads_up_to_a_factor_of_twenty_share_a_logarithmic_axis() {
        let axis = Axis::over([1.0, 1.02, 8.0, 20.0].into_iter(), 0.0, 500.0);
        assert!(axis.is_log);
        assert_eq!(labels(axis.ratio_ticks(48.0)), ["+0 %", "2×", "3×", "5×", "10×", "20×"]);
    }

    #[test]
    fn small_overheads_have_percent_ticks_around_zero() {
        let axis = Axis::over([0.98, 1.12].into_iter(), 0.0, 400.0);
        assert!(!axis.is_log);
        let expected = ["−2.5 %", "+0 %", "+2.5 %", "+5 %", "+7.5 %", "+10 %", "+12.5 %"];
        assert_eq!(labels(axis.ratio_ticks(60.0)), expected);
    }

    #[test]
    fn factors_that_are_near_each_other_have_labels_of_their_own() {
        for (low, high) in [(3.9, 4.05), (7.1, 8.2), (2.0, 2.1)] {
            let mut labels =
                labels(Axis::over([low, high].into_iter(), 0.0, 90.0).ratio_ticks(24.0));
            let count = labels.len();
            assert!(count > 1, "{labels:?}");
            labels.dedup();
            assert_eq!(labels.len(), count, "{labels:?}");
        }
    }

    #[test]
    fn no_values_and_equal_values_still_make_an_axis() {
        for values in [vec![], vec![1.0], vec![f64::NAN, -3.0, 5.0], vec![1e-300, 1e300]] {
            let axis = Axis::over(values.iter().copied(), 10.0, 90.0);
            assert!((10.0..=90.0).contains(&axis.at(5.0)), "{values:?}");
            assert!(axis.ratio_ticks(40.0).len() < 30 && axis.time_ticks(40.0).len() < 30);
        }
    }

    #[test]
    fn times_share_one_unit() {
        let axis = Axis::from_zero(192e9, 0.0, 600.0);
        let labels = labels(axis.time_ticks(70.0));
        assert!(labels.iter().all(|label| label.ends_with(" s")), "{labels:?}");
        assert!(labels.contains(&String::from("100 s")), "{labels:?}");
    }
}
