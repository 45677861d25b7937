//! The failure of an arm: why it has no number or fewer, its last words, and what would help.
//!
//! A hint that was given when a trial ended may be made better by the other trials: of memory that
//! ran out in one stack, the baseline says how much is enough.

use crate::driver;
use crate::fault::Fault;
use crate::finding::ArmFailure;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::estimate::Baseline;
use crate::finding::foreign::{last_words, line, lines};
use crate::finding::sources::Sources;
use crate::ledger::{StoredTrial, Stream, TrialState};
use crate::plan::Word;
use crate::rootfs::secrets;
use crate::trial::oom;
use surtax_instrument::quantity::Bytes;

/// Exit status of a command that was killed at its deadline.
const DEADLINE: &str = "deadline";

/// Number of words of a command, and bytes of them, that are searched for the name of a secret: a
/// stranger's ledger has a command of any length.
const WORDS_READ: usize = 1000;
const WORDS_READ_BYTES: usize = 64 << 10;

/// The last trial of an arm that did not succeed.
pub(super) fn last_trouble<'a>(column: &ArmTrials<'a>) -> Option<&'a StoredTrial> {
    let is_trouble = |trial: &&&StoredTrial| {
        use TrialState::{Disturbed, Done, Running, Void};
        !matches!(trial.state, Done | Disturbed | Void | Running)
    };
    column.ended.iter().rev().find(is_trouble).copied()
}

/// Says why an arm has no numbers, or fewer: its last trial that did not succeed; what is `void` is
/// no sign.
pub(super) fn trouble(
    sources: &Sources<'_>,
    column: &ArmTrials<'_>,
) -> Result<Option<ArmFailure>, Fault> {
    let Some(last) = last_trouble(column) else { return Ok(None) };
    let why = match (&last.exit_status, last.state) {
        (Some(status), TrialState::Failed) if status == DEADLINE => {
            String::from("the command was killed at its deadline")
        }
        (Some(status), TrialState::Failed) => format!("the command failed: {status}"),
        _ => last.why.clone(),
    };
    let ledger = sources.ledger;
    let words = |stream| -> Result<Option<String>, Fault> {
        Ok(ledger.tail(column.arm.index, last.state, stream)?.as_deref().and_then(last_words))
    };
    // A command that fails without a word on standard error has often said why on the other.
    let last_words = match words(Stream::Stderr)? {
        None if last.state == TrialState::Failed => words(Stream::Stdout)?,
        words => words,
    };
    let peak = peak_of(sources.baseline).filter(|_| column.arm.is_compared());
    let exceeded = ledger.last_condition(column.arm.index, last.state, oom::EXCEEDED)?;
    let enough = exceeded.zip(peak).and_then(|(exceeded, peak)| {
        let baseline = sources.plan.baseline.to_string();
        oom::enough(&column.arm.stack, exceeded, (&baseline, peak))
    });
    let remedy = enough.as_deref().or(last.remedy.as_deref()).map(line);
    let of_command = || {
        let missed = missed_secret(sources, column, last_words.as_deref());
        missed.or_else(|| against_failure(sources, column, last))
    };
    let is_failure = last.state == TrialState::Failed;
    Ok(Some(ArmFailure {
        why: lines(&why),
        remedy: remedy.or_else(|| is_failure.then(of_command).flatten()),
        stderr: last_words,
    }))
}

/// Returns what helps against a failure of the command that may be meant: another limit where it
/// takes long, and of one that never succeeds in the baseline, on which all else waits, that its
/// failures count.
fn against_failure(
    sources: &Sources<'_>,
    column: &ArmTrials<'_>,
    last: &StoredTrial,
) -> Option<String> {
    let status = last.exit_status.as_deref()?;
    if status == DEADLINE {
        return Some(String::from("give it more time with `--deadline`, or find out why it hangs"));
    }
    let is_baseline = !column.arm.is_compared() && column.counted.is_empty();
    (is_baseline && sources.plan.workload.is_none() && status.starts_with("exit ")).then(|| {
        String::from("make the command succeed here; `--ignore-failure` counts failures too")
    })
}

/// Returns a hint for a command that seems to have looked for what its stack conceals: by what it
/// said last, or was told to read.
fn missed_secret(
    sources: &Sources<'_>,
    column: &ArmTrials<'_>,
    said: Option<&str>,
) -> Option<String> {
    let outermost = column.arm.stack.layers.first()?;
    if !driver::conceals_secrets(outermost) {
        return None;
    }
    let of_command = || *sources.asked_for.get_or_init(|| asked_for(&sources.plan.command));
    let name = said.and_then(secrets::spoken_of).or_else(of_command)?;
    let kind = line(&outermost.kind);
    Some(format!(
        "`{name}` is concealed in `{kind}`: `{kind}:secrets=shown` shows it to the command"
    ))
}

/// The secret that a command names, among as many of its words as anybody types.
fn asked_for(command: &[Word]) -> Option<&'static str> {
    let mut left = WORDS_READ_BYTES;
    let words = command.iter().take(WORDS_READ).filter_map(Word::text);
    let mut short = words.take_while(|word| {
        let is_within = word.len() <= left;
        left = left.saturating_sub(word.len());
        is_within
    });
    short.find_map(secrets::spoken_of)
}

/// Returns the most memory that the command used in a trial of the baseline that counts.
fn peak_of(baseline: &Baseline<'_>) -> Option<Bytes> {
    let trials = baseline.first.iter().chain(baseline.again);
    trials.filter_map(|trial| Some(Bytes(trial.sample("memory_peak_bytes")?.whole))).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare;
    use crate::ledger::fixture::{add, done, id, ledger, record};
    use crate::trial::{Reason, TrialResult};

    #[test]
    fn no_more_of_a_command_is_searched_for_secrets_than_anybody_types() {
        let after = |many: usize, word: &str| {
            let words = std::iter::repeat_n(word, many).chain(["/root/.ssh"]);
            asked_for(&words.map(Word::from).collect::<Vec<_>>())
        };
        assert_eq!([after(999, ""), after(1000, "")], [Some(".ssh"), None]);
        let long = "x".repeat(10_000);
        assert_eq!([after(6, &long), after(7, &long)], [Some(".ssh"), None]);
    }

    #[test]
    fn what_ran_out_of_memory_is_advised_by_what_the_baseline_used() {
        let remedy = |with_baseline: bool| {
            let shelf = tempfile::tempdir().unwrap();
            let stacks = ["native", "runc:memory=2M"];
            let mut ledger = ledger(&shelf.path().join("run.surtax"), &stacks);
            if with_baseline {
                add(&mut ledger, &done(id(0, 0), 10));
            }
            let reason = Reason {
                why: "the memory limit `memory=2M` of `runc` was exceeded".into(),
                remedy: Some("give it `runc:memory=4M` or more".into()),
            };
            let mut broken = record(id(0, 2), TrialResult::Broken(reason));
            broken.conditions.push((oom::EXCEEDED.into(), 1.0));
            add(&mut ledger, &broken);
            let findings = compare(&ledger).unwrap();
            findings.arms[2].trouble.clone().unwrap().remedy.unwrap()
        };
        assert_eq!(remedy(false), "give it `runc:memory=4M` or more");
        assert_eq!(
            remedy(true),
            "give it `runc:memory=28M` or more, since the command used up to 20.0 MiB in \
             `native`, or let it use less"
        );
    }
}
