//! Fault texts: no two failures share one, so that a report of one leads to its place; and nobody
//! decides by one, which is what causes are for.

use super::Finding;
use super::rust_source::{Literal, RustSource};
use super::tree::Tree;
use std::collections::BTreeMap;

/// Calls that make a fault.
const MAKERS: &[&str] = &["Fault::user(", "Fault::machine(", "Fault::inside(", "Fault::bug("];

/// Methods by which somebody reads a fault's text.
const READERS: &[&str] = &[
    "contains(", "starts_with(", "ends_with(", "strip_prefix(", "find(", "split_once(",
    "to_lowercase(",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = shared_or_ended(tree);
    for (path, source) in tree.rust().filter(|(path, _)| path.starts_with("src/")) {
        for at in source.find("message") {
            let rest = source.code[at + "message".len()..].trim_start();
            let is_read = rest
                .strip_prefix('.')
                .map(str::trim_start)
                .is_some_and(|call| READERS.iter().any(|reader| call.starts_with(reader)));
            if source.code[..at].ends_with('.') && (is_read || rest.starts_with("== ")) {
                let message = "decides by a fault's text: give the fault a cause, and ask for that";
                findings.push(Finding::new(path, source.line_of(at), message));
            }
        }
    }
    findings
}

fn shared_or_ended(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first_places: BTreeMap<&str, String> = BTreeMap::new();
    for (path, source) in tree.rust().filter(|(path, _)| !path.starts_with("xtask/")) {
        for literal in fault_texts(source) {
            let line = source.line_of(literal.offset);
            if literal.text.ends_with('.') && !literal.text.ends_with("..") {
                let message = format!("the fault `{}` ends with a period", literal.text);
                findings.push(Finding::new(path, line, message));
            }
            match first_places.get(literal.text.as_str()) {
                Some(place) => {
                    let message = format!("the fault `{}` has the text of {place}", literal.text);
                    findings.push(Finding::new(path, line, message));
                }
                None => {
                    first_places.insert(&literal.text, format!("{path}:{line}"));
                }
            }
        }
    }
    findings
}

/// The literal that each fault begins with, where it begins with one.
fn fault_texts(source: &RustSource) -> Vec<&Literal> {
    let ends = MAKERS.iter().flat_map(|maker| source.find(maker).map(|at| at + maker.len()));
    let mut texts: Vec<&Literal> = ends
        .filter_map(|end| {
            let literal = source.literals.iter().find(|it| it.offset >= end)?;
            let between: String = source.code[end..literal.offset].split_whitespace().collect();
            matches!(between.as_str(), "" | "format!(" | "String::from(").then_some(literal)
        })
        .collect();
    texts.sort_by_key(|it| it.offset);
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn two_equal_fault_texts_are_found_across_files_and_kinds() {
        let a = "fn f() { Fault::user(\"no such thing\") }\n";
        let b = "fn f() {\n Fault::machine(format!(\n  \"no such thing\", x)) }\n";
        let found = messages(&[("src/a.rs", a), ("src/b.rs", b)]);
        assert_eq!(found, ["src/b.rs:3: the fault `no such thing` has the text of src/a.rs:1"]);
    }

    #[test]
    fn different_texts_computed_texts_and_tests_are_spared() {
        let a = "fn f() { Fault::user(\"one\"); Fault::user(text); g(\"one\") }\n\
                 #[cfg(test)]\nmod tests { fn f() { Fault::user(\"one\") } }\n";
        assert!(messages(&[("src/a.rs", a)]).is_empty());
    }

    #[test]
    fn who_decides_by_a_text_is_found_outside_of_tests() {
        let a = "fn f() { if fault.message.contains(\"x\") {} }\n\
                 #[cfg(test)]\nmod tests { fn g() { fault.message.contains(\"x\"); } }\n";
        let found = messages(&[("src/a.rs", a)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("src/a.rs:1: decides by a fault's text"), "{found:?}");
    }

    #[test]
    fn a_final_period_is_found() {
        let found = messages(&[("src/a.rs", "fn f() { Fault::bug(\"it broke.\") }")]);
        assert_eq!(found, ["src/a.rs:1: the fault `it broke.` ends with a period"]);
    }
}
