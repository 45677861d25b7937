//! Stacks as text and as a value: layers nested, outermost first.
//!
//! `STACK := "native" | LAYER ("+" LAYER)*`,
//! `LAYER := KIND [":" [KEY "="] VALUE ("," KEY "=" VALUE)*]`. A first value without its key is
//! that of the layer's subject, such as the host of `ssh`.

use super::common_options::variable;
use super::descriptor::Descriptor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A stack as text: checked against the registry, not yet started.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct StackSpec {
    /// At least one, outermost first.
    pub layers: Vec<LayerSpec>,
}

/// One layer of a stack, with its options as typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerSpec {
    /// A name in the registry of `driver/mod.rs`.
    pub kind: String,
    /// The driver's own options and the common ones, checked against their lists.
    pub options: BTreeMap<String, String>,
}

impl LayerSpec {
    /// A layer of this kind with these options, each a key and its value.
    #[must_use]
    pub fn of(kind: &str, options: &[(&str, &str)]) -> Self {
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        Self { kind: kind.to_owned(), options }
    }

    /// Value of an option, where it is given.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// Tells whether an option is given with this value.
    #[must_use]
    pub fn says(&self, key: &str, value: &str) -> bool {
        self.option(key) == Some(value)
    }

    /// Lists files of this level that options name, absolute: those that a descriptor says are
    /// paths, and any other value with a slash that is absolute or leads somewhere. A variable of
    /// the command's own names none.
    #[must_use]
    pub fn files(&self, descriptor: &Descriptor) -> Vec<PathBuf> {
        let options = self.options.iter().filter(|(key, _)| variable(key).is_none());
        let paths = options.flat_map(|(key, value)| {
            let is_path = descriptor.paths().any(|it| it == key);
            let named = is_path.then(|| value.strip_prefix("unix://").unwrap_or(value));
            let after = value.split_once(':').map(|(_, path)| path);
            let others = std::iter::once(value.as_str()).chain(after).filter(move |text| {
                let path = Path::new(text);
                !is_path && text.contains('/') && (path.is_absolute() || path.exists())
            });
            named.into_iter().chain(others)
        });
        paths.filter_map(|path| std::path::absolute(path).ok()).collect()
    }

    /// Makes files that options name absolute, seen from `cwd`: those that a descriptor says are
    /// paths.
    fn make_paths_absolute(&mut self, descriptor: &Descriptor, cwd: &Path) {
        for key in descriptor.paths() {
            // The address of a socket, and a shell's word for a home, which is refused.
            let is_path = |value: &&mut String| !value.contains("://") && !value.starts_with('~');
            if let Some(value) = self.options.get_mut(key).filter(is_path) {
                // Without the `.` of `./file`.
                let path: PathBuf = cwd.join(&*value).components().collect();
                *value = path.display().to_string();
            }
        }
    }

    /// Tells whether the layer names this as its root, as `dir:PATH` or `oci:PATH`.
    #[must_use]
    pub fn is_root(&self, file: &Path) -> bool {
        let named = self.option("root").and_then(|root| root.split_once(':'));
        named.is_some_and(|(_, path)| std::path::absolute(path).is_ok_and(|path| path == file))
    }
}

impl StackSpec {
    /// Makes the roots and the files that its layers name absolute, seen from `cwd`.
    pub fn make_absolute(&mut self, descriptors: &[&'static Descriptor], cwd: &Path) {
        for layer in &mut self.layers {
            layer.make_root_absolute(cwd);
            if let Some(descriptor) = Descriptor::of_kind(&layer.kind, descriptors) {
                layer.make_paths_absolute(descriptor, cwd);
            }
        }
    }
}

impl fmt::Display for StackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            write!(f, "{layer}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl From<StackSpec> for String {
    fn from(stack: StackSpec) -> Self {
        stack.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{OptionSpec, option};

    #[test]
    fn what_names_a_file_is_listed_whether_it_is_there_and_a_word_of_the_same_name_is_none() {
        const OPTIONS: &[OptionSpec] =
            &[option("kernel", &[]).path(), option("socket", &[]).path(), option("image", &[])];
        let descriptor = Descriptor { options: OPTIONS, ..Descriptor::CONTAINER };
        let files = |options: &[(&str, &str)]| {
            let options = options.iter().map(|&(key, value)| (key.into(), value.into())).collect();
            LayerSpec { kind: "x".into(), options }.files(&descriptor)
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(files(&[("kernel", "missing")]), [here.join("missing")]);
        assert_eq!(files(&[("socket", "./k/docker.sock")]), [here.join("k/docker.sock")]);
        assert_eq!(files(&[("socket", "unix:///k/d")]), [PathBuf::from("/k/d")]);
        assert_eq!(files(&[("root", "dir:/r"), ("env.A", "/a")]), [PathBuf::from("/r")]);
        assert_eq!(files(&[("other", "src/lib.rs")]), [here.join("src/lib.rs")]);
        // A file that lies where surtax is called may have the name of a runtime.
        assert!(Path::new("Makefile").is_file());
        assert!(files(&[("runtime", "Makefile"), ("image", "no.such/registry:1")]).is_empty());
    }
}
