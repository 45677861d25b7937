//! Progress on standard error: a line that moves where a person watches, else a line per block.

use super::{Globals, say};
use crate::campaign::Observer;
use crate::campaign::enough::{Look, Widest};
use crate::plan::duration::rough;
use crate::plan::{Arm, Costs, Plan, TrialId, percentage};
use crate::trial::{Reason, Record, TrialResult, disturbance, oom};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_statistics::LOOK_FROM;

/// Progress of a plan, for this terminal. `done` are the trials of an earlier session.
#[must_use]
pub fn of_plan(
    plan: &Plan,
    done: impl IntoIterator<Item = TrialId>,
    globals: &Globals,
) -> Box<dyn Observer> {
    let bar = (say::is_watched() && !globals.quiet).then(bar);
    let (meter, globals) = (Meter::new(plan, done), globals.clone());
    Box::new(Progress { meter, bar, last: None, said: 0, globals })
}

/// Knows how far a plan is and how long the rest takes. Shows nothing itself.
#[derive(Clone, Debug)]
pub struct Meter {
    plan: Plan,
    costs: Costs,
    began_at: Nanoseconds,
    trial_began_at: Nanoseconds,
    blocks_done: u32,
    ended: Vec<u32>,
    dropped: BTreeSet<u32>,
    failures: u32,
    /// Most memory that the command used in a trial of the baseline.
    baseline_peak: Option<Bytes>,
    /// The reasons of those that have been said whole.
    reasons: Vec<String>,
    /// Of a plan that names a precision: what it allows at most, and who is known least so far.
    limit: u32,
    widest: Option<Widest>,
}

impl Meter {
    /// A meter that begins now, with these trials behind it.
    pub fn new(plan: &Plan, done: impl IntoIterator<Item = TrialId>) -> Self {
        let now = clock::monotonic_raw();
        let mut meter = Self {
            costs: Costs::of(plan),
            plan: plan.clone(),
            began_at: now,
            trial_began_at: now,
            blocks_done: 0,
            ended: Vec::new(),
            dropped: BTreeSet::new(),
            failures: 0,
            baseline_peak: None,
            reasons: Vec::new(),
            limit: plan.block_limit(),
            widest: None,
        };
        meter.plan.looks = 1; // it may end at the first look, and is expected to
        if plan.precision_ppm.is_some() {
            meter.see(Look::TooEarly);
        }
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

    /// The same; one that is repeated cost its time, and is still to come.
    fn end_record(&mut self, record: &Record, now: Nanoseconds) {
        match record.result {
            TrialResult::Disturbed(_) => {
                let took = now.since(self.trial_began_at).into();
                self.costs.learn(record.trial.arm, took);
            }
            _ => self.end(record.trial, now),
        }
    }

    fn count(&mut self, trial: TrialId) {
        if trial.block > self.blocks_done {
            self.blocks_done = trial.block;
            self.ended.clear();
        }
        if trial.block == self.blocks_done {
            if !self.ended.contains(&trial.arm) {
                self.ended.push(trial.arm);
            }
            self.settle();
        }
    }

    /// An arm will not run any more.
    fn drop_arm(&mut self, arm: u32) {
        self.costs.drop_arm(arm);
        self.dropped.insert(arm);
        if !self.ended.is_empty() {
            self.settle();
        }
    }

    /// Expects as many blocks as the widths forecast.
    fn see(&mut self, look: Look) {
        let (widest, blocks) = match look {
            Look::TooEarly => (None, u32::try_from(LOOK_FROM).unwrap_or(u32::MAX)),
            Look::Wide(widest) => {
                let more = widest.more_blocks.unwrap_or(u32::MAX).max(1);
                (Some(widest), self.blocks_done.saturating_add(more))
            }
            Look::Narrow => (None, self.blocks_done),
        };
        self.widest = widest;
        self.plan.runs = Some(blocks.min(self.limit));
    }

    /// Says what is still wide, and why the run goes on where that is narrow enough already; empty
    /// where nothing is wide, or nothing was asked.
    fn width(&self) -> String {
        let Some(goal) = self.plan.precision_ppm else { return String::new() };
        let wanted = percentage::text(goal);
        let Some(widest) = &self.widest else {
            let is_early = usize::try_from(self.blocks_done).is_ok_and(|done| done < LOOK_FROM);
            let early = format!(", ±{wanted} is looked for from {LOOK_FROM} blocks on");
            return if is_early { early } else { String::new() };
        };
        let arms = self.plan.arms();
        let arm = arms.into_iter().find(|arm| arm.index == widest.arm);
        let stack = arm.map_or_else(String::new, |arm| arm_name(&arm));
        let width = 100.0 * widest.half_width;
        let of = widest.metric.as_ref().map_or_else(String::new, |it| format!("`{it}` of "));
        let known = format!(", {of}`{stack}` is known to ±{width:.1} %, wanted ±{wanted}");
        if widest.half_width > f64::from(goal) / 1e6 {
            return known;
        }
        let more = match widest.more_blocks {
            Some(1) => String::from("1 more block makes"),
            Some(more) => format!("about {more} more blocks make"),
            None => String::from("more blocks make"),
        };
        format!("{known}: after so few blocks that may be luck, {more} sure")
    }

    /// Ends the block when no arm of it is left to run.
    fn settle(&mut self) {
        let mut arms = (0..self.plan.arm_count()).filter(|arm| !self.dropped.contains(arm));
        if arms.all(|arm| self.ended.contains(&arm)) {
            self.ended.clear();
            self.blocks_done = self.blocks_done.saturating_add(1);
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

    /// Learns what the baseline's command used in a trial that counts.
    fn learn_peak(&mut self, record: &Record, arm: &Arm) {
        if let TrialResult::Done(measured) = &record.result
            && !arm.is_compared()
        {
            self.baseline_peak = self.baseline_peak.max(Some(measured.outcome.memory_peak));
        }
    }

    /// The reason of a trial, with a better hint where the baseline has shown how much memory is
    /// enough.
    fn informed(&self, Reason { why, remedy }: &Reason, record: &Record, arm: &Arm) -> String {
        let baseline = self.plan.baseline.to_string();
        let peak = self.baseline_peak.filter(|_| arm.is_compared());
        let exceeded = record.conditions.iter().find(|(key, _)| key == oom::EXCEEDED);
        let enough = exceeded
            .zip(peak)
            .and_then(|((_, layer), peak)| oom::enough(&arm.stack, *layer, (&baseline, peak)));
        match enough.as_ref().or(remedy.as_ref()) {
            Some(hint) => format!("{why}\n  hint: {hint}"),
            None => why.clone(),
        }
    }

    /// Says what went wrong in a trial; `None` for one that went well.
    fn trouble(&mut self, record: &Record, arm: &Arm) -> Option<String> {
        self.learn_peak(record, arm);
        let stack = arm;
        let (what, reason) = match &record.result {
            TrialResult::Done(_) | TrialResult::Disturbed(_) => return None,
            TrialResult::CommandFailed(_) => (format!("the command failed in `{stack}`"), None),
            TrialResult::Unavailable(reason) => {
                (format!("`{stack}` is not usable here"), Some(reason))
            }
            TrialResult::Broken(reason) => (format!("`{stack}` broke"), Some(reason)),
            TrialResult::Invalid { reason, .. } => {
                (format!("a trial of `{stack}` does not count"), Some(reason))
            }
        };
        self.failures += 1;
        let Some(reason) = reason else { return Some(what) };
        let why = &self.informed(reason, record, arm);
        // A reason may be long, and one that holds for one trial often holds for all.
        let is_new = !self.reasons.contains(why);
        if is_new {
            self.reasons.push(why.clone());
        }
        Some(if is_new { format!("{what}: {why}") } else { format!("{what}, as before") })
    }
}

/// Says how a trial ended, for those who want to know of each.
fn ended(record: &Record, arm: &Arm) -> String {
    let TrialId { block, position, .. } = record.trial;
    let how = match &record.result {
        TrialResult::Done(measured) | TrialResult::Disturbed(measured) => {
            format!("done, {}", measured.wall)
        }
        TrialResult::CommandFailed(measured) => {
            format!("failed with {}, {}", measured.outcome.status, measured.wall)
        }
        TrialResult::Unavailable(_) => String::from("unavailable"),
        TrialResult::Broken(_) => String::from("broken"),
        TrialResult::Invalid { .. } => String::from("invalid"),
    };
    let mut text = format!(
        "trial {}.{} of `{}` ended: {how}",
        u64::from(block) + 1,
        u64::from(position) + 1,
        arm
    );
    if let Some(disturbed) = disturbed(record) {
        text += &format!("; {disturbed}");
    }
    text
}

/// Says what disturbed a trial, and what follows; `None` where nothing did.
fn disturbed(record: &Record) -> Option<String> {
    let what = disturbance::words(&record.disturbances);
    let next = match record.result {
        TrialResult::Disturbed(_) => "repeated",
        _ => "counts all the same",
    };
    (!what.is_empty()).then(|| format!("disturbed: {what}; {next}"))
}

/// The stack of an arm; the baseline's second arm is told apart.
fn arm_name(arm: &Arm) -> String {
    let again = if arm.index == 1 { " (again)" } else { "" };
    format!("{arm}{again}")
}

/// Says that an arm will not run any more, and why.
fn dropped(arm: &Arm, why: &str) -> String {
    format!("`{}` will not be tried again: {why}", arm_name(arm))
}

/// Says how a plan goes on.
struct Progress {
    meter: Meter,
    /// The line that moves, where a person watches. It moves between trials only: a thread that
    /// redraws it would run beside the command that is being measured.
    bar: Option<ProgressBar>,
    /// Words for what disturbed the last trial; shown while the next one runs.
    last: Option<String>,
    /// Number of blocks that lines tell of, in log files and pipes.
    said: u32,
    globals: Globals,
}

/// Makes a line that moves.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // A template that does not parse would leave the plain one: an ugly line, not a lost run.
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
        bar.set_style(style.progress_chars("━━─"));
    }
    bar
}

impl Progress {
    fn say(&self, text: &str) {
        let say = || say::note(text, &self.globals);
        self.bar.as_ref().map_or_else(say, |bar| bar.suspend(say));
    }

    /// Moves the line, if there is one, which also names the stack that runs.
    fn show(&self, stack: &str) {
        let Some(bar) = &self.bar else { return };
        let now = clock::monotonic_raw();
        let dropped = u32::try_from(self.meter.dropped.len()).unwrap_or(u32::MAX);
        let arms = u64::from(self.meter.plan.arm_count().saturating_sub(dropped));
        let ended = u64::try_from(self.meter.ended.len()).unwrap_or(0);
        let blocks = self.meter.blocks(now);
        bar.set_length(u64::from(blocks) * arms);
        bar.set_position(u64::from(self.meter.blocks_done) * arms + ended);
        let block = self.meter.blocks_done.saturating_add(1).min(blocks);
        let failures = match self.meter.failures {
            0 => String::new(),
            count => format!(", {count} failed"),
        };
        let (left, width) = (self.meter.left(now), self.meter.width());
        bar.set_message(format!("block {block} of {blocks}{failures}, {left}{width}: {stack}"));
    }

    /// Says that a block is done, where no line moves.
    fn say_block(&mut self) {
        if self.bar.is_none() && self.meter.blocks_done > self.said {
            let now = clock::monotonic_raw();
            self.said = self.meter.blocks_done;
            let (done, blocks, left) = (self.said, self.meter.blocks(now), self.meter.left(now));
            let width = self.meter.width();
            self.say(&format!("block {done} of {blocks} done, {left}{width}"));
        }
    }
}

impl Observer for Progress {
    fn trial_begins(&mut self, _: TrialId, arm: &Arm) {
        self.meter.begin(clock::monotonic_raw());
        let last = self.last.take().map_or_else(String::new, |words| format!(" (before: {words})"));
        self.show(&format!("{arm}{last}"));
    }

    fn trial_ended(&mut self, record: &Record, arm: &Arm) {
        self.meter.end_record(record, clock::monotonic_raw());
        if let Some(trouble) = self.meter.trouble(record, arm) {
            self.say(&trouble);
        }
        if self.globals.verbose {
            self.say(&ended(record, arm));
        }
        self.last = disturbed(record);
        self.show("");
        self.say_block();
    }

    fn arm_dropped(&mut self, arm: &Arm, why: &str) {
        self.meter.drop_arm(arm.index);
        self.say(&dropped(arm, why));
        self.say_block();
    }

    fn width_seen(&mut self, look: Look) {
        self.meter.see(look);
    }

    fn run_stopped(&mut self, why: &str) {
        self.say(why);
    }

    fn repeats_ended(&mut self, why: &str) {
        self.say(why);
    }

    fn meters_begin(&mut self, takes: Duration) {
        let takes = rough(takes);
        self.say(&format!(
            "meters: the machine is idle and busy in turn for {takes}, to find them out"
        ));
    }

    fn goes_on(&mut self, why: &str, blocks: u32) {
        self.meter.plan.runs = Some(blocks);
        self.say(&format!("goes on to {blocks} blocks: {why}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
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
            disturbances: Vec::new(),
            timeline: None,
            ran: Vec::new(),
            energies: Vec::new(),
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
    fn an_arm_that_was_dropped_is_not_waited_for() {
        let plan = plan(&["native", "runc"]);
        let mut meter = Meter::new(&plan, []);
        meter.drop_arm(2);
        let trials = plan.trials().take(6).filter(|trial| trial.arm != 2);
        trials.for_each(|trial| meter.end(trial, meter.began_at));
        assert_eq!((meter.blocks_done, meter.ended.len()), (2, 0));
        meter.end(TrialId { block: 2, position: 0, arm: 0 }, meter.began_at);
        meter.drop_arm(1);
        assert_eq!((meter.blocks_done, meter.ended.len()), (3, 0));
    }

    #[test]
    fn a_trial_that_is_repeated_is_said_to_be_disturbed_and_is_still_to_come() {
        let plan = plan(&["native", "runc"]);
        let mut meter = Meter::new(&plan, []);
        let (arm, trial) = (&plan.arms()[2], TrialId { block: 0, position: 0, arm: 2 });
        let measured = Box::new(crate::ledger::fixture::measured(2_000_000_000));
        let mut record = broken(trial, TrialResult::Disturbed(measured.clone()));
        let key = String::from("others_cpu_ratio");
        record.disturbances.push(disturbance::Disturbance { key, value: 0.93, limit: 0.2 });
        meter.end_record(&record, meter.began_at);
        assert!(meter.ended.is_empty() && meter.trouble(&record, arm).is_none());
        let words = "disturbed: others used 93 % of a CPU; repeated";
        assert_eq!(disturbed(&record).as_deref(), Some(words));
        let said = ended(&record, arm);
        assert_eq!(said, format!("trial 1.1 of `runc` ended: done, 2.000 s; {words}"));

        record.result = TrialResult::Done(measured);
        meter.end_record(&record, meter.began_at);
        assert_eq!(meter.ended, [2]);
        assert!(ended(&record, arm).ends_with("others used 93 % of a CPU; counts all the same"));
    }

    #[test]
    fn a_run_that_goes_on_though_it_is_narrow_enough_says_why() {
        let mut plan = plan(&["native", "runc"]);
        plan.precision_ppm = Some(20_000);
        let mut meter = Meter::new(&plan, []);
        assert_eq!(meter.width(), ", ±2% is looked for from 16 blocks on");
        meter.see(Look::Wide(Widest {
            arm: 2,
            metric: None,
            half_width: 0.031,
            more_blocks: Some(40),
        }));
        assert_eq!(meter.width(), ", `runc` is known to ±3.1 %, wanted ±2%");
        meter.see(Look::Wide(Widest {
            arm: 1,
            metric: None,
            half_width: 0.012,
            more_blocks: Some(5),
        }));
        assert_eq!(
            meter.width(),
            ", `native (again)` is known to ±1.2 %, wanted ±2%: after so few blocks that may be \
             luck, about 5 more blocks make sure"
        );
        meter.blocks_done = 30;
        meter.see(Look::Narrow);
        assert_eq!(meter.width(), "");
    }

    #[test]
    fn how_much_memory_is_enough_is_said_by_what_the_baseline_has_used() {
        let plan = plan(&["native", "runc:memory=32M"]);
        let mut meter = Meter::new(&plan, []);
        let trial = TrialId { block: 0, position: 0, arm: 2 };
        let reason = Reason { why: "x".into(), remedy: Some("twice as much".into()) };
        let mut broke = broken(trial, TrialResult::Broken(reason));
        broke.conditions.push((oom::EXCEEDED.into(), 1.0));
        let said = meter.trouble(&broke, &plan.arms()[2]).unwrap();
        assert!(said.ends_with("hint: twice as much"), "{said}");
        let mut measured = crate::ledger::fixture::measured(1);
        measured.outcome.memory_peak = Bytes(70 << 20);
        let done = broken(TrialId { arm: 0, ..trial }, TrialResult::Done(Box::new(measured)));
        assert_eq!(meter.trouble(&done, &plan.arms()[0]), None);
        let said = meter.trouble(&broke, &plan.arms()[2]).unwrap();
        let enough = "hint: give it `runc:memory=96M` or more, since the command used up to 70";
        assert!(said.contains(enough) && !said.contains("twice"), "{said}");
    }

    #[test]
    fn what_did_not_go_well_is_said_with_its_stack() {
        let plan = plan(&["native", "runc"]);
        let mut meter = Meter::new(&plan, []);
        let arm = &plan.arms()[2];
        let trial = TrialId { block: 0, position: 0, arm: 2 };
        let broke = broken(trial, TrialResult::Broken(String::from("silence").into()));
        assert_eq!(meter.trouble(&broke, arm).as_deref(), Some("`runc` broke: silence"));
        assert_eq!(meter.trouble(&broke, arm).as_deref(), Some("`runc` broke, as before"));
        assert_eq!(meter.failures, 2);
        assert_eq!(ended(&broke, arm), "trial 1.1 of `runc` ended: broken");
    }
}
