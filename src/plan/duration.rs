//! Durations as people type them: `90s`, `2m`, `1h30m`, `250ms`.

use crate::fault::Fault;
use std::time::Duration;

/// The units, largest first, with their length in nanoseconds.
const UNITS: [(&str, u128); 4] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];

/// The longest duration that is believed: thirty days.
const LIMIT_NS: u128 = 30 * 24 * 3_600_000_000_000;

/// Reads numbers with units, larger units first; only whole numbers, but `1.5h` is allowed.
///
/// # Errors
/// The user's: not a duration, zero, or longer than thirty days.
///
/// ```
/// use std::time::Duration;
/// use surtax::plan::duration;
/// assert_eq!(duration::parse("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(duration::parse("1.5h"), Ok(Duration::from_secs(5400)));
/// assert!(duration::parse("90").is_err());
/// ```
pub fn parse(text: &str) -> Result<Duration, Fault> {
    let typed = text.trim();
    let total = nanoseconds(typed).ok_or_else(|| {
        let hint = match typed.parse::<u32>() {
            Ok(seconds) => format!("add a unit, as in `{}s`", seconds.max(1)),
            Err(_) => String::from("write it as in `90s`, `2m`, `1h30m` or `250ms`"),
        };
        Fault::user(format!("`{}` is not a duration", text.escape_debug())).hint(hint)
    })?;
    match u64::try_from(total) {
        Ok(0) => Err(Fault::user(format!("the duration `{typed}` is zero"))),
        Ok(nanoseconds) if total <= LIMIT_NS => Ok(Duration::from_nanos(nanoseconds)),
        _ => Err(Fault::user(format!("the duration `{typed}` is longer than 30 days"))),
    }
}

fn nanoseconds(text: &str) -> Option<u128> {
    let mut rest = text;
    let mut total: u128 = 0;
    let mut previous = u128::MAX;
    while !rest.is_empty() || previous == u128::MAX {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        if length >= previous {
            return None;
        }
        total = total.checked_add(scaled(number, length)?)?;
        (previous, rest) = (length, tail);
    }
    Some(total)
}

/// `number` times `length`, for a number with at most six decimals.
fn scaled(number: &str, length: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || whole.len() > 12 || fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let millionths: u128 = format!("{whole}{fraction:0<6}").parse().ok()?;
    Some(millionths * length / 1_000_000)
}

/// Word for no time between two looks: nobody looks.
const OFF: &str = "off";

/// Reads the time between two looks: a duration, or `off`, which is none.
///
/// # Errors
/// The user's, as [`parse`]'s.
pub fn parse_interval(text: &str) -> Result<Duration, Fault> {
    if text == OFF { Ok(Duration::ZERO) } else { parse(text) }
}

/// Writes such a time so that [`parse_interval`] reads the same again.
#[must_use]
pub fn interval_text(interval: Duration) -> String {
    if interval.is_zero() { OFF.into() } else { text(interval) }
}

/// Writes a duration so that [`parse`] reads the same again, down to a millisecond.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(surtax::plan::duration::text(Duration::from_millis(5_400_250)), "1h30m250ms");
/// ```
#[must_use]
pub fn text(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (unit, length) in UNITS {
        if rest >= length {
            text += &format!("{}{unit}", rest / length);
            rest %= length;
        }
    }
    if text.is_empty() { String::from("0s") } else { text }
}

/// Writes a duration for people who wait: two units, no decimals.
///
/// ```
/// use std::time::Duration;
/// use surtax::plan::duration::rough;
/// assert_eq!(rough(Duration::from_secs(5400)), "1 h 30 min");
/// assert_eq!(rough(Duration::from_millis(75_400)), "1 min 15 s");
/// ```
#[must_use]
pub fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_millis() >= 500);
    match seconds {
        0 if duration.is_zero() => String::from("0 s"),
        0 => String::from("less than 1 s"),
        1..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_typed() {
        for (text, milliseconds) in [
            ("90s", 90_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("0.25s", 250),
            ("1m500ms", 60_500),
            (" 1s ", 1_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "s", "m2", "-1s", "1s1h", "1m1m", "1d", "1S", "1 s", "1..5s", ".5s", "1.s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("0s").unwrap_err().message.contains("zero"));
        assert!(parse("721h").unwrap_err().message.contains("30 days"));
        assert!(parse("999999999999h").unwrap_err().message.contains("30 days"));
    }

    #[test]
    fn a_bare_number_is_answered_with_a_unit() {
        assert_eq!(parse("90").unwrap_err().hint.as_deref(), Some("add a unit, as in `90s`"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(milliseconds in 1u64..2_592_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse(&text(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,20}") {
            let _ = parse(&text);
        }
    }
}
