//! README: short enough to be read in one sitting. What needs more room is a page of the book in
//! docs/.

use super::Finding;
use super::links::outside_code;
use super::tree::Tree;

const README: &str = "README.md";

/// The most words, as `wc -w` counts them.
const WORDS_MAX: usize = 1_500;

/// The most rows of a table, its heading left out.
const ROWS_MAX: usize = 12;

/// The lines of a table that are no rows: the heading, and what stands below it.
const HEADING_LINES: usize = 2;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(README).unwrap_or_default();
    let mut findings = Vec::new();
    let word_count = text.split_whitespace().count();
    if word_count > WORDS_MAX {
        let message =
            format!("{word_count} words, more than {WORDS_MAX}: move a part into a page of docs/");
        findings.push(Finding::new(README, 1, message));
    }
    for (line, row_count) in tables(text).filter(|(_, row_count)| *row_count > ROWS_MAX) {
        let message =
            format!("a table of {row_count} rows, more than {ROWS_MAX}: move it to docs/");
        findings.push(Finding::new(README, line, message));
    }
    findings
}

/// Each table: the line that it begins on, and how many rows it has.
fn tables(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut tables: Vec<(usize, usize)> = Vec::new();
    for (line, _) in outside_code(text).filter(|(_, text)| text.starts_with('|')) {
        match tables.last_mut() {
            Some((first, count)) if *first + *count == line => *count += 1,
            _ => tables.push((line, 1)),
        }
    }
    tables.into_iter().map(|(line, count)| (line, count.saturating_sub(HEADING_LINES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(readme: &str) -> Vec<String> {
        check(&Tree::of(&[(README, readme)])).iter().map(Finding::to_string).collect()
    }

    fn table(row_count: usize) -> String {
        format!("| a | b |\n|---|---|\n{}", "| c | d |\n".repeat(row_count))
    }

    #[test]
    fn one_word_too_many_is_found() {
        assert!(messages(&"word ".repeat(WORDS_MAX)).is_empty());
        assert_eq!(
            messages(&"word ".repeat(WORDS_MAX + 1)),
            ["README.md:1: 1501 words, more than 1500: move a part into a page of docs/"]
        );
    }

    #[test]
    fn a_table_that_is_too_long_is_found_where_it_begins() {
        let text = format!("# R\n\n{}\nBetween.\n\n{}", table(ROWS_MAX), table(ROWS_MAX + 1));
        assert_eq!(
            messages(&text),
            ["README.md:20: a table of 13 rows, more than 12: move it to docs/"]
        );
    }

    #[test]
    fn what_stands_in_a_code_block_is_no_table() {
        assert!(messages(&format!("```text\n{}```\n", table(ROWS_MAX + 1))).is_empty());
    }
}
