//! `surtax report` on a run with 100,000 trials, and on one that was watched for long.
//!
//! - **Measures** wall time and peak memory of the built `surtax report`, and the size of what it
//!   writes. The ledger is synthetic: four arms (native twice, runc, qemu) with noise, payers,
//!   conditions and outputs as real trials have them, in memory so that no disk is measured.
//! - **Peer** none: these are absolute.
//! - **Bar** 5 s, 500 MB and 5 MB, the worst of 3 runs, where `--count` is the number of trials;
//!   2 s and 3 MB where each trial took 30 minutes and was looked at ten times a second, with 20
//!   payers. Parts are `many` and `watched`.
//! - **Command** `cargo bench --bench report -- --enforce`.

mod figure;

use figure::{Figure, Sheet};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use surtax::driver;
use surtax::ledger::{Key, Ledger, RunState};
use surtax::plan::{Plan, TrialId, TrialSettings};
use surtax::stack::sampler::Sample;
use surtax::trial::timeline::{LevelTimeline, Phase, PhaseKind, Timeline, Track};
use surtax::trial::{Evidence, Measured, Record, TrialResult};
use surtax_instrument::amount::{Amounts, DISK_READ, DISK_WRITTEN, MEMORY_PEAK, MEMORY_USED};
use surtax_instrument::clock;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Fact, LevelFacts, Outcome, Output, Reading, Role, Status};

/// Trials of the run.
const TRIALS: u32 = 100_000;

/// Reports, of which the worst counts.
const REPORTS: u32 = 3;

/// Cost of each arm over native, in its order; the first two are the baseline.
const COSTS: [(&str, f64); 4] = [("native", 1.0), ("native", 1.0), ("runc", 1.02), ("qemu", 1.3)];

/// Blocks of the run that was watched, and how often each of its trials was looked at: for half an
/// hour, ten times a second.
const WATCHED_BLOCKS: u32 = 3;
const LOOKS: u32 = 18_000;

/// Time between two looks.
const EVERY: Nanoseconds = Nanoseconds(100_000_000);

/// Payers that are looked at.
const PAYERS: u32 = 20;

/// Time of the command in native, in nanoseconds.
const BASE_NS: f64 = 1e9;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let trials = sheet.count(TRIALS);
    let many = format!("report on {trials} trials");
    if sheet.wants("many") {
        one(&mut sheet, &many, trials.div_ceil(4), 0, [5.0, 500.0, 5.0]);
    }
    let watched = format!("report on {LOOKS} looks at {PAYERS} payers");
    if sheet.wants("watched") {
        one(&mut sheet, &watched, WATCHED_BLOCKS, LOOKS, [2.0, 500.0, 3.0]);
    }
    sheet.close()
}

/// Measures reports on a run of so many blocks, each trial of which was looked at so often.
fn one(sheet: &mut Sheet, name: &str, blocks: u32, looks: u32, bars: [f64; 3]) {
    let shelf = tempfile::tempdir_in("/dev/shm").expect("there is memory to write to");
    let run = shelf.path().join("run.surtax");
    let page = shelf.path().join("run.html");
    write(&run, blocks, looks);

    let (mut seconds, mut peak) = (0.0_f64, 0.0_f64);
    for _ in 0..REPORTS {
        let used = report(&run, &page);
        seconds = seconds.max(used.seconds);
        peak = peak.max(used.peak_mb);
    }
    let size = std::fs::metadata(&page).expect("the report was written").len();
    let size_mb = f64::from(u32::try_from(size).expect("smaller than 4 GiB")) / 1e6;
    let figures = [
        ("wall time, worst", seconds, "s", REPORTS),
        ("peak memory, worst", peak, "MB", REPORTS),
        ("HTML file", size_mb, "MB", 1),
    ];
    for ((what, value, unit, count), bar) in figures.into_iter().zip(bars) {
        let name = format!("{name}: {what}");
        let bar = Some(0.0..=bar);
        sheet.put(&Figure { name: &name, value, interval: None, unit, bar, count });
    }
}

/// Time and memory that one report used.
struct Used {
    seconds: f64,
    peak_mb: f64,
}

/// Runs the built binary. The kernel counts a child's peak from before its exec, when it still had
/// this process's memory: that is small, since the ledger is written trial by trial.
fn report(run: &Path, page: &Path) -> Used {
    #[expect(clippy::disallowed_methods, reason = "nothing of surtax is between the two stamps")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_surtax"));
    command.arg("report").arg(run).arg("--output").arg(page).stderr(Stdio::null());
    let began = clock::monotonic_raw();
    #[expect(clippy::zombie_processes, reason = "`wait` asks the kernel for more than std does")]
    let child = command.spawn().expect("surtax starts");
    let (is_fine, peak_kib) = wait(child.id());
    let seconds = clock::monotonic_raw().since(began).seconds();
    assert!(is_fine, "surtax report failed");
    Used { seconds, peak_mb: f64::from(peak_kib) * 1024.0 / 1e6 }
}

/// Waits for a child: whether it succeeded, and the most memory that it held, in KiB.
fn wait(pid: u32) -> (bool, u32) {
    let mut status = 0;
    let pid = libc::pid_t::try_from(pid).expect("a process id");
    // SAFETY: a structure of numbers, for which all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values of ours that outlive the call.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, pid, "{}", std::io::Error::last_os_error());
    (status == 0, u32::try_from(usage.ru_maxrss).expect("less than 4 TiB"))
}

/// Writes a run of so many blocks, each trial of which was looked at so often.
fn write(path: &Path, blocks: u32, looks: u32) {
    let fact = |key: &str, value: &str| Fact {
        key: key.into(),
        value: value.into(),
        source: String::from("a benchmark"),
    };
    let machine = [fact("cpu_model", "none"), fact("cpus_online", "2")];
    let plan = plan(blocks);
    // One that was made here: of a stranger's nobody waits for a report on so many.
    let key = Key::of_this_machine().expect("this machine has a key");
    let mut ledger = Ledger::create_first([path.to_path_buf()], &plan, &machine, Some(&key))
        .expect("a ledger is made");
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut now = clock::wall();
    for block in 0..blocks {
        for trial in plan.block(block) {
            ledger.begin_trial(trial).expect("a trial begins");
            let mut record = record(trial, now, &mut random, &fact);
            now += Nanoseconds(1_500_000_000);
            if looks > 0 {
                watch(&mut record, looks, &mut random);
            }
            ledger.end_trial(&record).expect("a trial ends");
        }
    }
    ledger.finish(RunState::Finished).expect("the run ends");
}

fn plan(blocks: u32) -> Plan {
    let stack = |text: &str| driver::parse(text).expect("a stack that is known");
    Plan {
        schema_version: surtax::plan::SCHEMA_VERSION,
        title: String::from("a hundred thousand trials"),
        stacks: ["native", "runc", "qemu"].map(stack).into(),
        baseline: stack("native"),
        workload: None,
        beside: Vec::new(),
        meters: Vec::new(),
        command: vec!["make".into()],
        cwd: PathBuf::from("/src"),
        environment: Vec::new(),
        inherit_environment: true,
        writable: Vec::new(),
        runs: Some(blocks),
        time_budget_ns: None,
        precision_ppm: None,
        looks: 1,
        warm_up: 0,
        conduct: TrialSettings::plain(),
        command_deadline_ns: 60_000_000_000,
        start_deadline_ns: 60_000_000_000,
        equivalence_margin_ppm: 30_000,
        seed: 7,
    }
}

/// Returns the readings of an engine and its container.
fn readings(cost: f64, near: &mut dyn FnMut(f64) -> Nanoseconds) -> Vec<Reading> {
    let mut reading = |payer: &str, role, typical: f64, carries_workload| Reading {
        payer: payer.into(),
        role,
        level: 0,
        amounts: Amounts::of_cpu(near(typical), near(typical / 10.0)).with(MEMORY_PEAK, 30 << 20),
        carries_workload,
        is_shared: false,
    };
    vec![
        reading("container", Role::Engine, 1.05e9 * cost, true),
        reading("the engine", Role::Engine, 0.02e9, false),
    ]
}

fn record(
    trial: TrialId,
    began_at: Nanoseconds,
    random: &mut ChaCha8Rng,
    fact: &dyn Fn(&str, &str) -> Fact,
) -> Record {
    let (layer, cost) = COSTS[usize::try_from(trial.arm).expect("a small number")];
    let mut near = |typical: f64| {
        let noise: f64 = (0..4).map(|_| random.random::<f64>()).sum::<f64>() - 2.0;
        nanoseconds(typical * (1.0 + 0.05 * noise))
    };
    let (wall, user, system) = (near(BASE_NS * cost), near(0.9e9), near(0.1e9 * cost));
    let output = |text: &str| Output {
        hash: u128::from(text.len() as u64),
        length: Bytes(text.len() as u64),
        tail: text.into(),
    };
    let readings = readings(cost, &mut near);
    let facts = vec![fact("kernel_release", "6.1"), fact("runtime", layer)];
    let evidence = Evidence::of(vec![LevelFacts { layer: layer.into(), facts }]);
    let measured = Measured {
        workload: surtax::workload::WorkloadReading::default(),
        wall,
        outcome: Outcome {
            status: Status::Exit(0),
            wall,
            cpu_user: user,
            cpu_system: system,
            memory_peak: Bytes(20 << 20),
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
            stdout: output("done"),
            stderr: output(""),
            instances: Vec::new(),
        },
        readings,
        machines: Vec::new(),
        iterations: Vec::new(),
        energy_uj: None,
        calls: None,
        is_guest_time_void: false,
        evidence: evidence.expect("there are facts"),
    };
    Record {
        trial,
        began_at,
        result: TrialResult::Done(Box::new(measured)),
        start_wall: near(0.04e9),
        stop_wall: near(0.02e9),
        conditions: ["load_1min", "pressure_cpu_some_us", "steal_ticks"]
            .map(|key| (String::from(key), 0.5))
            .into(),
        disturbances: Vec::new(),
        timeline: None,
        ran: Vec::new(),
        energies: Vec::new(),
        leftovers: Vec::new(),
    }
}

/// Gives a trial the length and the timeline of one that was looked at so often.
fn watch(record: &mut Record, looks: u32, random: &mut ChaCha8Rng) {
    let TrialResult::Done(measured) = &mut record.result else { return };
    let end = Nanoseconds(EVERY.0 * u64::from(looks));
    measured.wall = end;
    measured.outcome.wall = end;
    let mut track = Track::of(0);
    let mut used = vec![[0_u64; 4]; usize::try_from(PAYERS).expect("a small number")];
    for look in 0..looks {
        let mut readings = Vec::new();
        for (place, used) in used.iter_mut().enumerate() {
            for (amount, most) in used.iter_mut().zip([90_000_000, 9_000_000, 1 << 20, 1 << 16]) {
                *amount += random.random_range(0..most);
            }
            let [user, system, read, written] = *used;
            let amounts = Amounts::of_cpu(Nanoseconds(user), Nanoseconds(system))
                .with(DISK_READ, read)
                .with(DISK_WRITTEN, written)
                .with(MEMORY_USED, random.random_range(20 << 20..30_u64 << 20));
            readings.push(Reading {
                payer: format!("payer {place}"),
                role: Role::Engine,
                level: 0,
                amounts,
                carries_workload: place == 0,
                is_shared: false,
            });
        }
        track.add(&Sample { at: Nanoseconds(EVERY.0 * u64::from(look)), readings });
    }
    let clock_bound = Some(Nanoseconds(0));
    record.timeline = Some(Timeline {
        every: EVERY,
        phases: vec![Phase { kind: PhaseKind::Run, from: Nanoseconds(0), to: end }],
        levels: vec![LevelTimeline { track, clock_bound, late_count: 0 }],
    });
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
fn nanoseconds(time: f64) -> Nanoseconds {
    Nanoseconds(time as u64)
}
