//! `surtax gc`: removes what a killed surtax left on this machine.

use super::{Globals, answer, note};
use crate::fault::Fault;
use crate::finding::foreign;
use crate::lab::{self, SweepReport};

/// Flags of `surtax gc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

pub(super) fn run(globals: &Globals) -> Result<(), Fault> {
    let report = lab::gc()?;
    for stray in &report.strays {
        note(&format!("`{stray}` looks like ours, is in no journal, and was left alone"), globals);
    }
    for line in &report.elsewhere {
        note(&format!("{line}; remove it by hand where no surtax uses it"), globals);
    }
    if !rustix::process::geteuid().is_root() {
        note("to remove what other users' runs left takes root: `sudo surtax gc`", globals);
    }
    answer(&text(&report))?;
    match report.kept.as_slice() {
        [] => Ok(()),
        kept => {
            let again = if rustix::process::geteuid().is_root() { "surtax" } else { "sudo surtax" };
            Err(Fault::machine(format!("cannot remove everything:\n    {}", kept.join("\n    ")))
                .hint(format!(
                    "once whoever uses it has ended, run `{again} gc` again; or restart the machine"
                )))
        }
    }
}

fn text(report: &SweepReport) -> String {
    let removed = report.undone.iter().chain(&report.over);
    let removed: String = removed.map(|line| foreign::line(line) + "\n").collect();
    match removed.is_empty() && report.kept.is_empty() {
        true => String::from("nothing to remove\n"),
        false => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_machine_is_said_to_be_clean() {
        assert_eq!(text(&SweepReport::default()), "nothing to remove\n");
        let report = SweepReport {
            undone: vec![String::from("lab 7: a\x1bcgroup")],
            ..SweepReport::default()
        };
        assert_eq!(text(&report), "lab 7: a\\u{1b}cgroup\n");
        let over = vec![String::from("lab 8: its groups")];
        assert_eq!(text(&SweepReport { over, ..SweepReport::default() }), "lab 8: its groups\n");
        let report = SweepReport { kept: vec![String::from("lab 7")], ..SweepReport::default() };
        assert_eq!(text(&report), "");
    }
}
