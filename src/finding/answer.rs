//! The answer of a run: what each stack costs in a few words, and one sentence for all of them.
//!
//! It is about wall time, and of a workload about its first metric, in that metric's own direction:
//! a rate that falls by a fifth is −20 %. No word says more than the verdict does.

use crate::finding::number::{FACTOR_FROM, GAP, amount, percent, percent_within, range, trimmed};
use crate::finding::stacks::Stacks;
use crate::finding::{ArmFindings, Findings, Interval, MetricFindings, Verdict, workload};
use std::collections::BTreeSet;

/// The metric of a command.
const WALL: &str = "wall_ns";

/// As many stacks that differ have a number each in the sentence.
const EACH_MAX: usize = 3;

/// Words for a stack whose cost is within the margin.
const NO_COST: &str = "no measurable cost";

/// The answer of a run.
pub(crate) struct Answer<'a> {
    /// Name of the metric; `None`: wall time.
    pub(crate) metric: Option<&'a str>,
    /// The baseline's number.
    pub(crate) baseline: Option<String>,
    /// Difference of the baseline from itself, as a ratio of values.
    pub(crate) floor: Option<Interval>,
    /// The compared stacks, in the order of the plan.
    pub(crate) rows: Vec<Row<'a>>,
    findings: &'a Findings,
}

/// What one stack costs.
pub(crate) struct Row<'a> {
    pub(crate) arm: &'a ArmFindings,
    /// Its number.
    pub(crate) median: Option<String>,
    /// Ratio of its value to the baseline's, where it can be drawn.
    pub(crate) ratio: Option<Interval>,
    pub(crate) verdict: &'a Verdict,
    /// The reason for the verdict, in a sentence.
    pub(crate) because: &'a str,
    /// The verdict in words: `1.5× slower`, `no measurable cost`, `not decided`.
    pub(crate) words: String,
    /// The interval in words: `1.44–1.53×`.
    pub(crate) range: String,
    /// True if it differs and is better than the baseline.
    pub(crate) is_gain: bool,
}

impl<'a> Answer<'a> {
    /// The answer that these findings give.
    pub(crate) fn of(findings: &'a Findings) -> Self {
        let first = findings.run.workload.is_some().then(|| workload::rows(findings));
        let metric = first.and_then(|rows| rows.first().map(|row| row.metric));
        let name = metric.unwrap_or(WALL);
        let says = metric.is_some() || !findings.run.is_of_fixed_time;
        // What runs for a time that it is told, and measured nothing, has no verdict of its own.
        let is_compared = |arm: &&ArmFindings| {
            arm.part == "compared" && (says || matches!(arm.verdict, Verdict::Invalid { .. }))
        };
        let rows = findings.arms.iter().filter(is_compared).map(|arm| row(arm, metric, says));
        let baseline = findings.arms.iter().find(|arm| arm.part == "baseline");
        let baseline = baseline.and_then(|arm| found(arm, name)).filter(|_| says);
        let mut metrics = findings.arms.iter().filter_map(|arm| found(arm, name));
        let floor = match metric {
            Some(_) => metrics.find_map(|it| Some((it, it.judgement.as_ref()?.noise_floor?))),
            None => metrics.next().zip(findings.noise_floor),
        };
        Self {
            metric,
            baseline: baseline.map(|found| amount(found.median, &found.unit)),
            floor: floor.filter(|_| says).and_then(|(found, floor)| of_values(found, floor)),
            rows: rows.collect(),
            findings,
        }
    }

    /// One sentence or more for all stacks, without a word that the verdicts do not carry.
    pub(crate) fn headline(&self) -> String {
        if !self.findings.has_numbers() {
            return String::from("No trial counts");
        }
        if self.rows.is_empty() {
            let stack = &self.findings.run.baseline;
            return self.baseline.as_ref().map_or_else(
                || format!("{stack} has no number"),
                |number| match self.metric {
                    Some(metric) => format!("{stack}: {metric} {number}"),
                    None => format!("{stack} takes {number}"),
                },
            );
        }
        let margin = percent(self.findings.run.equivalence_margin);
        let is = |verdict: Verdict| move |row: &&Row<'_>| *row.verdict == verdict;
        let mut sentences = Vec::new();
        let alike = self.rows.iter().filter(is(Verdict::Equivalent));
        sentences.extend(self.who(alike).map(|who| format!("{who}: {NO_COST} (under {margin})")));
        sentences.extend(self.differing(|ratio| ratio < 1.0));
        sentences.extend(self.differing(|ratio| ratio >= 1.0));
        let open = self.rows.iter().filter(is(Verdict::Inconclusive));
        sentences.extend(self.who(open).map(|who| format!("{who}: not decided")));
        let gaps = self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Invalid { .. }));
        let words: BTreeSet<&str> = gaps.map(|row| row.verdict.word()).collect();
        for word in words {
            let these = self.rows.iter().filter(|row| row.verdict.word() == word);
            sentences.extend(self.who(these).map(|who| format!("{who}: {word}")));
        }
        let text = sentences.join(". ");
        match (self.metric, text.strip_prefix("every")) {
            (Some(metric), _) => format!("{metric}: {text}"),
            (None, Some(rest)) => format!("Every{rest}"),
            (None, None) => text,
        }
    }

    /// The smallest difference that this run could have told from noise, in words.
    pub(crate) fn smallest(&self) -> Option<String> {
        let floor = self.floor.as_ref()?;
        let share = (floor.high - 1.0).max(1.0 / floor.low - 1.0);
        (share.is_finite() && share > 0.0).then(|| percent(share))
    }

    /// The stacks of these rows in words; `None` of none.
    fn who<'r>(&self, rows: impl Iterator<Item = &'r Row<'a>>) -> Option<String>
    where
        'a: 'r,
    {
        let set: BTreeSet<&str> = rows.map(|row| row.arm.stack.as_str()).collect();
        let all = Stacks::of(self.rows.iter().map(|row| row.arm));
        (!set.is_empty()).then(|| all.words(&set).replace('`', ""))
    }

    /// Says how far those are from the baseline that differ in one direction: each where they are
    /// few, and otherwise from the least to the most.
    fn differing(&self, is_of: impl Fn(f64) -> bool) -> Option<String> {
        let differs = self.rows.iter().filter(|row| *row.verdict == Verdict::Differs);
        let mut these: Vec<(&Row<'_>, Interval)> = differs
            .filter_map(|row| Some((row, row.ratio?)))
            .filter(|(_, ratio)| is_of(ratio.ratio))
            .collect();
        these.sort_by(|(_, one), (_, other)| one.ratio.total_cmp(&other.ratio));
        let (least, most) = (these.first()?.1, these.last()?.1);
        let ending = self.metric.map_or(ending(least.ratio), |_| "");
        if these.len() <= EACH_MAX {
            let each = these.iter().map(|(row, it)| format!("{} {}", row.arm.name, self.size(it)));
            return Some(format!("{}{ending}", each.collect::<Vec<_>>().join(", ")));
        }
        let who = self.who(these.iter().map(|(row, _)| *row))?;
        Some(format!("{who} {} to {}{ending}", self.size(&least), self.size(&most)))
    }

    fn size(&self, ratio: &Interval) -> String {
        size(ratio, self.metric.is_some())
    }
}

fn found<'a>(arm: &'a ArmFindings, name: &str) -> Option<&'a MetricFindings> {
    arm.metrics.iter().find(|metric| metric.metric == name)
}

fn row<'a>(arm: &'a ArmFindings, metric: Option<&str>, says: bool) -> Row<'a> {
    let found = found(arm, metric.unwrap_or(WALL)).filter(|_| says);
    let judged = found.and_then(|found| found.judgement.as_ref());
    let verdict = judged.map_or(&arm.verdict, |judged| &judged.verdict);
    let because = judged.map_or(arm.because.as_str(), |judged| &judged.because);
    let ratio = found.and_then(|found| of_values(found, found.overhead?));
    let words = match (verdict, &ratio) {
        (Verdict::Differs, Some(ratio)) if metric.is_some() => size(ratio, true),
        (Verdict::Differs, Some(it)) => format!("{}{}", size(it, false), ending(it.ratio)),
        (Verdict::Equivalent, _) => String::from(NO_COST),
        (Verdict::Inconclusive, _) => String::from("not decided"),
        (verdict, _) => String::from(verdict.word()),
    };
    let range = match (verdict, &ratio) {
        (_, Some(Interval { low, high, .. })) => range(*low, *high),
        (Verdict::Inconclusive, None) => String::from("too few runs"),
        _ => String::new(),
    };
    let median = found.map(|found| amount(found.median, &found.unit));
    let cost = found.and_then(|found| found.overhead);
    let is_gain = *verdict == Verdict::Differs && cost.is_some_and(|cost| cost.ratio < 1.0);
    let median = median.filter(|it| it != GAP);
    Row { arm, median, ratio, verdict, because, words, range, is_gain }
}

/// Turns a ratio of costs into one of the metric's values; `None` of what cannot be drawn.
fn of_values(found: &MetricFindings, cost: Interval) -> Option<Interval> {
    let Interval { ratio, low, high, confidence } = cost;
    let ends = [ratio, low, high];
    if !ends.iter().all(|end| end.is_finite() && *end > 0.0) {
        return None;
    }
    Some(match found.better.as_str() {
        "higher" => {
            Interval { ratio: ratio.recip(), low: high.recip(), high: low.recip(), confidence }
        }
        _ => cost,
    })
}

/// How far a ratio is from one: `1.5×`, `12 %`; with its sign where no word says the direction.
fn size(interval: &Interval, is_signed: bool) -> String {
    let Interval { ratio, low, high, .. } = *interval;
    if high >= FACTOR_FROM && ratio > 1.0 {
        return format!("{}×", trimmed(ratio, if ratio < 9.95 { 1 } else { 0 }));
    }
    let text = percent_within(ratio - 1.0, low, high);
    match is_signed {
        true => format!("{}{text}", if ratio < 1.0 { '−' } else { '+' }),
        false => text,
    }
}

/// Ending of a size of wall time, by its direction.
fn ending(ratio: f64) -> &'static str {
    if ratio < 1.0 { " faster" } else { " slower" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Gap, JudgementFindings};
    use crate::report::html::tests::sample;

    /// The sample with these stacks compared instead of its own: their verdicts and what they cost.
    fn findings(stacks: &[(&str, Verdict, Option<[f64; 3]>)]) -> Findings {
        let mut findings = sample::colleague();
        findings.arms.truncate(2);
        for (index, (stack, verdict, cost)) in (2..).zip(stacks) {
            let mut arm = sample::arm(index, stack, "compared", 1.0, verdict.clone());
            let interval =
                cost.map(|[ratio, low, high]| Interval { ratio, low, high, confidence: 0.95 });
            let wall = arm.metrics.iter_mut().find(|metric| metric.metric == WALL).unwrap();
            wall.overhead = interval;
            if let Verdict::Invalid { .. } = verdict {
                (arm.trial_count, arm.metrics) = (0, Vec::new());
            }
            findings.arms.push(arm);
        }
        findings
    }

    fn gap(gap: Gap) -> Verdict {
        Verdict::Invalid { gap, reason: String::from("why") }
    }

    /// The same findings of a workload whose first metric is a rate, with the costs of wall time.
    fn rated(mut findings: Findings) -> Findings {
        findings.run.workload = Some(String::from("net.tcp_rr"));
        for arm in &mut findings.arms {
            let (verdict, compared) = (arm.verdict.clone(), arm.part == "compared");
            for metric in arm.metrics.iter_mut().filter(|metric| metric.metric == WALL) {
                metric.metric = String::from("rate");
                metric.unit = String::from("1/s");
                metric.better = String::from("higher");
                let judged =
                    JudgementFindings { noise_floor: None, ..sample::judgement(verdict.clone()) };
                metric.judgement = compared.then_some(judged);
            }
        }
        findings
    }

    const SOME: [(&str, Verdict, Option<[f64; 3]>); 5] = [
        ("runc", Verdict::Equivalent, Some([1.004, 0.99, 1.02])),
        ("gvisor", Verdict::Differs, Some([1.49, 1.44, 1.53])),
        ("crun", Verdict::Equivalent, Some([0.99, 0.98, 1.01])),
        ("qemu", Verdict::Differs, Some([7.31, 7.0, 7.57])),
        ("podman", Verdict::Inconclusive, Some([0.98, 0.88, 1.08])),
    ];

    #[test]
    fn the_sentence_groups_stacks_that_say_the_same() {
        let findings = findings(&SOME);
        let answer = Answer::of(&findings);
        let said = "runc and crun: no measurable cost (under 3 %). gvisor 1.5×, qemu 7.3× slower. \
                    podman: not decided";
        assert_eq!(answer.headline(), said);
        let rows: Vec<(&str, &str)> =
            answer.rows.iter().map(|row| (row.words.as_str(), row.range.as_str())).collect();
        let expected = [
            ("no measurable cost", "−1 to +2 %"),
            ("1.5× slower", "1.44–1.53×"),
            ("no measurable cost", "−2 to +1 %"),
            ("7.3× slower", "7.00–7.57×"),
            ("not decided", "−12 to +8 %"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn no_word_is_said_that_a_verdict_does_not_carry() {
        let wide = Some([7.0, 0.5, 90.0]);
        for (verdict, words) in [
            (Verdict::Inconclusive, "not decided"),
            (gap(Gap::NotAvailable), "not available"),
            (gap(Gap::CommandFailed), "command failed"),
        ] {
            let findings = findings(&[("runc", verdict, wide)]);
            let answer = Answer::of(&findings);
            assert_eq!(answer.headline(), format!("runc: {words}"));
            assert!(!answer.rows[0].is_gain && answer.rows[0].words == words);
        }
    }

    #[test]
    fn what_is_faster_is_a_gain_and_stands_first() {
        let findings = findings(&[
            ("crun", Verdict::Differs, Some([1.12, 1.09, 1.15])),
            ("runc", Verdict::Differs, Some([0.9, 0.88, 0.92])),
        ]);
        let answer = Answer::of(&findings);
        assert_eq!(answer.headline(), "runc 10 % faster. crun 12 % slower");
        assert!(answer.rows[1].is_gain && !answer.rows[0].is_gain);
    }

    #[test]
    fn a_rate_is_said_in_its_own_direction() {
        let findings = rated(findings(&[
            ("runc", Verdict::Differs, Some([1.25, 1.22, 1.28])),
            ("crun", Verdict::Differs, Some([0.5, 0.49, 0.51])),
        ]));
        let answer = Answer::of(&findings);
        assert_eq!(answer.metric, Some("rate"));
        assert_eq!(answer.headline(), "rate: runc −20 %. crun 2×");
        assert_eq!(answer.rows[0].range, "−22 to −18 %");
        assert!(!answer.rows[0].is_gain && answer.rows[1].is_gain);
    }

    #[test]
    fn many_stacks_that_differ_are_said_from_the_least_to_the_most() {
        let names = ["a", "b", "c", "d"];
        let stacks: Vec<_> = (1..)
            .zip(names)
            .map(|(times, name)| {
                let ratio = 1.0 + 0.6 * f64::from(times);
                (name, Verdict::Differs, Some([ratio, ratio - 0.05, ratio + 0.05]))
            })
            .collect();
        let findings = findings(&stacks);
        assert_eq!(Answer::of(&findings).headline(), "Every stack 1.6× to 3.4× slower");
    }

    #[test]
    fn a_run_without_stacks_to_compare_says_what_the_baseline_takes() {
        let mut alone = findings(&[]);
        assert!(Answer::of(&alone).headline().starts_with("native takes "));
        alone.arms.iter_mut().for_each(|arm| arm.trial_count = 0);
        assert_eq!(Answer::of(&alone).headline(), "No trial counts");
    }
}
