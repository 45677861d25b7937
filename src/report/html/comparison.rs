//! The comparison: one row per arm with what most readers came for.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::{Findings, claims, estimate, memory, number};

/// The section.
pub fn comparison(findings: &Findings, arms: &[Arm<'_>]) -> String {
    let has_wall = !findings.run.is_of_fixed_time;
    let mut columns = vec!["Stack"];
    columns.extend(["#Median", "#Overhead", "Verdict"].into_iter().filter(|_| has_wall));
    columns.extend([
        "#CPU, command", "#CPU, others", "#Memory, command", "#Memory, others", "#Trials",
    ]);
    let mut table = Table::new("Medians over the trials that count", &columns).sortable();
    for arm in arms {
        let median = |name| arm.found.metric(name).map(|metric| metric.median);
        let bytes = |name| Cell::number(median(name), |bytes| number::amount(bytes, "bytes"));
        let overhead = match arm.overhead() {
            Some(interval) => Cell::overhead(Some(&interval)),
            None => Cell::number(estimate::rough_ratio(&findings.arms, arm.found), number::rough),
        };
        let of_wall =
            [Cell::number(median("wall_ns"), number::time), overhead, Cell::Markup(arm.verdict())];
        let mut cells = vec![Cell::Markup(arm.label())];
        cells.extend(of_wall.into_iter().filter(|_| has_wall));
        cells.extend([
            arm.found.command_cpu().map_or(Cell::Gap, |(text, ns)| Cell::Number(text, ns)),
            Cell::number(median("cpu_others_ns"), number::time),
            bytes("memory_peak_bytes"),
            bytes("memory_others_peak_bytes"),
            Cell::Number(trials(arm), f64::from(arm.found.trial_count)),
        ]);
        table.row(Some(arm.found.arm), cells);
    }
    let remark = memory::remark(findings).map_or_else(String::new, |remark| {
        format!("<p class=\"remark\">Memory, others: {}.</p>\n", escape::prose(&remark))
    });
    let claims = claims::remark(findings).map_or_else(String::new, |claims| {
        format!("<p class=\"remark\">Claims: {}.</p>\n", escape::prose(&claims))
    });
    format!(
        "<section id=\"comparison\"><h2>All stacks</h2>\n{}{remark}{claims}</section>\n",
        table.finish()
    )
}

/// Says how many trials count, and of how many when they differ.
fn trials(arm: &Arm<'_>) -> String {
    let (count, all) = (arm.found.trial_count, arm.found.trials.len());
    if usize::try_from(count) == Ok(all) { count.to_string() } else { format!("{count}/{all}") }
}
