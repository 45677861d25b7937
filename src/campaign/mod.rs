//! Carries out a plan: block after block, each arm once per block, every ended trial committed.

pub mod counting;
pub mod enough;
pub mod interrupts;
mod repeat;

use crate::fault::Fault;
use crate::layer::Unavailable;
use crate::ledger::{Ledger, RunState, Severity};
use crate::meter::Metering;
use crate::plan::{Arm, Plan, TrialId};
use crate::stack::start::StartContext;
use crate::trial::protocol::{self, Purpose};
use crate::trial::{Reason, Record, TrialResult, check};
use enough::{Enough, Look};
use interrupts::{Interrupts, Urgency};
use repeat::{Next, Repeats};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// After how many failures without any success an arm is given up.
pub(crate) const GIVE_UP_AFTER: u32 = 2;

/// Observer who wants to know how a campaign goes.
pub trait Observer {
    /// A trial is about to start.
    fn trial_begins(&mut self, trial: TrialId, arm: &Arm);
    /// A trial has ended and is in the ledger. One that is [`TrialResult::Disturbed`] begins again.
    fn trial_ended(&mut self, record: &Record, arm: &Arm);
    /// An arm will not run any more.
    fn arm_dropped(&mut self, arm: &Arm, why: &str);
    /// A block of a plan that names a precision is about to begin, if the widths do not say enough.
    fn width_seen(&mut self, _: Look) {}
    /// No arm will run any more.
    fn run_stopped(&mut self, _why: &str) {}
    /// Disturbed trials are not repeated any more.
    fn repeats_ended(&mut self, _why: &str) {}
    /// Meters are about to be looked at, by an idle machine and a busy one, for so long.
    fn meters_begin(&mut self, _takes: Duration) {}
    /// A look has not decided every threshold, and a further one comes after so many blocks.
    fn goes_on(&mut self, _why: &str, _blocks: u32) {}
}

/// Question that a plan of more than one look asks at each but the last: why it is to go on. `None`
/// where it is to end.
pub type Undecided<'a> = dyn Fn(&Ledger) -> Result<Option<String>, Fault> + 'a;

/// One plan on its way through.
pub struct Campaign<'a> {
    plan: &'a Plan,
    ledger: &'a mut Ledger,
    context: &'a StartContext<'a>,
    observer: &'a mut dyn Observer,
    interrupts: &'a Interrupts,
    /// Trials that were in the ledger when the campaign began.
    done: HashSet<TrialId>,
    /// Arms that cannot run, or fail every time.
    dropped: BTreeSet<u32>,
    /// Per arm: failures of this session, and whether it ever succeeded.
    tally: HashMap<u32, (u32, bool)>,
    /// True if a command that fails in the baseline from the start ends the run.
    is_stopped_by_failure: bool,
    /// The widths so far, where the plan names a precision.
    enough: Option<Enough>,
    /// Question at each look, if anybody asks.
    undecided: Option<&'a Undecided<'a>>,
    /// The longest block so far.
    longest_block: Duration,
    /// Rule by which disturbed trials are repeated.
    repeats: Repeats,
    /// Trials that broke; each is tried once more.
    broken: HashSet<TrialId>,
    /// Meters that are read all the while.
    metering: Metering,
}

impl<'a> Campaign<'a> {
    /// A campaign that has not begun.
    pub fn new(
        plan: &'a Plan,
        ledger: &'a mut Ledger,
        context: &'a StartContext<'a>,
        observer: &'a mut dyn Observer,
        interrupts: &'a Interrupts,
    ) -> Self {
        Self {
            plan,
            ledger,
            context,
            observer,
            interrupts,
            done: HashSet::new(),
            dropped: BTreeSet::new(),
            enough: None,
            undecided: None,
            tally: HashMap::new(),
            is_stopped_by_failure: true,
            longest_block: Duration::ZERO,
            repeats: Repeats::default(),
            broken: HashSet::new(),
            metering: Metering::default(),
        }
    }

    /// The same campaign, in which these meters are read.
    #[must_use]
    pub fn metered(self, metering: Metering) -> Self {
        Self { metering, ..self }
    }

    /// The same campaign, which goes on where the command fails in the baseline: of a proof that
    /// asks how commands fail.
    pub(crate) fn beyond_failures(self) -> Self {
        Self { is_stopped_by_failure: false, ..self }
    }

    /// The same campaign, which at each look of its plan asks whether to go on. Without such a
    /// question it ends at the first.
    #[must_use]
    pub fn asking(self, undecided: &'a Undecided<'a>) -> Self {
        Self { undecided: Some(undecided), ..self }
    }

    /// Runs what is not yet in the ledger.
    ///
    /// # Errors
    /// The ledger's. What went wrong in a trial is in its record, and not an error here.
    pub fn run(mut self) -> Result<RunState, Fault> {
        self.context.lab.begin_with_places(&self.plan.writable)?;
        self.ledger.void_unfinished()?;
        self.done = self.ledger.done()?;
        self.repeats = Repeats::after(self.ledger.repeated()?);
        for arm in self.ledger.arms_that_succeeded()? {
            self.tally.insert(arm, (0, true));
        }
        let arms = self.plan.arms();
        if self.plan.precision().is_some() {
            self.enough = Enough::of(self.plan, &self.ledger.trials()?);
        }
        self.check_arms(&arms)?;
        self.take_known_meters()?;
        let mut began = clock::monotonic_raw();
        let mut is_prepared = false;
        for block in 0..self.plan.block_limit() {
            if self.dropped.len() == arms.len() || self.is_over(began) || self.is_enough() {
                break;
            }
            if self.is_decided(block)? {
                break;
            }
            let trials = self.plan.block(block);
            if !is_prepared && trials.iter().any(|trial| self.is_to_do(*trial)) {
                self.prepare(&arms)?;
                // The load that finds out meters is in no budget.
                began += self.calibrate()?;
                is_prepared = true;
            }
            let block_began = clock::monotonic_raw();
            for trial in trials {
                if self.interrupts.urgency() > Urgency::None {
                    return self.end(RunState::Interrupted);
                }
                self.trial(trial, &arms)?;
            }
            let block_wall = clock::monotonic_raw().since(block_began).into();
            self.longest_block = self.longest_block.max(block_wall);
        }
        let was_interrupted = self.interrupts.urgency() > Urgency::None;
        self.end(if was_interrupted { RunState::Interrupted } else { RunState::Finished })
    }

    /// Tells whether a trial of the plan has not been made yet, and can be.
    fn is_to_do(&self, trial: TrialId) -> bool {
        !self.dropped.contains(&trial.arm) && !self.done.contains(&trial)
    }

    /// Takes what an earlier session of the run has found of the meters.
    fn take_known_meters(&mut self) -> Result<(), Fault> {
        let known = self.ledger.meters()?;
        if !known.is_empty() {
            let known = known.into_iter().map(|it| (it.meter, it.calibrated, it.counted));
            self.metering.take_known(known.collect());
        }
        Ok(())
    }

    /// Finds what each meter says of an idle machine, and how late it is; once in a run. Returns
    /// the time that it took.
    fn calibrate(&mut self) -> Result<Nanoseconds, Fault> {
        if self.metering.is_empty() || self.metering.is_calibrated() {
            return Ok(Nanoseconds(0));
        }
        let began = clock::monotonic_raw();
        self.observer.meters_begin(self.metering.calibration());
        let is_over = || self.interrupts.urgency() > Urgency::None;
        self.metering.calibrate(&is_over);
        self.keep_meters()?;
        Ok(clock::monotonic_raw().since(began))
    }

    /// Writes down what is known of the meters. Of a run that ended before that, it is found later.
    fn keep_meters(&mut self) -> Result<(), Fault> {
        if !self.metering.is_calibrated() {
            return Ok(());
        }
        self.ledger.keep_meters(&self.metering)
    }

    fn end(mut self, state: RunState) -> Result<RunState, Fault> {
        let kept = self.keep_meters();
        self.ledger.finish(state)?;
        kept.map(|()| state)
    }

    /// No further block, when it would end after the budget is spent; the first one always runs.
    fn is_over(&self, began: Nanoseconds) -> bool {
        let Some(budget) = self.plan.time_budget_ns else { return false };
        let spent = Duration::from(clock::monotonic_raw().since(began));
        let is_first = self.longest_block.is_zero();
        !is_first && spent + self.longest_block > Duration::from_nanos(budget)
    }

    /// Tells whether every arm is known as well as the plan asks.
    fn is_enough(&mut self) -> bool {
        let Some(enough) = &self.enough else { return false };
        let look = enough.look(&self.dropped);
        let is_narrow = look == Look::Narrow;
        self.observer.width_seen(look);
        is_narrow
    }

    /// Tells whether the plan looks before this block, and whoever asks has nothing left to decide.
    /// A look that an earlier session has made is not made again.
    fn is_decided(&mut self, block: u32) -> Result<bool, Fault> {
        let looks = self.plan.looks();
        let next = looks.iter().position(|look| *look == block).and_then(|at| looks.get(at + 1));
        let is_made = self.done.iter().any(|trial| trial.block >= block);
        let Some(next) = next.filter(|_| !is_made) else { return Ok(false) };
        let Some(undecided) = self.undecided else { return Ok(true) };
        let Some(why) = undecided(self.ledger)? else { return Ok(true) };
        self.ledger.log(Severity::Note, &why)?;
        self.observer.goes_on(&why, *next);
        Ok(false)
    }

    fn trial(&mut self, trial: TrialId, arms: &[Arm]) -> Result<(), Fault> {
        let arm = usize::try_from(trial.arm).ok().and_then(|index| arms.get(index));
        let arm = arm.ok_or_else(|| Fault::bug(format!("a trial of arm {}", trial.arm)))?;
        if !self.is_to_do(trial) {
            return Ok(());
        }
        self.observer.trial_begins(trial, arm);
        self.ledger.begin_trial(trial)?;
        let mut record = protocol::run(
            trial,
            &arm.stack,
            (self.plan, Purpose::Timing),
            self.context,
            &mut |_, _| {},
        );
        let counts = matches!(record.result, TrialResult::Done(_) | TrialResult::Disturbed(_));
        if counts && !record.ran.is_empty() {
            let is_over = || self.interrupts.urgency() > Urgency::None;
            record.energies = self.metering.used(&record.ran, &is_over);
        }
        let is_cut_short = self.interrupts.urgency() == Urgency::Now;
        if is_cut_short && !matches!(record.result, TrialResult::Done(_)) {
            // Killed by the user: void, not broken. `resume` repeats it.
            return self.ledger.void_unfinished();
        }
        let next = self.settle(&mut record);
        self.ledger.end_trial_or_refuse(&mut record)?;
        let said = self.count_repeat(&record, next);
        if let Some(enough) = &mut self.enough {
            enough.learn(&record);
        }
        self.observer.trial_ended(&record, arm);
        if let Some(why) = self.count(&record, arm, arms) {
            self.ledger.log(Severity::Note, &why)?;
            self.observer.run_stopped(&why);
        }
        if let Some(why) = said {
            self.ledger.log(Severity::Note, &why)?;
            self.observer.repeats_ended(&why);
        }
        if self.comes_again(&record) { self.trial(trial, arms) } else { Ok(()) }
    }

    /// Tells whether a trial is made again at once: a disturbed one, which `settle` allows once;
    /// and one whose stack broke, once, since that may be chance and would leave a hole in the
    /// block.
    fn comes_again(&mut self, record: &Record) -> bool {
        match record.result {
            TrialResult::Disturbed(_) => true,
            TrialResult::Broken(_) => {
                self.interrupts.urgency() == Urgency::None && self.broken.insert(record.trial)
            }
            _ => false,
        }
    }

    /// Decides whether a disturbed trial stands.
    fn settle(&self, record: &mut Record) -> Next {
        let TrialResult::Done(measured) = &record.result else { return Next::Stands };
        let is_unwanted = !record.disturbances.is_empty() && !self.plan.conduct.keep_disturbed;
        let next = self.repeats.decide(record.trial, is_unwanted);
        if next != Next::Repeat {
            return next;
        }
        if self.interrupts.urgency() > Urgency::None {
            return Next::Stands;
        }
        record.result = TrialResult::Disturbed(measured.clone());
        next
    }

    /// Counts what was decided so of a trial whose record was not refused; gives back why no
    /// further one will be repeated.
    fn count_repeat(&mut self, record: &Record, next: Next) -> Option<String> {
        if !matches!(record.result, TrialResult::Done(_) | TrialResult::Disturbed(_)) {
            return None;
        }
        self.repeats.count(record.trial, !record.disturbances.is_empty(), &next);
        match next {
            Next::StandsFromNowOn(why) => Some(why),
            Next::Stands | Next::Repeat => None,
        }
    }

    /// Starts what outlives a trial, for every stack that will run. What cannot be started is said
    /// by the trials that need it.
    fn prepare(&mut self, arms: &[Arm]) -> Result<(), Fault> {
        let mut seen = BTreeSet::new();
        for arm in arms.iter().filter(|arm| !self.dropped.contains(&arm.index)) {
            let beside = self.plan.neighbours(arm.index).iter().map(|it| &it.stack);
            for stack in std::iter::once(&arm.stack).chain(beside) {
                if self.interrupts.urgency() > Urgency::None || !seen.insert(stack.clone()) {
                    continue;
                }
                if let Err(fault) = check::prepare(stack, self.context) {
                    let why = format!("what trials of `{stack}` share did not start: {fault}");
                    self.ledger.log(Severity::Warning, &why)?;
                }
            }
        }
        Ok(())
    }

    /// Gives an arm up that has only ever failed; and all of them where the command fails in what
    /// they are compared with, which is then most likely the command's own: then gives back why.
    fn count(&mut self, record: &Record, arm: &Arm, arms: &[Arm]) -> Option<String> {
        let (failures, has_succeeded) = self.tally.entry(arm.index).or_default();
        match record.result {
            TrialResult::Done(_) | TrialResult::Disturbed(_) => *has_succeeded = true,
            _ => *failures += 1,
        }
        let is_fruitless = !*has_succeeded && *failures >= GIVE_UP_AFTER;
        match &record.result {
            TrialResult::CommandFailed(_)
                if self.is_stopped_by_failure && !arm.is_compared() && !self.has_baseline(arms) =>
            {
                self.dropped.extend(arms.iter().map(|arm| arm.index));
                return Some(self.stopped(arm));
            }
            _ if is_fruitless => {
                self.dropped.insert(arm.index);
                let why = format!("it failed {GIVE_UP_AFTER} times and never succeeded");
                self.observer.arm_dropped(arm, &why);
            }
            _ => {}
        }
        None
    }

    /// Says why nothing more is run. What would help is among the findings, which have the reason.
    fn stopped(&self, arm: &Arm) -> String {
        let stack = &arm.stack;
        match self.plan.stacks.len() {
            1 => format!("nothing more is run: the command failed in `{stack}`"),
            _ => format!(
                "nothing more is run: the command failed in `{stack}`, which the others are \
                 compared with"
            ),
        }
    }

    /// Tells whether any arm of the baseline has ever succeeded.
    fn has_baseline(&self, arms: &[Arm]) -> bool {
        let mut baseline = arms.iter().filter(|arm| !arm.is_compared());
        baseline.any(|arm| self.tally.get(&arm.index).is_some_and(|(_, succeeded)| *succeeded))
    }

    /// Looks at every layer before anything is started: what cannot run is one named gap.
    fn check_arms(&mut self, arms: &[Arm]) -> Result<(), Fault> {
        for arm in arms {
            let Err(unavailable) = check::check(arm, self.plan, self.context)? else { continue };
            self.dropped.insert(arm.index);
            self.observer.arm_dropped(arm, &unavailable.why);
            let first = self.plan.block(0).into_iter().find(|trial| trial.arm == arm.index);
            let Some(trial) = first.filter(|trial| !self.done.contains(trial)) else { continue };
            self.ledger.begin_trial(trial)?;
            self.ledger.end_trial(&gap(trial, unavailable))?;
        }
        Ok(())
    }
}

fn gap(trial: TrialId, unavailable: Unavailable) -> Record {
    Record {
        trial,
        began_at: clock::wall(),
        result: TrialResult::Unavailable(Reason {
            why: unavailable.why,
            remedy: unavailable.remedy,
        }),
        start_wall: Nanoseconds(0),
        stop_wall: Nanoseconds(0),
        conditions: Vec::new(),
        disturbances: Vec::new(),
        timeline: None,
        ran: Vec::new(),
        energies: Vec::new(),
        leftovers: Vec::new(),
    }
}
