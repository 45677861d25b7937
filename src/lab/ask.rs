//! Questions: a foreign tool is asked something that it answers at once, such as its version.
//!
//! Nothing is made for it: no room, no group, no file. So `check` may ask on a machine that surtax
//! was only invited to inspect. It still dies with the thread that asked.

use super::birth::Doors;
use super::process::{self, Program};
use crate::fault::{Doing, Fault, last_words};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The most of an answer that is kept, in bytes.
const ANSWER_LIMIT: u64 = 1 << 20;

/// Runs a program to its end and gives back what it printed: standard output, then standard error.
///
/// # Errors
/// The machine's: it is not there, does not end in time, or fails; then with its last words.
pub fn ask(
    argv: &[String],
    mount_namespace: Option<OwnedFd>,
    deadline: Duration,
) -> Result<String, Fault> {
    let argv = argv.to_vec();
    run(Program { argv, mount_namespace, ..Program::default() }, deadline)
}

/// The same of a program that is to be the user who runs us, with what is in their home.
///
/// # Errors
/// As [`ask`].
pub fn ask_as_themselves(argv: &[String], deadline: Duration) -> Result<String, Fault> {
    run(Program { argv: argv.to_vec(), as_themselves: true, ..Program::default() }, deadline)
}

/// The same of a program that is started in another way; what it reads and prints to is set here.
pub(super) fn run(program: Program, deadline: Duration) -> Result<String, Fault> {
    let argv = program.argv.clone();
    let tool = argv.first().map_or("", String::as_str);
    let (answer, stdout) = std::io::pipe().doing(format_args!("make a pipe from `{tool}`"))?;
    let (words, stderr) =
        std::io::pipe().doing(format_args!("make a second pipe from `{tool}`"))?;
    let program = Program { stdio: [None, Some(stdout.into()), Some(stderr.into())], ..program };
    let mut process = process::spawn(program, Doors::default())?;
    let answer = read_aside(answer.into());
    let words = read_aside(words.into());
    let Some(status) = process.wait(deadline)? else {
        let seconds = deadline.as_secs();
        return Err(Fault::machine(format!("`{}` did not end within {seconds} s", argv.join(" "))));
    };
    // A grandchild that keeps the pipes open must not keep us.
    let answer = answer.recv_timeout(deadline).unwrap_or_default();
    let words = words.recv_timeout(deadline).unwrap_or_default();
    if !status.success() {
        let failed = format!("`{}` failed with {status}", argv.join(" "));
        return Err(last_words::fault(&failed, &words));
    }
    Ok(answer + &words)
}

/// Reads to the end in a thread of its own, so that two full pipes cannot block each other.
fn read_aside(source: OwnedFd) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before an error is still an answer.
        let _ = File::from(source).take(ANSWER_LIMIT).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
