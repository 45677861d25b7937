//! Cautions about what the stacks had around the command, and did not have in common: CPUs, memory,
//! helpers inside a limit, a cache, a network's way, a filter, a kernel's work-arounds.
//!
//! None of these is a fault. Each has been published as the cost of a kind of isolation, which it
//! is not.

use crate::finding::caution::kernels::NOT_LINUX;
use crate::finding::caution::signs::{Signs, baseline, caution, compared};
use crate::finding::number::{self, percent};
use crate::finding::stacks::{Stacks, Those, joined};
use crate::finding::{ArmFindings, Caution, LevelEvidence, estimate};
use std::collections::BTreeSet;
use surtax_instrument::backing::{DISK, MEMORY};
use surtax_instrument::probe::mitigations::mitigated;
use surtax_instrument::quantity::Bytes;

/// Helpers that used less than this share of what the command used take nothing worth a word.
const HELPERS_SHARE_MIN: f64 = 0.02;

/// Kinds of work that helpers do.
const HELPERS: [&str; 2] = ["hypervisor", "engine"];

/// Memory that differs by less is the kernel's own.
const MEMORY_SLACK_SHARE: f64 = 0.1;

/// Ways of a disk's writes through the page cache of the level below.
const CACHED: [&str; 3] = ["writeback", "writethrough", "unsafe"];

/// Media of a scratch directory that are files of the level below.
const ON_A_DISK: [&str; 3] = ["layer", "bind", "volume"];

/// A quota is counted in periods of 100 ms.
const QUOTA_US_OF_A_THOUSANDTH: u64 = 100;

/// Networks whose packets leave under another address.
const TRANSLATED: [&str; 2] = ["bridge", "user"];

/// The innermost level's word for `key`.
fn said<'a>(evidence: &'a [LevelEvidence], key: &str) -> Option<&'a str> {
    evidence.iter().rev().find_map(|level| level.fact(key))
}

/// The compared stacks of which `holds` is true; nothing where it is true of none.
fn stacks(arms: &[ArmFindings], holds: impl Fn(&ArmFindings) -> bool) -> Option<Those> {
    Stacks::counted(arms).those(compared(arms).filter(|arm| holds(arm)))
}

/// A number that the innermost level proved.
fn fact(evidence: &[LevelEvidence], key: &str) -> Option<u64> {
    let innermost = evidence.last()?;
    let is_it = |found: &str| found.strip_prefix("inside_").unwrap_or(found) == key;
    innermost.facts.iter().find(|fact| is_it(&fact.key))?.value.parse().ok()
}

/// The baseline's number and the arms whose number is another one.
fn unequal(
    arms: &[ArmFindings],
    had: impl Fn(&[LevelEvidence]) -> Option<u64>,
    equal: impl Fn(u64, u64) -> bool,
) -> Option<(u64, Vec<(&str, u64)>)> {
    let expected = baseline(arms).find_map(|arm| had(&arm.evidence))?;
    let others: Vec<(&str, u64)> = compared(arms)
        .filter_map(|arm| Some((arm.stack.as_str(), had(&arm.evidence)?)))
        .filter(|(_, found)| !equal(*found, expected))
        .collect();
    (!others.is_empty()).then_some((expected, others))
}

/// The least number that any level proved, of those that hold for all that is inside.
fn least(evidence: &[LevelEvidence], key: &str) -> Option<u64> {
    let facts = evidence.iter().flat_map(|level| &level.facts).filter(|fact| fact.key == key);
    // A quota of cgroup v2 has its period behind it.
    facts.filter_map(|fact| fact.value.split(' ').next()?.parse().ok()).min()
}

/// Returns the CPUs that a command could use, in thousandths: those that it saw, or the quota for
/// it if that is less.
fn cpu_millis(evidence: &[LevelEvidence]) -> Option<u64> {
    let seen = fact(evidence, "cpus_online")?.saturating_mul(1000);
    let quota = least(evidence, "limit_cpu_quota_us");
    Some(quota.map_or(seen, |quota_us| seen.min(quota_us / QUOTA_US_OF_A_THOUSANDTH)))
}

/// A number of CPUs: `2`, `0.5`.
fn cpus_text(millis: u64) -> String {
    number::trimmed(estimate::float(millis) / 1000.0, 3)
}

pub(super) fn cpus(arms: &[ArmFindings]) -> Option<Caution> {
    let (expected, others) = unequal(arms, cpu_millis, |a, b| a == b)?;
    let words = Stacks::counted(arms).with_numbers("had", &others, cpus_text);
    let least = others.iter().map(|(_, millis)| *millis).fold(expected, u64::min);
    let (expected, least) = (cpus_text(expected), cpus_text(least.next_multiple_of(1000)));
    Some(
        caution(
            "unequal-cpus",
            format!("the baseline had {expected} CPUs, but {words}"),
            format!(
                "give every stack the same, as in `native:cpus={least}` and `qemu:cpus={least}`"
            ),
        )
        .of(others.iter().map(|(stack, _)| *stack)),
    )
}

pub(super) fn memory(arms: &[ArmFindings]) -> Option<Caution> {
    let float = estimate::float;
    let near = |a: u64, b: u64| float(a.abs_diff(b)) <= MEMORY_SLACK_SHARE * float(a.max(b));
    let had = |evidence: &[LevelEvidence]| {
        let limit = least(evidence, "limit_memory_bytes").unwrap_or(u64::MAX);
        Some(fact(evidence, "memory_total_bytes")?.min(limit))
    };
    let (expected, others) = unequal(arms, had, near)?;
    let words =
        Stacks::counted(arms).with_numbers("had", &others, |bytes| Bytes(bytes).to_string());
    let least = others.iter().map(|(_, bytes)| *bytes).fold(expected, u64::min);
    Some(caution(
        "unequal-memory",
        format!("the baseline had {} of memory, but {words}", Bytes(expected)),
        format!(
            "if the command needs more than {}, its page cache included, give every stack the same \
             with `memory=`",
            Bytes(least)
        ),
    ).of(others.iter().map(|(stack, _)| *stack)))
}

/// A limit that holds for those who work for the stack, too.
pub(super) fn helpers<'s>(arms: &'s [ArmFindings]) -> Option<Caution> {
    let of_arm = |arm: &'s ArmFindings| {
        let (level, limit) = arm.evidence.iter().enumerate().find_map(|(index, level)| {
            let has = |key: &str| level.fact(key).is_some();
            let limits = ["limit_cpu_quota_us", "limit_cpuset"];
            let limit = limits.into_iter().find(|key| has(key))?;
            has("limited_together").then_some((index, limit))
        })?;
        let cpu = |is_counted: &dyn Fn(&str, usize) -> bool| -> f64 {
            let counted = arm.payers.iter().filter(|it| is_counted(&it.role, it.level.into()));
            counted.map(|payer| payer.cpu_ns).sum()
        };
        let helpers = cpu(&|role, at| at == level && HELPERS.contains(&role));
        let command = cpu(&|role, _| role == "workload");
        let share = helpers / command;
        (command > 0.0 && share >= HELPERS_SHARE_MIN).then(|| {
            let what = if limit == "limit_cpuset" { "CPUs" } else { "quota" };
            let words = format!("those of `{}` used {} of its {what}", arm.stack, percent(share));
            (words, arm.stack.as_str())
        })
    };
    let (words, stacks): (Vec<String>, Vec<&str>) = compared(arms).filter_map(of_arm).unzip();
    let words = joined(words, ", ")?;
    Some(caution(
        "helpers-limited",
        format!(
            "a limit holds for the helpers of a stack together with the command: {words}, by what \
             the command used itself"
        ),
        "give the layer one CPU more than the command has, or put the limit on a layer inside it",
    ).of(stacks))
}

/// A guest's disk whose writes end in this machine's memory; gVisor's files, which it opens for its
/// guest as any program does, are one as well.
pub(super) fn page_cache(arms: &[ArmFindings]) -> Option<Caution> {
    let is_cached = |arm: &ArmFindings| {
        let is_in = |key: &str, words: &[&str]| {
            said(&arm.evidence, key).is_some_and(|word| words.contains(&word))
        };
        let is_gvisor = said(&arm.evidence, "inside_kernel_release")
            .is_some_and(|release| release.contains(NOT_LINUX));
        is_in("disk_cache", &CACHED) || is_gvisor && is_in("scratch", &ON_A_DISK)
    };
    let found = stacks(arms, is_cached)?;
    Some(caution(
        "host-page-cache",
        format!(
            "the disk of {found} goes through this machine's page cache: direct I/O inside reads \
             and writes memory here"
        ),
        "compare disks with `cache=none`, which gVisor has not, or read the times as those of a \
         cache",
    ).of_those(found))
}

/// Data of some stacks in memory, and of others on a disk.
pub(super) fn media(arms: &[ArmFindings]) -> Option<Caution> {
    let all = |place: &str| {
        let lies_there = |arm: &&ArmFindings| said(&arm.evidence, "scratch_lies_in") == Some(place);
        let found = arms.iter().filter(|arm| arm.trial_count > 0).filter(lies_there);
        Stacks::counted(arms).words_of(found)
    };
    let (memory, disk) = (all(MEMORY)?, all(DISK)?);
    Some(caution(
        "scratch-media-differ",
        format!(
            "what is written to `/scratch` lies in memory in {memory}, and on a disk in {disk}: \
             most of that difference is none of the layers'"
        ),
        "to compare layers, name one medium in every stack, such as `scratch=bind`; \
         `scratch_held_by` in the evidence says what holds it",
    ))
}

/// Networks that differ in more than their speed.
pub(super) fn networks(arms: &[ArmFindings]) -> impl Iterator<Item = Caution> {
    let network = |arm: &ArmFindings| said(&arm.evidence, "network").map(String::from);
    // Only layers whose network is the engine's or the tool's say how addresses are translated.
    let translation =
        |arm: &ArmFindings| said(&arm.evidence, "network_translation").map(String::from);
    // An engine calls a bridge of its user's own so, too.
    let is_user = |arm: &ArmFindings| match translation(arm) {
        Some(translation) => translation == "user mode",
        None => network(arm).as_deref() == Some("user"),
    };
    let user_mode = stacks(arms, is_user).map(|user| {
        caution(
            "user-mode-network",
            format!(
                "{user} has a network in user mode: one thread copies every packet, and no ICMP \
                 passes, neither `ping` nor the discovery of a path's MTU"
            ),
            "use `net=tap` to measure a machine's network, and `net=bridge` for a container's",
        )
        .of_those(user)
    });
    let is_translated = |arm: &ArmFindings| match translation(arm) {
        Some(translation) => translation != "none",
        None => network(arm).is_some_and(|it| TRANSLATED.contains(&it.as_str())),
    };
    let has_plain = arms.iter().any(|arm| arm.trial_count > 0 && !is_translated(arm));
    let translated = stacks(arms, is_translated).filter(|_| has_plain).map(|translated| {
        caution(
            "address-translation",
            format!(
                "what leaves {translated} for another machine goes through address translation \
                 (NAT), and what leaves the others does not"
            ),
            "compare with a network without it, such as `net=host`, `net=macvlan` or `net=tap`",
        )
        .of_those(translated)
    });
    user_mode.into_iter().chain(translated)
}

/// A filter of system calls that the baseline has not.
pub(super) fn filters(arms: &[ArmFindings]) -> Option<Caution> {
    let mode = |arm: &ArmFindings| said(&arm.evidence, "inside_seccomp").map(String::from);
    let expected = arms.iter().filter(|arm| !arm.is_compared()).find_map(mode)?;
    let differs = |arm: &ArmFindings| mode(arm).is_some_and(|mode| mode != expected);
    let found = stacks(arms, differs)?;
    let (there, here) = if expected == "0" { ("a", "none") } else { ("no such", "one") };
    Some(caution(
        "seccomp-differs",
        format!(
            "system calls of the command pass {there} seccomp filter in {found}, and {here} in the \
             baseline"
        ),
        "to see what the filter costs, compare with a stack that differs in nothing else, such as \
         `docker:seccomp=unconfined`",
    ).of_those(found))
}

/// Kernels that do not work around the same weaknesses of the processor.
pub(super) fn mitigations<'s>(signs: &'s Signs<'_>) -> Option<Caution> {
    let ours: BTreeSet<&str> = mitigated(signs.mitigations?).collect();
    let of_arm = |arm: &'s ArmFindings| {
        let theirs: BTreeSet<&str> =
            mitigated(said(&arm.evidence, "inside_mitigations")?).collect();
        let less = ours.difference(&theirs).count();
        let more = theirs.difference(&ours).count();
        let words = match (less, more) {
            (0, 0) => return None,
            (less, 0) => format!("{less} fewer"),
            (0, more) => format!("{more} more"),
            (less, more) => format!("{less} fewer and {more} others"),
        };
        Some((arm.stack.as_str(), words))
    };
    let all = Stacks::counted(signs.arms);
    let told: Vec<(&str, String)> = compared(signs.arms).filter_map(of_arm).collect();
    let words = all.by_words(told.iter().map(|(stack, words)| (*stack, words)));
    let words = joined(words.map(|(words, stacks)| format!("{stacks} around {words}")), ", ")?;
    Some(
        caution(
            "mitigations-differ",
            format!(
                "this machine's kernel works around {} weaknesses of its processor, but {words}: \
             system calls and switches cost them differently",
                ours.len()
            ),
            "see `inside_mitigations` in the evidence; a guest's CPU model and kernel decide",
        )
        .of(told.iter().map(|(stack, _)| *stack)),
    )
}
