//! `surtax enter`: a command or a shell in a stack, with pipes or a terminal.

use crate::machine::{Machine, is_usable, text};
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Runs it with this on its standard input.
fn with_input(machine: &Machine, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = machine.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that ends early does not read all of it.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn a_command_prints_and_its_exit_code_is_ours() {
    let machine = Machine::take();
    for stack in ["native", "native:root=host", "runc", "gvisor", "qemu:accel=tcg"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let script = "echo hi; echo oh >&2; exit 3";
        let output = machine.surtax(&["enter", stack, "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(3), "{stack}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "hi\n", "{stack}");
        assert!(text(&output.stderr).contains("oh\n"), "{stack}: {}", text(&output.stderr));
        machine.assert_as_before();
    }
    let killed = machine.surtax(&["enter", "native", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137), "128 and the signal's number, as shells have it");
    machine.assert_as_before();
}

#[test]
fn the_caller_s_environment_is_kept_back_where_that_is_asked_for() {
    let machine = Machine::take();
    // Nor is it with the process that root in there can look at: the command's parent, and the
    // first of its namespace.
    let script = "echo ${TOKEN-none} ${KEPT-none}; for i in $PPID 1; do tr '\\0' '\\n' \
                  </proc/$i/environ; done | grep ^TOKEN=token";
    for stack in
        ["native", "namespaces", "runc"].into_iter().filter(|stack| is_usable(&machine, stack))
    {
        let said = |flag: &[&str]| {
            let words =
                [&["enter", stack, "--env", "KEPT=kept"], flag, &["--", "sh", "-c", script]];
            let output = machine.command(&words.concat()).env("TOKEN", "token").output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{stack}: {}", text(&output.stderr));
            text(&output.stdout)
        };
        assert_eq!([said(&[]), said(&["--clear-env"])], ["token kept\n", "none kept\n"], "{stack}");
    }
    machine.assert_as_before();
}

#[test]
fn what_is_piped_in_reaches_the_command_in_any_order_of_reading_and_printing() {
    let machine = Machine::take();
    let input = vec![b'x'; 2_000_000];
    for stack in ["native", "runc", "gvisor"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let output = with_input(&machine, &["enter", stack, "--", "cat"], &input);
        assert!(output.stdout == input, "{stack}: {} bytes came back", output.stdout.len());
        // Prints more than a pipe holds before it reads anything.
        let script = "sleep 0.3; head -c 3000000 /dev/zero; wc -c >&2";
        let output = with_input(&machine, &["enter", stack, "--", "sh", "-c", script], &input);
        assert_eq!(output.stdout.len(), 3_000_000, "{stack}");
        assert!(text(&output.stderr).contains("2000000"), "{stack}: {}", text(&output.stderr));
        // Reads nothing of it.
        let output = with_input(&machine, &["enter", stack, "--", "true"], &input);
        assert!(output.status.success(), "{stack}: {}", text(&output.stderr));
        machine.assert_as_before();
    }
}

#[test]
fn what_a_command_leaves_behind_does_not_hold_the_way_out() {
    let machine = Machine::take();
    let began = monotonic_raw();
    let output = machine.surtax(&["enter", "native", "--", "sh", "-c", "sleep 55 & echo done"]);
    let took = Duration::from(monotonic_raw().since(began));
    assert_eq!(text(&output.stdout), "done\n");
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    machine.assert_as_before();
}

#[test]
fn a_shell_has_a_terminal_where_we_have_one() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let line = format!("{} enter runc", env!("CARGO_BIN_EXE_surtax"));
    // `script` gives its child a terminal, whatever it is started from itself.
    #[expect(clippy::disallowed_methods, reason = "the test starts the binary in a terminal")]
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"tty; echo $((6 * 7)); exit 5\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let said = text(&output.stdout);
    assert!(said.contains("/dev/pts/") && said.contains("42"), "{said}");
    assert_eq!(output.status.code(), Some(5), "{said}");
    machine.assert_as_before();
}

#[test]
fn a_container_in_a_virtual_machine_can_be_entered() {
    let machine = Machine::take();
    let stack = "qemu:accel=tcg,cpus=1+runc";
    if !is_usable(&machine, stack) || !is_usable(&machine, "runc") {
        return;
    }
    let script = "cat /proc/1/comm; cat; exit 4";
    let output = with_input(&machine, &["enter", stack, "--", "sh", "-c", script], b"and back\n");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("agent") && said.ends_with("and back\n"), "{said}");
    machine.assert_as_before();
}

#[test]
fn what_cannot_be_entered_says_why_and_what_helps() {
    let machine = Machine::take();
    let output = machine.surtax(&["enter", "native", "--", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("cannot start `no-such-program-anywhere`"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    let output = machine.surtax(&["enter", "rnuc", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("use `runc`"), "{}", text(&output.stderr));
    let soon = ["enter", "runc", "--start-deadline", "1ms", "--", "true"];
    let output = machine.surtax(&soon);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("--start-deadline"), "{}", text(&output.stderr));
    machine.assert_as_before();
}
