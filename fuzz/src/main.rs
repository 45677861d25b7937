//! Runs fuzz targets: one in this process, or all of them, each in a process of its own, round
//! after round.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use surtax_fuzz::campaign::{self, Engine};
use surtax_fuzz::guard;
use surtax_fuzz::runner::{Ran, Run};
use surtax_fuzz::target::{self, Planted, TARGETS, Target};
use surtax_instrument::clock;
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: guard::Counted = guard::Counted;

const USAGE: &str = "usage: surtax-fuzz list
       surtax-fuzz one TARGET [--seconds N] [--seed N] [--state DIR] [--planted panic|hang|memory]
       surtax-fuzz replay TARGET FILE
       surtax-fuzz all [--seconds N] [--rounds N] [--minutes N] [--seed N] [--state DIR] \
[--coverage PROGRAM] [--only TARGET,...]
       surtax-fuzz totals [--state DIR]";

/// Nanoseconds of a day: the day is the usual seed.
const DAY_NS: u64 = 86_400_000_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().flat_map(|word| word.splitn(2, '=')).collect();
    let done = match words.as_slice() {
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(true)
        }
        ["one", name, rest @ ..] => known(name).and_then(|target| one(&target, &Asked::of(rest)?)),
        ["replay", name, file] => known(name).and_then(|target| replay(&target, file)),
        ["all", rest @ ..] => Asked::of(rest).and_then(|asked| all(&asked)),
        ["totals", rest @ ..] => Asked::of(rest).and_then(|asked| totals(&asked)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            eprintln!("surtax-fuzz: {words}");
            ExitCode::from(2)
        }
    }
}

/// Options behind the name of a command.
struct Asked {
    run: Run,
    rounds: Option<u64>,
    limit: Option<Duration>,
    coverage: Option<PathBuf>,
    only: Vec<String>,
}

impl Asked {
    fn of(words: &[&str]) -> Result<Self, String> {
        let state = PathBuf::from(
            std::env::var_os("SURTAX_FUZZ_STATE").unwrap_or_else(|| "target/fuzz-state".into()),
        );
        let seed = clock::wall().0 / DAY_NS;
        let run = Run { time: Duration::from_secs(10), seed, state, planted: None };
        let mut asked = Self { run, rounds: None, limit: None, coverage: None, only: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("`{word}` has no value\n{USAGE}"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is no number"));
            match *word {
                "--seconds" => asked.run.time = Duration::from_secs(number()?),
                "--seed" => asked.run.seed = number()?,
                "--state" => asked.run.state = PathBuf::from(value),
                "--rounds" => asked.rounds = Some(number()?),
                "--minutes" => {
                    asked.limit = Some(Duration::from_secs(number()?.saturating_mul(60)))
                }
                "--coverage" => asked.coverage = Some(PathBuf::from(value)),
                "--only" => asked.only = value.split(',').map(str::to_owned).collect(),
                "--planted" => {
                    let planted = Planted::of(value)
                        .ok_or_else(|| format!("`{value}` is no bug\n{USAGE}"))?;
                    asked.run.planted = Some(planted);
                }
                _ => return Err(format!("`{word}` is unknown\n{USAGE}")),
            }
        }
        let made = std::fs::create_dir_all(&asked.run.state);
        made.map_err(|error| format!("cannot make `{}`: {error}", asked.run.state.display()))?;
        Ok(asked)
    }

    fn targets(&self) -> Result<Vec<Target>, String> {
        if self.only.is_empty() {
            return Ok(TARGETS.to_vec());
        }
        self.only.iter().map(|name| known(name)).collect()
    }
}

fn known(name: &str) -> Result<Target, String> {
    target::find(name)
        .ok_or_else(|| format!("there is no target `{name}`; `surtax-fuzz list` names all"))
}

/// One target, here. What it says is read by whoever started it.
fn one(target: &Target, asked: &Asked) -> Result<bool, String> {
    let _scratch = own_scratch()?;
    guard::watch();
    let Ran { executions, time_ns, finding } = asked.run.one(target)?;
    println!("executions\t{executions}\ntime_ns\t{time_ns}");
    if let Some(finding) = &finding {
        println!("finding\t{}\nwhy\t{}", finding.path.display(), finding.why.replace('\n', " "));
    }
    Ok(finding.is_none())
}

/// One input, without a guard: to look at a finding.
fn replay(target: &Target, file: &str) -> Result<bool, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let _scratch = own_scratch()?;
    (target.run)(&bytes);
    println!("{} bears `{file}`", target.name);
    Ok(true)
}

/// A place for files, unless whoever started this process has made one.
fn own_scratch() -> Result<Option<TempDir>, String> {
    if std::env::var_os("SURTAX_FUZZ_SCRATCH").is_some() {
        return Ok(None);
    }
    let scratch = target::make_scratch().map_err(|error| format!("no place for files: {error}"))?;
    target::use_scratch(scratch.path());
    Ok(Some(scratch))
}

/// All targets, round after round; each round has another seed. Goes on after a finding, and says
/// so at the end.
fn all(asked: &Asked) -> Result<bool, String> {
    let _scratch = own_scratch()?;
    let began = clock::monotonic_raw();
    let is_over = || {
        asked
            .limit
            .is_some_and(|limit| Duration::from(clock::monotonic_raw().since(began)) >= limit)
    };
    let rounds = asked.rounds.unwrap_or(if asked.limit.is_some() { u64::MAX } else { 1 });
    let ourselves =
        std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let (program, engine) = match &asked.coverage {
        Some(program) => (program.clone(), Engine::Coverage),
        None => (ourselves, Engine::Mutation),
    };
    println!(
        "fuzz: seed {}, {} s for each target, by {}",
        asked.run.seed,
        asked.run.time.as_secs(),
        engine.word()
    );
    let mut found = 0;
    'rounds: for round in 0..rounds {
        let run = Run { seed: asked.run.seed.wrapping_add(round << 32), ..asked.run.clone() };
        for target in asked.targets()? {
            if is_over() {
                break 'rounds;
            }
            let ran = campaign::apart(&program, engine, &target, &run, &[])?;
            campaign::count(&run.state, engine, target.name, run.seed, &ran)?;
            let rate = ran.executions as f64 / (ran.time_ns.max(1) as f64 / 1e9);
            println!("{:<12} {:>10} executions, {rate:>8.0}/s", target.name, ran.executions);
            if let Some(finding) = &ran.finding {
                found += 1;
                println!("  FOUND {}: {}", finding.path.display(), finding.why);
            }
        }
    }
    let whole = totals(asked)?;
    Ok(found == 0 && whole)
}

/// Prints the totals of a campaign so far.
fn totals(asked: &Asked) -> Result<bool, String> {
    let totals = campaign::totals(&asked.run.state)?;
    let executions: u64 = totals.values().map(|total| total.executions).sum();
    let findings: u64 = totals.values().map(|total| total.findings).sum();
    for (name, total) in &totals {
        println!("{name}\t{}\t{}\t{}", total.executions, total.time_ns, total.findings);
    }
    println!(
        "fuzz: {executions} executions of {} targets so far, {findings} findings",
        totals.len()
    );
    Ok(true)
}
