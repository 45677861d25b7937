//! Progress on standard error: a line that moves where a person watches, else a line per block.

use super::{Globals, say};
use crate::plan::duration::rough;
use crate::plan::{Costs, Plan, TrialId};
use crate::trial::progress::Progress;
use crate::trial::{Record, TrialResult};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Progress of a plan, for this terminal. `done` are the trials of an earlier session.
#[must_use]
pub fn of_plan(
    plan: &Plan,
    done: impl IntoIterator<Item = TrialId>,
    globals: &Globals,
) -> Box<dyn Progress> {
    let meter = Meter::new(plan, done);
    if globals.quiet {
        Box::new(Silent)
    } else if say::is_watched() {
        Box::new(Bar::new(meter))
    } else {
        Box::new(Lines { meter, said: 0, globals: globals.clone() })
    }
}

/// Knows how far a plan is and how long the rest takes. Shows nothing itself.
#[derive(Clone, Debug)]
pub struct Meter {
    plan: Plan,
    stacks: Vec<String>,
    costs: Costs,
    began_at: Nanoseconds,
    trial_began_at: Nanoseconds,
    blocks_done: u32,
    ended: Vec<u32>,
    failures: u32,
}

impl Meter {
    /// A meter that begins now, with these trials behind it.
    pub fn new(plan: &Plan, done: impl IntoIterator<Item = TrialId>) -> Self {
        let now = clock::monotonic_raw();
        let mut meter = Self {
            stacks: plan.arms().iter().map(|arm| arm.stack.to_string()).collect(),
            costs: Costs::of(plan),
            plan: plan.clone(),
            began_at: now,
            trial_began_at: now,
            blocks_done: 0,
            ended: Vec::new(),
            failures: 0,
        };
        let mut done: Vec<TrialId> = done.into_iter().collect();
        done.sort_unstable();
        done.into_iter().for_each(|trial| meter.count(trial));
        meter
    }

    /// A trial begins at `now`.
    fn begin(&mut self, now: Nanoseconds) {
        self.trial_began_at = now;
    }

    /// The trial that began last ended at `now`.
    fn end(&mut self, trial: TrialId, now: Nanoseconds) {
        self.costs.learn(trial.arm, now.since(self.trial_began_at).into());
        self.count(trial);
    }

    fn count(&mut self, trial: TrialId) {
        self.blocks_done = self.blocks_done.max(trial.block);
        self.ended.push(trial.arm);
        if self.ended.len() >= self.stacks.len() {
            self.ended.clear();
            self.blocks_done = trial.block.saturating_add(1);
        }
    }

    fn blocks(&self, now: Nanoseconds) -> u32 {
        self.costs.blocks(&self.plan, self.blocks_done, self.elapsed(now)).max(self.blocks_done)
    }

    fn elapsed(&self, now: Nanoseconds) -> Duration {
        now.since(self.began_at).into()
    }

    /// Time left, as text.
    fn left(&self, now: Nanoseconds) -> String {
        let elapsed = self.elapsed(now);
        let left = self.costs.left(&self.plan, self.blocks_done, &self.ended, elapsed);
        match left {
            Duration::ZERO => String::from("nearly done"),
            left => format!("{} left", rough(left)),
        }
    }

    fn stack(&self, trial: TrialId) -> &str {
        self.stacks.get(trial.arm as usize).map_or("", String::as_str)
    }

    /// What was new to say about a trial that did not go well; the same arm is not repeated.
    fn trouble(&mut self, record: &Record) -> Option<String> {
        let stack = self.stack(record.trial);
        let text = match &record.result {
            TrialResult::Done(_) => return None,
            TrialResult::CommandFailed(_) => format!("the command failed in `{stack}`"),
            TrialResult::Unavailable { why, .. } => format!("`{stack}` is not usable here: {why}"),
            TrialResult::Broken { why } => format!("`{stack}` broke: {why}"),
            TrialResult::Invalid { why, .. } => {
                format!("a trial of `{stack}` does not count: {why}")
            }
        };
        self.failures += 1;
        let said =
            record.trial.block > 0 && matches!(record.result, TrialResult::Unavailable { .. });
        (!said).then_some(text)
    }
}

/// For `--quiet`.
struct Silent;

impl Progress for Silent {
    fn trial_begins(&mut self, _: TrialId) {}
    fn trial_ended(&mut self, _: &Record) {}
    fn note(&mut self, _: &str) {}
}

/// For log files and pipes.
struct Lines {
    meter: Meter,
    said: u32,
    globals: Globals,
}

impl Progress for Lines {
    fn trial_begins(&mut self, _: TrialId) {
        self.meter.begin(clock::monotonic_raw());
    }

    fn trial_ended(&mut self, record: &Record) {
        let now = clock::monotonic_raw();
        self.meter.end(record.trial, now);
        if let Some(trouble) = self.meter.trouble(record) {
            say::note(&trouble, &self.globals);
        }
        if self.meter.blocks_done > self.said {
            self.said = self.meter.blocks_done;
            let (done, blocks, left) = (self.said, self.meter.blocks(now), self.meter.left(now));
            say::note(&format!("block {done} of {blocks} done, {left}"), &self.globals);
        }
    }

    fn note(&mut self, text: &str) {
        say::note(text, &self.globals);
    }
}

/// For a person who watches. The line moves between trials only: a thread that redraws it would run
/// beside the command that is being measured.
struct Bar {
    meter: Meter,
    bar: ProgressBar,
}

impl Bar {
    fn new(meter: Meter) -> Self {
        let bar = ProgressBar::new(0);
        // A template that does not parse would leave the plain one: an ugly line, not a lost run.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style.progress_chars("━━─"));
        }
        Self { meter, bar }
    }

    fn show(&self, stack: &str) {
        let now = clock::monotonic_raw();
        let arms = u64::try_from(self.meter.stacks.len()).unwrap_or(1);
        let ended = u64::try_from(self.meter.ended.len()).unwrap_or(0);
        let blocks = self.meter.blocks(now);
        self.bar.set_length(u64::from(blocks) * arms);
        self.bar.set_position(u64::from(self.meter.blocks_done) * arms + ended);
        let block = self.meter.blocks_done.saturating_add(1).min(blocks);
        let failures = match self.meter.failures {
            0 => String::new(),
            count => format!(", {count} failed"),
        };
        let left = self.meter.left(now);
        self.bar.set_message(format!("block {block} of {blocks}{failures}, {left}: {stack}"));
    }
}

impl Progress for Bar {
    fn trial_begins(&mut self, trial: TrialId) {
        self.meter.begin(clock::monotonic_raw());
        self.show(&say::escaped(self.meter.stack(trial)));
    }

    fn trial_ended(&mut self, record: &Record) {
        self.meter.end(record.trial, clock::monotonic_raw());
        if let Some(trouble) = self.meter.trouble(record) {
            self.note(&trouble);
        }
        self.show("");
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| say::note(text, &Globals::default()));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    fn broken(trial: TrialId, result: TrialResult) -> Record {
        let zero = Nanoseconds(0);
        Record {
            trial,
            began_at: zero,
            result,
            start_wall: zero,
            stop_wall: zero,
            conditions: Vec::new(),
            leftovers: Vec::new(),
        }
    }

    #[test]
    fn time_left_follows_what_trials_cost() {
        let plan = plan(&["native", "runc"]);
        let mut meter = Meter::new(&plan, []);
        let mut now = meter.began_at;
        for trial in plan.trials().take(15) {
            meter.begin(now);
            now += Nanoseconds(2_000_000_000);
            meter.end(trial, now);
        }
        assert_eq!((meter.blocks_done, meter.blocks(now)), (5, 10));
        assert_eq!(meter.left(now), "30 s left");
    }

    #[test]
    fn a_resumed_run_begins_where_it_stopped() {
        let plan = plan(&["native", "runc"]);
        let mut done: Vec<TrialId> = plan.trials().take(8).collect();
        done.reverse();
        let meter = Meter::new(&plan, done);
        assert_eq!((meter.blocks_done, meter.ended.len()), (2, 2));
    }

    #[test]
    fn a_gap_is_said_once_and_a_failure_every_time() {
        let mut meter = Meter::new(&plan(&["native", "runc"]), []);
        let at = |block| TrialId { block, position: 0, arm: 2 };
        let gap = || TrialResult::Unavailable { why: String::from("no `runc`"), remedy: None };
        let said = meter.trouble(&broken(at(0), gap()));
        assert_eq!(said.as_deref(), Some("`runc` is not usable here: no `runc`"));
        assert_eq!(meter.trouble(&broken(at(1), gap())), None);
        let broke = TrialResult::Broken { why: String::from("silence") };
        assert!(meter.trouble(&broken(at(1), broke)).is_some());
    }
}
