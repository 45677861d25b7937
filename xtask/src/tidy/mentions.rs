//! Mentions: a file of ours that a document names is there, so that a file that moves takes its
//! name along.

use super::Finding;
use super::tree::Tree;

/// Folders with files that documents name by their path from the root.
const FOLDERS: &[&str] = &[
    "agent/", "benches/", "engines/", "fuzz/", "instrument/", "plans/", "setup/", "src/",
    "statistics/", "tests/", "workloads/", "xtask/",
];

/// Documents say of results what was so at their time, and the changelog of a file what it was
/// called.
const OF_THE_PAST: &[&str] = &["results/", "CHANGELOG.md"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files().filter(|(path, _)| {
        path.ends_with(".md") && !OF_THE_PAST.iter().any(|past| path.starts_with(past))
    });
    let mut findings = Vec::new();
    for (path, text) in documents {
        for (index, line) in text.lines().enumerate() {
            // What stands between two backticks is every second part.
            for word in line.split('`').skip(1).step_by(2).filter(|word| is_a_file(word)) {
                if tree.text(word).is_none() {
                    let message = format!("there is no `{word}`: name it as it is called now");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Tells whether a word is the path of one file, and no pattern.
fn is_a_file(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let name = word.rsplit('/').next().unwrap_or_default();
    FOLDERS.iter().any(|folder| word.starts_with(folder))
        && word.chars().all(is_plain)
        && [".rs", ".sh", ".sql", ".md", ".toml"].iter().any(|end| name.ends_with(end))
        && !word.contains("NAME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[("src/a.rs", "//! A.\n"), (path, text)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_file_that_is_gone_is_found_where_it_is_named() {
        let text = "See `src/a.rs`\nand `src/b.rs`, `tests/run.sh`.\n";
        let expected = ["src/b.rs", "tests/run.sh"]
            .map(|it| format!("docs/x.md:2: there is no `{it}`: name it as it is called now"));
        assert_eq!(found("docs/x.md", text), expected);
    }

    #[test]
    fn patterns_folders_other_words_and_the_past_are_spared() {
        let text =
            "`src/NAME.rs` `src/{a,b}.rs` `src/` src/b.rs `a.rs` `cat src/b.rs` `docs/b.md`\n";
        assert!(found("docs/x.md", text).is_empty());
        assert!(found("results/2026-01-01-lab/README.md", "`src/b.rs`\n").is_empty());
        assert!(found("CHANGELOG.md", "`src/b.rs`\n").is_empty());
    }
}
