//! A command whose words, variables and directory are bytes and no text: it runs, is kept, shown
//! and repeated.

use crate::machine::{Machine, is_usable, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output};
use surtax::driver;

/// In Latin 1 a word, in UTF-8 none.
const WORD: &[u8] = b"caf\xe9\\ '";

/// Ends well where the word, a variable and the directory came through, and says the word.
const SCRIPT: &str =
    r#"[ "$1" = "$VALUE" ] && [ "${PWD##*/}" = "$1" ] && printf %s "$1" | od -An -tx1"#;

/// Runs it in a directory of that name.
fn there(machine: &Machine, arguments: &[&str], command: &[&str]) -> Output {
    let place = machine.path("").join(OsStr::from_bytes(WORD));
    std::fs::create_dir_all(&place).unwrap();
    let mut surtax = machine.command(arguments);
    if !command.is_empty() {
        surtax.arg("--env").arg(OsStr::from_bytes(&[b"VALUE=", WORD].concat()));
        surtax.arg("--").args(command).arg(OsStr::from_bytes(WORD));
    }
    surtax.current_dir(place).output().unwrap()
}

#[test]
fn a_command_that_is_no_text_gets_its_bytes_in_every_stack() {
    let machine = Machine::take();
    // How each takes a command over, nothing else is in question.
    let all = driver::containers().map(|it| it.kind).chain(["runc+gvisor"]);
    let usable: Vec<&str> =
        all.filter(|stack| stack.split('+').all(|layer| is_usable(&machine, layer))).collect();
    assert!(usable.contains(&"native"), "{usable:?}");
    let stacks = usable.join(",");
    let command = ["sh", "-c", SCRIPT, "sh"];
    let flags = ["compare", "--in", &stacks, "--runs", "1", "--format", "json"];
    let output = there(&machine, &flags, &command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let arms = answer["arms"].as_array().unwrap();
    assert_eq!(arms.len(), usable.len() + 1);
    for arm in arms {
        assert_eq!(arm["trial_count"], 1, "{}: {}", arm["stack"], arm["trouble"]);
        assert_eq!(arm["stdout_hashes"], arms[0]["stdout_hashes"], "{}", arm["stack"]);
    }
    assert_eq!(answer["run"]["command"][3], "sh");
    assert_eq!(answer["run"]["command"][4], serde_json::json!({ "escaped": r"caf\xe9\\ '" }));
    machine.assert_as_before();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a real shell reads the line")]
fn a_run_of_a_command_that_is_no_text_is_read_shown_resumed_and_repeated() {
    let machine = Machine::take();
    let quoted = r"$'caf\351\\ \''";
    let command = ["sh", "-c", SCRIPT, "sh"];
    let asked = there(&machine, &["compare", "--in", "native", "--runs", "1"], &command);
    assert!(asked.status.success(), "{}", text(&asked.stderr));

    let mut said = vec![asked];
    for format in ["table", "json", "csv", "markdown"] {
        said.push(there(&machine, &["show", "last", "--format", format], &[]));
    }
    said.push(there(&machine, &["resume", "last"], &[]));
    said.push(there(&machine, &["list"], &[]));
    for output in &said {
        assert!(output.status.success(), "{}", text(&output.stderr));
        for stream in [&output.stdout, &output.stderr] {
            assert!(std::str::from_utf8(stream).is_ok(), "{}", text(stream));
        }
    }
    let shown = text(&said[1].stdout);
    assert!(shown.contains(quoted), "{shown}");

    let report = machine.path("report.html");
    let asked = ["report", "last", "--output", report.to_str().unwrap()];
    assert!(there(&machine, &asked, &[]).status.success());
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains(quoted), "{page}");

    // What is said to repeat it does so, from wherever: the value of the variable is the caller's.
    let json: serde_json::Value = serde_json::from_slice(&said[2].stdout).unwrap();
    let line = json["run"]["repeat_with"].as_str().unwrap();
    let line = line.replace(" && surtax ", &format!(" && {} ", env!("CARGO_BIN_EXE_surtax")));
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).env("VALUE", OsStr::from_bytes(WORD)).current_dir("/");
    let again = shell.env("XDG_DATA_HOME", machine.path("data")).output().unwrap();
    assert!(again.status.success(), "{line}\n{}", text(&again.stderr));

    // A plan that is written as a file is read as the same plan.
    let toml = there(&machine, &["plan", "--in", "native", "--seed", "7", "--toml"], &command);
    assert!(toml.status.success(), "{}", text(&toml.stderr));
    let file = machine.path("plan.toml");
    std::fs::write(&file, &toml.stdout).unwrap();
    let plan = there(&machine, &["plan", file.to_str().unwrap(), "--toml"], &[]);
    assert_eq!(text(&plan.stdout), text(&toml.stdout), "{}", text(&plan.stderr));
    assert!(text(&toml.stdout).contains("{ escaped = "), "{}", text(&toml.stdout));
    machine.assert_as_before();
}

#[test]
fn a_directory_that_is_no_text_cannot_be_writable() {
    let machine = Machine::take();
    let place = machine.path("").join(OsStr::from_bytes(WORD));
    std::fs::create_dir_all(&place).unwrap();
    let mut surtax = machine.command(&["compare", "--in", "native", "--writable"]);
    let output = surtax.arg(&place).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("has a name that is no text"),
        "{}",
        text(&output.stderr)
    );
    machine.assert_as_before();
}
