//! Findings as Markdown, for an issue, a pull request or a wiki.

mod levels;

use crate::finding::answer::Answer;
use crate::finding::number::GAP;
use crate::finding::reasons::{Failure, no_numbers};
use crate::finding::stacks::Stacks;
use crate::finding::why::words;
use crate::finding::{
    ArmFailure, ArmFindings, Findings, KeyValue, PayerFindings, estimate, foreign, instances,
    isolation, memory, number, prices, reasons, remarks, settings, workload,
};

/// The findings as one Markdown document, ended by a line feed.
#[must_use]
pub fn markdown(findings: &Findings) -> String {
    let run = &findings.run;
    let mut text = format!("# {}\n\n", plain(&run.title));
    text += &format!(
        "Run {}, {}, {}, {} blocks done, by surtax {}.\n\n",
        code(&run.id),
        run.began_at,
        run.state,
        run.blocks_done,
        findings.surtax_version
    );
    if !run.conduct.is_empty() {
        text += &format!("Conduct: {}.\n\n", plain(&run.conduct));
    }
    if let Some(list) = prices::list(findings) {
        text += &priced(&list);
    } else if !findings.has_numbers() {
        text += &format!("{}\n\n", sentence(&no_numbers(findings)));
    } else {
        text += &format!("{}.\n\n", plain(&Answer::of(findings).headline()));
        text += &overheads(findings);
        text += &of_workload(findings);
        text += &between(findings);
        text += &beside(findings);
        text += &noise_floor(findings);
        text += &reasons(findings);
        text += &explained(findings);
    }
    text += &troubles(findings);
    text += &cautions(findings);
    text += &levels::apart(findings);
    text += &bill(findings);
    text += &levels::energies(findings);
    text += &levels::machines(findings);
    text += &levels::over_time(findings);
    text += &evidence(findings);
    text += &machine(findings);
    text += &format!("## Repeat\n\n{}", fenced(&run.repeat_with));
    text
}

/// Text that Markdown and HTML leave as it is.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::new();
    for letter in foreign::line(text).chars() {
        match letter {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '|' | '*' | '_' | '[' | ']' | '#' | '\\' | '`' => safe.extend(['\\', letter]),
            _ => safe.push(letter),
        }
    }
    safe
}

/// Our own sentences: what stands in backticks stays as it is, all else is made plain, and the
/// lines of a message are joined.
pub(crate) fn sentence(text: &str) -> String {
    let text = foreign::on_one_line(text);
    if !text.matches('`').count().is_multiple_of(2) {
        return plain(&text.replace('`', "'"));
    }
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => plain(part),
        _ => code(part),
    });
    parts.collect()
}

/// Text as code within a line, also within a table.
pub(super) fn code(text: &str) -> String {
    let text = foreign::line(text).replace('`', "'").replace('|', "¦");
    // Two backticks are no code, but the beginning of some.
    if text.is_empty() { String::from("“”") } else { format!("`{text}`") }
}

/// Text as lines of code; its fence is longer than any run of backticks in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n\n", foreign::lines(text))
}

/// A table and an empty line behind it; a column whose name begins with `#` holds numbers.
fn table(columns: &[impl AsRef<str>], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head =
        line(columns.iter().map(|name| name.as_ref().trim_start_matches('#').to_owned()).collect());
    let rule = |name: &str| if name.starts_with('#') { "--:|" } else { "---|" };
    let rules: String = columns.iter().map(|name| rule(name.as_ref())).collect();
    format!("{head}|{rules}\n{}\n", rows.into_iter().map(line).collect::<String>())
}

fn overheads(findings: &Findings) -> String {
    let has_wall = !findings.run.is_of_fixed_time;
    let mut columns = vec!["Stack", "#Trials"];
    columns.extend(["#Wall, median", "Overhead", "Verdict"].into_iter().filter(|_| has_wall));
    columns.extend(["#CPU, command", "#CPU, others", "#Memory, command", "#Memory, others"]);
    let row = |arm: &ArmFindings| {
        let overhead = arm.metric("wall_ns").and_then(|wall| wall.overhead);
        let of_wall_time = [
            arm.median("wall_ns"),
            overhead.map_or_else(
                || estimate::rough_ratio(&findings.arms, arm).map_or(GAP.into(), number::rough),
                |interval| number::overhead(&interval),
            ),
            arm.verdict.word().into(),
        ];
        let mut cells = vec![name(arm), arm.trial_count.to_string()];
        cells.extend(of_wall_time.into_iter().filter(|_| has_wall));
        cells.push(arm.command_cpu().map_or(GAP.into(), |(text, _)| text));
        cells.extend(
            ["cpu_others_ns", "memory_peak_bytes", "memory_others_peak_bytes"]
                .map(|metric| arm.median(metric)),
        );
        cells
    };
    let text = table(&columns, findings.arms.iter().map(row));
    let remarks = remarks::below_the_table(findings);
    text + &remarks.map(|(of, it)| format!("{of}: {}.\n\n", sentence(&it))).collect::<String>()
}

/// Says what the time is spent on that stacks take more, where they are explained.
fn explained(findings: &Findings) -> String {
    let mut text = String::new();
    for (arm, why) in words::explained(findings) {
        text += &format!("### What {} takes more\n\n", name(arm));
        text += &format!("{}.\n\n", sentence(&words::sentence(why)));
        let cells = |row: [String; 6]| row.map(|cell| plain(&cell)).into();
        text += &table(&words::HEADINGS, words::rows(why).into_iter().map(cells));
        text += &format!("{}.\n\n", sentence(&words::source(why, &findings.run.baseline)));
    }
    text
}

/// Writes what the workload measured.
fn of_workload(findings: &Findings) -> String {
    let rows = workload::rows(findings);
    if rows.is_empty() {
        return String::new();
    }
    let cells = |row: &workload::Row<'_>| {
        let median = plain(&row.median);
        vec![code(row.metric), name(row.arm), median, row.overhead.clone(), row.verdict.into()]
    };
    let mut text = format!(
        "## What {} measured\n\n{}",
        sentence(&workload::measurer(findings)),
        table(&["Metric", "Stack", "#Median", "Overhead", "Verdict"], rows.iter().map(cells))
    );
    if let Some(remark) = workload::remark(&rows) {
        text += &format!("Overhead: {}.\n\n", sentence(&remark));
    }
    for line in settings::lines(findings) {
        text += &format!("Measured with {}.\n\n", sentence(&line));
    }
    text += &listed(&reasons::of_metrics(&rows));
    for (what, why) in workload::gaps(findings) {
        text += &format!("- no number of {}: {}\n", plain(&what), plain(why));
    }
    text + "\n"
}

/// Writes what a neighbour cost each stack, where there was one.
fn beside(findings: &Findings) -> String {
    let rows = isolation::rows(findings);
    if rows.is_empty() {
        return String::new();
    }
    let cells = |row: isolation::Row<'_>| {
        vec![code(&row.found.metric), code(row.stack), code(row.neighbour), row.overhead]
    };
    let table = table(&["Metric", "Stack", "Neighbour", "Overhead"], rows.into_iter().map(cells));
    format!("## Beside a neighbour, over the same stack alone\n\n{table}")
}

/// Writes how far the instances were apart, where several ran at once.
fn between(findings: &Findings) -> String {
    let rows = instances::rows(findings);
    if rows.is_empty() {
        return String::new();
    }
    let cells = |row: instances::Row<'_>| {
        let (metric, count) = (code(&row.found.metric), row.found.instance_count.to_string());
        let (least, most) = (plain(&row.least), plain(&row.most));
        vec![metric, name(row.arm), count, least, most, row.variation]
    };
    let columns = ["Metric", "Stack", "#Instances", "#Least", "#Most", "#Variation"];
    format!("## Between the instances\n\n{}", table(&columns, rows.into_iter().map(cells)))
}

/// Writes what primitives cost: a column for each stack, and one for its ratio.
fn priced(list: &prices::List<'_>) -> String {
    let mut columns = vec![String::from("Price"), String::from("One of it is")];
    for (place, arm) in list.arms.iter().enumerate() {
        columns.push(format!("#{}", name(arm)));
        columns.extend((place > 0).then(|| String::from("ratio")));
    }
    let row = |row: &prices::Row<'_>| {
        let mut cells = vec![code(row.name), plain(row.operation)];
        for (place, cell) in row.cells.iter().enumerate() {
            cells.push(cell.price());
            let ratio = || cell.overhead().unwrap_or_else(|| GAP.into());
            cells.extend((place > 0).then(ratio));
        }
        cells
    };
    let table = table(&columns, list.rows.iter().map(row));
    let legend = sentence(&list.legend());
    let mut text = format!("## What primitives cost\n\n{table}Prices: {legend}.\n\n");
    for (what, why) in list.gaps() {
        text += &format!("- no price of {}: {}\n", plain(&what), plain(&why));
    }
    text + "\n"
}

fn name(arm: &ArmFindings) -> String {
    match arm.name.strip_prefix(&arm.stack) {
        Some(rest) => code(&arm.stack) + rest,
        None => code(&arm.name),
    }
}

fn noise_floor(findings: &Findings) -> String {
    if findings.run.is_of_fixed_time {
        return String::new(); // it is that of wall time
    }
    let baseline = code(&findings.run.baseline);
    match &findings.noise_floor {
        Some(noise) => {
            format!(
                "Noise floor: two arms of {baseline} differ by {}.\n\n",
                number::overhead(noise)
            )
        }
        None => format!(
            "Noise floor unknown: too few blocks in which both trials of {baseline} count.\n\n"
        ),
    }
}

fn reasons(findings: &Findings) -> String {
    let compared = reasons::told(findings).filter(|arm| arm.is_compared());
    let lines = listed(&reasons::of_arms(compared));
    if lines.is_empty() { lines } else { lines + "\n" }
}

fn listed(reasons: &[reasons::Reason<'_>]) -> String {
    let line =
        |it: &reasons::Reason<'_>| format!("- {}: {}\n", sentence(&it.whose), sentence(it.because));
    reasons.iter().map(line).collect()
}

fn troubles(findings: &Findings) -> String {
    let all = Stacks::of(&findings.arms);
    let mut text = String::new();
    for Failure { stacks, trouble: ArmFailure { why, remedy, stderr }, .. } in
        reasons::failures(findings)
    {
        text += &format!("### {}\n\n{}\n\n", sentence(&all.words(&stacks)), sentence(why));
        if let Some(remedy) = remedy {
            text += &format!("What would help:\n\n{}", fenced(remedy));
        }
        if let Some(stderr) = stderr {
            text += &format!("The command's last words:\n\n{}", fenced(stderr));
        }
    }
    if text.is_empty() { text } else { format!("## Gaps and failures\n\n{text}") }
}

fn cautions(findings: &Findings) -> String {
    if findings.cautions.is_empty() {
        return String::new();
    }
    let lines = findings.cautions.iter().map(|caution| {
        let (finding, advice) = (sentence(&caution.finding), sentence(&caution.advice));
        format!("- **{}**: {finding}. Advice: {advice}.\n", plain(&caution.code))
    });
    format!("## Cautions\n\n{}\n", lines.collect::<String>())
}

fn bill(findings: &Findings) -> String {
    let quantities = PayerFindings::columns(findings.arms.iter().flat_map(|arm| &arm.payers));
    let columns = PayerFindings::headings(&quantities);
    let row = |(arm, payer): (&ArmFindings, &PayerFindings)| {
        let (level, cpu) = (payer.level.to_string(), number::time(payer.cpu_ns));
        let mut cells = vec![name(arm), plain(&payer.name()), payer.role.clone(), level, cpu];
        cells.extend(quantities.iter().map(|it| {
            let shown = |amount| number::amount(amount, it.unit.word());
            payer.amounts.get(it.key).map_or_else(|| GAP.into(), shown)
        }));
        cells
    };
    let payers = findings.arms.iter().flat_map(|arm| arm.payers.iter().map(move |it| (arm, it)));
    let table = table(&columns, payers.map(row));
    format!("## Who used the CPU\n\n{table}{}\n\n", sentence(memory::PARTS))
}

/// Writes what was read back of each stack: only what tells it from the others, and the begin of
/// what is long.
fn evidence(findings: &Findings) -> String {
    let shown = |arm: &&ArmFindings| !arm.is_again() && !arm.evidence.is_empty();
    let arms: Vec<&ArmFindings> = findings.arms.iter().filter(shown).collect();
    let is_everywhere = |fact: &KeyValue| {
        let has = |arm: &&ArmFindings| {
            let mut facts = arm.evidence.iter().flat_map(|level| &level.facts);
            facts.any(|it| it.key == fact.key && it.value == fact.value)
        };
        arms.len() > 1 && arms.iter().all(has)
    };
    let mut rows = Vec::new();
    for arm in &arms {
        for (place, level) in arm.evidence.iter().enumerate() {
            let own = level.facts.iter().filter(|fact| !is_everywhere(fact));
            let told: Vec<String> = own
                .map(|fact| (plain(&fact.key), foreign::on_one_line(&fact.value)))
                .map(|(key, value)| format!("{key} {}", code(&begin_of(&value))))
                .collect();
            rows.push(vec![name(arm), place.to_string(), code(&level.layer), told.join("; ")]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["Stack", "#Level", "Layer", "What tells it from the others"];
    format!("## What was read back\n\n{}", table(&columns, rows))
}

/// The first letters of a value, such as a command line.
fn begin_of(value: &str) -> String {
    if value.chars().count() <= VALUE_LETTERS {
        return value.to_owned();
    }
    value.chars().take(VALUE_LETTERS - 1).chain(['…']).collect()
}

/// Number of letters of a value that a table shows: the rest is in the run file, and in JSON and
/// HTML.
const VALUE_LETTERS: usize = 60;

fn machine(findings: &Findings) -> String {
    let row = |fact: &KeyValue| {
        let value = foreign::on_one_line(&fact.value);
        [&fact.key, &value, &fact.source].map(|text| plain(text)).to_vec()
    };
    let rows = findings.machine.iter().map(row);
    format!("## The machine\n\n{}", table(&["What", "Value", "Read from"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn every_arm_has_a_row_and_every_row_has_its_columns() {
        let text = markdown(&example(6, |_| {}));
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows[..4].len(), 4);
        assert!(rows[..4].iter().all(|row| row.matches('|').count() == 10), "{rows:#?}");
        assert!(rows[3].starts_with("| `qemu` | 0 | — | — | not available |"), "{}", rows[3]);
        assert!(text.contains("apt-get install qemu-system-x86"));
        assert!(text.contains("- **layer-unavailable**: `qemu` was not measured: "), "{text}");
    }

    #[test]
    fn a_guest_cannot_break_out_of_a_cell_a_fence_or_the_page() {
        let mut findings = example(6, |_| {});
        findings.machine[0].value = "x | y <script>".into();
        findings.arms[2].trouble = Some(ArmFailure {
            why: "an odd ` and <b>".into(),
            remedy: None,
            stderr: Some("```\n# not a heading".into()),
        });
        let text = markdown(&findings);
        assert!(text.contains("x \\| y &lt;script&gt;"), "{text}");
        assert!(text.contains("an odd ' and &lt;b&gt;"));
        assert!(text.contains("````text\n```\n# not a heading\n````"));
    }
}
