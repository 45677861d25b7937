//! Counts of system calls, against those of the tools that people count with.
//!
//! - **Measures** the system calls of ten real commands, as a counting trial in `native` counts
//!   them.
//! - **Peer** `strace -f -c` of the same command, and `perf stat -e raw_syscalls:sys_enter`.
//! - **Bar** the ratio of the medians of 5 runs of each within 0.99 and 1.01, for all ten; of perf
//!   also its interval.
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
use std::process::ExitCode;
use surtax::trial::protocol::Purpose;
use surtax_instrument::calls::Call;
use ten_commands::TEN;

/// Runs that count.
const RUNS: u32 = 5;

/// Calls that never return.
const ENDS: [libc::c_long; 2] = [libc::SYS_exit, libc::SYS_exit_group];

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
    let room = opened.lab.room(&name.replace(' ', "-")).expect("a room opens");
    let file = room.directory().join("counts");
    let path = file.to_string_lossy();
    let command = ["--", "sh", "-c", script];
    let strace = ["strace", "-f", "-c", "-U", "name,calls", "-o", &path];
    let perf = ["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o", &path];
    // All three in the same place and environment: some commands ask more where there is more.
    let plan = |words: &[&str]| {
        let mut plan = one_trial::plan("native", words);
        plan.writable = vec![room.directory().to_owned()];
        plan
    };
    let plain = plan(&command[1..]);
    let peers = [
        ("strace", plan(&[&strace[..], &command].concat()), total as fn(&str) -> Option<f64>),
        ("perf stat", plan(&[&perf[..], &command].concat()), first),
    ];
    let count = sheet.count(RUNS);
    let mut ours = [const { Vec::new() }; 2];
    let mut theirs = [const { Vec::new() }; 2];
    for run in 0..count {
        let counted = one_trial::run_for(&plain, run, Purpose::Counting, opened);
        let calls = counted.calls.expect("a counting trial counts").calls;
        assert!(calls.failure.is_empty(), "{}", calls.failure);
        // strace counts a call when it returns.
        let returns = |call: &&Call| !ENDS.contains(&libc::c_long::from(call.number));
        ours[0].push(float(calls.counted.iter().filter(returns).map(|it| it.count).sum()));
        ours[1].push(float(calls.counted.iter().map(|it| it.count).sum()));
        for ((_, plan, read), theirs) in peers.iter().zip(&mut theirs) {
            one_trial::run_for(plan, run, Purpose::Timing, opened);
            let said = std::fs::read_to_string(&file).expect("the tool wrote it");
            theirs.push(read(&said).unwrap_or_else(|| panic!("no count in: {said}")));
        }
    }
    for (((peer, ..), ours), theirs) in peers.iter().zip(&ours).zip(&theirs) {
        let value = median(ours) / median(theirs);
        let paired = ratio(ours, theirs);
        // Under strace a command that asks what time it is asks more often: it takes longer.
        let interval = Some((paired.low, paired.high)).filter(|_| *peer != "strace");
        let name = format!("counts: {name}, ours over `{peer}`, {:.0} calls", median(ours));
        let bar = Some(0.99..=1.01);
        sheet.put(&Figure { name: &name, value, interval, unit: "", bar, count });
    }
    room.close().expect("the room closes");
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
