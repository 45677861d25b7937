//! The first table on a terminal: one row per arm, and as many columns as fit beside its stack.

use super::{Look, colour, name, plain};
use crate::finding::number::GAP;
use crate::finding::{ArmFindings, Findings, estimate, number};
use comfy_table::{Attribute, Cell, CellAlignment, Color};

/// The columns after the stack's, with which of them makes room first where the terminal is narrow:
/// all of it is in the other formats too.
const COLUMNS: [(&str, u8); 8] = [
    ("Trials", 1),
    ("Wall", NEVER),
    ("Overhead", NEVER),
    ("Verdict", NEVER),
    ("CPU\ncommand", 5),
    ("CPU\nothers", 4),
    ("Memory\ncommand", 3),
    ("Memory\nothers", 2),
];

/// A column that is not left out.
const NEVER: u8 = u8::MAX;

/// Those that say nothing where the workload runs for a time that it is told.
const OF_WALL_TIME: [&str; 3] = ["Wall", "Overhead", "Verdict"];

/// A stack's text is broken rather than a column left out, down to this width.
const NAME_WIDTH_MIN: usize = 16;

/// From this width on a verdict of two words stands in one line.
const WIDE_FROM: u16 = 80;

/// Between two columns there is one space of ours and one of the table.
const APART: usize = 2;

/// One row per arm, with what fits into the width.
pub(super) fn table(findings: &Findings, look: Look) -> String {
    let rows: Vec<[(String, Color); 8]> =
        findings.arms.iter().map(|arm| row(&findings.arms, arm, look)).collect();
    let names: Vec<String> = findings.arms.iter().map(name).collect();
    let (kept, room) =
        fitting(&rows, &names, usize::from(look.width), findings.run.is_of_fixed_time);

    let mut table = plain(look);
    table.set_header(std::iter::once("Stack").chain(kept.iter().map(|column| COLUMNS[*column].0)));
    for (name, cells) in names.iter().zip(&rows) {
        let name = Cell::new(broken(name, room)).add_attribute(Attribute::Bold);
        let cells = kept.iter().map(|column| {
            let (text, colour) = &cells[*column];
            Cell::new(text).fg(*colour)
        });
        table.add_row(std::iter::once(name).chain(cells));
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        let is_last = place == kept.len();
        column.set_padding((0, u16::from(!is_last)));
        let is_text = place == 0 || ["Overhead", "Verdict"].contains(&COLUMNS[kept[place - 1]].0);
        if !is_text {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// The columns that fit beside the stack's, and the width that is left for that one.
fn fitting(
    rows: &[[(String, Color); 8]],
    names: &[String],
    width: usize,
    is_of_fixed_time: bool,
) -> (Vec<usize>, usize) {
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| row[column].0.as_str());
        cells
            .chain([COLUMNS[column].0])
            .flat_map(str::lines)
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let is_said =
        |column: &usize| !(is_of_fixed_time && OF_WALL_TIME.contains(&COLUMNS[*column].0));
    let mut kept: Vec<usize> = (0..COLUMNS.len()).filter(is_said).collect();
    loop {
        let others: usize = kept.iter().map(|column| wide(*column) + APART).sum();
        let room = width.saturating_sub(others);
        let next = kept.iter().map(|column| COLUMNS[*column].1).min();
        if room >= longest.min(NAME_WIDTH_MIN) || next.is_none_or(|next| next == NEVER) {
            return (kept, room.max(NAME_WIDTH_MIN));
        }
        kept.retain(|column| Some(COLUMNS[*column].1) != next);
    }
}

/// A stack's text in lines of this width, broken where a layer or an option ends, or else anywhere.
pub(super) fn broken(name: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for part in name.split_inclusive(['+', ',', ':', ' ']) {
        let length = part.trim_end().chars().count();
        if column > 0 && column + length > width {
            lines.push('\n');
            column = 0;
        }
        for letter in part.chars() {
            if column >= width && letter != ' ' {
                lines.push('\n');
                column = 0;
            }
            lines.push(letter);
            column += 1;
        }
    }
    lines
}

fn row(arms: &[ArmFindings], arm: &ArmFindings, look: Look) -> [(String, Color); 8] {
    let median = |name: &str| arm.median(name);
    let command_cpu = arm.command_cpu().map_or(GAP.into(), |(text, _)| text);
    let overhead = arm.metric("wall_ns").and_then(|wall| wall.overhead);
    let rough = || {
        estimate::rough_ratio(arms, arm)
            .map_or_else(|| (GAP.into(), Color::Reset), |it| (number::rough(it), Color::DarkGrey))
    };
    let plain = |text: String| (text, Color::Reset);
    let between = if look.width < WIDE_FROM { "\n" } else { " " };
    let verdict = arm.verdict.word().replace(' ', between);
    [
        plain(arm.trial_count.to_string()),
        plain(median("wall_ns")),
        overhead.map_or_else(rough, |interval| plain(number::overhead(&interval))),
        (verdict, colour(&arm.verdict)),
        plain(command_cpu),
        plain(median("cpu_others_ns")),
        plain(median("memory_peak_bytes")),
        plain(median("memory_others_peak_bytes")),
    ]
}
