//! Words that a begun one may become: stacks and their options, workloads and their parameters,
//! runs, plans.
//!
//! Each takes what is typed so far and gives whole words that begin so, as clap's engine asks. They
//! look at what lies in directories, and start nothing.

use super::super::doctor::options::{OptionRow, choices};
use crate::driver::registered;
use crate::layer::{Descriptor, meaning};
use crate::ledger;
use crate::meter::KINDS;
use crate::plan;
use crate::workload::Definition;
use crate::workload::parameter::{Kind, Parameter};
use crate::workload::shelf::{self, Listed};
use clap::builder::StyledStr;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use std::ffi::OsStr;
use std::path::Path;

/// Marks that a name of a run has, and no others where it is offered: a shell obeys some.
const IN_NAMES: [char; 3] = ['-', '_', '.'];

/// Of more workloads than these none is read for a line about it.
const TOLD_MAX: usize = 200;

/// Completes `--in`: stacks, with commas between them.
pub fn stacks() -> ArgValueCompleter {
    completer(|typed| of_stack(typed, true))
}

/// Completes one stack.
pub fn stack() -> ArgValueCompleter {
    completer(|typed| of_stack(typed, false))
}

/// Completes the name of a layer.
pub fn layer() -> ArgValueCompleter {
    completer(kinds)
}

/// Completes a workload, with its parameters.
pub fn workload() -> ArgValueCompleter {
    completer(of_workload)
}

/// Completes `--beside`: a workload, and after `@` its stack.
pub fn neighbour() -> ArgValueCompleter {
    completer(|typed| match typed.split_once('@') {
        Some((workload, stack)) => behind(&format!("{workload}@"), of_stack(stack, false)),
        None => of_workload(typed),
    })
}

/// Completes `--meter`: a kind, and its options.
pub fn meter() -> ArgValueCompleter {
    let offered = |(word, help): &(&str, &str)| (String::from(*word), String::from(*help));
    completer(move |typed| {
        let Some((kind, options)) = typed.split_once(':') else {
            return KINDS.iter().map(|it| offered(&(it.name, it.about))).collect();
        };
        let Some(kind) = KINDS.iter().find(|it| it.name == kind) else { return Vec::new() };
        let before = options.rfind(',').map_or("", |end| &options[..=end]);
        let all = kind.options.iter().map(offered).map(|(key, help)| (key + "=", help));
        behind(&format!("{}:{before}", kind.name), all.collect())
    })
}

/// Completes a run: one that is kept, `last`, or a file.
pub fn run() -> ArgValueCompleter {
    completer(|typed| {
        let kept = ledger::shelf::directories().and_then(|it| ledger::shelf::list(&it));
        let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
        let newest = kept.unwrap_or_default().into_iter().rev().filter_map(|path| name(&path));
        // Somebody else may have made a file whose name a shell obeys.
        let is_plain = |name: &String| {
            name.starts_with(|it: char| it.is_ascii_alphanumeric())
                && name.chars().all(|it| it.is_ascii_alphanumeric() || IN_NAMES.contains(&it))
        };
        let names = std::iter::once(String::from("last")).chain(newest.filter(is_plain));
        or_file(typed, ledger::EXTENSION, names.map(|name| (name, String::new())).collect())
    })
}

/// Completes a plan: one that comes with surtax, or a file.
pub fn plan() -> ArgValueCompleter {
    completer(|typed| {
        let names = plan::shelf::READY.iter().map(|(name, _)| (*name).to_owned());
        or_file(typed, "toml", names.map(|name| (name, String::new())).collect())
    })
}

/// A word that is offered, and a line about it.
type Offered = (String, String);

fn completer(of: impl Fn(&str) -> Vec<Offered> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_str().unwrap_or_default();
        let fitting = of(typed).into_iter().filter(|(word, _)| word.starts_with(typed));
        // In the order given, and not by the alphabet.
        let numbered = fitting.enumerate().map(|(order, (word, help))| {
            let help = (!help.is_empty()).then(|| StyledStr::from(help));
            CompletionCandidate::new(word).help(help).display_order(Some(order))
        });
        numbered.collect()
    })
}

/// Puts what stands before it back in front of each word.
fn behind(before: &str, words: Vec<Offered>) -> Vec<Offered> {
    words.into_iter().map(|(word, help)| (format!("{before}{word}"), help)).collect()
}

/// The names, and files with this ending where no name fits or a path is begun.
fn or_file(typed: &str, ending: &'static str, names: Vec<Offered>) -> Vec<Offered> {
    if names.iter().any(|(name, _)| name.starts_with(typed)) {
        return names;
    }
    let is_wanted =
        move |path: &Path| path.is_dir() || path.extension().is_some_and(|it| it == ending);
    files(typed, PathCompleter::any().filter(is_wanted))
}

fn files(typed: &str, completer: PathCompleter) -> Vec<Offered> {
    let found = completer.complete(OsStr::new(typed));
    let words = found.iter().filter_map(|it| it.get_value().to_str());
    words.map(|word| (word.to_owned(), String::new())).collect()
}

/// Layers by their names, or by other words for them where none of those fits.
fn kinds(typed: &str) -> Vec<Offered> {
    let known: Vec<_> = registered().into_iter().filter(|it| it.is_listed).collect();
    if known.iter().any(|it| it.kind.starts_with(typed)) {
        return known.iter().map(|it| (it.kind.to_owned(), it.summary.to_owned())).collect();
    }
    let aliases = known.iter().flat_map(|it| it.aliases.iter().map(move |(alias, _)| (alias, it)));
    aliases.map(|(alias, it)| ((*alias).to_owned(), it.summary.to_owned())).collect()
}

/// Stacks as far as they are typed, with what may follow the last mark.
fn of_stack(typed: &str, is_list: bool) -> Vec<Offered> {
    let mut layer = None;
    let mut at = 0;
    // Pieces end at `,` and `+`; one that is no layer is an option of the layer before it.
    for piece in typed.split_inclusive([',', '+']) {
        let begin = at;
        at += piece.len();
        let is_last = !piece.ends_with([',', '+']);
        let word = piece.trim_end_matches([',', '+']);
        let (kind, option) = match word.split_once(':') {
            Some((kind, option)) if !kind.contains('=') => (kind, Some(option)),
            _ => (word, None),
        };
        match (named(kind), option, is_last) {
            (Some(found), Some(option), true) => {
                let before = &typed[..begin + kind.len() + 1];
                return behind(before, of_option(found, option));
            }
            (Some(found), _, false) => layer = Some(found),
            _ if is_last => at = begin,
            _ => {}
        }
    }
    let (before, word) = typed.split_at(at);
    // After a comma stands another stack, or one more option of the layer before it.
    let options = layer.filter(|_| before.ends_with(',')).map(|it| of_option(it, word));
    let stacks = if is_list || !before.ends_with(',') { kinds(word) } else { Vec::new() };
    behind(before, stacks.into_iter().chain(options.unwrap_or_default()).collect())
}

fn named(kind: &str) -> Option<&'static Descriptor> {
    let known = registered();
    Descriptor::of_kind(meaning(kind, &known).0, &known)
}

/// Options of a layer, or values of the one that is typed.
fn of_option(layer: &'static Descriptor, typed: &str) -> Vec<Offered> {
    let Some((key, value)) = typed.split_once('=') else {
        let keys = choices(layer).into_iter();
        return keys.map(|it| (with_room(it.key), it.help.to_owned())).collect();
    };
    let before = format!("{key}=");
    if layer.paths().any(|path| path == key) {
        return behind(&before, files(value, PathCompleter::any()));
    }
    let row = choices(layer).into_iter().find(|row| row.key == key);
    let values = row.iter().flat_map(OptionRow::words).map(|word| (word, String::new()));
    behind(&before, values.collect())
}

/// A key with room for its value, and of a family of keys what all begin with.
fn with_room(key: &str) -> String {
    match key.strip_suffix("NAME") {
        Some(family) => family.to_owned(),
        None => format!("{key}="),
    }
}

fn of_workload(typed: &str) -> Vec<Offered> {
    let mut known = shelf::all().unwrap_or_default();
    let Some((name, parameters)) = typed.split_once(':') else {
        known.retain(|it| it.name.starts_with(typed));
        let is_told = known.len() <= TOLD_MAX;
        let about = |it: &Listed| is_told.then(|| definition(it)).flatten().map(|it| it.about);
        let told = known.into_iter().map(|it| (about(&it).unwrap_or_default(), it.name));
        let told: Vec<Offered> = told.map(|(about, name)| (name, about)).collect();
        return if told.is_empty() { or_file(typed, "toml", told) } else { told };
    };
    let of_name = known.into_iter().find(|it| it.name == name);
    let file = || Listed { name: name.to_owned(), path: Some(name.into()) };
    let listed = of_name.or_else(|| name.ends_with(".toml").then(file));
    let Some(definition) = listed.and_then(|it| definition(&it)) else { return Vec::new() };
    let (given, word) = parameters.rsplit_once(',').map_or(("", parameters), |it| it);
    let before = &typed[..typed.len() - word.len()];
    behind(before, of_parameter(&definition.parameters, given, word))
}

fn definition(listed: &Listed) -> Option<Definition> {
    Definition::parse(&listed.kept_text()?, &listed.name).ok()
}

/// Parameters that are not given yet, or the words that the one that is typed may have.
fn of_parameter(known: &[Parameter], given: &str, typed: &str) -> Vec<Offered> {
    if let Some((key, _)) = typed.split_once('=') {
        let found = known.iter().find(|it| it.name == key);
        let Some(Kind::Words(words)) = found.map(|it| &it.kind) else { return Vec::new() };
        return words.iter().map(|word| (format!("{key}={word}"), String::new())).collect();
    }
    let is_given = |name: &str| given.split(',').any(|it| it.split('=').next() == Some(name));
    let free = known.iter().filter(|it| !is_given(&it.name));
    free.map(|it| (format!("{}=", it.name), it.about.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(typed: &str, of: impl Fn(&str) -> Vec<Offered>) -> Vec<String> {
        let words = of(typed).into_iter().map(|(word, _)| word);
        words.filter(|word| word.starts_with(typed)).collect()
    }

    #[test]
    fn the_stack_that_is_typed_is_completed_where_it_ends() {
        let list = |typed: &str| offered(typed, |typed| of_stack(typed, true));
        assert_eq!(list("gv"), ["gvisor"]);
        assert_eq!(list("native,gv"), ["native,gvisor"]);
        assert_eq!(list("native,qemu+ru"), ["native,qemu+runc"]);
        assert_eq!(list("native,gvisor:plat"), ["native,gvisor:platform="]);
        assert_eq!(
            list("native,gvisor:platform=k"),
            ["native,gvisor:platform=kvm"],
            "a value that the layer knows"
        );
        assert_eq!(list("qemu:memory=1G,acc"), ["qemu:memory=1G,accel="]);
        assert_eq!(list("qemu:memory=1G,accel=t"), ["qemu:memory=1G,accel=tcg"]);
        assert_eq!(list("qemu:memory=1G,ru"), ["qemu:memory=1G,runc"]);
        assert_eq!(list("runc:env"), ["runc:env."]);
        assert!(list("simul").is_empty(), "a test double");
        assert!(list("nothing:").is_empty());
    }

    #[test]
    fn one_stack_has_no_comma_before_a_layer() {
        let one = |typed: &str| offered(typed, |typed| of_stack(typed, false));
        assert_eq!(one("qemu:memory=1G+ru"), ["qemu:memory=1G+runc"]);
        assert!(one("native,ru").is_empty());
        assert_eq!(one("kv"), ["kvm"], "another word for a layer");
    }

    #[test]
    fn a_path_among_the_options_is_a_path() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("runsc-new"), "").unwrap();
        let typed = format!("native,gvisor:binary={}/run", place.path().display());
        let found = offered(&typed, |typed| of_stack(typed, true));
        assert_eq!(found, [format!("{typed}sc-new")]);
    }

    #[test]
    fn a_workload_is_completed_up_to_the_words_of_its_parameters() {
        assert_eq!(offered("cpu.sysb", of_workload), ["cpu.sysbench"]);
        assert_eq!(offered("cpu.sysbench:thr", of_workload), ["cpu.sysbench:threads="]);
        let more = offered("cpu.sysbench:threads=2,", of_workload);
        assert!(!more.is_empty() && !more.iter().any(|it| it.ends_with("threads=")), "{more:?}");
    }
}
