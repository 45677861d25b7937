//! Openings: a doc comment opens with a verb or a noun, so that its first words say what a thing is
//! or does.

use super::Finding;
use super::tree::Tree;

/// Words that point at the answer and are none.
const VAGUE: &[&str] =
    &["What", "How", "Whether", "Where", "Its", "Who", "Which", "Why", "When", "So"];

/// Doc comments whose first word is vague.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_first = true;
        for (index, line) in text.lines().enumerate() {
            let words = documentation(line);
            let word = words.and_then(|it| it.split_whitespace().next()).unwrap_or_default();
            if is_first && VAGUE.contains(&word) {
                let message = format!("opens with `{word}`: open with a verb or a noun");
                findings.push(Finding::new(path, index + 1, message));
            }
            is_first = words.is_none();
        }
    }
    findings
}

/// Contents of a line that is a doc comment.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("src/a.rs", text)])).iter().map(|it| it.line).collect()
    }

    #[test]
    fn a_first_word_that_says_nothing_is_found_in_every_doc_comment() {
        assert_eq!(lines("//! What it is.\n\n/// Its name.\nfn a() {}\n"), [1, 3]);
    }

    #[test]
    fn later_lines_other_comments_and_longer_words_are_spared() {
        let text = "//! A file.\n//! What is in it.\n\n/// Whole name.\n// What for.\nfn a() {}\n";
        assert!(lines(text).is_empty());
    }
}
