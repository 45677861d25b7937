//! An ear for what the inside tells while a command runs, beside how it ends: samples of deeper
//! levels, and what their clocks say.
//!
//! Whoever has broken into the channel may send any: each is held against what was asked for, and
//! there are no more of them than there was time for.

use super::clock_map::{ClockMap, Mapped};
use super::track::Track;
use crate::agent::{Stamped, unexpected};
use crate::fault::Fault;
use crate::stack::sampler::Sample;
use crate::stack::{NAME_MOST, PAYERS_OF_A_LEVEL};
use std::collections::BTreeMap;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::series::LARGEST;
use surtax_instrument::wire::{Reading, Reply, Role, Watching};

/// Time between two questions to the clocks while a command runs.
const ASK_EVERY: Nanoseconds = Nanoseconds(30_000_000_000);

/// The most moments that are kept, of which each run has two.
const MOMENTS_MAX: usize = 1000;

/// Samples that a level sends around a run, however short that is.
const AROUND_A_RUN: u64 = 4;

/// Ear for one stack in one trial.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    /// The level outside of the stack.
    outside: u8,
    /// Request to the inside, where it was asked for samples.
    watching: Option<Watching>,
    begun_at: Nanoseconds,
    run_count: u64,
    asked_at: Nanoseconds,
    /// Samples by level, in the times of the level.
    pub(super) tracks: BTreeMap<u8, Track>,
    /// Host times at which these samples came.
    pub(super) arrivals: BTreeMap<u8, Vec<Nanoseconds>>,
    /// The clocks of all levels.
    pub(super) clocks: ClockMap,
    /// Moments of the innermost level that this one saw, too: what its clock said, and between
    /// which times of the host's that was.
    pub(super) moments: Vec<(Nanoseconds, [Nanoseconds; 2])>,
}

impl Overheard {
    /// Listens to a stack on this level that was asked for that.
    pub(super) fn of(outside: u8, watching: Watching) -> Self {
        let now = clock::monotonic_raw();
        Self { outside, watching: Some(watching), begun_at: now, asked_at: now, ..Self::default() }
    }

    /// Notes that a command begins, before its begin is asked for.
    pub(super) fn run_begins(&mut self) {
        self.run_count += 1;
        self.tracks.values_mut().for_each(Track::begin_again);
    }

    /// Takes a reply that is a sample; gives back any other.
    ///
    /// # Errors
    /// Of the inside: nobody asked for it, or it tells of somebody of whom it cannot.
    pub(super) fn take(&mut self, said: Stamped) -> Result<Option<Stamped>, Fault> {
        let Stamped { reply: Reply::Sampled { at, readings }, at: arrived } = said else {
            return Ok(Some(said));
        };
        let told = readings.first().map(|it| it.level);
        let Some((watching, level)) = self.watching.as_ref().zip(told) else {
            let reply = Reply::Sampled { at, readings };
            return Err(unexpected(&reply, "nothing that asked for a look"));
        };
        require_of_it(&readings, level, (self.outside, watching.level))?;
        let passed = arrived.since(self.begun_at).0.checked_div(watching.every.0).unwrap_or(0);
        // A clock that is believed may run so much fast.
        let fast = passed / 1000;
        let around = self.run_count * AROUND_A_RUN + 1;
        let room = passed.saturating_add(fast).saturating_add(around);
        let track = self.tracks.entry(level).or_insert_with(|| Track::of(level));
        let has_room = u64::try_from(track.sample_count()).is_ok_and(|count| count < room);
        let is_later = track.times.last().is_none_or(|last| *last < at);
        // What there was no time for, or is out of time, is not kept, and harms nobody.
        if has_room && is_later && at.0 <= LARGEST {
            track.add(&Sample { at, readings });
            let count = track.sample_count();
            self.arrivals.entry(level).or_default().resize(count, arrived);
        }
        Ok(None)
    }

    /// Demands that what an agent says of its machine is of its level.
    ///
    /// # Errors
    /// Of the inside: it tells of somebody else, or nobody asked.
    pub(super) fn require_of_the_machine(&self, machine: &[Reading]) -> Result<(), Fault> {
        match &self.watching {
            _ if machine.is_empty() => Ok(()),
            Some(Watching { level, .. }) => require_of_it(machine, *level, (self.outside, *level)),
            None => Err(Fault::inside("an agent tells of its machine, and nobody has asked")),
        }
    }

    /// Keeps a moment that both saw: the innermost level by its clock, and this one between two
    /// times.
    pub(super) fn saw(&mut self, at: Nanoseconds, between: [Nanoseconds; 2]) {
        if self.moments.len() < MOMENTS_MAX {
            self.moments.push((at, between));
        }
    }

    /// Returns by how much the innermost level's clock is surely off beyond what its map says, by
    /// all that both levels saw.
    pub(super) fn beyond_bound(&self) -> Nanoseconds {
        let level = self.innermost();
        let beyond = |(at, [earliest, latest]): &(Nanoseconds, [Nanoseconds; 2])| {
            let Mapped { at, bound } = self.clocks.on_host(level, *at)?;
            Some(earliest.since(at).max(at.since(*latest)).since(bound))
        };
        self.moments.iter().filter_map(beyond).max().unwrap_or_default()
    }

    /// Tells whether it is time to ask what time it is there.
    pub(super) fn wants_clock(&mut self) -> bool {
        let now = clock::monotonic_raw();
        let is_due = self.watching.as_ref().is_some_and(|it| it.every > Nanoseconds(0))
            && now.since(self.asked_at) >= ASK_EVERY;
        if is_due {
            self.asked_at = now;
        }
        is_due
    }

    /// Returns the level of the command.
    pub(super) fn innermost(&self) -> u8 {
        self.watching.as_ref().map_or(0, |it| it.level)
    }
}

/// Demands that a sample is of one level below the outermost, and tells of nobody who cannot be
/// there: an agent tells of its machine alone, and nobody of the command.
fn require_of_it(
    readings: &[Reading],
    level: u8,
    (outside, innermost): (u8, u8),
) -> Result<(), Fault> {
    let is_strange = |it: &Reading| {
        it.level != level
            || it.role == Role::Workload
            || (level == innermost && it.role != Role::Machine)
            || it.payer.len() > NAME_MOST
    };
    if level <= outside || level > innermost || readings.len() > PAYERS_OF_A_LEVEL {
        let count = readings.len();
        return Err(Fault::inside(format!("a sample tells of {count} payers of level {level}")));
    }
    match readings.iter().find(|it| is_strange(it)) {
        Some(Reading { role, level, .. }) => Err(Fault::inside(format!(
            "a sample tells of a payer ({role:?}) of level {level}, of whom whoever sent it knows \
             nothing"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::{Amounts, CPU_USER};

    fn watching() -> Watching {
        Watching { kernel_begin_ns: 0, level: 2, every: Nanoseconds(1_000_000_000) }
    }

    fn sampled(level: u8, role: Role, payer: &str) -> Stamped {
        sampled_at(7, level, role, payer)
    }

    fn sampled_at(at: u64, level: u8, role: Role, payer: &str) -> Stamped {
        let amounts = Amounts::default().with(CPU_USER, 5);
        let payer = payer.to_owned();
        let reading =
            Reading { payer, role, level, amounts, carries_workload: false, is_shared: false };
        let at = Nanoseconds(at);
        let reply = Reply::Sampled { at, readings: vec![reading] };
        Stamped { reply, at: clock::monotonic_raw() }
    }

    #[test]
    fn a_sample_is_kept_and_all_else_is_given_back() {
        let mut ear = Overheard::of(0, watching());
        ear.run_begins();
        assert_eq!(ear.take(sampled(1, Role::Engine, "dockerd")).unwrap(), None);
        assert_eq!(ear.take(sampled(2, Role::Machine, "the machine")).unwrap(), None);
        assert_eq!(ear.tracks.keys().copied().collect::<Vec<_>>(), [1, 2]);
        let other = Stamped { reply: Reply::Written, at: Nanoseconds(1) };
        assert_eq!(ear.take(other.clone()).unwrap(), Some(other));
    }

    #[test]
    fn a_clock_that_ran_otherwise_than_it_was_taken_to_is_known_by_what_both_levels_saw() {
        let ms = |ms: u64| Nanoseconds(ms * 1_000_000);
        let mut ear = Overheard::of(0, watching());
        // An hour ahead, at 1 s and at 11 s, to within 1 ms.
        for at in [1_000, 11_000] {
            ear.clocks.keep(ms(at), [(2, ms(3_600_000 + at + 1))], ms(at + 2));
        }
        ear.saw(ms(3_600_000 + 5_000), [ms(4_990), ms(5_010)]);
        assert_eq!(ear.beyond_bound(), Nanoseconds(0));
        // In between it was set ahead by 40 ms, and back.
        ear.saw(ms(3_600_000 + 6_050), [ms(5_990), ms(6_010)]);
        assert_eq!(ear.beyond_bound(), ms(39));
    }

    #[test]
    fn a_sample_of_somebody_else_or_that_nobody_asked_for_is_the_insides_fault() {
        let long = "x".repeat(NAME_MOST + 1);
        let refused = [
            (sampled(0, Role::Engine, "dockerd"), "tells of 1 payers of level 0"),
            (sampled(3, Role::Engine, "dockerd"), "tells of 1 payers of level 3"),
            (sampled(1, Role::Workload, "command"), "(Workload) of level 1"),
            (sampled(2, Role::Engine, "dockerd"), "(Engine) of level 2"),
            (sampled(1, Role::Engine, &long), "(Engine) of level 1"),
        ];
        for (said, expected) in refused {
            let mut ear = Overheard::of(0, watching());
            ear.run_begins();
            let fault = ear.take(said).unwrap_err();
            assert!(fault.message.contains(expected), "{fault}");
            assert_eq!(fault.blame, crate::fault::Blame::Inside);
        }
        let fault = Overheard::default().take(sampled(1, Role::Engine, "dockerd")).unwrap_err();
        assert!(fault.message.contains("to nothing that asked for a look"), "{fault}");
        let mut ear = Overheard::of(0, watching());
        ear.run_begins();
        let mut talk = |at| ear.take(sampled_at(at, 1, Role::Engine, "dockerd"));
        let mut at = 0;
        for _ in 0..100 {
            at += 1;
            talk(at).unwrap();
        }
        // Neither more than there was time for, nor anything out of time.
        assert_eq!(ear.tracks[&1].sample_count(), 5);
        let mut ear = Overheard::of(0, watching());
        ear.run_begins();
        for at in [5, 5, 3, u64::MAX, 6] {
            ear.take(sampled_at(at, 1, Role::Engine, "dockerd")).unwrap();
        }
        assert_eq!(ear.tracks[&1].times, [5, 6].map(Nanoseconds));
    }
}
