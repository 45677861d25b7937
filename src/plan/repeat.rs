//! The line for a shell that asks the same question again, in the same order.
//!
//! It names what differs from what `surtax compare` does by itself, and nothing else, so that it can
//! be read. The caller's own environment is not in it: see `Plan::inherit_environment`.

use super::conduct::{DEFAULT_ITERATIONS, DEFAULT_PADDING};
use super::instances::DEFAULT_INSTANCES;
use super::refuse::{
    DEFAULT_DEADLINE, DEFAULT_MARGIN_PPM, DEFAULT_START_DEADLINE, PRECISION_RUNS, is_native,
    nanoseconds, usual_title,
};
use super::{Cache, Plan, duration, percentage, shell_line};

impl Plan {
    /// `cd DIRECTORY && surtax compare …`: read again, it is this plan.
    #[must_use]
    pub fn repeat_with(&self) -> String {
        let cwd = self.cwd.to_string_lossy();
        let words = self.flags();
        let words = ["surtax", "compare"].into_iter().chain(words.iter().map(String::as_str));
        // A workload brings its command along.
        let command = if self.workload.is_none() { self.command.as_slice() } else { &[] };
        let mark = (!command.is_empty()).then_some("--");
        let line = shell_line(words.chain(mark).chain(command.iter().map(String::as_str)));
        format!("{} && {line}", shell_line(["cd", &cwd]))
    }

    fn flags(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut flag = |name: &str, value: String| words.extend([String::from(name), value]);
        let stacks: Vec<String> = self.stacks.iter().map(ToString::to_string).collect();
        flag("--in", stacks.join(","));
        if self.stacks.iter().find(|stack| is_native(stack)) != Some(&self.baseline) {
            flag("--baseline", self.baseline.to_string());
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
        for (name, value) in &self.environment {
            flag("--env", format!("{name}={value}"));
        }
        // Said by the precision already.
        let usual = self.precision_ppm.is_some() && self.time_budget_ns.is_none();
        if let Some(runs) = self.runs.filter(|&runs| !(usual && runs == PRECISION_RUNS)) {
            flag("--runs", runs.to_string());
        }
        if let Some(time) = self.time_budget() {
            flag("--time", duration::text(time));
        }
        if let Some(precision) = self.precision_ppm {
            flag("--precision", percentage::text(precision));
        }
        // Said by the warm cache already.
        let usual_warm_up = u32::from(self.conduct.cache == Cache::Warm);
        if self.warm_up != usual_warm_up {
            flag("--warmup", self.warm_up.to_string());
        }
        if self.conduct.iterations != DEFAULT_ITERATIONS {
            flag("--iterations", self.conduct.iterations.to_string());
        }
        if self.conduct.instances != DEFAULT_INSTANCES {
            flag("--instances", self.conduct.instances.to_string());
        }
        if let Some(word) = self.conduct.cache.word() {
            flag("--cache", word.to_owned());
        }
        if !self.conduct.settle().is_zero() {
            flag("--settle", duration::text(self.conduct.settle()));
        }
        if self.conduct.padding_limit_bytes != DEFAULT_PADDING {
            flag("--env-padding", self.conduct.padding_limit_bytes.to_string());
        }
        if self.command_deadline_ns != nanoseconds(DEFAULT_DEADLINE) {
            flag("--deadline", duration::text(self.command_deadline()));
        }
        if self.start_deadline_ns != nanoseconds(DEFAULT_START_DEADLINE) {
            flag("--start-deadline", duration::text(self.start_deadline()));
        }
        if self.equivalence_margin_ppm != DEFAULT_MARGIN_PPM {
            flag("--margin", percentage::text(self.equivalence_margin_ppm));
        }
        flag("--seed", self.seed.to_string());
        if !self.inherit_environment {
            words.push(String::from("--clear-env"));
        }
        words
    }
}
