//! Planted causes: a command that truly asks its kernel for more of one thing, and whether the
//! explanation names that first, and its size.
//!
//! In a layer that shares this machine's kernel, both stacks are that layer, and only one of them
//! asks: what it takes more is what was planted. In one with a kernel of its own, both ask, and it
//! is what the layer makes of it that costs: two more stacks, which do not ask, show what else the
//! layer costs. Prices are those of a price list that is measured anew for every few commands, by
//! another program than the one that asks.

use super::bench::{draft, toil};
use super::{Bar, Bench, Figure, Part, Proof, Size, binomial};
use crate::driver::{self, registered};
use crate::fault::Fault;
use crate::finding::{ArmFindings, Findings, WhyFindings};
use crate::ledger::PriceSample;
use crate::plan::{Arm, Defaults, Draft};
use serde::{Deserialize, Serialize};
use surtax_statistics::{Confidence, critical_value};

/// Layers in which it is planted, each with its tool, and whether it has a kernel of its own.
const LAYERS: [(&str, Option<&str>, bool); 4] = [
    ("native", None, false),
    ("runc", Some("runc"), false),
    ("gvisor", Some("runsc"), true),
    ("qemu:accel=tcg", Some("qemu-system-x86_64"), true),
];

/// Causes that a command can be told to ask for, each by the variable that says how often.
const CAUSES: [(&str, &str); 6] = [
    ("SURTAX_TOIL_CALLS", "system_call"),
    ("SURTAX_TOIL_FAULTS", "page_fault_minor"),
    ("SURTAX_TOIL_OPENS", "file_open"),
    ("SURTAX_TOIL_READS", "file_read"),
    ("SURTAX_TOIL_SYNCS", "file_fsync"),
    ("SURTAX_TOIL_SENDS", "udp_send"),
];

/// Time that the planted cause takes, in nanoseconds: where it is a small part of a short run, and
/// where a kernel of its own is started.
const PLANTED_NS: (f64, f64) = (150e6, 400e6);

/// Commands that are explained by one price list.
const PER_LIST: u32 = 12;

/// Blocks of a price list, and of a run that is explained.
const BLOCKS: (u32, u32) = (9, 6);

const RATE: f64 = 0.05;

pub(super) const PROOF: Proof = Proof {
    name: "why",
    summary: "a command that asks its kernel for more of one thing: is that named first, and its \
              size",
    parts: |size| {
        let of = |(layer, _, is_own): (&str, Option<&str>, bool)| {
            let run_ms = if is_own { 20_000 } else { 2_000 };
            Part::alone(format!("why/{layer}"), per_layer(size), run_ms)
        };
        LAYERS.map(of).into()
    },
    prove,
};

fn per_layer(size: Size) -> u32 {
    size.pick(2, 200)
}

/// A cause that was planted, and what was said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Planted {
    layer: String,
    cause: String,
    /// The cause that was named first.
    first: String,
    /// Time that it was said to take, and half of its interval.
    said_ns: f64,
    said_half_ns: f64,
    /// Time that it truly took, and how well that is known.
    truth_ns: f64,
    truth_half_ns: f64,
    /// Upper end of what was said to be unexplained, as a share of what was measured.
    unexplained_high: f64,
}

impl Planted {
    fn is_outside(&self) -> bool {
        let half = self.said_half_ns.hypot(self.truth_half_ns);
        let distance = (self.said_ns - self.truth_ns).abs();
        distance > half || distance.is_nan()
    }
}

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    for (layer, tool, is_own) in LAYERS {
        let count = per_layer(size);
        let part = format!("why/{layer}");
        if !bench.takes(&part, count) {
            continue;
        }
        if tool.is_some_and(|tool| !is_installed(tool)) {
            (0..count).try_for_each(|_| bench.told())?;
            continue;
        }
        let mut found = Vec::new();
        let planted = plant_all(bench, (layer, is_own), count, &mut found);
        figures.extend(lines(layer, &found));
        planted?;
    }
    Ok(())
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(tool).is_file())
}

fn plant_all(
    bench: &Bench<'_>,
    (layer, is_own): (&str, bool),
    count: u32,
    found: &mut Vec<Planted>,
) -> Result<(), Fault> {
    let mut list: Option<(u32, Vec<PriceSample>)> = None;
    for number in bench.units(count) {
        let (variable, cause) = CAUSES[(number as usize) % CAUSES.len()];
        let plant = || {
            let turn = number / PER_LIST;
            if list.as_ref().is_none_or(|(of, _)| *of != turn) {
                list = Some((turn, prices(bench, layer, is_own, number.into())?));
            }
            let list = list.as_ref().map_or(&[][..], |(_, list)| list);
            let seed = u64::from(number);
            match is_own {
                false => in_one_kernel(bench, layer, (variable, cause), list, seed),
                true => in_two_kernels(bench, layer, (variable, cause), list, seed),
            }
        };
        found.push(bench.unit(&format!("why/{layer}/{cause}/{number}"), 1, plant)?);
    }
    Ok(())
}

/// Measures a price list: of the layer as arm 2, and of what it is compared with as arm 0.
fn prices(
    bench: &Bench<'_>,
    layer: &str,
    is_own: bool,
    seed: u64,
) -> Result<Vec<PriceSample>, Fault> {
    let baseline = if is_own { "native" } else { layer };
    let arm = |index, text: &str| -> Result<Arm, Fault> {
        Ok(Arm { index, stack: driver::parse(text)?, beside: String::new() })
    };
    let mut arms = vec![arm(0, baseline)?];
    if is_own {
        arms.push(arm(2, layer)?);
    }
    let known = registered();
    let plan = draft(baseline, &[], BLOCKS.0, seed)?;
    let plan = plan.complete(&Defaults::of_no_machine(&known))?.plan;
    let list = Draft { seed: Some(seed), ..plan.pricing(&arms, BLOCKS.0)? };
    let mut samples = bench.read(list, |ledger| ledger.price_samples(&arms))?;
    if !is_own {
        let again = samples.iter().map(|it| PriceSample { arm: 2, ..it.clone() });
        let again: Vec<PriceSample> = again.collect();
        samples.extend(again);
    }
    Ok(samples)
}

/// The median of a price in the list.
fn price(list: &[PriceSample], arm: u32, name: &str) -> f64 {
    let of = list.iter().filter(|it| it.arm == arm && it.price == name);
    let mut values: Vec<f64> = of.map(|it| it.operation_ns).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Number of times to ask so that it takes about so long.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "about so often, and positive"
)]
fn count_of(wanted_ns: f64, price_ns: f64) -> u64 {
    (wanted_ns / price_ns).clamp(20.0, 5e6) as u64
}

/// Plants it in one of two stacks that are alike.
fn in_one_kernel(
    bench: &Bench<'_>,
    layer: &str,
    (variable, cause): (&str, &str),
    list: &[PriceSample],
    seed: u64,
) -> Result<Planted, Fault> {
    let count = count_of(PLANTED_NS.0, price(list, 2, cause));
    let stack = |count: u64| with(layer, variable, count);
    let draft = toil(draft(&stack(0), &[&stack(count)], BLOCKS.1, seed)?)?;
    let findings = explained(bench, draft, list)?;
    let why = why(&findings)?;
    let truth = (why.extra.ns, why.extra.half());
    planted(layer, cause, why, truth)
}

/// Plants it in both of two stacks, beside the same two without it.
fn in_two_kernels(
    bench: &Bench<'_>,
    layer: &str,
    (variable, cause): (&str, &str),
    list: &[PriceSample],
    seed: u64,
) -> Result<Planted, Fault> {
    let dearer = price(list, 2, cause) - price(list, 0, cause);
    let count = count_of(PLANTED_NS.1, dearer.max(price(list, 0, cause) / 2.0));
    let stacks =
        [with(layer, variable, count), with(layer, variable, 0), with("native", variable, 0)];
    let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let draft = toil(draft(&with("native", variable, count), &stacks, BLOCKS.1, seed)?)?;
    let findings = explained(bench, draft, list)?;
    let of = |arm: usize| findings.arms.get(arm).map(wall).unwrap_or((f64::NAN, 0.0));
    let (both, bare, bare_native, native) = (of(2), of(3), of(4), of(0));
    let truth_ns = (both.0 - bare.0) - (native.0 - bare_native.0);
    let half = [both, bare, bare_native, native].iter().map(|it| it.1.powi(2)).sum::<f64>().sqrt();
    planted(layer, cause, why(&findings)?, (truth_ns, half))
}

fn with(layer: &str, variable: &str, count: u64) -> String {
    let sign = if layer.contains(':') { ',' } else { ':' };
    format!("{layer}{sign}env.{variable}={count}")
}

fn explained(bench: &Bench<'_>, draft: Draft, list: &[PriceSample]) -> Result<Findings, Fault> {
    bench.explained(draft, |arm| {
        let of = if arm.index == 0 { 0 } else { 2 };
        let own = list.iter().filter(|it| it.arm == of);
        own.map(|it| PriceSample { arm: arm.index, ..it.clone() }).collect()
    })
}

/// The mean of an arm's wall times, and half of its interval.
fn wall(arm: &ArmFindings) -> (f64, f64) {
    let counted = arm.trials.iter().filter(|trial| trial.is_counted());
    let times: Vec<f64> = counted.filter_map(|trial| Some(trial.wall_ns? as f64)).collect();
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let freedom = u32::try_from(times.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let error = (squares / f64::from(freedom) / count).sqrt();
    (mean, critical_value(freedom, Confidence::P95) * error)
}

fn why(findings: &Findings) -> Result<&WhyFindings, Fault> {
    let arm = findings.arms.get(2);
    arm.and_then(|arm| arm.why.as_ref()).ok_or_else(|| {
        let because = arm.map_or("it is not there", |arm| arm.because.as_str());
        Fault::machine(format!("a stack with a planted cause is not explained: {because}"))
    })
}

fn planted(
    layer: &str,
    cause: &str,
    why: &WhyFindings,
    (truth_ns, truth_half_ns): (f64, f64),
) -> Result<Planted, Fault> {
    let found = why.causes.iter().find(|it| it.cause == cause);
    let first = why.causes.first().map_or_else(String::new, |it| it.cause.clone());
    Ok(Planted {
        layer: layer.into(),
        cause: cause.into(),
        first,
        said_ns: found.map_or(0.0, |it| it.extra.ns),
        said_half_ns: found.map_or(0.0, |it| it.extra.half()),
        truth_ns,
        truth_half_ns,
        unexplained_high: why.unexplained.high_ns / why.extra.ns.abs(),
    })
}

fn lines(layer: &str, found: &[Planted]) -> Vec<Figure> {
    let counted = |is: &dyn Fn(&Planted) -> bool| {
        u32::try_from(found.iter().filter(|it| is(it)).count()).unwrap_or(u32::MAX)
    };
    let tried = counted(&|_| true);
    if tried == 0 {
        return Vec::new();
    }
    let most = binomial::at_most(tried, RATE);
    let because = "5 % exceed it once in a thousand campaigns";
    let mut all = vec![
        Figure::new(layer, [tried, counted(&|it| it.first != it.cause)], "not named first")
            .bar(Bar::AtMost(most), because),
        Figure::new(layer, [tried, counted(&Planted::is_outside)], "of another size")
            .bar(Bar::AtMost(most), because),
        Figure::new(layer, [tried, counted(&|it| it.unexplained_high < 0.0)], "explained twice"),
    ];
    for (_, cause) in CAUSES {
        let of: Vec<&Planted> = found.iter().filter(|it| it.cause == cause).collect();
        let outside = u32::try_from(of.iter().filter(|it| it.is_outside()).count()).unwrap_or(0);
        let mut ratios: Vec<f64> = of.iter().map(|it| it.said_ns / it.truth_ns).collect();
        ratios.sort_by(f64::total_cmp);
        let Some(median) = ratios.get(ratios.len() / 2) else { continue };
        let tried = u32::try_from(of.len()).unwrap_or(0);
        let because = format!("said by true, median {median:.3}");
        let figure = Figure::new(format!("{layer}, {cause}"), [tried, outside], "of another size");
        all.push(figure.bar(Bar::Shown, because));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::toil::{ASKS, Work};

    #[test]
    fn every_variable_is_one_that_toil_knows() {
        let known: Vec<&str> =
            ASKS.iter().map(|it| it.variable()).chain([Work::Calls.variable()]).collect();
        assert!(CAUSES.iter().all(|(variable, _)| known.contains(variable)));
    }

    #[test]
    fn a_size_beyond_both_intervals_is_another_and_a_wrong_name_is_counted() {
        let it = |said_ns, first: &str| Planted {
            layer: "runc".into(),
            cause: "file_read".into(),
            first: first.into(),
            said_ns,
            said_half_ns: 3.0,
            truth_ns: 100.0,
            truth_half_ns: 4.0,
            unexplained_high: 0.1,
        };
        assert!(
            !it(104.9, "").is_outside() && it(105.1, "").is_outside() && it(94.0, "").is_outside()
        );
        let found = [it(100.0, "file_read"), it(100.0, "mmap"), it(200.0, "file_read")];
        let counts: Vec<[u32; 2]> =
            lines("runc", &found).iter().map(|it| [it.tried, it.found]).collect();
        assert_eq!(counts[..2], [[3, 1], [3, 1]]);
    }
}
