//! Cost of the looks of a timeline: CPU time beside other watchers of the same, and the time that
//! they add to a command.
//!
//! - **Measures** the samplers of four levels that look once a second at twenty containers of
//!   Docker's, five to a level, and at the whole machine, and keep what they see: the CPU time of
//!   their threads. Then the wall time of a CPU-bound command of 2 s whose trial is looked at once
//!   a second.
//! - **Peer** `sar -A`, `pidstat -urdw` of the same containers' processes and `docker stats`, each
//!   in rounds of 20 s that take turns with ours: CPU time of the process and its children, and of
//!   Docker's also that of `dockerd` and `containerd`, without what these use in a round without
//!   any watcher. For the command, the same trial without looks.
//! - **Bar** at most 0.1 % of a CPU, and less than each peer; ratio of the command's times, and its
//!   interval, within 0.995 and 1.005.
//! - **Command** `cargo bench --bench looks -- --enforce`, as root, on a quiet machine, with
//!   sysstat; `--only cost` and `--only command` for one of the two.

mod busy;
mod docker;
mod figure;
mod opened_lab;
mod one_trial;
mod pairs;
mod ratio;

use docker::Engine;
use figure::{Figure, Sheet};
use opened_lab::OpenedLab;
use ratio::median;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::{self, Program};
use surtax::layer::{Payer, Source};
use surtax::stack::sampler::Sampler;
use surtax::stack::watch::Watch;
use surtax::trial::timeline::Track;
use surtax_instrument::amount::{CPU_SYSTEM, CPU_USER};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reading, Role};

/// Containers that are watched.
const PAYERS: usize = 20;

/// Levels on which somebody looks.
const LEVELS: u8 = 4;

/// Time between two looks, of everybody's.
const EVERY: Duration = Duration::from_secs(1);

/// Looks of a round.
const ROUND: u32 = 20;

/// Rounds that count.
const ROUNDS: u32 = 5;

/// The most that ours may use, in percent of a CPU.
const BAR_PERCENT: f64 = 0.1;

/// Time limit of a tool.
const DEADLINE: Duration = Duration::from_secs(60);

/// Pairs of trials that count, at least.
const PAIRS: u32 = 30;

/// Time that the command should take, in seconds.
const TARGET: f64 = 2.0;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    if sheet.wants("cost")
        && let Err(why) = cost(&mut sheet, &opened)
    {
        println!("looks: SKIPPED: {why}");
    }
    if sheet.wants("command") {
        command(&mut sheet, &opened);
    }
    opened.close();
    sheet.close()
}

/// A way to watch: what it is called, and what it used in a round.
type Watcher<'a> = (&'static str, Box<dyn Fn() -> Nanoseconds + 'a>);

/// Measures watchers of the same containers, which take turns.
fn cost(sheet: &mut Sheet, opened: &OpenedLab) -> Result<(), String> {
    for tool in ["sar", "pidstat"] {
        lab::find(tool).ok_or_else(|| format!("there is no `{tool}`; Debian has it in sysstat"))?;
    }
    let engine = Engine::of("docker", opened)?;
    let containers = engine.sleepers(PAYERS);
    let pids = containers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let round = ROUND.to_string();
    let pidstat = ["pidstat", "-urdw", "-p", &pids, "1", &round];
    let whole = EVERY * ROUND;
    let tool = |argv: &[&str]| {
        let argv = argv.iter().map(|word| String::from(*word)).collect();
        of_tool(opened, argv, &[], DEADLINE)
    };
    let watchers: [Watcher<'_>; 5] = [
        ("surtax", Box::new(|| looks_at(&containers))),
        ("sar -A", Box::new(|| tool(&["sar", "-A", "1", &round]))),
        ("pidstat -urdw", Box::new(|| tool(&pidstat))),
        ("docker stats", Box::new(|| of_tool(opened, engine.stats(), engine.payers(), whole))),
        (
            "nobody",
            Box::new(|| of_tool(opened, vec!["sleep".into(), "1d".into()], engine.payers(), whole)),
        ),
    ];
    let count = sheet.count(ROUNDS);
    let mut used = [const { Vec::new() }; 5];
    for turn in 0..count as usize {
        for place in 0..watchers.len() {
            let place = (place + turn) % watchers.len();
            let percent = 100.0 * seconds(watchers[place].1()) / whole.as_secs_f64();
            used[place].push(percent.max(f64::MIN_POSITIVE));
        }
    }
    let [ours, .., idle] = [0, 1, 2, 3, 4].map(|place: usize| median(&used[place]));
    for ((name, _), used) in watchers.iter().zip(&used) {
        let all = used.iter().copied();
        let interval = Some((all.clone().fold(f64::MAX, f64::min), all.fold(0.0, f64::max)));
        let name = format!("looks: {name}, {PAYERS} payers, once a second (lowest, highest)");
        let bar = name.contains("surtax").then_some(0.0..=BAR_PERCENT);
        let value = median(used);
        sheet.put(&Figure { name: &name, value, interval, unit: "% of a CPU", bar, count });
    }
    for (place, (peer, _)) in watchers.iter().enumerate().take(4).skip(1) {
        let theirs = median(&used[place]) - if place == 3 { idle } else { 0.0 };
        let name = format!("looks: surtax over `{peer}`");
        let bar = Some(0.0..=1.0);
        let value = ours / theirs;
        sheet.put(&Figure { name: &name, value, interval: None, unit: "", bar, count });
    }
    drop(watchers);
    engine.close();
    Ok(())
}

/// Looks at these processes' groups on four levels, and at the whole machine, for a round.
fn looks_at(containers: &[u32]) -> Nanoseconds {
    let hierarchies = Hierarchies::discover().expect("groups are mounted");
    let mut all = containers.chunks(containers.len().div_ceil(usize::from(LEVELS)));
    let samplers = [0, 1, 2, 3].map(|level| {
        let groups = all.next().unwrap_or_default().iter().map(|pid| group_of(*pid));
        let groups = groups.map(|group| Payer::new("c", Role::Workload, Source::Group(group)));
        let mut payers: Vec<Payer> = groups.collect();
        if level == 0 {
            payers.extend(Payer::whole_machine());
        }
        let mut track = Track::of(level);
        Sampler::begin(payers, level, &hierarchies, EVERY, move |sample| track.add(&sample))
    });
    // The last look is that at the end.
    std::thread::sleep(EVERY * ROUND - EVERY / 2);
    samplers.map(Sampler::end).into_iter().fold(Nanoseconds(0), |sum, one| sum + one)
}

/// Returns the group of a process by its memory controller.
fn group_of(pid: u32) -> PathBuf {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let of = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let has_memory = controllers.is_empty() || controllers.split(',').any(|it| it == "memory");
        has_memory.then(|| PathBuf::from(path))
    };
    text.lines().find_map(of).expect("it is in a group")
}

/// Runs a tool to its end, or for so long; returns the CPU time of it, its children, and others.
fn of_tool(opened: &OpenedLab, argv: Vec<String>, others: &[Payer], most: Duration) -> Nanoseconds {
    let room = opened.lab.room("watcher").expect("a room opens");
    let null = || std::fs::File::options().write(true).open("/dev/null").expect("it is there");
    let stdio = [None, Some(null().into()), Some(null().into())];
    let payer = Payer::new("watcher", Role::Surtax, Source::Group(room.group().to_owned()));
    let hierarchies = Hierarchies::discover().expect("groups are mounted");
    let all = others.iter().cloned().chain([payer]).collect();
    let watch = Watch::begin(all, 0, &hierarchies);
    let mut process = room.spawn(Program { argv, stdio, ..Program::default() }).expect("it starts");
    match process.wait(most).expect("it can be waited for") {
        Some(status) => assert!(status.success(), "{status:?}"),
        None => process.kill().expect("it can be ended"),
    }
    let of = |reading: &Reading| {
        let kinds = [CPU_USER, CPU_SYSTEM].map(|key| reading.amounts.get(key));
        kinds.into_iter().map(|amount| amount.expect("it is counted")).sum::<u64>()
    };
    let used = watch.end().iter().map(of).sum();
    room.close().expect("the room closes");
    Nanoseconds(used)
}

fn seconds(time: Nanoseconds) -> f64 {
    Duration::from(time).as_secs_f64()
}

/// Measures a command whose trial is looked at, and the same without looks.
fn command(sheet: &mut Sheet, opened: &OpenedLab) {
    let script = busy::awk_script(TARGET);
    for stack in ["native", "docker", "gvisor"] {
        if let Err(why) = opened.at(stack, |_, _, _| Ok(())) {
            println!("looks at {stack}: SKIPPED: {why}");
            continue;
        }
        let mut plan = one_trial::plan(stack, &["awk", &script]);
        let mut number = 0;
        let mut trial = |every: Duration| {
            number += 1;
            plan.conduct.watch_ns = Some(Nanoseconds::from(every).0);
            Duration::from(one_trial::run(&plan, number, opened).wall)
        };
        let trial = std::cell::RefCell::new(&mut trial);
        let name = format!("looks: a command in {stack}, with over without");
        let (with, without) = (|| trial.borrow_mut()(EVERY), || trial.borrow_mut()(Duration::ZERO));
        pairs::compare(sheet, &name, Some(0.995..=1.005), PAIRS, with, without);
    }
}
