//! Values of a driver's own options, in the text of a stack.

use super::Source;
use crate::fault::Fault;
use crate::layer::nearest::instead;
use crate::layer::{Descriptor, OptionSpec};

impl Source<'_> {
    /// Refuses a word that is none of those that an option takes.
    pub(super) fn check_choice(
        &self,
        descriptor: &Descriptor,
        choice: &OptionSpec,
        value: &str,
    ) -> Result<(), Fault> {
        if choice.values.is_empty() || choice.values.contains(&value) {
            return Ok(());
        }
        let (kind, key) = (descriptor.kind, choice.key);
        Err(self
            .refuse(value, format!("`{value}` is not a value of option `{key}` of `{kind}`"))
            .hint(instead(value, &format!("values of `{key}`"), choice.values.iter().copied())))
    }

    /// Refuses what is no name or address of a place: a foreign tool could take it for an option.
    pub(super) fn check_subject(&self, choice: &OptionSpec, value: &str) -> Result<(), Fault> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:@%-".contains(c);
        let is_option = value.split('@').any(|part| part.is_empty() || part.starts_with('-'));
        if value.chars().all(is_plain) && !is_option {
            return Ok(());
        }
        let key = choice.key;
        Err(self
            .refuse(value, format!("`{value}` is not a `{key}`"))
            .hint("use letters, digits and `.`, `_`, `:`, `@`, `%`, `-`, and no `-` first"))
    }
}
