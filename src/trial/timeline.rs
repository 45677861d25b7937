//! The timeline of a trial: what every level's payers use, moment by moment, on the host's clock.
//!
//! This level's payers are looked at by a thread of this surtax, each deeper level's by whoever
//! stands there, who sends what it sees while the command runs. So the series of a level that dies
//! ends where it died, and is kept. Times of a deeper level are mapped onto the host's.

use super::clock_map::Mapped;
use super::overheard::Overheard;
pub use super::track::{PayerTrack, Track};
use crate::layer::StackSpec;
use crate::plan::TrialSettings;
use crate::stack::sampler::Sample;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Role, Watching};

/// Time between two looks where the plan says none.
const USUAL: Duration = Duration::from_secs(1);

/// Time for which a command has to run, then, for its timeline to be kept.
const KEPT_FROM: Nanoseconds = Nanoseconds(5_000_000_000);

/// Use by everybody, moment by moment. All times are the host's, since the trial began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Time between two looks.
    pub every: Nanoseconds,
    /// Parts of the trial, in the order in which they began.
    pub phases: Vec<Phase>,
    /// The levels, outermost first.
    pub levels: Vec<LevelTimeline>,
}

impl Timeline {
    /// Drops what deeper levels said of machines: there is none but the one of this level.
    pub(super) fn forget_machines_beyond(&mut self, own_level: u8) {
        for level in self.levels.iter_mut().filter(|it| it.track.level > own_level) {
            level.track.payers.retain(|it| it.role != Role::Machine);
        }
        self.levels.retain(|it| it.track.level <= own_level || !it.track.payers.is_empty());
    }
}

/// Samples of one level, and how good their times are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelTimeline {
    /// The samples.
    pub track: Track,
    /// Most by which a time may be wrong; `None` where the level's clock is not known, and times
    /// are as it says them.
    pub clock_bound: Option<Nanoseconds>,
    /// Number of samples that came later than half the time between two.
    pub late_count: u32,
}

/// Part of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Kind of what went on.
    pub kind: PhaseKind,
    /// Begin.
    pub from: Nanoseconds,
    /// End.
    pub to: Nanoseconds,
}

/// Kind of a part of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseKind {
    /// The stack was started.
    Start,
    /// The command ran, and was not measured.
    WarmUp,
    /// The command ran.
    Run,
}

surtax_instrument::words!(PhaseKind { Start: "start", WarmUp: "warm-up", Run: "run" });

/// Whoever writes down the timeline of one trial.
pub(super) struct Recorder {
    began_at: Nanoseconds,
    /// Time between two looks; `None` where nobody looks.
    pub(super) every: Option<Duration>,
    kept_from: Nanoseconds,
    /// Samples of this level.
    here: Arc<Mutex<Track>>,
    /// Request to the inside.
    watching: Watching,
    /// Ear for what it tells.
    pub(super) ear: Overheard,
    phases: Vec<Phase>,
}

impl Recorder {
    /// Makes one for a stack on this level, in a trial that began at one time and whose stack stood
    /// at another. `may_look`: this trial is one that is looked at while its command runs.
    pub(super) fn of(
        conduct: TrialSettings,
        stack: &StackSpec,
        level: u8,
        (began_at, stood_at): (Nanoseconds, Nanoseconds),
        may_look: bool,
    ) -> Self {
        // Looks around each of many short runs would take longer than these.
        let usual = (conduct.iterations == 1).then_some(USUAL);
        let every = conduct.watch().or(usual).filter(|every| may_look && !every.is_zero());
        let kept_from = if conduct.watch().is_some() { Nanoseconds(0) } else { KEPT_FROM };
        let below = u8::try_from(stack.layers.len()).unwrap_or(u8::MAX);
        let watching = Watching {
            kernel_begin_ns: clock::kernel_begin_ns(),
            level: level.saturating_add(below),
            every: every.unwrap_or_default().into(),
        };
        Self {
            began_at,
            every,
            kept_from,
            here: Arc::new(Mutex::new(Track::of(level))),
            ear: Overheard::of(level, watching.clone()),
            watching,
            phases: vec![Phase { kind: PhaseKind::Start, from: began_at, to: stood_at }],
        }
    }

    /// Returns what the inside is asked to look at. Where its samples are not heard before its
    /// command has ended, nobody looks meanwhile.
    pub(super) fn watching(&self, is_heard: bool) -> Watching {
        let every = if is_heard { self.watching.every } else { Nanoseconds(0) };
        let kernel_begin_ns = clock::kernel_begin_ns();
        Watching { every, kernel_begin_ns, ..self.watching.clone() }
    }

    /// Returns who keeps samples of this level, from whose first on all is counted from nothing.
    pub(super) fn keeper(&self) -> impl FnMut(Sample) + Send + 'static {
        lock(&self.here).begin_again();
        let track = Arc::clone(&self.here);
        move |sample| lock(&track).add(&sample)
    }

    /// Notes a part of the trial.
    pub(super) fn phase(&mut self, kind: PhaseKind, from: Nanoseconds, to: Nanoseconds) {
        self.phases.push(Phase { kind, from, to });
    }

    /// Returns the host's times in which the command ran and was measured.
    pub(super) fn ran(&self) -> Vec<[Nanoseconds; 2]> {
        let runs = self.phases.iter().filter(|phase| phase.kind == PhaseKind::Run);
        runs.map(|phase| [phase.from, phase.to]).collect()
    }

    /// The timeline, when everybody has ended; `None` where nobody looked, or the command was over
    /// so soon that nobody wants one. Of a trial that broke it is always wanted.
    pub(super) fn finish(self, is_broken: bool) -> Option<Timeline> {
        let Self { began_at, every, kept_from, here, ear, phases, .. } = self;
        let every = Nanoseconds::from(every?);
        let ran = phases.iter().filter(|phase| phase.kind == PhaseKind::Run);
        let longest = ran.map(|phase| phase.to.since(phase.from)).max().unwrap_or_default();
        if longest < kept_from && !is_broken {
            return None;
        }
        let here = lock(&here).clone();
        let (beyond, innermost) = (ear.beyond_bound(), ear.innermost());
        let Overheard { tracks, clocks, arrivals, .. } = ear;
        let own = LevelTimeline { track: here, clock_bound: Some(Nanoseconds(0)), late_count: 0 };
        let deeper = tracks.into_iter().map(|(level, track)| {
            let mapped: Option<Vec<Mapped>> =
                track.times.iter().map(|at| clocks.on_host(level, *at)).collect();
            let mut mapped = mapped_to(track, mapped.as_deref());
            // Nothing is seen after it has come.
            let came = arrivals.get(&level).into_iter().flatten();
            let early = mapped.track.times.iter().zip(came).map(|(at, came)| at.since(*came)).max();
            let early = early.unwrap_or_default();
            mapped.clock_bound = mapped.clock_bound.map(|bound| bound.max(early));
            if level == innermost {
                mapped.clock_bound = mapped.clock_bound.map(|bound| bound + beyond);
            }
            mapped
        });
        let since = |at: Nanoseconds| at.since(began_at);
        let levels = std::iter::once(own).chain(deeper).map(|mut level| {
            level.track.forget_silent_links();
            level.track.times.iter_mut().for_each(|at| *at = since(*at));
            level.late_count = late_count(&level.track, every);
            level
        });
        let phases = phases.into_iter();
        let phases = phases.map(|it| Phase { from: since(it.from), to: since(it.to), ..it });
        Some(Timeline { every, phases: phases.collect(), levels: levels.collect() })
    }
}

fn lock(track: &Mutex<Track>) -> MutexGuard<'_, Track> {
    track.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A level's samples at the host's times, where these are known.
fn mapped_to(mut track: Track, mapped: Option<&[Mapped]>) -> LevelTimeline {
    let clock_bound = mapped.and_then(|all| all.iter().map(|it| it.bound).max());
    if let Some(mapped) = mapped {
        track.times = mapped.iter().map(|it| it.at).collect();
    }
    LevelTimeline { track, clock_bound, late_count: 0 }
}

/// Counts samples that came later than one and a half times the time between two. Between two runs
/// nobody is to look at a deeper level.
fn late_count(track: &Track, every: Nanoseconds) -> u32 {
    let is_late = |(place, pair): &(usize, &[Nanoseconds])| {
        let is_gap = track.begins.contains(&(place + 1));
        !is_gap && pair[1].since(pair[0]).0 > every.0 + every.0 / 2
    };
    let late = track.times.windows(2).enumerate().filter(is_late).count();
    u32::try_from(late).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn times(ms: &[u64]) -> Vec<Nanoseconds> {
        ms.iter().map(|ms| Nanoseconds(ms * MS)).collect()
    }

    #[test]
    fn a_sample_is_late_when_it_came_half_a_time_after_it_was_due() {
        let every = Nanoseconds(100 * MS);
        let late = |ms: &[u64], begins: Vec<usize>| {
            let track = Track { times: times(ms), begins, ..Track::of(0) };
            late_count(&track, every)
        };
        assert_eq!(late(&[0, 100, 249, 400, 500], Vec::new()), 1);
        assert_eq!(late(&[0], Vec::new()), 0);
        // Between two runs nobody looks.
        assert_eq!(late(&[0, 100, 900, 1000], vec![2]), 0);
    }

    #[test]
    fn times_of_a_level_whose_clock_is_unknown_stay_and_have_no_bound() {
        let track = Track { times: times(&[5, 6]), ..Track::of(1) };
        assert_eq!(mapped_to(track.clone(), None).clock_bound, None);
        let mapped = [(1, 2), (2, 7)]
            .map(|(at, bound)| Mapped { at: Nanoseconds(at * MS), bound: Nanoseconds(bound) });
        let level = mapped_to(track, Some(&mapped));
        assert_eq!((level.track.times, level.clock_bound), (times(&[1, 2]), Some(Nanoseconds(7))));
    }
}
