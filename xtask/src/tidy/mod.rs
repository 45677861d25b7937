//! Tidy: the rules of CONTRIBUTING.md that a program can check.
//!
//! Each rule is a function from the tree to findings. It stands in a file of its own, beside tests
//! that show it catching a violation and sparing what is allowed.

mod book;
mod circles;
mod columns;
mod doors;
mod faults;
mod headers;
mod imports;
mod kinds;
mod ledger_fields;
mod links;
mod mentions;
mod names;
mod openings;
mod path_of_data;
mod promises;
mod readme;
mod rust_source;
mod sizes;
mod templates;
mod tree;

use std::fmt;
use std::process::ExitCode;
use tree::Tree;

/// Every rule, in the order in which CONTRIBUTING.md names them.
const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    headers::check,
    sizes::check,
    columns::check,
    names::check,
    openings::check,
    imports::check,
    circles::check,
    kinds::check,
    doors::check,
    templates::check,
    faults::check,
    ledger_fields::check,
    promises::check,
    path_of_data::check,
    links::check,
    mentions::check,
    readme::check,
    book::check,
];

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the repository; prints one line per finding, and fails if there is one.
pub fn run() -> ExitCode {
    let tree = match Tree::of_this_repository() {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("xtask: cannot read the repository: {error}");
            return ExitCode::from(3);
        }
    };
    for note in sizes::aims(&tree) {
        println!("note: {note}");
    }
    println!("note: {}", circles::note(&tree));
    let findings = check(&tree);
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to mend", tree.files().count());
            ExitCode::SUCCESS
        }
        count => {
            eprintln!("tidy: {count} to mend");
            ExitCode::FAILURE
        }
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let tree = Tree::of_this_repository().expect("the repository can be read");
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }

    #[test]
    fn a_finding_is_shown_as_a_place_that_an_editor_can_jump_to() {
        let finding = Finding::new("src/plan/mod.rs", 7, "too long");
        assert_eq!(finding.to_string(), "src/plan/mod.rs:7: too long");
    }
}
