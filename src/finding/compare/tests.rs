//! Findings of ledgers made for the purpose.

mod odd_ledgers;

use crate::finding::compare::*;
use crate::ledger::fixture::{add, done, fact, id, ledger, measured, record};
use crate::trial::disturbance::Disturbance;
use crate::trial::{Evidence, Reason, Record, TrialResult};
use surtax_instrument::amount::CPU_USER;
use surtax_instrument::wire::{LevelFacts, Status};

/// A ledger of ten blocks: native takes 1 s, `runc` 1.1 s, `qemu` is not there.
pub(crate) fn example(blocks: u32, change: impl Fn(&mut Record)) -> Findings {
    example_with(blocks, change, |_| {})
}

/// The same with more in the ledger.
pub(crate) fn example_with(
    blocks: u32,
    change: impl Fn(&mut Record),
    more: impl FnOnce(&mut crate::ledger::Ledger),
) -> Findings {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc", "qemu"]);
    for block in 0..blocks {
        let wobble = u64::from(block * 7 % 5) * 400_000;
        for (arm, wall_ns) in [(0, 1_000_000_000), (1, 1_000_300_000), (2, 1_100_000_000)] {
            let mut record = done(id(block, arm), wall_ns + wobble);
            change(&mut record);
            add(&mut ledger, &record);
        }
    }
    let gap = TrialResult::Unavailable(Reason {
        why: String::from("`/dev/kvm` boots no guest\x1b[2J"),
        remedy: Some(String::from("apt-get install qemu-system-x86")),
    });
    add(&mut ledger, &record(id(0, 3), gap));
    more(&mut ledger);
    compare(&ledger).unwrap()
}

fn codes(findings: &Findings) -> Vec<&str> {
    findings.cautions.iter().map(|caution| caution.code.as_str()).collect()
}

#[test]
fn the_baseline_against_itself_has_one_interval() {
    let findings = example(12, |record| {
        if record.trial.arm == 1 {
            let thousandths = 900 + u64::from(record.trial.block) * 37 % 210;
            change_measured(record, |it| it.wall.0 = it.wall.0 * thousandths / 1000);
        }
    });
    let last = findings.arms[1].progress.last().unwrap();
    assert_eq!(Some(last.overhead), findings.noise_floor);
}

#[test]
fn a_margin_is_advised_only_where_it_can_be_given() {
    // The baseline's second arm takes longer in every other block, by so many thousandths.
    let advice = |slower: u64| {
        let findings = example(6, |record| {
            let is_slow = record.trial.arm == 1 && record.trial.block % 2 == 0;
            let factor = 1000 + if is_slow { slower } else { 0 };
            change_measured(record, |it| it.wall.0 = it.wall.0 * factor / 1000);
        });
        let is_it = |it: &&crate::finding::Caution| it.code == "noisy-machine";
        let caution = findings.cautions.iter().find(is_it).unwrap();
        assert!(caution.finding.starts_with("the noise floor of wall time, "));
        caution.advice.clone()
    };
    let large = advice(300);
    assert!(large.contains("what it can tell is a `--margin` of "), "{large}");
    let huge = advice(3000);
    assert!(huge.contains("repeat the run") && !huge.contains("--margin"), "{huge}");
}

fn change_measured(record: &mut Record, change: impl FnOnce(&mut crate::trial::Measured)) {
    if let TrialResult::Done(measured) = &mut record.result {
        change(measured);
    }
}

#[test]
fn a_stack_that_is_ten_percent_slower_is_found_to_be_so() {
    let findings = example(10, |_| {});
    let runc = &findings.arms[2];
    assert_eq!((runc.stack.as_str(), runc.trial_count), ("runc", 10));
    assert_eq!(runc.verdict, Verdict::Differs, "{}", runc.because);
    assert!(runc.because.starts_with("10.0 % slower than `native`"), "{}", runc.because);
    let wall = runc.metrics[0].overhead.unwrap();
    assert!((wall.ratio - 1.1).abs() < 1e-3 && wall.low < wall.high, "{wall:?}");
    assert_eq!(runc.metrics.len(), 9);
    assert!(findings.arms[0].metrics.iter().all(|metric| metric.overhead.is_none()));
    let noise = findings.noise_floor.unwrap();
    assert!((noise.ratio - 1.0003).abs() < 1e-5, "{noise:?}");
    assert_eq!((findings.run.blocks_done, findings.run.blocks_planned), (10, Some(10)));
    assert_eq!(findings.run.state, "running");
    assert_eq!(codes(&findings), ["layer-unavailable"]);
}

#[test]
fn a_gap_has_a_reason_a_remedy_and_no_number() {
    let findings = example(10, |_| {});
    let qemu = &findings.arms[3];
    assert!(qemu.metrics.is_empty() && qemu.payers.is_empty());
    let reason = String::from("`/dev/kvm` boots no guest\\u{1b}[2J");
    assert_eq!(qemu.verdict, Verdict::Invalid { gap: Gap::NotAvailable, reason });
    let trouble = qemu.trouble.as_ref().unwrap();
    assert_eq!(trouble.remedy.as_deref(), Some("apt-get install qemu-system-x86"));
    assert_eq!(qemu.trials[0].state, "unavailable");
}

#[test]
fn the_command_is_first_on_the_bill_and_who_carries_it_pays_only_the_rest() {
    let findings = example(10, |_| {});
    let payers: Vec<(&str, f64)> =
        findings.arms[2].payers.iter().map(|payer| (payer.payer.as_str(), payer.cpu_ns)).collect();
    assert_eq!(payers[0].0, "the command");
    assert_eq!(payers[1..], [("agent's group", 100_000.0), ("dockerd", 50_000.0)]);
}

#[test]
fn blocks_that_lack_an_arm_do_not_pair() {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc"]);
    for block in 0..4 {
        add(&mut ledger, &done(id(block, 0), 1_000_000));
    }
    for block in 2..6 {
        add(&mut ledger, &done(id(block, 2), 2_000_000));
    }
    let findings = compare(&ledger).unwrap();
    assert_eq!(findings.arms[2].trial_count, 4);
    assert_eq!(findings.arms[2].verdict, Verdict::Inconclusive);
    assert!(findings.arms[2].because.ends_with("and there are 2"));
    assert_eq!(findings.noise_floor, None);
}

#[test]
fn what_speaks_against_the_result_is_said() {
    let changed = example(3, |record| {
        let TrialResult::Done(measured) = &mut record.result else { return };
        if record.trial.arm != 2 {
            return;
        }
        measured.outcome.stdout.hash = 77;
        measured.readings[0].amounts.set(CPU_USER, 500_000_000);
        measured.evidence = Evidence::of(vec![LevelFacts {
            layer: String::from("runc"),
            facts: vec![
                fact("inside_cpus_online", "1"),
                fact("runc_version", &format!("1.1.{}", record.trial.block)),
            ],
        }])
        .unwrap();
        record.leftovers.push(String::from("a mount"));
    });
    let expected = [
        "outputs-differ", "unequal-cpus", "evidence-changed", "layer-unavailable", "few-trials",
        "bill-overdrawn", "leftovers",
    ];
    assert_eq!(codes(&changed), expected);
    assert_eq!(changed.cautions[1].finding, "the baseline had 2 CPUs, but `runc` had 1");
}

/// An example whose arm `runc` has these facts beside what every arm has.
fn with_facts(facts: &[(&str, &str)]) -> Findings {
    example(10, |record| {
        let arm = record.trial.arm;
        change_measured(record, |measured| {
            measured.readings[1].amounts.set(CPU_USER, 100_000_000);
            let theirs = if arm == 2 { facts } else { &[("inside_seccomp", "0")] };
            let facts = theirs.iter().map(|(key, value)| fact(key, value)).collect();
            let layer = String::from("runc");
            measured.evidence = Evidence::of(vec![LevelFacts { layer, facts }]).unwrap();
        });
    })
}

#[test]
fn what_a_stack_has_around_the_command_and_the_baseline_has_not_is_said() {
    let found = |facts: &[(&str, &str)]| {
        let cautions = with_facts(facts).cautions;
        cautions
            .into_iter()
            .filter(|caution| caution.code != "layer-unavailable")
            .collect::<Vec<_>>()
    };
    let limited =
        [("limit_cpu_quota_us", "50000"), ("limited_together", "all"), ("inside_seccomp", "0")];
    for (facts, code, part) in [
        (limited.as_slice(), "helpers-limited", "those of `runc` used "),
        (&[("disk_cache", "writeback")], "host-page-cache", "the disk of `runc` goes through"),
        (
            &[("inside_kernel_release", "4.19.0-gvisor"), ("scratch", "bind")],
            "host-page-cache",
            "the disk of `runc` goes through",
        ),
        (&[("inside_seccomp", "2")], "seccomp-differs", "a seccomp filter in `runc`, and none in"),
        (&[("network", "bridge")], "address-translation", "what leaves `runc` for another"),
        (
            &[("inside_mitigations", "mds: Mitigation: Clear CPU buffers")],
            "mitigations-differ",
            "around 1 weaknesses of its processor, but `runc` around 1 fewer and 1 others",
        ),
    ] {
        let cautions = found(facts);
        let caution = cautions.iter().find(|caution| caution.code == code);
        let caution = caution.unwrap_or_else(|| panic!("{code} is not among {cautions:?}"));
        assert!(caution.finding.contains(part), "{}", caution.finding);
    }
    let user = found(&[("network", "user")]);
    let codes: Vec<&str> = user.iter().map(|caution| caution.code.as_str()).collect();
    assert_eq!(codes, ["user-mode-network", "address-translation"]);
    let engines = found(&[("network", "user"), ("network_translation", "masquerade")]);
    let codes: Vec<&str> = engines.iter().map(|caution| caution.code.as_str()).collect();
    assert_eq!(codes, ["address-translation"], "a bridge is no network in user mode");
    let copied = found(&[("network", "slirp4netns"), ("network_translation", "user mode")]);
    let codes: Vec<&str> = copied.iter().map(|caution| caution.code.as_str()).collect();
    assert_eq!(codes, ["user-mode-network", "address-translation"]);
    assert_eq!(found(&[("network", "bridge"), ("network_translation", "none")]), []);
    let plain = [("inside_seccomp", "0"), ("network", "none"), ("disk_cache", "none")];
    assert_eq!(found(&plain), []);
    let unshared = [("limit_cpu_quota_us", "50000"), ("inside_seccomp", "0")];
    assert_eq!(found(&unshared), []);
    let in_memory = [("inside_kernel_release", "4.19.0-gvisor"), ("scratch", "tmpfs")];
    assert_eq!(found(&in_memory), [], "memory has no page cache behind it");
}

#[test]
fn data_in_memory_here_and_on_a_disk_there_is_said_once_with_all_the_stacks() {
    let found = |runc: &str, baseline: &str| {
        let findings = example(10, |record| {
            let held = if record.trial.arm == 2 { runc } else { baseline }.to_owned();
            change_measured(record, |measured| {
                let facts = vec![fact("scratch_lies_in", &held)];
                let layer = String::from("runc");
                measured.evidence = Evidence::of(vec![LevelFacts { layer, facts }]).unwrap();
            });
        });
        let cautions = findings.cautions.into_iter();
        cautions.filter(|it| it.code == "scratch-media-differ").collect::<Vec<_>>()
    };
    let cautions = found("memory", "disk");
    assert_eq!(cautions.len(), 1, "{cautions:?}");
    let part = "lies in memory in `runc`, and on a disk in `native`";
    assert!(cautions[0].finding.contains(part), "{}", cautions[0].finding);
    assert!(cautions[0].advice.contains("`scratch=bind`"), "{}", cautions[0].advice);
    assert_eq!(found("disk", "memory").len(), 1, "the other way round as well");
    assert_eq!(found("memory", "memory"), []);
    assert_eq!(found("disk", "disk"), [], "two disks are a question of their own");
    assert_eq!(found("memory", "unknown"), [], "nobody knows");
}

/// The code and the finding of each caution of an example whose baseline saw two CPUs and 2 GiB,
/// and whose arm `runc` has these facts.
fn beside_two_cpus(facts: &[(&str, &str)]) -> Vec<(String, String)> {
    let plain = [("inside_cpus_online", "2"), ("inside_memory_total_bytes", "2147483648")];
    let findings = example(10, |record| {
        let arm = record.trial.arm;
        change_measured(record, |measured| {
            let theirs = if arm == 2 { facts } else { &plain };
            let facts = theirs.iter().map(|(key, value)| fact(key, value)).collect();
            let layer = String::from("runc");
            measured.evidence = Evidence::of(vec![LevelFacts { layer, facts }]).unwrap();
        });
    });
    let cautions = findings.cautions.into_iter().filter(|it| it.code.starts_with("unequal"));
    cautions.map(|it| (it.code, it.finding)).collect()
}

#[test]
fn cpus_and_memory_that_a_stack_could_not_use_are_said_whatever_took_them_away() {
    let two_gib = ("inside_memory_total_bytes", "2147483648");
    let cpus = |text: &str| vec![(String::from("unequal-cpus"), text.to_owned())];
    // A quota of either version, and CPUs that are not there.
    for quota in ["50000", "50000 100000"] {
        let facts = [("inside_cpus_online", "2"), ("limit_cpu_quota_us", quota), two_gib];
        assert_eq!(beside_two_cpus(&facts), cpus("the baseline had 2 CPUs, but `runc` had 0.5"));
    }
    let facts = [("inside_cpus_online", "1"), two_gib];
    assert_eq!(beside_two_cpus(&facts), cpus("the baseline had 2 CPUs, but `runc` had 1"));
    let enough = [("inside_cpus_online", "2"), ("limit_cpu_quota_us", "300000"), two_gib];
    assert_eq!(beside_two_cpus(&enough), [], "a quota that is more than there is");

    for memory in [
        [("inside_memory_total_bytes", "1073741824"), ("limit_pids", "9")],
        [two_gib, ("limit_memory_bytes", "1073741824")],
    ] {
        let facts = [memory.as_slice(), &[("inside_cpus_online", "2")]].concat();
        let found = beside_two_cpus(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "unequal-memory");
        assert!(found[0].1.ends_with("but `runc` had 1.00 GiB"), "{}", found[0].1);
    }
    let slack = [("inside_cpus_online", "2"), ("inside_memory_total_bytes", "2040109465")];
    assert_eq!(beside_two_cpus(&slack), [], "a kernel keeps a little for itself");
}

/// Marks a trial; `share` of a CPU was used by others.
fn disturb(record: &mut Record, share: f64) {
    let key = String::from("others_cpu_ratio");
    record.disturbances.push(Disturbance { key, value: share, limit: 0.2 });
}

#[test]
fn disturbed_trials_that_count_are_counted_and_cautioned_against() {
    let findings = example(10, |record| {
        if record.trial.arm == 2 && record.trial.block < 7 {
            disturb(record, 0.3 + f64::from(record.trial.block) * 0.05);
        }
    });
    let runc = &findings.arms[2];
    assert_eq!((runc.trial_count, runc.disturbed_count, runc.repeated_count), (10, 7, 0));
    assert_eq!(runc.trials[0].disturbed(), "others used 30 % of a CPU");
    assert_eq!(findings.arms[0].disturbed_count, 0);
    assert_eq!(codes(&findings), ["layer-unavailable", "disturbed"]);
    let caution = &findings.cautions[1];
    let finding = "7 of 10 trials of `runc` were disturbed and count; at worst, others used 60 % \
                   of a CPU; those of `runc` took no longer than its quiet ones";
    assert_eq!(caution.finding, finding);
    assert!(caution.advice.starts_with("stop what else runs"), "{}", caution.advice);
}

#[test]
fn one_disturbed_trial_was_disturbed_and_all_of_them_are_those_of_every_stack() {
    let said = |is_it: fn(&Record) -> bool| {
        let findings = example(6, |record| {
            if record.trial.arm < 3 && is_it(record) {
                disturb(record, 0.5);
            }
        });
        let caution = findings.cautions.into_iter().find(|it| it.code == "disturbed").unwrap();
        caution.finding
    };
    let one = said(|record| (record.trial.arm, record.trial.block) == (2, 0));
    assert!(one.starts_with("1 of 6 trials of `runc` was disturbed and counts; "), "{one}");
    let all = said(|_| true);
    assert!(all.starts_with("all trials of every stack were disturbed and count; "), "{all}");
}

#[test]
fn disturbed_trials_that_took_longer_are_said_to_have() {
    let findings = example(10, |record| {
        if record.trial.arm == 2 && record.trial.block < 4 {
            disturb(record, 0.5);
            change_measured(record, |measured| measured.wall.0 += 220_000_000);
        }
    });
    let caution = findings.cautions.iter().find(|caution| caution.code == "disturbed").unwrap();
    let slowed = "; those of `runc` took 20 % longer than its quiet ones";
    assert!(caution.finding.ends_with(slowed), "{}", caution.finding);
}

/// A ledger of so many blocks, with the wall time of each arm over that of the baseline.
fn ratios(stacks: &[&str], blocks: u32, ratio: impl Fn(u32, u32) -> f64) -> Findings {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), stacks);
    let arms = u32::try_from(stacks.len()).unwrap() + 1;
    for (block, arm) in (0..blocks).flat_map(|block| (0..arms).map(move |arm| (block, arm))) {
        let wall = std::time::Duration::from_secs_f64(ratio(block, arm)).as_nanos();
        add(&mut ledger, &done(id(block, arm), u64::try_from(wall).unwrap()));
    }
    compare(&ledger).unwrap()
}

#[test]
fn of_twenty_equal_stacks_none_is_called_different_though_an_interval_excludes_one() {
    let stacks: Vec<String> = (0..20).map(|stack| format!("stack{stack}")).collect();
    let stacks: Vec<&str> =
        std::iter::once("native").chain(stacks.iter().map(String::as_str)).collect();
    // The baseline is as good as without noise. Arm 2 is slower by three standard errors; the
    // others are as often faster.
    let wobble = |block: u32, arm: u32| match arm {
        0 | 1 => 1.0 + f64::from(block % 2) * 1e-5,
        2 => 1.03 + 0.05 * (f64::from(block * 7 % 10) - 4.5) / 4.5,
        _ => 1.0 + 0.06 * (f64::from(block * 7 % 10) - 4.5) / 4.5,
    };
    let alone = ratios(&stacks[..2], 10, wobble);
    assert_eq!(alone.arms[2].verdict, Verdict::Differs, "{}", alone.arms[2].because);
    assert_eq!(alone.arms[2].p_value, alone.arms[2].p_value_adjusted);
    let among = ratios(&stacks, 10, wobble);
    let found = &among.arms[2];
    assert!(found.overhead.unwrap().low > 1.0 && found.p_value.unwrap() < 0.05);
    assert!(found.p_value_adjusted.unwrap() > 0.05, "{:?}", found.p_value_adjusted);
    assert!(among.arms[2..].iter().all(|arm| arm.verdict == Verdict::Inconclusive));
    assert!(found.because.contains("among 20 comparisons"), "{}", found.because);
    // What they cost in plain sight they cost among twenty, too.
    let dear = ratios(&stacks, 10, |block, arm| match arm {
        2 => 1.1 + 0.001 * f64::from(block),
        _ => wobble(block, arm),
    });
    assert_eq!(dear.arms[2].verdict, Verdict::Differs, "{}", dear.arms[2].because);
}

#[test]
fn a_caution_about_a_width_says_what_would_narrow_it_and_by_how_much() {
    let wobble = |block: u32, arm: u32| 1.0 + 0.02 * f64::from((block * 5 + arm * 3) % 7);
    let few = ratios(&["native", "runc"], 4, wobble);
    let advice = |code: &str, findings: &Findings| {
        let caution = findings.cautions.iter().find(|caution| caution.code == code);
        caution.unwrap_or_else(|| panic!("no `{code}` in {:?}", codes(findings))).advice.clone()
    };
    let said = advice("few-trials", &few);
    assert!(said.starts_with("repeat with `--runs 10` ") && said.contains(" would be known to ±"));
    // Half the width takes four times the blocks and a little less, because t falls too.
    let widths: Vec<f64> = said
        .split('±')
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let expected = (3.182 / 4.0_f64.sqrt()) / (2.262 / 10.0_f64.sqrt());
    assert!((widths[1] / widths[0] - expected).abs() < 0.3, "{said}");
    let said = advice("noisy-machine", &ratios(&["native", "runc"], 12, wobble));
    assert!(said.contains(" would bring the floor down to the margin"), "{said}");
}

#[test]
fn a_disturbed_attempt_whose_repeat_was_quiet_is_shown_and_changes_nothing() {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc"]);
    for block in 0..6 {
        add(&mut ledger, &done(id(block, 0), 1_000_000));
        add(&mut ledger, &done(id(block, 1), 1_000_000));
        let mut slow = done(id(block, 2), 9_000_000);
        disturb(&mut slow, 0.9);
        slow.result = TrialResult::Disturbed(Box::new(measured(9_000_000)));
        add(&mut ledger, &slow);
        if block < 5 {
            add(&mut ledger, &done(id(block, 2), 1_000_000));
        }
    }
    let findings = compare(&ledger).unwrap();
    let runc = &findings.arms[2];
    assert_eq!((runc.trial_count, runc.disturbed_count, runc.repeated_count), (5, 0, 6));
    assert!((runc.metrics[0].max - 1_000_000.0).abs() < 1.0);
    assert_eq!(runc.trouble, None);
    assert_eq!(findings.run.blocks_done, 5, "the last repeat is still to come");
    assert_eq!(codes(&findings), ["few-trials"]);
    let states: Vec<_> =
        runc.trials[..2].iter().map(|trial| (trial.attempt, trial.state.as_str())).collect();
    assert_eq!(states, [(1, "disturbed"), (2, "done")]);
}

#[test]
fn a_command_that_prints_times_is_no_proof_of_different_work() {
    let findings = example(6, |record| {
        let hash = u128::from(record.trial.block * 10 + record.trial.arm);
        change_measured(record, |measured| measured.outcome.stdout.hash = hash);
    });
    assert_eq!(codes(&findings), ["outputs-vary", "layer-unavailable"]);
    assert!(!findings.cautions[0].advice.contains("--env-padding"), "this plan has none");

    let shelf = tempfile::tempdir().unwrap();
    let mut plan = crate::ledger::fixture::plan(&["native"]);
    plan.conduct.padding_limit_bytes = 4096;
    let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
    for block in 0..2 {
        let mut record = done(id(block, 0), 10);
        change_measured(&mut record, |it| it.outcome.stdout.hash = u128::from(block));
        add(&mut ledger, &record);
    }
    let advice = &compare(&ledger).unwrap().cautions[0].advice;
    assert!(advice.contains("`--env-padding 0` leaves out `SURTAX_PADDING`"), "{advice}");
}

#[test]
fn a_command_that_fails_somewhere_is_shown_with_its_last_words() {
    let shelf = tempfile::tempdir().unwrap();
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc"]);
    for block in 0..6 {
        add(&mut ledger, &done(id(block, 0), 10));
        let mut failed = measured(10);
        failed.outcome.status = Status::Exit(3);
        failed.outcome.stderr.tail = b"why \x1b[1mnot".into();
        add(&mut ledger, &record(id(block, 2), TrialResult::CommandFailed(Box::new(failed))));
    }
    // As earlier runs have it: the advice behind the reason.
    let why = String::from("cannot mount `/x`: Permission denied\n  hint: run as root");
    add(&mut ledger, &record(id(0, 1), TrialResult::Broken(why.into())));
    let findings = compare(&ledger).unwrap();
    let runc = &findings.arms[2];
    assert!(matches!(runc.verdict, Verdict::Invalid { .. }));
    assert_eq!(runc.exit_statuses, ["exit 3"]);
    let trouble = runc.trouble.as_ref().unwrap();
    assert_eq!(trouble.why, "the command failed: exit 3");
    assert_eq!(trouble.stderr.as_deref(), Some("why \\u{1b}[1mnot"));
    let broken = findings.arms[1].trouble.as_ref().unwrap();
    assert_eq!(broken.why, "cannot mount `/x`: Permission denied");
    assert_eq!(broken.remedy.as_deref(), Some("run as root"));
    assert_eq!(codes(&findings), ["exit-statuses-differ"]);
}

#[test]
fn a_command_that_misses_what_its_stack_conceals_is_told_how_to_be_shown_it() {
    let shelf = tempfile::tempdir().unwrap();
    let stacks = ["native", "runc", "crun:secrets=shown"];
    let mut ledger = ledger(&shelf.path().join("run.surtax"), &stacks);
    for arm in [0, 2, 3] {
        let mut failed = measured(10);
        failed.outcome.status = Status::Exit(1);
        failed.outcome.stderr.tail = b"cat: /root/.aws/credentials: No such file".into();
        add(&mut ledger, &record(id(0, arm), TrialResult::CommandFailed(Box::new(failed))));
    }
    let findings = compare(&ledger).unwrap();
    let remedy = |arm: usize| findings.arms[arm].trouble.as_ref().unwrap().remedy.clone();
    let helps = "`.aws` is concealed in `runc`: `runc:secrets=shown` shows it to the command";
    let [native, runc, crun] = [0, 2, 3].map(remedy);
    assert_eq!((runc.as_deref(), crun), (Some(helps), None));
    assert!(native.is_some_and(|it| it.contains("`--ignore-failure` counts failures too")));
}

#[test]
fn an_empty_ledger_has_findings_without_numbers() {
    let shelf = tempfile::tempdir().unwrap();
    let ledger = ledger(&shelf.path().join("run.surtax"), &["native", "runc"]);
    let findings = compare(&ledger).unwrap();
    let words = "no number of it counts: no trial has ended yet";
    assert!(findings.arms.iter().all(|arm| arm.metrics.is_empty() && arm.because == words));
}

/// Takes about a minute: `cargo test --release --lib -- --ignored a_hundred_thousand`.
#[test]
#[ignore = "writes 100,000 trials; for release builds"]
fn a_hundred_thousand_trials_are_compared_in_seconds() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    let mut ledger = ledger(&path, &["native", "runc", "qemu"]);
    ledger.forget_safety().unwrap();
    for block in 0..25_000 {
        for arm in 0..4 {
            add(&mut ledger, &done(id(block, arm), 1_000_000_000 + u64::from(block * 7919 % 1000)));
        }
    }
    let began = surtax_instrument::clock::monotonic_raw();
    let findings = compare(&ledger).unwrap();
    let took = surtax_instrument::clock::monotonic_raw().since(began);
    let size = surtax_instrument::quantity::Bytes(std::fs::metadata(&path).unwrap().len());
    eprintln!("100,000 trials: compared in {took}, the ledger has {size}");
    assert_eq!(findings.run.blocks_done, 25_000);
}
