//! Book: every page of docs/ stands in its contents, or the book would lack what other pages lead
//! to.

use super::Finding;
use super::links::targets;
use super::tree::Tree;
use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: &str = "docs/";

/// The contents, which mdBook reads.
const CONTENTS: &str = "docs/SUMMARY.md";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let contents = tree.text(CONTENTS).unwrap_or_default();
    let listed: BTreeSet<&str> = targets(contents).into_iter().map(|(_, target)| target).collect();
    let pages = tree.files().filter_map(|(path, _)| Some((path, path.strip_prefix(FOLDER)?)));
    pages
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|it| it == "md"))
        .filter(|(path, page)| *path != CONTENTS && !listed.contains(page))
        .map(|(path, page)| {
            let message = format!(
                "the page is not in the book: give it a line in {CONTENTS} with `({page})`"
            );
            Finding::new(path, 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_contents_lack_is_found_and_what_is_no_page_is_spared() {
        let tree = Tree::of(&[
            (CONTENTS, "# Summary\n\n- [A](a.md)\n  - [1](decisions/0001-a.md)\n"),
            ("docs/a.md", "# A\n"),
            ("docs/decisions/0001-a.md", "# 1\n"),
            ("docs/decisions/0002-b.md", "# 2\n"),
            ("docs/style.css", "/* Colours of the book. */\n"),
            ("results/2026-01-01-lab/README.md", "# R\n"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            ["docs/decisions/0002-b.md:1: the page is not in the book: give it a line in \
                 docs/SUMMARY.md with `(decisions/0002-b.md)`"]
        );
    }
}
