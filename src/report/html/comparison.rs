//! The comparison: one row per arm with what most readers came for.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::answer::Answer;
use crate::finding::bill::AND_ALL_INSIDE;
use crate::finding::foreign::line;
use crate::finding::stacks::{Stacks, grouped, joined};
use crate::finding::{Findings, PayerFindings, estimate, number, remarks};
use maud::{Markup, html};
use surtax_instrument::wire::Role;

/// Words for the others, where nobody can be named.
const OTHERS: &str = "all who work for a stack beside the command";
/// As many of them are named of a stack: who took the most CPU time.
const PAYERS_MAX: usize = 4;
/// As many different lists of them are told.
const LISTS_MAX: usize = 5;

/// The section.
pub fn comparison(findings: &Findings, arms: &[Arm<'_>], answer: &Answer<'_>) -> Markup {
    let has_wall = !findings.run.is_of_fixed_time;
    let own = answer.metric.filter(|_| !has_wall);
    let of_own = own.map(|metric| format!("#{metric}"));
    let mut columns = vec!["Stack"];
    let of_own = of_own.as_deref().into_iter();
    columns.extend(of_own.flat_map(|metric| [metric, "#Difference", "Verdict"]));
    columns.extend(["#Median", "#Overhead", "Verdict"].into_iter().filter(|_| has_wall));
    columns
        .extend(["#CPU, command", "#CPU, others", "#Memory, command", "#Memory, others", "#Runs"]);
    let caption = format!(
        "Medians of the runs that count; memory at its peak. Others: {}. —: not known; ≤: may be \
         less.",
        others(arms)
    );
    let mut table = Table::new(&caption, &columns).sortable();
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
            let ratio = row.and_then(|row| row.ratio);
            let verdict = row.map_or_else(|| arm.baseline(), |row| arm.direction(row));
            [median, Cell::overhead(ratio.as_ref()), Cell::Markup(verdict)]
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
    html! {
        section #comparison {
            h2 { "All stacks" }
            (table.finish())
            @for (label, words) in remarks::below_the_table(findings) {
                p.remark { (label) ": " (escape::prose(&words)) "." }
            }
        }
    }
}

/// Names who works for each stack beside the command, stacks with the same together.
fn others(arms: &[Arm<'_>]) -> String {
    let once = || arms.iter().map(|arm| arm.found).filter(|found| !found.is_again());
    let all = Stacks::of(once());
    let named = once().filter_map(|found| {
        let others = found.payers.iter().filter(|payer| payer.role != Role::Workload.word());
        let mut others: Vec<&PayerFindings> = others.filter(|payer| payer.cpu_ns > 0.0).collect();
        others.sort_by(|one, other| other.cpu_ns.total_cmp(&one.cpu_ns));
        let name = |payer: &&PayerFindings| {
            line(payer.payer.strip_suffix(AND_ALL_INSIDE).unwrap_or(&payer.payer))
        };
        let names = others.iter().take(PAYERS_MAX).map(name);
        Some((joined(names, ", ")?, found.stack.as_str()))
    });
    let lists = grouped(named);
    if lists.len() > LISTS_MAX {
        return OTHERS.to_owned();
    }
    let words = lists.into_iter().map(|(names, stacks)| {
        let stacks = all.words(&stacks.into_iter().collect()).replace('`', "");
        format!("{names} of {stacks}")
    });
    joined(words, "; ").unwrap_or_else(|| OTHERS.to_owned())
}

/// Says how many trials count, and of how many when they differ.
fn trials(arm: &Arm<'_>) -> String {
    let (count, all) = (arm.found.trial_count, arm.found.trials.len());
    if usize::try_from(count) == Ok(all) { count.to_string() } else { format!("{count}/{all}") }
}
