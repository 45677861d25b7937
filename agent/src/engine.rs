//! Runs an engine, as a process that the agent has started as itself.
//!
//! A command whose program is `@surtax` is this very binary, wherever it stands: so an engine needs
//! nothing of the root file system around it. Its answer is one line on standard output; why there
//! is none, on standard error.

use std::io::{self, Write};
use std::process::ExitCode;
use surtax_engines as engine;
use surtax_engines::price::NOTHING;

/// Path by which this process starts itself: the kernel's name for its file, also where that has no
/// other any more.
pub const OWN_FILE: &str = "/proc/self/exe";

/// Runs the engine that the words name.
pub fn main(words: &[String]) -> ExitCode {
    if words == [NOTHING] {
        return ExitCode::SUCCESS;
    }
    let refused = match engine::run(words) {
        Ok(answer) => {
            let line = answer.finish() + "\n";
            match io::stdout().write_all(line.as_bytes()) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => engine::Refused::machine(format!("cannot print the answer: {error}")),
            }
        }
        Err(refused) => refused,
    };
    eprintln!("surtax engine: {refused}");
    ExitCode::from(if refused.is_users { 2 } else { 3 })
}
