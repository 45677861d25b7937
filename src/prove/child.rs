//! This program as its user has it: started as a process, with a data directory of its own, and
//! what it leaves.

use super::Bench;
use crate::fault::{Doing, Fault};
use crate::lab;
use crate::lab::census::Census;
use crate::lab::others::Others;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// Number of times that a census is taken again before what it finds is a leak: processes end in
/// their own time.
const LOOKS: u32 = 20;

/// Between two such looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Between the two looks of a census before a run.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// This program as its user has it, with a data directory of its own, which is empty at first.
pub(super) struct ChildSurtax {
    data: PathBuf,
    /// Labs that were alive before, the proof's among them: theirs is no leak.
    living: Vec<String>,
    /// Labs and processes of other surtaxes.
    others: Others,
}

impl ChildSurtax {
    /// `name` is that of the directory.
    pub(super) fn new(bench: &Bench<'_>, name: &str) -> Result<Self, Fault> {
        let data = bench.directory()?.join(name);
        let (living, others) = (lab::living()?, Others::look()?);
        let shown = data.display().to_string();
        if data.exists() {
            std::fs::remove_dir_all(&data).doing(format_args!("empty `{shown}`"))?;
        }
        std::fs::create_dir(&data).doing(format_args!("make the data directory `{shown}`"))?;
        Ok(Self { data, living, others })
    }

    /// Begins to run it; both of its outputs are piped.
    pub(super) fn start(&self, arguments: &[String]) -> Result<Child, Fault> {
        let mut command = lab::this_program();
        command
            .args(arguments)
            .env("XDG_DATA_HOME", &self.data)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().doing("start a run that is to be killed")
    }

    /// The same, and waits for its end.
    pub(super) fn run(&self, arguments: &[String]) -> Result<Output, Fault> {
        self.start(arguments)?.wait_with_output().doing("wait for surtax itself")
    }

    /// Runs it to its end.
    pub(super) fn ask(&self, words: &[&str]) -> Result<Output, Fault> {
        self.run(&words.iter().map(|word| String::from(*word)).collect::<Vec<_>>())
    }

    /// Returns the directory in which it keeps its runs.
    pub(super) fn runs(&self) -> PathBuf {
        self.data.join("surtax/runs")
    }

    /// Takes a census of what is there before it is started.
    pub(super) fn census(&self) -> Result<Census, Fault> {
        Census::take_twice(BETWEEN_LOOKS)
    }

    /// Returns what is there that was not: nothing as soon as nothing is left, else what is left
    /// after a while.
    pub(super) fn difference(&self, before: &Census) -> Result<Vec<String>, Fault> {
        let mut left = Vec::new();
        for _ in 0..LOOKS {
            left = Census::take()?.difference_from(before);
            let (living, others) = (lab::living()?, Others::look()?);
            let is_others = |line: &String| {
                self.living.iter().chain(&living).any(|lab| line.contains(lab.as_str()))
                    || self.others.own(line)
                    || others.own(line)
            };
            left.retain(|line| !is_others(line));
            if left.is_empty() {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(left)
    }
}

/// The arguments by which a stack is compared with `native`; the command sleeps for so many
/// seconds.
pub(super) fn compare(stack: &str, blocks: u32, sleep_s: &str) -> Vec<String> {
    let runs = blocks.to_string();
    let words = ["compare", "-v", "--in", stack, "--baseline", "native", "--runs", &runs];
    let words = words.into_iter().chain(["--", "sleep", sleep_s]);
    words.map(String::from).collect()
}

/// Counts the trials of an answer of `show` that are in such a state.
pub(super) fn trials(answer: &[u8], is: impl Fn(&str) -> bool) -> u64 {
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let arms = answer["arms"].as_array().cloned().unwrap_or_default();
    let of_arm = |arm: &serde_json::Value| arm["trials"].as_array().cloned().unwrap_or_default();
    let states = arms.iter().flat_map(of_arm);
    let found = states.filter(|trial| trial["state"].as_str().is_some_and(&is)).count();
    u64::try_from(found).unwrap_or(u64::MAX)
}

/// Returns what was said, as much of it as anybody reads: 600 characters at most.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().chars().take(600).collect()
}
