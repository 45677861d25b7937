//! Every trial in time order: what a median hides (drift, two modes, one bad block) is seen here.
//!
//! Up to [`POINTS_MAX`] trials are drawn and listed one by one. Beyond that a browser would choke
//! and a reader see a blot: `thin.rs` reduces the trials that count to the median and the range of
//! each stretch of time, and the report says so.

mod draw;
mod thin;

use super::escape;
use super::legend::{self, Arm, counts};
use super::table::{Cell, Table};
use crate::finding::estimate::float;
use crate::finding::{Findings, TrialPoint, number};
use maud::{Markup, html};
use thin::Bin;

/// As many trials are shown one by one.
pub const POINTS_MAX: usize = 4_000;
/// As many stretches of time are shown, over all arms, when there are more trials than that.
const BINS_MAX: usize = 1_200;
/// As many trials that do not count are shown beside the stretches, over all arms.
const VOID_MAX: usize = 600;
/// As much is repeated of why one trial does not count.
const WHY_LENGTH_MAX: usize = 160;

/// Data that is shown of one arm.
struct Series<'a> {
    arm: &'a Arm<'a>,
    counted: Counted<'a>,
    void: Vec<&'a TrialPoint>,
    void_left_out: usize,
}

/// Trials of an arm that count.
enum Counted<'a> {
    Each(Vec<&'a TrialPoint>),
    Binned(Vec<Bin>),
}

/// The section; `None` when there is no trial.
pub fn trials(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    let tried: Vec<&Arm<'_>> = arms.iter().filter(|arm| !arm.found.trials.is_empty()).collect();
    let trial_count: usize = tried.iter().map(|arm| arm.found.trials.len()).sum();
    if trial_count == 0 {
        return None;
    }
    let series: Vec<Series<'_>> =
        tried.iter().map(|arm| Series::of(arm, trial_count, tried.len())).collect();
    let (rows, table) = listed(&series, trial_count);
    Some(html! {
        section #trials {
            h2 { "Every trial, in time order" }
            (legend::legend(&tried, disturbed_entry(&tried, trial_count)))
            figure {
                (draw::draw(findings, &series, draw::WIDE))
                (draw::draw(findings, &series, draw::NARROW))
                figcaption { (escape::line(&explanation(&series, trial_count))) }
            }
            details {
                summary { "The trials of this chart (" (rows) " rows)" }
                (table)
            }
        }
    })
}

impl<'a> Series<'a> {
    fn of(arm: &'a Arm<'a>, trial_count: usize, arm_count: usize) -> Self {
        let (counted, void): (Vec<_>, Vec<_>) =
            arm.found.trials.iter().partition(|trial| counts(trial) && trial.wall_ns.is_some());
        if trial_count <= POINTS_MAX {
            return Self { arm, counted: Counted::Each(counted), void, void_left_out: 0 };
        }
        let bins = thin::thin(&counted, (BINS_MAX / arm_count).max(4));
        let void_count = void.len();
        let step = void_count.div_ceil((VOID_MAX / arm_count).max(4)).max(1);
        let void: Vec<_> = void.into_iter().step_by(step).collect();
        let void_left_out = void_count - void.len();
        Self { arm, counted: Counted::Binned(bins), void, void_left_out }
    }

    /// The wall times that count, as far as they are drawn.
    fn counted_walls_ns(&self) -> Vec<f64> {
        match &self.counted {
            Counted::Each(trials) => walls_ns(trials).collect(),
            Counted::Binned(bins) => {
                bins.iter().flat_map(|bin| [bin.wall_ns_min, bin.wall_ns_max]).collect()
            }
        }
    }

    /// The latest begin of a trial that is drawn.
    fn latest_ns(&self) -> f64 {
        let void = self.void.iter().map(|trial| float(trial.at_ns)).fold(0.0, f64::max);
        match &self.counted {
            Counted::Each(trials) => {
                trials.iter().map(|trial| float(trial.at_ns)).fold(void, f64::max)
            }
            Counted::Binned(bins) => bins.iter().map(|bin| bin.to_ns).fold(void, f64::max),
        }
    }
}

/// Explains hollow marks, where there are any.
fn disturbed_entry(arms: &[&Arm<'_>], trial_count: usize) -> Option<Markup> {
    let is_any = arms.iter().any(|arm| arm.found.disturbed_count > 0);
    (is_any && trial_count <= POINTS_MAX)
        .then(|| html! { span.label { (legend::hollow()) "hollow: disturbed" } })
}

fn walls_ns(trials: &[&TrialPoint]) -> impl Iterator<Item = f64> {
    trials.iter().filter_map(|trial| trial.wall_ns).map(float)
}

fn explanation(series: &[Series<'_>], trial_count: usize) -> String {
    let void_count: usize = series.iter().map(|one| one.void.len() + one.void_left_out).sum();
    let mut text = match void_count {
        0 => String::from("All trials count."),
        1 => String::from("One trial, marked ×, does not count."),
        _ => format!("{void_count} trials, marked ×, do not count."),
    };
    if void_count > 0 {
        text.push_str(
            " Below a dotted line stand those without a time, or with one far from the trials \
             that count.",
        );
    }
    if trial_count > POINTS_MAX {
        text = format!(
            "{trial_count} trials are too many to show one by one: a mark is the median of a \
             stretch of time, its line reaches from the fastest trial to the slowest. {text}"
        );
    }
    match series.iter().map(|one| one.arm.found.disturbed_count).sum::<u32>() {
        0 => {}
        1 => text.push_str(" One trial that counts was disturbed by the machine."),
        count => {
            text.push_str(&format!(" {count} trials that count were disturbed by the machine."))
        }
    }
    let left_out: usize = series.iter().map(|one| one.void_left_out).sum();
    if left_out > 0 {
        text.push_str(&format!(" {left_out} of them are not shown; the run file has them all."));
    }
    text + " A line that rises or falls is drift; a lone outlier is worth a look at its block."
}

/// The rows beside the chart: as many, and the table.
fn listed(series: &[Series<'_>], trial_count: usize) -> (usize, Markup) {
    let bin_count: usize = series
        .iter()
        .map(|one| if let Counted::Binned(bins) = &one.counted { bins.len() } else { 0 })
        .sum();
    let mut rows: Vec<(&Arm<'_>, &TrialPoint)> = Vec::new();
    for one in series {
        rows.extend(one.void.iter().map(|trial| (one.arm, *trial)));
        if let Counted::Each(trials) = &one.counted {
            rows.extend(trials.iter().map(|trial| (one.arm, *trial)));
        }
    }
    rows.sort_by_key(|(_, trial)| (trial.at_ns, trial.block, trial.position));
    let tables = html! {
        @if trial_count > POINTS_MAX { (stretches(series)) }
        (one_by_one(&rows, trial_count))
    };
    (bin_count + rows.len(), tables)
}

/// Says how a trial ended, why it does not count, and what disturbed it.
fn state(trial: &TrialPoint) -> String {
    let mut text = trial.state.clone();
    for more in [trial.why.as_str(), &trial.disturbed()] {
        if !more.is_empty() {
            text = format!("{text}: {more}");
        }
    }
    text
}

fn one_by_one(rows: &[(&Arm<'_>, &TrialPoint)], trial_count: usize) -> Markup {
    let caption = if trial_count > POINTS_MAX { "Trials that do not count" } else { "Trials" };
    let columns = ["#Block", "Stack", "#Begin", "#Wall time", "#Start", "State"];
    let mut table = Table::new(caption, &columns).sortable();
    for (arm, trial) in rows {
        let state = escape::shortened(&state(trial), WHY_LENGTH_MAX);
        let ns = |ns: Option<u64>| Cell::number(ns.map(float), number::time);
        let cells = vec![
            Cell::count(trial.block),
            Cell::Code(escape::shortened(&arm.name, WHY_LENGTH_MAX)),
            ns(Some(trial.at_ns)),
            ns(trial.wall_ns),
            ns(trial.start_ns),
            Cell::Text(state),
        ];
        table.row(Some(arm.found.arm), cells);
    }
    table.finish()
}

fn stretches(series: &[Series<'_>]) -> Markup {
    let columns = ["Stack", "#From", "#To", "#Trials", "#Fastest", "#Median", "#Slowest"];
    let mut table = Table::new("Stretches of time", &columns).sortable();
    for one in series {
        let Counted::Binned(bins) = &one.counted else { continue };
        for bin in bins {
            let time = |ns| Cell::number(Some(ns), number::time);
            let cells = vec![
                Cell::Code(escape::shortened(&one.arm.name, WHY_LENGTH_MAX)),
                time(bin.from_ns),
                time(bin.to_ns),
                Cell::count(bin.trial_count),
                time(bin.wall_ns_min),
                time(bin.wall_ns_median),
                time(bin.wall_ns_max),
            ];
            table.row(Some(one.arm.found.arm), cells);
        }
    }
    table.finish()
}
