//! The command line: one file per command, all definitions in one place for help, completions and
//! man.
//!
//! Results go to standard output, everything else (progress, notes, errors) to standard error, and
//! the exit code says whose mistake it was: 0 none, 2 the user's, 3 the machine's, 70 ours; 1 says
//! that a `--fail-if` threshold is crossed or a proof missed a bar, 4 that a threshold is not
//! decided. A run that was cut short exits with 130, as shells have it.

mod compare;
mod completions;
mod consent;
mod count;
mod diff;
mod history;
pub mod doctor;
mod enter;
mod exit_code;
mod export;
mod gc;
mod globals;
mod list;
mod man;
mod measure;
mod misread;
mod run_and_report;
mod parameters;
mod place;
mod plan;
mod prices;
mod program;
pub mod progress;
mod prove;
mod report;
mod results;
mod resume;
mod schema;
mod rm;
mod rows;
mod run;
mod say;
mod serve;
mod show;
mod why;
mod within_reach;
mod workload;

use crate::fault::Fault;
use crate::lab::{open_files, us};
use clap::{Parser, Subcommand};
pub use globals::{Format, Globals};
use measure::Question;
pub use say::{answer, catch_bugs, exit, note};
use std::ffi::OsString;
use std::process::ExitCode;

/// Measures what each layer of isolation costs a workload.
///
/// surtax runs one command natively, in containers, in sandboxes, in virtual machines and in any
/// nesting of them, in random order and many times, and reports the overhead of each over native
/// with its confidence interval and who paid for it.
#[derive(Debug, Parser)]
#[command(
    name = "surtax",
    version = env!("SURTAX_VERSION"),
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Begin with `surtax doctor`, then\n  surtax compare --in \
                  native,runc,docker,gvisor,qemu -- make -j4",
    after_long_help = include_str!("help/surtax.txt")
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub globals: Globals,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compares one command in several stacks.
    Compare(compare::Arguments),
    /// Measures what a system call, a page fault and other primitives cost in several stacks.
    Prices(prices::Arguments),
    /// Shows every trial of a plan and how long it will take, and runs nothing.
    Plan(plan::Arguments),
    /// Runs a plan file.
    Run(run::Arguments),
    /// Continues a run that was interrupted.
    Resume(resume::Arguments),
    /// Says which layers work here, what would make the others work, and what disturbs measurement.
    Doctor(doctor::Arguments),
    /// Opens a shell, or runs a command, in any stack.
    Enter(enter::Arguments),
    /// Prints the results of a run.
    Show(show::Arguments),
    /// Explains the overheads of a run: what asks for the time, and what nobody explains.
    Why(why::Arguments),
    /// Compares two runs of one question.
    Diff(diff::Arguments),
    /// Shows what each stack cost in all runs of one question, and since when.
    History(history::Arguments),
    /// Writes the results of a run as one HTML file.
    Report(report::Arguments),
    /// Writes the results of a run for other programs.
    Export(export::Arguments),
    /// Lists the runs that are kept.
    List(list::Arguments),
    /// Serves the runs that are kept, and the one that runs, as pages for a browser.
    Serve(serve::Arguments),
    /// Removes runs that are kept.
    Rm(rm::Arguments),
    /// Shows what there is to run by name, and checks a file of your own.
    Workload(workload::Arguments),
    /// Measures surtax's own error where the truth is known, and says which bars were met.
    Prove(prove::Arguments),
    /// Removes what a killed surtax left on this machine.
    Gc(gc::Arguments),
    /// Says what the JSON of each command looks like, as JSON Schema.
    Schema(schema::Arguments),
    /// Prints a completion script for a shell.
    Completions(completions::Arguments),
    /// Prints the manual page, or writes all of them into a directory.
    Man(man::Arguments),
}

/// Reads the command line, does what it says, and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    open_files::raise();
    let typed: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(&typed) {
        Ok(cli) => match own_namespace(&cli).and_then(|()| dispatch(cli)) {
            Ok(code) => code,
            Err(fault) => exit(Err(fault)),
        },
        Err(error) => {
            let code = error.exit_code();
            misread::tell(error, &typed);
            ExitCode::from(u8::try_from(code).unwrap_or(2))
        }
    }
}

/// Becomes root of a user namespace of our own, where layers are started by who is not root. A
/// machine that does not let them has fewer layers, and each says so.
///
/// # Errors
/// The machine's: what it let a process of ours do it does not let us do.
fn own_namespace(cli: &Cli) -> Result<(), Fault> {
    let starts = matches!(
        cli.command,
        Command::Compare(_)
            | Command::Prices(_)
            | Command::Run(_)
            | Command::Resume(_)
            | Command::Why(_)
            | Command::Enter(_)
            | Command::Doctor(_)
    );
    if starts { us::enter_namespace() } else { Ok(()) }
}

fn dispatch(cli: Cli) -> Result<ExitCode, Fault> {
    let globals = &cli.globals;
    let measure = |question: Question| run_and_report::measure(&question, globals);
    match cli.command {
        Command::Compare(arguments) => return arguments.question(globals).and_then(measure),
        Command::Prices(arguments) => return arguments.question(globals).and_then(measure),
        Command::Run(arguments) => return arguments.question(globals).and_then(measure),
        Command::Resume(arguments) => return run_and_report::resume(&arguments, globals),
        Command::Show(arguments) => return show::run(&arguments, globals),
        Command::Why(arguments) => return why::run(&arguments, globals),
        Command::Enter(arguments) => return enter::run(&arguments, globals),
        Command::Prove(arguments) => return prove::run(&arguments, globals),
        Command::Plan(arguments) => plan::run(&arguments, globals)?,
        Command::Doctor(arguments) => doctor::run(&arguments, globals)?,
        Command::Report(arguments) => report::run(&arguments, globals)?,
        Command::Export(arguments) => export::run(&arguments, globals)?,
        Command::Diff(arguments) => diff::run(&arguments, globals)?,
        Command::History(arguments) => history::run(&arguments, globals)?,
        Command::List(arguments) => list::run(&arguments, globals)?,
        Command::Serve(arguments) => serve::run(&arguments, globals)?,
        Command::Rm(arguments) => rm::run(&arguments, globals)?,
        Command::Workload(arguments) => workload::run(&arguments, globals)?,
        Command::Gc(_) => gc::run(globals)?,
        Command::Schema(arguments) => schema::run(&arguments, globals)?,
        Command::Completions(arguments) => completions::run(&arguments)?,
        Command::Man(arguments) => man::run(&arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_every_flag_says_what_it_does() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }
}
