//! Modules of interpreters and other programs: what these load from beside themselves.
//!
//! A program in a `bin` has them in the `lib` beside it, from the path that it was started by or
//! from where that leads. A Python of a virtual environment has them anywhere in that one.
//!
//! Source: `hier(7)`; Python 3.11, Library Reference, `site` and `venv`.

use crate::plan::writable::real;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The file that makes a virtual environment of the directory around a Python, or around its `bin`.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// Lists where these programs have their modules, as far as their paths say so.
pub(super) fn beside<'p>(programs: impl IntoIterator<Item = &'p PathBuf>) -> BTreeSet<PathBuf> {
    let names = programs.into_iter().flat_map(|program| [program.clone(), real(program)]);
    let directories: BTreeSet<PathBuf> =
        names.filter_map(|name| name.parent().map(Path::to_path_buf)).collect();
    directories.iter().flat_map(|directory| of(directory)).collect()
}

/// Lists where a program of this directory has its modules.
fn of(directory: &Path) -> Vec<PathBuf> {
    let above = directory.parent();
    let is_environment = |path: &&Path| path.join(ENVIRONMENT).symlink_metadata().is_ok();
    let environments = [Some(directory), above].into_iter().flatten().filter(is_environment);
    let libraries = above.filter(|_| directory.ends_with("bin")).map(|above| above.join("lib"));
    environments.map(Path::to_path_buf).chain(libraries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_program_has_its_modules_beside_its_bin_and_anywhere_in_its_environment() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| real(place.path()).join(name);
        for directory in ["venv/bin", "flat", "python/bin", "tool"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for environment in ["venv", "flat"] {
            fs::write(at(environment).join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        }
        fs::write(at("python/bin/python"), "").unwrap();
        symlink(at("python/bin/python"), at("venv/bin/python")).unwrap();
        symlink(at("python/bin/python"), at("tool/python")).unwrap();
        for (program, told) in [
            ("venv/bin/python", &["python/lib", "venv", "venv/lib"][..]),
            ("venv/bin/not-there", &["venv", "venv/lib"]),
            ("flat/python", &["flat"]),
            ("python/bin/python", &["python/lib"]),
            ("tool/python", &["python/lib"]),
            ("tool/other", &[]),
        ] {
            let told: BTreeSet<PathBuf> = told.iter().map(|name| at(name)).collect();
            assert_eq!(beside([&at(program)]), told, "{program}");
        }
        assert_eq!(beside([&PathBuf::from("/")]), BTreeSet::new());
    }
}
