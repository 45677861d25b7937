//! Percentile curves: how large the largest values of a distribution are, one nine after the other.
//!
//! Both axes are logarithmic: across stands the share of values that are larger, so that p99 is as
//! far from p90 as that is from p0, and each curve ends with the last nine that ten values support.
//! Source: Tene, "How NOT to Measure Latency", and the plots of HdrHistogram.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Fill};
use super::escape;
use super::legend::{self, Arm};
use super::table::{Cell, Table};
use crate::finding::estimate::float;
use crate::finding::number;
use crate::finding::stacks::once;
use crate::finding::{DistributionFindings, Findings, PercentilePoint};
use maud::{Markup, html};

const HEIGHT: f64 = 320.0;
const TOP: f64 = 10.0;
const FOOT: f64 = 34.0;
/// Left of the plot, for the times.
const MARGIN: f64 = 64.0;
/// The closest that two labels of times stand.
const APART: f64 = 26.0;

/// A curve, and whose it is.
type Curve<'a> = (&'a Arm<'a>, &'a DistributionFindings);

/// The section; `None` where nothing was measured whose distribution was kept.
pub fn curves(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    let histograms = arms.iter().flat_map(|arm| &arm.found.histograms);
    let names = once(histograms.map(|it| it.metric.as_str()));
    let figures: Vec<Markup> = names
        .iter()
        .enumerate()
        .filter_map(|(place, name)| figure(findings, arms, place, name))
        .collect();
    (!figures.is_empty()).then(|| {
        html! {
            section #curves {
                h2 { "How far the tails reach" }
                @for figure in &figures { (figure) }
            }
        }
    })
}

fn figure(findings: &Findings, arms: &[Arm<'_>], place: usize, name: &str) -> Option<Markup> {
    let of = |arm: &Arm<'_>| -> Option<usize> {
        arm.found.histograms.iter().position(|it| it.metric == name && it.points.len() > 1)
    };
    let curves: Vec<Curve<'_>> =
        arms.iter().filter_map(|arm| Some((arm, &arm.found.histograms[of(arm)?]))).collect();
    if curves.is_empty() {
        return None;
    }
    let shown: Vec<&Arm<'_>> = curves.iter().map(|(arm, _)| *arm).collect();
    Some(html! {
        (legend::legend(&shown, None))
        figure {
            @for (class, width) in [("wide", chart::WIDE), ("narrow", chart::NARROW)] {
                (draw(findings, &curves, (name, place), class, width))
            }
            figcaption { (escape::prose(&explanation(name))) }
        }
        details {
            summary { "The numbers of this chart" }
            (numbers(&curves))
        }
    })
}

/// Returns how many nines a share has: 1 for 0.9, 2 for 0.99.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(f64::MIN_POSITIVE).log10()
}

fn draw(
    findings: &Findings,
    curves: &[Curve<'_>],
    (name, place): (&str, usize),
    class: &'static str,
    width: f64,
) -> Markup {
    let mut canvas = Canvas::new(width, HEIGHT);
    let (left, right, bottom) = (MARGIN, width - 14.0, HEIGHT - FOOT);
    let points = || curves.iter().flat_map(|(_, found)| &found.points);
    let most = points().map(|point| nines(point.share)).fold(1.0, f64::max);
    let times = Axis::over(points().map(|point| float(point.value_ns)), bottom, TOP);
    let across = |share: f64| left + (right - left) * (nines(share) / most).clamp(0.0, 1.0);

    for tick in times.span_ticks(APART) {
        canvas.line_in("grid", (left, tick.at), (right, tick.at));
        canvas.text_in("axis", (left - 6.0, tick.at + 4.0), 11, Anchor::End, &tick.label);
    }
    for (label, share) in shares(most) {
        let x = across(share);
        canvas.line_in("grid", (x, TOP), (x, bottom));
        canvas.text_in("axis", (x.min(width - 22.0), bottom + 17.0), 11, Anchor::Middle, &label);
    }
    for (arm, found) in curves {
        let at = |point: &PercentilePoint| (across(point.share), times.at(float(point.value_ns)));
        let line: Vec<(f64, f64)> = found.points.iter().map(at).collect();
        canvas.group_of(&arm.class, Some(arm.found.arm), Some(&spoken(arm, found)), |canvas| {
            canvas.polyline(&line, 1.8);
            // A mark at every whole nine, so that shapes tell curves apart where colours do not.
            let marks: Vec<(f64, f64)> =
                found.points.iter().filter(|it| is_whole(it.share)).map(at).collect();
            canvas.marks(arm.shape, &marks, 3.6, Fill::Solid);
        });
    }
    let said: Vec<String> = curves.iter().map(|(arm, found)| spoken(arm, found)).collect();
    let later = format!("curves-{place}");
    canvas.svg(
        if place == 0 { "curves" } else { &later },
        class,
        &format!("Percentiles of {name} of each stack of {}", findings.run.title),
        &said.join("; "),
    )
}

/// Tells whether a share is 0.9, 0.99 and so on.
fn is_whole(share: f64) -> bool {
    let nines = nines(share);
    nines > 0.5 && (nines - nines.round()).abs() < 1e-6
}

/// Returns the labels of the axis of shares and where they stand, up to so many nines.
fn shares(most: f64) -> Vec<(String, f64)> {
    let whole = (1..=9i32).map(|nines| 1.0 - 0.1f64.powi(nines));
    std::iter::once(0.5)
        .chain(whole)
        .filter(|share| nines(*share) <= most + 1e-6)
        .map(|share| (percentile(share), share))
        .collect()
}

/// A share as people say it: p50, p99.9.
fn percentile(share: f64) -> String {
    format!("p{}", number::trimmed(share * 100.0, 7))
}

/// Describes a curve, for those who cannot see it.
fn spoken(arm: &Arm<'_>, found: &DistributionFindings) -> String {
    let said = found.points.iter().filter(|it| is_whole(it.share)).map(|point| {
        format!("{} {}", percentile(point.share), number::time(float(point.value_ns)))
    });
    let largest = found.highest_ns.map(|ns| format!("largest {}", number::time(float(ns))));
    let said: Vec<String> = said.chain(largest).collect();
    format!("{}: {}", arm.name, said.join(", "))
}

fn explanation(name: &str) -> String {
    format!(
        "The percentiles of {name}: every value of every trial that counts. A point to the right \
         is rarer by a factor of ten per nine; a curve ends where fewer than ten values are \
         larger, because what lies beyond is chance."
    )
}

fn numbers(curves: &[Curve<'_>]) -> Markup {
    let columns = ["Stack", "#Percentile", "#Time", "#Values"];
    let mut table = Table::new("Percentiles, and the largest value", &columns);
    for (arm, found) in curves {
        let mut row = |name: String, share: f64, value_ns: u64| {
            let cells = vec![
                Cell::Code(arm.name.clone()),
                Cell::Number(name, share),
                Cell::number(Some(float(value_ns)), number::time),
                Cell::number(Some(float(found.value_count)), |count| format!("{count:.0}")),
            ];
            table.row(Some(arm.found.arm), cells);
        };
        for point in found.points.iter().filter(|it| is_whole(it.share)) {
            row(percentile(point.share), point.share, point.value_ns);
        }
        if let Some(highest_ns) = found.highest_ns {
            row(String::from("largest"), 1.0, highest_ns);
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_the_same_room_and_is_called_by_its_percentile() {
        let labels: Vec<String> = shares(4.0).into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["p50", "p90", "p99", "p99.9", "p99.99"]);
        assert!((nines(0.999) - 3.0).abs() < 1e-9 && nines(0.0).abs() < 1e-9);
        assert!(is_whole(0.99) && !is_whole(0.0) && !is_whole(0.98));
        assert_eq!(percentile(1.0 - 0.1f64.powi(9)), "p99.9999999");
    }
}
