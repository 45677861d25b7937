//! Finds, before a run, the power of an idle machine, and how much later a meter says what has
//! changed.
//!
//! All CPUs are idle for a while, and then busy, several times. The meter is half way between both
//! after each edge; between which two readings that was bounds how late it is, and all edges
//! together bound it better than one does.

use super::readings::{Reading, Readings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::{Nanoseconds, whole};

/// Shortest time for which the machine is idle, and then busy.
const SHORTEST: Duration = Duration::from_secs(5);

/// Readings of the slowest meter that are wanted of each.
const READINGS: u32 = 5;

/// Share of the idle power that a step must be to be seen, and it must be more than that differs.
const LEAST_STEP: f64 = 0.02;

/// Edges of the load: from idle to busy, and back.
const EDGES: u32 = 8;

/// Name of the threads that keep the CPUs busy, for whoever wonders who they are.
const LOAD: &str = "meter-load";

/// Facts found of a meter; nothing of what could not be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibrated {
    /// Power of the idle machine, in microwatts.
    pub idle_uw: Option<u64>,
    /// Additional power of a machine whose CPUs are all busy, in microwatts; may be negative.
    pub step_uw: Option<i64>,
    /// Time by which the meter is late.
    pub delay: Option<Nanoseconds>,
}

/// Load that was made: from `idle_from` until the first edge the machine was idle, until the second
/// one busy, and so on until `over`.
pub(super) struct Load {
    idle_from: Nanoseconds,
    edges: Vec<Nanoseconds>,
    over: Nanoseconds,
}

impl Load {
    /// Time that one takes that the slowest of these meters can see.
    pub(super) fn takes(slowest: Duration) -> Duration {
        phases(slowest).iter().sum()
    }

    /// Makes one that the slowest of these meters can see; `None` where the user ends it.
    pub(super) fn make(slowest: Duration, is_over: &dyn Fn() -> bool) -> Option<Self> {
        let idle_from = clock::monotonic_raw();
        let mut edges = Vec::new();
        for (place, time) in phases(slowest).into_iter().enumerate() {
            if place > 0 {
                edges.push(clock::monotonic_raw());
            }
            match place % 2 {
                0 => wait(time, is_over),
                _ => busy_while(|| wait(time, is_over)),
            }?;
        }
        Some(Self { idle_from, edges, over: clock::monotonic_raw() })
    }

    /// Returns what a meter says of it.
    pub(super) fn seen_by(&self, readings: &Readings) -> Calibrated {
        let [busy_from, busy_to] = [0, 1].map(|place| *self.edges.get(place).unwrap_or(&self.over));
        // A meter that is late still tells of what was before, at first of each.
        let before = readings.between(self.idle_from, busy_from);
        let before = last(&before, 3);
        let idle = mean(before);
        let busy = readings.between(busy_from, busy_to);
        let (Some(idle), Some(plateau)) = (idle, mean(last(&busy, 3))) else {
            return Calibrated { idle_uw: idle.map(rounded), ..Calibrated::default() };
        };
        let step = plateau - idle;
        let is_seen = step.abs() > (LEAST_STEP * idle).max(spread(before));
        Calibrated {
            idle_uw: Some(rounded(idle)),
            step_uw: is_seen.then(|| signed(step)),
            delay: self.delay(readings, idle + step / 2.0).filter(|_| is_seen),
        }
    }

    /// Time by which a meter is late that says so much when it is half way: what all edges allow.
    fn delay(&self, readings: &Readings, half: f64) -> Option<Nanoseconds> {
        let ends = self.edges.iter().skip(1).chain([&self.over]);
        let mut each = self.edges.iter().zip(ends);
        let (first_from, first_to) = each.next()?;
        let first = crossing(readings, [*first_from, *first_to], half)?;
        // One that is so late that it tells of a short phase in the next is not asked about these.
        let shortest = each.clone().map(|(from, to)| to.since(*from).seconds());
        let is_soon = shortest.fold(f64::INFINITY, f64::min) > first[1] * 1.25;
        let others = each.filter(|_| is_soon);
        let others = others.filter_map(|(from, to)| crossing(readings, [*from, *to], half));
        let between = others.fold(first, |so_far, [early, late]| {
            let both = [so_far[0].max(early), so_far[1].min(late)];
            // Meters are not late by the same to the letter: one that contradicts is left out.
            if both[0] <= both[1] { both } else { so_far }
        });
        let delay_s = f64::midpoint(between[0], between[1]).max(0.0);
        Some(Nanoseconds(whole((delay_s * 1e9).round())))
    }
}

/// Times for which the machine is idle, busy, and so on.
fn phases(slowest: Duration) -> Vec<Duration> {
    let long = SHORTEST.max(slowest * READINGS);
    // Each edge is at another moment between two readings.
    let short = (1..EDGES).map(|place| long / 2 + slowest * place / EDGES);
    [long, long].into_iter().chain(short).collect()
}

/// Two readings between which the power was half way first, as how much later than `from` they are,
/// in seconds; `None` where it never was.
fn crossing(readings: &Readings, [from, to]: [Nanoseconds; 2], half: f64) -> Option<[f64; 2]> {
    let around = readings.between(Nanoseconds(0), to);
    // The last one before may be the one from which it goes.
    let before = around.iter().rposition(|it| it.at < from).unwrap_or(0);
    let is_above = |reading: &Reading| reading.microwatts as f64 >= half;
    let crossed = |pair: &&[Reading]| is_above(&pair[0]) != is_above(&pair[1]);
    let pair = around.get(before..)?.windows(2).find(crossed)?;
    Some([0, 1].map(|place| pair[place].at.seconds() - from.seconds()))
}

/// Keeps all CPUs busy while something else is done.
fn busy_while<T>(act: impl FnOnce() -> T) -> T {
    let is_done = Arc::new(AtomicBool::new(false));
    let spin = |is_done: Arc<AtomicBool>| {
        move || {
            while !is_done.load(Ordering::Relaxed) {
                // A pause would save power, which a command does not.
                std::hint::black_box(
                    (0..1000_u64).fold(1, |sum: u64, it| sum.wrapping_mul(it | 1)),
                );
            }
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let named = || std::thread::Builder::new().name(String::from(LOAD));
    let busy: Vec<_> = (0..cpus).map(|_| named().spawn(spin(Arc::clone(&is_done)))).collect();
    let acted = act();
    is_done.store(true, Ordering::Relaxed);
    busy.into_iter().flatten().for_each(|thread| drop(thread.join()));
    acted
}

/// Waits for so long; `None` where the user ends it before.
fn wait(time: Duration, is_over: &dyn Fn() -> bool) -> Option<()> {
    let over = clock::look_until(time, Duration::from_millis(50), || is_over().then_some(()));
    over.is_none().then_some(())
}

/// The last part of readings, one of so many, but for the very last, which may have been answered
/// after what it was asked about.
fn last(readings: &[Reading], of: usize) -> &[Reading] {
    let readings = readings.split_last().map_or(readings, |(_, before)| before);
    let count = readings.len().div_ceil(of);
    readings.get(readings.len() - count..).unwrap_or_default()
}

/// Difference between the largest and the smallest of readings.
fn spread(readings: &[Reading]) -> f64 {
    let each = || readings.iter().map(|it| it.microwatts);
    each().max().zip(each().min()).map_or(0.0, |(most, least)| (most - least) as f64)
}

fn mean(readings: &[Reading]) -> Option<f64> {
    let count = u32::try_from(readings.len()).ok().filter(|count| *count > 0)?;
    Some(readings.iter().map(|it| it.microwatts as f64).sum::<f64>() / f64::from(count))
}

fn rounded(value: f64) -> u64 {
    whole(value.round())
}

fn signed(value: f64) -> i64 {
    let size = i64::try_from(rounded(value.abs())).unwrap_or(i64::MAX);
    if value < 0.0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load as it is made, seen by a meter that is so late, and says so much of each.
    fn seen(late_ms: u64, idle: u64, busy: u64) -> Calibrated {
        let ms = |ms: u64| Nanoseconds(ms * 1_000_000);
        let mut edges = vec![5000, 10_000];
        edges.extend((1..7).map(|place| 10_000 + place * 2500 + (place + 1) * place / 2 * 25));
        let mut readings = Readings::new(Duration::from_millis(200));
        for at in (0..140).map(|place| place * 200 + 7) {
            // Before it was idle, it was busy.
            let passed = edges.iter().filter(|edge| at >= *edge + late_ms).count();
            let is_busy = at < late_ms || passed % 2 == 1;
            readings.add(ms(at), ms(at), if is_busy { busy } else { idle });
        }
        let edges = edges.into_iter().map(ms).collect();
        Load { idle_from: ms(0), edges, over: ms(27_600) }.seen_by(&readings)
    }

    #[test]
    fn idle_power_and_how_late_a_meter_is_are_found_by_a_step() {
        for late in [0, 400, 1900] {
            let found = seen(late, 12_500_000, 37_500_000);
            assert_eq!(found.step_uw, Some(25_000_000));
            let delay = found.delay.unwrap().0 / 1_000_000;
            // One edge alone would leave a time between two readings.
            assert!(delay.abs_diff(late) <= 30, "{late}: {delay}");
            // What was before the machine was idle is not in it.
            assert!((12_400_000..12_600_000).contains(&found.idle_uw.unwrap()), "{found:?}");
        }
    }

    #[test]
    fn a_meter_that_sees_no_step_is_not_said_to_be_late_by_anything() {
        let found = seen(0, 12_500_000, 12_600_000);
        assert_eq!((found.step_uw, found.delay), (None, None));
        assert_eq!(found.idle_uw, Some(12_500_000));
        // One that tells of a short phase in the next is known by the first edge.
        assert!(
            (seen(3100, 12_500_000, 37_500_000).delay.unwrap().0 / 1_000_000).abs_diff(3100) <= 200
        );
        // One that says less the more a machine does is told of as it is.
        assert_eq!(seen(0, 37_500_000, 12_500_000).step_uw, Some(-25_000_000));
    }
}
