//! `cargo xtask lab`: the tests that need a kernel with more than this machine's, in a guest that
//! has it.

use std::process::{Command, ExitCode};

/// Usage line of the command.
pub const USAGE: &str = "cargo xtask lab [--all]";

/// Runs the short part, or with `--all` every test of `tests/e2e/lab.rs`.
pub fn run(arguments: &[&str]) -> ExitCode {
    let more: &[&str] = match arguments {
        [] => &[],
        ["--all"] => &["--include-ignored"],
        _ => {
            eprintln!("usage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    if !more.is_empty() && !is_set_up() {
        return ExitCode::FAILURE;
    }
    #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
    let mut tests = Command::new(cargo);
    tests.args(["test", "--test", "e2e", "--", "lab::"]).args(more).env("SURTAX_REQUIRE", "*");
    match tests.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: `cargo test` cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds what the long part runs and no package has, where it is not there yet.
fn is_set_up() -> bool {
    #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
    let status = Command::new("setup/krun.sh").status();
    status.is_ok_and(|status| status.success())
}
