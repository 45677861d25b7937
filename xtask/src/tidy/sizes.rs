//! Sizes: a file is short enough to be read in one sitting. Clippy keeps the functions short.

use super::Finding;
use super::tree::Tree;
use std::path::Path;

/// Lines, tests left out, below which a file should stay.
const AIM: usize = 400;

/// Lines, tests left out, above which a file may not go.
const MAX: usize = 450;

/// Files above [`MAX`].
pub fn check(tree: &Tree) -> Vec<Finding> {
    let message =
        |count| format!("{count} lines without tests, more than {MAX}: divide it by nouns");
    let too_long = counts(tree).filter(|(_, count)| *count > MAX);
    too_long.map(|(path, count)| Finding::new(&path, MAX + 1, message(count))).collect()
}

/// Files above [`AIM`]: worth a look, no violation.
pub fn aims(tree: &Tree) -> Vec<Finding> {
    let long = counts(tree).filter(|(_, count)| *count > AIM);
    long.map(|(path, count)| Finding::new(&path, count, format!("{count} lines; the aim is {AIM}")))
        .collect()
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
        let found = check(&Tree::of(&[("src/a.rs", &long), ("src/b.rs", &tested)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/a.rs:451: 451 lines"));
    }

    #[test]
    fn a_file_above_the_aim_is_noted() {
        let tree = Tree::of(&[("src/a.rs", &"fn a() {}\n".repeat(401))]);
        assert_eq!(aims(&tree).len(), 1);
        assert!(check(&tree).is_empty());
    }
}
