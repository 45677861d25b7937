//! The answer as Markdown for a pull request: short enough to be read there.

use crate::finding::answer::Answer;
use crate::finding::reasons::no_numbers;
use crate::finding::threshold::Standing;
use crate::finding::{Findings, number};
use crate::report::markdown::{code, plain, sentence};

/// Number of stacks, thresholds and cautions that have a line each: the text has 30 at most.
const ROWS: usize = 8;
const HELD: usize = 5;
const CAUTIONS: usize = 3;

/// Letters of a text within a line: what holds comments takes 64 KiB.
const LENGTH_MAX: usize = 500;

/// Findings in a few lines.
pub(super) fn brief(findings: &Findings) -> String {
    let mut lines = Vec::new();
    let answer = match findings.has_numbers() {
        true => plain(&short(&(Answer::of(findings).headline() + "."))),
        false => sentence(&short(&no_numbers(findings))),
    };
    lines.push(format!("**{}**: {answer}", plain(&short(&findings.run.title))));
    lines.push(String::new());
    thresholds(findings, &mut lines);
    stacks(findings, &mut lines);
    let cautions = findings.cautions.iter().take(CAUTIONS);
    lines.extend(cautions.map(|caution| format!("- {}", sentence(&short(&caution.finding)))));
    more(findings.cautions.len(), CAUTIONS, "caution", &mut lines);
    if !findings.cautions.is_empty() {
        lines.push(String::new());
    }
    let run = &findings.run;
    let margin = number::percent(run.equivalence_margin);
    lines.push(format!(
        "{} blocks, 95 % intervals, margin ±{margin}; surtax {}",
        run.blocks_done, findings.surtax_version
    ));
    lines.join("\n") + "\n"
}

/// Those that do not pass come first.
fn thresholds(findings: &Findings, lines: &mut Vec<String>) {
    let mut held: Vec<_> = findings.thresholds.iter().collect();
    held.sort_by_key(|held| (held.passes, std::cmp::Reverse(held.standing)));
    for held in held.iter().take(HELD) {
        let word = match held.standing {
            Standing::Crossed => "crossed",
            Standing::Kept => "kept",
            Standing::Undecided => "not decided",
            Standing::Unknown => "no number",
        };
        let mark = if held.passes { "" } else { "**" };
        lines.push(format!("- {mark}{word}{mark}: {}", sentence(&short(&held.to_string()))));
    }
    more(held.len(), HELD, "threshold", lines);
    if !held.is_empty() {
        lines.push(String::new());
    }
}

fn stacks(findings: &Findings, lines: &mut Vec<String>) {
    let answer = Answer::of(findings);
    if answer.rows.is_empty() {
        return;
    }
    let metric = answer.metric.map_or_else(|| String::from("Wall"), plain);
    lines.push(format!("| Stack | {metric}, median | Cost | 95 % interval |"));
    lines.push(String::from("|---|---|---|---|"));
    if let Some(baseline) = &answer.baseline {
        let (name, median) = (code(&short(&findings.run.baseline)), plain(&short(baseline)));
        lines.push(format!("| {name} | {median} | baseline | |"));
    }
    for row in answer.rows.iter().take(ROWS) {
        let median = plain(&short(row.median.as_deref().unwrap_or("")));
        let [words, range] = [&row.words, &row.range].map(|it| plain(&short(it)));
        let name = code(&short(&row.arm.name));
        lines.push(format!("| {name} | {median} | {words} | {range} |"));
    }
    lines.push(String::new());
    more(answer.rows.len(), ROWS, "stack", lines);
    if answer.rows.len() > ROWS {
        lines.push(String::new());
    }
}

/// A text of somebody else's, as long as a line may be.
fn short(text: &str) -> String {
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Says how many are left out.
fn more(all: usize, shown: usize, one: &str, lines: &mut Vec<String>) {
    let left = all.saturating_sub(shown);
    if left > 0 {
        lines.push(format!("and {left} more {one}{}", if left == 1 { "" } else { "s" }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Caution;
    use crate::finding::compare::tests::example;
    use crate::finding::threshold::held;

    #[test]
    fn however_much_was_found_the_text_is_short_and_the_worst_is_in_it() {
        let mut findings = example(6, |_| {});
        findings.arms.truncate(3);
        for index in 0..31 {
            let mut arm = findings.arms[2].clone();
            arm.name = format!("stack{index}");
            findings.arms.push(arm);
        }
        let limit = ["wall > +900%".parse().unwrap()];
        findings.thresholds = held(&limit, &findings.arms);
        let last = findings.thresholds.last_mut().unwrap();
        (last.standing, last.passes) = (Standing::Crossed, false);
        findings.cautions = (0..20)
            .map(|index| Caution {
                code: String::new(),
                finding: format!("finding {index}"),
                advice: String::new(),
                stacks: Vec::new(),
            })
            .collect();
        let text = brief(&findings);
        assert!(text.lines().count() <= 30, "{text}");
        let crossed = "- **crossed**: `wall > +900%` is crossed by `stack30`";
        assert!(text.lines().nth(2).unwrap().starts_with(crossed), "{text}");
        for said in ["and 24 more stacks", "and 17 more cautions", "and 27 more thresholds"] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn however_long_a_text_is_a_comment_holds_all() {
        let mut findings = example(6, |_| {});
        let long = "ä`<".repeat(100_000);
        findings.run.title.clone_from(&long);
        findings.run.baseline.clone_from(&long);
        findings.arms.iter_mut().for_each(|arm| arm.name.clone_from(&long));
        let (code, advice, stacks) = (String::new(), String::new(), Vec::new());
        let caution = Caution { code, finding: long, advice, stacks };
        findings.cautions = vec![caution; 5];
        assert!(brief(&findings).len() < 1 << 16, "{}", brief(&findings).len());
    }

    #[test]
    fn the_baseline_has_the_median_that_other_exports_have_of_both_its_arms() {
        let findings = example(6, |record| {
            if let crate::trial::TrialResult::Done(measured) = &mut record.result {
                measured.wall.0 += u64::from(record.trial.arm == 1) * 500_000_000;
            }
        });
        let text = crate::report::forms::hyperfine::json(&findings);
        let exported: serde_json::Value = serde_json::from_str(&text).unwrap();
        let median = exported["results"][0]["median"].as_f64().unwrap() * 1e9;
        let row = format!("| `native` | {} | baseline |", number::time(median));
        let text = brief(&findings);
        assert!(text.contains(&row) && text.contains("| Wall, median |"), "{row}: {text}");
        assert_ne!(median, findings.arms[0].metric("wall_ns").unwrap().median);
    }

    #[test]
    fn a_run_without_numbers_says_so_in_a_few_lines() {
        let findings = example(0, |_| {});
        let text = brief(&findings);
        assert!(text.lines().count() <= 30 && text.starts_with("**"), "{text}");
    }

    #[test]
    fn a_strangers_unit_is_no_cell_and_no_markup() {
        let mut findings = example(6, |_| {});
        findings.run.workload = Some(String::from("mine"));
        for arm in &mut findings.arms {
            let mut metric = arm.metrics.first().cloned();
            for metric in metric.iter_mut() {
                metric.metric = String::from("own");
                metric.unit = String::from("x | <img src=y>");
            }
            arm.metrics.splice(0..0, metric);
        }
        let text = brief(&findings);
        assert!(!text.contains("<img") && !text.contains("x | "), "{text}");
    }
}
