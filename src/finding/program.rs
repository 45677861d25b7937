//! Check that every arm ran the same file as its command.
//!
//! The agent says which file that was, and hashes it. A stack whose `root=` is another one than the
//! baseline's has other files because somebody wants it so, and that is only said. Anywhere else
//! another file is another program, and there is nothing to compare.

use crate::driver;
use crate::finding::Caution;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::{Signs, caution};
use crate::finding::foreign::line;
use crate::layer::Root;
use crate::ledger::Proofs;
use crate::trial::COMMAND_FILE_CHANGED;
use std::collections::{BTreeMap, BTreeSet};
use surtax_instrument::wire::LevelFacts;

/// Number of characters of a hash that tell two files apart for people.
const HASH_SHOWN: usize = 8;

/// Identity of the program that the trials of an arm that count ran as the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramId {
    /// Root that the stack names, or the machine whose files it has.
    root: Option<String>,
    /// Each file, and where it was. Empty where nothing is known.
    files: BTreeMap<CommandFile, String>,
}

/// A file that was the command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CommandFile {
    /// File of that length and that hash.
    Read(String, String),
    /// File to which something happened before it could be read.
    Changed(String),
}

/// A program that is not the baseline's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Another {
    /// Both, in words.
    pub(crate) words: String,
    /// The stack names another root, so that other files are no surprise.
    pub(crate) is_asked_for: bool,
}

impl ProgramId {
    /// Identifies the program that an arm ran.
    pub(crate) fn of(column: &ArmTrials<'_>, proofs: &Proofs) -> Self {
        let numbers: BTreeSet<i64> =
            column.counted.iter().filter_map(|trial| trial.evidence).collect();
        let innermost = numbers.iter().filter_map(|number| proofs.get(number)?.last());
        let layers = &column.arm.stack.layers;
        Self {
            root: layers.iter().rev().find_map(|layer| {
                // An appliance holds its program, and shows none of this machine's files.
                let descriptor = driver::descriptor(&layer.kind);
                let is_own = descriptor
                    .is_some_and(|descriptor| descriptor.is_remote || descriptor.has_own_program);
                let machine = || is_own.then(|| layer.to_string());
                // What is packed are this machine's files, too.
                let is_packed = layer.root().is_ok_and(|root| root == Root::Packed);
                let root = layer.option("root").filter(|_| !is_packed);
                root.map(String::from).or_else(machine)
            }),
            files: innermost.filter_map(file).collect(),
        }
    }

    /// Adds what another arm ran, which is of the same stack.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self
    }

    /// Says how this is another program than the baseline's, or may be, where what either ran was
    /// changed; `None` too where nothing is known, or the baseline is not equal to itself.
    pub(crate) fn against(&self, baseline: &Self) -> Option<Another> {
        let is_known = !self.files.is_empty() && baseline.files.len() == 1;
        let is_same = baseline.is_read() && self.files.keys().eq(baseline.files.keys());
        (is_known && !is_same).then(|| Another {
            words: format!("it ran {}, and the baseline {}", self.words(), baseline.words()),
            is_asked_for: self.root != baseline.root && self.is_read() && baseline.is_read(),
        })
    }

    /// Tells whether every file could be read as it had run.
    fn is_read(&self) -> bool {
        self.files.keys().all(|file| matches!(file, CommandFile::Read(..)))
    }

    fn words(&self) -> String {
        let words = |(file, path): (&CommandFile, &String)| match file {
            CommandFile::Read(length, hash) => {
                let hash: String = hash.chars().take(HASH_SHOWN).collect();
                format!("`{}` ({} bytes, hash {}…)", line(path), line(length), line(&hash))
            }
            CommandFile::Changed(what) => format!("`{}` ({})", line(path), line(what)),
        };
        self.files.iter().map(words).collect::<Vec<_>>().join(" and ")
    }
}

/// The command's file and its place, where the innermost level says so.
fn file(level: &LevelFacts) -> Option<(CommandFile, String)> {
    let fact = |key: &str| level.facts.iter().find(|fact| fact.key == key);
    let value = |key: &str| fact(key).map(|fact| fact.value.clone());
    let path = value("command_file");
    if let Some(what) = value(COMMAND_FILE_CHANGED) {
        return Some((
            CommandFile::Changed(what),
            path.unwrap_or_else(|| String::from("the command")),
        ));
    }
    Some((CommandFile::Read(value("command_file_bytes")?, value("command_file_xxh3")?), path?))
}

/// A caution for each arm that ran something else, and for a baseline that did.
pub(crate) fn cautions(signs: &Signs<'_>) -> Vec<Caution> {
    let ran: Vec<ProgramId> =
        signs.columns.iter().map(|column| ProgramId::of(column, signs.proofs)).collect();
    let [first, again, compared @ ..] = ran.as_slice() else { return Vec::new() };
    let baseline = first.clone().or(again.clone());
    let mut cautions = Vec::new();
    let trouble = match baseline.files.len() {
        0 | 1 if baseline.is_read() => None,
        0 | 1 => Some("what the baseline ran is not known"),
        _ => Some("the baseline itself ran more than one program"),
    };
    cautions.extend(trouble.map(|trouble| {
        caution(
            "another-program",
            format!("{trouble}: {}", baseline.words()),
            "let nothing replace the command's file while surtax measures",
        )
    }));
    let arms = signs.arms.iter().skip(ran.len() - compared.len());
    for (arm, ran) in arms.zip(compared) {
        let Some(Another { words, is_asked_for }) = ran.against(&baseline) else { continue };
        let stack = &arm.stack;
        cautions.push(if is_asked_for {
            caution(
                "another-root",
                format!("`{stack}` has another root, and another file as the command: {words}"),
                "take what it costs as that of stack and program together, or name one `root=` \
                 for all",
            )
            .of([stack.as_str()])
        } else {
            caution(
                "another-program",
                format!("`{stack}` is not compared: {words}"),
                "give every stack the same program: look at `PATH`, and at what replaces the file",
            )
            .of([stack.as_str()])
        });
    }
    cautions
}

#[cfg(test)]
mod tests {
    use crate::finding::program::*;
    use crate::finding::{Findings, Gap, Verdict, compare};
    use crate::ledger::fixture::{add, done, fact, id, ledger};
    use crate::trial::{Evidence, Record, TrialResult};

    const WRITTEN: &str = "something was written there";

    /// Three blocks; `hash` says which file an arm ran in a block, if it is known.
    fn findings(stacks: &[&str], hash: impl Fn(u32, u32) -> Option<&'static str>) -> Findings {
        let shelf = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&shelf.path().join("run.surtax"), stacks);
        for (block, arm) in (0..3).flat_map(|block| (0..3).map(move |arm| (block, arm))) {
            let mut record = done(id(block, arm), 1_000_000_000 + u64::from(block));
            name_file(&mut record, hash(block, arm));
            add(&mut ledger, &record);
        }
        compare(&ledger).unwrap()
    }

    fn name_file(record: &mut Record, hash: Option<&str>) {
        let TrialResult::Done(measured) = &mut record.result else { return };
        let mut levels = measured.evidence.levels().to_vec();
        let place = ("command_file", "/bin/it");
        let named = match hash {
            Some(WRITTEN) => vec![place, (COMMAND_FILE_CHANGED, WRITTEN)],
            Some(hash) => vec![place, ("command_file_bytes", "9"), ("command_file_xxh3", hash)],
            None => Vec::new(),
        };
        levels[0].facts.extend(named.into_iter().map(|(key, value)| fact(key, value)));
        measured.evidence = Evidence::of(levels).unwrap();
    }

    fn said<'a>(findings: &'a Findings, code: &str) -> Vec<&'a str> {
        let cautions = findings.cautions.iter().filter(|caution| caution.code == code);
        cautions.map(|caution| caution.finding.as_str()).collect()
    }

    #[test]
    fn the_same_file_everywhere_and_one_that_nobody_knows_are_compared() {
        for hash in [Some("aaaaaaaaaaaa"), None] {
            let found = findings(&["native", "runc"], |_, _| hash);
            assert_eq!(found.arms[2].verdict, Verdict::Equivalent);
            assert_eq!(said(&found, "another-program"), [""; 0]);
        }
    }

    #[test]
    fn another_file_is_not_compared_and_both_are_named() {
        let of_arm = |_, arm| Some(if arm == 2 { "bbbbbbbbbbbb" } else { "aaaaaaaaaaaa" });
        let found = findings(&["native", "runc"], of_arm);
        let reason = String::from("another program");
        assert_eq!(found.arms[2].verdict, Verdict::Invalid { gap: Gap::Rejected, reason });
        assert_eq!(found.arms[2].overhead, None);
        assert!(found.arms[2].metrics.iter().all(|metric| metric.overhead.is_none()));
        assert_eq!(
            said(&found, "another-program"),
            ["`runc` is not compared: it ran `/bin/it` (9 bytes, hash bbbbbbbb…), and the \
                 baseline `/bin/it` (9 bytes, hash aaaaaaaa…)"]
        );
    }

    #[test]
    fn another_file_in_one_block_is_not_compared_either() {
        let in_one =
            |block, arm| Some(if (block, arm) == (1, 2) { "bbbbbbbbbbbb" } else { "aaaaaaaaaaaa" });
        let found = findings(&["native", "runc"], in_one);
        assert!(matches!(found.arms[2].verdict, Verdict::Invalid { .. }));
        assert_eq!(said(&found, "evidence-changed").len(), 1);
    }

    #[test]
    fn a_baseline_that_ran_two_programs_is_told_of_and_condemns_nobody() {
        let of_arm = |_, arm| Some(if arm == 1 { "bbbbbbbbbbbb" } else { "aaaaaaaaaaaa" });
        let found = findings(&["native", "runc"], of_arm);
        assert!(said(&found, "another-program")[0].starts_with("the baseline itself ran more"));
        assert_eq!(found.arms[2].verdict, Verdict::Equivalent);
    }

    #[test]
    fn a_file_that_was_written_to_meanwhile_is_the_same_as_no_other() {
        let of_arm = |_, arm| Some(if arm == 2 { WRITTEN } else { "aaaaaaaaaaaa" });
        let found = findings(&["native", "runc"], of_arm);
        assert!(matches!(found.arms[2].verdict, Verdict::Invalid { gap: Gap::Rejected, .. }));
        assert!(said(&found, "another-program")[0].contains(WRITTEN));
        let found = findings(&["native", "runc"], |_, _| Some(WRITTEN));
        assert!(said(&found, "another-program")[0].starts_with("what the baseline ran is not"));
        assert!(matches!(found.arms[2].verdict, Verdict::Invalid { gap: Gap::Rejected, .. }));
    }

    #[test]
    fn another_machine_may_have_another_program_and_that_is_said() {
        let of_arm = |_, arm| Some(if arm == 2 { "bbbbbbbbbbbb" } else { "aaaaaaaaaaaa" });
        let found = findings(&["native", "ssh:host=lab7"], of_arm);
        assert_eq!(said(&found, "another-program"), [""; 0]);
        assert_eq!(said(&found, "another-root").len(), 1);
        assert_eq!(found.arms[2].verdict, Verdict::Equivalent);
    }

    #[test]
    fn another_root_may_have_another_program_and_that_is_said() {
        let ran = |root: Option<&str>, hash: &str| ProgramId {
            root: root.map(String::from),
            files: BTreeMap::from([(
                CommandFile::Read(String::from("9"), String::from(hash)),
                String::from("/bin/it"),
            )]),
        };
        let native = ran(None, "a");
        let asked = |other: &ProgramId| other.against(&native).map(|another| another.is_asked_for);
        assert_eq!(asked(&ran(Some("oci:/image"), "b")), Some(true));
        assert_eq!(asked(&ran(None, "b")), Some(false));
        assert_eq!(asked(&ran(Some("oci:/image"), "a")), None);
        assert_eq!(asked(&ProgramId::default()), None);
    }
}
