//! The mutants: which part of the method each breaks, by which change, and which proof must notice.

/// One change of the source that makes surtax wrong.
#[derive(Debug)]
pub struct Mutant {
    /// The word after `--only`.
    pub name: &'static str,
    /// Property that no longer holds, for people.
    pub breaks: &'static str,
    /// The file that is changed, from the root of the repository.
    pub path: &'static str,
    /// Text that stands there, exactly once.
    pub text: &'static str,
    /// Text that replaces it.
    pub instead: &'static str,
    /// The proofs of which one must miss a bar, as after `surtax prove --only`.
    pub proofs: &'static str,
}

/// Every mutant, in the order in which a number comes about: order, conditions, what counts,
/// estimate, verdict, cautions.
pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "order-fixed",
        breaks: "every block runs its arms in the order of the plan",
        path: "src/plan/order.rs",
        text: "arms.swap(unshuffled as usize - 1, below(unshuffled, &mut random) as usize);",
        instead: "below(unshuffled, &mut random);",
        proofs: "order",
    },
    Mutant {
        name: "order-of-the-run",
        breaks: "one random order is that of all blocks of a run",
        path: "src/plan/order.rs",
        text: "random.set_stream(u64::from(block));",
        instead: "random.set_stream(u64::from(block.min(0)));",
        proofs: "order",
    },
    Mutant {
        name: "conditions-ignored",
        breaks: "nothing that the machine does disturbs a trial",
        path: "src/trial/disturbance.rs",
        text: "value.filter(|value| *value > limit)",
        instead: "value.filter(|_| false)",
        proofs: "recounted",
    },
    Mutant {
        name: "disturbed-unrepeated",
        breaks: "a disturbed trial is not repeated",
        path: "src/campaign/repeat.rs",
        text: "return Next::Stands;\n        }\n        Next::Repeat",
        instead: "return Next::Stands;\n        }\n        Next::Stands",
        proofs: "recounted",
    },
    Mutant {
        name: "disturbed-counted",
        breaks: "a disturbed attempt counts beside its repeat",
        path: "src/finding/arm_trials.rs",
        text: "ended.iter().copied().filter(|trial| trial.state == TrialState::Done).collect()",
        instead: "ended.iter().copied().filter(|trial| matches!(trial.state, TrialState::Done | \
                  TrialState::Disturbed)).collect()",
        proofs: "recounted",
    },
    Mutant {
        name: "inside-unclamped",
        breaks: "what was counted inside raises the sum of the CPU time above what was seen from \
                 outside",
        path: "src/trial/outside.rs",
        text: "account.total_ns = (is_read && is_inside_known).then(|| inside.total());",
        instead: "account.total_ns = (is_read && is_inside_known).then(|| inside.total() + \
                  account.unseen_ns);",
        proofs: "bill",
    },
    Mutant {
        name: "overdrawn-made-to-fit",
        breaks: "a claim that leaves less than nothing for the others divides what was seen",
        path: "src/trial/outside.rs",
        text: "if excess > ROUNDING_NS {",
        instead: "if excess > ROUNDING_NS + carried / 20 + 20_000_000 {",
        proofs: "bill",
    },
    Mutant {
        name: "failures-counted",
        breaks: "a command that fails counts as one that succeeds",
        path: "src/trial/came_of.rs",
        text: "_ if !settings.counts(&measured.outcome) => \
               TrialResult::CommandFailed(measured),",
        instead: "_ if !settings.counts(&measured.outcome) && measured.wall.0 == 0 => \
                  TrialResult::CommandFailed(measured),",
        proofs: "invalid",
    },
    Mutant {
        name: "blocks-unpaired",
        breaks: "an arm is compared with the baseline of other blocks too",
        path: "src/finding/estimate.rs",
        text: "blocks.entry(trial.id.block).or_default()",
        instead: "blocks.entry(trial.id.block / 2).or_default()",
        proofs: "recounted",
    },
    Mutant {
        name: "second-arm-unused",
        breaks: "the baseline's second arm is left out of the overhead",
        path: "src/finding/estimate.rs",
        text: "let baseline = by_block(self.first.iter().chain(self.again), measure);",
        instead: "let baseline = by_block(self.first.iter(), measure);",
        proofs: "recounted",
    },
    Mutant {
        name: "second-arm-equal",
        breaks: "the baseline is compared with itself and not with its second arm",
        path: "src/finding/estimate.rs",
        text: "&by_block(self.again.iter(), measure))",
        instead: "&by_block(self.first.iter(), measure))",
        proofs: "false-positives,recounted",
    },
    Mutant {
        name: "estimate-shifted",
        breaks: "the estimate and its interval are 3 % too high",
        path: "statistics/src/overhead.rs",
        text: "let shift = skew_shift(blocks, found.centre);",
        instead: "let shift = skew_shift(blocks, found.centre) + 0.03;",
        proofs: "planted",
    },
    Mutant {
        name: "skew-ignored",
        breaks: "noise that only slows moves the estimate to the low side",
        path: "statistics/src/overhead.rs",
        text: "let shift = skew_shift(blocks, found.centre);",
        instead: "let shift = 0.0 * skew_shift(blocks, found.centre);",
        proofs: "centre",
    },
    Mutant {
        name: "estimate-smallest",
        breaks: "the estimate is the smallest ratio of a block and not their centre",
        path: "statistics/src/overhead.rs",
        text: "let centre = signed_rank::hodges_lehmann(sorted);",
        instead: "let centre = sorted[0];",
        proofs: "centre",
    },
    Mutant {
        name: "ranks-too-sure",
        breaks: "the interval of ranks leaves out twice as many at each end",
        path: "statistics/src/signed_rank.rs",
        text: "let from_above = pair_count(sorted.len()) + 1 - rank;",
        instead: "let rank = rank * 2;\n    let from_above = pair_count(sorted.len()) + 1 - rank;",
        proofs: "planted",
    },
    Mutant {
        name: "student-too-sure",
        breaks: "Student's interval is half as wide",
        path: "statistics/src/student.rs",
        text: "let half = critical_value(degrees_of_freedom, confidence) * error;",
        instead: "let half = critical_value(degrees_of_freedom, confidence) * error / 2.0;",
        proofs: "planted",
    },
    Mutant {
        name: "noise-floor-ignored",
        breaks: "a difference below the noise floor is reported",
        path: "statistics/src/equivalence.rs",
        text: "departure(estimate.ratio) > noise.floor",
        instead: "departure(estimate.ratio) > 0.0 * noise.floor",
        proofs: "false-positives,recounted",
    },
    Mutant {
        name: "equivalence-by-estimate",
        breaks: "a stack is called equivalent when its estimate is within the margin, however wide \
                 the interval",
        path: "statistics/src/equivalence.rs",
        text: "margin > 0.0 && estimate.within(margin)",
        instead: "margin > 0.0 && departure(estimate.ratio) <= margin",
        proofs: "equivalence",
    },
    Mutant {
        name: "outputs-uncompared",
        breaks: "stacks that print something else are not told of",
        path: "src/finding/caution.rs",
        text: "arm.trial_count > 0 && hashes(arm) != expected",
        instead: "arm.trial_count > 1_000_000_000 && hashes(arm) != expected",
        proofs: "invalid",
    },
    Mutant {
        name: "seal-unchecked",
        breaks: "a frame counts whatever seal it bears",
        path: "instrument/src/wire/seal.rs",
        text: "self.seal(part, bytes).is_some_and(|seal| seal.to_le_bytes().starts_with(borne))",
        instead: "self.seal(part, bytes).is_some_and(|seal| \
                  seal.to_le_bytes().starts_with(&borne[..0]))",
        proofs: "forged",
    },
    Mutant {
        name: "losses-unsaid",
        breaks: "trials that do not count are not told of",
        path: "src/finding/caution.rs",
        text: "if lost == 0 || column.counted.is_empty() {",
        instead: "if lost < 1_000_000_000 || column.counted.is_empty() {",
        proofs: "invalid",
    },
    Mutant {
        name: "refusals-counted",
        breaks: "a command that was refused processes counts as one that was not",
        path: "src/trial/oom.rs",
        text: "NonZero::new(seen.into_iter().max().unwrap_or(0))",
        instead: "NonZero::new(0 * seen.into_iter().max().unwrap_or(0))",
        proofs: "invalid",
    },
    Mutant {
        name: "strangers-trusted",
        breaks: "a run that was not begun here goes on without a question",
        path: "src/cli/run_and_report.rs",
        text: "consent::require(&plan, &path, *yes)?;",
        instead: "if *yes { consent::require(&plan, &path, *yes)?; }",
        proofs: "hostile",
    },
    Mutant {
        name: "findings-untamed",
        breaks: "units and names of a ledger are shown as they are",
        path: "src/finding/harmless.rs",
        text: "*text = line(text);",
        instead: "*text = std::mem::take(text);",
        proofs: "hostile",
    },
    Mutant {
        name: "threshold-by-estimate",
        breaks: "a threshold is kept where the estimate is below it, and not the whole interval",
        path: "src/finding/threshold.rs",
        text: "overhead.high * (1.0 + rounded_away) <= self.ratio",
        instead: "overhead.ratio * (1.0 + rounded_away) <= self.ratio",
        proofs: "thresholds",
    },
    Mutant {
        name: "threshold-never-crossed",
        breaks: "a threshold is crossed by nobody, whatever it costs",
        path: "src/finding/threshold.rs",
        text: "is_shown && overhead.low > self.ratio",
        instead: "is_shown && overhead.low > self.ratio.powi(99)",
        proofs: "thresholds",
    },
    Mutant {
        name: "diff-backwards",
        breaks: "a change between two runs is that from the later one to the earlier",
        path: "statistics/src/change.rs",
        text: "let centre = (after.ratio / before.ratio).ln();",
        instead: "let centre = (before.ratio / after.ratio).ln();",
        proofs: "differences",
    },
    Mutant {
        name: "history-level",
        breaks: "runs are one level, however far apart they are",
        path: "statistics/src/shift.rs",
        text: "self.t() > critical_value(self.freedom, of_each) && self.difference.abs() > own",
        instead: "self.t() > critical_value(self.freedom, of_each) && self.difference.abs() < own",
        proofs: "histories",
    },
    Mutant {
        name: "budget-endless",
        breaks: "reading a stranger's ledger may take any time and memory",
        path: "src/ledger/stranger.rs",
        text: "Self { bytes: share(bytes), until_ns: share(after(time).0) }",
        instead: "let _ = (share(bytes), share(after(time).0)); Self::of_our_own()",
        proofs: "hostile",
    },
];

impl Mutant {
    /// The changed text of the file.
    ///
    /// # Errors
    /// What is to be changed is not there exactly once.
    pub fn applied_to(&self, source: &str) -> Result<String, String> {
        match source.matches(self.text).count() {
            1 => Ok(source.replacen(self.text, self.instead, 1)),
            count => Err(format!(
                "the mutant `{}` changes `{}` in {}, where it stands {count} times: bring \
                 xtask/src/mutants/list.rs up to date",
                self.name, self.text, self.path
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn texts_below(folder: &Path) -> String {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let text = |path: PathBuf| {
            if path.is_dir() { texts_below(&path) } else { fs::read_to_string(path).unwrap() }
        };
        paths.map(text).collect()
    }

    #[test]
    fn every_mutant_changes_one_place_of_this_tree() {
        for mutant in MUTANTS {
            let source = fs::read_to_string(root().join(mutant.path)).unwrap();
            let changed = mutant.applied_to(&source).unwrap_or_else(|words| panic!("{words}"));
            assert!(changed.contains(mutant.instead), "{}", mutant.name);
        }
    }

    #[test]
    fn every_mutant_has_a_name_of_its_own_and_names_proofs_that_there_are() {
        let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), MUTANTS.len());
        let proofs = texts_below(&root().join("src/prove"));
        for name in MUTANTS.iter().flat_map(|mutant| mutant.proofs.split(',')) {
            assert!(proofs.contains(&format!("\"{name}\"")), "no proof `{name}`");
        }
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_refused() {
        let mutant = &MUTANTS[0];
        for source in [String::new(), mutant.text.repeat(2)] {
            let words = mutant.applied_to(&source).unwrap_err();
            assert!(words.contains("bring xtask/src/mutants/list.rs up to date"), "{words}");
        }
    }
}
