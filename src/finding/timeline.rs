//! The timeline of an arm: of the trial that took the median time what everybody used, moment by
//! moment, in so many points as somebody looks at.

use crate::fault::Fault;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::{
    LevelTimelineFindings, PhaseFindings, SeriesFindings, TimelineFindings, estimate, foreign,
};
use crate::ledger::{Ledger, StoredLevel, StoredSeries, StoredTimeline, StoredTrial};
use crate::plan::TrialId;
use std::collections::{HashMap, HashSet};
use surtax_instrument::amount::{CPU_IRQ, CPU_SOFTIRQ, CPU_SYSTEM, CPU_USER, Key};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Role;

/// Values of a series that are told: of more, each is of several samples.
const POINTS_MAX: usize = 240;

/// Name of all CPU time together.
pub(crate) const CPU: &str = "cpu_ns";

/// The parts of CPU time, of which interrupts stand beside system time of a machine alone.
const CPU_PARTS: [Key; 4] = [CPU_USER, CPU_SYSTEM, CPU_IRQ, CPU_SOFTIRQ];

/// The trials of a run that were looked at while their command ran.
pub(crate) type Watched = HashSet<(TrialId, u32)>;

/// Returns the timeline of an arm; `None` where no trial of it was looked at.
///
/// # Errors
/// The ledger's.
pub(crate) fn of(
    ledger: &Ledger,
    column: &ArmTrials<'_>,
    watched: &Watched,
) -> Result<Option<TimelineFindings>, Fault> {
    let is_watched = |trial: &&&StoredTrial| watched.contains(&(trial.id, trial.attempt));
    let mut counted: Vec<(&StoredTrial, f64)> = column
        .counted
        .iter()
        .filter(is_watched)
        .filter_map(|trial| Some((*trial, trial.sample("wall_ns")?.value)))
        .collect();
    counted.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let median = counted.get(counted.len().saturating_sub(1) / 2).map(|(trial, _)| *trial);
    let last = || column.ended.iter().rfind(is_watched).copied();
    let Some(trial) = median.or_else(last) else { return Ok(None) };
    Ok(ledger.timeline(trial)?.map(|timeline| found(trial, &timeline)))
}

/// Amounts of one quantity of one payer in one trial, each with its time.
#[derive(Clone, Debug, Default)]
pub struct TrialSeries<'a> {
    /// Index of the arm.
    pub arm: u32,
    /// Stack of the arm.
    pub stack: &'a str,
    /// Block of the trial.
    pub block: u32,
    /// Position of the trial in its block.
    pub position: u32,
    /// The attempt at it.
    pub attempt: u32,
    /// The state in which that ended.
    pub state: &'a str,
    /// The level.
    pub level: u8,
    /// The most by which a time may be wrong; `None` where the level's clock was not known.
    pub clock_bound_ns: Option<u64>,
    /// The payer.
    pub payer: &'a str,
    /// Part of the bill to which it belongs.
    pub role: &'a str,
    /// The quantity.
    pub quantity: &'a str,
    /// Unit of the quantity.
    pub unit: &'a str,
    /// True if its amounts only grow: then they are since the first look.
    pub grows: bool,
    /// Time of each value, since the trial began.
    pub at_ns: &'a [u64],
    /// The values.
    pub values: Vec<Option<u64>>,
}

/// Tells of every series of a run that was kept, trial by trial.
///
/// # Errors
/// The ledger's.
pub fn each_series(ledger: &Ledger, mut tell: impl FnMut(TrialSeries<'_>)) -> Result<(), Fault> {
    let (watched, arms) = (ledger.watched()?, ledger.plan()?.arms());
    let trials = ledger.trials()?;
    for trial in trials.iter().filter(|trial| watched.contains(&(trial.id, trial.attempt))) {
        let stack = arms.iter().find(|arm| arm.index == trial.id.arm).map(ToString::to_string);
        let (Some(stack), Some(timeline)) = (stack, ledger.timeline(trial)?) else { continue };
        for level in &timeline.levels {
            let at_ns: Vec<u64> = level.times.iter().map(|at| at.0).collect();
            for series in &level.series {
                let Some(values) = series.values(level.times.len()) else { continue };
                tell(TrialSeries {
                    arm: trial.id.arm,
                    stack: &stack,
                    block: trial.id.block,
                    position: trial.id.position,
                    attempt: trial.attempt,
                    state: trial.state.word(),
                    level: level.level,
                    clock_bound_ns: level.clock_bound.map(|bound| bound.0),
                    payer: &series.payer,
                    role: series.role.word(),
                    quantity: series.quantity.name,
                    unit: series.quantity.unit.word(),
                    grows: series.quantity.grows(),
                    at_ns: &at_ns,
                    values,
                });
            }
        }
    }
    Ok(())
}

fn found(trial: &StoredTrial, timeline: &StoredTimeline) -> TimelineFindings {
    let phase = |it: &crate::trial::timeline::Phase| PhaseFindings {
        phase: it.kind.word().into(),
        from_ns: it.from.0,
        to_ns: it.to.0,
    };
    TimelineFindings {
        block: trial.id.block,
        attempt: trial.attempt,
        every_ns: timeline.levels.first().map_or(0, |it| it.every.0),
        phases: timeline.phases.iter().map(phase).collect(),
        levels: timeline.levels.iter().map(level).collect(),
    }
}

fn level(level: &StoredLevel) -> LevelTimelineFindings {
    let count = level.times.len();
    let shown = shown(&level.times, level.every);
    let at = |place: &usize| level.times.get(*place).map(|at| at.0);
    let mut told: Vec<Told<'_>> = Vec::new();
    let mut known: HashMap<(&str, Role, Option<Key>), usize> = HashMap::new();
    for of in &level.series {
        let key = of.quantity.key;
        // Each is read once, and only what is shown of it is kept.
        let Some(values) = of.values(count) else { continue };
        let amounts = match of.quantity.grows() {
            true => shown.iter().map(|place| values.get(*place).copied().flatten()).collect(),
            false => most(&values, &shown),
        };
        let of_sum = (&*of.payer, of.role, Some(key).filter(|key| !CPU_PARTS.contains(key)));
        match known.get(&of_sum).and_then(|place| told.get_mut(*place)) {
            Some(sum) => sum.add(key, &amounts),
            None => {
                known.insert(of_sum, told.len());
                told.push(Told { of, is_of_several_kinds: false, amounts });
            }
        }
    }
    let times: Vec<u64> = shown.iter().filter_map(at).collect();
    LevelTimelineFindings {
        level: level.level,
        sample_count: u64::try_from(count).unwrap_or(u64::MAX),
        late_count: level.late_count,
        clock_bound_ns: level.clock_bound.map(|bound| bound.0),
        series: told.into_iter().filter_map(|it| it.found(&times)).collect(),
        at_ns: times,
    }
}

/// A series, or the sum of several of one payer or of payers of one name, at the times that are
/// shown.
struct Told<'a> {
    of: &'a StoredSeries,
    is_of_several_kinds: bool,
    amounts: Vec<Option<u64>>,
}

impl Told<'_> {
    /// Adds another part; what one of them does not know is not known.
    fn add(&mut self, key: Key, more: &[Option<u64>]) {
        self.is_of_several_kinds |= key != self.of.quantity.key;
        for (amount, more) in self.amounts.iter_mut().zip(more) {
            *amount = amount.zip(*more).map(|(one, other)| one.saturating_add(other));
        }
    }

    /// Tells of it; `None` where nothing was used.
    fn found(self, times: &[u64]) -> Option<SeriesFindings> {
        let Self { of, is_of_several_kinds, amounts } = self;
        let is_rate = of.quantity.grows();
        let values: Vec<Option<f64>> = match is_rate {
            true => rates(times, &amounts),
            false => amounts.into_iter().map(|amount| amount.map(estimate::float)).collect(),
        };
        values.iter().flatten().any(|value| *value > 0.0).then(|| SeriesFindings {
            payer: foreign::line(&of.payer),
            role: of.role.word().into(),
            carries_workload: of.carries_workload,
            quantity: if is_of_several_kinds { CPU } else { of.quantity.name }.into(),
            is_rate,
            values,
        })
    }
}

/// Returns the places of the samples that are shown, the first and the last among them. A last one
/// that came right after another takes its place: so short a time has no rate.
fn shown(times: &[Nanoseconds], every: Nanoseconds) -> Vec<usize> {
    let count = times.len();
    let step = count.saturating_sub(1).div_ceil(POINTS_MAX - 1).max(1);
    let mut places: Vec<usize> = (0..count).step_by(step).collect();
    if let Some(last) = count.checked_sub(1).filter(|last| places.last() != Some(last)) {
        places.push(last);
    }
    if let [_, .., before, last] = places[..]
        && times[last].since(times[before]).0 < every.0 / 2
    {
        places.remove(places.len() - 2);
    }
    places
}

/// Use per second, of amounts that grow, from each time to the next; times are in nanoseconds.
pub(crate) fn rates(times: &[u64], amounts: &[Option<u64>]) -> Vec<Option<f64>> {
    let mut before: Option<(u64, Option<u64>)> = None;
    let rate = |(at, amount): (&u64, &Option<u64>)| {
        let (then, had) = before.replace((*at, *amount))?;
        let (used, took_ns) = ((*amount)?.checked_sub(had?)?, at.checked_sub(then)?);
        (took_ns > 0).then(|| estimate::float(used) / (estimate::float(took_ns) / 1e9))
    };
    times.iter().zip(amounts).map(rate).collect()
}

/// The most of the samples up to each that is shown.
fn most(amounts: &[Option<u64>], shown: &[usize]) -> Vec<Option<u64>> {
    let mut from = 0;
    let of = |to: &usize| {
        let window = amounts.get(from..=*to).unwrap_or_default();
        from = to + 1;
        window.iter().flatten().max().copied()
    };
    shown.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::{CPU_WAIT, MEMORY_USED, Quantity};

    const SECOND: u64 = 1_000_000_000;

    fn times(half_seconds: &[u64]) -> Vec<Nanoseconds> {
        half_seconds.iter().map(|it| Nanoseconds(it * SECOND / 2)).collect()
    }

    fn at(half_seconds: &[u64], series: Vec<StoredSeries>) -> StoredLevel {
        StoredLevel {
            level: 1,
            every: Nanoseconds(SECOND),
            late_count: 0,
            clock_bound: None,
            times: times(half_seconds),
            series,
        }
    }

    fn series(payer: &str, key: Key, values: &[Option<u64>]) -> StoredSeries {
        let quantity = Quantity::of(key).unwrap();
        StoredSeries::of(payer, Role::Machine, quantity, values)
    }

    #[test]
    fn as_many_points_are_shown_as_have_room_and_both_ends_are_among_them() {
        let shown = |count: usize| {
            let times: Vec<Nanoseconds> = (0..count as u64).map(|it| Nanoseconds(it * 9)).collect();
            shown(&times, Nanoseconds(9))
        };
        assert_eq!(shown(0), Vec::<usize>::new());
        assert_eq!(shown(1), [0]);
        assert_eq!(shown(3), [0, 1, 2]);
        for count in [240, 241, 1000, 18_000] {
            let places = shown(count);
            assert!(places.len() <= POINTS_MAX + 1, "{count}: {}", places.len());
            assert_eq!((places.first(), places.last()), (Some(&0), Some(&(count - 1))));
        }
    }

    #[test]
    fn a_last_time_that_is_short_is_one_with_that_before_it() {
        let every = Nanoseconds(10);
        let shown = |times: &[u64]| {
            shown(&times.iter().copied().map(Nanoseconds).collect::<Vec<_>>(), every)
        };
        assert_eq!(shown(&[0, 10, 20, 24]), [0, 1, 3]);
        assert_eq!(shown(&[0, 10, 20, 25]), [0, 1, 2, 3]);
        assert_eq!(shown(&[0, 4]), [0, 1], "of nothing else there is a rate");
    }

    #[test]
    fn cpu_time_is_one_with_all_of_its_parts_and_a_rate_is_unknown_beside_a_gap() {
        let user = [Some(0), Some(10), Some(40), None];
        let more = [Some(0), Some(1), Some(1), Some(1)];
        let of = |payer: &str| {
            [(CPU_USER, user), (CPU_SYSTEM, more), (CPU_IRQ, more), (CPU_SOFTIRQ, more)]
                .map(|(key, values)| series(payer, key, &values))
        };
        let gauge = series("one", MEMORY_USED, &[Some(3), None, Some(9), None]);
        // Two of one name are one.
        let twice = series("one", CPU_WAIT, &more);
        let mut all: Vec<StoredSeries> = of("one").into_iter().chain(of("other")).collect();
        all.extend([gauge, twice.clone(), twice]);
        // Of other than as many values as there are times, nothing is told.
        all.push(series("odd", CPU_WAIT, &[Some(0), Some(5)]));
        let found = level(&at(&[0, 1, 3, 4], all));
        let told: Vec<(&str, &str)> =
            found.series.iter().map(|it| (it.payer.as_str(), it.quantity.as_str())).collect();
        let memory = "memory_used_bytes";
        let expected = [("one", CPU), ("other", CPU), ("one", memory), ("one", "cpu_wait_ns")];
        assert_eq!(told, expected);
        assert_eq!(found.series[0].values, [None, Some(26.0), Some(30.0), None]);
        assert_eq!(found.series[2].values, [Some(3.0), None, Some(9.0), None]);
        assert_eq!(found.series[3].values, [None, Some(4.0), Some(0.0), Some(0.0)]);
    }
}
