//! Corpora: the inputs that every run of a target begins with.
//!
//! They are the files below `fuzz/corpus/TARGET`, those of other folders of the repository that a
//! target names, and what the target makes itself. An input that once found something stays here
//! for good.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TARGETS;

    /// Largest size of all corpora together, in bytes.
    const LIMIT: u64 = 1_500_000;

    #[test]
    fn every_target_has_inputs_and_every_corpus_has_a_target() {
        let scratch = crate::target::make_scratch().unwrap();
        crate::target::use_scratch(scratch.path());
        for target in TARGETS {
            assert!(of(&target).unwrap().len() >= 2, "{} has nothing to begin with", target.name);
        }
        for entry in fs::read_dir(repository().join("fuzz/corpus")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(TARGETS.iter().any(|target| target.name == name), "`{name}` is no target");
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
