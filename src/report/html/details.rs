//! The details of each arm: every metric, who paid, what proves where it ran, what went wrong.

use super::heading::advice;
use super::legend::Arm;
use super::table::{Cell, Table};
use super::{bill, escape, joined};
use crate::finding::verdict::TELLING;
use crate::finding::{ArmFailure, KeyValue, MetricFindings, number, trial_metric};
use maud::{Markup, html};

/// As many different outputs or exit statuses of one arm are listed.
const VARIANTS_MAX: usize = 8;

/// The section.
pub fn details(arms: &[Arm<'_>]) -> Markup {
    html! {
        section #arms {
            h2 { "Each stack in detail" }
            @for it in arms {
                (arm(it))
                "\n"
            }
        }
    }
}

/// Facts with their source, as a table.
pub fn facts(caption: &str, facts: &[KeyValue]) -> Markup {
    let mut table = Table::new(caption, &["Fact", "Value", "Read from"]);
    for fact in facts {
        table.row(
            None,
            vec![
                Cell::Text(fact.key.clone()),
                Cell::Lines(fact.value.clone()),
                Cell::Text(fact.source.clone()),
            ],
        );
    }
    table.finish()
}

fn arm(arm: &Arm<'_>) -> Markup {
    let trial_count = number::count(arm.found.trials.len(), "run");
    let counted = match usize::try_from(arm.found.trial_count) {
        Ok(count) if count == arm.found.trials.len() => trial_count,
        _ if arm.found.trials.len() == 1 => {
            format!("{} of {trial_count} counts", arm.found.trial_count)
        }
        _ => format!("{} of {trial_count} count", arm.found.trial_count),
    };
    // Of an arm without numbers the reason is among what was found.
    let is_open = arm.found.trouble.is_some() && arm.found.trial_count > 0;
    html! {
        details.arm id={ "arm-" (arm.found.arm) } open[is_open] {
            summary { (arm.label()) " " (arm.verdict()) span.aside { (counted) } }
            @if let Some(found) = &arm.found.trouble {
                div.trouble { (trouble(found)) }
            } @else if arm.is_judged() {
                p { (escape::prose(&arm.found.because)) }
            }
            (findings(arm))
        }
    }
}

fn trouble(found: &ArmFailure) -> Markup {
    html! {
        p.why { (escape::prose(&found.why)) }
        @if let Some(remedy) = &found.remedy { (advice(remedy)) }
        @if let Some(stderr) = &found.stderr {
            p { "Its standard error ended with" }
            pre tabindex="0" { (escape::lines(stderr)) }
        }
    }
}

/// Shows what was measured and proved.
fn findings(arm: &Arm<'_>) -> Markup {
    html! {
        (metrics(&arm.found.metrics))
        (quantiles(arm))
        (chance(arm))
        (bill::payers(std::slice::from_ref(arm), "Who paid"))
        @for (place, level) in arm.found.evidence.iter().enumerate() {
            (facts(&format!("Evidence of level {place}, {}", level.layer), &level.facts))
        }
        (variants("Hash of standard output", &arm.found.stdout_hashes))
        (variants("Exit status", &arm.found.exit_statuses))
    }
}

fn metrics(metrics: &[MetricFindings]) -> Markup {
    let columns = ["Metric", "#Median", "#Quartiles", "#Range", "#Overhead"];
    let mut table = Table::new("Metrics", &columns);
    for metric in metrics {
        let amount = |value| number::amount(value, &metric.unit);
        let cells = vec![
            Cell::Text(name_of(metric)),
            Cell::number(Some(metric.median), amount),
            Cell::range(metric.quartiles.0, metric.quartiles.1, amount),
            Cell::range(metric.min, metric.max, amount),
            Cell::overhead(metric.overhead.as_ref()),
        ];
        table.row(None, cells);
    }
    table.finish()
}

/// Names a metric, and who claims it where this host has not counted it.
fn name_of(metric: &MetricFindings) -> String {
    let name = trial_metric::spoken(&metric.metric);
    match &metric.claimed_by {
        Some(who) => format!("{name} (says {who})"),
        None => name.to_owned(),
    }
}

/// The quantiles of wall time, as far as the trials support them.
fn quantiles(arm: &Arm<'_>) -> Markup {
    let columns = ["Quantile", "#Value", "#Interval", "Remark"];
    let mut table = Table::new("Quantiles of wall time", &columns);
    for found in arm.found.metric("wall_ns").iter().flat_map(|metric| &metric.quantiles) {
        let ends = found.low.zip(found.high);
        let covers = |share: f64| format!("{:.1} % interval", share * 100.0);
        let remark = found.why.clone().or(found.confidence.map(covers)).unwrap_or_default();
        let cells = vec![
            Cell::Text(format!("p{}", number::trimmed(found.p * 100.0, 1))),
            Cell::number(found.value, number::time),
            ends.map_or(Cell::Gap, |(low, high)| Cell::range(low, high, number::time)),
            Cell::Prose(remark),
        ];
        table.row(None, cells);
    }
    table.finish()
}

/// Says what chance would do to the verdict.
fn chance(arm: &Arm<'_>) -> Markup {
    let found = arm.found.p_value.zip(arm.found.p_value_adjusted);
    let Some((p, adjusted)) = found.filter(|_| arm.has_wall) else {
        return Markup::default();
    };
    let mut text = format!(
        "The chance of such an overhead, were there none: {}; by Holm for all compared stacks, {}.",
        number::p_value(p),
        number::p_value(adjusted)
    );
    if let Some(effect) = arm.found.detectable_effect.filter(|effect| *effect <= TELLING) {
        text.push_str(&format!(
            " A difference of {} would be called one in 80 of 100 such runs, if it is above the \
             noise floor.",
            number::percent(effect)
        ));
    }
    html! { p.variants { (escape::line(&text)) } }
}

/// The distinct values of something that should have one.
fn variants(name: &str, values: &[String]) -> Markup {
    let shown = values.iter().take(VARIANTS_MAX);
    let shown = shown.map(|value| html! { code { (escape::line(value)) } });
    let more = values.len().saturating_sub(VARIANTS_MAX);
    html! {
        @if !values.is_empty() {
            p.variants {
                (escape::line(name))
                ": "
                (joined(shown, ", "))
                @if more > 0 { ", and " (more) " more" }
            }
        }
    }
}
