//! `surtax completions`: what a shell completes a command line with.
//!
//! The scripts of bash, zsh and fish ask surtax at each press of the key, so that stacks, their
//! options, workloads and runs are those that there are; other shells get a script of all that does
//! not change. Nothing is started and nothing is written, for nobody has asked for it yet.

pub mod candidates;

use super::{Cli, answer};
use crate::fault::{Doing, Fault};
use crate::finding::foreign;
use crate::unseen;
use clap::CommandFactory;
use clap_complete::{Shell, engine};
use std::ffi::OsString;

const BASH: &str = include_str!("surtax.bash");
const ZSH: &str = include_str!("surtax.zsh");
const FISH: &str = include_str!("surtax.fish");

/// Marks that a shell takes for a part of a word, whatever stands beside them.
const PLAIN: &str = "_-./:=,+@%";

/// As many words are offered: nobody reads more.
const OFFERED_MAX: usize = 1_000;

/// Flags of `surtax completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../help/completions.txt"))]
pub struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
    /// The words of a command line, of which the last is to be completed: our scripts ask so.
    #[arg(last = true, hide = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// Prints a script, or what a word may become.
///
/// # Errors
/// The machine's, when it cannot be written.
pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let words = &arguments.words;
    if words.is_empty() {
        return answer(&script(arguments.shell));
    }
    let lines: Vec<String> = match arguments.shell {
        Shell::Bash => of_bash(words)?,
        _ => offered(words.clone())?.into_iter().map(|(word, help)| word + "\t" + &help).collect(),
    };
    answer(&lines.into_iter().map(|line| line + "\n").collect::<String>())
}

fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        _ => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "surtax", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    }
}

/// Answers bash, which gives the line up to the cursor, and of its last word the part that it puts
/// another in the place of: such a word ends at a colon, too. It does not quote what it is given.
fn of_bash(words: &[OsString]) -> Result<Vec<String>, Fault> {
    let [line, part] = words else {
        return Err(Fault::user("bash gives a line and a word"));
    };
    let (line, part) = (line.to_string_lossy(), part.to_string_lossy());
    let (words, quote) = split(&line);
    let kept = words.last().and_then(|word| word.strip_suffix(&*part)).map_or(0, str::len);
    let offered = offered(words.into_iter().map(OsString::from).collect())?;
    let rest = offered.iter().filter_map(|(value, _)| value.get(kept..));
    Ok(rest.filter_map(|rest| quoted(rest, quote)).collect())
}

/// Splits a line as a shell would, were the quotation mark set that is missing; says which it is.
fn split(line: &str) -> (Vec<String>, Option<char>) {
    let ended = [None, Some('\''), Some('"')].into_iter().find_map(|quote| {
        let end = quote.map_or_else(String::new, String::from);
        Some((shlex::split(&format!("{line}{end}"))?, quote))
    });
    let (mut words, quote) = ended.unwrap_or_default();
    if quote.is_none() && line.ends_with(char::is_whitespace) {
        words.push(String::new());
    }
    (words, quote)
}

/// Returns a word as it is typed, behind a quotation mark where one is open; `None` where it cannot
/// be typed there.
fn quoted(word: &str, quote: Option<char>) -> Option<String> {
    let escaped = |word: &str, is_plain: fn(char) -> bool| {
        word.chars().fold(String::new(), |typed, character| {
            let mark = if is_plain(character) { "" } else { "\\" };
            typed + mark + character.encode_utf8(&mut [0; 4])
        })
    };
    match quote {
        // Within these a shell keeps the backslash before what would be a line of its history.
        Some('"') if word.contains('!') => None,
        Some('"') => Some(escaped(word, |it| !"$`\"\\".contains(it))),
        Some(_) => Some(word.replace('\'', "'\\''")),
        None => {
            let is_plain = |it: char| it.is_alphanumeric() || PLAIN.contains(it);
            // A home stays one.
            let (home, rest) = word.split_at(if word.starts_with("~/") { 2 } else { 0 });
            Some(home.to_owned() + &escaped(rest, is_plain))
        }
    }
}

/// Returns what the last of these words may become, with a line about each. What no terminal
/// shows is left out, since nobody sees then what is typed.
fn offered(mut words: Vec<OsString>) -> Result<Vec<(String, String)>, Fault> {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let cwd = std::env::current_dir().ok();
    let last = words.len() - 1;
    let found = engine::complete(&mut Cli::command(), words, last, cwd.as_deref())
        .doing("find what may stand here")?;
    let of = |candidate: engine::CompletionCandidate| {
        let value = candidate.get_value().to_str()?.to_owned();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = foreign::line(help.lines().next().unwrap_or_default());
        (!value.chars().any(unseen::acts)).then_some((value, help))
    };
    Ok(found.into_iter().filter_map(of).take(OFFERED_MAX).collect())
}
