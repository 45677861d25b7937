//! Histograms as tools and engines print them: bins of latencies with their counts.

use super::definition::Rule;
use super::extract::Printed;
use serde_json::Value;
use surtax_statistics::Histogram;

/// More bins than any tool has; what claims more is not believed.
const BINS_MAX: usize = 1 << 16;

/// Reads the bins that a rule names: a list of `[time, count]`, or an object of counts by time.
///
/// # Errors
/// Why it is none, or not plausible.
pub fn read(rule: &Rule, printed: &Printed<'_>) -> Result<Histogram, String> {
    let value = rule.extract.value(printed)?;
    let bins = match &value {
        Value::Array(list) if list.len() <= BINS_MAX => list.iter().map(pair).collect(),
        Value::Object(bins) if bins.len() <= BINS_MAX => {
            bins.iter().map(|(time, count)| Some((time.parse().ok()?, count.as_u64()?))).collect()
        }
        _ => None,
    };
    let bins: Vec<(f64, u64)> =
        bins.ok_or_else(|| format!("`{}` finds no list of times with counts", rule.extract))?;
    let mut histogram = Histogram::new();
    for (time, count) in bins.into_iter().filter(|(_, count)| *count > 0) {
        if !rule.limits.admit(time) {
            let (name, wanted) = (&rule.name, rule.limits.words());
            return Err(format!("`{name}` holds {time}, and {wanted} is plausible"));
        }
        let time_ns = time * rule.unit.factor;
        if time_ns < 1.0 {
            let (name, unit) = (&rule.name, rule.unit.printed);
            return Err(format!("`{name}` holds {time} {unit}, and no time is below a nanosecond"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above, and below what is recorded at most"
        )]
        let time_ns = time_ns as u64;
        let name = &rule.name;
        histogram.record_many(time_ns, count).map_err(|why| format!("`{name}`: {why}"))?;
    }
    if histogram.count() == 0 {
        return Err(format!("`{}` holds no time at all", rule.name));
    }
    Ok(histogram)
}

fn pair(bin: &Value) -> Option<(f64, u64)> {
    match bin.as_array()?.as_slice() {
        [time, count] => Some((time.as_f64()?, count.as_u64()?)),
        _ => None,
    }
}
