//! A virtual machine's boot, against the least that the same machine can boot.
//!
//! - **Measures** the time from starting QEMU to the agent's first frame, through our driver, on
//!   `q35` and on `microvm`, with the accelerator that the driver chooses here; and the time from
//!   before there is a room until all is taken away again.
//! - **Peer** the same command line of QEMU (read from the running one), the same kernel and
//!   devices, and an initramfs that holds busybox and prints one line: until that line is there;
//!   and until QEMU and virtiofsd, started for it, have been killed.
//! - **Bar** at most 1.3 times the peer each, ratio of medians of 10 pairs.
//! - **Command** `cargo bench --bench vm_boot -- --enforce`, as root, on a quiet machine;
//!   `--only microvm` for one board.

mod bare_guest;
mod figure;
mod opened_lab;
mod pairs;
mod ratio;

use bare_guest::BareGuest;
use figure::{Figure, Sheet};
use opened_lab::OpenedLab;
use ratio::{median, ratio};
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::time::Duration;
use surtax::fault::Fault;
use surtax::layer::{Payer, Source, Started};
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Reply;

/// Pairs that count, per board.
const PAIRS: u32 = 10;

/// The most that a boot may take, as a multiple of its peer.
const BAR: f64 = 1.3;

/// The length of one tick of `/proc/PID/stat`: `USER_HZ` is 100 on every machine that QEMU here
/// runs on.
const TICK_NS: u64 = 10_000_000;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    let words: Vec<String> = std::env::args().collect();
    let only = words.iter().position(|word| word == "--only").and_then(|at| words.get(at + 1));
    for board in ["q35", "microvm"].into_iter().filter(|it| only.is_none_or(|only| only == it)) {
        let name = format!("vm boot: {board} over a bare busybox");
        let stack = format!("qemu:machine={board}");
        let argv = match boot(&stack, &opened) {
            Ok(booted) => booted.argv,
            Err(why) => {
                println!("{name}: SKIPPED: {why}");
                continue;
            }
        };
        let bare = BareGuest::like(&argv, &opened.lab);
        let (mut our_wholes, mut their_wholes) = (Vec::new(), Vec::new());
        let ours = || {
            let booted = boot(&stack, &opened).expect("it booted before");
            our_wholes.push(booted.whole.as_secs_f64());
            booted.took
        };
        let theirs = || {
            let began = clock::monotonic_raw();
            let took = bare.boot();
            their_wholes.push(clock::monotonic_raw().since(began).seconds());
            took
        };
        pairs::compare(&mut sheet, &name, Some(0.0..=BAR), PAIRS, ours, theirs);
        let name = format!("vm boot: {board}, started and removed, over a bare busybox");
        // One of each did not count.
        whole(&mut sheet, &name, &our_wholes[1..], &their_wholes[1..]);
        bare.close();
    }
    opened.close();
    sheet.close()
}

/// Prints how starting and removing compare.
fn whole(sheet: &mut Sheet, name: &str, ours: &[f64], theirs: &[f64]) {
    let paired = ratio(ours, theirs);
    let (our, their) = (median(ours), median(theirs));
    let count = u32::try_from(ours.len()).expect("pairs are few");
    let (interval, bar) = (Some((paired.low, paired.high)), Some(0.0..=BAR));
    sheet.put(&Figure { name, value: our / their, interval, unit: "", bar, count });
    println!("  medians: ours {:.2} ms, theirs {:.2} ms", our * 1e3, their * 1e3);
}

/// One boot through our driver.
struct Booted {
    /// From the start of QEMU's process to the agent's first frame.
    took: Duration,
    /// From before its room to after it.
    whole: Duration,
    argv: bare_guest::Argv,
}

fn boot(stack: &str, opened: &OpenedLab) -> Result<Booted, String> {
    opened.at(stack, |driver, spec, site| {
        let opened = clock::monotonic_raw();
        let room = site.lab.room("ours")?;
        let Started { running, mut link } = driver.start(spec, site, &room)?;
        let (qemu, virtiofsd) = processes(&running.payers())?;
        let began = started(qemu);
        let argv = bare_guest::Argv {
            room: room.directory().to_path_buf(),
            qemu: command_line(qemu),
            virtiofsd: command_line(virtiofsd),
        };
        let first = link.receive(site.start_deadline)?;
        drop(link);
        assert!(matches!(first.reply, Reply::Hello(_)), "{:?}", first.reply);
        running.stop()?;
        room.close()?;
        let whole = clock::monotonic_raw().since(opened).into();
        Ok(Booted { took: first.at.since(began).into(), whole, argv })
    })
}

/// The processes of QEMU and of virtiofsd.
fn processes(payers: &[Payer]) -> Result<(u32, u32), Fault> {
    let qemu = payers.iter().find_map(|payer| match payer.source {
        Source::Threads { pid, .. } => Some(pid),
        _ => None,
    });
    let virtiofsd = payers.iter().find_map(|payer| match payer.source {
        Source::Process(pid) => Some(pid),
        _ => None,
    });
    qemu.zip(virtiofsd).ok_or_else(|| Fault::bug("the payers of `qemu` are others than they were"))
}

fn command_line(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).expect("the process lives");
    let text = String::from_utf8(bytes).expect("its arguments are text");
    text.split_terminator('\0').map(String::from).collect()
}

/// Returns when a process was started, on the clock of our stamps: rounded down to a tick, so that
/// a boot seems up to 10 ms longer than it was, and never shorter.
fn started(pid: u32) -> Nanoseconds {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    // The 22nd field of `proc_pid_stat(5)`, the 20th after the name.
    let ticks = after_name.split(' ').nth(19).and_then(|field| field.parse::<u64>().ok());
    let since_boot = Nanoseconds(ticks.expect("the kernel says when it began") * TICK_NS);
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("time since boot is positive");
    let rest = u64::try_from(now.tv_nsec).expect("time since boot is positive");
    let age = Nanoseconds(seconds * 1_000_000_000 + rest).since(since_boot);
    clock::monotonic_raw().since(age)
}
