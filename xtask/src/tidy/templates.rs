//! Templates: HTML stands in `html!` alone, in which a text of somebody else's is no markup.
//!
//! No literal of ours begins a tag, and few files may say of a text that it is markup.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;

/// Rooms that write HTML.
const ROOMS: [&str; 2] = ["src/report/", "src/serve/"];

/// Files there that write no HTML of their own: XML, and what the chart library drew.
const OTHERS: [&str; 2] = ["src/report/forms/junit.rs", "src/report/html/chart.rs"];

/// Names by which a text becomes markup as it is.
const DOORS: [&str; 2] = ["PreEscaped", "render_to"];

/// Files that may: with what the chart library drew, and with our style and our script.
const KEEPERS: [&str; 2] = ["src/report/html/chart.rs", "src/report/html/mod.rs"];

/// Tags in literals, and texts that are taken for markup.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let is_in_room = |path: &str| ROOMS.iter().any(|room| path.starts_with(room));
    let sources = tree.rust().filter(|(path, _)| is_in_room(path));
    sources.flat_map(|(path, source)| found_in(path, source)).collect()
}

fn found_in(path: &str, source: &RustSource) -> Vec<Finding> {
    let mut findings = Vec::new();
    let literals = source.literals.iter().filter(|it| !source.is_test(it.offset));
    for literal in literals.filter(|it| begins_tag(&it.text) && !OTHERS.contains(&path)) {
        let message = "a literal with a tag: write a template, in which it is checked";
        findings.push(Finding::new(path, source.line_of(literal.offset), message));
    }
    for door in DOORS.iter().filter(|_| !KEEPERS.contains(&path)) {
        for offset in source.find(door) {
            let message = format!("`{door}` lets a text be markup: put it into a template");
            findings.push(Finding::new(path, source.line_of(offset), message));
        }
    }
    findings
}

/// Tells whether a tag begins in a text, as `<p` and `</p` do.
fn begins_tag(text: &str) -> bool {
    let mut after = text.split('<').skip(1).map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    after.any(|rest| rest.starts_with(|first: char| first.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_tag_in_a_literal_and_a_text_that_is_taken_for_markup_are_found() {
        let text = "fn f() { format!(\"{x}<p class=a>\") }\nfn g() { s + \"</div>\" }\n";
        assert_eq!(lines("src/report/html/bill.rs", text), [1, 2]);
        assert_eq!(lines("src/serve/pages.rs", "use maud::html;\nfn f() { PreEscaped(x) }\n"), [2]);
        assert_eq!(lines("src/report/rows.rs", "fn render_to(&self, to: &mut String) {}\n"), [1]);
    }

    #[test]
    fn templates_comparisons_tests_and_other_rooms_are_spared() {
        let text =
            "fn f() { html! { p { \"a < b <= c\" } } }\n#[cfg(test)]\nmod tests { \"<p>\" }\n";
        assert!(lines("src/report/html/bill.rs", text).is_empty());
        let drawn = "fn f() { PreEscaped(x.trim_end_matches(\"</svg>\")) }\n";
        assert!(lines("src/report/html/chart.rs", drawn).is_empty());
        assert!(
            lines("src/driver/libvirt/definition.rs", "const A: &str = \"<domain>\";").is_empty()
        );
    }
}
