//! Explanations of overheads: what is counted in each kind of stack, against what is planted, and
//! what every format says of it.

use crate::machine::{Machine, is_slow_made, is_usable, text};
use serde_json::Value;

/// Reads that are planted.
const READS: u64 = 30_000;

/// Returns what a surtax prints that succeeds.
fn printed(machine: &Machine, arguments: &[&str]) -> String {
    let output = machine.surtax(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns what a surtax says that refuses.
fn refused(machine: &Machine, arguments: &[&str]) -> String {
    let output = machine.surtax(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Runs the command in these stacks.
fn measured(machine: &Machine, stacks: &str) {
    let count = format!("count={READS}");
    let flags = ["compare", "--in", stacks, "--runs", "3", "--title", "planted", "--quiet", "--"];
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1k", &count, "status=none"];
    printed(machine, &[&flags[..], &dd].concat());
}

/// Explains it by a price list of a moment.
fn explained(machine: &Machine, stacks: &str) -> Value {
    measured(machine, stacks);
    let short = "--runs 6 --each 1ms --array-bytes 1024 --title cheap --quiet".split(' ');
    printed(machine, &["prices", "--in", stacks].into_iter().chain(short).collect::<Vec<_>>());
    machine.json(&["why", "planted", "--prices", "cheap", "--quiet", "--format", "json"])
}

/// Explanation of the only stack that is compared.
fn why(answer: &Value) -> &Value {
    let why = &answer["arms"][2]["why"];
    assert!(why.is_object(), "{}", answer["arms"][2]["because"]);
    why
}

fn count_of(why: &Value, cause: &str) -> f64 {
    let causes = why["causes"].as_array().unwrap();
    let found = causes.iter().find(|it| it["cause"] == cause);
    found.unwrap_or_else(|| panic!("no `{cause}` in {why}"))["count"].as_f64().unwrap()
}

#[test]
fn a_container_is_counted_by_this_machine_and_every_format_has_the_causes() {
    let machine = Machine::take();
    measured(&machine, "native,runc");
    let answer = machine.json(&["why", "--runs", "6", "--quiet", "--format", "json"]);
    let why = why(&answer);
    assert_eq!(why["counted_by"], "this-machine");
    let planted = READS as f64;
    for cause in ["file_read", "file_write"] {
        let count = count_of(why, cause);
        assert!((count / planted - 1.0).abs() < 1e-3, "{cause}: {count}");
    }
    assert!((count_of(why, "fork_exec_wait") - 1.0).abs() < f64::EPSILON, "{why}");
    for it in [&why["extra"], &why["unexplained"], &why["causes"][0]["extra"]] {
        let ends = ["low_ns", "ns", "high_ns"].map(|key| it[key].as_f64().unwrap());
        assert!(ends.is_sorted(), "{why}");
    }
    // It is kept: nothing is measured again, and all formats say it.
    let [shown, page, markdown] = [
        printed(&machine, &["why"]),
        printed(&machine, &["show"]),
        printed(&machine, &["show", "--format", "markdown"]),
    ];
    assert!(shown.contains("unexplained") && shown.contains("reads"), "{shown}");
    assert!(page.contains("Why, runc: "), "{page}");
    assert!(markdown.contains("| Cause | Times |"), "{markdown}");
    let listed = printed(&machine, &["list"]);
    assert_eq!(listed.matches("prices for: planted").count(), 1, "{listed}");
    machine.assert_as_before();
}

#[test]
fn a_sandbox_that_lets_nobody_count_is_explained_by_the_baseline_s_counts() {
    let machine = Machine::take();
    if !is_usable(&machine, "gvisor") {
        return;
    }
    let answer = explained(&machine, "native,gvisor");
    let why = why(&answer);
    assert_eq!(why["counted_by"], "baseline");
    assert!(why["why_not_own"].is_string(), "{why}");
    let count = count_of(why, "file_write");
    assert!((count / READS as f64 - 1.0).abs() < 1e-3, "{count}");
    machine.assert_as_before();
}

#[test]
fn a_machine_counts_for_itself() {
    if !is_slow_made("the explanation of a machine") {
        return;
    }
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let answer = explained(&machine, "native,qemu:accel=tcg");
    let why = why(&answer);
    assert_eq!(why["counted_by"], "inside", "{why}");
    let count = count_of(why, "file_write");
    assert!((count / READS as f64 - 1.0).abs() < 1e-3, "{count}");
    machine.assert_as_before();
}

#[test]
fn what_cannot_be_explained_is_refused_before_anything_is_measured() {
    let machine = Machine::take();
    let flags = ["compare", "--in", "native,runc", "--runs", "1", "--quiet", "--", "true"];
    printed(&machine, &flags);
    let said = refused(&machine, &["why"]);
    assert!(said.contains("no stack of the run has an overhead"), "{said}");
    let said = refused(&machine, &["why", "--runs", "2"]);
    assert!(said.contains("6..=1000"), "{said}");
    let said = refused(&machine, &["why", "nobody-has-this-run"]);
    assert!(said.contains("no run"), "{said}");
    machine.assert_as_before();
}
