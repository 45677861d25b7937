//! Tells, of a command line that could not be read, what was probably meant: an option by the name
//! that other tools give it, a list that a space has divided, a command without `--`.

use super::{Cli, say};
use crate::table::rows;
use crate::workload::shelf;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Names that hyperfine, fio, docker, kubectl and others give to options, and what those are called
/// here.
const OTHER_NAMES: &str = include_str!("misread/options.tsv");

/// Options that other tools give to a container or a machine, and what belongs to a stack here.
const OF_A_STACK: &str = include_str!("misread/stack.tsv");

/// Options of other tools that nothing here is called, and what to do instead.
const NEEDLESS: &str = include_str!("misread/needless.tsv");

/// Commands that others call so, and what those are called here.
const OTHER_COMMANDS: &str = include_str!("misread/commands.tsv");

/// Prints why a command line could not be read, and what was probably meant.
pub(super) fn tell(mut error: clap::Error, typed: &[OsString]) {
    let meant = match error.kind() {
        ErrorKind::UnknownArgument => meant(&error, typed),
        ErrorKind::InvalidSubcommand => other_command(&error),
        _ => None,
    };
    if meant.is_some() {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
    }
    // That it could be passed on to a command as a value is no advice for a name that is wrong.
    error.remove(ContextKind::Suggested);
    // Nothing more can be said where printing the error fails.
    let _ = error.print();
    if let Some(hint) = meant {
        say::hint(&hint);
    }
}

fn meant(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) => unknown.as_str(),
        _ => "",
    };
    let name = unknown.split(['=', ' ']).next().unwrap_or_default();
    let mut named = rows::<3>(OTHER_NAMES).filter(|[theirs, ..]| *theirs == name);
    let here = named.find_map(|[_, ours, value]| {
        let usual = value_of_option(typed, ours)?;
        let value = if value == "-" { usual } else { Some(value.to_owned()) };
        let value = value.map_or_else(String::new, |value| format!(" {value}"));
        Some(format!("it is called `--{ours}{value}` here"))
    });
    let of_a_stack = || {
        let [_, words] = rows(OF_A_STACK).find(|[theirs, _]| *theirs == name)?;
        is_option(typed, "in")
            .then(|| format!("it belongs to a stack: `{words}`, as in `--in native,runc:{words}`"))
    };
    let needless = || {
        let [_, instead] = rows(NEEDLESS).find(|[theirs, _]| *theirs == name)?;
        is_option(typed, "in").then(|| instead.to_owned())
    };
    let negative = || {
        name.strip_prefix('-').filter(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))?;
        let words = typed.iter().filter_map(|word| word.to_str());
        let word = words.into_iter().find(|word| word.starts_with(name))?;
        Some(format!("`{word}` is below zero, which nothing here can be"))
    };
    let divided = || {
        let list = list_with_a_space(typed)?;
        Some(format!("write the stacks without a space: `--in {list}`"))
    };
    let workload = || {
        let all = shelf::all().unwrap_or_default();
        let mut names = all.iter().map(|listed| listed.name.as_str());
        let found = names.find(|it| *it == name || it.rsplit('.').next() == Some(name))?;
        is_option(typed, "workload").then(|| format!("it is a workload: `--workload {found}`"))
    };
    let undivided = || {
        (!name.starts_with('-') && is_given_a_command(typed)).then(|| {
            let example = match typed.iter().any(|word| word == "enter") {
                true => "surtax enter runc -- cat /etc/hostname",
                false => "surtax compare --in native,runc -- make -j4",
            };
            format!("put `--` before the command, as in `{example}`")
        })
    };
    let other = here.or_else(of_a_stack).or_else(needless);
    other.or_else(negative).or_else(divided).or_else(workload).or_else(undivided)
}

/// Returns what a command that there is not by this name is called here.
fn other_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let [_, ours] = rows(OTHER_COMMANDS).find(|[theirs, _]| theirs == name)?;
    Some(format!("it is called `surtax {ours}` here"))
}

/// Tells whether the command that was typed has this option.
fn is_option(typed: &[OsString], long: &str) -> bool {
    value_of_option(typed, long).is_some()
}

/// Returns the value of this option of the command that was typed, as its help names it, if it
/// takes one; `None` where the command has no such option.
fn value_of_option(typed: &[OsString], long: &str) -> Option<Option<String>> {
    let mut root = Cli::command();
    root.build();
    let name = typed.iter().skip(1).find(|word| root.find_subcommand(word).is_some());
    let command = name.and_then(|name| root.find_subcommand(name)).unwrap_or(&root);
    let option = command.get_arguments().find(|it| it.get_long() == Some(long))?;
    let takes_one = option.get_action().takes_values();
    let name = option.get_value_names().and_then(|names| names.first());
    Some(name.filter(|_| takes_one).map(ToString::to_string))
}

/// Joins a list of stacks that a space after a comma has divided into several arguments; `None`
/// where there is none.
fn list_with_a_space(typed: &[OsString]) -> Option<String> {
    let words: Vec<&str> = typed.iter().map_while(|word| word.to_str()).collect();
    // `--in=native,` is one word, `--in native,` are two.
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_inclusive("--in=")).collect();
    let begin = words.iter().position(|word| matches!(*word, "--in" | "--in="))? + 1;
    let ends_with_comma = |word: &&&str| word.ends_with(',');
    let count = words.get(begin..)?.iter().take_while(ends_with_comma).count();
    let last = words.get(begin + count).filter(|word| !word.starts_with('-'))?;
    (count > 0).then(|| words[begin..begin + count].concat() + last)
}

/// Tells whether the subcommand takes a command after `--`, and there is no `--`.
fn is_given_a_command(typed: &[OsString]) -> bool {
    let takes_one = ["compare", "enter", "plan"].map(OsString::from);
    typed.iter().any(|word| takes_one.contains(word)) && !typed.iter().any(|word| word == "--")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn words(typed: &str) -> Vec<OsString> {
        typed.split(' ').map(OsString::from).collect()
    }

    fn hint(typed: &str) -> Option<String> {
        let typed = words(typed);
        let error = Cli::try_parse_from(&typed).unwrap_err();
        meant(&error, &typed).or_else(|| other_command(&error))
    }

    #[test]
    fn what_other_tools_call_something_else_is_told_by_its_name_here() {
        for (typed, told) in [
            ("surtax compare --in native --timeout 3 -- true", "called `--deadline DURATION` here"),
            ("surtax compare --stacks=native -- true", "called `--in STACKS` here"),
            ("surtax show --json last", "called `--format json` here"),
            ("surtax compare --in runc --out x -- true", "called `--output FILE.surtax` here"),
            ("surtax report --out x.html", "called `--output FILE.html` here"),
            ("surtax export --out x.csv", "called `--output FILE` here"),
            ("surtax report --html x.html", "called `--output FILE.html` here"),
            ("surtax export --junit x.xml", "called `--as junit` here"),
            ("surtax export --csv x.csv", "called `--as csv` here"),
            ("surtax show --junit x.xml", "called `--export junit=FILE.xml` here"),
            ("surtax show --report x.html", "called `--export html=FILE.html` here"),
            ("surtax serve --port=8080", "called `--listen ADDRESS:PORT` here"),
            ("surtax serve -p 8080", "called `--listen ADDRESS:PORT` here"),
            ("surtax compare --in runc --bind /srv -- true", "called `--writable PATH` here"),
            ("surtax compare --against native -- true", "called `--baseline STACK` here"),
            ("surtax compare --with runc -- true", "called `--in STACKS` here"),
            ("surtax compare --in runc --ignore-failures -- true", "`--ignore-failure` here"),
            ("surtax compare --in runc --image x -- true", "`root=oci:PATH`"),
            ("surtax compare --in native -n name -- true", "called `--title TEXT` here"),
            ("surtax compare --in native -m 20 -- true", "called `--runs N` here"),
            ("surtax compare --in native -e A=1 -- true", "called `--env NAME=VALUE` here"),
            ("surtax list -o json", "called `--format FORMAT` here"),
            ("surtax compare --in docker --rm -- true", "nothing of a stack is left"),
            ("surtax compare --in native --prepare x -- true", "is `setup` of a workload's file"),
            ("surtax compare --in native -N -- true", "no shell is between"),
            ("surtax delete last", "it is called `surtax rm` here"),
            ("surtax compare --in runc --cpus 2 -- true", "as in `--in native,runc:cpus=2`"),
            ("surtax compare --in runc --settle -1s -- true", "`-1s` is below zero"),
            ("surtax compare --in native nginx", "it is a workload: `--workload web.nginx`"),
            ("surtax compare --in native make", "put `--` before the command"),
            ("surtax compare --in native, runc -- true", "write the stacks without a space"),
        ] {
            assert!(hint(typed).is_some_and(|it| it.contains(told)), "{typed}: {:?}", hint(typed));
        }
        // Where the command has no such option, nothing is made up.
        assert_eq!(hint("surtax list --timeout 3"), None);
        assert_eq!(hint("surtax compare --in native --nothing -- true"), None);
    }

    #[test]
    fn every_other_name_leads_to_an_option_and_is_none() {
        let root = Cli::command();
        let commands = || root.get_subcommands().map(|it| words(&format!("x {}", it.get_name())));
        for [theirs, ours, _] in rows(OTHER_NAMES) {
            let is_told = |typed: &Vec<OsString>| {
                is_option(typed, ours) && !is_option(typed, theirs.trim_start_matches('-'))
            };
            assert!(commands().any(|typed| is_told(&typed)), "{theirs}: {ours}");
        }
        for [theirs, _] in rows(NEEDLESS) {
            let compare = words("surtax compare");
            assert!(!is_option(&compare, theirs.trim_start_matches('-')), "{theirs}");
        }
        for [theirs, ours] in rows(OTHER_COMMANDS) {
            assert!(root.find_subcommand(ours).is_some(), "{ours}");
            assert!(root.find_subcommand(theirs).is_none(), "{theirs}");
        }
    }

    #[test]
    fn a_list_that_a_space_has_divided_is_put_together_again() {
        for (typed, list) in [
            ("compare --in native, runc -- true", Some("native,runc")),
            ("compare --in=native, runc, crun -- true", Some("native,runc,crun")),
            ("compare --in=native, --runs 3 -- true", None),
            ("compare --in=native,runc -- true", None),
            ("compare --runs 3 -- true", None),
        ] {
            assert_eq!(list_with_a_space(&words(typed)).as_deref(), list, "{typed}");
        }
    }
}
