//! The answer of a run: what each stack costs in a few words, and one sentence for all of them.
//!
//! It is about wall time, and of a workload about its first metric, in that metric's own direction:
//! a rate that falls by a fifth is −20 %. No word says more than the verdict does.

use crate::finding::caution::{baseline, compared};
use crate::finding::foreign::on_one_line;
use crate::finding::number::{
    FACTOR_FROM, GAP, amount, percent, percent_within, range, spelled, trimmed,
};
use crate::finding::stacks::{Stacks, joined};
use crate::finding::trial_metric::WALL;
use crate::finding::verdict::departure;
use crate::finding::{
    ArmFindings, Findings, Interval, MetricFindings, TrialPoint, Verdict, emulation, estimate,
    workload,
};
use std::collections::BTreeSet;

/// Less than this is no factor in words, however far the interval reaches.
const FACTOR_MIN: f64 = 1.1;

/// No smaller share is told.
const SHARE_MIN: f64 = 0.001;

/// As many stacks that differ have a number each in the sentence.
const EACH_MAX: usize = 3;

/// Words for a stack whose cost is within the margin.
const NO_COST: &str = "no measurable cost";

/// A ratio beyond this, or below one over it, is no number that anybody could read.
const RATIO_MAX: f64 = 1e9;

/// The answer of a run.
pub(crate) struct Answer<'a> {
    /// Name of the metric; `None`: wall time.
    pub(crate) metric: Option<&'a str>,
    /// True if more of the metric is better.
    pub(crate) is_more_better: bool,
    /// The baseline's number: the median of the trials of both its arms.
    pub(crate) baseline: Option<String>,
    /// Difference of the baseline from itself, as a ratio of values.
    pub(crate) floor: Option<Interval>,
    /// The compared stacks of which there is something to say, in the order of the plan.
    pub(crate) rows: Vec<Row<'a>>,
    /// Share of itself to which the metric is rounded.
    step_share: f64,
    findings: &'a Findings,
}

/// Cost of one stack.
pub(crate) struct Row<'a> {
    pub(crate) arm: &'a ArmFindings,
    /// Number of the stack.
    pub(crate) median: Option<String>,
    /// Ratio of its value to the baseline's, where it can be drawn.
    pub(crate) ratio: Option<Interval>,
    pub(crate) said: Said,
    /// The verdict in words: `1.5× slower`, `no measurable cost`, `not decided`.
    pub(crate) words: String,
    /// The interval in words: `1.44–1.53×`.
    pub(crate) range: String,
    /// The reason, in a sentence.
    pub(crate) because: String,
}

/// Word on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Better than the baseline.
    Gain,
    /// Worse than the baseline.
    Loss,
    /// Within the margin.
    Alike,
    /// Neither could be shown.
    Open,
    /// There is no number.
    Nothing,
}

impl<'a> Answer<'a> {
    /// The answer that these findings give.
    pub(crate) fn of(findings: &'a Findings) -> Self {
        let metric = findings.run.workload.as_ref().and_then(|_| workload::first_metric(findings));
        // What runs for a time that it is told, and measured nothing, says nothing by wall time.
        let says = metric.is_some() || !findings.run.is_of_fixed_time;
        let found = |arm: &'a ArmFindings| arm.metric(metric.unwrap_or(WALL)).filter(|_| says);
        let rows = compared(&findings.arms).filter_map(|arm| match says {
            true => Some(row(arm, metric)),
            false => nothing(arm, None),
        });
        let median = median_of_baseline(findings, metric.unwrap_or(WALL));
        let baseline = baseline(&findings.arms).find_map(found);
        let baseline = baseline.map(|it| spelled(median.unwrap_or(it.median), &it.unit));
        let metrics = || findings.arms.iter().filter_map(found);
        let judged = || metrics().filter_map(|found| found.judgement.as_ref());
        let floor = match metric {
            Some(_) => judged().find_map(|judged| judged.noise_floor),
            None => findings.noise_floor,
        };
        let any = metrics().next();
        Self {
            metric,
            is_more_better: any.is_some_and(|found| found.better == "higher"),
            baseline,
            floor: any.zip(floor).and_then(|(found, floor)| of_values(found, floor)),
            step_share: judged().filter_map(|judged| judged.step_share).fold(0.0, f64::max),
            rows: rows.collect(),
            findings,
        }
    }

    /// Leaves out all that has a number, where every number has a place of its own.
    pub(crate) fn keep_gaps(&mut self) {
        self.rows.retain(|row| row.arm.is_invalid());
    }

    /// Tells whether the baseline has a trial that counts.
    pub(crate) fn has_baseline(&self) -> bool {
        baseline(&self.findings.arms).any(|arm| arm.trial_count > 0)
    }

    /// One sentence or more for all stacks, without a word that the verdicts do not carry.
    pub(crate) fn headline(&self) -> String {
        let stack = &self.findings.run.baseline;
        if !self.has_baseline() {
            let tried = baseline(&self.findings.arms).find(|arm| !arm.trials.is_empty());
            let word = tried.map(|arm| arm.verdict.word());
            let is_asked = compared(&self.findings.arms).next().is_some();
            return match word {
                Some(word) if is_asked => {
                    format!("{stack}: {word}, so nothing is compared with it")
                }
                Some(word) => format!("{stack}: {word}"),
                None if self.findings.has_numbers() => {
                    format!("No trial of {stack} counts yet, so nothing is compared with it")
                }
                None => String::from("No trial counts"),
            };
        }
        if self.rows.is_empty() {
            return match (&self.baseline, self.metric) {
                (Some(number), Some(metric)) => format!("{stack}: {metric} {number}"),
                (Some(number), None) => format!("{stack} takes {number}"),
                (None, _) => String::from("Nothing that was measured says what a stack costs"),
            };
        }
        let margin = percent(self.findings.run.equivalence_margin);
        let is = |said: Said| move |row: &&Row<'_>| row.said == said;
        let mut sentences = Vec::new();
        let alike = self.rows.iter().filter(is(Said::Alike));
        sentences.extend(self.who(alike).map(|who| format!("{who}: {NO_COST} (under {margin})")));
        sentences.extend(self.differing(Said::Gain));
        sentences.extend(self.differing(Said::Loss));
        let differs = |row: &&Row<'_>| matches!(row.said, Said::Gain | Said::Loss);
        let far = self.rows.iter().filter(differs).filter(|row| row.ratio.is_none());
        sentences.extend(self.who(far).map(|who| format!("{who}: differs")));
        let open = self.rows.iter().filter(is(Said::Open));
        sentences.extend(self.who(open).map(|who| format!("{who}: not decided")));
        let gaps = || self.rows.iter().filter(is(Said::Nothing));
        let words: BTreeSet<&str> = gaps().map(|row| row.words.as_str()).collect();
        for word in words {
            let these = gaps().filter(|row| row.words == word);
            sentences.extend(self.who(these).map(|who| format!("{who}: {word}")));
        }
        let sentences: Vec<String> = sentences.iter().map(|text| capital(text)).collect();
        let text = sentences.join(". ");
        match self.metric {
            Some(metric) => format!("{metric}: {text}"),
            None => text,
        }
    }

    /// The share below which a difference is not told from noise, or from rounding, in words.
    pub(crate) fn smallest(&self) -> Option<String> {
        let floor = self.floor.as_ref()?;
        let share = (floor.high - 1.0).max(1.0 / floor.low - 1.0).max(self.step_share);
        (share.is_finite() && share > 0.0).then(|| departure(share.max(SHARE_MIN)))
    }

    /// The stacks of these rows in words; `None` of none.
    fn who<'r>(&self, rows: impl Iterator<Item = &'r Row<'a>>) -> Option<String>
    where
        'a: 'r,
    {
        let all = Stacks::of(compared(&self.findings.arms));
        Some(all.words_of(rows.map(|row| row.arm))?.replace('`', ""))
    }

    /// Says how far those are from the baseline that differ in one direction: each where they are
    /// few, and otherwise from the least to the most, those that were emulated apart.
    fn differing(&self, said: Said) -> Option<String> {
        let differs = self.rows.iter().filter(|row| row.said == said);
        let mut these: Vec<(&Row<'_>, Interval)> =
            differs.filter_map(|row| Some((row, row.ratio?))).collect();
        let distance = |(_, ratio): &(_, Interval)| ratio.ratio.ln().abs();
        these.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
        let ending = ending(said, self.metric);
        if these.len() <= EACH_MAX {
            return Some(self.each(&these)? + ending);
        }
        let (emulated, others): (Vec<_>, Vec<_>) =
            these.into_iter().partition(|(row, _)| emulation::is_of(row.arm));
        let groups = [others, emulated];
        Some(joined(groups.iter().filter_map(|group| self.group(group)), ", ")? + ending)
    }

    /// Each of these with its size; `None` of none.
    fn each(&self, these: &[(&Row<'_>, Interval)]) -> Option<String> {
        let name = |row: &Row<'_>| emulation::name(row.arm);
        let each = these.iter().map(|(row, it)| format!("{} {}", name(row), self.size(it)));
        joined(each, ", ")
    }

    /// The same of those that are all emulated or none: many from the least to the most.
    fn group(&self, these: &[(&Row<'_>, Interval)]) -> Option<String> {
        let ((first, least), (_, most)) = (these.first()?, these.last()?);
        if these.len() <= EACH_MAX {
            return self.each(these);
        }
        let who = self.who(these.iter().map(|(row, _)| *row))?;
        let mark = if emulation::is_of(first.arm) { emulation::MARK } else { "" };
        Some(format!("{who}{mark} {} to {}", self.size(least), self.size(most)))
    }

    fn size(&self, ratio: &Interval) -> String {
        size(ratio, self.metric.is_some())
    }
}

/// The row of a stack without a number; `None` if its verdict does not say so.
fn nothing(arm: &ArmFindings, median: Option<String>) -> Option<Row<'_>> {
    let Verdict::Invalid { reason, .. } = &arm.verdict else { return None };
    let because = match &arm.trouble {
        _ if arm.trial_count > 0 => arm.because.clone(),
        Some(trouble) => on_one_line(&trouble.why),
        None => reason.clone(),
    };
    let words = String::from(arm.verdict.word());
    let (ratio, said, range) = (None, Said::Nothing, String::new());
    Some(Row { arm, median, ratio, said, words, range, because })
}

fn row<'a>(arm: &'a ArmFindings, metric: Option<&str>) -> Row<'a> {
    let found = arm.metric(metric.unwrap_or(WALL));
    let median = found.map(|found| amount(found.median, &found.unit)).filter(|it| it != GAP);
    if let Some(row) = nothing(arm, median.clone()) {
        return row;
    }
    let judged = found.and_then(|found| found.judgement.as_ref());
    let (verdict, because) = match (metric, judged) {
        (None, _) => (&arm.verdict, arm.because.clone()),
        (Some(_), Some(judged)) => (&judged.verdict, judged.because.clone()),
        (Some(metric), None) => {
            let why = arm.absences.iter().find(|absence| absence.metric == metric);
            let because = why.map_or("no trial of it has this number", |absence| &absence.why);
            let (words, because) = (String::from("no number"), because.to_owned());
            let (ratio, said, range) = (None, Said::Nothing, String::new());
            return Row { arm, median, ratio, said, words, range, because };
        }
    };
    let cost = found.and_then(|found| found.overhead);
    let ratio = found.zip(cost).and_then(|(found, cost)| of_values(found, cost));
    let said = match (verdict, cost) {
        (Verdict::Differs, Some(cost)) if cost.ratio < 1.0 => Said::Gain,
        (Verdict::Differs, _) => Said::Loss,
        (Verdict::Equivalent, _) => Said::Alike,
        _ => Said::Open,
    };
    let words = match (said, &ratio) {
        (Said::Gain | Said::Loss, Some(ratio)) => {
            size(ratio, metric.is_some()) + ending(said, metric)
        }
        (Said::Gain | Said::Loss, None) => String::from("differs"),
        (Said::Alike, _) => String::from(NO_COST),
        _ => String::from("not decided"),
    };
    let range = ratio.map_or_else(String::new, |it| range(it.low, it.high));
    Row { arm, median, ratio, said, words, range, because }
}

/// The median of a metric over the trials of both arms of the baseline, as an export has it.
fn median_of_baseline(findings: &Findings, metric: &str) -> Option<f64> {
    let trials = baseline(&findings.arms).flat_map(|arm| &arm.trials);
    let value = |trial: &TrialPoint| match metric {
        WALL => trial.wall_ns.map(estimate::float),
        _ => trial.metrics.get(metric).copied(),
    };
    let values: Vec<f64> = trials.filter(|it| it.is_counted()).filter_map(value).collect();
    estimate::median(&values)
}

/// Turns a ratio of costs into one of the metric's values; `None` of what cannot be drawn.
fn of_values(found: &MetricFindings, cost: Interval) -> Option<Interval> {
    let Interval { ratio, low, high, confidence } = cost;
    if ![ratio, low, high].iter().all(|end| (RATIO_MAX.recip()..=RATIO_MAX).contains(end)) {
        return None;
    }
    Some(match found.better.as_str() {
        "higher" => {
            Interval { ratio: ratio.recip(), low: high.recip(), high: low.recip(), confidence }
        }
        _ => cost,
    })
}

/// Distance of a ratio from one: `1.5×`, `12 %`; with its sign where no word says the direction.
fn size(interval: &Interval, is_signed: bool) -> String {
    let Interval { ratio, low, high, .. } = *interval;
    if high >= FACTOR_FROM && ratio >= FACTOR_MIN {
        return format!("{}×", trimmed(ratio, if ratio < 9.95 { 1 } else { 0 }));
    }
    let share = ratio - 1.0;
    if share.abs() < SHARE_MIN {
        return String::from("under 0.1 %");
    }
    let within = percent_within(share, low, high);
    // A wide interval leaves no decimals, and a small share is not nothing for that.
    let is_lost = !within.contains(|digit: char| ('1'..='9').contains(&digit));
    let text = if is_lost { percent(share) } else { within };
    match is_signed {
        true => format!("{}{text}", if ratio < 1.0 { '−' } else { '+' }),
        false => text,
    }
}

/// Ending of a size, by what it means.
fn ending(said: Said, metric: Option<&str>) -> &'static str {
    match (metric, said) {
        (None, Said::Gain) => " faster",
        (None, _) => " slower",
        (Some(_), Said::Gain) => " (better)",
        (Some(_), _) => " (worse)",
    }
}

/// A sentence that begins with a capital, unless with the name of a stack.
fn capital(text: &str) -> String {
    text.strip_prefix("every").map_or(text.to_owned(), |rest| format!("Every{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Gap, JudgementFindings, KeyValue, LevelEvidence};
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
            let (verdict, compared) = (arm.verdict.clone(), arm.is_compared());
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
        let said = "runc and crun: no measurable cost (under 3 %). gvisor 1.5×, qemu 7.3× \
                    slower. podman: not decided";
        assert_eq!(answer.headline(), said);
        let rows: Vec<(&str, &str)> =
            answer.rows.iter().map(|row| (row.words.as_str(), row.range.as_str())).collect();
        let expected = [
            ("no measurable cost", "−1 to +2 %"),
            ("1.5× slower", "1.44–1.53×"),
            ("no measurable cost", "−2 to +1 %"),
            ("7.3× slower", "7.0–7.6×"),
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
            assert_eq!(answer.rows[0].words, words);
        }
    }

    #[test]
    fn what_was_emulated_is_called_so_and_is_no_end_of_the_others() {
        let tcg = ("qemu", Verdict::Differs, Some([25.0, 24.0, 26.0]));
        let some = |count: usize| {
            let names = ["crun", "runc", "podman", "docker"];
            let each = names.map(|name| (name, Verdict::Differs, Some([1.5, 1.4, 1.6])));
            let mut findings =
                findings(&each[..count].iter().cloned().chain([tcg.clone()]).collect::<Vec<_>>());
            let of_tcg = findings.arms.last_mut().unwrap();
            of_tcg.evidence = vec![LevelEvidence {
                layer: String::from("qemu"),
                facts: vec![KeyValue {
                    key: String::from("accelerator"),
                    value: String::from("tcg"),
                    source: String::from("QMP"),
                }],
            }];
            Answer::of(&findings).headline()
        };
        assert_eq!(some(1), "crun 1.5×, qemu (emulated) 25× slower");
        let said = "crun, runc, podman and docker 1.5× to 1.5×, qemu (emulated) 25× slower";
        assert_eq!(some(4), said);
    }

    #[test]
    fn what_is_faster_is_a_gain_and_stands_first() {
        let findings = findings(&[
            ("crun", Verdict::Differs, Some([1.12, 1.09, 1.15])),
            ("runc", Verdict::Differs, Some([0.9, 0.88, 0.92])),
        ]);
        let answer = Answer::of(&findings);
        assert_eq!(answer.headline(), "runc 10 % faster. crun 12 % slower");
        assert_eq!([answer.rows[0].said, answer.rows[1].said], [Said::Loss, Said::Gain]);
    }

    #[test]
    fn a_rate_is_said_in_its_own_direction() {
        let findings = rated(findings(&[
            ("runc", Verdict::Differs, Some([1.25, 1.22, 1.28])),
            ("crun", Verdict::Differs, Some([0.5, 0.49, 0.51])),
        ]));
        let answer = Answer::of(&findings);
        assert_eq!(answer.metric, Some("rate"));
        assert_eq!(answer.headline(), "rate: crun 2× (better). runc −20 % (worse)");
        assert_eq!(answer.rows[0].range, "−22 to −18 %");
        assert_eq!([answer.rows[0].said, answer.rows[1].said], [Said::Loss, Said::Gain]);
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
        for arm in &mut alone.arms {
            (arm.trial_count, arm.trials) = (0, Vec::new());
        }
        assert_eq!(Answer::of(&alone).headline(), "No trial counts");
    }

    #[test]
    fn a_stack_without_the_metric_has_no_number_whatever_its_wall_time_says() {
        for wall in [Verdict::Equivalent, Verdict::Differs, Verdict::Inconclusive] {
            let cost = Some([1.25, 1.22, 1.28]);
            let mut findings =
                rated(findings(&[("runc", Verdict::Differs, cost), ("qemu", wall, cost)]));
            findings.arms[3].metrics.retain(|metric| metric.metric != "rate");
            let answer = Answer::of(&findings);
            assert_eq!(answer.headline(), "rate: runc −20 % (worse). qemu: no number");
            assert_eq!(answer.rows[1].said, Said::Nothing);
        }
    }

    #[test]
    fn a_baseline_without_a_number_is_said_first() {
        let mut findings = findings(&[("runc", Verdict::Inconclusive, None)]);
        sample::run_trials(&mut findings, 3);
        for arm in findings.arms.iter_mut().filter(|arm| !arm.is_compared()) {
            (arm.trial_count, arm.verdict) = (0, gap(Gap::CommandFailed));
        }
        let said = "native: command failed, so nothing is compared with it";
        assert_eq!(Answer::of(&findings).headline(), said);
        let compared = findings.arms.split_off(2);
        assert_eq!(Answer::of(&findings).headline(), "native: command failed");
        findings.arms.extend(compared);
        findings.arms.iter_mut().take(2).for_each(|arm| arm.trials.clear());
        let said = "No trial of native counts yet, so nothing is compared with it";
        assert_eq!(Answer::of(&findings).headline(), said);
    }

    #[test]
    fn a_small_difference_is_not_rounded_to_nothing() {
        let size =
            |ratio, low, high| super::size(&Interval { ratio, low, high, confidence: 0.95 }, true);
        assert_eq!(size(1.004, 1.0005, 1.022), "+0.4 %");
        assert_eq!(size(0.9996, 0.99, 0.9999), "under 0.1 %");
        assert_eq!(size(1.04, 1.01, 1.6), "+4 %");
        assert_eq!(size(12.4, 11.0, 13.0), "12×");
    }

    #[test]
    fn of_a_fixed_time_that_measured_nothing_only_gaps_are_said() {
        let mut findings = findings(&[
            ("runc", Verdict::Equivalent, Some([1.0, 0.99, 1.01])),
            ("crun", gap(Gap::Broken), None),
        ]);
        findings.run.is_of_fixed_time = true;
        assert_eq!(Answer::of(&findings).headline(), "crun: broken");
        findings.arms.truncate(3);
        let said = "Nothing that was measured says what a stack costs";
        assert_eq!(Answer::of(&findings).headline(), said);
    }

    #[test]
    fn no_ratio_that_a_ledger_claims_makes_a_row_of_a_mile() {
        let cost = Some([1e300, 1e299, 1e301]);
        let findings = findings(&[("runc", Verdict::Differs, cost)]);
        let answer = Answer::of(&findings);
        assert_eq!((answer.rows[0].ratio, answer.rows[0].words.as_str()), (None, "differs"));
        assert_eq!(answer.headline(), "runc: differs");
    }
}
