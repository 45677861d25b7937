//! Memory of others that is the command's own, and memory that belongs to nobody who ran just now.
//!
//! Who carries the command is read as a group, whose peak has all that the kernel charges to it:
//! the page cache of the files that the command writes, kernel memory that it takes, such as
//! buffers of sockets and pipes, and all of its processes. Of the command itself only the largest
//! process is known. So what is above that stands under the others, also where nobody else works.
//! What a group consists of is known of the moment after the command; and who serves all trials of
//! a run, such as a daemon, is told apart from what a trial had.

use crate::finding::stacks::{Stacks, joined};
use crate::finding::{ArmFindings, Findings, estimate, number};
use crate::ledger::StoredTrial;
use crate::plan::TrialId;
use std::collections::HashMap;
use surtax_instrument::amount::{Key, MEMORY_PAGE_CACHE, MEMORY_PEAK, MEMORY_SHMEM};
use surtax_instrument::wire::Reading;

/// A group has so much by itself.
const WORTH_A_WORD: f64 = 1_048_576.0;

/// Explains the columns of a table of payers.
pub(crate) const PARTS: &str = "\
    the peak of a group has its page cache in it; what its memory consisted of is known of the \
     moment right after the command: page cache of files on disks is dropped where memory is \
     wanted, files in memory and shared memory cannot be; who is shared by all trials has the \
     peak since its own start, and is in no trial's memory; a payer's CPU time is without that of \
     those who ran inside it, and its memory, bytes of disks, page faults, context switches and \
     preemptions are with theirs; an agent that has no group has bytes of disks with the \
     command's, and all else without";

/// Page cache in the memory of a trial's others, where it is known; `known` is what older ledgers
/// say of it.
pub(crate) fn page_cache(trial: &StoredTrial, known: &HashMap<TrialId, f64>) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of bytes")]
    let of_old = || known.get(&trial.id).map(|bytes| *bytes as u64);
    of_level_0(trial, false, MEMORY_PAGE_CACHE).or_else(of_old)
}

/// The same of an arm: the median, where so many trials know it that they speak for all.
pub(crate) fn page_cache_of_all(
    trials: &[&StoredTrial],
    known: &HashMap<TrialId, f64>,
) -> Option<f64> {
    let cached = trials.iter().filter_map(|trial| page_cache(trial, known));
    let cached: Vec<f64> = cached.map(estimate::float).collect();
    estimate::median(&cached).filter(|_| estimate::speaks(cached.len(), trials.len()))
}

/// Peak memory of those on this level who serve all trials; unknown where one was not read.
pub(crate) fn shared(trial: &StoredTrial) -> Option<u64> {
    of_level_0(trial, true, MEMORY_PEAK)
}

/// The sum of an amount over those on this level who serve all trials, or over the others; unknown
/// where one of them was not read.
fn of_level_0(trial: &StoredTrial, is_shared: bool, key: Key) -> Option<u64> {
    let payers = || trial.readings.iter().filter(|it| it.level == 0 && it.is_shared == is_shared);
    if !payers().all(Reading::is_counted) {
        return None;
    }
    payers().filter_map(|it| it.amounts.get(key)).reduce(u64::saturating_add)
}

/// Says whose the memory of others is in `native`, what of it everywhere is no process's, and what
/// is shared, where that is more than a little.
pub(crate) fn remark(findings: &Findings) -> Option<String> {
    let said = [of_native(findings), cached(findings), in_memory(findings), served(findings)];
    joined(said.into_iter().flatten(), "; ")
}

fn of_native(findings: &Findings) -> Option<String> {
    let is_native = |arm: &&ArmFindings| {
        let kind = arm.stack.split([':', ' ']).next();
        kind == Some("native") && arm.beside.is_none()
    };
    let arm = findings.arms.iter().find(|arm| is_native(arm) && arm.trial_count > 0)?;
    let metric = arm.metric("memory_others_peak_bytes")?;
    (metric.median >= WORTH_A_WORD).then(|| {
        format!(
            "{} in `{}` is the command's own beyond its largest process: the page cache of files \
             that it writes, kernel memory, its other processes; the group of a container holds \
             the same beside its helpers",
            number::amount(metric.median, &metric.unit),
            arm.stack
        )
    })
}

/// Says how much of the others' memory is page cache, by stack. How much it was at the peak is not
/// known.
fn cached(findings: &Findings) -> Option<String> {
    let said = by_stack(findings, |arm| arm.page_cache_bytes)?;
    Some(format!("when the command had ended, of it was page cache: {said}"))
}

/// Says how much of it is files in memory.
fn in_memory(findings: &Findings) -> Option<String> {
    let said = by_stack(findings, |arm| sum_of(arm, false, MEMORY_SHMEM))?;
    Some(format!(
        "when the command had ended, of it was in files that lie in memory alone, which the kernel \
         cannot drop: {said}"
    ))
}

/// Says how much memory those have who serve all trials.
fn served(findings: &Findings) -> Option<String> {
    let said = by_stack(findings, |arm| sum_of(arm, true, MEMORY_PEAK))?;
    Some(format!("shared by all trials, and in none of these numbers: {said}"))
}

/// The sum of an amount over those on this level who serve all trials, or over the others.
fn sum_of(arm: &ArmFindings, is_shared: bool, key: Key) -> Option<f64> {
    let such = arm.payers.iter().filter(|it| it.level == 0 && it.is_shared == is_shared);
    such.filter_map(|it| it.amounts.get(key)).reduce(|sum, bytes| sum + bytes)
}

/// Says how much it is in which stacks; `None` where it is not worth a word.
fn by_stack(findings: &Findings, of: impl Fn(&ArmFindings) -> Option<f64>) -> Option<String> {
    let arms = findings.arms.iter().filter(|arm| !arm.is_again());
    let words = arms.filter_map(|arm| {
        let bytes = of(arm).filter(|bytes| *bytes >= WORTH_A_WORD)?;
        Some((arm.stack.as_str(), number::amount(bytes, "bytes")))
    });
    let all = Stacks::counted(&findings.arms);
    joined(all.by_words(words).map(|(text, stacks)| format!("{text} in {stacks}")), ", ")
}

#[cfg(test)]
mod tests {
    use crate::finding::Findings;
    use crate::finding::compare::tests::example;
    use crate::report::{export, html, markdown, terminal};
    use crate::trial::TrialResult;
    use surtax_instrument::amount::{
        Amounts, MEMORY_ANON, MEMORY_KERNEL, MEMORY_PAGE_CACHE, MEMORY_PEAK, MEMORY_SHMEM,
    };

    #[test]
    fn memory_of_others_where_nobody_else_works_is_said_to_be_the_commands_own() {
        let findings = example(6, |_| {});
        let said = "40.0 MiB in `native` is the command's own beyond its largest process";
        let text = terminal::render(&findings, terminal::PLAIN);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("Memory, others: {said}")), "{text}");
        let text = markdown::markdown(&findings);
        assert!(text.contains(&format!("Memory, others: {said}")), "{text}");
        assert!(html::html(&findings).contains("is the command's own beyond its largest"));
    }

    #[test]
    fn page_cache_that_the_command_has_filled_is_said_beside_the_memory() {
        let findings = example(6, |record| {
            let bytes = 1_790.0 * 1_048_576.0;
            record.conditions.push((String::from("payers_page_cache_bytes"), bytes));
        });
        assert_eq!(findings.arms[0].page_cache_bytes, Some(1_790.0 * 1_048_576.0));
        let said = super::remark(&findings).unwrap();
        assert!(said.contains("of it was page cache: 1.75 GiB in"), "{said}");
    }

    /// An example in whose arm `runc` the group that carries the command has these amounts too, and
    /// the second payer is shared.
    fn parted(parts: &Amounts) -> Findings {
        example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            if record.trial.arm == 2 {
                for (key, amount) in parts.iter() {
                    measured.readings[0].amounts.set(key, amount);
                }
                measured.readings[1].is_shared = true;
            }
        })
    }

    const MIB: u64 = 1 << 20;

    fn parts() -> Amounts {
        let sizes = [(MEMORY_ANON, 5), (MEMORY_PAGE_CACHE, 1790), (MEMORY_SHMEM, 64)];
        sizes.into_iter().map(|(key, mib)| (key, mib * MIB)).collect()
    }

    #[test]
    fn the_bill_has_page_cache_and_files_in_memory_of_every_payer_apart_in_every_format() {
        let findings = parted(&parts());
        let payer = &findings.arms[2].payers[1];
        assert_eq!(payer.payer, "agent's group");
        let found = |key| payer.amounts.get(key).map(|bytes| bytes / 1_048_576.0);
        assert_eq!(found(MEMORY_PAGE_CACHE), Some(1790.0));
        assert_eq!((found(MEMORY_ANON), found(MEMORY_KERNEL)), (Some(5.0), None));
        // Who was not counted so has none, and no zero.
        let of_others = findings.arms[0].payers.iter();
        assert!(of_others.clone().all(|payer| payer.amounts.get(MEMORY_PAGE_CACHE).is_none()));
        assert_eq!(findings.arms[0].page_cache_bytes, None);
        assert_eq!(findings.arms[2].page_cache_bytes, Some(1790.0 * 1_048_576.0));

        let text = terminal::render(&findings, terminal::PLAIN);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("of it was page cache: 1.75 GiB in `runc`"), "{text}");
        assert!(flat.contains("which the kernel cannot drop: 64.0 MiB in `runc`"), "{text}");
        for text in [markdown::markdown(&findings), html::html(&findings)] {
            assert!(text.contains("Page cache, after") && text.contains("1.75 GiB"), "{text}");
            assert!(text.contains("dropped where memory is wanted"), "{text}");
        }
        let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
        let payers = &json["arms"][2]["payers"];
        assert_eq!(payers[1]["memory_page_cache_bytes"], 1790.0 * 1_048_576.0);
        assert!(payers[1]["memory_kernel_bytes"].is_null());
        assert!(json["arms"][0]["payers"][1]["memory_page_cache_bytes"].is_null());
        let csv = export::csv_trials(&findings);
        let row = csv.lines().find(|line| line.starts_with("2,runc,")).unwrap();
        assert!(row.contains(&format!(",{},", 1790 * MIB)), "{row}");
    }

    #[test]
    fn memory_of_who_serves_all_trials_is_told_beside_that_of_a_trial_and_not_in_it() {
        let findings = parted(&Amounts::NONE);
        let others = |arm: usize| {
            let mut metrics = findings.arms[arm].metrics.iter();
            metrics.find(|it| it.metric == "memory_others_peak_bytes").unwrap().median
        };
        // The group's 30 MiB without the command's 20; elsewhere the second payer's 30 are others',
        // too.
        assert_eq!((others(2), others(0)), (10.0 * 1_048_576.0, 40.0 * 1_048_576.0));
        let text = terminal::render(&findings, terminal::PLAIN);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = "shared by all trials, and in none of these numbers: 30.0 MiB in `runc`";
        assert!(flat.contains(said), "{text}");
        assert!(markdown::markdown(&findings).contains("dockerd (shared by all trials)"));
        assert!(html::html(&findings).contains("dockerd (shared by all trials)"));
        let point = &findings.arms[2].trials[0].usage;
        assert_eq!(point.memory_shared_peak_bytes, Some(30 * MIB));
        assert_eq!(findings.arms[0].trials[0].usage.memory_shared_peak_bytes, None);
    }

    #[test]
    fn a_little_memory_is_not_worth_a_word() {
        let findings = example(6, |record| {
            let TrialResult::Done(measured) = &mut record.result else { return };
            for reading in &mut measured.readings {
                reading.amounts.remove(MEMORY_PEAK);
            }
        });
        assert_eq!(super::remark(&findings), None);
    }
}
