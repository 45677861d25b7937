//! Names: no file or folder is a room without a noun.

use super::Finding;
use super::tree::Tree;

/// A function that seems to need such a room belongs to the noun of its first parameter.
const BANNED: &[&str] =
    &["utils", "util", "helpers", "helper", "common", "types", "misc", "manager", "imp"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter_map(|(path, _)| {
            let part = path.split('/').map(stem).find(|part| BANNED.contains(part))?;
            let message = format!("`{part}` is no noun of this project: name what it holds");
            Some(Finding::new(path, 1, message))
        })
        .collect()
}

fn stem(part: &str) -> &str {
    part.split('.').next().unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_without_a_noun_is_found_as_a_file_and_as_a_folder() {
        let files = [("src/lab/utils.rs", ""), ("src/common/a.rs", ""), ("src/lab/utility.rs", "")];
        let found: Vec<String> = check(&Tree::of(&files)).iter().map(Finding::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("src/common/a.rs:1: `common`"));
    }
}
