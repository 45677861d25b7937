//! The comparison: one row per arm with what most readers came for.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::answer::Answer;
use crate::finding::{Findings, claims, estimate, memory, number};

/// Explanation of the others, and of a gap.
const OTHERS: &str = "Others: all who work for a stack beside the command, such as a runtime, a \
                      daemon or a hypervisor. —: not known.";

/// The section.
pub fn comparison(findings: &Findings, arms: &[Arm<'_>], answer: &Answer<'_>) -> String {
    let has_wall = !findings.run.is_of_fixed_time;
    let own = answer.metric.filter(|_| !has_wall);
    let of_own = own.map(|metric| format!("#{}", escape::line(metric)));
    let mut columns = vec!["Stack"];
    columns.extend(of_own.as_deref().into_iter().flat_map(|metric| [metric, "Verdict"]));
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
        cells.extend(own.into_iter().flat_map(|metric| {
            let found = arm.found.metric(metric);
            let unit = found.map_or("", |found| &*found.unit);
            let median = Cell::number(median(metric), |value| number::amount(value, unit));
            let row = answer.rows.iter().find(|row| std::ptr::eq(row.arm, arm.found));
            [median, Cell::Markup(row.map_or_else(|| arm.verdict(), |row| arm.said(row)))]
        }));
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
        "<section id=\"comparison\"><h2>All stacks</h2>\n{}<p class=\"remark\">{OTHERS}</p>\n\
         {remark}{claims}</section>\n",
        table.finish()
    )
}

/// Says how many trials count, and of how many when they differ.
fn trials(arm: &Arm<'_>) -> String {
    let (count, all) = (arm.found.trial_count, arm.found.trials.len());
    if usize::try_from(count) == Ok(all) { count.to_string() } else { format!("{count}/{all}") }
}
