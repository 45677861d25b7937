//! `surtax completions`: what a shell completes a command line with.
//!
//! The scripts of bash, zsh and fish ask surtax at each press of the key, so that stacks, their
//! options, workloads and runs are those that there are; other shells get a script of all that does
//! not change. Nothing is started and nothing is written, for nobody has asked for it yet.

pub mod candidates;

use super::{Cli, answer};
use crate::fault::{Doing, Fault};
use clap::CommandFactory;
use clap_complete::{Shell, engine};
use std::ffi::OsString;

const BASH: &str = include_str!("surtax.bash");
const ZSH: &str = include_str!("surtax.zsh");
const FISH: &str = include_str!("surtax.fish");

/// Marks that a shell takes for a part of a word, whatever stands beside them.
const PLAIN: &str = "_-./:=,+@%";

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
    let words = split(&line);
    let kept = words.last().and_then(|word| word.strip_suffix(&*part)).map_or(0, str::len);
    let offered = offered(words.into_iter().map(OsString::from).collect())?;
    Ok(offered.iter().filter_map(|(value, _)| value.get(kept..)).map(quoted).collect())
}

/// Splits a line as a shell would, were the quotation mark set that is missing.
fn split(line: &str) -> Vec<String> {
    let ended = ["", "'", "\""].iter().find_map(|end| shlex::split(&format!("{line}{end}")));
    let mut words = ended.unwrap_or_default();
    if line.ends_with(char::is_whitespace) && shlex::split(line).is_some() {
        words.push(String::new());
    }
    words
}

/// Returns a word as it is typed.
fn quoted(word: &str) -> String {
    word.chars().fold(String::new(), |typed, character| {
        let is_plain = character.is_alphanumeric() || PLAIN.contains(character);
        typed + if is_plain { "" } else { "\\" } + character.encode_utf8(&mut [0; 4])
    })
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
        let help = help.lines().next().unwrap_or_default().replace('\t', " ");
        (!value.chars().any(char::is_control)).then_some((value, help))
    };
    Ok(found.into_iter().filter_map(of).collect())
}
