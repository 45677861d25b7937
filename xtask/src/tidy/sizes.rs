//! Sizes: a file is short enough to be read in one sitting. Clippy keeps the functions short.

use super::Finding;
use super::tree::Tree;
use std::path::Path;

/// Lines, tests left out, below which a file should stay.
const AIM: usize = 400;

/// Lines, tests left out, above which a file needs a reviewed reason.
const MAX: usize = 450;

/// Files that may be longer, to which length, and why. Each entry was agreed on in a review.
const EXCEPTIONS: &[(&str, usize, &str)] = &[];

/// Files above [`MAX`] without a reason, and reasons that are no longer needed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, EXCEPTIONS)
}

/// Files above [`AIM`]: worth a look, no violation.
pub fn aims(tree: &Tree) -> Vec<Finding> {
    let long =
        |(path, count): &(String, usize)| *count > AIM && excepted(path, EXCEPTIONS).is_none();
    counts(tree)
        .filter(long)
        .map(|(path, count)| Finding::new(&path, count, format!("{count} lines; the aim is {AIM}")))
        .collect()
}

fn check_with(tree: &Tree, exceptions: &[(&str, usize, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, count) in counts(tree) {
        let limit = excepted(&path, exceptions).unwrap_or(MAX);
        if count > limit {
            let message =
                format!("{count} lines without tests, more than {limit}: divide it by nouns");
            findings.push(Finding::new(&path, limit + 1, message));
        }
    }
    for (path, _, reason) in exceptions {
        let count = counts(tree).find(|(it, _)| it == path).map_or(0, |(_, count)| count);
        if count <= MAX {
            let message = format!("needs no exception any more: remove \"{reason}\" from sizes.rs");
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

fn excepted(path: &str, exceptions: &[(&str, usize, &str)]) -> Option<usize> {
    exceptions.iter().find(|(it, _, _)| *it == path).map(|(_, limit, _)| *limit)
}

fn counts(tree: &Tree) -> impl Iterator<Item = (String, usize)> {
    let rust =
        tree.rust().map(|(path, source)| (path.to_owned(), source.line_count_without_tests()));
    let others = tree
        .files()
        .filter(|(path, _)| {
            let suffix = Path::new(path).extension().unwrap_or_default();
            ["c", "h", "sh", "py", "css", "js", "mjs", "sql"].iter().any(|it| suffix == *it)
        })
        .map(|(path, text)| (path.to_owned(), text.lines().count()));
    rust.chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_found_and_its_tests_do_not_count() {
        let long = "fn a() {}\n".repeat(MAX + 1);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let found = check_with(&Tree::of(&[("src/a.rs", &long), ("src/b.rs", &tested)]), &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/a.rs:451: 451 lines"));
    }

    #[test]
    fn an_exception_holds_up_to_its_own_limit_and_is_found_when_it_is_not_needed() {
        let long = "fn a() {}\n".repeat(800);
        let tree = Tree::of(&[("src/a.rs", &long)]);
        assert!(check_with(&tree, &[("src/a.rs", 800, "a table")]).is_empty());
        assert_eq!(check_with(&tree, &[("src/a.rs", 799, "a table")]).len(), 1);
        let short = Tree::of(&[("src/a.rs", "fn a() {}\n")]);
        assert_eq!(check_with(&short, &[("src/a.rs", 800, "a table")]).len(), 1);
    }

    #[test]
    fn a_file_above_the_aim_is_noted() {
        let tree = Tree::of(&[("src/a.rs", &"fn a() {}\n".repeat(401))]);
        assert_eq!(aims(&tree).len(), 1);
        assert!(check(&tree).is_empty());
    }
}
