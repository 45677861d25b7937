//! Facts about a run as a whole: what was asked, when, and how it is repeated.

use super::foreign::line;
use super::plan_digest::PlanDigest;
use super::{RunFacts, estimate, steady};
use crate::ledger::{Run, StoredTrial, calendar};
use crate::plan::{Plan, Word, shell_line};
use crate::workload::Definition;

/// Returns when the first trial began, in nanoseconds since the run began; 0 without trials.
pub(super) fn first_began(trials: &[StoredTrial]) -> u64 {
    trials.iter().map(|trial| trial.began_at.0).min().unwrap_or(0)
}

/// The equivalence margin as a share.
pub(super) fn margin_of(plan: &Plan) -> f64 {
    f64::from(plan.equivalence_margin_ppm) / 1e6
}

/// Returns what is said of a run as a whole, whose workload is outlined as this.
pub(super) fn run_facts(
    plan: &Plan,
    run: &Run,
    trials: &[StoredTrial],
    blocks_done: u32,
    workload: Option<&Definition>,
) -> RunFacts {
    let is_of_fixed_time = workload.is_some_and(|workload| workload.is_of_fixed_time);
    let last_ended = trials.iter().filter_map(|trial| trial.ended_at).map(|at| at.0).max();
    RunFacts {
        id: line(&run.id),
        title: line(&plan.title),
        command: plan.command.clone(),
        workload: plan.workload.as_ref().map(|workload| line(&workload.typed())),
        cwd: line(&Word::from(plan.cwd.as_path()).shown()),
        repeat_with: line(&repeat_with(plan)),
        began_at: calendar::rfc3339(run.began_at),
        seed: plan.seed,
        blocks_planned: plan.runs.filter(|_| plan.looks().is_empty()),
        blocks_done,
        state: run.state.word().into(),
        wall_ns: last_ended.unwrap_or(0).saturating_sub(first_began(trials)),
        baseline: line(&plan.baseline.to_string()),
        equivalence_margin: margin_of(plan),
        precision: plan.precision(),
        is_of_fixed_time,
        about: workload.map_or_else(String::new, |workload| line(&workload.about)),
        conduct: steady::conduct(plan, is_of_fixed_time),
        plan_digest: PlanDigest::of(plan),
    }
}

impl RunFacts {
    /// Divides the line that repeats the run: `cd DIRECTORY`, and what is asked there. `None` of a
    /// line that says no directory.
    pub(crate) fn repeat_in(&self) -> Option<(&str, &str)> {
        let place = shell_line(["cd", &self.cwd]);
        let behind = self.repeat_with.strip_prefix(&place);
        match behind.and_then(|behind| behind.strip_prefix(" && ")) {
            Some(asked) => Some((&self.repeat_with[..place.len()], asked)),
            // A directory whose name is no plain text is not spelled as it is shown.
            None => self.repeat_with.split_once(" && "),
        }
    }
}

/// The line that repeats a run, without the values of `--env`, which may be secrets: a shell fills
/// them in from its own variables.
fn repeat_with(plan: &Plan) -> String {
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.bytes().all(is_part) && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    plan.repeated(|name, _| {
        if is_name(name) {
            format!("{name}=\"${name}\"")
        } else {
            shell_line([format!("{name}=…")])
        }
    })
}

/// Returns the average time of a block in nanoseconds, without the time between two sessions of a
/// run that was resumed; `None` where no block is done.
pub(super) fn block_ns(trials: &[StoredTrial], blocks_done: u32) -> Option<f64> {
    let took = |trial: &StoredTrial| Some(trial.ended_at?.0.saturating_sub(trial.began_at.0));
    let all = trials.iter().filter_map(took).fold(0, u64::saturating_add);
    (blocks_done > 0).then(|| estimate::float(all) / f64::from(blocks_done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::plan;

    /// Returns the line that repeats a run with these variables.
    fn repeated(environment: Vec<(String, Word)>) -> String {
        repeat_with(&Plan { environment, ..plan(&["native", "runc"]) })
    }

    #[test]
    fn a_hundred_thousand_variables_are_each_left_to_the_shell() {
        let variable = |number| (format!("NAME_{number}"), Word::from("s3cret"));
        let line = repeated((0..100_000).map(variable).collect());
        assert_eq!(line.matches(" --env ").count(), 100_000);
        assert!(line.contains(" --env NAME_0=\"$NAME_0\" --env NAME_1=\"$NAME_1\" "));
        assert!(line.contains(" --env NAME_99999=\"$NAME_99999\" "));
        assert!(line.ends_with(" -- make -j4") && !line.contains("s3cret"));
    }

    #[test]
    fn what_no_shell_has_a_variable_for_is_left_out_of_the_line() {
        let names = ["A", "1A", "a b", "x;y", "$(id)"];
        let line = repeated(names.map(|name| (name.to_owned(), Word::from("s3cret"))).into());
        let expected = "--env A=\"$A\" --env '1A=…' --env 'a b=…' --env 'x;y=…' --env '$(id)=…' ";
        assert!(line.contains(expected) && !line.contains("s3cret"), "{line}");
    }
}
