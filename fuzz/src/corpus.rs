//! Corpora: the inputs that every run of a target begins with, and the words that go into more.
//!
//! They are the files below `fuzz/corpus/TARGET`, those of other folders of the repository that a
//! target names, and what the target makes itself. An input that once found something stays here
//! for good. The words are in `fuzz/dictionaries/TARGET.dict`, as libFuzzer and AFL read them: one
//! on a line, between double quotes, in which `\"`, `\\` and `\x1b` stand for single bytes.

use crate::target::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every input of a target, in the order of their names; those that are longer than it takes are
/// left out.
///
/// # Errors
/// A folder that cannot be read, by its name.
pub fn of(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let root = repository();
    let own = format!("fuzz/corpus/{}", target.name);
    let folders = target.folders.iter().map(|folder| (*folder).to_owned()).chain([own]);
    let mut inputs = (target.seeds)();
    for folder in folders {
        let cannot = |error: &std::io::Error| format!("cannot read `{folder}`: {error}");
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(|error| cannot(&error))?;
        paths.sort();
        for path in paths.into_iter().filter(|path| path.is_file()) {
            inputs.push(fs::read(&path).map_err(|error| cannot(&error))?);
        }
    }
    inputs.retain(|input| input.len() <= target.longest);
    if inputs.is_empty() {
        inputs.push(Vec::new());
    }
    Ok(inputs)
}

/// The file with the words of a target.
#[must_use]
pub fn dictionary_path(target: &Target) -> PathBuf {
    repository().join(format!("fuzz/dictionaries/{}.dict", target.name))
}

/// The words that are put into inputs of a target, beside single bytes, in the order of its file.
///
/// # Errors
/// The file system's, or a line that is no word.
pub fn dictionary(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let path = dictionary_path(target);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let word = |(index, line)| {
        word(line).ok_or_else(|| format!("{}:{}: is no word", path.display(), index + 1))
    };
    text.lines().enumerate().map(word).collect()
}

/// The bytes of one line of a dictionary.
fn word(line: &str) -> Option<Vec<u8>> {
    let quoted = line.strip_prefix('"')?.strip_suffix('"')?;
    let (mut letters, mut bytes) = (quoted.bytes(), Vec::new());
    while let Some(letter) = letters.next() {
        bytes.push(match letter {
            b'"' => return None,
            b'\\' => match letters.next()? {
                escaped @ (b'"' | b'\\') => escaped,
                b'x' => {
                    let mut digit = || char::from(letters.next()?).to_digit(16);
                    u8::try_from(16 * digit()? + digit()?).ok()?
                }
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TARGETS;

    /// Largest size of all corpora together, in bytes.
    const LIMIT: u64 = 1_500_000;

    #[test]
    fn every_target_has_inputs_and_words_and_every_corpus_has_a_target() {
        let scratch = crate::target::make_scratch().unwrap();
        crate::target::use_scratch(scratch.path());
        for target in TARGETS {
            assert!(of(&target).unwrap().len() >= 2, "{} has nothing to begin with", target.name);
            assert!(!dictionary(&target).unwrap().is_empty(), "{} has no words", target.name);
        }
        for folder in ["fuzz/corpus", "fuzz/dictionaries"] {
            for entry in fs::read_dir(repository().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap();
                assert!(TARGETS.iter().any(|target| target.name == name), "{name:?} is no target");
            }
        }
    }

    #[test]
    fn a_word_is_read_as_other_fuzzers_read_it_and_what_is_none_is_refused() {
        assert_eq!(word(r#""a\"\\\x1b\xe2""#), Some(b"a\"\\\x1b\xe2".to_vec()));
        for line in ["", "a", "\"", r#""a"b""#, r#""\n""#, r#""\x1""#, r#""\x+1""#, "# words"] {
            assert_eq!(word(line), None, "{line}");
        }
    }

    #[test]
    fn all_corpora_together_stay_small() {
        let size = |folder: &Path| -> u64 {
            let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
            entries.map(|entry| entry.metadata().unwrap().len()).sum()
        };
        let folders = fs::read_dir(repository().join("fuzz/corpus")).unwrap().map(Result::unwrap);
        let all: u64 = folders.map(|folder| size(&folder.path())).sum();
        assert!(all <= LIMIT, "{all} bytes");
    }
}
