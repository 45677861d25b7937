//! The mutants of `xtask/mutants.toml`, built into the program, and how one is made.

use serde::Deserialize;
use std::sync::LazyLock;

/// The file of the list, from the root of the repository.
const PATH: &str = "xtask/mutants.toml";

/// Every mutant, in the order of the list.
pub static MUTANTS: LazyLock<Vec<Mutant>> = LazyLock::new(|| {
    let list: List = toml::from_str(include_str!("../../mutants.toml"))
        .unwrap_or_else(|error| panic!("{PATH} cannot be read: {error}"));
    list.mutant
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One change of the source that makes surtax wrong. The head of the list says what each field is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    pub name: String,
    pub breaks: String,
    pub path: String,
    pub text: String,
    pub instead: String,
    pub proofs: String,
}

impl Mutant {
    /// The changed text of the file.
    ///
    /// # Errors
    /// What is to be changed is not there exactly once.
    pub fn applied_to(&self, source: &str) -> Result<String, String> {
        match source.matches(&self.text).count() {
            1 => Ok(source.replacen(&self.text, &self.instead, 1)),
            count => Err(format!(
                "the mutant `{}` changes `{}` in {}, where it stands {count} times: bring {PATH} \
                 up to date",
                self.name, self.text, self.path
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn texts_below(folder: &Path) -> String {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let text = |path: PathBuf| {
            if path.is_dir() { texts_below(&path) } else { fs::read_to_string(path).unwrap() }
        };
        paths.map(text).collect()
    }

    #[test]
    fn every_mutant_changes_one_place_of_this_tree() {
        for mutant in MUTANTS.iter() {
            let source = fs::read_to_string(root().join(&mutant.path)).unwrap();
            let changed = mutant.applied_to(&source).unwrap_or_else(|words| panic!("{words}"));
            assert!(changed.contains(&mutant.instead), "{}", mutant.name);
        }
    }

    #[test]
    fn every_mutant_has_a_name_of_its_own_and_names_proofs_that_there_are() {
        let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names.len(), MUTANTS.len());
        let proofs = texts_below(&root().join("src/prove"));
        for name in MUTANTS.iter().flat_map(|mutant| mutant.proofs.split(',')) {
            assert!(proofs.contains(&format!("\"{name}\"")), "no proof `{name}`");
        }
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_refused() {
        let mutant = &MUTANTS[0];
        for source in [String::new(), mutant.text.repeat(2)] {
            let words = mutant.applied_to(&source).unwrap_err();
            assert!(words.contains("bring xtask/mutants.toml up to date"), "{words}");
        }
    }
}
