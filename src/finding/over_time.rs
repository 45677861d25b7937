//! Rows of a timeline: of each payer CPU time, memory, disks and links, for every format that
//! draws.

use crate::finding::timeline::CPU;
use crate::finding::{
    ArmFindings, LevelTimelineFindings, PhaseFindings, SeriesFindings, TimelineFindings, estimate,
    number,
};
use std::rc::Rc;
use surtax_instrument::wire::Role;

/// As many payers of a level are drawn, those that used most CPU time.
const PAYERS_MAX: usize = 16;

/// Aspect of what a payer uses, which has a chart of its own.
pub(crate) struct Aspect {
    /// Heading.
    pub(crate) name: &'static str,
    /// True if a value is what was used per second since the time before.
    pub(crate) is_rate: bool,
    /// The quantities that are added up in it.
    pub(crate) quantities: &'static [&'static str],
    /// A value for people.
    pub(crate) shown: fn(f64) -> String,
}

/// Every aspect, the most telling first.
pub(crate) const ASPECTS: [Aspect; 4] = [
    Aspect { name: "CPUs in use", is_rate: true, quantities: &[CPU], shown: cpus },
    Aspect { name: "Memory", is_rate: false, quantities: &["memory_used_bytes"], shown: bytes },
    Aspect {
        name: "Disks, per second",
        is_rate: true,
        quantities: &["disk_read_bytes", "disk_written_bytes"],
        shown: bytes,
    },
    Aspect {
        name: "Network, per second",
        is_rate: true,
        quantities: &["network_received_bytes", "network_sent_bytes"],
        shown: bytes,
    },
];

fn bytes(bytes: f64) -> String {
    number::amount(bytes, "bytes")
}

/// CPU time per second as a number of CPUs.
pub(crate) fn cpus(ns_per_s: f64) -> String {
    match ns_per_s / 1e9 {
        cpus if cpus > 0.0 && cpus < 0.005 => String::from("< 0.01"),
        cpus => number::trimmed(cpus, 2),
    }
}

/// A payer with what is drawn of it.
pub(crate) struct PayerRow<'a> {
    /// For each time, for how long its value stood while the command ran.
    spans: Rc<[f64]>,
    pub(crate) payer: &'a str,
    pub(crate) role: &'a str,
    /// Values of each of [`ASPECTS`]; `None` where nothing of it was used, or is known.
    pub(crate) aspects: [Option<Vec<Option<f64>>>; ASPECTS.len()],
}

impl PayerRow<'_> {
    /// The mean of an aspect while the command ran, over the time of which it is known.
    pub(crate) fn mean(&self, aspect: usize) -> Option<f64> {
        let (sum, time) = self
            .known(aspect)?
            .fold((0.0, 0.0), |(sum, time), (value, span)| (sum + value * span, time + span));
        (time > 0.0).then(|| sum / time)
    }

    /// The most of an aspect while the command ran.
    pub(crate) fn most(&self, aspect: usize) -> Option<f64> {
        self.known(aspect)?.map(|(value, _)| value).reduce(f64::max)
    }

    /// The most of an aspect at any time, the start of the stack and warm-ups among them.
    pub(crate) fn highest(&self, aspect: usize) -> Option<f64> {
        self.aspects.get(aspect)?.as_ref()?.iter().flatten().copied().reduce(f64::max)
    }

    /// The values that stood while the command ran, each with for how long.
    fn known(&self, aspect: usize) -> Option<impl Iterator<Item = (f64, f64)> + '_> {
        let values = self.aspects.get(aspect)?.as_ref()?;
        let each = values.iter().zip(self.spans.iter());
        Some(each.filter_map(|(value, span)| Some(((*value)?, *span))).filter(|it| it.1 > 0.0))
    }

    /// Tells whether it is a whole machine, or a link of one.
    pub(crate) fn is_machine(&self) -> bool {
        self.role == Role::Machine.word()
    }
}

/// The arms that have a timeline, each with it; the baseline once.
pub(crate) fn watched<'a>(
    arms: impl Iterator<Item = &'a ArmFindings>,
) -> impl Iterator<Item = (&'a ArmFindings, &'a TimelineFindings)> {
    arms.filter_map(|arm| Some((arm, of_arm(arm)?)))
}

/// The timeline that is shown of an arm: none of the second of the baseline.
pub(crate) fn of_arm(arm: &ArmFindings) -> Option<&TimelineFindings> {
    arm.timeline.as_ref().filter(|_| !arm.is_again())
}

/// The payers of a level that used something, in their order; of many those with most CPU time.
pub(crate) fn rows<'a>(
    level: &'a LevelTimelineFindings,
    timeline: &TimelineFindings,
) -> Vec<PayerRow<'a>> {
    let (spans, mut rows) = (spans(level, timeline), Vec::<PayerRow<'a>>::new());
    for of in &level.series {
        let aspect = ASPECTS.iter().position(|it| it.quantities.contains(&of.quantity.as_str()));
        let Some(aspect) = aspect else { continue };
        let known = rows.iter().position(|row| (row.payer, row.role) == (&of.payer, &of.role));
        let place = known.unwrap_or_else(|| {
            let (payer, role, spans) = (&of.payer, &of.role, Rc::clone(&spans));
            rows.push(PayerRow { spans, payer, role, aspects: Default::default() });
            rows.len() - 1
        });
        if let Some(values) = rows.get_mut(place).and_then(|it| it.aspects.get_mut(aspect)) {
            add(values, of);
        }
    }
    if rows.len() > PAYERS_MAX {
        rows.sort_by(|a, b| b.mean(0).unwrap_or(0.0).total_cmp(&a.mean(0).unwrap_or(0.0)));
        rows.truncate(PAYERS_MAX);
    }
    rows
}

/// For how long, in ns, the value of each time stood while the command ran: from the time before
/// on. Where it is not known when it ran, the whole time counts.
fn spans(level: &LevelTimelineFindings, timeline: &TimelineFindings) -> Rc<[f64]> {
    let (begin, end) = run(timeline).unwrap_or((0, u64::MAX));
    let mut before = None;
    let span = |at: &u64| {
        let since = before.replace(*at).unwrap_or(*at);
        estimate::float((*at).min(end).saturating_sub(since.max(begin)))
    };
    level.at_ns.iter().map(span).collect()
}

/// Adds a series to what is known of an aspect; what one of them does not know is not known.
fn add(values: &mut Option<Vec<Option<f64>>>, of: &SeriesFindings) {
    match values {
        None => *values = Some(of.values.clone()),
        Some(sum) => {
            for (value, more) in sum.iter_mut().zip(&of.values) {
                *value = value.zip(*more).map(|(one, other)| one + other);
            }
        }
    }
}

/// The time in which the command ran, its warm-up left out: from the first begin to the last end.
pub(crate) fn run(timeline: &TimelineFindings) -> Option<(u64, u64)> {
    let runs = timeline.phases.iter().filter(|it| it.phase == "run");
    let ends = |it: &PhaseFindings| (it.from_ns, it.to_ns);
    runs.map(ends).reduce(|(from, to), next| (from.min(next.0), to.max(next.1)))
}

/// Says how often somebody looked.
pub(crate) fn every(timeline: &TimelineFindings) -> String {
    format!("looked at every {}", number::time(estimate::float(timeline.every_ns)))
}

/// Says which trial is shown of an arm, how often it was looked at, and how good its times are.
pub(crate) fn caption(timeline: &TimelineFindings) -> String {
    let first = format!("block {}, {}", timeline.block + 1, every(timeline));
    std::iter::once(first).chain(remarks(timeline)).collect::<Vec<_>>().join("; ")
}

/// Remarks on the times of a timeline: how good they are, and how many came late.
pub(crate) fn remarks(timeline: &TimelineFindings) -> impl Iterator<Item = String> {
    let bound = |level: &LevelTimelineFindings| match (level.level, level.clock_bound_ns) {
        (0, _) | (_, Some(0)) => None,
        (number, Some(bound)) => {
            let bound = number::time(estimate::float(bound));
            Some(format!("times of level {number} to within {bound}"))
        }
        (number, None) => Some(format!("times of level {number} by its own clock")),
    };
    let late: u64 = timeline.levels.iter().map(|it| it.late_count).sum();
    let looks: u64 = timeline.levels.iter().map(|it| it.sample_count).sum();
    let late = (late > 0).then(|| format!("{late} of {looks} looks came late"));
    timeline.levels.iter().filter_map(bound).chain(late)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A timeline of two levels, in which a payer of the first used all of a CPU for five of ten
    /// seconds.
    pub(crate) fn example() -> TimelineFindings {
        let series =
            |payer: &str, role: &str, quantity: &str, values: Vec<Option<f64>>| SeriesFindings {
                payer: payer.into(),
                role: role.into(),
                carries_workload: role == "engine",
                quantity: quantity.into(),
                is_rate: quantity != "memory_used_bytes",
                values,
            };
        let half = |value: f64| {
            let of = |place: u32| (place > 0).then_some(if place <= 5 { value } else { 0.0 });
            (0..=10).map(of).collect::<Vec<_>>()
        };
        let level = |level, bound, series| LevelTimelineFindings {
            level,
            sample_count: 11,
            late_count: u64::from(level),
            clock_bound_ns: bound,
            at_ns: (0..=10).map(|second| second * 1_000_000_000).collect(),
            series,
        };
        let phase = |phase: &str, from_ns: u64, to_ns: u64| PhaseFindings {
            phase: phase.into(),
            from_ns: from_ns * 1_000_000_000,
            to_ns: to_ns * 1_000_000_000,
        };
        TimelineFindings {
            block: 2,
            attempt: 1,
            every_ns: 1_000_000_000,
            phases: vec![phase("start", 0, 1), phase("warm-up", 1, 2), phase("run", 2, 10)],
            levels: vec![
                level(
                    0,
                    Some(0),
                    vec![
                        series("container", "engine", CPU, half(1e9)),
                        series("container", "engine", "memory_used_bytes", vec![Some(5e6); 11]),
                        series("container", "engine", "disk_read_bytes", half(3e6)),
                        series("container", "engine", "disk_written_bytes", half(4e6)),
                        series("container", "engine", "throttled_ns", half(1.0)),
                        series("the machine", "machine", CPU, half(1.2e9)),
                    ],
                ),
                level(1, Some(500_000), vec![series("the machine", "machine", CPU, half(9e8))]),
            ],
        }
    }

    #[test]
    fn a_payers_aspects_are_its_sums_and_what_has_no_chart_is_left_out() {
        let timeline = example();
        let rows = rows(&timeline.levels[0], &timeline);
        let names: Vec<&str> = rows.iter().map(|row| row.payer).collect();
        assert_eq!(names, ["container", "the machine"]);
        // Of the eight seconds of its run three, and nothing of its warm-up.
        assert_eq!((rows[0].mean(0), rows[0].most(0)), (Some(3.75e8), Some(1e9)));
        assert_eq!(
            (rows[0].most(1), rows[0].most(2), rows[0].most(3)),
            (Some(5e6), Some(7e6), None)
        );
        assert!(rows[1].is_machine() && !rows[0].is_machine());
        assert_eq!(run(&timeline), Some((2_000_000_000, 10_000_000_000)));
    }

    #[test]
    fn a_little_cpu_time_is_not_none() {
        assert_eq!([0.0, 1e6, 5e6, 1.25e9].map(cpus), ["0", "< 0.01", "0.01", "1.25"]);
    }

    #[test]
    fn the_caption_says_how_good_times_are_and_how_many_looks_came_late() {
        let expected = "block 3, looked at every 1.000 s; times of level 1 to within 500.0 µs; 1 of \
                        22 looks came late";
        assert_eq!(caption(&example()), expected);
        let mut unknown = example();
        unknown.levels[1].clock_bound_ns = None;
        assert!(caption(&unknown).contains("times of level 1 by its own clock"));
    }
}
