//! Memory on real control groups: what of a payer's memory is page cache, what lies in files in
//! memory, and what is nobody's who ran just now.

use crate::answers::{arm, compare};
use crate::machine::{Machine, is_usable, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Size of every file of the test, in bytes.
const MIB: f64 = 1_048_576.0;

/// The sum over the payers of level 0 that are this trial's own.
fn of_all(arm: &Value, quantity: &str) -> f64 {
    let payers = arm["payers"].as_array().unwrap();
    let own = payers.iter().filter(|it| it["level"] == 0 && it["is_shared"] == false);
    own.filter_map(|it| it[quantity].as_f64()).sum()
}

#[test]
fn files_on_a_disk_and_files_in_memory_are_told_apart_in_a_payers_memory() {
    let machine = Machine::alone();
    for stack in ["native", "runc"] {
        if !is_usable(&machine, stack) {
            skip(stack, "it is not usable here");
            return;
        }
    }
    // On a disk, and on what surtax keeps in memory.
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = disk.path().to_str().unwrap();
    let script = "dd if=/dev/zero of=$1/file bs=1M count=96";
    let plain = compare("native,runc", "1", &["sh", "-c", script, "sh", place]);
    let mut arguments = vec!["compare", "--writable", place];
    arguments.extend(&plain[1..]);
    let answer = machine.json(&arguments);
    for stack in ["native", "runc"] {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        let cached = of_all(arm, "memory_page_cache_bytes");
        assert!(cached >= 90.0 * MIB, "{stack}: {}", arm["payers"]);
        assert_eq!(arm["page_cache_bytes"].as_f64(), Some(cached), "{stack}");
        assert!(of_all(arm, "memory_anon_bytes") < 64.0 * MIB, "{stack}: {}", arm["payers"]);
        // On a machine that is not quiet another attempt comes first.
        let mut trials = arm["trials"].as_array().unwrap().iter();
        let usage = trials.find(|it| it["state"] == "done").unwrap();
        assert!(usage["memory_others_peak_bytes"].as_f64().unwrap() >= 90.0 * MIB, "{usage}");
        assert_eq!(usage["memory_others_page_cache_bytes"].as_f64(), Some(cached), "{usage}");
    }
    machine.assert_as_before();
}

#[test]
fn a_file_in_memory_is_no_page_cache_that_could_be_dropped() {
    let machine = Machine::alone();
    if !is_usable(&machine, "native") || !Path::new("/dev/shm").is_dir() {
        skip("native", "it is not usable here, or there is no memory to write files to");
        return;
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = memory.path().to_str().unwrap();
    let script = "dd if=/dev/zero of=$1/file bs=1M count=96";
    let plain = compare("native", "1", &["sh", "-c", script, "sh", place]);
    let mut arguments = vec!["compare", "--writable", place];
    arguments.extend(&plain[1..]);
    let answer = machine.json(&arguments);
    let arm = arm(&answer, "native");
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    assert!(of_all(arm, "memory_shmem_bytes") >= 90.0 * MIB, "{}", arm["payers"]);
    assert!(of_all(arm, "memory_page_cache_bytes") < 64.0 * MIB, "{}", arm["payers"]);
}

/// Root of the hierarchy of version 1 that counts disks.
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// Disks that were used, by their numbers, and that version 1 of cgroups does not count: Linux 6.10
/// and later begin with the first limit of a disk's speed.
fn uncounted_disks() -> Vec<String> {
    let list = Path::new(BLKIO).join("blkio.throttle.io_service_bytes_recursive");
    let Ok(counted) = fs::read_to_string(list) else { return Vec::new() };
    let disks = fs::read_dir("/sys/block").unwrap().map(|disk| disk.unwrap().path());
    let is_used = |disk: &Path| {
        let stat = fs::read_to_string(disk.join("stat")).unwrap();
        let words: Vec<&str> = stat.split_whitespace().collect();
        let size = fs::read_to_string(disk.join("size")).unwrap();
        size.trim() != "0" && (words[0] != "0" || words[4] != "0")
    };
    let numbers = disks.filter(|disk| is_used(disk)).map(|disk| {
        let number = fs::read_to_string(disk.join("dev")).unwrap();
        number.trim().to_owned()
    });
    numbers.filter(|number| !counted.contains(&format!("{number} "))).collect()
}

/// Has the kernel count these disks, by a limit that none of them reaches, and uses them once.
fn count(disks: &[String]) {
    let group = Path::new(BLKIO).join(format!("surtax-test-{}", std::process::id()));
    fs::create_dir(&group).unwrap();
    for number in disks {
        fs::write(group.join("blkio.throttle.write_bps_device"), format!("{number} 1000000000000"))
            .unwrap();
    }
    fs::remove_dir(&group).unwrap();
    let file = tempfile::tempfile_in("/var/tmp").unwrap();
    file.set_len(1 << 20).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn the_bill_has_disks_faults_and_switches_of_whoever_had_them() {
    let machine = Machine::alone();
    for stack in ["native", "runc", "qemu"] {
        if !is_usable(&machine, stack) {
            skip(stack, "it is not usable here");
            return;
        }
    }
    let uncounted = uncounted_disks();
    if !uncounted.is_empty() {
        // A disk that the kernel does not count is unknown, and no zero.
        let answer = machine.json(&compare("native", "1", &["true"]));
        let payers = arm(&answer, "native")["payers"].as_array().unwrap();
        let group = payers.iter().find(|it| it["memory_anon_bytes"].is_number()).unwrap();
        assert!(group["disk_written_bytes"].is_null(), "{uncounted:?}: {group}");
        count(&uncounted);
        assert_eq!(uncounted_disks(), Vec::<String>::new());
    }
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = disk.path().to_str().unwrap();
    // Past the page cache: who writes that back is not the same everywhere. And 20,000 pages for
    // the first time, one by one.
    let script = "dd if=/dev/zero of=$1/file bs=1M count=24 oflag=direct && dd if=$1/file \
                  of=/dev/null bs=1M iflag=direct && for i in 1 2 3 4 5; do dd if=/dev/zero \
                  of=/dev/null bs=16M count=1; done";
    let plain = compare("native,runc", "1", &["sh", "-c", script, "sh", place]);
    let mut arguments = vec!["compare", "--writable", place];
    arguments.extend(&plain[1..]);
    let answer = machine.json(&arguments);
    for stack in ["native", "runc"] {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        for (quantity, least, most) in [
            ("disk_written_bytes", 24.0 * MIB, 48.0 * MIB),
            ("disk_read_bytes", 24.0 * MIB, 48.0 * MIB),
            ("page_fault_count", 15_000.0, 200_000.0),
        ] {
            let found = of_all(arm, quantity);
            assert!((least..most).contains(&found), "{stack}: {quantity}: {}", arm["payers"]);
        }
    }
    // Nobody counts the switches of a group; a virtual CPU that waits gives its thread's up.
    let machine_alone = "qemu:accel=tcg,cpus=1";
    let answer = machine.json(&compare(machine_alone, "1", &["sleep", "0.5"]));
    let payers = arm(&answer, machine_alone)["payers"].as_array().unwrap();
    let vcpus = payers.iter().find(|it| it["payer"].as_str().unwrap().contains("vCPU")).unwrap();
    let switches = vcpus["context_switch_count"].as_f64().unwrap();
    assert!(switches > 10.0, "{vcpus}");
    assert!(vcpus["preemption_count"].as_f64().unwrap() <= switches, "{vcpus}");
    assert!(vcpus["cpu_wait_ns"].is_number(), "{vcpus}");
    let group = payers.iter().find(|it| it["memory_anon_bytes"].is_number());
    assert!(group.is_none_or(|it| it["context_switch_count"].is_null()), "{group:?}");
    machine.assert_as_before();
}

#[test]
fn a_private_daemon_is_started_before_the_first_block_and_no_trial_has_its_memory() {
    let machine = Machine::alone();
    if !is_usable(&machine, "docker") {
        skip("docker", "it is not usable here");
        return;
    }
    let daemon = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|place| place.join("dockerd"))
        .find(|file| file.is_file());
    let Some(daemon) = daemon else {
        skip("docker", "there is no `dockerd` of which a private one could be");
        return;
    };
    // Who starts it is seen by what stands in its place and says when.
    let tools = tempfile::tempdir_in("/var/tmp").unwrap();
    let said = tools.path().join("began");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || date +%s%N >> {}\nexec {} \"$@\"\n",
        said.display(),
        daemon.display()
    );
    let wrapper = tools.path().join("dockerd");
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let run = machine.path("daemon.surtax");
    let run = run.to_str().unwrap();
    let mut arguments = compare("docker", "2", &["true"]);
    arguments.splice(1..1, ["-o", run]);
    let output = machine.command(&arguments).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", crate::machine::text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();

    let began: Vec<u64> =
        std::fs::read_to_string(&said).unwrap().lines().map(|at| at.parse().unwrap()).collect();
    let ledger = rusqlite::Connection::open(run).unwrap();
    let query = "SELECT min(began_at_ns) FROM trials";
    let first: i64 = ledger.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(began.len(), 1, "one daemon for all trials: {began:?}");
    assert!(began[0] < u64::try_from(first).unwrap(), "{} is after {first}", began[0]);

    let arm = arm(&answer, "docker");
    let payers = arm["payers"].as_array().unwrap();
    let shared = payers.iter().find(|it| it["is_shared"] == true).unwrap();
    assert!(shared["payer"].as_str().unwrap().contains("dockerd"), "{shared}");
    let peak = shared["memory_peak_bytes"].as_f64().unwrap();
    assert!(peak > 20.0 * MIB, "{shared}");
    for trial in arm["trials"].as_array().unwrap() {
        let of_trial = trial["memory_others_peak_bytes"].as_f64().unwrap();
        assert!(of_trial < peak, "{of_trial} has the daemon's {peak}");
        assert!(trial["memory_shared_peak_bytes"].as_f64().unwrap() > 20.0 * MIB, "{trial}");
    }
    machine.assert_as_before();
}
