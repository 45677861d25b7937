//! The timeline of an arm: of the trial that took the median time what everybody used, moment by
//! moment, in so many points as somebody looks at.

use crate::fault::Fault;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::{
    LevelTimelineFindings, PhaseFindings, SeriesFindings, TimelineFindings, estimate, foreign,
};
use crate::ledger::{Ledger, StoredLevel, StoredSeries, StoredTimeline, StoredTrial};
use crate::plan::TrialId;
use std::collections::HashSet;
use surtax_instrument::amount::{CPU_SYSTEM, CPU_USER};

/// Values of a series that are told: of more, each is of several samples.
const POINTS_MAX: usize = 240;

/// Name of user and system time together.
pub(crate) const CPU: &str = "cpu_ns";

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
    pub at_ns: Vec<u64>,
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
            for series in &level.series {
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
                    at_ns: level.times.iter().map(|at| at.0).collect(),
                    values: series.values(level.times.len()),
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
    let shown = shown(level.times.len());
    let at = |place: &usize| level.times.get(*place).map(|at| at.0);
    let mut series: Vec<SeriesFindings> = Vec::new();
    for (place, of) in level.series.iter().enumerate() {
        let system = match of.quantity.key {
            CPU_USER => level.series[place..].iter().find(|it| {
                it.quantity.key == CPU_SYSTEM && (&it.payer, it.role) == (&of.payer, of.role)
            }),
            CPU_SYSTEM => continue,
            _ => None,
        };
        series.extend(one(level, of, system, &shown));
    }
    LevelTimelineFindings {
        level: level.level,
        sample_count: u64::try_from(level.times.len()).unwrap_or(u64::MAX),
        late_count: level.late_count,
        clock_bound_ns: level.clock_bound.map(|bound| bound.0),
        at_ns: shown.iter().filter_map(at).collect(),
        series,
    }
}

/// Returns the places of the samples that are shown, the first and the last among them.
fn shown(count: usize) -> Vec<usize> {
    let step = count.saturating_sub(1).div_ceil(POINTS_MAX - 1).max(1);
    let mut places: Vec<usize> = (0..count).step_by(step).collect();
    if let Some(last) = count.checked_sub(1).filter(|last| places.last() != Some(last)) {
        places.push(last);
    }
    places
}

/// Tells of a series, and of another one that is added to it; `None` where nothing was used.
fn one(
    level: &StoredLevel,
    of: &StoredSeries,
    with: Option<&StoredSeries>,
    shown: &[usize],
) -> Option<SeriesFindings> {
    let count = level.times.len();
    let mut amounts = of.values(count);
    if let Some(with) = with {
        let more = with.values(count);
        for (place, amount) in amounts.iter_mut().enumerate() {
            let more = more.get(place).copied().flatten();
            *amount = amount.zip(more).map(|(one, other)| one.saturating_add(other));
        }
    }
    let is_rate = of.quantity.grows();
    let values = if is_rate { rates(level, &amounts, shown) } else { most(&amounts, shown) };
    if !values.iter().flatten().any(|value| *value > 0.0) {
        return None;
    }
    Some(SeriesFindings {
        payer: foreign::line(&of.payer),
        role: of.role.word().into(),
        carries_workload: of.carries_workload,
        quantity: if with.is_some() { CPU.into() } else { of.quantity.name.into() },
        is_rate,
        values,
    })
}

/// Use per second from each sample that is shown to the next.
fn rates(level: &StoredLevel, amounts: &[Option<u64>], shown: &[usize]) -> Vec<Option<f64>> {
    let first = shown.first().map(|_| None);
    let rates = shown.windows(2).map(|pair| {
        let (before, after) = (pair[0], pair[1]);
        let used = amounts.get(after).copied()??.checked_sub(amounts.get(before).copied()??)?;
        let time = level.times.get(after)?.since(*level.times.get(before)?);
        (time.0 > 0).then(|| estimate::float(used) / time.seconds())
    });
    first.into_iter().chain(rates).collect()
}

/// The most of the samples up to each that is shown.
fn most(amounts: &[Option<u64>], shown: &[usize]) -> Vec<Option<f64>> {
    let mut from = 0;
    let of = |to: &usize| {
        let window = amounts.get(from..=*to).unwrap_or_default();
        from = to + 1;
        window.iter().flatten().max().map(|most| estimate::float(*most))
    };
    shown.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::quantity::Nanoseconds;

    #[test]
    fn as_many_points_are_shown_as_have_room_and_both_ends_are_among_them() {
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
    fn a_rate_is_per_second_and_unknown_beside_a_gap_and_a_gauge_shows_its_most() {
        let times = [0, 500, 1500, 2000].map(|ms| Nanoseconds(ms * 1_000_000)).to_vec();
        let level = StoredLevel {
            level: 0,
            every: Nanoseconds(1),
            late_count: 0,
            clock_bound: None,
            times,
            series: Vec::new(),
        };
        let amounts = [Some(0), Some(10), Some(40), None];
        let rates = rates(&level, &amounts, &[0, 1, 2, 3]);
        assert_eq!(rates, [None, Some(20.0), Some(30.0), None]);
        assert_eq!(most(&amounts, &[0, 2, 3]), [Some(0.0), Some(40.0), None]);
    }
}
