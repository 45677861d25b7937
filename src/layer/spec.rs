//! Stacks as text and as a value: layers nested, outermost first.
//!
//! `STACK := "native" | LAYER ("+" LAYER)*`,
//! `LAYER := KIND [":" [KEY "="] VALUE ("," KEY "=" VALUE)*]`. A first value without its key is
//! that of the layer's subject, such as the host of `ssh`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

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
