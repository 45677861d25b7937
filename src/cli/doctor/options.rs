//! The options that each layer takes, as its descriptor and the grammar have them.

use crate::cli::Format;
use crate::cli::rows::Rows;
use crate::layer::{Descriptor, Limit};
use crate::report::page::Page;
use crate::report::terminal::Look;
use crate::table::rows;

/// Values and help of every limit, by its keys.
const LIMITS: &str = include_str!("limits.tsv");

/// Indentation of an option's help, in columns.
const INDENT: usize = 30;

/// One option as a person reads it.
pub(in crate::cli) struct OptionRow {
    pub key: &'static str,
    values: String,
    pub help: &'static str,
}

impl OptionRow {
    /// Lists the words that its value may be, or may begin with: all but what stands for others,
    /// such as `PATH`.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let words = self.values.split([' ', ',']).filter(|word| *word != "any");
        words.filter_map(|word| {
            let word = match word.find(char::is_uppercase) {
                Some(begin) => word.get(..begin).filter(|it| it.ends_with([':', '/']))?,
                None => word,
            };
            // What begins with a digit is an example.
            word.starts_with(char::is_alphabetic).then(|| word.to_owned())
        })
    }
}

/// Every layer once, with its options.
pub(super) fn text(descriptors: &[&'static Descriptor], format: Format, look: Look) -> String {
    let mut known: Vec<&'static Descriptor> = Vec::new();
    for descriptor in descriptors {
        if known.iter().all(|other| other.kind != descriptor.kind) {
            known.push(descriptor);
        }
    }
    if format == Format::Table || format == Format::Json {
        return known
            .iter()
            .map(|descriptor| shown(descriptor, look.width))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let mut rows = Rows::new(&["Layer", "Option", "Values", "What it does"]);
    for descriptor in known {
        let kind = || descriptor.kind.to_owned();
        rows.push(vec![kind(), String::new(), String::new(), descriptor.summary.to_owned()]);
        for choice in choices(descriptor) {
            rows.push(vec![kind(), choice.key.into(), choice.values, choice.help.into()]);
        }
    }
    rows.text(format, None)
}

fn shown(descriptor: &Descriptor, width: u16) -> String {
    let mut page = Page::new(width);
    page.paragraph(&format!("{}: ", descriptor.kind), descriptor.summary, 2);
    for OptionRow { key, values, help } in choices(descriptor) {
        let option = format!("  {key}={}", values.replace(' ', "|"));
        if option.chars().count() + 2 > INDENT {
            page.unbroken(&option, "");
            page.paragraph(&" ".repeat(INDENT), help, INDENT);
        } else {
            page.paragraph(&format!("{option:INDENT$}"), help, INDENT);
        }
    }
    page.finish()
}

/// Lists the options of a layer.
pub(in crate::cli) fn choices(descriptor: &Descriptor) -> Vec<OptionRow> {
    let own = descriptor.options.iter().map(|choice| OptionRow {
        key: choice.key,
        values: if choice.values.is_empty() { "any".into() } else { choice.values.join(" ") },
        help: choice.help,
    });
    let roots: Vec<&str> = descriptor.roots.iter().map(|root| root.words()).collect();
    let root = OptionRow {
        key: "root",
        values: roots.join(" "),
        help: if descriptor.is_remote {
            "its files are the other machine's own, and writes to them stay there"
        } else {
            "where the root file system comes from; `overlay`, the default, is this machine's own"
        },
    };
    let secrets = descriptor.conceals().then_some(OptionRow {
        key: "secrets",
        values: "masked shown".into(),
        help: "whether the command sees this machine's keys and passwords (default: masked)",
    });
    let variable = OptionRow {
        key: "env.NAME",
        values: "any".into(),
        help: "a variable of the command's environment in this stack; on the innermost layer only",
    };
    own.chain(descriptor.limits.iter().flat_map(of_limit))
        .chain([root])
        .chain(secrets)
        .chain([variable])
        .collect()
}

/// Lists the keys of a limit with what they take and do.
fn of_limit(limit: &Limit) -> impl Iterator<Item = OptionRow> + use<> {
    limit.keys().iter().filter_map(|key| {
        let [key, values, help] = rows::<3>(LIMITS).find(|[known, ..]| known == key)?;
        Some(OptionRow { key, values: values.into(), help })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_limit_has_its_help() {
        let limits = Limit::OF_A_CONTAINER.iter().chain(Limit::OF_A_MACHINE);
        for limit in limits.chain(&[Limit::Partition]) {
            assert_eq!(of_limit(limit).count(), limit.keys().len(), "{limit:?}");
        }
    }
}
