//! Meaning of the words of a layer's `net=` to those who would reach its inside, or be reached from
//! there.

use crate::layer::{Descriptor, LayerSpec};

/// The option that names a layer's network.
pub const NETWORK: &str = "net";

/// The way between a layer's inside and the level where it was started, as far as a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// There is none.
    Nothing,
    /// The inside is on the level's own network.
    Level,
    /// It is on that of the daemon which started it: mostly the level's own.
    Daemon,
    /// Either calls the other, on a link that nobody else is on.
    Link,
    /// Either calls the other, on a bridge of ours, where another stack may have a second link.
    Bridge {
        /// True if this layer can itself be the second on somebody else's.
        joins: bool,
    },
    /// Either calls the other, on a network of an engine's that its other containers are on.
    Engine,
    /// The inside calls its level, at an address of its own for it, and is not called.
    Outward,
    /// The inside is another machine, which the level's own network leads to.
    Far,
    /// It depends on what is found.
    Unknown,
}

/// Words of the option with what they mean; the empty one is a layer that names none. A word that
/// is missing, such as `none`, leads nowhere.
pub type Reaches = &'static [(&'static str, Reach)];

impl Descriptor {
    /// Returns the meaning of a layer's network; [`Reach::Nothing`] for an unknown word.
    #[must_use]
    pub fn reach_of(&self, layer: &LayerSpec) -> Reach {
        let word = layer.option(NETWORK).unwrap_or("");
        let known = self.reach.iter().find(|(known, _)| *known == word);
        known.map_or(Reach::Nothing, |(_, reach)| *reach)
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::REGISTRY;
    use crate::layer::reach::*;

    #[test]
    fn every_word_of_every_layer_has_a_meaning_and_no_other_word_has() {
        for descriptor in REGISTRY.iter().map(|driver| driver.descriptor()) {
            let choice = descriptor.options.iter().find(|choice| choice.key == NETWORK);
            let words = choice.map_or(&[][..], |choice| choice.values);
            let named = words.iter().filter(|word| **word != "none");
            let mut named: Vec<&str> = named.copied().collect();
            let mut known: Vec<&str> = descriptor.reach.iter().map(|(word, _)| *word).collect();
            known.retain(|word| !word.is_empty());
            named.sort_unstable();
            known.sort_unstable();
            assert_eq!(named, known, "{}", descriptor.kind);
        }
    }
}
