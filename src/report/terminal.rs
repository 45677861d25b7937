//! Findings on a terminal: one table, what it cannot say below it, and how to repeat the run.
//!
//! Fits the width it is given, and has colours only where they are wanted. A stack without numbers
//! keeps its row, with dashes for the numbers and the reason below.

mod prices;
mod table;

use super::page::Page;
use super::{apart, over_time};
use crate::finding::answer::Answer;
use crate::finding::apart::is_worth_it;
use crate::finding::energy_words;
use crate::finding::level_words;
use crate::finding::reasons::{self, Failure, no_numbers};
use crate::finding::stacks::Stacks;
use crate::finding::why::words;
use crate::finding::{
    ArmFindings, Findings, RunFacts, Verdict, foreign, instances, isolation, number, remarks,
    settings, workload,
};
use crate::plan::shell_line;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, presets,
};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt as _;

/// The width where there is no terminal.
const WIDTH_ELSEWHERE: u16 = 120;

/// Narrower than this, nothing fits.
const WIDTH_MIN: u16 = 60;

/// As many verdicts on metrics of a workload are explained.
const REASONS_MAX: usize = 6;

/// Appearance that text may have where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Characters in a line.
    pub width: u16,
    /// Choice between colours and none.
    pub colour: Colour,
    /// Name by which surtax goes in a line to copy.
    pub name: Name,
}

/// Look of text in a file.
pub const PLAIN: Look = Look { width: WIDTH_ELSEWHERE, colour: Colour::No, name: Name::Plain };

/// Name by which surtax goes in a line to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `surtax`: wherever the text is read.
    Plain,
    /// The file that runs, where no `surtax` is in `PATH`.
    AsRun,
}

/// Choice between colours and none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Escape sequences are understood and wanted.
    Yes,
    /// A file, a pipe, or `NO_COLOR`.
    No,
}

impl Look {
    /// Returns the look of standard output: its width, and colours where it is a terminal or
    /// `CLICOLOR_FORCE` is set (bixense.com/clicolors), unless `NO_COLOR` is (no-color.org).
    #[must_use]
    pub fn of_standard_output() -> Self {
        let output = std::io::stdout();
        let size = rustix::termios::tcgetwinsize(&output).ok();
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // Where there is no terminal, somebody may say how wide one would be.
        let said = || set("COLUMNS")?.to_str()?.parse().ok();
        let width = size.map(|size| size.ws_col).or_else(said).filter(|columns| *columns > 0);
        let refused = set("NO_COLOR").is_some();
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let shown = output.is_terminal() && set("TERM").is_none_or(|term| term != "dumb");
        let colour = if (forced || shown) && !refused { Colour::Yes } else { Colour::No };
        Self { width: width.unwrap_or(WIDTH_ELSEWHERE), colour, name: Name::AsRun }
    }
}

/// The findings as text, ended by a line feed.
#[must_use]
pub fn render(findings: &Findings, look: Look) -> String {
    let width = look.width.max(WIDTH_MIN);
    let mut page = Page::new(width);
    heading(&mut page, findings);
    let look = Look { width, ..look };
    if let Some(list) = crate::finding::prices::list(findings) {
        prices::prices(&mut page, &list, look);
    } else if !findings.has_numbers() {
        page.paragraph("", &no_numbers(findings), 0);
    } else {
        page.paragraph("", &(Answer::of(findings).headline() + "."), 0);
        page.gap();
        page.add(&table::table(findings, look));
        for (label, words) in remarks::below_the_table(findings) {
            page.paragraph(&format!("{label}: "), &words, 2);
        }
        page.gap();
        workload(&mut page, findings, look);
        between(&mut page, findings);
        beside(&mut page, findings);
        noise_floor(&mut page, findings);
        reasons(&mut page, findings);
        if is_worth_it(findings) {
            apart::write(&mut page, findings, look);
        }
        steals(&mut page, findings);
        energies(&mut page, findings, look);
        over_time::write(&mut page, findings, look);
        for (arm, why) in words::explained(findings) {
            page.paragraph(&format!("Why, {}: ", arm.name), &words::sentence(why), 2);
        }
    }
    troubles(&mut page, findings);
    cautions(&mut page, findings);
    page.gap();
    page.unbroken("Repeat with: ", &repeated(&findings.run, look.name));
    page.finish()
}

/// Writes what meters say of each stack, and what was found of each meter.
fn energies(page: &mut Page, findings: &Findings, look: Look) {
    if findings.meters.is_empty() {
        return;
    }
    let mut table = plain(look);
    table.set_header(energy_words::HEADINGS.map(|it| it.trim_start_matches('#')));
    for (arm, of) in energy_words::all(findings) {
        let cells = energy_words::cells(of).map(|it| foreign::line(&it));
        table.add_row(std::iter::once(name(arm)).chain(cells));
    }
    page.gap();
    if table.row_count() > 0 {
        page.paragraph("", "Energy of the machine while the command ran", 0);
        add_broken(page, table, look);
        page.paragraph("", energy_words::ENERGIES_ARE, 0);
    }
    if let Some(said) = energy_words::of_work(findings) {
        page.paragraph("", &said, 0);
    }
    for meter in &findings.meters {
        page.paragraph("Meter ", &energy_words::meter(meter), 2);
    }
    page.gap();
}

/// Says what was taken from guests, where that is worth a word.
fn steals(page: &mut Page, findings: &Findings) {
    for arm in level_words::arms(findings) {
        let wall = arm.metric("wall_ns").map_or(0.0, |it| it.median);
        let said: Vec<String> =
            arm.steals.iter().filter_map(|it| level_words::steal(it, wall)).collect();
        if !said.is_empty() {
            page.paragraph(&format!("Taken from `{}`: ", arm.name), &said.join("; "), 2);
        }
    }
}

/// The line that repeats a run. Where the run was asked for, its directory need not be said.
fn repeated(run: &RunFacts, name: Name) -> String {
    let Some((place, line)) = run.repeat_in() else { return called(&run.repeat_with, name) };
    let here = || {
        let here = std::env::current_dir().ok()?;
        Some(shell_line([b"cd".as_slice(), here.as_os_str().as_bytes()]))
    };
    match name == Name::AsRun && here().as_deref() != Some(place) {
        true => format!("{place} && {}", called(line, name)),
        false => called(line, name),
    }
}

/// A line that begins with `surtax`, with what a shell would find under another name.
fn called(line: &str, name: Name) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = || std::env::split_paths(&path).any(|place| place.join("surtax").is_file());
    let run = || std::env::current_exe().ok()?.to_str().map(String::from);
    let rest = line.strip_prefix("surtax ").filter(|_| name == Name::AsRun && !is_found());
    match rest.zip(run()) {
        Some((rest, run)) => format!("{} {rest}", shell_line([run.as_str()])),
        None => String::from(line),
    }
}

fn heading(page: &mut Page, findings: &Findings) {
    let run = &findings.run;
    let blocks = match run.blocks_planned {
        Some(planned) if planned != run.blocks_done => {
            format!("{} of {planned} blocks", run.blocks_done)
        }
        _ => number::count(run.blocks_done, "block"),
    };
    page.paragraph("", &format!("{} ({}, {blocks})", run.title, run.state), 0);
    if !run.conduct.is_empty() {
        page.paragraph("", &run.conduct, 0);
    }
    page.gap();
}

/// Writes what the workload measured, and why each verdict on it is what it is.
fn workload(page: &mut Page, findings: &Findings, look: Look) {
    let (details, rows): (Vec<_>, Vec<_>) =
        workload::rows(findings).into_iter().partition(workload::is_detail);
    if rows.is_empty() {
        return;
    }
    let title = workload::measurer(findings);
    page.paragraph("", &format!("What {} measured", foreign::line(&title)), 0);
    let mut table = plain(look);
    table.set_header(["Metric", "Stack", "Median", "Overhead", "Verdict"]);
    for row in &rows {
        let metric = if row.is_first { row.metric } else { "" };
        let verdict = row.found.judgement.as_ref().map(|judged| &judged.verdict);
        table.add_row([
            Cell::new(foreign::line(metric)).add_attribute(Attribute::Bold),
            Cell::new(name(row.arm)),
            Cell::new(&row.median).set_alignment(CellAlignment::Right),
            Cell::new(&row.overhead),
            Cell::new(row.verdict).fg(colour(verdict.unwrap_or(&Verdict::Baseline))),
        ]);
    }
    add_broken(page, table, look);
    if let Some(remark) = workload::remark(&rows) {
        page.paragraph("Overhead: ", &remark, 2);
    }
    for line in settings::lines(findings) {
        page.paragraph("Measured with ", &line, 2);
    }
    let reasons = reasons::of_metrics(&rows);
    for reason in reasons.iter().take(REASONS_MAX) {
        page.paragraph("", &format!("{}: {}", reason.plain(), reason.because), 2);
    }
    if !details.is_empty() {
        page.paragraph("", "The other quantiles of its distributions are in the other formats.", 0);
    }
    let more: usize = reasons.iter().skip(REASONS_MAX).map(|reason| reason.count).sum();
    if more > 0 {
        page.paragraph("", &format!("The reasons of {more} more are in the other formats."), 0);
    }
    for (what, why) in workload::gaps(findings) {
        page.paragraph(&format!("No number of {what}: "), why, 2);
    }
    page.gap();
}

/// Writes what a neighbour cost each stack, where there was one.
fn beside(page: &mut Page, findings: &Findings) {
    let Some(neighbour) = isolation::neighbour(findings) else { return };
    let lines = isolation::lines(findings);
    for (metric, stacks) in lines.iter().take(REASONS_MAX) {
        page.paragraph(&format!("Beside {neighbour}, {metric}: "), stacks, 2);
    }
    if lines.is_empty() {
        page.paragraph("", "What the neighbour costs takes three blocks or more.", 0);
    }
    if lines.len() > REASONS_MAX {
        page.paragraph("", "What it cost in other metrics is in the other formats.", 0);
    }
    page.gap();
}

/// Writes how far the instances were apart, where several ran at once.
fn between(page: &mut Page, findings: &Findings) {
    let lines = instances::lines(findings);
    if lines.is_empty() {
        return;
    }
    for (metric, stacks) in lines.iter().take(REASONS_MAX) {
        page.paragraph(&format!("Between instances, {metric}: "), stacks, 2);
    }
    if lines.len() > REASONS_MAX {
        page.paragraph("", "The instances' other metrics are in the other formats.", 0);
    }
    page.gap();
}

fn colour(verdict: &Verdict) -> Color {
    match verdict {
        Verdict::Differs => Color::Yellow,
        Verdict::Equivalent => Color::Green,
        Verdict::Invalid { .. } => Color::Red,
        _ => Color::Reset,
    }
}

pub(super) fn name(arm: &ArmFindings) -> String {
    foreign::line(&arm.name)
}

fn noise_floor(page: &mut Page, findings: &Findings) {
    if findings.run.is_of_fixed_time {
        return; // it is that of wall time
    }
    let baseline = &findings.run.baseline;
    let words = match &findings.noise_floor {
        Some(noise) => format!(
            "`{baseline}` against itself is {}; a smaller difference is not reported",
            number::overhead(noise)
        ),
        None => format!("unknown: too few blocks in which both trials of `{baseline}` count"),
    };
    page.paragraph("Noise floor: ", &words, 2);
}

fn reasons(page: &mut Page, findings: &Findings) {
    // What has no number is said among the troubles, with the remedy.
    let is_told =
        |arm: &&ArmFindings| arm.is_compared() && (arm.trouble.is_none() || arm.trial_count > 0);
    for reason in reasons::of_arms(reasons::told(findings).filter(is_told)) {
        page.paragraph("", &format!("{}: {}", reason.plain(), reason.because), 2);
    }
}

fn troubles(page: &mut Page, findings: &Findings) {
    let all = Stacks::of(&findings.arms);
    // Where there is no number at all, the first sentence has said this one.
    let told = reasons::failed_baseline(findings).filter(|_| !findings.has_numbers());
    for Failure { stacks, trouble, is_gap } in reasons::failures(findings) {
        let whose = all.words(&stacks).replace('`', "");
        page.gap();
        if told == Some(trouble) && !trouble.why.contains('\n') {
            if trouble.stderr.is_some() {
                page.paragraph("", &format!("{whose}: last words of the command"), 2);
            }
        } else {
            let what = if is_gap { "no number" } else { "not every trial counts" };
            let why = foreign::on_one_line(&trouble.why);
            page.paragraph("", &format!("{whose}: {what}: {why}"), 2);
            if let Some(remedy) = &trouble.remedy {
                page.unbroken("  → ", remedy);
            }
        }
        for line in trouble.stderr.iter().flat_map(|stderr| stderr.lines()) {
            page.unbroken("  | ", line);
        }
    }
}

fn cautions(page: &mut Page, findings: &Findings) {
    // What is unavailable is said among the troubles.
    let cautions: Vec<_> =
        findings.cautions.iter().filter(|caution| caution.code != "layer-unavailable").collect();
    if cautions.is_empty() {
        return;
    }
    page.gap();
    page.add("Before you believe a number\n");
    for caution in cautions {
        page.paragraph("  - ", &caution.finding, 4);
        page.paragraph("    → ", &caution.advice, 6);
    }
}

/// Adds a table whose long cells are broken to fit.
pub(super) fn add_broken(page: &mut Page, mut table: Table, look: Look) {
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(look.width);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    page.add(&(table.trim_fmt() + "\n"));
    page.gap();
}

/// An empty table with a line below its header and none between its rows.
pub(super) fn plain(look: Look) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).force_no_tty();
    table.style_mut().row_separator = LineStyle::none();
    if look.colour == Colour::Yes {
        table.enforce_styling();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_another_directory_is_repeated_there() {
        let asked = "surtax compare -- sh -c 'a && b'";
        let repeated = |cwd: &str| {
            let mut run = example(6, |_| {}).run;
            run.cwd = cwd.to_owned();
            run.repeat_with = format!("{} && {asked}", shell_line(["cd", cwd]));
            super::repeated(&run, Name::AsRun)
        };
        let here = std::env::current_dir().unwrap();
        assert!(repeated("/nowhere").starts_with("cd /nowhere && "));
        assert!(repeated("/no && where").starts_with("cd '/no && where' && "));
        assert!(!repeated(here.to_str().unwrap()).contains("cd "));
    }
    use crate::finding::ArmFailure;
    use crate::finding::compare::tests::example;
    use crate::finding::number::GAP;
    use crate::report::markdown::markdown;

    #[test]
    fn of_too_few_blocks_for_an_interval_the_estimate_is_shown_as_one() {
        let about = |blocks| {
            let findings = example(blocks, |_| {});
            let text = render(&findings, PLAIN);
            let is_about = text.contains("about +10 %");
            assert_eq!(markdown(&findings).contains("| about +10 % |"), is_about, "{text}");
            is_about
        };
        assert_eq!([1, 2, 3, 10].map(about), [true, true, false, false]);
    }

    #[test]
    fn a_terminal_shows_numbers_gaps_reasons_and_how_to_repeat() {
        let text = render(&example(10, |_| {}), PLAIN);
        println!("{text}");
        let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start));
        assert_eq!(line("runc "), Some("runc 10.0 % slower. qemu: not available."));
        let line = |start: &str| text.lines().rfind(|line| line.starts_with(start));
        let runc = line("runc  ").unwrap();
        assert!(runc.contains("10") && runc.contains("differs"), "{runc}");
        assert!(runc.contains("+10.0 % [+10.0, +10.0]"), "{runc}");
        assert!(runc.contains("150.0 µs") && runc.contains("20.0 MiB"), "{runc}");
        let gap = line("qemu  ").unwrap();
        assert!(gap.contains("not available") && gap.matches(GAP).count() == 6, "{gap}");
        assert!(text.contains("native (again)"));
        assert!(text.contains("qemu: no number: `/dev/kvm` boots no guest"));
        assert!(text.contains("  → apt-get install qemu-system-x86"));
        assert!(text.contains("Noise floor: `native` against itself is +0.0 %"), "{text}");
        assert!(text.trim_end().ends_with("make -j4"));
    }

    #[test]
    fn without_colours_there_is_no_escape_and_with_them_there_is() {
        let findings = example(6, |_| {});
        assert!(!render(&findings, PLAIN).contains('\x1b'));
        let colourful = Look { colour: Colour::Yes, ..PLAIN };
        assert!(render(&findings, colourful).contains('\x1b'));
    }

    #[test]
    fn the_line_that_repeats_a_run_names_the_file_that_runs_where_path_has_no_surtax() {
        // Nothing called `surtax` is in the `PATH` of a test; the file that runs is this test.
        let line = called("surtax compare --in native -- true", Name::AsRun);
        let path = std::env::var_os("PATH").unwrap_or_default();
        if std::env::split_paths(&path).all(|place| !place.join("surtax").is_file()) {
            assert!(
                line.starts_with('/') && line.ends_with(" compare --in native -- true"),
                "{line}"
            );
        }
        let plain = "surtax compare -- true";
        assert_eq!(called(plain, Name::Plain), plain);
        assert_eq!(called("a title", Name::AsRun), "a title");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_but_those_to_copy() {
        let findings = example(6, |_| {});
        for width in [60, 80, 100] {
            let text = render(&findings, Look { width, ..PLAIN });
            for line in text.lines().filter(|line| !line.starts_with("Repeat with")) {
                assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_no_broken_number() {
        let mut findings = example(6, |_| {});
        findings.arms[2].stack = String::from("qemu:accel=tcg,memory=1G+runc:cpus=2+docker");
        let text = render(&findings, Look { width: 80, ..PLAIN });
        println!("{text}");
        let head = text.lines().find(|line| line.contains("Stack")).unwrap();
        assert!(
            head.contains("Wall") && head.contains("CPU") && !head.contains("Trials"),
            "{head}"
        );
        assert!(text.contains("+10.0 % [+10.0, +10.0]"), "{text}");
        assert_eq!(
            table::broken("qemu:accel=tcg,memory=1G+runc", 16),
            "qemu:accel=tcg,\nmemory=1G+runc"
        );
        assert_eq!(table::broken("native (again)", 9), "native \n(again)");
        assert_eq!(table::broken("abcdef", 4), "abcd\nef");
    }

    #[test]
    fn nothing_that_is_foreign_reaches_the_terminal_as_it_is() {
        let mut findings = example(6, |_| {});
        let evil = "a\x1b]0;title\x07\u{202e}";
        findings.run.title = evil.into();
        findings.run.repeat_with = evil.into();
        findings.arms[2].stack = evil.into();
        findings.arms[2].because = evil.into();
        let (why, remedy) = (String::from(evil), Some(String::from(evil)));
        findings.arms[2].trouble = Some(ArmFailure { why, remedy, stderr: Some(evil.into()) });
        let text = render(&findings, PLAIN);
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
    }
}
