//! Writes numbers for people: times, amounts, overheads, and what a tick of an axis says.
//!
//! Durations and bytes are those of `instrument/src/quantity.rs`. A number that is not finite is
//! shown as the dash of a gap, never as zero.

use crate::finding::Interval;
use std::fmt::Display;
use surtax_instrument::quantity::{Bytes, Nanoseconds};

/// Ratio from which on a cost is said as a factor and not in percent.
pub const FACTOR_FROM: f64 = 1.5;

/// Ratio from which on a cost with its interval, or one that is typed, is no longer in percent.
pub(crate) const PERCENT_UNTIL: f64 = 3.0;

/// Sign that stands where there is no number.
pub const GAP: &str = "—";

/// A duration: `1.234 s`.
pub fn time(ns: f64) -> String {
    whole(ns).map_or_else(|| GAP.to_owned(), |ns| Nanoseconds(ns).to_string())
}

/// Returns the price of one operation, in three digits however little it is: `0.887 ns`, `44.9 ns`,
/// `3.92 µs`.
pub fn price(ns: f64) -> String {
    in_three_digits(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// Returns an energy that is given in microjoules: `12.3 J`, `887 mJ`, `−1.20 J`.
pub fn energy(microjoules: f64) -> String {
    if microjoules < 0.0 {
        return format!("−{}", energy(-microjoules));
    }
    in_three_digits(microjoules, &[(1e12, "MJ"), (1e9, "kJ"), (1e6, "J"), (1e3, "mJ"), (1.0, "µJ")])
}

/// A number in three digits, by the first of these units that it is not below; by the last where
/// it is below all.
fn in_three_digits(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return GAP.to_owned();
    }
    // What would be rounded up to a thousand has the next unit already.
    let unit = units.iter().find(|(from, _)| value.abs() >= from * 0.9995).or(units.last());
    let (by, unit) = unit.copied().unwrap_or((1.0, ""));
    let number = value / by;
    let decimals = match number.abs() {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        _ => 3,
    };
    format!("{number:.decimals$} {unit}")
}

/// An amount in its metric's unit.
pub fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value),
        "bytes" => whole(value).map_or_else(|| GAP.to_owned(), |bytes| Bytes(bytes).to_string()),
        _ if !value.is_finite() => GAP.to_owned(),
        "uJ" => energy(value),
        "bytes/s" => format!("{}/s", amount(value, "bytes")),
        "1/s" => format!("{}/s", scaled(value)),
        "bit/s" => format!("{}bit/s", scaled(value)),
        "count" => scaled(value).trim_end().to_owned(),
        _ if value.abs() >= HUGE => format!("{value:.3e} {unit}").trim_end().to_owned(),
        "ratio" => format!("{} %", trimmed(value * 100.0, 2)),
        _ => format!("{value} {unit}").trim_end().to_owned(),
    }
}

/// The same with the prefix of a rate as a word: `17.14 thousand per second`.
pub fn spelled(value: f64, unit: &str) -> String {
    const WORDS: [(&str, &str); 4] =
        [("k/s", "thousand"), ("M/s", "million"), ("G/s", "billion"), ("T/s", "trillion")];
    let text = amount(value, unit);
    if unit != "1/s" || text == GAP {
        return text;
    }
    let word = WORDS.iter().find_map(|(ending, word)| Some((text.strip_suffix(ending)?, word)));
    match word {
        Some((number, word)) => format!("{number}{word} per second"),
        None => text.replace("/s", "per second"),
    }
}

/// From here on a number is told by its power of ten.
const HUGE: f64 = 1e15;

/// Four digits and a prefix: `12.34 M`, `567.8 `, `0.012 `. Its caller writes the unit behind it.
fn scaled(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let size = value.abs();
    if size >= HUGE {
        return format!("{value:.3e} ");
    }
    // What would be rounded up to a thousand has the next prefix already.
    let prefix = PREFIXES.into_iter().find(|(from, _)| size >= from * 0.99995);
    let (number, prefix) = prefix.map_or((value, ""), |(by, prefix)| (value / by, prefix));
    let decimals = match number.abs() {
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    format!("{} {prefix}", trimmed(number, decimals))
}

/// Returns the duration of a run as text: `48.2 s`, `12 min 5 s`, `3 h 20 min`.
pub fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..100 => Nanoseconds(ns / 100_000_000 * 100_000_000).seconds().to_string() + " s",
        100..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// About how long something will take: `48 s`, `12 min`, `3 h 20 min`.
pub fn rough_span(ns: f64) -> String {
    let seconds = ns / 1e9;
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ => whole(ns).map_or_else(|| GAP.to_owned(), span),
    }
}

/// An overhead with its interval: `+12 % [+9, +15]`, or from a factor of three on
/// `7.9× [7.6, 8.2]`.
pub fn overhead(interval: &Interval) -> String {
    let Interval { ratio, low, high, .. } = *interval;
    if !(ratio.is_finite() && low.is_finite() && high.is_finite()) {
        return GAP.to_owned();
    }
    if ratio >= PERCENT_UNTIL {
        return format!("{}× [{}, {}]", factor(ratio), factor(low), factor(high));
    }
    let decimals = decimals(low, high);
    let signed = |ratio: f64| signed_percent(ratio, decimals);
    format!("{} % [{}, {}]", signed(ratio), signed(low), signed(high))
}

/// An interval of ratios: `−12 to +8 %`, or where it reaches to one and a half `1.44–1.53×`.
pub fn range(low: f64, high: f64) -> String {
    if !(low.is_finite() && high.is_finite()) {
        return GAP.to_owned();
    }
    if high >= FACTOR_FROM {
        // As exact as the same interval beside its ratio.
        let shown = |ratio: f64| match high {
            PERCENT_UNTIL.. => factor(ratio),
            _ => format!("{ratio:.2}"),
        };
        return format!("{}–{}×", shown(low), shown(high));
    }
    let decimals = decimals(low, high);
    format!("{} to {} %", signed_percent(low, decimals), signed_percent(high, decimals))
}

/// A ratio without an interval: `about +42 %`, `about 3×`.
pub fn rough(ratio: f64) -> String {
    format!("about {}", short(ratio))
}

/// The same where what stands beside it says how exact it is: `+42 %`, `3×`.
pub fn short(ratio: f64) -> String {
    match ratio {
        FACTOR_FROM.. => format!("{}×", factor(ratio)),
        _ => format!("{} %", signed_percent(ratio, 0)),
    }
}

/// A share without a sign: `12 %`, `0.4 %`; with one decimal below two.
pub fn percent(share: f64) -> String {
    let percent = (share * 100.0).abs();
    let decimals = usize::from(percent < 2.0);
    format!("{} %", trimmed(percent, decimals))
}

/// A share without a sign, as exact as an interval from `low` to `high` allows.
pub fn percent_within(share: f64, low: f64, high: f64) -> String {
    format!("{:.*} %", decimals(low, high), (share * 100.0).abs())
}

/// A chance under equality: `p = 0.078`, `p < 0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { String::from("p < 0.001") } else { format!("p = {}", trimmed(p, 3)) }
}

/// Returns the label of a tick on an axis of ratios: `−50 %`, `+0 %`, `+2.5 %`, `2×`, `10×`.
pub fn ratio_tick(ratio: f64) -> String {
    if ratio >= 2.0 {
        return format!("{}×", trimmed(ratio, 1));
    }
    let percent = (ratio - 1.0) * 100.0;
    let decimals = if (percent - percent.round()).abs() < 0.05 { 0 } else { 1 };
    format!("{} %", signed_percent(ratio, decimals))
}

/// A number without the zeros that end its fraction.
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A count of things: `1 trial`, `12 trials`.
pub fn count(number: impl Display, one: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {one}{ending}")
}

/// Decimals of a percentage that are not lost in its interval.
fn decimals(low: f64, high: f64) -> usize {
    usize::from(high - low < 0.02)
}

fn signed_percent(ratio: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", ((ratio - 1.0) * 100.0).abs());
    let is_zero = !text.contains(|digit: char| ('1'..='9').contains(&digit));
    if ratio < 1.0 && !is_zero { format!("−{text}") } else { format!("+{text}") }
}

fn factor(ratio: f64) -> String {
    match ratio {
        ..10.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

fn whole(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite and not negative; beyond 2^64 ns the cast saturates"
    )]
    (value.is_finite() && value >= 0.0).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use crate::finding::number::*;

    fn interval(ratio: f64, low: f64, high: f64) -> Interval {
        Interval { ratio, low, high, confidence: 0.95 }
    }

    #[test]
    fn overheads_read_as_percent_and_from_three_on_as_factors() {
        assert_eq!(overhead(&interval(1.12, 1.09, 1.15)), "+12 % [+9, +15]");
        assert_eq!(overhead(&interval(1.004, 0.998, 1.011)), "+0.4 % [−0.2, +1.1]");
        assert_eq!(overhead(&interval(0.996, 0.95, 1.05)), "+0 % [−5, +5]");
        assert_eq!(overhead(&interval(7.94, 7.6, 8.2)), "7.9× [7.6, 8.2]");
        assert_eq!(overhead(&interval(21.3, 19.9, 22.0)), "21× [20, 22]");
    }

    #[test]
    fn a_number_that_is_none_is_a_gap_and_not_a_zero() {
        assert_eq!(time(f64::NAN), GAP);
        assert_eq!(amount(f64::INFINITY, "bytes"), GAP);
        assert_eq!(overhead(&interval(1.0, f64::NEG_INFINITY, 2.0)), GAP);
    }

    #[test]
    fn rates_and_counts_have_four_digits_and_a_prefix() {
        let shown = |value, unit| amount(value, unit);
        assert_eq!(shown(12_345_678.0, "1/s"), "12.35 M/s");
        assert_eq!(shown(999.96, "1/s"), "1 k/s");
        assert_eq!(shown(567.84, "1/s"), "567.8 /s");
        assert_eq!(shown(0.0123, "count"), "0.012");
        assert_eq!(shown(9.4e9, "bit/s"), "9.4 Gbit/s");
        assert_eq!(shown(1_048_576.0, "bytes/s"), "1.0 MiB/s");
        assert_eq!(shown(0.125, "ratio"), "12.5 %");
        assert_eq!(shown(f64::NAN, "1/s"), GAP);
        assert_eq!(spelled(12_345_678.0, "1/s"), "12.35 million per second");
        assert_eq!(spelled(567.84, "1/s"), "567.8 per second");
        assert_eq!(spelled(f64::NAN, "1/s"), GAP);
        assert_eq!(spelled(1e6, "ns"), shown(1e6, "ns"));
    }

    #[test]
    fn a_price_has_three_digits_however_little_it_is() {
        let prices = [0.0312, 0.8868, 9.999, 44.858, 999.6, 3_918.9, 1_769_971.0, 2.5e9];
        let shown = prices.map(price);
        let expected = [
            "0.031 ns", "0.887 ns", "10.0 ns", "44.9 ns", "1.00 µs", "3.92 µs", "1.77 ms", "2.50 s",
        ];
        assert_eq!(shown, expected);
        assert_eq!(price(f64::NAN), GAP);
    }

    #[test]
    fn ticks_are_percent_below_a_factor_of_two() {
        let ticks: Vec<_> = [0.5, 1.0, 1.025, 1.1, 2.0, 10.0].map(ratio_tick).into();
        assert_eq!(ticks, ["−50 %", "+0 %", "+2.5 %", "+10 %", "2×", "10×"]);
    }

    #[test]
    fn a_run_is_as_long_as_a_person_would_say() {
        assert_eq!(span(48_260_000_000), "48.2 s");
        assert_eq!(span(725_000_000_000), "12 min 5 s");
        assert_eq!(span(12_000_000_000_000), "3 h 20 min");
        assert_eq!([48.26e9, 725e9, 1.2e13].map(rough_span), ["48 s", "12 min", "3 h 20 min"]);
    }
}
