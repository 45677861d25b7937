//! Out of memory: the kernel kills somebody of a stack at its limit, and every such trial must name
//! the limit.
//!
//! In every stack with a limit it is the command itself, or a child of one that ends with status 0
//! all the same: that trial would count. It fails where no trial says which limit of which layer it
//! was, and what would raise it.

use super::bench::{TRIALS_OF_A_FAILED_RUN, draft};
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::Fault;
use serde::{Deserialize, Serialize};

/// Takes 400 MB in one process, if nobody stops it: the machine itself is never in danger.
const HOG: &str = "head -c 400000000 /dev/zero | tail -c 350000000 > /dev/null";

/// A stack with the layer and the limit that are to be named, the quick ones first.
const STACKS: [(&str, &str, &str); 14] = [
    ("native:memory=64M", "native", "64M"),
    ("runc:memory=64M", "runc", "64M"),
    ("crun:memory=64M", "crun", "64M"),
    ("gvisor:memory=128M", "gvisor", "128M"),
    ("namespaces:memory=64M", "namespaces", "64M"),
    ("bubblewrap:memory=64M", "bubblewrap", "64M"),
    ("nspawn:memory=64M", "nspawn", "64M"),
    ("lxc:memory=64M", "lxc", "64M"),
    ("podman:memory=64M", "podman", "64M"),
    ("docker:memory=64M", "docker", "64M"),
    ("runc:memory=64M+crun", "runc", "64M"),
    ("runc:memory=64M+crun:memory=1G", "runc", "64M"),
    ("runc:memory=1G+crun:memory=64M", "crun", "64M"),
    ("qemu:accel=tcg,memory=256M", "qemu", "256M"),
];

/// Number of them that are quick.
const QUICK_STACKS: usize = 2;

pub(super) const PROOF: Proof = Proof {
    name: "oom",
    summary: "kills for want of memory, of the command and of a child: whether the limit is named",
    parts: |size| {
        let run_ms = |stack: &str| if stack.starts_with("qemu") { 25_000 } else { 2500 };
        let part = |stack| Part::alone(part_of(stack), per_stack(size), run_ms(stack));
        stacks(size).iter().map(|(stack, ..)| part(stack)).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    for limited in stacks(size) {
        if !bench.takes(&part_of(limited.0), per_stack(size)) {
            continue;
        }
        for kind in &KINDS {
            let mut count = Count::default();
            let done = kill(bench, limited, kind, size, &mut count);
            figures.push(count.line(limited.0, kind));
            done?;
        }
    }
    Ok(())
}

fn part_of(stack: &str) -> String {
    format!("oom/{stack}")
}

fn stacks(size: Size) -> &'static [(&'static str, &'static str, &'static str)] {
    match size {
        Size::Quick => &STACKS[..QUICK_STACKS],
        Size::Full => &STACKS,
    }
}

/// Returns the number of runs of each kind in each stack: in full a hundred trials.
fn per_kind(size: Size) -> u32 {
    size.pick(1, 100 / TRIALS_OF_A_FAILED_RUN)
}

fn per_stack(size: Size) -> u32 {
    per_kind(size) * u32::try_from(KINDS.len()).unwrap_or(u32::MAX)
}

/// Process that is killed.
struct Kind {
    name: &'static str,
    /// Words of the shell before the greedy process, and behind it.
    around: [&'static str; 2],
}

const KINDS: [Kind; 2] = [
    Kind { name: "the command", around: ["exec ", ""] },
    Kind { name: "a child", around: ["", "; exit 0"] },
];

/// Counts of the tries and of those in which the limit was named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    tried: u32,
    named: u32,
    /// State and reason of the first that was not named; `None` if all were.
    instead: Option<String>,
    /// Reason why the stack does not run here.
    gap: Option<String>,
}

impl Count {
    fn add(
        &mut self,
        (_, layer, memory): (&str, &str, &str),
        (state, why, remedy): (&str, &str, Option<&str>),
    ) {
        if state == "unavailable" {
            self.gap.get_or_insert_with(|| why.to_owned());
            return;
        }
        self.tried += 1;
        let limit = format!("the memory limit `memory={memory}` of `{layer}` was exceeded: ");
        let is_named = !matches!(state, "done" | "disturbed")
            && why.starts_with(&limit)
            && why.contains("killed by the kernel (OOM)")
            && remedy.is_some_and(|it| it.contains(&format!("`{layer}:memory=")));
        if is_named {
            self.named += 1;
        } else {
            self.instead.get_or_insert_with(|| format!("{state}: {why}"));
        }
    }

    fn join(&mut self, other: Self) {
        self.tried += other.tried;
        self.named += other.named;
        self.instead = self.instead.take().or(other.instead);
        self.gap = self.gap.take().or(other.gap);
    }

    fn line(self, stack: &str, kind: &Kind) -> Figure {
        let (bar, because) = match (&self.gap, self.instead) {
            (Some(why), None) if self.tried == 0 => {
                (Bar::Shown, format!("it does not run here: {why}"))
            }
            (_, Some(instead)) => (Bar::AtLeast(self.tried), format!("first: {instead}")),
            (_, None) => (Bar::AtLeast(self.tried), String::from("all must be")),
        };
        let part = format!("{stack}, {}", kind.name);
        Figure::new(part, [self.tried, self.named], "named with limit and remedy").bar(bar, because)
    }
}

/// Has somebody killed in a stack, run after run.
fn kill(
    bench: &Bench<'_>,
    limited: &(&'static str, &'static str, &'static str),
    kind: &Kind,
    size: Size,
    count: &mut Count,
) -> Result<(), Fault> {
    let (stack, [before, behind]) = (limited.0, kind.around);
    let script = format!("{before}{HOG}{behind}");
    for number in bench.units(per_kind(size)) {
        let unit = format!("oom/{stack}/{}/{number}", kind.name);
        let one = bench.unit(&unit, 1, || {
            let mut draft = draft(stack, &[], TRIALS_OF_A_FAILED_RUN / 2, number.into())?;
            draft.command = ["sh".into(), "-c".into(), script.as_str().into()].to_vec();
            let findings = bench.findings(draft)?;
            let mut one = Count::default();
            for trial in findings.arms.iter().flat_map(|arm| &arm.trials) {
                one.add(*limited, (&trial.state, &trial.why, trial.remedy.as_deref()));
            }
            Ok(one)
        })?;
        count.join(one);
        if count.gap.is_some() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_that_is_not_named_or_counts_misses_the_bar() {
        let said = "the memory limit `memory=64M` of `runc` was exceeded: 1 process killed by the \
                    kernel (OOM)";
        let advice = Some("raise it: `runc:memory=128M`");
        let is_met = |state: &str, why: &str, remedy: Option<&str>| {
            let mut count = Count::default();
            count.add(STACKS[1], ("failed", said, advice));
            count.add(STACKS[1], (state, why, remedy));
            count.line("runc", &KINDS[1]).is_met()
        };
        assert!(is_met("invalid", said, advice));
        assert!(!is_met("done", said, advice));
        assert!(!is_met("failed", "the command failed: signal 9", advice));
        assert!(!is_met("failed", said, None));
        assert!(is_met("unavailable", "`runc` is not installed", None));
        let mut gap = Count::default();
        gap.add(STACKS[1], ("unavailable", "`runc` is not installed", None));
        assert_eq!(gap.clone().line("runc", &KINDS[1]).bar, Bar::Shown);
        gap.add(STACKS[1], ("done", "", None));
        assert!(!gap.line("runc", &KINDS[1]).is_met(), "a gap hides no miss");
    }
}
