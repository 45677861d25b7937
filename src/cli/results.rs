//! Flags of a run beside its plan: what is written of it, what it is held to, what it waits for.

use super::export::Exports;
use super::place;
use crate::driver::registered;
use crate::fault::Fault;
use crate::finding::threshold::{self, Metrics, Standing, Threshold, held};
use crate::finding::{Findings, RunFacts};
use crate::layer::StackSpec;
use crate::plan::{Arm, Draft, LOOKS, Plan, shell_line};
use crate::workload::Workload;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// Flags of a run beside its plan and its file.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct RunFlags {
    /// Also writes the report as one HTML file.
    #[arg(long, value_name = "FILE.html", help_heading = "Results")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) exports: Exports,
    #[command(flatten)]
    pub(super) gate: GateArguments,
    /// Begins when no other surtax works on this machine any more.
    #[arg(long, help_heading = "How often and how long")]
    pub(super) wait: bool,
}

impl RunFlags {
    /// Lists the files that results are written to.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.report.as_deref().into_iter().chain(self.exports.paths())
    }

    /// Refuses early what would be refused after hours of measuring.
    pub(super) fn require_places(&self) -> Result<(), Fault> {
        self.report.as_deref().map_or(Ok(()), place::require_page)?;
        self.exports.require_places()
    }
}

/// Flags that decide the exit code.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct GateArguments {
    /// Exits with 1 if a stack is shown to cost more than this, such as `wall > +3%` or, of one
    /// stack alone, `gvisor: wall > 2x`; may be repeated.
    ///
    /// The whole 95 % interval must lie above it, and of wall time and of a workload's metric the
    /// verdict must be that the stack differs, or, of a limit below 0 %, the distance from that
    /// more than the noise floor; a point estimate fails nothing. Metrics: wall, cpu, cpu-user,
    /// cpu-system, cpu-others, memory, memory-others, start, stop, energy, and those of the
    /// workload, in the direction that costs; a limit is a share (`+3%`) or a factor (`2x`). A
    /// stack without options means all of the same layers. Where nothing is crossed the exit code
    /// is 3 if a stack has no such number, 4 if the interval lies on both sides of the limit, so
    /// that nothing is decided, and 0 if every limit is kept.
    #[arg(long, value_name = "THRESHOLD", help_heading = "Results")]
    pub(super) fail_if: Vec<Threshold>,
    /// Exits with 1 (`fail`) or 0 (`pass`) where a threshold is not decided, and not with 4; or
    /// goes on (`retry`).
    ///
    /// With `retry` thresholds are looked at after `--runs` blocks, after twice, and after four
    /// times as many, and the run ends as soon as all are decided, or one is crossed. So that three
    /// looks are wrong as rarely as one, each holds them against intervals of 98.3 %.
    #[arg(long, value_name = "HOW", requires = "fail_if", help_heading = "Results")]
    pub(super) undecided: Option<Undecided>,
}

/// Meaning of a threshold that is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Undecided {
    /// The same as one that is crossed.
    Fail,
    /// The same as one that is kept.
    Pass,
    /// A reason to measure more: up to four times as many blocks.
    Retry,
}

impl GateArguments {
    /// Returns the thresholds of a run in this directory. A stack that one names is written as
    /// surtax does, where it is one of `--in`, with absolute paths; another may be a layer without
    /// what it needs, which means all stacks of that.
    fn thresholds(&self, cwd: &Path) -> Vec<Threshold> {
        let known = registered();
        let rewrite = |typed: String| match StackSpec::parse_with(&typed, &known) {
            Ok(mut stack) => {
                stack.make_absolute(&known, cwd);
                stack.to_string()
            }
            Err(_) => typed,
        };
        self.fail_if.iter().map(|threshold| threshold.clone().with_stack(rewrite)).collect()
    }

    /// Refuses thresholds on what no trial of this plan has.
    pub(super) fn require_metrics(&self, plan: &Plan) -> Result<(), Fault> {
        let definition = plan.workload.as_ref().map(Workload::resolve).transpose()?;
        let is_of_fixed_time = definition.as_ref().is_some_and(|it| it.is_of_fixed_time);
        let of_workload = definition.map_or_else(Vec::new, |definition| definition.metric_names());
        let compared = plan.arms().into_iter().filter(Arm::is_compared);
        let compared: Vec<String> = compared.map(|arm| arm.stack.to_string()).collect();
        let metrics = Metrics { of_workload: &of_workload, is_of_fixed_time };
        self.require_among(metrics, &compared, (&plan.cwd, &plan.baseline.to_string()))
    }

    /// Refuses thresholds on what is none of these metrics, and no metric that every trial has, and
    /// on a stack that is none of these, which are compared with the baseline of a run in this
    /// directory.
    pub(super) fn require_among(
        &self,
        metrics: Metrics<'_>,
        compared: &[String],
        (cwd, baseline): (&Path, &str),
    ) -> Result<(), Fault> {
        self.thresholds(cwd).iter().try_for_each(|threshold| {
            threshold.require(metrics)?;
            if compared.is_empty() {
                return Err(Fault::user(format!(
                    "`--fail-if '{threshold}'` has nothing to decide: only `{baseline}` is measured"
                ))
                .hint("name what to compare it with, as in `--in native,runc`"));
            }
            threshold.require_stack(compared)
        })
    }

    /// Lays over a draft how often its thresholds are looked at.
    pub(super) fn over(&self, draft: Draft) -> Draft {
        let looks = (self.undecided == Some(Undecided::Retry)).then_some(LOOKS);
        Draft { looks: looks.or(draft.looks), ..draft }
    }

    /// Refuses to retry what cannot go on: a run that was begun to end after its blocks, or one
    /// that is only shown.
    pub(super) fn require_looks(&self, plan: Option<&Plan>) -> Result<(), Fault> {
        let can = plan.is_some_and(|plan| !plan.looks().is_empty());
        if self.undecided != Some(Undecided::Retry) || can {
            return Ok(());
        }
        Err(Fault::user(
            "`--undecided retry` is said when a run begins: how often it looks at its thresholds \
             is fixed before the first look",
        )
        .hint("give it to `surtax compare` or `surtax run`, or leave it out here"))
    }

    /// See [`threshold::why_go_on`].
    pub(super) fn why_go_on(&self, findings: &Findings) -> Option<String> {
        threshold::why_go_on(&self.thresholds(Path::new(&findings.run.cwd)), &findings.arms)
    }

    /// Refuses thresholds that a run of this plan could not decide, however it ends.
    pub(super) fn require_an_answer(&self, plan: &Plan) -> Result<(), Fault> {
        self.require_metrics(plan)?;
        match (self.fail_if.first(), plan.runs_too_few()) {
            (Some(threshold), Some((runs, need))) => Err(Fault::user(format!(
                "`--fail-if '{threshold}'` cannot be decided with `runs = {runs}`: an interval \
                 takes {need} blocks"
            ))
            .hint("ask for `--runs 10`, or leave the count out")),
            _ => Ok(()),
        }
    }
}

/// Holds findings to thresholds, which the line that repeats the run then has, too.
pub(super) fn hold(gate: &GateArguments, findings: &mut Findings) {
    let thresholds = gate.thresholds(Path::new(&findings.run.cwd));
    findings.thresholds = held(&thresholds, &findings.arms);
    let is_let_pass = gate.undecided == Some(Undecided::Pass);
    for held in &mut findings.thresholds {
        held.passes |= is_let_pass && held.standing == Standing::Undecided;
    }
    findings.run.repeat_with = gated(&findings.run, gate);
}

/// The line that repeats a run, held to thresholds: those are the first options of its command.
fn gated(run: &RunFacts, gate: &GateArguments) -> String {
    let typed = gate.fail_if.iter().map(ToString::to_string);
    let mut words: Vec<String> =
        typed.flat_map(|threshold| [String::from("--fail-if"), threshold]).collect();
    let how = gate.undecided.and_then(|how| how.to_possible_value());
    words.extend(how.map(|how| format!("--undecided={}", how.get_name())));
    let options = shell_line(words.iter().map(String::as_str));
    if words.is_empty() {
        return run.repeat_with.clone();
    }
    let asked = run
        .repeat_in()
        .and_then(|(place, asked)| Some((place, asked.strip_prefix("surtax compare ")?)));
    match asked {
        Some((place, asked)) => format!("{place} && surtax compare {options} {asked}"),
        // A plan that comes with surtax names its stacks itself, and no command follows.
        None => format!("{} {options}", run.repeat_with),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn a_threshold_names_a_stack_as_people_type_it() {
        let (here, named) = (Path::new("/srv/work"), "runc:binary=/srv/work/new/runc");
        for (typed, stack) in [
            ("ssh: wall > 2x", "ssh:host=box"),
            ("qemu:memory=1G,accel=tcg: wall > 2x", "qemu:accel=tcg,memory=1G"),
            ("runsc: wall > 2x", "gvisor"),
            ("runc:binary=./new/runc: wall > 2x", named),
        ] {
            let compared = [String::from(stack)];
            let gate = GateArguments { fail_if: vec![typed.parse().unwrap()], undecided: None };
            let [threshold] = &*gate.thresholds(here) else { panic!("one was typed") };
            assert_eq!(threshold.require_stack(&compared), Ok(()), "{typed}");
        }
    }

    #[test]
    fn the_line_that_repeats_a_run_has_its_thresholds_too() {
        let gate = |fail_if: &[&str], undecided| GateArguments {
            fail_if: fail_if.iter().map(|text| text.parse().unwrap()).collect(),
            undecided,
        };
        let gated = |cwd: &str, asked: &str, gate| {
            let mut run = example(6, |_| {}).run;
            let place = shell_line(["cd", cwd]);
            run.cwd = cwd.to_owned();
            run.repeat_with = format!("{place} && {asked}");
            let line = super::gated(&run, &gate);
            line.strip_prefix(&place).and_then(|line| line.strip_prefix(" && ")).unwrap().to_owned()
        };
        let both = "a && surtax compare --in b";
        for cwd in ["/a", both] {
            for command in ["x --in y", &format!("sh -c '{both}'")] {
                let asked = format!("surtax compare --in native,runc --seed 1 -- {command}");
                assert_eq!(gated(cwd, &asked, gate(&[], None)), asked);
                let thresholds = &["wall > +3%", "runc: cpu > 2x"];
                assert_eq!(
                    gated(cwd, &asked, gate(thresholds, Some(Undecided::Pass))),
                    format!(
                        "surtax compare --fail-if 'wall > +3%' --fail-if 'runc: cpu > 2x' \
                         --undecided=pass --in native,runc --seed 1 -- {command}"
                    )
                );
            }
        }
        assert_eq!(
            gated("/", "surtax run disks", gate(&["start > 2x"], None)),
            "surtax run disks --fail-if 'start > 2x'"
        );
    }
}
