//! Runs that are kept: what a list says of each, and what each found.

use super::caution::{FOREIGN_RUN, caution};
use super::{Caution, Findings, compare};
use crate::fault::Fault;
use crate::ledger::{Ledger, RunState, calendar, shelf};
use crate::plan::Plan;
use std::path::Path;
use surtax_instrument::quantity::Nanoseconds;

/// One run in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct KeptRun {
    /// Name of its file, without the ending.
    pub name: String,
    #[serde(skip)]
    began: Nanoseconds,
    /// Time when it began, as RFC 3339 has it.
    pub began_at: String,
    /// State: `finished`, `running` or `interrupted`.
    pub state: &'static str,
    /// Number of trials that are in the results.
    pub counted_trial_count: u64,
    /// From the first trial's begin to the last one's end.
    pub wall_ns: Option<u64>,
    /// Stacks that it compares, as they were asked for.
    pub stacks: Vec<String>,
    /// Title that its user gave it, or its command.
    pub title: String,
    /// Path of the run file; what of it is not UTF-8 is shown as `�`.
    pub path: String,
}

impl KeptRun {
    /// Reads what a list says of the run in a file.
    ///
    /// # Errors
    /// The user's or the machine's: it is no run, or it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let ledger = Ledger::open(path)?;
        let run = ledger.run()?;
        Ok(Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            began: run.began_at,
            began_at: calendar::rfc3339(run.began_at),
            state: run.state.word(),
            counted_trial_count: ledger.counted_trial_count()?,
            wall_ns: ledger.took()?.map(|took| took.0),
            // A plan that this surtax does not know is a run all the same.
            stacks: ledger.plan().map_or_else(
                |_| Vec::new(),
                |plan| plan.stacks.iter().map(ToString::to_string).collect(),
            ),
            title: run.title,
            path: path.to_string_lossy().into_owned(),
        })
    }

    /// Tells whether a surtax works on it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == RunState::Running.word()
    }

    /// Returns its state in words; one that ended without a number says so.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        let is_empty = self.state == RunState::Finished.word() && self.counted_trial_count == 0;
        if is_empty { "nothing counts" } else { self.state }
    }

    /// Returns the time since it began, in one unit.
    #[must_use]
    pub fn ago(&self, now: Nanoseconds) -> String {
        ago(now.since(self.began))
    }
}

/// Reads what the run in a ledger found. Where nobody here vouches for it, that is the first
/// caution, which every format shows whole.
///
/// # Errors
/// The user's or the machine's: it cannot be read.
pub fn findings(ledger: &Ledger) -> Result<Findings, Fault> {
    let mut findings = compare(ledger)?;
    if !ledger.is_made_here() && !shelf::is_of_sudo(ledger.path()) {
        findings.cautions.insert(0, foreign_run());
    }
    Ok(findings)
}

/// Tells whether nobody here vouches for what was read.
#[must_use]
pub fn is_foreign(findings: &Findings) -> bool {
    findings.cautions.iter().any(is_that_nobody_vouches)
}

/// Tells whether a caution says that nobody here vouches for a run.
pub(crate) fn is_that_nobody_vouches(caution: &Caution) -> bool {
    caution.code == FOREIGN_RUN
}

fn foreign_run() -> Caution {
    caution(
        FOREIGN_RUN,
        "the run was not begun by the user on the machine that made this report, or its plan was \
         changed: its numbers, and the command that repeats it, are those of whoever wrote it"
            .into(),
        "believe it as far as you believe whom it is from, or repeat it here",
    )
}

/// Tells whether a file holds a run of the same command or workload; to see that is quick, and to
/// read what it found is not.
///
/// # Errors
/// The user's or the machine's: it is no run, or it cannot be read.
pub fn is_like(path: &Path, plan: &Plan) -> Result<bool, Fault> {
    let name = |plan: &Plan| plan.workload.as_ref().map(|it| it.name.clone());
    let found = Ledger::open(path)?.plan()?;
    Ok(match (name(&found), name(plan)) {
        (None, None) => found.command == plan.command,
        (one, other) => one == other,
    })
}

/// Time since then, in one unit.
fn ago(since: Nanoseconds) -> String {
    let minutes = since.0 / 60_000_000_000;
    let (count, unit) = match minutes {
        0 => return String::from("just now"),
        1..60 => (minutes, "min"),
        60..2880 => (minutes / 60, "h"),
        _ => (minutes / 1440, "days"),
    };
    format!("{count} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ago_is_told_in_one_unit() {
        let told = |seconds: u64| ago(Nanoseconds(seconds * 1_000_000_000));
        let times = [59, 60, 3_599, 3_600, 86_400, 172_800].map(told);
        let expected = ["just now", "1 min ago", "59 min ago", "1 h ago", "24 h ago", "2 days ago"];
        assert_eq!(times, expected);
    }
}
