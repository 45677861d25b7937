//! Impairments: what a longer, narrower or worse network does to the frames on their way to a
//! workload.
//!
//! It is done on this level's end of the workload's link, one way only: a round trip takes as much
//! longer as `delay=` says, and what the workload itself sends is as fast as ever. On links that
//! are made by surtax alone: who else makes one may have shaped it.

use crate::fault::Fault;
use crate::lab::{self, Shape};
use crate::layer::{LayerSpec, OptionSpec, Site, Unavailable, option};
use std::time::Duration;

/// The most that is believed: beyond it every protocol has given up.
const DELAY_MOST: Duration = Duration::from_secs(60);

/// The slowest link, in bits per second: a telephone's.
const RATE_LEAST: u64 = 8_000;

/// Options of an impaired link: delay, loss and rate.
pub(crate) const DELAY: OptionSpec = option("delay", &[]).help(
    "how much later every frame reaches the workload, as in `20ms` or `150us`: by the kernel's \
     netem on this level's end of the link (default: not at all)",
);
pub(crate) const LOSS: OptionSpec = option("loss", &[]).help(
    "the share of frames that are lost on their way to the workload, as in `1%` (default: none)",
);
pub(crate) const RATE: OptionSpec = option("rate", &[]).help(
    "how many bits of frames a second go to the workload at most, as in `100M` (default: no limit)",
);

/// Reads the impairment that a spec asks for; `None` where it asks for none. Texts of errors begin
/// without the name of the layer.
///
/// # Errors
/// The user's: a value that cannot be read, or a network whose link is not made here.
pub(crate) fn read(spec: &LayerSpec, links: &[&str]) -> Result<Option<Shape>, Fault> {
    let Some(key) = ["delay", "loss", "rate"].into_iter().find(|key| spec.option(key).is_some())
    else {
        return Ok(None);
    };
    if !spec.option("net").is_some_and(|word| links.contains(&word)) {
        let (kind, first) = (&spec.kind, links.first().copied().unwrap_or_default());
        return Err(Fault::user(format!(
            "`{key}=` is of a link that surtax makes, and there is none"
        ))
        .hint(format!("write `{kind}:net={first},{key}=…`")));
    }
    Ok(Some(Shape {
        delay: value(spec, "delay", delay, "delay from 1us to 60s", "20ms")?,
        loss: value(spec, "loss", loss, "share of frames below 100 %", "0.1%")?,
        rate: value(spec, "rate", rate, "number of bits a second from 8k up", "100M")?,
    }))
}

/// Reads the value of one option, which is to be `what`.
fn value<T>(
    spec: &LayerSpec,
    key: &str,
    read: fn(&str) -> Option<T>,
    what: &str,
    example: &str,
) -> Result<Option<T>, Fault> {
    let Some(text) = spec.option(key) else { return Ok(None) };
    let refuse = || {
        Fault::user(format!("`{key}={text}` is no {what}"))
            .hint(format!("write for example `{key}={example}`"))
    };
    read(text).map(Some).ok_or_else(refuse)
}

/// That this level can do it; looks, and loads nothing. Only in a guest of ours the module is
/// loaded first: that kernel is ours to change.
///
/// # Errors
/// There is no `tc`, or the kernel has no netem.
pub(crate) fn require(asked: Option<Shape>, site: &Site<'_>) -> Result<(), Unavailable> {
    if asked.is_none() {
        return Ok(());
    }
    let refuse = |why: &str, remedy: &str| Err(Unavailable::new(why, remedy));
    if lab::find("tc").is_none() {
        return refuse("`tc`, which shapes links, is not in `PATH`", "apt-get install iproute2");
    }
    if !lab::can_shape(site.level) {
        return refuse(
            "this kernel has no netem, which delays and loses frames",
            "use a kernel with `CONFIG_NET_SCH_NETEM`, as in a machine: \
             `qemu+runc:net=veth,delay=20ms`",
        );
    }
    Ok(())
}

fn delay(text: &str) -> Option<Duration> {
    let (number, unit) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let seconds = number.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0)? * unit;
    let delay = Duration::try_from_secs_f64(seconds).ok()?;
    // netem is told microseconds.
    let delay =
        Duration::from_micros(u64::try_from((delay + Duration::from_nanos(500)).as_micros()).ok()?);
    (!delay.is_zero() && delay <= DELAY_MOST).then_some(delay)
}

fn loss(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

fn rate(text: &str) -> Option<u64> {
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .unwrap_or((text, 1));
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bits| *bits >= RATE_LEAST)
}

#[cfg(test)]
mod tests {
    use crate::layer::impairment::*;

    fn asked(options: &[(&str, &str)]) -> Result<Option<Shape>, Fault> {
        read(&LayerSpec::of("runc", options), &["veth"])
    }

    #[test]
    fn a_link_is_shaped_by_delay_loss_and_rate() {
        assert_eq!(asked(&[("net", "veth")]), Ok(None));
        let options = [("net", "veth"), ("delay", "1.5ms"), ("loss", "0.1%"), ("rate", "100M")];
        let shape = asked(&options).unwrap().unwrap();
        assert_eq!(shape.delay, Some(Duration::from_micros(1500)));
        assert_eq!(shape.rate, Some(100_000_000));
        assert!((shape.loss.unwrap() - 0.001).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_shape_or_has_no_link_is_refused_with_what_to_write() {
        for (key, value) in [
            ("delay", "20"),
            ("delay", "61s"),
            ("delay", "0ms"),
            ("loss", "1"),
            ("loss", "100%"),
            ("loss", "NaN%"),
            ("rate", "1k"),
            ("rate", "fast"),
        ] {
            let fault = asked(&[("net", "veth"), (key, value)]).unwrap_err();
            assert!(fault.message.contains(&format!("`{key}={value}` is no ")), "{fault}");
            assert!(fault.hint.is_some());
        }
        let fault = asked(&[("net", "host"), ("delay", "1ms")]).unwrap_err();
        assert_eq!(fault.hint.unwrap(), "write `runc:net=veth,delay=…`");
    }
}
