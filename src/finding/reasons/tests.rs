//! Reports of runs with many stacks, in every format.

use crate::finding::{Findings, compare};
use crate::ledger::Ledger;
use crate::ledger::fixture::{add, done, fact, id, plan, record};
use crate::report::{export, html, markdown, terminal};
use crate::trial::disturbance::Disturbance;
use crate::trial::{Evidence, Reason, Record, TrialResult};
use crate::workload::{Better, Metric, Workload};

/// Nine stacks beside the baseline.
const STACKS: [&str; 10] = [
    "native", "runc:net=host", "runc:net=veth", "docker:net=host", "docker:net=bridge",
    "docker:net=user", "podman:net=host", "podman:net=bridge", "gvisor:net=host",
    "gvisor:net=sandbox",
];

/// Measures so many blocks of a workload that prints two numbers; of a trial, `change` has the last
/// word.
fn measured(workload: &str, blocks: u32, change: impl Fn(&mut Record)) -> Findings {
    let shelf = tempfile::tempdir().unwrap();
    let mut plan = plan(&STACKS);
    plan.workload = Some(Workload::find(workload).unwrap());
    let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
    for (block, arm) in (0..blocks).flat_map(|block| (0..11).map(move |arm| (block, arm))) {
        let mut record = done(id(block, arm), 1_000_000_000 + u64::from(block * 7 % 5) * 100_000);
        let TrialResult::Done(measured) = &mut record.result else { continue };
        let metric = |name: &str| Metric {
            name: String::from(name),
            unit: "ns",
            better: Better::Lower,
            value: 1000.0 + f64::from(block),
        };
        measured.workload.metrics = vec![metric("one"), metric("other")];
        change(&mut record);
        add(&mut ledger, &record);
    }
    compare(&ledger).unwrap()
}

/// The text without its line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The page without its markup.
fn words(page: &str) -> String {
    let parts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    flat(&parts.collect::<Vec<_>>().join(" "))
}

/// A setting of the workload, by what each arm says of it.
fn set(record: &mut Record, value: impl Fn(u32) -> &'static str) {
    let arm = record.trial.arm;
    let TrialResult::Done(measured) = &mut record.result else { return };
    let mut levels = measured.evidence.levels().to_vec();
    levels.last_mut().unwrap().facts.push(fact("setting_idle", value(arm)));
    measured.evidence = Evidence::of(levels).unwrap();
}

fn finding(findings: &Findings, code: &str) -> Option<String> {
    findings.cautions.iter().find(|it| it.code == code).map(|it| it.finding.clone())
}

#[test]
fn a_reason_that_is_the_same_everywhere_is_said_once_in_every_format() {
    let findings = measured("compress.xz", 2, |_| {});
    let because = "an interval takes 3 blocks in which it and `native` count, and there are 2";
    let text = flat(&terminal::render(&findings, terminal::PLAIN));
    assert_eq!(text.matches("an interval takes 3").count(), 2, "{text}");
    assert!(text.contains(&format!(" every metric, every stack: {because} ")), "{text}");
    assert!(text.contains(&format!(" every stack: {because} ")), "{text}");
    let text = markdown::markdown(&findings);
    assert_eq!(text.matches("an interval takes 3").count(), 2, "{text}");
    assert!(text.contains(&format!("- every metric, every stack: {because}\n")), "{text}");
    let page = html::html(&findings);
    let part = |id: &str| {
        let start = page.find(&format!("<section id=\"{id}\"")).unwrap();
        words(page[start..].split("</section>").next().unwrap())
    };
    assert_eq!(part("verdicts").matches("an interval takes 3").count(), 1, "{}", part("verdicts"));
    let measured = part("measured");
    assert_eq!(measured.matches("an interval takes 3").count(), 1, "{measured}");
    assert!(measured.contains("every metric, every stack: an interval takes"), "{measured}");
    assert!(!measured.contains("Why"), "{measured}");
    let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
    assert_eq!(json["arms"][5]["because"], because, "JSON says it of each");
}

#[test]
fn a_stack_with_a_reason_of_its_own_is_named_before_the_others() {
    // In the first block of three the last stack has no number.
    let findings = measured("compress.xz", 3, |record| {
        if (record.trial.arm, record.trial.block) == (10, 0) {
            record.result = TrialResult::Broken(String::from("it fell over").into());
        }
    });
    let text = flat(&terminal::render(&findings, terminal::PLAIN));
    let own = "gvisor:net=sandbox: an interval takes 3 blocks in which it and `native` count, and \
               there are 2";
    assert!(text.contains(&format!(" {own} the others: ")), "{text}");
    assert!(text.contains("gvisor:net=sandbox: not every trial counts: it fell over"), "{text}");
    let text = markdown::markdown(&findings);
    assert!(text.contains("\n- `gvisor:net=sandbox`: an interval takes"), "{text}");
    assert!(text.contains("\n- the others: "), "{text}");
}

#[test]
fn stacks_that_fail_alike_are_named_together_with_one_remedy() {
    let findings = measured("compress.xz", 2, |record| {
        if record.trial.arm > 7 {
            let remedy = Some(String::from("apt-get install it"));
            let why = String::from("it is not there");
            *record = self::record(record.trial, TrialResult::Unavailable(Reason { why, remedy }));
        }
    });
    let whose = "`podman:net=bridge`, `gvisor:net=host` and `gvisor:net=sandbox`";
    let text = terminal::render(&findings, terminal::PLAIN);
    let said = format!("{}: no number: it is not there", whose.replace('`', ""));
    assert!(flat(&text).contains(&said), "{text}");
    assert_eq!(text.matches("apt-get install it").count(), 1, "{text}");
    let text = markdown::markdown(&findings);
    assert!(text.contains(&format!("### {whose}\n\nit is not there\n")), "{text}");
    assert_eq!(
        finding(&findings, "layer-unavailable"),
        Some(format!("{whose} was not measured: it is not there"))
    );
}

#[test]
fn where_nearly_all_trials_were_disturbed_the_exceptions_are_named() {
    let disturbed = |is_it: fn(u32, u32) -> bool| {
        let findings = measured("compress.xz", 2, |record| {
            if is_it(record.trial.arm, record.trial.block) {
                let key = String::from("others_cpu_ratio");
                record.disturbances.push(Disturbance { key, value: 0.5, limit: 0.2 });
            }
        });
        let finding = finding(&findings, "disturbed").unwrap();
        finding.split(" were disturbed").next().unwrap().to_owned()
    };
    assert_eq!(disturbed(|_, _| true), "all trials of every stack");
    assert_eq!(
        disturbed(|arm, block| arm != 10 || block == 1),
        "all trials of every stack but `gvisor:net=sandbox` (1 of 2)"
    );
    assert_eq!(
        disturbed(|arm, _| arm < 10),
        "all trials of every stack but `gvisor:net=sandbox` (none)"
    );
    assert_eq!(
        disturbed(|arm, block| arm > 3 || block == 1 && arm != 3),
        "all trials of every stack but `native` (2 of 4), `runc:net=host` (1 of 2), \
         `runc:net=veth` (none)"
    );
    assert_eq!(
        disturbed(|arm, block| arm > 5 || block == 1 && arm != 3),
        "15 of 20 trials of every stack but `runc:net=veth`"
    );
    assert_eq!(
        disturbed(|arm, block| block == 0 && arm > 1),
        "9 of 18 trials of every stack but `native`"
    );
    assert_eq!(disturbed(|arm, _| arm == 1), "2 of 2 trials of `native` (again)");
}

#[test]
fn a_setting_of_the_most_is_that_of_the_others() {
    let findings = measured("compress.xz", 2, |record| {
        set(record, |arm| if arm > 8 { "none" } else { "menu" });
    });
    let text = flat(&terminal::render(&findings, terminal::PLAIN));
    let line = "Measured with idle: none in `gvisor:net=host` and `gvisor:net=sandbox`; menu in \
                the others";
    assert!(text.contains(line), "{text}");
    assert!(markdown::markdown(&findings).contains(line));
    assert!(words(&html::html(&findings)).contains("; menu in the others"));
    let said = finding(&findings, "settings-differ").unwrap();
    let differing = "`idle` was `menu`, and `none` in `gvisor:net=host` and `gvisor:net=sandbox`";
    assert!(said.ends_with(differing), "{said}");
}

#[test]
fn a_setting_that_nobody_knows_is_left_out_and_one_that_some_do_not_is_no_difference() {
    let nowhere = measured("compress.xz", 2, |record| set(record, |_| "?"));
    assert!(!terminal::render(&nowhere, terminal::PLAIN).contains("idle"));
    assert_eq!(finding(&nowhere, "settings-differ"), None);

    let half = |arm: u32| if arm > 8 { "client ?, server none" } else { "?" };
    let findings = measured("compress.xz", 2, |record| set(record, half));
    let text = flat(&terminal::render(&findings, terminal::PLAIN));
    let line = "Measured with idle: client unknown, server none in `gvisor:net=host` and \
                `gvisor:net=sandbox`; unknown in the others";
    assert!(text.contains(line), "{text}");
    assert_eq!(finding(&findings, "settings-differ"), None);

    let known = |arm: u32| if arm > 8 { "client ?, server none" } else { "menu" };
    let findings = measured("compress.xz", 2, |record| set(record, known));
    let said = finding(&findings, "settings-differ").unwrap();
    assert!(said.contains("`menu`, and `client unknown, server none` in"), "{said}");
}

#[test]
fn of_a_workload_of_fixed_time_no_format_for_people_judges_the_wall_time() {
    let findings = measured("disk.randwrite", 3, |_| {});
    assert!(findings.run.is_of_fixed_time);
    let text = terminal::render(&findings, terminal::PLAIN);
    let head = text.lines().find(|line| line.starts_with("Stack ")).unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["Stack", "Trials", "CPU", "CPU", "Memory", "Memory"], "{text}");
    assert!(!text.contains("Noise floor") && !text.contains("fast as"), "{text}");
    assert!(text.contains("as good as `native`"), "the verdicts on what it measured stay: {text}");
    let text = markdown::markdown(&findings);
    let head =
        "| Stack | Trials | CPU, command | CPU, others | Memory, command | Memory, others |\n";
    assert!(text.contains(head), "{text}");
    let row = text.lines().find(|line| line.starts_with("| `runc:net=host` |")).unwrap();
    assert_eq!(row.matches('|').count(), 7, "{row}");
    assert!(!text.contains("Noise floor") && !text.contains("fast as"), "{text}");
    let page = html::html(&findings);
    for id in ["progress", "spread"] {
        assert!(!page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    let answer = page.split("<section id=\"comparison\"").next().unwrap();
    let answer = words(answer.split("<header>").nth(1).unwrap());
    assert!(!answer.contains("wall time"), "{answer}");
    assert!(!words(&page).contains("fast as"), "{}", words(&page));
    // For programs everything stays.
    let json: serde_json::Value = serde_json::from_str(&export::json(&findings)).unwrap();
    assert_eq!(json["run"]["is_of_fixed_time"], true);
    assert_eq!(json["arms"][2]["verdict"]["is"], "equivalent");
    assert!(
        export::csv(&findings)
            .lines()
            .any(|row| row.starts_with("2,runc:net=host,compared,3,wall_ns,"))
    );
}

#[test]
fn of_a_workload_of_fixed_time_a_stack_without_numbers_still_says_why() {
    let findings = measured("disk.randwrite", 3, |record| {
        if record.trial.arm == 10 {
            record.result = TrialResult::Broken(String::from("it fell over").into());
        }
    });
    let text = flat(&terminal::render(&findings, terminal::PLAIN));
    assert!(text.contains("gvisor:net=sandbox: no number: it fell over"), "{text}");
    let page = html::html(&findings);
    let section = &page[page.find("<section id=\"verdicts\"").unwrap()..];
    let section = words(section.split("</section>").next().unwrap());
    assert!(section.contains("broken it fell over"), "{section}");
    assert!(!section.contains("fast as"), "{section}");
}

#[test]
fn a_baseline_that_failed_is_told_once_with_what_helps_and_with_what_was_not_run() {
    use crate::trial::TrialResult::CommandFailed;
    for failed in [0, 1] {
        let shelf = tempfile::tempdir().unwrap();
        let plan = plan(&["native", "runc", "crun"]);
        let mut ledger = Ledger::create(&shelf.path().join("run.surtax"), &plan, &[]).unwrap();
        let mut measured = crate::ledger::fixture::measured(10);
        measured.outcome.status = surtax_instrument::wire::Status::Exit(3);
        measured.outcome.stderr.tail = b"why not".into();
        add(&mut ledger, &record(id(0, failed), CommandFailed(Box::new(measured))));
        let findings = compare(&ledger).unwrap();
        let said = "There is no number to show: in the baseline `native`, the command failed: \
                    exit 3. What helps: make the command succeed here; `--ignore-failure` counts \
                    failures too. Not run: `runc` and `crun`. native: last words of the command | \
                     why \
                    not Repeat with:";
        let text = flat(&terminal::render(&findings, terminal::PLAIN));
        assert!(text.contains(said), "arm {failed}: {text}");
        assert!(markdown::markdown(&findings).contains("Not run: `runc` and `crun`.\n"));
    }
}
