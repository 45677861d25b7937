//! `surtax gc`: removes what a killed surtax left on this machine.

use super::{Globals, answer, note};
use crate::fault::Fault;
use crate::finding::foreign;
use crate::lab::{self, Swept};

/// Flags of `surtax gc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

pub(super) fn run(globals: &Globals) -> Result<(), Fault> {
    let swept = lab::gc()?;
    for stray in &swept.strays {
        note(&format!("`{stray}` looks like ours, is in no journal, and was left alone"), globals);
    }
    for line in &swept.elsewhere {
        note(&format!("{line}; remove it by hand where no surtax uses it"), globals);
    }
    if !rustix::process::geteuid().is_root() {
        note("to remove what other users' runs left takes root: `sudo surtax gc`", globals);
    }
    answer(&text(&swept))?;
    match swept.kept.as_slice() {
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

fn text(swept: &Swept) -> String {
    match swept.undone.as_slice() {
        [] if swept.kept.is_empty() => String::from("nothing to remove\n"),
        undone => undone.iter().map(|line| foreign::line(line) + "\n").collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_machine_is_said_to_be_clean() {
        assert_eq!(text(&Swept::default()), "nothing to remove\n");
        let swept = Swept { undone: vec![String::from("lab 7: a\x1bcgroup")], ..Swept::default() };
        assert_eq!(text(&swept), "lab 7: a\\u{1b}cgroup\n");
        let swept = Swept { kept: vec![String::from("lab 7")], ..Swept::default() };
        assert_eq!(text(&swept), "");
    }
}
