//! Options of layers as data: what may follow a layer's `:`, and the specs that the doctor asks
//! about, out of `options.toml`.

use crate::layer::{Descriptor, OptionSpec};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Name of the section with what several kinds say alike.
const SHARED: &str = "shared";

/// The whole file, by the names of its sections: kinds, and [`SHARED`].
static SECTIONS: LazyLock<BTreeMap<String, Section>> = LazyLock::new(|| {
    toml::from_str(include_str!("options.toml")).expect("the file is part of this program")
});

/// Section of a kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    variants: Vec<String>,
    #[serde(default)]
    not_yet_run: Vec<String>,
    #[serde(default, rename = "option")]
    options: Vec<Entry>,
}

/// An option of a kind. What is `None` is said of its key among those that are shared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    values: Option<Vec<String>>,
    help: Option<String>,
    #[serde(default)]
    file: bool,
}

impl Entry {
    fn spec(&'static self) -> OptionSpec {
        let shared = SECTIONS[SHARED].options.iter().find(|entry| entry.key == self.key);
        let values = self.values.as_ref().or_else(|| shared?.values.as_ref());
        let help = self.help.as_ref().or_else(|| shared?.help.as_ref());
        OptionSpec {
            key: &self.key,
            values: words(values.into_iter().flatten()),
            help: help.map_or("", String::as_str),
        }
    }
}

/// Descriptor of a container of this kind, with the options and variants of the file.
pub(super) fn container(kind: &'static str) -> Descriptor {
    described(kind, Descriptor::CONTAINER)
}

/// Descriptor of a machine of this kind, with the options and variants of the file.
pub(super) fn machine(kind: &'static str) -> Descriptor {
    described(kind, Descriptor::MACHINE)
}

fn described(kind: &'static str, base: Descriptor) -> Descriptor {
    let Section { variants, not_yet_run, options } = &SECTIONS[kind];
    Descriptor {
        kind,
        options: options.iter().map(Entry::spec).collect::<Vec<_>>().leak(),
        paths: words(options.iter().filter(|entry| entry.file).map(|entry| &entry.key)),
        variants: words(variants),
        not_yet_run: words(not_yet_run),
        ..base
    }
}

/// Words of the file, which are there as long as this program runs.
fn words(words: impl IntoIterator<Item = &'static String>) -> &'static [&'static str] {
    words.into_iter().map(String::as_str).collect::<Vec<_>>().leak()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::registered;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_section_and_every_option_its_help() {
        let kinds: BTreeSet<&str> = registered().iter().map(|it| it.kind).collect();
        let sections = SECTIONS.keys().map(String::as_str).filter(|name| *name != SHARED);
        assert_eq!(kinds, sections.collect());
        for option in registered().iter().flat_map(|descriptor| descriptor.options) {
            assert!(!option.help.is_empty(), "{option:?}");
        }
    }

    #[test]
    fn what_is_shared_is_of_several_kinds_and_said_once() {
        let own = || SECTIONS.iter().filter(|(name, _)| *name != SHARED).map(|(_, it)| it);
        for shared in &SECTIONS[SHARED].options {
            let users = own().flat_map(|it| &it.options).filter(|it| it.key == shared.key);
            let (with, without): (Vec<_>, Vec<_>) = users.partition(|it| it.help.is_none());
            assert!(with.len() > 1, "`{}` is shared by {}", shared.key, with.len());
            let repeats = |it: &&Entry| it.help == shared.help;
            assert!(!without.iter().any(repeats), "the help of `{}` stands twice", shared.key);
        }
    }

    #[test]
    fn a_word_that_the_file_does_not_know_is_refused() {
        let read = |text: &str| toml::from_str::<BTreeMap<String, Section>>(text);
        assert!(read("[x]\nvariants = [\"x\"]\n[[x.option]]\nkey = \"a\"\n").is_ok());
        for text in
            ["[x]\nvariant = []\n", "[[x.option]]\nkey = \"a\"\nhint = \"b\"\n", "[[x.option]]\n"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
