//! The details of each arm: every metric, who paid, what proves where it ran, what went wrong.

use super::heading::advice;
use super::legend::Arm;
use super::table::{Cell, Table};
use super::{bill, escape};
use crate::finding::verdict::TELLING;
use crate::finding::{KeyValue, MetricFindings, number, trial_metric};

/// As many different outputs or exit statuses of one arm are listed.
const VARIANTS_MAX: usize = 8;

/// The section.
pub fn details(arms: &[Arm<'_>]) -> String {
    let all: String = arms.iter().map(arm).collect();
    format!("<section id=\"arms\"><h2>Each stack in detail</h2>\n{all}</section>\n")
}

/// Facts with their source, as a table.
pub fn facts(caption: &str, facts: &[KeyValue]) -> String {
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

fn arm(arm: &Arm<'_>) -> String {
    let trial_count = number::count(arm.found.trials.len(), "run");
    let counted = match usize::try_from(arm.found.trial_count) {
        Ok(count) if count == arm.found.trials.len() => trial_count,
        _ if arm.found.trials.len() == 1 => {
            format!("{} of {trial_count} counts", arm.found.trial_count)
        }
        _ => format!("{} of {trial_count} count", arm.found.trial_count),
    };
    // Of an arm without numbers the reason is among what was found.
    let has_numbers = arm.found.trial_count > 0;
    let open = if arm.found.trouble.is_some() && has_numbers { " open" } else { "" };
    let mut text = format!(
        "<details class=\"arm\" id=\"arm-{}\"{open}><summary>{} {}<span class=\"aside\">{counted}\
         </span></summary>\n",
        arm.found.arm,
        arm.label(),
        arm.verdict()
    );
    let Some(found) = &arm.found.trouble else {
        if arm.is_judged() {
            text.push_str(&format!("<p>{}</p>\n", escape::prose(&arm.found.because)));
        }
        return text + &findings(arm) + "</details>\n";
    };
    let remedy = found.remedy.as_deref().map_or_else(String::new, advice);
    let why = escape::prose(&found.why);
    text.push_str(&format!("<div class=\"trouble\"><p class=\"why\">{why}</p>{remedy}"));
    if let Some(stderr) = &found.stderr {
        let said = escape::lines(stderr);
        text.push_str(&format!(
            "<p>Its standard error ended with</p><pre tabindex=\"0\">{said}</pre>"
        ));
    }
    text + "</div>\n" + &findings(arm) + "</details>\n"
}

/// Shows what was measured and proved.
fn findings(arm: &Arm<'_>) -> String {
    let mut text = metrics(&arm.found.metrics);
    text.push_str(&quantiles(arm));
    text.push_str(&chance(arm));
    text.push_str(&bill::payers(std::slice::from_ref(arm), "Who paid"));
    for (place, level) in arm.found.evidence.iter().enumerate() {
        let caption = format!("Evidence of level {place}, {}", level.layer);
        text.push_str(&facts(&caption, &level.facts));
    }
    text.push_str(&variants("Hash of standard output", &arm.found.stdout_hashes));
    text.push_str(&variants("Exit status", &arm.found.exit_statuses));
    text
}

fn metrics(metrics: &[MetricFindings]) -> String {
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
fn quantiles(arm: &Arm<'_>) -> String {
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
fn chance(arm: &Arm<'_>) -> String {
    if !arm.has_wall {
        return String::new();
    }
    let Some((p, adjusted)) = arm.found.p_value.zip(arm.found.p_value_adjusted) else {
        return String::new();
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
    format!("<p class=\"variants\">{}</p>\n", escape::line(&text))
}

/// The distinct values of something that should have one.
fn variants(name: &str, values: &[String]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut shown: Vec<String> = values
        .iter()
        .take(VARIANTS_MAX)
        .map(|value| format!("<code>{}</code>", escape::line(value)))
        .collect();
    if values.len() > VARIANTS_MAX {
        shown.push(format!("and {} more", values.len() - VARIANTS_MAX));
    }
    format!("<p class=\"variants\">{}: {}</p>\n", escape::line(name), shown.join(", "))
}
