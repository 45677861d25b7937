//! The line for a shell that asks the same question again, in the same order.
//!
//! It names what differs from what `surtax compare` does by itself, and nothing else, so that it
//! can be read. The caller's own environment is not in it: see `Plan::inherit_environment`.

use super::conduct::{DEFAULT_ITERATIONS, DEFAULT_PADDING};
use super::instances::DEFAULT_INSTANCES;
use super::refuse::{
    DEFAULT_DEADLINE, DEFAULT_MARGIN_PPM, DEFAULT_START_DEADLINE, PRECISION_RUNS, is_native,
    usual_title,
};
use super::{Cache, Plan, Word, duration, file, percentage, shelf, shell_line};
use crate::driver::registered;
use std::iter;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// Keys of a plan file that [`Flags`] says by themselves where they are left out of it.
const OF_A_QUESTION: [&str; 7] =
    ["title", "workload", "stacks", "baseline", "beside", "meters", "runs"];

/// The flags that say them.
const SAID_BY_A_FILE: [&str; 6] =
    ["--title", "--workload", "--in", "--baseline", "--beside", "--meter"];

/// Flags of `surtax compare` and `surtax run`, each with its value where it has one, as a shell
/// reads it.
type Flags = Vec<(&'static str, Option<String>)>;

impl Plan {
    /// `cd DIRECTORY && surtax compare …`: read again, it is this plan. Of a plan that comes with
    /// surtax it is `surtax run NAME …`.
    #[must_use]
    pub fn repeat_with(&self) -> String {
        self.repeated(|name, value| shell_line([value.after(&format!("{name}="))]))
    }

    /// The same, with what `variable` says of each variable behind its `--env`, as a shell reads
    /// it.
    pub(crate) fn repeated(&self, variable: impl Fn(&str, &Word) -> String) -> String {
        let mut flags = self.flags(variable);
        let mut line = shell_line([b"cd".as_slice(), self.cwd.as_os_str().as_bytes()]);
        line.push_str(" && ");
        line.push_str(&match self.ready(&mut flags) {
            Some(name) => shell_line(["surtax", "run", name]),
            None => String::from("surtax compare"),
        });
        for (name, value) in &flags {
            for word in iter::once(*name).chain(value.as_deref()) {
                line.push(' ');
                line.push_str(word);
            }
        }
        // A workload brings its command along.
        if self.workload.is_none() && !self.command.is_empty() {
            line.push_str(" -- ");
            line.push_str(&shell_line(&self.command));
        }
        line
    }

    /// The name of the plan that comes with surtax and asks this question, in these stacks and as
    /// it is now; what it says need not be said by flags.
    fn ready(&self, flags: &mut Flags) -> Option<&'static str> {
        let of_this_title = shelf::READY.iter().filter(|(_, text)| text.contains(&self.title));
        let mut drafts = of_this_title.filter_map(|(name, text)| {
            let draft = file::parse(text, name, &registered()).ok()?;
            draft.places.keys().all(|key| OF_A_QUESTION.contains(key)).then_some((*name, draft))
        });
        let (name, draft) = drafts.find(|(_, draft)| {
            draft.title.as_ref() == Some(&self.title)
                && draft.workload == self.workload
                && draft.stacks == self.stacks
                && draft.baseline.as_ref() == Some(&self.baseline)
                && draft.beside == self.beside
                && draft.meters == self.meters
        })?;
        let runs = draft.runs.map(|runs| runs.to_string());
        if self.runs.is_none() && runs.is_some() {
            return None; // no flag takes back what the file says
        }
        flags.retain(|(flag, value)| {
            let is_said = SAID_BY_A_FILE.contains(flag) || *flag == "--runs" && *value == runs;
            !is_said
        });
        Some(name)
    }

    fn flags(&self, variable: impl Fn(&str, &Word) -> String) -> Flags {
        let mut flags = Flags::new();
        let mut flag =
            |name: &'static str, value: String| flags.push((name, Some(shell_line([value]))));
        let stacks: Vec<String> = self.stacks.iter().map(ToString::to_string).collect();
        flag("--in", stacks.join(","));
        if self.stacks.iter().find(|stack| is_native(stack)) != Some(&self.baseline) {
            flag("--baseline", self.baseline.to_string());
        }
        for meter in &self.meters {
            flag("--meter", meter.to_string());
        }
        for neighbour in &self.beside {
            flag("--beside", neighbour.to_string());
        }
        if let Some(workload) = &self.workload {
            flag("--workload", workload.typed());
        }
        if self.title != usual_title(&self.command, self.workload.as_ref()) {
            flag("--title", self.title.clone());
        }
        for path in &self.writable {
            flag("--writable", path.to_string_lossy().into_owned());
        }
        let variables = self.environment.iter();
        flags.extend(variables.map(|(name, value)| ("--env", Some(variable(name, value)))));
        flags.extend(self.flags_of_conduct());
        if !self.inherit_environment {
            flags.push(("--clear-env", None));
        }
        if self.conduct.ignore_failure {
            flags.push(("--ignore-failure", None));
        }
        if self.conduct.keep_disturbed {
            flags.push(("--keep-disturbed", None));
        }
        flags
    }

    /// Lists the flags for how often, how long, and in which surroundings.
    fn flags_of_conduct(&self) -> Flags {
        let Self { conduct, runs, precision_ppm, .. } = self;
        let number = |number: u32, usual: u32| (number != usual).then(|| number.to_string());
        let time = |time: Duration, usual: Duration| (time != usual).then(|| duration::text(time));
        // Said by the precision already.
        let is_usual = precision_ppm.is_some() && self.time_budget_ns.is_none();
        let runs = runs.filter(|&runs| !(is_usual && runs == PRECISION_RUNS));
        // Said by the warm cache already.
        let warm_up = u32::from(conduct.cache == Cache::Warm);
        let margin = self.equivalence_margin_ppm;
        let margin = (margin != DEFAULT_MARGIN_PPM).then(|| percentage::text(margin));
        let all = [
            ("--runs", runs.map(|runs| runs.to_string())),
            ("--time", self.time_budget().map(duration::text)),
            ("--precision", precision_ppm.map(percentage::text)),
            ("--warmup", number(self.warm_up, warm_up)),
            ("--iterations", number(conduct.iterations, DEFAULT_ITERATIONS)),
            ("--instances", number(conduct.instances, DEFAULT_INSTANCES)),
            ("--cache", conduct.cache.word().map(str::to_owned)),
            ("--settle", time(conduct.settle(), Duration::ZERO)),
            ("--watch", conduct.watch().map(duration::interval_text)),
            ("--env-padding", number(conduct.padding_limit_bytes, DEFAULT_PADDING)),
            ("--deadline", time(self.command_deadline(), DEFAULT_DEADLINE)),
            ("--start-deadline", time(self.start_deadline(), DEFAULT_START_DEADLINE)),
            ("--margin", margin),
            ("--seed", Some(self.seed.to_string())),
        ];
        let said = |(name, value): (_, Option<String>)| Some((name, Some(shell_line([value?]))));
        all.into_iter().filter_map(said).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::around;
    use super::super::{Defaults, Draft, Plan, file, shelf};
    use crate::driver::registered;

    /// Returns the plan of `surtax run NAME` with these flags, and the line that repeats it.
    fn planned(name: &str, flags: Draft) -> (Plan, String) {
        let descriptors = registered();
        let text = shelf::READY.iter().find(|(ready, _)| *ready == name).unwrap().1;
        let draft = file::parse(text, name, &descriptors).unwrap().overlaid_by(flags);
        let plan =
            draft.complete(&Defaults { descriptors: &descriptors, ..around() }).unwrap().plan;
        let line = plan.repeat_with();
        (plan, line.split_once(" && ").unwrap().1.to_owned())
    }

    #[test]
    fn a_plan_that_comes_with_surtax_is_repeated_by_its_name_and_what_was_said_over_it() {
        let seed = |plan: &Plan| plan.seed;
        for (name, _) in shelf::READY {
            let (plan, line) = planned(name, Draft::default());
            assert_eq!(line, format!("surtax run {name} --seed {}", seed(&plan)));
        }
        let over = Draft { runs: Some(2), warm_up: Some(3), seed: Some(9), ..Draft::default() };
        assert_eq!(planned("network", over).1, "surtax run network --runs 2 --warmup 3 --seed 9");
    }

    #[test]
    fn every_word_is_quoted_where_a_shell_needs_it() {
        let (mut plan, _) = planned("network", Draft::default());
        plan.workload = None;
        plan.title = String::from("it's mine");
        plan.cwd = "/a b".into();
        plan.environment = vec![("A".into(), "x y".into()), ("B".into(), "1".into())];
        plan.command = vec!["echo".into(), "$A".into()];
        let line = plan.repeat_with();
        assert!(line.starts_with("cd '/a b' && surtax compare --in native,"), "{line}");
        assert!(line.contains(r" --title 'it'\''s mine' "), "{line}");
        assert!(line.contains(" --env 'A=x y' --env B=1 "), "{line}");
        assert!(line.ends_with(" -- echo '$A'"), "{line}");
        plan.command.clear();
        assert!(!plan.repeat_with().contains(" -- "));
    }

    #[test]
    fn a_plan_that_asks_something_else_is_repeated_in_full() {
        let other = |draft| planned("network", draft).1;
        let title = Some(String::from("mine"));
        assert!(other(Draft { title, ..Draft::default() }).starts_with("surtax compare --in "));
        let (mut plan, _) = planned("network", Draft::default());
        plan.stacks.pop();
        assert!(plan.repeat_with().contains(" && surtax compare --in native,"));
        // A workload's file may have changed since.
        let (mut plan, _) = planned("network", Draft::default());
        plan.workload.as_mut().unwrap().text += "# changed";
        assert!(plan.repeat_with().contains(" && surtax compare "));
        let (mut plan, _) = planned("network", Draft::default());
        (plan.runs, plan.time_budget_ns) = (None, Some(60_000_000_000));
        assert!(plan.repeat_with().contains(" && surtax compare "));
    }
}
