//! Counts of system calls, against those of the tools that people count with.
//!
//! - **Measures** the system calls of ten real commands, as a counting trial in `native` counts
//!   them.
//! - **Peer** `strace -f -c` of the same command, and `perf stat -e raw_syscalls:sys_enter`.
//! - **Bar** the ratio of the medians of 5 runs of each, and its interval, within 0.99 and 1.01,
//!   for all ten.
//! - **Command** `cargo bench --bench counts -- --enforce`, as root, with strace, perf and the
//!   commands; `--only NAME` for one of these.

mod figure;
mod opened_lab;
mod one_trial;
mod ratio;
mod ten_commands;

use figure::{Figure, Sheet};
use opened_lab::OpenedLab;
use ratio::{median, ratio};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::Program;
use surtax::trial::protocol::Purpose;
use ten_commands::TEN;

/// Runs that count.
const RUNS: u32 = 5;

/// Time limit of one run.
const DEADLINE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    if let Err(why) = opened.at("native", |_, _, _| Ok(())) {
        println!("counts: SKIPPED: {why}");
        return sheet.close();
    }
    for (name, script) in TEN {
        if sheet.wants(name) {
            one(&mut sheet, &opened, name, script);
        }
    }
    opened.close();
    sheet.close()
}

fn one(sheet: &mut Sheet, opened: &OpenedLab, name: &str, script: &str) {
    let plan = one_trial::plan("native", &["sh", "-c", script]);
    let count = sheet.count(RUNS);
    let (mut ours, mut strace, mut perf) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..count {
        let counted = one_trial::run_for(&plan, run, Purpose::Counting, opened);
        let calls = counted.calls.expect("a counting trial counts").calls;
        assert!(calls.failure.is_empty(), "{}", calls.failure);
        ours.push(float(calls.counted.iter().map(|call| call.count).sum()));
        strace.push(of_tool(opened, &["strace", "-f", "-c", "-U", "name,calls"], script, total));
        let events = ["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter"];
        perf.push(of_tool(opened, &events, script, first));
    }
    for (peer, theirs) in [("strace", strace), ("perf stat", perf)] {
        let value = median(&ours) / median(&theirs);
        let paired = ratio(&ours, &theirs);
        let interval = Some((paired.low, paired.high));
        let name = format!("counts: {name}, ours over `{peer}`, {:.0} calls", median(&ours));
        let bar = Some(0.99..=1.01);
        sheet.put(&Figure { name: &name, value, interval, unit: "", bar, count });
    }
}

/// Runs a script under a tool that writes counts into a file, and reads what it wrote.
fn of_tool(opened: &OpenedLab, tool: &[&str], script: &str, read: fn(&str) -> Option<f64>) -> f64 {
    let room = opened.lab.room("peer").expect("a room opens");
    let file = room.directory().join("counts");
    let out = ["-o".to_owned(), file.to_string_lossy().into_owned()];
    let tool = tool.iter().map(|word| String::from(*word));
    let command = ["--", "sh", "-c", script].map(String::from);
    let argv = tool.chain(out).chain(command).collect();
    let mut process = room.spawn(Program { argv, ..Program::default() }).expect("the tool starts");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let said = text(&file);
    room.close().expect("the room closes");
    read(&said).unwrap_or_else(|| panic!("no count in: {said}"))
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the tool wrote it")
}

/// Adds up the column of calls of strace's summary, which has the sum in its last row.
fn total(summary: &str) -> Option<f64> {
    let row = summary.lines().find(|line| line.starts_with("total"))?;
    row.split_whitespace().find_map(|word| word.parse().ok())
}

/// Reads the first field of the line of perf's one event.
fn first(lines: &str) -> Option<f64> {
    lines.lines().find_map(|line| line.split(',').next()?.parse().ok())
}

#[expect(clippy::cast_precision_loss, reason = "a count is far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
