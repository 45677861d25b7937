//! Planted invalidity: faults that make a comparison worthless, and whether the findings say so.
//!
//! Each fault leaves a mark when it happens, beside the ledger, and only what left one is counted as
//! tried: a fault that did not happen was not caught either. A kind that nothing catches is listed
//! with the reason and has no bar.

use super::bench::{Marks, compared, draft};
use super::{Bar, Bench, Line, Proof, Size};
use crate::fault::Fault;
use crate::report::{ArmFindings, Findings, Verdict};
use std::path::Path;

/// Blocks of a run with a fault in it.
const BLOCKS: u32 = 3;

/// A fault: what happens in the compared stack and not in its baseline.
struct Kind {
    name: &'static str,
    /// What the shell does; `FAULT` is set in the compared stack alone, and `mark` leaves a mark.
    script: &'static str,
    /// Whether the findings say it, as far as surtax promises.
    is_caught: fn(&Findings, &ArmFindings) -> bool,
    /// Why it is not expected to be caught.
    not_caught: Option<&'static str>,
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "less work, and less is printed",
        script: "n=300; [ $FAULT ] && n=150 && mark; seq $n",
        is_caught: outputs_differ,
        not_caught: None,
    },
    Kind {
        name: "exit status 3",
        script: "seq 300; [ $FAULT ] && mark && exit 3; :",
        is_caught: is_invalid,
        not_caught: None,
    },
    Kind {
        name: "exit status 3 in one block",
        script: "seq 300; [ $FAULT ] && [ ! -s $MARK ] && mark && exit 3; :",
        is_caught: is_said_to_have_lost_trials,
        not_caught: None,
    },
    Kind {
        name: "output truncated",
        script: "n=9999; [ $FAULT ] && n=500 && mark; seq 300 | head -c $n",
        is_caught: outputs_differ,
        not_caught: None,
    },
    Kind {
        name: "another program of that name, with another result",
        script: "program() { echo 1; }; [ $FAULT ] && mark && program() { echo 2; }; program",
        is_caught: outputs_differ,
        not_caught: None,
    },
    Kind {
        name: "another program of that name, with the same result",
        script: "program() { seq 2000 | tail -n 1; }; \
                 [ $FAULT ] && mark && program() { echo 2000; }; program",
        is_caught: is_said_at_all,
        not_caught: Some("the command's own file is not looked at, only what it prints"),
    },
    Kind {
        name: "stopped for 100 ms",
        script: "[ $FAULT ] && mark && { (sleep 0.1; kill -CONT $$) & kill -STOP $$; wait; }; :",
        is_caught: is_said_at_all,
        not_caught: Some("a stopped command looks like a slow one, and its stack is charged"),
    },
];

pub(super) struct Invalid;

impl Proof for Invalid {
    fn name(&self) -> &'static str {
        "invalid"
    }

    fn summary(&self) -> &'static str {
        "faults planted in one stack: how many the findings tell of"
    }

    fn run_count(&self, size: Size) -> u32 {
        per_kind(size) * u32::try_from(KINDS.len()).unwrap_or(u32::MAX) + 1
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Line>, Fault> {
        let count = per_kind(size);
        let mut lines = Vec::new();
        for kind in &KINDS {
            let (mut happened, mut caught) = (0, 0);
            for seed in 0..count {
                let (was_there, was_caught) = plant(bench, kind, seed.into())?;
                happened += u32::from(was_there);
                caught += u32::from(was_there && was_caught);
            }
            lines.push(line(kind, count, happened, caught));
        }
        lines.push(accelerator(bench)?);
        Ok(lines)
    }
}

fn per_kind(size: Size) -> u32 {
    size.pick(2, 20)
}

/// Plants a fault once: whether it happened, and whether it was caught.
fn plant(bench: &Bench<'_>, kind: &Kind, seed: u64) -> Result<(bool, bool), Fault> {
    let marks = Marks::new(bench.directory()?)?;
    let mut draft = draft("native", &["native:env.FAULT=1"], BLOCKS, seed)?;
    let script = format!("mark() {{ echo x >> $MARK; }}; {}", kind.script);
    draft.command = vec![String::from("sh"), String::from("-c"), script];
    draft.inherit_environment = Some(true);
    draft.environment = vec![(String::from("MARK"), text(&marks.file()))];
    draft.writable = vec![marks.directory().to_owned()];
    let findings = bench.findings(draft)?;
    let arm = compared(&findings).first();
    let arm = arm.ok_or_else(|| Fault::bug("a fault was planted in no arm"))?;
    Ok((marks.any()?, (kind.is_caught)(&findings, arm)))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn has_caution(findings: &Findings, code: &str) -> bool {
    findings.cautions.iter().any(|caution| caution.code == code)
}

fn outputs_differ(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "outputs-differ")
}

fn is_invalid(_: &Findings, arm: &ArmFindings) -> bool {
    matches!(arm.verdict, Verdict::Invalid { .. })
}

fn is_said_to_have_lost_trials(findings: &Findings, _: &ArmFindings) -> bool {
    has_caution(findings, "trials-lost")
}

/// A trial that does not count, or a caution that is about the fault and not about so short a run.
fn is_said_at_all(findings: &Findings, arm: &ArmFindings) -> bool {
    let usual = ["few-trials", "noisy-machine", "bill-overdrawn"];
    arm.trials.iter().any(|trial| trial.state != "done")
        || findings.cautions.iter().any(|caution| !usual.contains(&caution.code.as_str()))
}

fn line(kind: &Kind, planned: u32, happened: u32, caught: u32) -> Line {
    let (bar, because) = match kind.not_caught {
        Some(why) => (Bar::Shown, format!("not caught: {why}")),
        None => (Bar::AtLeast(planned), String::from("every one that was planned must happen")),
    };
    Line {
        proof: "invalid",
        part: kind.name.to_owned(),
        tried: happened,
        found: caught,
        what: "caught",
        bar,
        because,
    }
}

/// KVM is asked for by name: on a machine that has none, it must not be TCG that is measured. Where
/// KVM works the fault cannot be planted, and the line says so.
fn accelerator(bench: &Bench<'_>) -> Result<Line, Fault> {
    let findings = bench.findings(draft("native", &["qemu:accel=kvm"], 1, 0)?)?;
    let arm = compared(&findings).first();
    let arm = arm.ok_or_else(|| Fault::bug("no arm was to run under KVM"))?;
    let ran_on = arm.evidence.iter().flat_map(|level| &level.facts);
    let mut ran_on =
        ran_on.filter(|fact| fact.key == "accelerator").map(|fact| fact.value.as_str());
    let refused = match &arm.verdict {
        Verdict::Invalid { reason } => Some(reason.as_str()),
        _ => None,
    };
    let (tried, found, bar, because) = judge_accelerator(refused, ran_on.next_back());
    let part = String::from("KVM is asked for where there is only TCG");
    Ok(Line { proof: "invalid", part, tried, found, what: "caught", bar, because })
}

fn judge_accelerator(refused: Option<&str>, ran_on: Option<&str>) -> (u32, u32, Bar, String) {
    match (refused, ran_on) {
        (Some(why), _) => (1, 1, Bar::AtLeast(1), format!("it was refused: {why}")),
        (None, Some("kvm")) => {
            (0, 0, Bar::Shown, String::from("KVM works here, so it cannot be planted"))
        }
        (None, other) => {
            let shown = other.unwrap_or("nothing that it names");
            (1, 0, Bar::AtLeast(1), format!("it ran on {shown} under the name of KVM"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_did_not_happen_was_not_caught_either() {
        assert!(line(&KINDS[0], 2, 2, 2).is_met());
        assert!(!line(&KINDS[0], 2, 1, 1).is_met());
        assert!(!line(&KINDS[0], 2, 2, 1).is_met());
    }

    #[test]
    fn tcg_under_the_name_of_kvm_misses_the_bar() {
        let is_met = |refused, ran_on| {
            let (_, found, bar, _) = judge_accelerator(refused, ran_on);
            bar.holds(found)
        };
        assert!(is_met(Some("no KVM"), None) && is_met(None, Some("kvm")));
        assert!(!is_met(None, Some("tcg")) && !is_met(None, None));
    }
}
