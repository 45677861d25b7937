//! The doors to the terminal: answers, notes, errors, and what is said of our own bugs.
//!
//! What came from a guest or a file may hold escape sequences; nothing goes to standard error here
//! without its control characters escaped.

use super::Globals;
use crate::fault::{Doing, Fault};
use crate::finding::foreign;
use std::io::{ErrorKind, IsTerminal, Write};
use std::panic::UnwindSafe;
use std::process::ExitCode;

/// Writes a result to standard output. A reader that has left (`| head`) is no error.
///
/// # Errors
/// The machine's, when standard output cannot be written.
pub fn answer(text: &str) -> Result<(), Fault> {
    put(text.as_bytes())
}

/// Writes a result that need not be text to standard output, as [`answer`].
///
/// # Errors
/// As [`answer`].
pub fn put(content: &[u8]) -> Result<(), Fault> {
    let mut output = std::io::stdout().lock();
    match output.write_all(content).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.doing("write to standard output"),
    }
}

/// Says on standard error what the user should know and did not ask.
pub fn note(text: &str, globals: &Globals) {
    if !globals.quiet {
        complain(&indented(&format!("surtax: note: {text}")));
    }
}

/// Says on standard error what would help, below an error that somebody else has shown.
pub fn hint(text: &str) {
    complain(&format!("  hint: {text}"));
}

/// Says on standard error, whatever notes are wanted, what must be known to decide.
pub fn tell(text: &str) {
    complain(text.trim_end());
}

/// Shows the fault, if there is one, and returns the exit code that says whose it was.
#[must_use]
pub fn exit(result: Result<(), Fault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&indented(&format!("surtax: error: {fault}")));
            ExitCode::from(fault.exit_code())
        }
    }
}

/// Runs the program; a panic in it is said to be our bug and exits with 70.
pub fn catch_bugs(program: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |place| format!(" ({place})"));
        let words = panic.payload_as_str().unwrap_or("a panic without words");
        complain(&format!(
            "surtax: error: bug in surtax: {words}{place}\n  hint: report it with the command \
             line; `surtax gc` removes what may be left"
        ));
    }));
    std::panic::catch_unwind(program).unwrap_or_else(|_| ExitCode::from(70))
}

/// The same with every further line further in: a name that holds the end of a line begins no
/// message of its own.
fn indented(text: &str) -> String {
    let is_further_in = |line: &str| line.is_empty() || line.starts_with(' ');
    let lines = text.split('\n').enumerate().map(|(number, line)| {
        let margin = if number == 0 || is_further_in(line) { "" } else { "  " };
        format!("{margin}{line}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One write per message, so that messages of several threads do not mix.
fn complain(text: &str) {
    let text = foreign::message(text) + "\n";
    // Where standard error is closed, nobody can be told.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Tells whether a person watches standard error.
#[must_use]
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_the_end_of_a_line_begins_no_message() {
        let said = indented("surtax: note: kept in `a\n# owned`\n  hint: look\n\nend");
        assert_eq!(said, "surtax: note: kept in `a\n  # owned`\n  hint: look\n\n  end");
    }
}
