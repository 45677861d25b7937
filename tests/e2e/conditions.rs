//! Conditions: a machine that is not quiet is noticed, its trials are repeated once, and marked.
//!
//! The faults are real, made here and ended here: processes that use whole CPUs, and a CPU quota on
//! the group above surtax, as a container has one. Each test proves that its fault happened.

use crate::answers::arm;
use crate::machine::{Machine, skip, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use surtax_instrument::probe::cgroup::{Hierarchies, Hierarchy, Version};
use surtax_instrument::probe::process;
use surtax_instrument::quantity::Nanoseconds;

/// A command of about a fifth of a second.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// Processes that do nothing but run, one per CPU and one more; each ends by itself after a minute.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let hog = |_| {
            let mut command = Command::new("timeout");
            command.args(["60", "sh", "-c", "ulimit -t 60; while :; do :; done"]);
            command.stdin(Stdio::null()).spawn().unwrap()
        };
        Self((0..=cpus).map(hog).collect())
    }

    /// Sums the CPU time that they have used so far, which proves that they disturbed.
    fn used(&self) -> Nanoseconds {
        let children = |hog: &Child| crate::machine::children_named(hog.id(), "while");
        let used = |pid: u32| process::usage(pid).map(|it| it.cpu.total);
        let all = self.0.iter().flat_map(children).filter_map(|pid| used(pid).ok());
        all.fold(Nanoseconds(0), |sum, one| sum + one)
    }

    fn end(&mut self) {
        for mut hog in self.0.drain(..) {
            // Asked to end, `timeout` ends what it started; killed, it could not.
            if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(hog.id()).unwrap()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let _ = hog.wait();
        }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.end();
    }
}

fn trials(answer: &Value) -> Vec<&Value> {
    let arms = answer["arms"].as_array().unwrap();
    arms.iter().flat_map(|arm| arm["trials"].as_array().unwrap()).collect()
}

fn is_marked(trial: &Value, key: &str) -> bool {
    trial["disturbances"].as_array().unwrap().iter().any(|found| found["key"] == key)
}

/// Counts the attempts at each trial that ended in this state, by block and position.
fn attempts(answer: &Value, state: &str) -> BTreeMap<(u64, u64), usize> {
    let mut counts = BTreeMap::new();
    for trial in trials(answer).into_iter().filter(|trial| trial["state"] == state) {
        let place = (trial["block"].as_u64().unwrap(), trial["position"].as_u64().unwrap());
        *counts.entry(place).or_default() += 1;
    }
    counts
}

#[test]
fn trials_beside_a_busy_process_are_repeated_three_times_in_vain_and_all_are_marked() {
    let machine = Machine::alone();
    let ledger = machine.path("run.surtax");
    let ledger = ledger.to_str().unwrap();
    let mut hogs = Hogs::start();
    let run =
        ["compare", "-v", "--in", "native", "--runs", "4", "-o", ledger, "--", "sh", "-c", WORK];
    let output = machine.surtax(&run);
    let used = hogs.used();
    hogs.end();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(used > Nanoseconds(500_000_000), "the hogs used {used} only");

    let answer = machine.json(&["show", ledger, "--format", "json"]);
    let (done, disturbed) = (attempts(&answer, "done"), attempts(&answer, "disturbed"));
    assert_eq!((done.len(), disturbed.len()), (8, 3), "{said}");
    assert!(done.values().chain(disturbed.values()).all(|count| *count == 1), "{done:?}");
    let all = trials(&answer);
    let marked = all.iter().filter(|trial| is_marked(trial, "others_cpu_ratio")).count();
    assert_eq!((marked, all.len()), (11, 11), "{answer:#}");
    for (arm, repeated) in [(0, 4), (1, 4)] {
        assert_eq!(answer["arms"][arm]["disturbed_count"], repeated);
    }
    let cautions = answer["cautions"].as_array().unwrap();
    assert!(cautions.iter().any(|caution| caution["code"] == "disturbed"), "{cautions:#?}");
    assert_eq!(said.matches("; repeated").count(), 3, "{said}");
    assert_eq!(said.matches("no more are repeated").count(), 1, "{said}");
    assert!(said.contains("disturbed: others used "), "{said}");
    machine.assert_as_before();
}

#[test]
fn trials_beside_a_busy_process_that_are_to_be_kept_are_marked_and_not_repeated() {
    let machine = Machine::alone();
    let mut hogs = Hogs::start();
    let kept = ["compare", "--in", "native", "--runs", "2", "--keep-disturbed", "--format", "json"];
    let answer = machine.json(&[&kept[..], &["--", "sh", "-c", WORK]].concat());
    hogs.end();
    let all = trials(&answer);
    let marked = all.iter().filter(|trial| is_marked(trial, "others_cpu_ratio")).count();
    assert_eq!((attempts(&answer, "done").len(), marked, all.len()), (4, 4, 4), "{answer:#}");
    machine.assert_as_before();
}

#[test]
fn a_kill_before_the_repeat_of_a_disturbed_trial_ends_counts_it_once() {
    let machine = Machine::alone();
    let ledger = machine.path("run.surtax");
    let ledger = ledger.to_str().unwrap();
    let mut hogs = Hogs::start();
    let run =
        ["compare", "-v", "--in", "native", "--runs", "2", "-o", ledger, "--", "sh", "-c", WORK];
    let mut child = machine.start(&run);
    let stderr = child.stderr.take().unwrap();
    let said = BufReader::new(stderr).lines().map_while(Result::ok);
    let was_said = said.into_iter().any(|line| line.contains("; repeated"));
    assert!(was_said, "no trial was repeated");
    std::thread::sleep(Duration::from_millis(60));
    assert!(child.try_wait().unwrap().is_none(), "there was nothing to kill");
    child.kill().unwrap();
    child.wait().unwrap();
    let used = hogs.used();
    hogs.end();
    assert!(used > Nanoseconds(50_000_000), "the hogs used {used} only");

    assert!(machine.surtax(&["gc"]).status.success());
    let before = machine.json(&["show", ledger, "--format", "json"]);
    let repeated = attempts(&before, "disturbed");
    assert!(!repeated.is_empty(), "the disturbed attempt was lost: {before:#}");
    assert!(attempts(&before, "done").len() < 4, "it was over before it was killed");
    let resumed = machine.surtax(&["resume", ledger]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let answer = machine.json(&["show", ledger, "--format", "json"]);
    assert_eq!(answer["run"]["state"], "finished");
    let done = attempts(&answer, "done");
    assert_eq!((done.len(), done.values().sum::<usize>()), (4, 4), "{answer:#}");
    // What had been repeated, or was about to be, is not repeated once more.
    let now = attempts(&answer, "disturbed");
    assert!(repeated.keys().all(|place| now[place] == 1 && done.contains_key(place)), "{now:?}");
    machine.assert_as_before();
}

/// A group with a CPU quota, removed at the end with all that is below it.
struct Quota {
    directory: PathBuf,
    version: Version,
}

impl Quota {
    /// `None` where this machine has no CPU controller to set one with.
    fn make(hierarchy: &Hierarchy) -> Option<Self> {
        let name = format!("conditions-{}", std::process::id());
        let quota =
            Self { directory: hierarchy.mount_point.join(name), version: hierarchy.version };
        std::fs::create_dir(&quota.directory).unwrap();
        let file = if quota.version == Version::One { "cpu.cfs_quota_us" } else { "cpu.max" };
        quota.directory.join(file).exists().then_some(quota)
    }

    /// Sets it, in thousandths of a CPU.
    fn set(&self, millis: Option<u32>) {
        let us = millis.map(|millis| millis * 100);
        let (file, value) = match self.version {
            Version::One => ("cpu.cfs_quota_us", us.map_or("-1".into(), |us| us.to_string())),
            Version::Two => ("cpu.max", us.map_or("max".into(), |us| us.to_string())),
        };
        std::fs::write(self.directory.join(file), value).unwrap();
    }

    /// In how many periods it has held somebody back.
    fn throttled_count(&self) -> u64 {
        let stat = std::fs::read_to_string(self.directory.join("cpu.stat")).unwrap();
        let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap();
        line.parse().unwrap()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("the group `{}` could not be removed", self.directory.display());
    }
}

/// Compares inside the quota's group, which is all of the machine's CPU groups that can be seen
/// there, as in a container.
fn compare_inside(machine: &Machine, quota: &Quota, hierarchy: &Hierarchy, ledger: &Path) -> Value {
    let script = format!(
        "echo $$ > {0}/cgroup.procs && exec unshare -m sh -c 'mount --bind {0} {1} && \
         exec {2} compare --in native --runs 2 -o {3} -- sh -c \"$0\"' '{WORK}'",
        quota.directory.display(),
        hierarchy.mount_point.display(),
        env!("CARGO_BIN_EXE_surtax"),
        ledger.display(),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null()).env("XDG_DATA_HOME", machine.path("data"));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    machine.json(&["show", ledger.to_str().unwrap(), "--format", "json"])
}

#[test]
fn a_cpu_quota_on_a_group_above_is_caught_as_throttling_and_without_it_there_is_none() {
    let machine = Machine::beside_one();
    let hierarchies = Hierarchies::discover().unwrap();
    let Some(hierarchy) = hierarchies.of("cpu") else {
        skip("a CPU quota", "no cgroup hierarchy has the controller `cpu`");
        return;
    };
    let Some(quota) = Quota::make(hierarchy) else {
        skip("a CPU quota", "the CPU controller is not enabled at the root");
        return;
    };
    let free = compare_inside(&machine, &quota, hierarchy, &machine.path("free.surtax"));
    assert_eq!(arm(&free, "native")["trial_count"], 2);
    assert!(!trials(&free).iter().any(|trial| is_marked(trial, "throttled_count")), "{free:#}");

    let before = quota.throttled_count();
    quota.set(Some(300));
    let held = compare_inside(&machine, &quota, hierarchy, &machine.path("held.surtax"));
    quota.set(None);
    let happened = quota.throttled_count() - before;
    assert!(happened >= 4, "the quota held nobody back: {happened}");
    let all = trials(&held);
    let marked = all.iter().filter(|trial| is_marked(trial, "throttled_count")).count();
    assert_eq!((marked, attempts(&held, "done").len()), (all.len(), 4), "{held:#}");
    assert!(!attempts(&held, "disturbed").is_empty(), "none was repeated: {held:#}");
    drop(quota);
    machine.assert_as_before();
}
