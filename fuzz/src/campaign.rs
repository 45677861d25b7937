//! A campaign: every target in a process of its own, round after round, with all counts in one
//! table.
//!
//! A process that dies is a finding, too: the input that it read last is in a file. Counts are
//! lines that are added to `counts.tsv`, so that a campaign that was cut off goes on where it was.

use crate::guard::{CPU_LIMIT, Current, EXIT_HANG, EXIT_MEMORY, MEMORY_LIMIT};
use crate::runner::{self, Finding, Ran, Run};
use crate::target::{self, Target};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use surtax_instrument::clock;

/// The table of a campaign, below its state.
const COUNTS: &str = "counts.tsv";

/// First line of the table.
const HEAD: &str = "began_at_s\tengine\ttarget\tseed\texecutions\ttime_ns\tfindings\n";

/// Runner that makes the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Mutation of the corpus, by this program.
    Mutation,
    /// libFuzzer, which keeps what reaches new code.
    Coverage,
}

impl Engine {
    /// As it stands in the table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Mutation => "mutation",
            Self::Coverage => "coverage",
        }
    }
}

/// Totals of all lines of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Inputs.
    pub executions: u64,
    /// Time, in nanoseconds.
    pub time_ns: u64,
    /// Inputs that found something.
    pub findings: u64,
}

/// Runs one target in a process of its own.
///
/// # Errors
/// The process could not be started, or says what is no result.
pub fn apart(
    program: &Path,
    engine: Engine,
    target: &Target,
    run: &Run,
    words: &[&str],
) -> Result<Ran, String> {
    let began = clock::monotonic_raw();
    #[expect(clippy::disallowed_methods, reason = "a runner of tests, not surtax")]
    let mut command = Command::new(program);
    let seconds = run.time.as_secs().to_string();
    match engine {
        Engine::Mutation => {
            command.args(["one", target.name, "--seconds", &seconds]);
            command.arg(format!("--seed={}", run.seed)).arg("--state").arg(&run.state).args(words);
        }
        Engine::Coverage => {
            cover(&mut command, target, run)?;
            command.arg(format!("-max_total_time={seconds}")).args(words);
        }
    }
    // Ours and not the process's: one that dies leaves it behind.
    let scratch =
        target::make_scratch().map_err(|error| format!("cannot make a directory: {error}"))?;
    let output = command.env("SURTAX_FUZZ_SCRATCH", scratch.path()).output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
    let mut ran = match engine {
        Engine::Mutation => of_mutation(target.name, run, &output)?,
        Engine::Coverage => of_coverage(target.name, run, &output)?,
    };
    ran.time_ns = clock::monotonic_raw().since(began).0;
    Ok(ran)
}

/// Reads what the process of the mutating runner said, or what it died of.
fn of_mutation(target: &str, run: &Run, output: &Output) -> Result<Ran, String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let field =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let executions = number("executions");
    let finding = match died_of(output.status) {
        Some(why) => {
            let input = Current::last(&run.current(target));
            let input =
                input.map_err(|error| format!("{target} {why}, and its input is lost: {error}"))?;
            Some(runner::keep(&run.state, target, &input, why)?)
        }
        None => field("finding")
            .zip(field("why"))
            .map(|(path, why)| Finding { path: PathBuf::from(path), why: why.to_owned() }),
    };
    if finding.is_none() && !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{target} could not be run: {}: {words}", output.status));
    }
    Ok(Ran { executions, time_ns: 0, finding })
}

/// Explains why a process is gone; `None` if it ended by itself.
fn died_of(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(EXIT_HANG), _) => Some(format!("took more than {} s", CPU_LIMIT.as_secs())),
        (Some(EXIT_MEMORY), _) => Some(format!("took more than {} MiB", MEMORY_LIMIT >> 20)),
        (_, Some(signal)) => Some(format!("died of signal {signal}")),
        _ => None,
    }
}

/// The words of libFuzzer: its limits, where it keeps what it learns, and where inputs come from.
fn cover(command: &mut Command, target: &Target, run: &Run) -> Result<(), String> {
    let learnt = run.state.join("learnt").join(target.name);
    let seeds = run.state.join("seeds").join(target.name);
    let made = [&learnt, &seeds].into_iter().try_for_each(fs::create_dir_all);
    made.map_err(|error| format!("cannot make `{}`: {error}", learnt.display()))?;
    for (number, input) in crate::corpus::of(target)?.iter().enumerate() {
        let written = fs::write(seeds.join(format!("{number:04}")), input);
        written.map_err(|error| format!("cannot write a seed: {error}"))?;
    }
    command.env("SURTAX_FUZZ_TARGET", target.name);
    command.args([&learnt, &seeds]);
    command.arg(format!("-dict={}", crate::corpus::dictionary_path(target).display()));
    command.arg(format!("-artifact_prefix={}/{}.", run.state.display(), target.name));
    command.arg(format!("-max_len={}", target.longest));
    // libFuzzer's time is that of the wall: a busy machine needs some room.
    command.args(["-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-seed={}", run.seed & 0xffff_ffff));
    Ok(())
}

/// Reads what libFuzzer counted, and the file that it left where it found something.
fn of_coverage(target: &str, run: &Run, output: &Output) -> Result<Ran, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = count.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if output.status.success() {
        return Ok(Ran { executions, time_ns: 0, finding: None });
    }
    let artifact = said.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1));
    let tail: Vec<&str> = said.lines().rev().take(12).collect();
    let Some(artifact) = artifact else {
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        return Err(format!("{target} could not be run by libFuzzer: {}", tail.join("\n")));
    };
    let input = fs::read(artifact).map_err(|error| format!("cannot read `{artifact}`: {error}"))?;
    let why = said.lines().find(|line| line.contains("panicked") || line.contains("ERROR:"));
    let why = why.unwrap_or("it died").to_owned();
    let finding = runner::keep(&run.state, target, &input, why)?;
    let _moved = fs::remove_file(artifact);
    Ok(Ran { executions, time_ns: 0, finding: Some(finding) })
}

/// Adds one line to the table of a campaign.
///
/// # Errors
/// The file system's.
pub fn count(
    state: &Path,
    engine: Engine,
    target: &str,
    seed: u64,
    ran: &Ran,
) -> Result<(), String> {
    let path = state.join(COUNTS);
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", path.display());
    let is_new = !path.exists();
    let mut file = File::options().create(true).append(true).open(&path).map_err(cannot)?;
    let (at, engine) = (clock::wall().0 / 1_000_000_000, engine.word());
    let Ran { executions, time_ns, finding } = ran;
    let findings = u8::from(finding.is_some());
    let head = if is_new { HEAD } else { "" };
    let line =
        format!("{head}{at}\t{engine}\t{target}\t{seed}\t{executions}\t{time_ns}\t{findings}\n");
    file.write_all(line.as_bytes()).map_err(cannot)
}

/// Returns the totals of a campaign's table, by target.
///
/// # Errors
/// The file system's, or a line that is none.
pub fn totals(state: &Path) -> Result<BTreeMap<String, Total>, String> {
    let path = state.join(COUNTS);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let broken = || format!("{}:{}: is no line of counts", path.display(), index + 1);
        let fields: Vec<&str> = line.split('\t').collect();
        let [_, _, target, _, executions, time_ns, findings] = fields[..] else {
            return Err(broken());
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| broken());
        let total = totals.entry(target.to_owned()).or_default();
        total.executions += number(executions)?;
        total.time_ns += number(time_ns)?;
        total.findings += number(findings)?;
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_rounds_add_up() {
        let state = tempfile::tempdir().unwrap();
        let ran = |executions, finding| Ran { executions, time_ns: 2_000_000_000, finding };
        let found = Finding { path: PathBuf::from("x"), why: String::from("y") };
        for (target, ran) in
            [("wire", ran(10, None)), ("ledger", ran(5, Some(found))), ("wire", ran(7, None))]
        {
            count(state.path(), Engine::Mutation, target, 1, &ran).unwrap();
        }
        let totals = totals(state.path()).unwrap();
        let wire = Total { executions: 17, time_ns: 4_000_000_000, findings: 0 };
        assert_eq!(totals["wire"], wire);
        assert_eq!((totals["ledger"].executions, totals["ledger"].findings), (5, 1));
    }
}
