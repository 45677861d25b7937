//! Engines against the tools whose work they do, alternating in one run.
//!
//! - **Measures** the median latency of random direct reads of 4 KiB, the median lateness of timers
//!   at 1 ms on every CPU, and the rate of the triad's best pass over three arrays of 128 MiB, each
//!   by the engine of the agent.
//! - **Peer** fio with one job of `psync` at `iodepth=1`; cyclictest with memory locked and
//!   SCHED_FIFO 80, and without its hold on idle states (`--laptop`), which is a setting of the
//!   machine; STREAM 5.10, as whoever runs this has built it: `gcc -O3 -march=native
//!   -mcmodel=medium -DSTREAM_ARRAY_SIZE=16777216 stream.c`, named by `SURTAX_STREAM`. For
//!   information ioping, which reads a file of its own. A peer that is not there is said.
//! - **Bar** disk: within 3 % of fio. Timer: within 5 % or a microsecond of cyclictest. Triad:
//!   within 2 % of STREAM. Ratio of 100, 20 and 60 pairs, and all of its interval.
//! - **Command** `cargo bench --bench engines -- --enforce`, as root, on a quiet machine;
//!   `--only disk`, `timer` or `triad` for one of them.

mod figure;
mod ratio;

use figure::{Figure, Sheet};
use ratio::{median, ratio};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, ExitCode};
use surtax::lab::{Lab, find};

/// Pairs that count of timers, and of ioping.
const PAIRS: u32 = 20;

/// Pairs that count of fio: many short ones, since a virtual machine's disk has moods that last for
/// seconds.
const DISK_PAIRS: u32 = 100;

/// Pairs that count of STREAM: each process has pages of its own, and some lie better than others.
const TRIAD_PAIRS: u32 = 60;

/// Size of the file that is read at random, in MiB. Each run fills one of its own.
const FILE_MIB: u32 = 16;

/// Size of each array of STREAM, in bytes.
const ARRAY_BYTES: u32 = 16_777_216 * 8;

/// A latency that cyclictest keeps a bin for, in nanoseconds; later ones only count.
const LATEST_NS: u32 = 200_000;

/// By how much timers may differ where that is more than 5 %, in nanoseconds.
const MICROSECOND_NS: f64 = 1000.0;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");
    let engine = Engine { agent: &agent };
    // On this machine's disk: the usual temporary directory may be memory.
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory is made");
    let place = directory.path().display().to_string();
    if sheet.wants("disk") {
        disk(&mut sheet, &engine, &place);
    }
    if sheet.wants("timer") {
        timer(&mut sheet, &engine);
    }
    if sheet.wants("triad") {
        triad(&mut sheet, &engine);
    }
    lab.close().expect("the lab closes");
    sheet.close()
}

/// The agent, as it measures in every stack.
struct Engine<'a> {
    agent: &'a Path,
}

impl Engine<'_> {
    /// One number of its answer.
    fn number(&self, words: &str, key: &str) -> f64 {
        let program = self.agent.display().to_string();
        let line: Vec<&str> = ["engine"].into_iter().chain(words.split_whitespace()).collect();
        let answer: Value = serde_json::from_str(&printed(&program, &line)).expect("it is JSON");
        answer[key].as_f64().unwrap_or_else(|| panic!("`{words}` has no `{key}`: {answer}"))
    }
}

fn disk(sheet: &mut Sheet, engine: &Engine<'_>, place: &str) {
    let ours = || {
        let bytes = FILE_MIB << 20;
        let words = format!("disk --directory {place} --file-bytes {bytes} --duration 100ms");
        engine.number(&words, "latency_p50_ns")
    };
    let name = "engines: disk, random read of 4 KiB, median over fio's";
    if is_there(name, "fio", "fio") {
        let line = format!(
            "--name=bench --directory={place} --size={FILE_MIB}m --rw=randread --bs=4k --direct=1 \
             --ioengine=psync --iodepth=1 --runtime=100ms --time_based --norandommap --unlink=1 \
             --output-format=json"
        );
        let theirs = || {
            let words: Vec<&str> = line.split_whitespace().collect();
            let answer: Value = serde_json::from_str(&printed("fio", &words)).expect("it is JSON");
            let read = &answer["jobs"][0]["read"];
            read["clat_ns"]["percentile"]["50.000000"].as_f64().expect("fio keeps percentiles")
        };
        pairs(sheet, name, "ns", DISK_PAIRS, |_| 0.97..=1.03, ours, theirs);
    }
    let name = "engines: disk, random read of 4 KiB, median over ioping's";
    if is_there(name, "ioping", "ioping") {
        let line = format!("-D -c 5000 -i 0 -s 4k -S {FILE_MIB}m {place}");
        let theirs = || {
            let words: Vec<&str> = line.split_whitespace().collect();
            let text = printed("ioping", &words);
            median(&text.lines().filter_map(ioping_ns).collect::<Vec<f64>>())
        };
        informs(sheet, name, "ns", ours, theirs);
    }
}

/// The time of one request in ioping's line about it, such as `… time=12.3 us`.
fn ioping_ns(line: &str) -> Option<f64> {
    let (number, unit) = line.split_once("time=")?.1.trim().split_once(' ')?;
    let scale = match unit.split_whitespace().next()? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

fn timer(sheet: &mut Sheet, engine: &Engine<'_>) {
    let name = "engines: timer, median lateness over cyclictest's";
    if !is_there(name, "cyclictest", "rt-tests") {
        return;
    }
    let words = "timer --interval 1ms --duration 1s --priority 80";
    let ours = || engine.number(words, "latency_p50_ns");
    let line = format!(
        "--laptop --mlockall --smp --priority=80 --interval=1000 --distance=0 --duration=1 --nsecs \
         --histogram={LATEST_NS} --quiet"
    );
    let theirs = || {
        let words: Vec<&str> = line.split_whitespace().collect();
        cyclictest_ns(&printed("cyclictest", &words)).expect("cyclictest prints a histogram")
    };
    let bar = |theirs: f64| {
        let share = (MICROSECOND_NS / theirs).max(0.05);
        1.0 - share..=1.0 + share
    };
    pairs(sheet, name, "ns", PAIRS, bar, ours, theirs);
}

/// The median in cyclictest's histogram: a line for each nanosecond, with the counts of all
/// threads.
fn cyclictest_ns(text: &str) -> Option<f64> {
    let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let row = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let latency = numbers.next()?.ok()?;
        Some((latency, numbers.map_while(Result::ok).sum::<u32>()))
    };
    let rows: Vec<(u32, u32)> = rows.filter_map(row).collect();
    let half = rows.iter().map(|(_, count)| count).sum::<u32>().div_ceil(2);
    let mut passed = 0;
    let found = rows.iter().find(|(_, count)| {
        passed += count;
        half > 0 && passed >= half
    });
    found.map(|(latency, _)| f64::from(*latency))
}

fn triad(sheet: &mut Sheet, engine: &Engine<'_>) {
    let name = "engines: triad, rate of the best pass over STREAM's";
    let Ok(stream) = std::env::var("SURTAX_STREAM") else {
        return println!(
            "{name}: SKIPPED: `SURTAX_STREAM` names no STREAM that was built for this machine"
        );
    };
    let words = format!("stream --passes 10 --array-bytes {ARRAY_BYTES}");
    let ours = || engine.number(&words, "triad_best_mb_per_s");
    let theirs = || {
        let text = printed(&stream, &[]);
        let line = text.lines().find_map(|line| line.strip_prefix("Triad:"));
        let rate = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        rate.expect("STREAM prints its rate")
    };
    pairs(sheet, name, "MB/s", TRIAD_PAIRS, |_| 0.98..=1.02, ours, theirs);
}

/// Both alternating, after one of each that does not count; the ratio is held against a bar that
/// may depend on what the peer finds.
fn pairs(
    sheet: &mut Sheet,
    name: &str,
    unit: &str,
    usual: u32,
    bar: impl Fn(f64) -> RangeInclusive<f64>,
    ours: impl FnMut() -> f64,
    theirs: impl FnMut() -> f64,
) {
    let (ours, theirs) = alternate(sheet.count(usual), ours, theirs);
    put(sheet, name, unit, Some(bar(median(&theirs))), &ours, &theirs);
}

/// The same without a bar.
fn informs(
    sheet: &mut Sheet,
    name: &str,
    unit: &str,
    ours: impl FnMut() -> f64,
    theirs: impl FnMut() -> f64,
) {
    let (ours, theirs) = alternate(sheet.count(PAIRS), ours, theirs);
    put(sheet, name, unit, None, &ours, &theirs);
}

fn alternate(
    count: u32,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let _ = (ours(), theirs());
    let (mut our_values, mut their_values) = (Vec::new(), Vec::new());
    for pair in 0..count {
        if pair % 2 == 0 {
            our_values.push(ours());
            their_values.push(theirs());
        } else {
            their_values.push(theirs());
            our_values.push(ours());
        }
    }
    (our_values, their_values)
}

fn put(
    sheet: &mut Sheet,
    name: &str,
    unit: &str,
    bar: Option<RangeInclusive<f64>>,
    ours: &[f64],
    theirs: &[f64],
) {
    let paired = ratio(ours, theirs);
    let (our, their) = (median(ours), median(theirs));
    let count = u32::try_from(ours.len()).expect("pairs are few");
    let interval = Some((paired.low, paired.high));
    sheet.put(&Figure { name, value: our / their, interval, unit: "", bar, count });
    println!("  medians: ours {our:.1} {unit}, theirs {their:.1} {unit}");
}

fn is_there(name: &str, program: &str, package: &str) -> bool {
    let found = find(program).is_some();
    if !found {
        println!("{name}: SKIPPED: there is no `{program}`; Debian has it in `{package}`");
    }
    found
}

/// Runs a program that must end well, and returns what it prints.
fn printed(program: &str, arguments: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "nothing of surtax is between engine and peer")]
    let mut command = Command::new(program);
    let output = command.args(arguments).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{program}` ended with {}: {said}", output.status);
    String::from_utf8(output.stdout).expect("it prints text")
}
