//! Promises: each one in SPECIFICATION.md names the tests or benchmarks that hold it.

use super::Finding;
use super::tree::Tree;
use std::collections::BTreeSet;

const SPECIFICATION: &str = "SPECIFICATION.md";

/// Words that open the list of names at the end of a promise.
const HELD_BY: &str = "Held by ";

/// The page that says of each attacker which test holds them.
const THREATS: &str = "docs/threat-model.md";

/// A name with so many parts is a test's and no field's.
const TEST_PARTS: usize = 4;

/// Words of a promise that is none yet.
const POSTPONED: &[&str] = &["pending", "todo", "to be done", "not yet tested", "tbd"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(SPECIFICATION) else {
        return vec![Finding::new(SPECIFICATION, 1, "is missing: it says what surtax promises")];
    };
    let known = known_tests(tree);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        if let Some(word) = POSTPONED.iter().find(|word| lower.contains(**word)) {
            let message = format!("`{word}`: a promise is kept or it is not made");
            findings.push(Finding::new(SPECIFICATION, index + 1, message));
        }
    }
    for (line, promise) in promises(text) {
        let names = names_after(&promise);
        if names.is_empty() {
            let message =
                format!("the promise names no test: end it with \"{HELD_BY}`its_test`.\"");
            findings.push(Finding::new(SPECIFICATION, line, message));
        }
        for name in names.iter().filter(|name| !known.contains(**name)) {
            let message = format!("`{name}` is neither a test nor a file in benches/");
            findings.push(Finding::new(SPECIFICATION, line, message));
        }
    }
    findings.extend(unheld_threats(tree, &known));
    findings
}

/// Tests that the threat model names, and that do not exist.
fn unheld_threats(tree: &Tree, known: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in tree.text(THREATS).unwrap_or_default().lines().enumerate() {
        let words = line.split('`').skip(1).step_by(2);
        let is_test = |word: &&str| word.split('_').count() >= TEST_PARTS && !word.contains(' ');
        for name in words.filter(is_test).filter(|word| !known.contains(*word)) {
            let message = format!("`{name}` holds nobody: there is no such test");
            findings.push(Finding::new(THREATS, index + 1, message));
        }
    }
    findings
}

/// Each item of a list with the lines that continue it, and the line that it begins on.
fn promises(text: &str) -> Vec<(usize, String)> {
    let mut promises: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("- ") {
            promises.push((index + 1, line.to_owned()));
            open = true;
        } else if line.starts_with("  ") && open {
            if let Some((_, promise)) = promises.last_mut() {
                promise.push(' ');
                promise.push_str(line.trim());
            }
        } else {
            open = false;
        }
    }
    promises
}

fn names_after(promise: &str) -> Vec<&str> {
    let Some((_, names)) = promise.split_once(HELD_BY) else { return Vec::new() };
    names.split('`').skip(1).step_by(2).collect()
}

/// Functions under `#[test]`, and the files of `benches/`, as `benches/name.rs`.
fn known_tests(tree: &Tree) -> BTreeSet<&str> {
    let mut known = BTreeSet::new();
    for (path, source) in tree.rust() {
        if path.split('/').any(|part| part == "benches") {
            known.insert(path);
        }
        for (offset, mark) in source.code.match_indices("#[test]") {
            let rest = &source.code[offset + mark.len()..];
            if let Some((_, after)) = rest.split_once("fn ") {
                known.insert(
                    after.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or(""),
                );
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: (&str, &str) =
        ("src/a.rs", "#[cfg(test)]\nmod tests {\n #[test]\n fn it_holds() {}\n}\n");

    fn messages(specification: &str) -> Vec<String> {
        let bench = ("benches/agent_start.rs", "//! How long an agent takes to start.\n");
        let tree = Tree::of(&[(SPECIFICATION, specification), TEST, bench]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_promise_without_a_test_and_one_with_an_unknown_test_are_found() {
        let found = messages("# S\n\n- It holds.\n- It\n  stands. Held by `it_stands`.\n");
        assert_eq!(
            found,
            [
                "SPECIFICATION.md:3: the promise names no test: end it with \"Held by \
                 `its_test`.\"",
                "SPECIFICATION.md:4: `it_stands` is neither a test nor a file in benches/",
            ]
        );
    }

    #[test]
    fn a_promise_with_a_test_or_a_benchmark_is_spared() {
        assert!(
            messages("- `a` holds. Held by `it_holds`, `benches/agent_start.rs`.\n").is_empty()
        );
    }

    #[test]
    fn a_threat_that_an_unknown_test_holds_is_found() {
        let threats = "Held by `it_holds_all_of_them`, `a_name` and `the_page_of_a b`.\n";
        let text = "- It holds. Held by `it_holds`.\n";
        let tree = Tree::of(&[(SPECIFICATION, text), (THREATS, threats), TEST]);
        let found: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        let expected =
            "docs/threat-model.md:1: `it_holds_all_of_them` holds nobody: there is no such test";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_postponed_promise_is_found() {
        assert_eq!(messages("Pending: speed.\n").len(), 1);
    }
}
