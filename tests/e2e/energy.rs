//! Energy that a machine takes while a command runs, planted: counters like those of processors,
//! which rise as time does, in a mount namespace of the test's.

use crate::machine::{Machine, text};
use serde_json::Value;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Power that is planted, in milliwatts: of the processors and of their memory.
const POWER: [u64; 2] = [30_000, 7_500];

/// Most that a counter says, in microjoules; it begins a second's worth before it, and goes around.
const RANGE: u64 = 262_143_328_850;

/// Files of a machine with two counters, one of which holds the other's cores, too.
fn counters(root: &Path) {
    for (folder, name) in
        [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram")]
    {
        let folder = root.join("powercap").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        std::fs::write(folder.join("max_energy_range_uj"), format!("{RANGE}\n")).unwrap();
        std::fs::write(folder.join("energy_uj"), format!("{:020}\n", 0)).unwrap();
    }
}

/// Lets the counters rise until it is told to end.
fn rise(root: &Path, is_over: &AtomicBool) {
    let open = |folder: &str| {
        let path = root.join("powercap").join(folder).join("energy_uj");
        std::fs::OpenOptions::new().write(true).open(path).unwrap()
    };
    let files = [open("intel-rapl:0"), open("intel-rapl:0:1")];
    let began = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let microseconds = u64::try_from(began.elapsed().as_micros()).unwrap();
        for (file, milliwatts) in files.iter().zip(POWER) {
            let risen = RANGE - 40_000_000 + microseconds * milliwatts / 1_000;
            file.write_all_at(format!("{:020}\n", risen % RANGE).as_bytes(), 0).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs it where the machine has those counters.
fn answer(machine: &Machine, root: &Path, arguments: &[&str]) -> Value {
    let surtax = machine.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c"]);
    let lower = format!("lowerdir={}:/sys/class", root.display());
    command.arg(format!("mount -t overlay overlay -o {lower} /sys/class && exec \"$@\"")).arg("sh");
    command.arg(surtax.get_program()).args(surtax.get_args());
    for (name, value) in surtax.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_energy_of_a_trial_is_what_was_planted_and_a_stack_that_takes_longer_takes_more() {
    let machine = Machine::take();
    let root = machine.path("class");
    counters(&root);
    let is_over = AtomicBool::new(false);
    let arguments = |stacks: &'static str| {
        let flags = "compare --env T=0.75 --runs 3 --format json --in";
        let mut arguments: Vec<&str> = flags.split(' ').collect();
        arguments.extend([stacks, "--fail-if", "energy > +150%", "--", "sh", "-c", "sleep $T"]);
        arguments
    };
    let (answer, short) = std::thread::scope(|scope| {
        scope.spawn(|| rise(&root, &is_over));
        let long = answer(&machine, &root, &arguments("native,runc:env.T=1.5"));
        let short = answer(&machine, &root, &arguments("native:env.T=0.08,runc:env.T=0.08"));
        is_over.store(true, Ordering::Relaxed);
        (long, short)
    });
    let of = |answer: &Value, arm: usize, name: &str| {
        let mut metrics = answer["arms"][arm]["metrics"].as_array().unwrap().iter();
        metrics.find(|it| it["metric"] == name).unwrap().clone()
    };
    let found = |arm: usize, name: &str| of(&answer, arm, name);
    for (answer, arm) in [(&answer, 0), (&answer, 1), (&answer, 2), (&short, 0), (&short, 2)] {
        let (energy, wall) = (of(answer, arm, "energy_uj"), of(answer, arm, "wall_ns"));
        assert_eq!(energy["unit"], "uJ");
        let watts = energy["median"].as_f64().unwrap() * 1e3 / wall["median"].as_f64().unwrap();
        assert!((37.0..38.0).contains(&watts), "arm {arm}: {watts} W");
    }
    let ratio = found(2, "energy_uj")["overhead"]["ratio"].as_f64().unwrap();
    assert!((1.93..2.03).contains(&ratio), "{ratio}");
    assert_eq!(answer["thresholds"][0]["standing"], "kept");
    machine.assert_as_before();
}

#[test]
fn a_machine_that_says_nothing_of_its_energy_has_no_such_number() {
    let machine = Machine::take();
    let root = machine.path("class");
    counters(&root);
    let assert_silent = |arguments: &str| {
        let answer = answer(&machine, &root, &arguments.split(' ').collect::<Vec<_>>());
        let metrics = answer["arms"][0]["metrics"].as_array().unwrap();
        assert!(!metrics.is_empty());
        assert!(metrics.iter().all(|it| it["metric"] != "energy_uj"), "{metrics:?}");
    };
    // They are there, and stand still, as in a virtual machine.
    assert_silent("compare --in native --runs 1 --format json -- sleep 0.1");
    // Of the time between so many short runs more passes than in them.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| rise(&root, &is_over));
        assert_silent("compare --in native --runs 1 --iterations 50 --format json -- true");
        is_over.store(true, Ordering::Relaxed);
    });
    machine.assert_as_before();
}
