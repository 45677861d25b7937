//! `cargo xtask fuzz`: builds the fuzz targets and runs all of them, round after round, for as long
//! as is said.
//!
//! Counts go to `counts.tsv` below `target/fuzz-state`, where a later campaign adds to them.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Usage line of the command, for people.
pub const USAGE: &str = "cargo xtask fuzz [--coverage] [--minutes N] [--seconds N] [--rounds N] \
                         [--seed N] [--only TARGET,…] | --totals";

/// Flags that make the compiler count which code is reached. All of it is stable; libFuzzer reads
/// the counts.
///
/// Source: LLVM, "SanitizerCoverage".
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Named, so that build scripts and macros are built without those flags.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Builds the runners and hands them what was asked for.
pub fn run(arguments: &[&str]) -> ExitCode {
    match fuzz(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("xtask: {words}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(arguments: &[&str]) -> Result<(), String> {
    build(&["--bin=surtax-fuzz"], None)?;
    let program = target().join("fuzz/surtax-fuzz");
    let mut fuzz = command(&program.display().to_string());
    if arguments == ["--totals"] {
        fuzz.arg("totals");
    } else {
        fuzz.arg("all").args(arguments.iter().filter(|word| **word != "--coverage"));
    }
    if arguments.contains(&"--coverage") {
        build(&["--features=coverage", "--bin=surtax-fuzz-coverage"], Some(COVERAGE))?;
        let program = covered().join(TRIPLE).join("fuzz/surtax-fuzz-coverage");
        fuzz.arg("--coverage").arg(program);
    }
    fuzz.arg("--state").arg(target().join("fuzz-state"));
    succeed(fuzz)
}

/// Builds a runner as fast as a release, with assertions.
fn build(words: &[&str], flags: Option<&str>) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    let mut build = command(&cargo);
    build.args(["build", "--package=surtax-fuzz", "--profile=fuzz", "--locked"]).args(words);
    if let Some(flags) = flags {
        build.env("RUSTFLAGS", flags).arg("--target").arg(TRIPLE);
        build.arg("--target-dir").arg(covered());
    }
    succeed(build)
}

/// Returns the directory in which Cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Returns the directory in which it builds with other flags, so that neither undoes the other's
/// work.
fn covered() -> PathBuf {
    target().join("coverage")
}

fn command(program: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
    Command::new(program)
}

fn succeed(mut command: Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` cannot be started: {error}")),
    }
}
