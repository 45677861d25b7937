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
        "gc", "prove",
    ] {
        for flag in ["-h", "--help"] {
            let help = surtax(&[command, flag]);
            assert!(help.status.success() && !help.stdout.is_empty(), "{command} {flag}");
        }
        assert!(place.path().join(format!("surtax-{command}.1")).is_file(), "{command}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = surtax(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("compare"), "{shell}");
    }
}
