//! Causes that were exchanged: which parts of a stack are tried without, and what that showed.
//!
//! A price says what a cause should cost. That the overhead changes when a part of the stack is
//! exchanged, and nothing else, is what shows that the part costs it.

use super::words;
use crate::driver;
use crate::fault::Fault;
use crate::finding::{
    ArmFindings, Confirmation, ConfirmedFindings, Findings, Verdict, WhyFindings, number,
};
use crate::layer::{Exchange, StackSpec};
use std::collections::BTreeSet;

/// As many parts of a stack are exchanged.
const EXCHANGES_MAX: usize = 4;

/// A stack with one part exchanged.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The stack.
    pub stack: StackSpec,
    /// Words for what is there in the place of that part.
    pub instead: &'static str,
    /// Causes that it may change, in words.
    pub causes: Vec<String>,
    /// Share of the stack's time that these take more, by their prices.
    pub share: f64,
}

/// Lists the fewest variants of an explained stack that touch each of its leading causes, as far as
/// its layers have parts that can be exchanged alone. What a stack says itself is left as it is.
///
/// # Errors
/// Ours: a stack of a plan is none.
pub fn variants(arm: &ArmFindings, stack: &StackSpec) -> Result<Vec<Variant>, Fault> {
    let Some(why) = &arm.why else { return Ok(Vec::new()) };
    let mut open: BTreeSet<&str> = words::named(why).map(|it| it.cause.as_str()).collect();
    let mut variants = Vec::new();
    for (place, layer) in stack.layers.iter().enumerate().rev() {
        let descriptor = driver::find(&layer.kind)?.descriptor();
        for exchange in descriptor.exchanges {
            let Exchange { option: (key, value), instead, causes } = exchange;
            let touched: Vec<&str> =
                causes.iter().copied().filter(|cause| open.contains(cause)).collect();
            if layer.option(key).is_some() || touched.is_empty() {
                continue;
            }
            let mut changed = stack.clone();
            if let Some(layer) = changed.layers.get_mut(place) {
                layer.options.insert((*key).into(), (*value).into());
            }
            // What contradicts the rest of the stack is no variant of it.
            let Ok(stack) = driver::parse(&changed.to_string()) else { continue };
            let (causes, share) = in_words(why, &touched);
            variants.push(Variant { stack, instead, causes, share });
            open.retain(|cause| !touched.contains(cause));
        }
    }
    variants.truncate(EXCHANGES_MAX);
    Ok(variants)
}

/// The words for these causes, and the share of the stack's time that they take more.
fn in_words(why: &WhyFindings, causes: &[&str]) -> (Vec<String>, f64) {
    let named = || why.causes.iter().filter(|it| causes.contains(&it.cause.as_str()));
    let share = named().map(|it| it.extra.ns).sum::<f64>() / (why.baseline_ns + why.extra.ns);
    (named().map(|it| it.what.clone()).collect(), share)
}

/// Says what a run showed in which a stack is the baseline of its variants.
#[must_use]
pub fn confirmed(variants: &[Variant], findings: &Findings) -> Vec<ConfirmedFindings> {
    let of = |variant: &Variant| {
        let text = variant.stack.to_string();
        let arm = findings.arms.iter().find(|arm| arm.is_compared() && arm.stack == text);
        let (verdict, because) = judged(variant, arm, findings);
        ConfirmedFindings {
            stack: findings.run.baseline.clone(),
            variant: text,
            instead: variant.instead.into(),
            causes: variant.causes.clone(),
            ratio: arm.and_then(|arm| arm.overhead),
            verdict,
            because,
        }
    };
    variants.iter().map(of).collect()
}

fn judged(
    variant: &Variant,
    arm: Option<&ArmFindings>,
    findings: &Findings,
) -> (Confirmation, String) {
    let Some(arm) = arm else {
        return (Confirmation::NotTried, String::from("it was not run"));
    };
    let accelerator = |arm: &ArmFindings| {
        arm.evidence.iter().rev().find_map(|it| it.fact("accelerator").map(String::from))
    };
    let of_baseline = findings.arms.first().and_then(accelerator);
    if variant.stack.to_string().contains("accel=") && of_baseline == accelerator(arm) {
        return (Confirmation::NotTried, String::from("it has that already"));
    }
    let shown = arm.overhead.as_ref().map(number::overhead).unwrap_or_default();
    let margin = findings.run.equivalence_margin;
    match (&arm.verdict, arm.overhead) {
        (Verdict::Differs, Some(_)) => {
            (Confirmation::Confirmed, format!("the command takes {shown}"))
        }
        (Verdict::Equivalent, Some(_)) if variant.share.abs() > margin => {
            (Confirmation::Refuted, format!("the command takes as long: {shown}"))
        }
        (Verdict::Equivalent, Some(_)) => (
            Confirmation::NotSeparable,
            format!("what they cost is within the margin of {}", number::percent(margin)),
        ),
        (Verdict::Invalid { reason, .. }, _) => (Confirmation::NotTried, reason.clone()),
        _ => (Confirmation::NotSeparable, arm.because.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::finding::{CauseFindings, CountedBy, Spread};

    fn arm(stack: &str, causes: &[(&str, f64)]) -> ArmFindings {
        let mut arm = example(10, |_| {}).arms[2].clone();
        arm.stack = stack.into();
        let cause = |(cause, ns): &(&str, f64)| CauseFindings {
            cause: String::from(*cause),
            what: format!("{cause} in words"),
            count: None,
            baseline_count: None,
            price_ns: None,
            baseline_price_ns: None,
            extra: Spread::around(*ns, 0.0),
        };
        arm.why = Some(WhyFindings {
            baseline_ns: 100.0,
            extra: Spread::around(100.0, 0.0),
            causes: causes.iter().map(cause).collect(),
            unexplained: Spread::around(0.0, 0.0),
            counted_by: CountedBy::Baseline,
            why_not_own: None,
            spread_over: 1.0,
            baseline_spread_over: 1.0,
        });
        arm
    }

    fn tried(stack: &str, causes: &[(&str, f64)]) -> Vec<String> {
        let spec = driver::parse(stack).unwrap();
        let found = variants(&arm(stack, causes), &spec).unwrap();
        found.iter().map(|it| it.stack.to_string()).collect()
    }

    #[test]
    fn the_fewest_variants_touch_each_leading_cause_and_leave_what_was_said() {
        let causes = [("file_open", 50.0), ("system_call", 30.0), ("file_stat", 2.0)];
        let both = ["gvisor:directfs=false", "gvisor:platform=ptrace"];
        assert_eq!(tried("gvisor", &causes), both);
        assert_eq!(tried("gvisor", &causes[..1]), both[..1]);
        assert_eq!(
            tried("gvisor:directfs=false", &causes),
            ["gvisor:directfs=false,platform=ptrace"]
        );
        assert_eq!(tried("runc", &causes), [""; 0]);
        assert_eq!(tried("gvisor", &[("mmap", 50.0)]), [""; 0]);
    }

    #[test]
    fn what_changes_is_confirmed_what_does_not_is_refuted_and_a_gap_is_not_tried() {
        let mut findings = example(10, |_| {});
        let variant = |share| Variant {
            stack: driver::parse("runc").unwrap(),
            instead: "nothing",
            causes: Vec::new(),
            share,
        };
        let of = |findings: &Findings, arm: usize, share| {
            judged(&variant(share), findings.arms.get(arm), findings).0
        };
        assert_eq!(of(&findings, 2, 0.1), Confirmation::Confirmed);
        assert_eq!(of(&findings, 3, 0.1), Confirmation::NotTried);
        findings.arms[2].verdict = Verdict::Equivalent;
        assert_eq!(of(&findings, 2, 0.1), Confirmation::Refuted);
        assert_eq!(of(&findings, 2, 0.02), Confirmation::NotSeparable);
        findings.arms[2].verdict = Verdict::Inconclusive;
        assert_eq!(of(&findings, 2, 0.1), Confirmation::NotSeparable);
        assert_eq!(of(&findings, 9, 0.1), Confirmation::NotTried);
    }
}
