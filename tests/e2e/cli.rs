//! Bad input, given to the built binary: what it says, where it says it, and how it exits.

use crate::machine::Machine;
use std::process::Output;

fn surtax(arguments: &[&str]) -> Output {
    // Its turn too: another test's census counts every process of ours.
    let machine = Machine::take();
    machine.command(arguments).env_remove("RUST_BACKTRACE").output().expect("the binary starts")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused(arguments: &[&str], expected: &[&str]) {
    let output = surtax(arguments);
    let errors = errors(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(output.stdout.is_empty(), "an error is no answer");
    for part in expected {
        assert!(errors.contains(part), "`{part}` is missing in\n{errors}");
    }
}

#[test]
fn an_unknown_layer_is_pointed_at_and_the_nearest_is_named() {
    refused(
        &["compare", "--in", "native,qmeu:memory=1G", "--", "true"],
        &[
            "surtax: error: `--in`: unknown layer `qmeu`\n    qmeu:memory=1G\n    ^^^^\n",
            "  hint: use `qemu`; the layers are `native`",
        ],
    );
}

#[test]
fn an_unknown_option_is_pointed_at_and_the_nearest_is_named() {
    refused(
        &["compare", "--in", "native,qemu:acel=tcg", "--", "true"],
        &["unknown option `acel` of `qemu`\n    qemu:acel=tcg\n         ^^^^\n", "use `accel`"],
    );
}

#[test]
fn a_command_is_needed() {
    refused(
        &["compare", "--in", "native"],
        &["there is no command to measure", "hint: write it after `--`"],
    );
}

#[test]
fn a_stack_is_needed() {
    refused(
        &["compare", "--", "true"],
        &["there is no stack to run the command in", "`surtax doctor`"],
    );
}

#[test]
fn an_unknown_plan_key_is_named_with_file_and_line() {
    let place = tempfile::tempdir().expect("a directory");
    let plan = place.path().join("io.toml");
    std::fs::write(&plan, "# mine\ncommand = [\"true\"]\nwarmup = 3\n").expect("a file");
    let name = plan.to_str().expect("UTF-8");
    let line = format!("surtax: error: {name}:3: unknown key `warmup`\n  hint: use `warm_up`;");
    refused(&["plan", name], &[&line]);
    refused(&["run", name], &[&line]);
}

#[test]
fn a_command_in_the_place_of_a_plan_is_shown_its_own() {
    let meant = "`surtax compare --in native,runc -- true`";
    refused(&["run", "--in", "native,runc", "--", "true"], &["the plan `true`", meant]);
    refused(&["run", "nothing-of-that-name"], &["use one of the plans that come with surtax"]);
}

#[test]
fn a_contradiction_in_a_plan_is_named_with_file_and_line() {
    let place = tempfile::tempdir().expect("a directory");
    let plan = place.path().join("none.toml");
    std::fs::write(&plan, "command = [\"true\"]\nruns = 0\nstacks = [\"native\"]\n")
        .expect("a file");
    let name = plan.to_str().expect("UTF-8");
    refused(&["plan", name], &[&format!("{name}:2: `runs = 0` measures nothing")]);
}

#[test]
fn an_unknown_flag_and_a_number_without_a_unit_are_refused_with_the_right_one() {
    refused(&["compare", "--rums", "3"], &["--rums", "--runs"]);
    refused(&["compare", "--time", "90"], &["`90` is not a duration", "add a unit, as in `90s`"]);
    refused(&["compare", "--margin", "3"], &["`3` is not a percentage"]);
    refused(&["comapre"], &["comapre", "compare"]);
}

#[test]
fn a_count_below_nothing_and_a_list_with_spaces_are_refused_with_what_to_type() {
    for (flag, least) in [("--runs", 1), ("-r", 1), ("--instances", 1), ("--warmup", 0)] {
        let wanted = format!("a whole number is wanted, at least {least}");
        refused(&["compare", "--in", "native", flag, "-3", "--", "true"], &[&wanted]);
    }
    for command in [vec!["--", "true"], vec!["true"]] {
        let list = ["compare", "--in", "native,", "runc,", "docker"];
        refused(
            &[&list[..], &command].concat(),
            &["hint: write the stacks without a space: `--in native,runc,docker`"],
        );
    }
}

#[test]
fn budgets_that_contradict_each_other_are_refused_before_anything_is_started() {
    let question = ["compare", "--in", "native,runc"];
    let refused = |flags: &[&str], expected: &[&str]| {
        refused(&[question.as_slice(), flags, &["--", "true"]].concat(), expected);
    };
    refused(
        &["--precision", "2%", "--runs", "5"],
        &["`precision` with `runs = 5` can never be reached", "hint: ask for at least 16 runs"],
    );
    refused(
        &["--precision", "0.0001%"],
        &["`precision = 0.0001%` cannot be reached", "hint: ask for `0.01%` or more"],
    );
    refused(&["--precision", "150%"], &["the percentage `150%` is out of range", "at most 50%"]);
    refused(&["--time", "0s"], &["the duration `0s` is zero"]);
    refused(
        &["--fail-if", "wall > +3%", "--runs", "2"],
        &["`--fail-if 'wall > +3%'` cannot be decided with `runs = 2`", "takes 3 blocks"],
    );
}

#[test]
fn a_threshold_that_decides_nothing_is_refused_with_what_would() {
    let refused = |stacks: &str, threshold: &str, expected: &[&str]| {
        let question = ["compare", "--in", stacks, "--fail-if", threshold, "--", "true"];
        refused(&question, expected);
    };
    let stacks = "native,runc";
    refused(stacks, "walls > +3%", &["`walls` in `walls > +3%` is no metric", "use `wall`"]);
    refused(
        stacks,
        "gvisor: wall > 2x",
        &["`gvisor` in `gvisor: wall > 2x` is no stack that is compared"],
    );
    refused(stacks, "wall < 3%", &["it has no `>`", "of every metric more is worse"]);
    refused(stacks, "wall > 3", &["`3` in `wall > 3` is no limit of a cost", "as in `+3%`"]);
    refused(stacks, "wall > NaN%", &["`NaN%` in `wall > NaN%` is no limit of a cost"]);
    refused(
        "native",
        "wall > +3%",
        &["has nothing to decide: only `native` is measured", "as in `--in native,runc`"],
    );
}

#[test]
fn a_goal_that_time_ran_out_for_is_said_at_the_end() {
    let machine = Machine::take();
    let stacks = "simulated:seed=1,simulated:cost=1.07,seed=1";
    let question =
        ["compare", "--in", stacks, "--baseline", "simulated:seed=1", "--precision", "2%"];
    let limits = ["--time", "1ms", "--format", "json", "--", "true"];
    let answer = machine.json(&[question.as_slice(), &limits].concat());
    let cautions = answer["cautions"].as_array().expect("cautions are a list");
    let missed = cautions.iter().find(|caution| caution["code"] == "precision-missed");
    let missed = missed.unwrap_or_else(|| panic!("{cautions:#?}")).to_string();
    assert!(missed.contains("the goal of ±2 % was not reached"), "{missed}");
    assert!(missed.contains("at least 16 blocks"), "{missed}");
}

#[test]
fn a_baseline_that_was_not_named_is_added_and_said() {
    let output = surtax(&["plan", "--in", "runc", "--", "true"]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = "note: `native` is measured too, as the baseline; `--baseline STACK` names another";
    assert!(errors(&output).contains(said), "{}", errors(&output));
}

#[test]
fn a_run_of_the_baseline_alone_can_be_shown_exported_and_reported_and_says_so() {
    let machine = Machine::take();
    let run = machine.path("run.surtax");
    let run = run.to_str().expect("UTF-8");
    let page = machine.path("run.html");
    let page = page.to_str().expect("UTF-8");
    let said = "only `simulated` has trials that count, so there is no overhead to tell";
    let stack = ["--in", "simulated", "--baseline", "simulated", "--runs", "4", "-o", run];
    for arguments in [
        &[["compare"].as_slice(), &stack, &["--", "true"]].concat(),
        ["show", run].as_slice(),
        &["show", run, "--format", "markdown"],
        &["show", run, "--format", "json"],
    ] {
        let output = machine.surtax(arguments);
        let answer = crate::machine::text(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
        let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(said), "{arguments:?}: {answer}");
    }
    let exported = machine.surtax(&["export", run]);
    assert!(exported.status.success(), "{}", errors(&exported));
    let reported = machine.surtax(&["report", run, "-o", page]);
    assert!(reported.status.success(), "{}", errors(&reported));
    let html = std::fs::read_to_string(page).expect("the report was written");
    assert!(html.contains("so there is no overhead to tell"));
}

#[test]
fn a_cost_that_is_no_number_is_a_named_gap_and_a_time_of_zero_has_no_ratio() {
    let machine = Machine::take();
    let answer = |stack: &str| {
        let stacks = format!("simulated,{stack}");
        let question = ["compare", "--in", &stacks, "--baseline", "simulated", "--runs", "4"];
        machine.answer(&[question.as_slice(), &["--format", "json", "--", "true"]].concat())
    };
    for cost in ["NaN", "0", "-1", "inf"] {
        let answer = answer(&format!("simulated:cost={cost}"));
        let why =
            answer["arms"][2]["trouble"]["why"].as_str().expect("a gap has a reason").to_owned();
        assert!(why.starts_with(&format!("simulated: cost {cost} with noise")), "{why}");
    }
    let answer = answer("simulated:cost=1e-12");
    let because = answer["arms"][2]["because"].as_str().expect("a verdict has a reason");
    assert!(because.ends_with("the command is said to have taken no time at all"), "{because}");
    assert_eq!(answer["arms"][2]["overhead"], serde_json::Value::Null);
}

#[test]
fn a_plan_from_flags_reads_as_the_same_plan() {
    let flags = ["--in", "native", "--seed", "7", "--runs", "2", "--", "sh", "-c", "echo '$HOME'"];
    let written = surtax(&[&["plan", "--toml"], flags.as_slice()].concat());
    assert!(written.status.success(), "{}", errors(&written));
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("mine.toml");
    std::fs::write(&file, &written.stdout).expect("a file");
    let from_file = surtax(&["plan", "--format", "json", file.to_str().expect("UTF-8")]);
    let from_flags = surtax(&[&["plan", "--format", "json"], flags.as_slice()].concat());
    assert!(from_file.status.success(), "{}", errors(&from_file));
    assert_eq!(from_file.stdout, from_flags.stdout);
    assert!(errors(&from_flags).contains("note: only `native` is measured"));
}

#[test]
fn every_command_has_a_short_and_a_long_help_a_man_page_and_completions() {
    let place = tempfile::tempdir().expect("a directory");
    let pages = surtax(&["man", "--directory", place.path().to_str().expect("UTF-8")]);
    assert!(pages.status.success(), "{}", errors(&pages));
    for command in [
        "compare", "plan", "run", "resume", "doctor", "enter", "show", "report", "export", "list",
        "rm", "gc", "prove", "diff", "history", "schema",
    ] {
        for flag in ["-h", "--help"] {
            let help = surtax(&[command, flag]);
            assert!(help.status.success() && !help.stdout.is_empty(), "{command} {flag}");
        }
        assert!(place.path().join(format!("surtax-{command}.1")).is_file(), "{command}");
    }
    // The others ask: see `completions`.
    for shell in ["elvish", "powershell"] {
        let script = surtax(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("compare"), "{shell}");
    }
}
