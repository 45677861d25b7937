//! Plans that come with surtax, by name: the questions that studies ask, as files like those of the
//! user's.

use crate::layer::instead;
use std::path::Path;

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../plans/", $name, ".toml")))),*]
    };
}

/// Their names and texts.
pub const READY: &[(&str, &str)] = ready!["disks", "disks.matrix", "network", "storage"];

/// The text of the plan of this name. A path (with a `/`, or ending in `.toml`) names none.
pub(super) fn text(path: &Path) -> Option<&'static str> {
    let name = path.to_str()?;
    READY.iter().find(|(ready, _)| *ready == name).map(|(_, text)| *text)
}

/// Says what to do about a word that is neither a file nor one of the names.
pub(super) fn remedy(path: &Path) -> String {
    let make = "make one with `surtax plan --toml --in native,runc -- CMD > FILE.toml`";
    match path.to_str() {
        Some(word) if !word.contains('/') && !word.ends_with(".toml") => {
            let names = READY.iter().map(|(name, _)| *name);
            format!("{}; or {make}", instead(word, "plans that come with surtax", names))
        }
        _ => make.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::registered;
    use crate::plan::tests::around;
    use crate::plan::{Defaults, file};

    #[test]
    fn every_plan_that_comes_with_surtax_is_one() {
        let descriptors = registered();
        let around = Defaults { descriptors: &descriptors, ..around() };
        for (name, text) in READY {
            let draft =
                file::parse(text, name, &descriptors).unwrap_or_else(|fault| panic!("{fault}"));
            let decided = draft.complete(&around).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            let mut stacks = decided.plan.stacks.clone();
            stacks.dedup();
            assert_eq!(
                stacks.len(),
                decided.plan.stacks.len(),
                "{name}: a stack stands there twice"
            );
        }
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
        assert_eq!(files.count(), READY.len(), "a file in plans/ has no name in `READY`");
    }

    #[test]
    fn a_word_near_a_plan_is_answered_with_it() {
        assert!(remedy(Path::new("storag")).starts_with("use `storage`; "));
        assert!(remedy(Path::new("plans/storag.toml")).starts_with("make one"));
    }
}
