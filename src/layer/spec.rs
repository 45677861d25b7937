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
    /// Lists files of this level that options may name, absolute; none of a word out of a list of
    /// a descriptor's, nor of a variable of the command's. A relative name counts where a file is.
    #[must_use]
    pub fn files(&self, descriptor: &Descriptor) -> Vec<PathBuf> {
        let is_free = |key: &str| {
            let known = descriptor.options.iter().find(|option| option.key == key);
            variable(key).is_none() && known.is_none_or(|option| option.values.is_empty())
        };
        let options = self.options.iter().filter(|(key, _)| is_free(key));
        let paths = options.flat_map(|(_, value)| {
            let after = value.split_once(':').map(|(_, path)| path);
            std::iter::once(value.as_str()).chain(after).map(Path::new)
        });
        let counts = |path: &&Path| path.is_absolute() || path.is_file();
        paths.filter(counts).filter_map(|path| std::path::absolute(path).ok()).collect()
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
