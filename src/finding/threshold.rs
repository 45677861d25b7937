//! Thresholds such as `wall > +3%` and `gvisor: wall > 2x`, for whoever decides by an exit code.
//!
//! A threshold is crossed when that is shown, and never because a point estimate lies beyond it:
//! the whole interval must, and of wall time the verdict must be that the stack differs at all. It
//! is kept when the whole interval lies on the other side. What is neither is undecided. Of a run
//! that may look at its thresholds more than once the interval is wider, so that all looks together
//! decide wrongly as rarely as one.

use crate::fault::Fault;
use crate::finding::number::{PERCENT_UNTIL, percent};
use crate::finding::trial_metric::{TRIAL_METRICS, TrialMetric, is_of_every_trial};
use crate::finding::{ArmFindings, Interval, TrialPoint, Verdict};
use crate::layer::instead;
use crate::plan::BESIDE;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A metric, and the overhead above which it is too dear, in one stack or in all.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The stack it is of, as typed; without options it is of every stack of the same layers. Of
    /// all stacks where none is named.
    stack: Option<String>,
    /// The metric as typed.
    name: String,
    /// As the findings call it.
    metric: String,
    /// The overhead as a ratio: 1.03 for `+3%`.
    ratio: f64,
    typed: String,
}

/// Standing of an arm with regard to a threshold, the least first for whoever goes by an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Shown to be at most that.
    Kept,
    /// Neither that nor the opposite is shown.
    Undecided,
    /// It has no such number.
    Unknown,
    /// Shown to be above it.
    Crossed,
}

/// Metrics that a run has.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<'a> {
    /// Names of those of its workload.
    pub of_workload: &'a [String],
    /// The workload takes as long as it was told to, in every stack: its wall time says nothing.
    pub is_of_fixed_time: bool,
}

/// A threshold, and how one stack stands to it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ThresholdFindings {
    /// The threshold as typed.
    pub threshold: String,
    /// Name of the arm.
    pub name: String,
    /// Stack of the arm.
    pub stack: String,
    /// Metric, as the findings call it.
    pub metric: String,
    /// The limit as a ratio to the baseline: 1.03 for `+3%`.
    pub limit: f64,
    /// The standing.
    pub standing: Standing,
    /// The exit code goes by it as by one that is kept: it is, or what is not decided is to pass.
    pub passes: bool,
    /// The overhead that it was held against; `None` where there is no such number.
    pub overhead: Option<Interval>,
    /// Reason why there is no number, or why one that lies beyond the limit does not decide; empty
    /// where the numbers say it.
    pub because: String,
}

impl fmt::Display for ThresholdFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threshold, name, standing, overhead, because, .. } = self;
        match standing {
            Standing::Crossed => write!(f, "`{threshold}` is crossed by `{name}`")?,
            Standing::Kept => write!(f, "`{threshold}` is not crossed by `{name}`")?,
            Standing::Undecided => write!(f, "`{threshold}` is not decided for `{name}`")?,
            Standing::Unknown => {
                write!(f, "`{threshold}` cannot be answered for `{name}`: no such number")?;
            }
        }
        if let Some(found) = overhead {
            write!(f, ": {} [{}, {}]", cost(found.ratio), cost(found.low), cost(found.high))?;
        }
        if because.is_empty() { Ok(()) } else { write!(f, "; {because}") }
    }
}

/// Every compared arm with its standing to each of these thresholds that is of it.
#[must_use]
pub fn held(thresholds: &[Threshold], arms: &[ArmFindings]) -> Vec<ThresholdFindings> {
    let compared = || arms.iter().filter(|arm| arm.is_compared());
    let is_baseline_lost = arms.iter().filter(|arm| !arm.is_compared()).any(has_lost_most);
    let wall_floor = wall_floor(arms);
    let of = |threshold: &Threshold, arm: &ArmFindings| {
        let standing = match threshold.standing_over(arm, wall_floor) {
            Standing::Kept if is_baseline_lost => Standing::Undecided,
            standing => standing,
        };
        ThresholdFindings {
            threshold: threshold.typed.clone(),
            name: arm.name.clone(),
            stack: arm.stack.clone(),
            metric: threshold.metric.clone(),
            limit: threshold.ratio,
            standing,
            passes: standing == Standing::Kept,
            overhead: threshold.overhead(arm).cloned(),
            because: threshold.because(arm, standing, is_baseline_lost),
        }
    };
    thresholds
        .iter()
        .flat_map(|it| compared().filter(|arm| it.is_of(&arm.stack)).map(|arm| of(it, arm)))
        .collect()
}

/// Says why a run is to go on: a threshold is not decided, and none is crossed. `None` where more
/// blocks would decide nothing more, or nothing that still matters.
#[must_use]
pub fn why_go_on(thresholds: &[Threshold], arms: &[ArmFindings]) -> Option<String> {
    let held = held(thresholds, arms);
    if held.iter().any(|it| it.standing == Standing::Crossed) {
        return None;
    }
    let mut open = held.iter().filter(|it| it.standing == Standing::Undecided);
    let first = open.next()?;
    Some(match open.count() {
        0 => first.to_string(),
        1 => format!("{first}; nor is 1 other"),
        more => format!("{first}; nor are {more} others"),
    })
}

impl FromStr for Threshold {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let shown = text.escape_debug();
        if text.contains(">=") {
            return Err(Fault::user(format!("`{shown}` is no threshold: it has `>=`"))
                .hint("write `>`: an interval ends nowhere so exactly that it would matter"));
        }
        let (name, limit) = text.split_once('>').ok_or_else(|| {
            Fault::user(format!("`{shown}` is no threshold: it has no `>`")).hint(
                "write it as in `wall > +3%`; of every metric more is worse, so there is no `<`",
            )
        })?;
        let (stack, name) = match name.rsplit_once(':') {
            Some((stack, name)) => (Some(stack.trim().to_owned()), name),
            None => (None, name),
        };
        let (name, limit) = (name.trim(), limit.trim());
        // Any other name may be that of a metric of a workload: `require` asks which it has.
        let (name, metric) = TrialMetric::of(name).map_or((name, name), |it| (it.typed, it.name));
        let number =
            |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let ratio = match (limit.strip_suffix('%'), limit.strip_suffix(['x', '×'])) {
            (Some(share), _) => number(share).map(|share| 1.0 + share / 100.0),
            (None, Some(factor)) => number(factor),
            (None, None) => None,
        };
        let ratio = ratio.filter(|ratio| *ratio > 0.0).ok_or_else(|| {
            let limit = limit.escape_debug();
            Fault::user(format!("`{limit}` in `{shown}` is no limit of a cost"))
                .hint("write a share above -100%, as in `+3%`, or a factor above 0, as in `1.5x`")
        })?;
        let (name, metric) = (name.to_owned(), metric.to_owned());
        Ok(Self { stack, name, metric, ratio, typed: text.trim().to_owned() })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Threshold {
    /// The same with the stack that it names written in another way.
    #[must_use]
    pub fn with_stack(self, rewrite: impl FnOnce(String) -> String) -> Self {
        Self { stack: self.stack.map(rewrite), ..self }
    }

    /// Refuses a stack that is not among these, which are compared.
    ///
    /// # Errors
    /// The user's.
    pub fn require_stack(&self, compared: &[String]) -> Result<(), Fault> {
        let Some(stack) = &self.stack else { return Ok(()) };
        if compared.iter().any(|it| self.is_of(it)) {
            return Ok(());
        }
        let (shown, typed) = (stack.escape_debug().to_string(), self.typed.escape_debug());
        let known = compared.iter().map(String::as_str);
        Err(Fault::user(format!("`{shown}` in `{typed}` is no stack that is compared"))
            .hint(instead(&shown, "stacks", known)))
    }

    /// Tells whether it is one of this stack's, alone or beside neighbours.
    fn is_of(&self, stack: &str) -> bool {
        let alone = stack.split(BESIDE).next().unwrap_or(stack);
        self.stack.as_deref().is_none_or(|asked| asked == alone || asked == layers(alone))
    }

    /// Refuses a name that is neither one of ours nor among those of the run's workload, and the
    /// wall time of one that takes as long in every stack.
    ///
    /// # Errors
    /// The user's.
    pub fn require(&self, metrics: Metrics<'_>) -> Result<(), Fault> {
        let Metrics { of_workload, is_of_fixed_time } = metrics;
        if is_of_fixed_time && self.name == "wall" {
            let typed = self.typed.escape_debug();
            let known = of_workload.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>();
            return Err(Fault::user(format!(
                "`{typed}` decides nothing: this workload takes as long in every stack"
            ))
            .hint(format!("hold one of its own metrics: {}", known.join(", "))));
        }
        if is_of_every_trial(&self.metric) || of_workload.contains(&self.metric) {
            return Ok(());
        }
        let (name, typed) = (self.name.escape_debug().to_string(), self.typed.escape_debug());
        let ours = TRIAL_METRICS.iter().map(|it| it.typed);
        let known = of_workload.iter().map(String::as_str).chain(ours);
        let fault = Fault::user(format!("`{name}` in `{typed}` is no metric"));
        let divided = self.name.split_once(' ').filter(|_| self.stack.is_none());
        Err(match divided.filter(|(_, metric)| TrialMetric::of(metric.trim()).is_some()) {
            Some((stack, metric)) => {
                let metric = metric.trim();
                fault.hint(format!("put a `:` behind the stack, as in `{stack}: {metric} > …`"))
            }
            None => fault.hint(instead(&name, "metrics", known)),
        })
    }

    /// Returns how an arm stands to it, of a run whose noise is not known.
    #[must_use]
    pub fn standing(&self, arm: &ArmFindings) -> Standing {
        self.standing_over(arm, None)
    }

    /// Returns how an arm stands to it. That it is above a limit of what costs more is shown by the
    /// verdict that it differs; above one of what costs less, such as `wall > -30%`, also by its
    /// distance from that, where it is more than the noise floor.
    fn standing_over(&self, arm: &ArmFindings, wall_floor: Option<f64>) -> Standing {
        let Some(overhead) = self.overhead(arm) else { return Standing::Unknown };
        let judged = arm.metric(&self.metric).and_then(|metric| metric.judgement.as_ref());
        let is_shown = match judged {
            Some(judged) => judged.verdict == Verdict::Differs,
            None => self.name != "wall" || arm.verdict == Verdict::Differs,
        };
        let floor = match judged {
            Some(judged) => judged.noise_floor.as_ref().map(floor),
            None => wall_floor,
        };
        let is_far = |floor: f64| self.ratio < 1.0 && overhead.low > self.ratio * (1.0 + floor);
        let is_shown = is_shown || floor.is_some_and(is_far);
        let rounded_away = judged.and_then(|judged| judged.step_share).unwrap_or(0.0);
        if is_shown && overhead.low > self.ratio {
            Standing::Crossed
        } else if overhead.high * (1.0 + rounded_away) <= self.ratio && !has_lost_most(arm) {
            Standing::Kept
        } else {
            Standing::Undecided
        }
    }

    /// Says why there is no number, or why one beyond the limit does not decide.
    fn because(&self, arm: &ArmFindings, standing: Standing, is_baseline_lost: bool) -> String {
        let is_beyond = |found: &Interval| found.low > self.ratio || found.high <= self.ratio;
        match (standing, &arm.verdict) {
            (Standing::Unknown, Verdict::Invalid { reason, .. }) => reason.clone(),
            (Standing::Undecided, _) if !self.overhead(arm).is_some_and(is_beyond) => String::new(),
            (Standing::Undecided, _) if is_baseline_lost || has_lost_most(arm) => {
                String::from("more trials were lost than count")
            }
            (Standing::Undecided, _) => {
                let judged = arm.metric(&self.metric).and_then(|metric| metric.judgement.as_ref());
                judged.map_or_else(|| arm.because.clone(), |judged| judged.because.clone())
            }
            _ => String::new(),
        }
    }

    fn overhead<'a>(&self, arm: &'a ArmFindings) -> Option<&'a Interval> {
        let metric = arm.metric(&self.metric)?;
        metric.overhead_at_look.as_ref().or(metric.overhead.as_ref())
    }
}

/// Tells whether more trials of an arm were lost than count: those that are left then say nothing
/// of the others.
pub(crate) fn has_lost_most(arm: &ArmFindings) -> bool {
    let is_lost =
        |trial: &&TrialPoint| ["failed", "broken", "invalid"].contains(&trial.state.as_str());
    arm.trials.iter().filter(is_lost).count() > arm.trial_count as usize
}

/// The noise floor of wall time: how far the baseline may be from itself, as a share.
fn wall_floor(arms: &[ArmFindings]) -> Option<f64> {
    let again = arms.iter().find(|arm| arm.is_again())?;
    again.progress.last().map(|point| floor(&point.overhead))
}

/// The largest departure from 1 in an interval, as a share, counted from the smaller side.
fn floor(interval: &Interval) -> f64 {
    surtax_statistics::departure(interval.low).max(surtax_statistics::departure(interval.high))
}

/// A stack without its options: `qemu+runc` of `qemu:memory=1G,accel=tcg+runc`.
fn layers(stack: &str) -> String {
    let kinds = stack.split('+').map(|layer| layer.split(':').next().unwrap_or_default());
    kinds.collect::<Vec<_>>().join("+")
}

/// `+12 %`, `−3 %`, `7.4×`.
fn cost(ratio: f64) -> String {
    if ratio >= PERCENT_UNTIL {
        return format!("{}×", super::number::trimmed(ratio, 1));
    }
    let sign = if ratio < 1.0 { '−' } else { '+' };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

#[cfg(test)]
mod tests {
    use crate::finding::Gap;
    use crate::finding::threshold::*;
    use crate::report::html::tests::sample;

    fn threshold(text: &str) -> Threshold {
        text.parse().unwrap()
    }

    fn arm(low: f64, high: f64, verdict: Verdict) -> ArmFindings {
        let mut arm = sample::arm(2, "runc", "compared", 1.0, verdict);
        let overhead = Interval { ratio: f64::midpoint(low, high), low, high, confidence: 0.95 };
        arm.metrics.retain(|metric| metric.metric == "wall_ns");
        arm.metrics[0].overhead = Some(overhead);
        arm
    }

    #[test]
    fn a_threshold_is_a_metric_and_an_overhead() {
        for (text, metric, ratio) in [
            ("wall > +3%", "wall_ns", 1.03),
            ("wall>3%", "wall_ns", 1.03),
            ("cpu > 1.5x", "cpu_total_ns", 1.5),
            ("start_ns > +200 %", "start_ns", 3.0),
            ("memory > -5%", "memory_peak_bytes", 0.95),
        ] {
            let read = threshold(text);
            assert_eq!(read.metric, metric, "{text}");
            assert!((read.ratio - ratio).abs() < 1e-12, "{text}: {}", read.ratio);
        }
        for text in ["", "wall", "wall > 3", "wall < 3%", "wall > NaN%", "wall > -100%"] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
        let metrics = |of_workload| Metrics { of_workload, is_of_fixed_time: false };
        let fault = threshold("wal > 3%").require(metrics(&[])).unwrap_err();
        assert_eq!(fault.message, "`wal` in `wal > 3%` is no metric");
        assert!(fault.hint.unwrap().starts_with("use `wall`"));
        let of_workload = [String::from("latency_p99.9")];
        assert_eq!(threshold("latency_p99.9 > 2x").require(metrics(&of_workload)), Ok(()));
        assert_eq!(threshold("start > 2x").require(metrics(&of_workload)), Ok(()));
        let fault = threshold("latency_p9.9 > 2x").require(metrics(&of_workload)).unwrap_err();
        assert!(fault.hint.unwrap().starts_with("use `latency_p99.9`"));
        let fixed = Metrics { is_of_fixed_time: true, ..metrics(&of_workload) };
        let fault = threshold("wall > 3%").require(fixed).unwrap_err();
        assert!(fault.message.ends_with("takes as long in every stack"), "{fault}");
        assert_eq!(fault.hint.unwrap(), "hold one of its own metrics: `latency_p99.9`");
        assert_eq!(threshold("cpu > 3%").require(fixed), Ok(()));
        let fault = "wall < 3%".parse::<Threshold>().unwrap_err();
        assert_eq!(fault.message, "`wall < 3%` is no threshold: it has no `>`");
        let fault = threshold("runc wall > 3%").require(metrics(&[])).unwrap_err();
        assert_eq!(
            fault.hint.as_deref(),
            Some("put a `:` behind the stack, as in `runc: wall > …`")
        );
        let fault = "wall >= 3%".parse::<Threshold>().unwrap_err();
        assert_eq!(fault.message, "`wall >= 3%` is no threshold: it has `>=`");
        let fault = "wall > 3".parse::<Threshold>().unwrap_err();
        assert_eq!(fault.message, "`3` in `wall > 3` is no limit of a cost");
    }

    #[test]
    fn a_stack_that_is_to_cost_less_and_costs_the_same_has_crossed_that() {
        let over = |low, high, verdict, floor| {
            threshold("wall > -30%").standing_over(&arm(low, high, verdict), floor)
        };
        let alike = Verdict::Equivalent;
        assert_eq!(over(0.98, 1.02, alike.clone(), Some(0.03)), Standing::Crossed);
        assert_eq!(over(0.9, 1.1, Verdict::Inconclusive, Some(0.2)), Standing::Crossed);
        // So far may the baseline be from itself.
        assert_eq!(over(0.9, 1.1, Verdict::Inconclusive, Some(0.3)), Standing::Undecided);
        assert_eq!(over(0.98, 1.02, alike, None), Standing::Undecided);
        assert_eq!(over(0.75, 0.8, Verdict::Differs, Some(0.03)), Standing::Crossed);
        assert_eq!(over(0.6, 0.65, Verdict::Differs, Some(0.03)), Standing::Kept);
        // The noise of a run is found among its arms.
        let arms = crate::finding::compare::tests::example(6, |_| {}).arms;
        assert!(wall_floor(&arms).is_some_and(|floor| floor < 0.1), "{:?}", wall_floor(&arms));
    }

    #[test]
    fn a_threshold_may_be_of_one_stack() {
        let read = threshold("qemu:accel=tcg,memory=1G+runc: wall > 3x");
        assert_eq!(read.metric, "wall_ns");
        for (typed, stacks) in [
            ("wall > 3x", [true, true, true]),
            ("qemu+runc: wall > 3x", [true, false, false]),
            ("qemu:accel=tcg+runc:wall>3x", [true, false, false]),
            ("qemu:accel=kvm+runc: wall > 3x", [false, false, false]),
            ("qemu: wall > 3x", [false, true, false]),
            (" runc : wall > 3x", [false, false, true]),
        ] {
            let threshold = threshold(typed);
            let all = ["qemu:accel=tcg+runc", "qemu", "runc"];
            assert_eq!(all.map(|stack| threshold.is_of(stack)), stacks, "{typed}");
            let beside =
                |stack| format!("{stack} beside adversary.load:cpu=50@qemu:memory=1G+runc");
            assert_eq!(all.map(|stack| threshold.is_of(&beside(stack))), stacks, "{typed}");
        }
        let compared = [String::from("runc"), String::from("gvisor")];
        assert_eq!(threshold("gvisor: wall > 3x").require_stack(&compared), Ok(()));
        let fault = threshold("gvisr: wall > 3x").require_stack(&compared).unwrap_err();
        assert_eq!(fault.message, "`gvisr` in `gvisr: wall > 3x` is no stack that is compared");
        assert!(fault.hint.unwrap().starts_with("use `gvisor`"));
    }

    #[test]
    fn a_stack_is_held_against_what_is_of_it() {
        let thresholds = [threshold("wall > +3%"), threshold("runc: wall > +7%")];
        let crossed = arm(1.05, 1.09, Verdict::Differs);
        let mut other = arm(0.99, 1.02, Verdict::Equivalent);
        other.stack = String::from("gvisor");
        let baseline = sample::arm(0, "native", "baseline", 1.0, Verdict::Baseline);
        let held = held(&thresholds, &[baseline, crossed, other]);
        let standings: Vec<Standing> = held.iter().map(|held| held.standing).collect();
        assert_eq!(standings, [Standing::Crossed, Standing::Kept, Standing::Undecided]);
        let said = held[2].to_string();
        assert!(said.starts_with("`runc: wall > +7%` is not decided for `runc`: +7"), "{said}");
    }

    #[test]
    fn a_point_estimate_beyond_the_threshold_crosses_nothing() {
        let limit = threshold("wall > +3%");
        assert_eq!(limit.standing(&arm(1.05, 1.09, Verdict::Differs)), Standing::Crossed);
        assert_eq!(limit.standing(&arm(1.02, 1.20, Verdict::Differs)), Standing::Undecided);
        assert_eq!(limit.standing(&arm(0.99, 1.02, Verdict::Equivalent)), Standing::Kept);
    }

    #[test]
    fn a_threshold_is_not_kept_by_the_few_trials_that_were_not_lost() {
        let mut arm = arm(0.99, 1.02, Verdict::Equivalent);
        let standing = |arm: &ArmFindings| threshold("wall > +3%").standing(arm);
        let mut findings = sample::colleague();
        sample::run_trials(&mut findings, 1);
        let tried = findings.arms.iter().flat_map(|arm| &arm.trials).next().unwrap();
        let lost = TrialPoint { state: String::from("failed"), ..tried.clone() };
        arm.trials.extend(vec![lost.clone(); arm.trial_count as usize]);
        assert_eq!(standing(&arm), Standing::Kept);
        arm.trials.push(lost);
        assert_eq!(standing(&arm), Standing::Undecided);
    }

    #[test]
    fn wall_time_that_is_not_said_to_differ_crosses_nothing() {
        let limit = threshold("wall > +3%");
        assert_eq!(limit.standing(&arm(1.05, 1.09, Verdict::Inconclusive)), Standing::Undecided);
    }

    #[test]
    fn a_metric_of_a_workload_crosses_only_where_its_own_verdict_is_that_it_differs() {
        let standing = |verdict: Verdict| {
            let mut arm = arm(1.05, 1.09, Verdict::Equivalent);
            arm.metrics[0].metric = String::from("rate");
            arm.metrics[0].judgement = Some(sample::judgement(verdict));
            threshold("rate > +3%").standing(&arm)
        };
        assert_eq!(standing(Verdict::Differs), Standing::Crossed);
        assert_eq!(standing(Verdict::Inconclusive), Standing::Undecided);
    }

    #[test]
    fn a_stack_without_the_number_is_unknown_and_not_kept() {
        let gap = arm(
            1.0,
            1.0,
            Verdict::Invalid { gap: Gap::Broken, reason: String::from("it is gone") },
        );
        assert_eq!(threshold("memory > +3%").standing(&gap), Standing::Unknown);
    }
}
