//! Says when, in UTC: nanoseconds since 1970 as RFC 3339.

use surtax_instrument::quantity::Nanoseconds;

const SECONDS_PER_DAY: u64 = 86_400;

/// A point in time as `2026-11-21T22:02:30Z`.
///
/// ```
/// use surtax_instrument::quantity::Nanoseconds;
/// let leap_day = Nanoseconds(1_709_164_800_000_000_000);
/// assert_eq!(surtax::ledger::calendar::rfc3339(leap_day), "2024-02-29T00:00:00Z");
/// ```
#[must_use]
pub fn rfc3339(at: Nanoseconds) -> String {
    let seconds = at.0 / 1_000_000_000;
    let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
    let rest = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same for file names, which sort by time: `20261121T220230Z`.
#[must_use]
pub fn compact(at: Nanoseconds) -> String {
    rfc3339(at).chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// Year, month and day of a count of days since 1970-01-01, Gregorian.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
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
        ] {
            assert_eq!(rfc3339(Nanoseconds(seconds * 1_000_000_000)), text);
        }
    }

    #[test]
    fn names_of_files_have_no_colon() {
        assert_eq!(compact(Nanoseconds(0)), "19700101T000000Z");
    }
}
