//! Says when, in UTC: nanoseconds since 1970 as RFC 3339.

use chrono::{DateTime, SecondsFormat, Utc};
use surtax_instrument::quantity::Nanoseconds;

/// A point in time as `2026-11-21T22:02:30Z`.
///
/// ```
/// use surtax_instrument::quantity::Nanoseconds;
/// let leap_day = Nanoseconds(1_709_164_800_000_000_000);
/// assert_eq!(surtax::ledger::calendar::rfc3339(leap_day), "2024-02-29T00:00:00Z");
/// ```
#[must_use]
pub fn rfc3339(at: Nanoseconds) -> String {
    utc(at).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The same for file names, which sort by time: `20261121T220230Z`.
#[must_use]
pub fn compact(at: Nanoseconds) -> String {
    utc(at).format("%Y%m%dT%H%M%SZ").to_string()
}

/// A time of the Gregorian calendar; every number of nanoseconds has one.
fn utc(at: Nanoseconds) -> DateTime<Utc> {
    let seconds = i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_come_out_as_their_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX / 1_000_000_000, "2554-07-21T23:34:33Z"),
        ] {
            assert_eq!(rfc3339(Nanoseconds(seconds * 1_000_000_000)), text);
        }
    }

    #[test]
    fn names_of_files_have_no_colon() {
        assert_eq!(compact(Nanoseconds(0)), "19700101T000000Z");
    }
}
