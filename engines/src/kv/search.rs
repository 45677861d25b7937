//! The highest rate at which a quantile of the latency stays below a limit.
//!
//! A closed loop says what the server does at all. Between nothing and that, the rate is halved
//! towards the limit, each time by a schedule of its own, and what is found is measured once more:
//! a rate that kept the limit only by chance is lowered until it keeps it again. All rates that
//! were tried are told.

use super::client_options::Limit;
use super::measure::Measured;
use super::record::Record;
use crate::Refused;
use surtax_instrument::quantity::{Nanoseconds, whole};

/// Number of times that the span is halved.
const HALVINGS: u32 = 8;

/// Most times that what was found is measured again, and the factor that lowers the rate each time.
const CONFIRMATIONS: u32 = 12;
const LOWER: f64 = 0.85;

/// Largest share of what was due that may be missing.
const SHORTFALL: f64 = 0.01;

/// Result of a search.
pub(super) struct SearchResult {
    /// At the rate that was found.
    pub(super) measured: Measured,
    pub(super) rate: f64,
    /// Rate of a closed loop, in answers per second.
    pub(super) peak: f64,
    /// Every rate that was tried, and the quantile there; 0 where too few answers came to tell it.
    pub(super) tried: Vec<(u64, u64)>,
}

/// Searches; `measure` measures at a rate, or in a closed loop without one.
///
/// # Errors
/// Those of a measurement; or no rate keeps the limit.
pub(super) fn run(
    limit: Limit,
    mut measure: impl FnMut(Option<f64>) -> Result<Measured, Refused>,
) -> Result<SearchResult, Refused> {
    let peak = measure(None)?.record.rate();
    let mut tried = Vec::new();
    let (mut low, mut high) = (0.0, peak);
    let mut try_at = |rate: f64| {
        let measured = measure(Some(rate))?;
        let quantile = quantile(&measured.record, limit);
        tried.push((whole(rate), quantile.map_or(0, |it| it.0)));
        let is_kept = quantile.is_some_and(|it| it <= limit.most.into())
            && measured.record.shortfall() <= SHORTFALL;
        Ok::<_, Refused>((measured, is_kept))
    };
    for _ in 0..HALVINGS {
        let rate = (low + high) / 2.0;
        if try_at(rate)?.1 { low = rate } else { high = rate }
    }
    let mut rate = low;
    for _ in 0..CONFIRMATIONS {
        if rate < 1.0 {
            break;
        }
        let (measured, is_kept) = try_at(rate)?;
        if is_kept {
            return Ok(SearchResult { measured, rate, peak, tried });
        }
        rate *= LOWER;
    }
    let (name, most) = (limit.name.replace('_', "."), Nanoseconds::from(limit.most));
    let lowest = tried.iter().map(|(rate, _)| *rate).min().unwrap_or(0);
    Err(Refused::machine(format!(
        "no rate from {lowest} to {peak:.0} per second keeps the {name} of its latency below {most}"
    ))
    .hint("allow more (`--search`), or measure each rate for longer (`--time`)"))
}

fn quantile(record: &Record, limit: Limit) -> Option<Nanoseconds> {
    let all = record.all();
    let is_told = all.supports(limit.share);
    all.quantile(limit.share).filter(|_| is_told).map(Nanoseconds)
}
