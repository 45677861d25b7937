//! Links: a relative link leads somewhere, and a measured number in the README to its results.

use super::Finding;
use super::tree::Tree;
use std::path::Path;

const README: &str = "README.md";

/// The one share that is no measurement: the confidence of an interval.
const CONFIDENCE: &str = "95 %";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in
        tree.files().filter(|(path, _)| Path::new(path).extension().is_some_and(|it| it == "md"))
    {
        for (line, target) in targets(text) {
            if !leads_somewhere(tree, path, target) {
                let message = format!("the link `{target}` leads nowhere");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    for (line, paragraph) in paragraphs(tree.text(README).unwrap_or_default()) {
        let has_source = paragraph.contains("](results/");
        if let Some(number) = measured_number(&paragraph).filter(|_| !has_source) {
            let message =
                format!("`{number}` has no link to the folder in results/ that it comes from");
            findings.push(Finding::new(README, line, message));
        }
    }
    findings
}

/// The targets of links outside code blocks, other sites and anchors left out.
pub(super) fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (line, text) in outside_code(text) {
        for (at, mark) in text.match_indices("](") {
            let target = text[at + mark.len()..].split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with('#') {
                targets.push((line, target));
            }
        }
    }
    targets
}

/// The lines outside code blocks, each with its number.
pub(super) fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let target = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let path = parts.join("/");
    let is_text = tree.files().any(|(it, _)| it == path || it.starts_with(&format!("{path}/")));
    is_text || Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).exists()
}

/// Paragraphs with their first line; a table belongs to the one that introduces it.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut last_line = 0;
    for (line, text) in outside_code(text).filter(|(_, text)| !text.trim().is_empty()) {
        match paragraphs.last_mut() {
            Some((_, paragraph)) if line == last_line + 1 || text.starts_with('|') => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            _ => paragraphs.push((line, text.to_owned())),
        }
        last_line = line;
    }
    paragraphs
}

/// The first number followed by `%`, `×` or ` times`, the confidence of intervals left out.
fn measured_number(paragraph: &str) -> Option<String> {
    let text = paragraph.replace(CONFIDENCE, "");
    ["%", "×", "times"].iter().find_map(|sign| {
        text.match_indices(sign).find_map(|(at, _)| {
            let before = text[..at].trim_end();
            let digits: String =
                before.chars().rev().take_while(|it| it.is_ascii_digit() || *it == '.').collect();
            let number: String = digits.chars().rev().collect();
            number.contains(|it: char| it.is_ascii_digit()).then(|| format!("{number} {sign}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(readme: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (README, readme),
            ("results/2026-01-01-lab/README.md", "# R\n"),
            ("docs/a.md", "# A\n"),
        ]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_number_without_its_results_is_found() {
        let found = messages("# R\n\ngVisor costs\n12 % more.\n");
        assert_eq!(
            found,
            ["README.md:3: `12 %` has no link to the folder in results/ that it comes from"]
        );
        assert_eq!(messages("It is 2.5× slower.\n").len(), 1);
    }

    #[test]
    fn a_table_has_the_source_of_the_paragraph_above_it() {
        let table = "| Stack | Overhead |\n|---|---|\n| `runc` | 12 % |\n";
        assert!(messages(&format!("Of [a run](results/2026-01-01-lab/):\n\n{table}")).is_empty());
        assert_eq!(messages(&format!("Of a run:\n\n{table}")).len(), 1);
    }

    #[test]
    fn a_number_with_its_results_one_in_a_code_block_and_a_confidence_are_spared() {
        assert!(messages("It costs 12 % ([run](results/2026-01-01-lab/)).\n").is_empty());
        assert!(messages("```text\nrunc +12 %\n```\n\nA 95 % interval.\n").is_empty());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(
            messages("See [b](docs/b.md).\n"),
            ["README.md:1: the link `docs/b.md` leads nowhere"]
        );
        assert!(
            messages("See [a](docs/a.md#top), [x](https://example.org/) and [y](#r).\n").is_empty()
        );
    }
}
