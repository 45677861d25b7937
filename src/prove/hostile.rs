//! Hostile: ledgers that somebody else made, given to every command that reads one.
//!
//! Each is spoiled in one of the ways of `hostile/mutated.rs`, and given to this very program in a
//! process of its own, which has 500 MB of addresses, two seconds of CPU time and nobody at its
//! terminal. Counted are those that used more, those that ended otherwise than by an exit code of
//! ours, characters that act on a terminal, and commands that ran though nobody had asked for them.

mod mutated;

use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::driver;
use crate::driver::registered;
use crate::fault::{Doing, Fault};
use crate::finding::foreign;
use crate::ledger::{Ledger, RunState};
use crate::plan::{Defaults, Draft, Plan, TrialId};
use crate::trial::TrialResult;
use mutated::Harm;
use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limits of a command: two seconds of CPU time, since this machine may be busy, and 500 MB of
/// addresses.
const LIMITS: &str = "ulimit -S -t 2 && ulimit -v 500000 && exec \"$0\" \"$@\"";

/// The signal by which the kernel ends what has used its CPU time.
const SIGXCPU: i32 = 24;

/// Time after which it is not waited for any more: what uses no CPU time may wait for ever.
const GIVE_UP: Duration = Duration::from_secs(20);

/// Time for the trials of a whole ledger that is gone on with.
const EXECUTE: Duration = Duration::from_secs(120);

/// The exit codes of ours, of which a bug's is none.
const CODES: [i32; 4] = [0, 1, 2, 3];

/// The commands, the file in the place of `FILE` and a place for what they write in that of
/// `PLACE`, where another run that nobody has spoiled is `other`. They are given one harm's ledgers
/// in turn, so that each meets each.
const COMMANDS: [&[&str]; 16] = [
    &["show", "FILE"],
    &["show", "FILE", "--format", "markdown"],
    &["show", "FILE", "--format", "csv"],
    &["export", "FILE", "--format", "json"],
    &["export", "FILE", "--trials"],
    &["report", "FILE", "--output", "PLACE/report.html"],
    &["list", "PLACE"],
    &["list", "PLACE", "--format", "json"],
    &["diff", "PLACE/other", "FILE"],
    &["history", "FILE", "PLACE/other"],
    &["export", "FILE", "--as", "junit"],
    &["export", "FILE", "--as", "github"],
    &["export", "FILE", "--as", "brief"],
    &["export", "FILE", "--as", "openmetrics"],
    &["export", "FILE", "--as", "hyperfine"],
    &["export", "FILE", "--as", "bmf"],
];

/// Command that every ledger is given to beside one of them: it must not execute the ledger's
/// command.
const RESUME: &[&str] = &["resume", "FILE"];

/// Counts of what went wrong, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    ledgers: u32,
    slow: u32,
    crashed: u32,
    acting: u32,
    executed: u32,
}

pub(super) const PROOF: Proof = Proof {
    name: "hostile",
    summary: "ledgers that somebody else made, in every command that reads one: whether they harm",
    parts: |size| vec![Part::of(run_count(size), size.pick(220, 90))],
    prove,
};

fn run_count(size: Size) -> u32 {
    size.pick(44, 10_000)
}

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut counts = Harm::ALL.map(|harm| (harm, Count::default()));
    let done = try_all(bench, size, &mut counts);
    let tried = counts.iter().filter(|(_, count)| count.ledgers > 0);
    figures.extend(tried.flat_map(|(harm, count)| of_kind(*harm, *count)));
    done
}

fn try_all(bench: &Bench<'_>, size: Size, counts: &mut [(Harm, Count)]) -> Result<(), Fault> {
    let place = Place::make(bench)?;
    place.try_whole(bench)?;
    let kinds = counts.len();
    for run in bench.units(run_count(size)) {
        let (harm, count) = &mut counts[run as usize % kinds];
        count.add(bench.unit(&format!("hostile/{run}"), 1, || {
            harm.spoil(&place.file()?, run.into())?;
            let mut tried = try_one(bench, &place.directory, commands(size, run as usize))?;
            tried.executed = place.mark.exists();
            place.clear()?;
            bench.told()?;
            Ok(tried)
        })?);
    }
    std::fs::remove_dir_all(&place.directory).doing("remove the strangers' ledgers")
}

/// The directory in which one ledger after another is spoiled, beside two that are not.
struct Place {
    directory: PathBuf,
    /// The run of which all are made.
    whole: PathBuf,
    /// Another of the same plan.
    other: PathBuf,
    /// Mark that their command leaves where it is executed.
    mark: PathBuf,
}

impl Place {
    fn make(bench: &Bench<'_>) -> Result<Self, Fault> {
        let directory = bench.directory()?.join("hostile");
        let made = || std::fs::create_dir_all(&directory);
        made().doing(format_args!("make `{}` for strangers' ledgers", directory.display()))?;
        let [whole, other, mark] = ["whole", "other", "mark"].map(|name| directory.join(name));
        make(&whole, &mark)?;
        make(&other, &mark)?;
        Ok(Self { directory, whole, other, mark })
    }

    /// The ledger to be spoiled, as it is before.
    fn file(&self) -> Result<PathBuf, Fault> {
        let file = self.directory.join("run.surtax");
        std::fs::copy(&self.whole, &file).doing("copy a ledger to be spoiled")?;
        Ok(file)
    }

    /// Checks that every command reads a ledger that nobody has spoiled, and that its own leaves
    /// the mark once it is asked for: what is refused would meet no harm, and leave no mark either.
    fn try_whole(&self, bench: &Bench<'_>) -> Result<(), Fault> {
        for command in COMMANDS {
            self.file()?;
            let said = self.directory.join("said");
            let status = bench.answer(&words(command, &self.directory)?, &said, GIVE_UP)?;
            if status.is_none_or(|status| !status.success()) {
                let said = std::fs::read_to_string(said).unwrap_or_default();
                let command = command.join(" ");
                return Err(Fault::bug(format!(
                    "a whole ledger is refused by `{command}`: {said}"
                )));
            }
            self.clear()?;
        }
        self.file()?;
        // Under the limits of the attempts, or these could not execute it either.
        let mut words = words(RESUME, &self.directory)?;
        words.push(String::from("--yes"));
        let said = self.directory.join("said");
        let status = bench.answer(&words, &said, EXECUTE)?;
        if !self.mark.exists() {
            let said = std::fs::read_to_string(said).unwrap_or_default();
            return Err(Fault::bug(format!(
                "a command that was asked for leaves no mark (status {status:?}): {said}"
            )));
        }
        self.clear()
    }

    /// Removes what one ledger left.
    fn clear(&self) -> Result<(), Fault> {
        let entries = std::fs::read_dir(&self.directory).doing("see what a ledger left")?;
        let paths = entries.flatten().map(|entry| entry.path());
        for path in paths.filter(|path| *path != self.whole && *path != self.other) {
            std::fs::remove_file(path).doing("remove what a stranger's ledger left")?;
        }
        Ok(())
    }
}

/// Result of trying one ledger.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Tried {
    slow: bool,
    crashed: bool,
    acting: bool,
    executed: bool,
}

impl Count {
    fn add(&mut self, tried: Tried) {
        self.ledgers += 1;
        self.slow += u32::from(tried.slow);
        self.crashed += u32::from(tried.crashed);
        self.acting += u32::from(tried.acting);
        self.executed += u32::from(tried.executed);
    }
}

/// Commands that a ledger is given to: in a quick proof the four ledgers of a harm are given to all
/// sixteen. After each round one is left out once, or a way to spoil a ledger met the same ones
/// for ever.
fn commands(size: Size, run: usize) -> impl Iterator<Item = &'static [&'static str]> {
    let (of_harm, each) = (run / Harm::ALL.len(), size.pick(4, 1) as usize);
    let first = of_harm * each + of_harm / COMMANDS.len();
    (first..first + each).map(|turn| COMMANDS[turn % COMMANDS.len()])
}

/// Gives a ledger to these commands, and to the one that would execute its command.
fn try_one(
    bench: &Bench<'_>,
    place: &Path,
    commands: impl Iterator<Item = &'static [&'static str]>,
) -> Result<Tried, Fault> {
    let mut tried = Tried::default();
    for command in commands.chain([RESUME]) {
        let said = place.join("said");
        let status = bench.answer(&words(command, place)?, &said, GIVE_UP)?;
        let is_slow = status.is_none_or(|status| status.signal() == Some(SIGXCPU));
        let code = status.and_then(|status| status.code());
        tried.slow |= is_slow;
        tried.crashed |= !is_slow && code.is_none_or(|code| !CODES.contains(&code));
        for file in [said, place.join("report.html")] {
            tried.acting |= std::fs::read(file).is_ok_and(|bytes| acts(&bytes));
        }
    }
    Ok(tried)
}

/// This program with a limit to its memory.
fn words(command: &[&str], place: &Path) -> Result<Vec<String>, Fault> {
    let exe = std::env::current_exe().doing("find the program that is to read them")?;
    let file = place.join("run.surtax").to_string_lossy().into_owned();
    let place = place.to_string_lossy();
    let mut words = ["sh", "-c", LIMITS].map(String::from).to_vec();
    words.push(exe.to_string_lossy().into_owned());
    words.extend(command.iter().map(|word| match *word {
        "FILE" => file.clone(),
        word => word.replace("PLACE", &place),
    }));
    Ok(words)
}

/// Tells whether an answer holds what acts on a terminal, or is no text at all.
fn acts(said: &[u8]) -> bool {
    let text = String::from_utf8_lossy(said);
    let text = text.replace("\r\n", "\n"); // as CSV ends its records
    text.chars().any(|letter| !matches!(letter, '\n' | '\t') && foreign::acts(letter))
        || text.lines().any(|line| line.starts_with("# owned") || line.starts_with("| x |"))
}

/// Makes a ledger as all are made from: interrupted, of four blocks, three of them whole, with a
/// command that leaves a mark where it is executed.
fn make(file: &Path, mark: &Path) -> Result<(), Fault> {
    let plan = plan(mark)?;
    let _ = std::fs::remove_file(file);
    let mut ledger = Ledger::create(file, &plan, &crate::ledger::machine::facts(&[]))?;
    for block in 0..4 {
        for TrialId { block, position, arm } in plan.block(block) {
            let trial = TrialId { block, position, arm };
            ledger.begin_trial(trial)?;
            ledger.end_trial(&super::example::record(trial, failed(block, arm))?)?;
        }
    }
    ledger.finish(RunState::Interrupted)
}

fn failed(block: u32, arm: u32) -> Option<TrialResult> {
    let why = String::from("the guest kernel panicked\n  hint: give it memory");
    (block == 2 && arm == 2).then(|| TrialResult::Broken(why.into()))
}

fn plan(mark: &Path) -> Result<Plan, Fault> {
    // The machine's own files: the mark lies where no command is given a directory.
    let native = driver::parse("native:root=host")?;
    let stacks = vec![native.clone(), driver::parse("native:root=host,env.SURTAX_TWIN=1")?];
    let descriptors = registered();
    let around = Defaults::of_no_machine(&descriptors);
    let draft = Draft {
        title: Some(String::from("a stranger's run")),
        stacks,
        baseline: Some(native),
        command: vec!["touch".into(), mark.into()],
        inherit_environment: Some(true),
        runs: Some(5),
        seed: Some(1),
        ..Draft::default()
    };
    Ok(draft.complete(&around)?.plan)
}

/// The figures of one kind of harm.
fn of_kind(harm: Harm, count: Count) -> [Figure; 4] {
    let line = |what, found, because: &str| {
        Figure::new(harm.words(), [count.ledgers, found], what).bar(Bar::AtMost(0), because)
    };
    [
        line(
            "took more than 2 s of CPU time",
            count.slow,
            "a file's size explains what reading it takes",
        ),
        line("ended by no code of ours, with 500 MB", count.crashed, "what is wrong is said"),
        line("let act what acts", count.acting, "foreign text is seen, and never obeyed"),
        line("executed a command unasked", count.executed, "a stranger's command is shown first"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_found_in_an_answer_and_what_is_only_shown_is_not() {
        assert!(acts(b"a\x1b[2J") && acts("\u{202e}".as_bytes()) && acts(b"one\r\n# owned\r\n"));
        assert!(acts(b"a\rb") && acts(b"\0"));
        assert!(!acts("a\\u{1b}, \u{b1}3 %\r\nb\tc\n".as_bytes()));
    }

    #[test]
    fn every_harm_meets_every_command_and_in_full_so_does_each_way_to_spoil_a_table() {
        let met = |size: Size, run: u32| {
            let place = |of: &&[&str]| COMMANDS.iter().position(|it| it == of).unwrap();
            commands(size, run as usize).map(|it| place(&it)).collect::<Vec<usize>>()
        };
        let harms = u32::try_from(Harm::ALL.len()).unwrap();
        for harm in 0..harms {
            let of_it = |size| (harm..run_count(size)).step_by(harms as usize);
            let mut all: Vec<usize> =
                of_it(Size::Quick).flat_map(|run| met(Size::Quick, run)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..COMMANDS.len()).collect::<Vec<_>>(), "{harm}");
            for ways in [3, 4, 6, 9] {
                let pairs: std::collections::BTreeSet<(u32, usize)> = of_it(Size::Full)
                    .flat_map(|run| {
                        met(Size::Full, run).into_iter().map(move |it| (run / harms % ways, it))
                    })
                    .collect();
                assert_eq!(pairs.len(), ways as usize * COMMANDS.len(), "{harm}, {ways}");
            }
        }
    }

    #[test]
    fn every_harm_is_told_by_four_bars_that_one_failure_misses() {
        let count = Count { ledgers: 3, slow: 1, crashed: 0, acting: 0, executed: 0 };
        let met = of_kind(Harm::View, count).map(|line| line.is_met());
        assert_eq!(met, [false, true, true, true]);
    }
}
