//! The tree: the repository's text files, read once, so that a rule is a function without files.

use super::rust_source::RustSource;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Folders that hold nothing written by hand.
const SKIPPED_FOLDERS: &[&str] = &["target", "results", "shared", "node_modules"];

/// Hidden folders that are ours all the same.
const SHOWN_FOLDERS: &[&str] = &[".ci", ".cargo"];

/// Suffixes of the files that rules look at.
const SUFFIXES: &[&str] =
    &["rs", "c", "h", "sh", "py", "css", "js", "mjs", "md", "sql", "toml", "html"];

/// Largest depth of nested folders before reading them is given up.
const DEPTH_MAX: usize = 16;

/// Paths relative to the root, with `/`, and what stands in the files.
#[derive(Default)]
pub struct Tree {
    texts: BTreeMap<String, String>,
    rust: BTreeMap<String, RustSource>,
}

impl Tree {
    /// Reads the repository that this program was built in.
    pub fn of_this_repository() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut texts = BTreeMap::new();
        read_folder(&root, "", DEPTH_MAX, &mut texts)?;
        Ok(Self::of_texts(texts))
    }

    /// A tree that exists in a test only.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self::of_texts(files.iter().map(own).collect())
    }

    fn of_texts(texts: BTreeMap<String, String>) -> Self {
        let is_rust = |path: &str| Path::new(path).extension().is_some_and(|it| it == "rs");
        let rust = texts
            .iter()
            .filter(|(path, _)| is_rust(path))
            .map(|(path, text)| (path.clone(), RustSource::parse(path, text)))
            .collect();
        Self { texts, rust }
    }

    /// Every file: path and text, in order of path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file: path and source, in order of path.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &RustSource)> {
        self.rust.iter().map(|(path, source)| (path.as_str(), source))
    }

    /// The text of one file, where it exists.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    depth_left: usize,
    texts: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    assert!(depth_left > 0, "folders below `{prefix}` are nested too deep, or in a circle");
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            let hidden = name.starts_with('.') && !SHOWN_FOLDERS.contains(&name.as_str());
            if !hidden && !SKIPPED_FOLDERS.contains(&name.as_str()) {
                read_folder(&entry.path(), &format!("{path}/"), depth_left - 1, texts)?;
            }
        } else if is_looked_at(&path) {
            texts.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

fn is_looked_at(path: &str) -> bool {
    let suffix = Path::new(path).extension().unwrap_or_default().to_string_lossy();
    SUFFIXES.contains(&suffix.as_ref()) || path == ".ci/run"
}
