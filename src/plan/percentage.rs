//! Percentages as people type them: `3%`, `0.5%`.

use crate::fault::Fault;

/// The largest percentage, in millionths.
pub(crate) const LARGEST_PPM: u32 = 500_000;

/// Reads a percentage into parts per million: `3%` is 30,000.
///
/// # Errors
/// The user's: no percentage, zero, above 50 %, or with more than four decimals.
///
/// ```
/// use surtax::plan::percentage;
///
/// assert_eq!(percentage::parse("3%"), Ok(30_000));
/// assert_eq!(percentage::parse("0.5%"), Ok(5_000));
/// assert!(percentage::parse("3").is_err());
/// ```
pub fn parse(text: &str) -> Result<u32, Fault> {
    let refuse = |hint: &str| {
        let shown = text.escape_debug();
        Fault::user(format!("`{shown}` is not a percentage")).hint(hint)
    };
    let typed = text.trim();
    let Some(number) = typed.strip_suffix('%') else {
        return Err(refuse(&format!("write a percentage, as in `{}`", "3%")));
    };
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
        return Err(refuse("write a percentage with at most four decimals, as in `0.5%`"));
    }
    match format!("{whole}{fraction:0<4}").parse() {
        Ok(ppm @ 1..=LARGEST_PPM) => Ok(ppm),
        _ => Err(Fault::user(format!("the percentage `{typed}` is out of range"))
            .hint("choose more than 0% and at most 50%")),
    }
}

/// Writes a percentage so that [`parse`] reads the same again.
///
/// ```
/// assert_eq!(surtax::plan::percentage::text(5_000), "0.5%");
/// ```
#[must_use]
pub fn text(ppm: u32) -> String {
    let fraction = format!("{:04}", ppm % 10_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{}%", ppm / 10_000),
        fraction => format!("{}.{fraction}%", ppm / 10_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_share_of_a_time_is_refused() {
        for text in ["", "%", "3", "-1%", "0%", "51%", "1e1%", "0.00001%", "three%", "３%"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_percentage_that_is_too_large_is_said_to_be_so_and_not_to_be_none() {
        for text in ["51%", "100%", "150.5%", "0%", "99999999999999999999%"] {
            let fault = parse(text).unwrap_err();
            let said = format!("the percentage `{text}` is out of range");
            assert_eq!((fault.message, fault.hint.is_some()), (said, true));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(ppm in 1u32..=LARGEST_PPM) {
            prop_assert_eq!(parse(&text(ppm)), Ok(ppm));
        }
    }
}
