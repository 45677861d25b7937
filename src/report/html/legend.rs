//! The legend: what an arm is called and what it looks like, in every chart and table.
//!
//! Colour and shape both tell arms apart, and neither alone has to: seven colours that colour-blind
//! readers can distinguish and six shapes repeat only after 42 arms. The baseline is grey, twice.

use super::chart::{Canvas, Fill, Shape};
use super::escape;
use crate::finding::answer::{Row, Said};
use crate::finding::{ArmFindings, Findings, Gap, Interval, TrialPoint, Verdict, foreign, reasons};
use crate::plan::ArmPart;
use crate::table::rows;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// An arm as the report shows it.
pub struct Arm<'a> {
    /// Findings about the arm.
    pub found: &'a ArmFindings,
    /// The stack, its accelerator, and which of the two baselines.
    pub name: String,
    /// The class that says its colour.
    pub class: String,
    /// Mark of the arm.
    pub shape: Shape,
    /// True if wall time says anything of it.
    pub has_wall: bool,
}

const SHAPES: [Shape; 6] =
    [Shape::Triangle, Shape::Diamond, Shape::Square, Shape::Wedge, Shape::Plus, Shape::Circle];
const COLOURS: usize = 7;
/// Kinds of layers whose look is the same in every report that has them.
const KINDS: &str = include_str!("looks.tsv");

/// Gives each arm its look, in the order of the plan. Where one arm of the baseline failed before
/// anything of the other was run, the stack has one arm.
pub fn arms(findings: &Findings) -> Vec<Arm<'_>> {
    let has_wall = !findings.run.is_of_fixed_time;
    let is_alone = findings.arms.iter().any(|found| !found.is_compared() && is_not_run(found))
        && reasons::failed_baseline(findings).is_some();
    let compared = findings.arms.iter().filter(|found| found.is_compared());
    let mut places = places(compared.map(|found| found.stack.as_str())).into_iter();
    findings
        .arms
        .iter()
        .filter(|found| !is_alone || found.is_compared() || !is_not_run(found))
        .map(|found| {
            let is_whole = is_alone && !found.is_compared();
            let (class, shape) = match ArmPart::of_word(&found.part) {
                Some(ArmPart::BaselineAgain) if !is_whole => {
                    (String::from("ink-again"), Shape::Square)
                }
                Some(ArmPart::Baseline | ArmPart::BaselineAgain) => {
                    (String::from("ink-baseline"), Shape::Circle)
                }
                _ => {
                    let place = places.next().unwrap_or_default();
                    (format!("ink-{}", place % COLOURS), SHAPES[place % SHAPES.len()])
                }
            };
            let name = if is_whole { found.stack.clone() } else { found.name.clone() };
            Arm { found, name, class, shape, has_wall }
        })
        .collect()
}

/// Places of stacks among the looks, each another: that of its innermost layer's kind, or the first
/// that is free.
fn places<'a>(stacks: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let kind = |stack: &'a str| {
        let layer = stack.rsplit('+').next().unwrap_or(stack);
        layer.split_once(':').map_or(layer, |(kind, _)| kind)
    };
    let known = |stack| rows(KINDS).position(|[known]| known == kind(stack));
    let mut taken = BTreeSet::new();
    let wanted: Vec<Option<usize>> =
        stacks.map(|stack| known(stack).filter(|place| taken.insert(*place))).collect();
    let mut free = (0..).filter(|place| !taken.contains(place));
    wanted.into_iter().map(|place| place.or_else(|| free.next()).unwrap_or_default()).collect()
}

impl Arm<'_> {
    /// The overhead on wall time, when it is a number that can be drawn.
    pub fn overhead(&self) -> Option<Interval> {
        self.found.metric("wall_ns")?.overhead.filter(Interval::can_be_drawn)
    }

    /// Says why it has no number, in one line.
    pub fn gap(&self) -> String {
        let why = match (&self.found.trouble, &self.found.verdict) {
            (Some(trouble), _) if self.found.trial_count == 0 => &trouble.why,
            (None, Verdict::Invalid { reason, .. }) => reason,
            _ if self.found.trial_count > 0 => &self.found.because,
            _ => "no trial that counts",
        };
        foreign::on_one_line(why)
    }

    /// Tells whether it has a verdict: on wall time, or that it has no number.
    pub fn is_judged(&self) -> bool {
        self.has_wall || self.found.is_invalid()
    }

    /// Returns the verdict as a word in the verdict's class; nothing where it has none.
    pub fn verdict(&self) -> Markup {
        if !self.is_judged() {
            return Markup::default();
        }
        let word = self.found.verdict.word();
        let class = match self.found.verdict {
            _ if is_not_run(self.found) => "inconclusive",
            Verdict::Invalid { .. } => "invalid",
            Verdict::Inconclusive => "inconclusive",
            _ => word,
        };
        html! { span.verdict.(class) { (word) } }
    }

    /// Returns that it is the baseline, or why it has no number.
    pub fn baseline(&self) -> Markup {
        match self.found.is_compared() || self.found.is_invalid() {
            true => self.verdict(),
            false => html! { span.verdict { (Verdict::Baseline.word()) } },
        }
    }

    /// Returns what the answer says of it, in the class of that.
    pub fn said(&self, row: &Row<'_>) -> Markup {
        of_class(row, &row.words)
    }

    /// Returns the same where the difference stands beside it.
    pub fn direction(&self, row: &Row<'_>) -> Markup {
        match row.said {
            Said::Gain => of_class(row, "better"),
            Said::Loss => of_class(row, "worse"),
            _ => self.said(row),
        }
    }

    /// Draws the arm's mark, to stand beside its name.
    pub fn swatch(&self) -> Markup {
        let mark = |canvas: &mut Canvas| canvas.marks(self.shape, &[(7.0, 7.0)], 5.0, Fill::Solid);
        Canvas::swatch(|canvas| canvas.group(&self.class, mark))
    }

    /// Returns the arm's mark and its name.
    pub fn label(&self) -> Markup {
        html! { span.label { (self.swatch()) code { (escape::name(&self.name)) } } }
    }
}

/// Words in the class of what is said.
fn of_class(row: &Row<'_>, words: &str) -> Markup {
    let class = match row.said {
        Said::Gain | Said::Alike => "equivalent",
        Said::Loss => "differs",
        Said::Open => "inconclusive",
        Said::Nothing if is_not_run(row.arm) => "inconclusive",
        Said::Nothing => "invalid",
    };
    html! { span.verdict.(class) { (escape::line(words)) } }
}

/// Tells whether a stack was not even tried: that is no fault of its own.
fn is_not_run(found: &ArmFindings) -> bool {
    matches!(found.verdict, Verdict::Invalid { gap: Gap::NotRun, .. })
}

/// Tells whether a trial counts.
pub fn counts(trial: &TrialPoint) -> bool {
    trial.is_counted() && trial.why.is_empty()
}

/// A hollow mark, to stand beside what it means.
pub fn hollow() -> Markup {
    Canvas::swatch(|canvas| canvas.marks(Shape::Circle, &[(7.0, 7.0)], 5.0, Fill::Hollow))
}

/// The list of arms, and an entry of the caller's behind it; the script makes each arm a button
/// that hides it.
pub fn legend(arms: &[&Arm<'_>], more: Option<Markup>) -> Markup {
    html! {
        ul.legend aria-label="Stacks" {
            @for arm in arms {
                li data-arm=(arm.found.arm) { (arm.label()) }
                "\n"
            }
            @if let Some(more) = more { li { (more) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::ArmFailure;
    use crate::finding::compare::tests::example;

    #[test]
    fn a_kind_has_one_look_in_every_report_and_no_two_stacks_of_one_have_the_same() {
        let of = |stacks: &[&'static str]| places(stacks.iter().copied());
        assert_eq!(of(&["docker", "runc"]), [2, 0]);
        assert_eq!(of(&["qemu:accel=tcg+runc", "lxc", "gvisor:net=host", "runc"]), [0, 2, 1, 3]);
        let many = of(&["runc:cpus=1"; 42]);
        assert_eq!(many, (0..42).collect::<Vec<_>>());
        for [kind] in rows(KINDS) {
            assert!(crate::driver::descriptor(kind).is_some(), "{kind}");
        }
    }

    #[test]
    fn a_baseline_that_failed_before_its_other_arm_was_run_is_one_stack() {
        let mut findings = example(6, |_| {});
        let names = |findings: &Findings| {
            arms(findings).into_iter().map(|arm| arm.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&findings)[..2], ["native", "native (again)"]);
        let invalid = |gap| Verdict::Invalid { gap, reason: String::from("x") };
        for (arm, gap) in findings.arms.iter_mut().zip([Gap::NotRun, Gap::CommandFailed]) {
            arm.trial_count = 0;
            arm.verdict = invalid(gap);
        }
        let why = String::from("the command failed: exit 1");
        findings.arms[1].trouble = Some(ArmFailure { why, remedy: None, stderr: None });
        assert_eq!(names(&findings)[..2], ["native", "runc"]);
    }
}
