//! Headers: every file says what it is before anything else, and every driver and probe the rest.

use super::tree::Tree;
use super::{Finding, rust_source::RustSource};
use std::path::Path;

/// Bullets in the header of a layer's driver, in this order.
const DRIVER_BULLETS: &[&str] = &["Needs", "Leaves out", "Payers", "Checked against"];

/// Bullets in the header of a probe, in this order.
const PROBE_BULLETS: &[&str] = &["Reads", "Costs", "Cannot see", "Reference"];

/// Openings that say nothing.
const EMPTY_WORDS: &[&str] = &["This module", "This file", "To be written", "Contains "];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        tree.files().filter_map(|(path, text)| missing_header(path, text)).collect();
    for (path, source) in tree.rust() {
        let text = tree.text(path).unwrap_or_default();
        if let Some(bullets) = bullets_wanted(path, source) {
            findings.extend(missing_bullets(path, text, bullets));
        }
    }
    findings
}

fn comment_marks(path: &str) -> Option<&'static [&'static str]> {
    let suffix = Path::new(path).extension().unwrap_or_default().to_str()?;
    match suffix {
        "rs" => Some(&["//!"]),
        "c" | "h" | "css" => Some(&["/*"]),
        "js" | "mjs" => Some(&["/*", "//"]),
        "sql" => Some(&["--"]),
        "sh" | "py" => Some(&["#"]),
        "" => Some(&["#"]),
        _ => None,
    }
}

fn missing_header(path: &str, text: &str) -> Option<Finding> {
    let marks = comment_marks(path)?;
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| line.starts_with("#!/"));
    let (index, first) = lines.next().unwrap_or((0, ""));
    let Some(mark) = marks.iter().find(|mark| first.starts_with(**mark)) else {
        let wanted = marks.join("` or `");
        return Some(Finding::new(
            path,
            index + 1,
            format!("does not begin with a `{wanted}` header"),
        ));
    };
    let sentence = first[mark.len()..].trim_matches(['*', ' ', '/']);
    let empty = EMPTY_WORDS.iter().find(|words| sentence.starts_with(**words));
    if let Some(words) = empty {
        let message = format!("the header begins with `{words}`: say what it is or does");
        return Some(Finding::new(path, index + 1, message));
    }
    (sentence.split_whitespace().count() < 3).then(|| {
        Finding::new(path, index + 1, "the header's first line is no sentence that stands alone")
    })
}

fn bullets_wanted(path: &str, source: &RustSource) -> Option<&'static [&'static str]> {
    let name = path.rsplit('/').next()?;
    if path.starts_with("src/driver/") && source.find("Layer for ").next().is_some() {
        return Some(DRIVER_BULLETS);
    }
    let is_probe = path.starts_with("instrument/src/probe/");
    (is_probe && name != "mod.rs" && name != "tests.rs").then_some(PROBE_BULLETS)
}

fn missing_bullets(path: &str, text: &str, wanted: &[&str]) -> Vec<Finding> {
    let header = text.lines().take_while(|line| line.starts_with("//!"));
    let found: Vec<(usize, &str)> = header
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix("//! - **")?)))
        .filter_map(|(line, rest)| Some((line, rest.split("**").next()?)))
        .collect();
    let mut findings = Vec::new();
    let mut last_line = 0;
    for name in wanted {
        match found.iter().find(|(_, word)| word == name) {
            None => {
                let message = format!("the header lacks the bullet `//! - **{name}** …`");
                findings.push(Finding::new(path, 1, message));
            }
            Some((line, _)) if *line < last_line => {
                let message = format!("the bullet `{name}` is out of order: {}", wanted.join(", "));
                findings.push(Finding::new(path, *line, message));
            }
            Some((line, _)) => last_line = *line,
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_file_without_a_header_is_found_in_every_language() {
        for (path, text) in [
            ("src/a.rs", "use std::fs;\n"),
            ("agent/a.c", "#include <stdio.h>\n"),
            ("setup/a.sh", "#!/bin/sh\nset -eu\n"),
            ("report-ui/a.css", "body {}\n"),
            ("report-ui/a.js", "let a;\n"),
            ("src/ledger/schema.sql", "CREATE TABLE a (b);\n"),
        ] {
            assert_eq!(messages(&[(path, text)]).len(), 1, "{path}");
        }
    }

    #[test]
    fn a_header_that_says_something_is_spared() {
        let files = [
            ("src/a.rs", "//! Reads time, and remembers which clock.\n"),
            ("setup/a.sh", "#!/bin/sh\n# Makes a machine ready.\n"),
            ("report-ui/a.css", "/* The look of a report. */\n"),
        ];
        assert!(messages(&files).is_empty());
    }

    #[test]
    fn a_header_that_says_nothing_is_found() {
        let found = messages(&[("src/a.rs", "//! This module contains the plan.\n")]);
        assert_eq!(
            found,
            ["src/a.rs:1: the header begins with `This module`: say what it is or does"]
        );
        assert_eq!(messages(&[("src/a.rs", "//! surtax\n")]).len(), 1);
    }

    #[test]
    fn a_driver_without_its_bullets_or_with_them_out_of_order_is_found() {
        let header = "//! Xen: a hypervisor below every kernel.\n//!\n//! - **Needs** a Dom0.\n";
        let rest = "//! - **Payers** none.\n//! - **Leaves out** HVM.\n\nimpl Layer for Xen {}\n";
        let found = messages(&[("src/driver/xen.rs", &format!("{header}{rest}"))]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("lacks the bullet `//! - **Checked against** …`")
                || found[1].contains("Checked")
        );
        assert!(found.iter().any(|it| it.starts_with("src/driver/xen.rs:4:")), "{found:?}");
    }

    #[test]
    fn a_probe_without_its_bullets_is_found() {
        let found = messages(&[("instrument/src/probe/psi.rs", "//! Pressure of a group.\n")]);
        assert_eq!(found.len(), 4);
        assert!(found[0].contains("**Cannot see**") || found[0].contains("**Reads**"));
    }
}
