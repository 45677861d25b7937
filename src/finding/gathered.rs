//! Runs of one question, gathered from the folders in which runs are kept.

use super::kept::{findings, is_foreign, is_like};
use super::{Findings, foreign, number, question};
use crate::fault::Fault;
use crate::ledger::{Ledger, shelf};
use std::path::{Path, PathBuf};

/// Runs of one question, and what is to be said of those that are not among them.
#[derive(Debug)]
pub struct Gathered {
    /// The findings of each: of the others the oldest first, and the one that was asked for last.
    pub runs: Vec<Findings>,
    /// Notes for people.
    pub notes: Vec<String>,
}

impl Gathered {
    /// Gathers the run in a file, and the latest of those in the folders that ask the same, so many
    /// in all at most. One that cannot be read is told of and left out.
    ///
    /// # Errors
    /// The user's or the machine's: the run that was asked for cannot be read, or no folder can.
    pub fn of(path: &Path, directories: &[PathBuf], most: usize) -> Result<Self, Fault> {
        let ledger = Ledger::open(path)?;
        let (asked, plan) = (findings(&ledger)?, ledger.plan()?);
        drop(ledger);
        let mut gathered = Self { runs: Vec::new(), notes: Vec::new() };
        gathered.note_foreign(path, &asked);
        gathered.runs.push(asked);
        let mut others = 0;
        for other in shelf::list(directories)?.iter().rev().filter(|other| *other != path) {
            // To see that a run asks something else is quick, and to read one is not.
            let read = || match is_like(other, &plan)? {
                true => findings(&Ledger::open(other)?).map(Some),
                false => Ok(None),
            };
            match read() {
                Ok(None) => {}
                Ok(Some(found)) if question::require_one(&found, &gathered.runs[0]).is_err() => {
                    others += 1;
                }
                // A copy is the same run, and one that somebody here vouches for comes first.
                Ok(Some(found)) if let Some(known) = gathered.of_id(&found.run.id) => {
                    if is_foreign(known) && !is_foreign(&found) {
                        *known = found;
                    }
                }
                Ok(Some(_)) if gathered.runs.len() == most => {
                    gathered.notes.push(format!("only the latest {most} runs are shown"));
                    break;
                }
                Ok(Some(found)) => {
                    gathered.note_foreign(other, &found);
                    gathered.runs.push(found);
                }
                Err(fault) => gathered.notes.push(foreign::line(&fault.message)),
            }
        }
        if others > 0 {
            let runs = number::count(others, "run");
            let note = format!("{runs} of the same command asked for something else beside it");
            gathered.notes.push(note);
        }
        gathered.runs.reverse();
        Ok(gathered)
    }

    fn of_id(&mut self, id: &str) -> Option<&mut Findings> {
        self.runs.iter_mut().find(|it| it.run.id == id)
    }

    fn note_foreign(&mut self, path: &Path, findings: &Findings) {
        if is_foreign(findings) {
            let shown = path.display().to_string();
            self.notes.push(format!(
                "nobody here vouches for the run in `{}`: this user did not begin it on this \
                 machine, or its plan was changed",
                foreign::line(&shown)
            ));
        }
    }
}
