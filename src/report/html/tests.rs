//! Tests of the whole page. What a person must see, `a_sample_to_look_at` writes.

pub(crate) mod sample;

use super::{html, served};
use crate::finding::{ArmFailure, Caution, Findings, Gap, Interval, TrialPoint, Verdict};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::Markup;
use sample::{arm, colleague, empty, gap, interval, key_value, payer};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("<section id=\"{id}\"")).expect(id);
    let length = page[start..].find("</section>").expect("its end");
    &page[start..start + length]
}

#[test]
fn one_file_needs_no_other() {
    let page = html(&colleague());
    assert!(page.starts_with("<!doctype html>\n<html"), "by which a page of ours is known");
    for foreign in ["src=", "href=", "@import", "url(", "<link", "<iframe"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count() + 1, "http-equiv");
}

#[test]
fn the_policy_names_the_hashes_of_the_only_style_and_script() {
    let of_server = served(&colleague(), &Markup::default());
    for page in [html(&colleague()), of_server] {
        assert!(page.contains("default-src 'none'; style-src 'sha256-"));
        assert_eq!((page.matches("<style").count(), page.matches("<script").count()), (1, 1));
        assert!(!page.contains(" style=") && !page.contains(" onclick="));
        for (whose, begin, end) in [
            ("style-src", "<style>", "</style>"),
            ("script-src", "<script type=\"module\">", "</script>"),
        ] {
            let text = page.split(begin).nth(1).and_then(|rest| rest.split(end).next()).unwrap();
            let hash = BASE64_STANDARD.encode(Sha256::digest(text));
            assert!(page.contains(&format!("{whose} 'sha256-{hash}'")), "{whose}");
        }
    }
}

#[test]
fn the_script_is_small() {
    assert!(super::SCRIPT.len() < 10_000);
}

#[test]
fn every_part_of_the_findings_is_on_the_page() {
    let page = html(&colleague());
    let found = [
        "Building zlib under seven layers",
        "make -j4 'CFLAGS=-O2 -g'",
        "Building zlib under seven layers · 2026-03-14 09:26 UTC · 14 runs of each stack · AMD \
         EPYC 9354P 32-Core Processor · 8 CPUs",
        "runc: no measurable cost (under 3 %). gvisor:platform=systrap 1.8×",
        "noisy-machine",
        "slower than native, by more than the noise floor",
        "Evidence of level 1, runc",
        "/sys/fs/cgroup/cpu.max",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "exit 2",
        "surtax compare --seed 42",
        "dockerd, containerd, shim",
        "time to start",
        "Memory, others",
        "Quantiles of wall time",
        "an interval of this quantile takes 36 values",
        "by Holm for all compared stacks, p = 0.01",
        "A difference of 1.8 % would be called one",
        "How far the tails reach",
        "p99.999",
    ];
    for text in found {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_gap_is_a_named_row_with_its_reason_and_never_a_zero() {
    let page = html(&colleague());
    let chart = section(&page, "overhead");
    assert!(chart.contains(">not available<") && chart.contains(">/dev/kvm opens, but"), "{chart}");
    let comparison = section(&page, "comparison");
    let row = comparison.split("<tr data-arm=\"7\">").nth(1).expect("the row of arm 7");
    let row = row.split("</tr>").next().expect("its end");
    assert!(row.matches("data-value=\"\">—").count() >= 5, "{row}");
    assert!(page.contains("use <code>accel=tcg</code>"));
}

#[test]
fn both_drawings_of_a_chart_have_a_role_a_name_and_a_table() {
    let page = html(&colleague());
    for chart in ["overhead", "curves", "progress", "spread", "trials", "bill"] {
        let section = section(&page, chart);
        assert_eq!(section.matches("role=\"img\"").count(), 2, "{chart}");
        for class in ["wide", "narrow"] {
            assert!(section.contains(&format!("<title id=\"{chart}-{class}-title\">")), "{chart}");
            assert!(section.contains(&format!("<desc id=\"{chart}-{class}-what\">")), "{chart}");
        }
        assert!(section.contains("<details"), "{chart}");
        assert!(section.contains("<table"), "{chart}");
    }
}

#[test]
fn a_stack_that_is_not_decided_beside_the_baseline_says_whether_for_noise_or_for_want_of_runs() {
    let page = |[low, high]: [f64; 2], [least, most]: [f64; 2]| {
        let interval = |low, high| Interval { ratio: 1.1, low, high, confidence: 0.95 };
        let mut findings = colleague();
        findings.noise_floor = Some(interval(least, most));
        let docker = findings.arms.iter_mut().find(|arm| arm.stack == "docker").unwrap();
        docker.metrics[0].overhead = Some(interval(low, high));
        section(&html(&findings), "overhead").to_owned()
    };
    let (quiet, noisy) = ([0.99, 1.01], [0.8, 1.2]);
    assert!(page([1.05, 1.15], noisy).contains("not decided: noise"));
    assert!(page([1.05, 1.15], quiet).contains("not decided: few runs"));
    assert!(!page([0.95, 1.25], noisy).contains("not decided:"), "the interval says it");
}

#[test]
fn who_the_others_are_is_told_by_name_where_that_is_short() {
    let mut findings = colleague();
    findings.arms.retain(|arm| !arm.is_compared() || arm.stack.len() < 30);
    findings.arms.retain(|arm| !arm.stack.starts_with("qemu"));
    let page = |findings: &Findings| section(&html(findings), "comparison").to_owned();
    let said =
        "Others: sentry, gofer of gvisor:platform=systrap; dockerd, containerd, shim of docker";
    assert!(page(&findings).contains(said), "{}", page(&findings));
    assert!(page(&colleague()).contains("Others: "));
    for arm in &mut findings.arms {
        arm.payers.retain(|payer| payer.role == "workload");
    }
    assert!(page(&findings).contains("Others: all who work for a stack beside the command"));
}

#[test]
fn a_chip_names_the_stacks_of_its_caution_where_they_are_few() {
    let mut findings = colleague();
    let chips = |findings: &Findings| {
        let page = html(findings);
        let from = page.find("Before you believe a number").unwrap();
        page[from..].split("</summary>").next().unwrap().to_owned()
    };
    let of = |stacks: &[&str]| Caution {
        code: String::from("unequal-memory"),
        // Who is an exception is named, too.
        finding: String::from("every stack but `runc` had 2 GiB"),
        advice: String::new(),
        stacks: stacks.iter().map(|stack| (*stack).to_owned()).collect(),
    };
    findings.cautions = vec![of(&["docker", "docker:cpus=1"])];
    assert!(chips(&findings).contains(">memory sizes differ: docker<"), "{}", chips(&findings));
    findings.cautions = vec![of(&["native", "runc", "docker", "podman"])];
    assert!(chips(&findings).contains(">memory sizes differ<"), "{}", chips(&findings));
}

#[test]
fn the_key_names_what_is_drawn_and_nothing_else() {
    let mut findings = colleague();
    let key = |findings: &Findings| {
        let page = html(findings);
        let chart = section(&page, "overhead").to_owned();
        let key = chart.split("<figcaption>").nth(1).unwrap();
        key.split("</figcaption>").next().unwrap().to_owned()
    };
    let said = key(&findings);
    for words in ["95 % interval", "native against itself: noise", "hollow: not decided"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("without the start of its stack"), "{said}");
    findings.noise_floor = None;
    findings.arms.retain(|arm| arm.verdict != Verdict::Inconclusive);
    let said = key(&findings);
    assert!(!said.contains("against itself") && !said.contains("hollow"), "{said}");
}

#[test]
fn every_chip_is_of_a_caution_that_there_is() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/finding");
    let files = [place.clone(), place.join("caution")].map(|it| fs::read_dir(it).unwrap());
    let files = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let sources: String = files.filter(|it| it.is_file()).map(read).collect();
    for [code, _] in crate::table::rows(include_str!("chips.tsv")) {
        assert!(sources.contains(&format!("\"{code}\"")), "{code}");
    }
}

fn read(file: PathBuf) -> String {
    fs::read_to_string(file).unwrap()
}

#[test]
fn what_a_guest_says_is_shown_and_never_obeyed() {
    let evil = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'&</title></svg></pre><!--";
    let mut findings = colleague();
    let run = &mut findings.run;
    for text in [
        &mut run.id, &mut run.title, &mut run.cwd, &mut run.repeat_with, &mut run.began_at,
        &mut run.state, &mut run.baseline, &mut findings.surtax_version,
    ] {
        *text = evil.into();
    }
    findings.run.command = vec![evil.into()];
    findings.machine = vec![key_value(evil, evil, evil)];
    findings.cautions = vec![Caution {
        code: evil.into(),
        finding: evil.into(),
        advice: evil.into(),
        stacks: vec![evil.into()],
    }];
    for arm in &mut findings.arms {
        for text in [&mut arm.stack, &mut arm.because] {
            *text = evil.into();
        }
        arm.verdict = Verdict::Invalid { gap: Gap::Broken, reason: evil.into() };
        arm.stdout_hashes = vec![evil.into()];
        arm.exit_statuses = vec![evil.into()];
        arm.payers.push(payer(evil, evil, 1e9));
        arm.trouble = Some(ArmFailure {
            why: evil.into(),
            remedy: Some(evil.into()),
            stderr: Some(evil.into()),
        });
        if let Some(metric) = arm.metrics.first_mut() {
            metric.unit = evil.into();
        }
        if let Some(histogram) = arm.histograms.first_mut() {
            histogram.metric = evil.into();
        }
        for level in &mut arm.evidence {
            level.layer = evil.into();
            level.facts.push(key_value(evil, evil, evil));
        }
        for trial in &mut arm.trials {
            trial.state = evil.into();
            trial.why = evil.into();
        }
    }
    let page = html(&findings);
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("<title>").count(), page.matches("</title>").count() - 12);
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
    assert!(!page.contains('\u{202e}') && !page.contains("</pre><!--"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}[2J\\u{202e}"));
}

#[test]
fn a_run_without_arms_trials_or_sense_still_makes_a_page() {
    let mut findings = empty();
    assert!(html(&findings).ends_with("</html>\n"));
    findings.noise_floor = Some(interval(f64::NAN, f64::INFINITY));
    findings.run.equivalence_margin = -1.0;
    let mut odd = arm(0, "", "compared", f64::NAN, Verdict::Differs);
    odd.payers = vec![payer("", "", f64::NEG_INFINITY), payer("", "", -0.0)];
    let mut zero = arm(1, "zero", "compared", 0.0, Verdict::Differs);
    zero.trials = vec![colleague().arms[0].trials[0].clone(); 2];
    zero.trials[1].wall_ns = Some(0);
    findings.arms = vec![odd, zero, arm(2, "far", "compared", 1e18, Verdict::Differs)];
    let page = html(&findings);
    assert!(page.ends_with("</html>\n"));
    for drawing in page.split("<svg ").skip(1) {
        let drawing = drawing.split("</svg>").next().expect("a drawing");
        assert!(!drawing.contains("NaN\"") && !drawing.contains("inf\""), "{drawing}");
    }
}

#[test]
fn few_trials_are_drawn_one_by_one_and_say_what_they_are() {
    let page = html(&colleague());
    let chart = section(&page, "trials");
    assert_eq!(chart.matches("class=\"point\"").count(), 2 * 113, "two drawings of 113 trials");
    assert!(chart.contains("disturbed: disturbed, and repeated"), "{}", chart.len());
    assert!(!chart.contains("too many"));
}

#[test]
fn a_disturbed_trial_that_counts_is_hollow_and_the_legend_says_so() {
    let mut findings = colleague();
    let marked: u32 = findings.arms.iter().map(|arm| arm.disturbed_count).sum();
    assert!(marked > 0);
    let page = html(&findings);
    let chart = section(&page, "trials");
    assert_eq!(chart.matches("hollow: disturbed").count(), 1);
    assert!(chart.contains(&format!("{marked} trials that count were disturbed")), "{marked}");
    assert!(chart.contains("done: others used 93 % of a CPU</td>"));
    // In both drawings, and once in the legend: an outline over the paper, whatever its colour is.
    let hollow = chart.matches("var(--paper)").count();
    assert_eq!(hollow, 2 * usize::try_from(marked).unwrap() + 1);

    for arm in &mut findings.arms {
        arm.disturbed_count = 0;
        arm.trials.iter_mut().for_each(|trial| trial.disturbances.clear());
    }
    assert!(!section(&html(&findings), "trials").contains("hollow"));
}

#[test]
fn every_arm_that_ran_has_its_progress_and_its_distribution() {
    let findings = colleague();
    let page = html(&findings);
    let progress = section(&page, "progress");
    // In two drawings, and a row of the table for each of at most twelve points.
    let shown = |section: &str, arm: u32| section.matches(&format!("data-arm=\"{arm}\"")).count();
    assert_eq!(shown(progress, 0), 0, "the baseline has no overhead");
    assert_eq!(shown(progress, 2), 2 + 12);
    assert_eq!(shown(progress, 7), 0, "a gap has none either");
    let said = "runc: +1 % [−3, +5] after 3 blocks, +1 % [−1, +2] after 14 blocks";
    assert!(progress.contains(said));
    assert!(progress.matches("↓ no overhead").count() >= 2 * 2, "those of qemu, in two drawings");
    let spread = section(&page, "spread");
    for arm in 0..7 {
        assert_eq!(shown(spread, arm), 2 + 1, "arm {arm}");
    }
    assert!(spread.contains("hollow ones were disturbed") && spread.contains("A dot is a trial;"));
    assert!(spread.contains("runc: median 2."), "its description");
}

#[test]
fn an_outlier_stands_at_the_edge_of_the_distribution_and_says_how_far_it_is() {
    let mut findings = colleague();
    let counts = |trial: &&mut TrialPoint| trial.state == "done";
    let trial = findings.arms[2].trials.iter_mut().find(counts).expect("a trial that counts");
    trial.wall_ns = Some(24_000_000_000);
    let page = html(&findings);
    let spread = section(&page, "spread");
    assert_eq!(spread.matches("1 up to 9.").count(), 2, "{spread}");
}

#[test]
fn a_hundred_thousand_trials_fit_in_five_megabytes_and_the_thinning_is_said() {
    let mut findings = colleague();
    for arm in &mut findings.arms {
        arm.trials.clear();
        arm.trial_count = 0;
    }
    sample::run_trials(&mut findings, 12_500);
    let trial_count: usize = findings.arms.iter().map(|arm| arm.trials.len()).sum();
    assert!(trial_count >= 100_000, "{trial_count}");
    findings.arms[0].stdout_hashes = (0..50_000).map(|hash| format!("{hash:064x}")).collect();
    let page = html(&findings);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("are too many to show one by one"));
    assert!(page.contains("are not shown; the run file has them all"));
    assert!(page.contains("and 49992 more"));
}

#[test]
fn many_arms_share_the_room_of_the_trials() {
    let mut findings = empty();
    findings.arms = (0..120)
        .map(|place| arm(place, &format!("runc:cpus={place}"), "compared", 1.1, Verdict::Differs))
        .collect();
    findings.arms.push(gap(
        120,
        "qemu",
        "why",
        ArmFailure { why: "why".into(), remedy: None, stderr: None },
    ));
    sample::run_trials(&mut findings, 100);
    let page = html(&findings);
    let sizes = ["progress", "spread", "trials", "arms"].map(|id| (id, section(&page, id).len()));
    assert!(page.len() < 5_000_000, "{} {sizes:?}", page.len());
}

/// `SURTAX_SAMPLE=/tmp/report.html cargo test -- --ignored a_sample_to_look_at`, then a browser.
#[test]
#[ignore = "writes a file for a person to look at"]
fn a_sample_to_look_at() {
    let path = std::env::var("SURTAX_SAMPLE").expect("SURTAX_SAMPLE names the file to write");
    let mut findings: Findings = colleague();
    if let Some(blocks) = std::env::var("SURTAX_SAMPLE_BLOCKS").ok().and_then(|n| n.parse().ok()) {
        findings.arms.iter_mut().for_each(|arm| arm.trials.clear());
        sample::run_trials(&mut findings, blocks);
    }
    std::fs::write(path, html(&findings)).expect("the sample is written");
}
