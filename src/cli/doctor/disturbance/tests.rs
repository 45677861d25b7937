//! Hosts made of a few files, and what is said of them.

use super::*;

fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

fn states(files: &[(&str, &str)]) -> BTreeMap<&'static str, State> {
    let root = host(files);
    look(root.path(), Duration::ZERO).into_iter().map(|seen| (seen.code, seen.state)).collect()
}

#[test]
fn a_host_that_says_nothing_is_unknown_and_never_fine() {
    assert!(states(&[]).values().all(|state| *state == State::Unknown));
}

#[test]
fn a_quiet_host_is_fine() {
    let states = states(&[
        ("proc/loadavg", "0.00 0.01 0.05 1/100 1234\n"),
        ("proc/stat", "cpu  10 0 10 1000 0 0 0 0 0 0\ncpu0 10 0 10 1000 0 0 0 0 0 0\n"),
        ("proc/1/stat", "1 (init) S 0 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0"),
        ("proc/cpuinfo", "flags\t\t: fpu vmx\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 100 0 -2\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ]);
    assert_eq!(states.len(), 9);
    assert!(states.values().all(|state| *state == State::Fine), "{states:?}");
}

#[test]
fn a_host_that_disturbs_is_called_so() {
    let states = states(&[
        ("proc/loadavg", "99.00 9.00 9.00 1/100 1234\n"),
        ("proc/cpuinfo", "flags\t\t: fpu hypervisor svm\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 100 52 -2\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ]);
    for code in ["load", "virtualised", "swap", "governor", "boost", "smt", "huge-pages"] {
        assert_eq!(states[code], State::Disturbs, "{code}");
    }
}

#[test]
fn a_host_that_counts_its_energy_says_so_and_that_nobody_of_us_has_seen_one() {
    let zone = "sys/class/powercap/intel-rapl:0";
    let root = host(&[
        (&format!("{zone}/name"), "package-0\n"),
        (&format!("{zone}/energy_uj"), "5\n"),
        (&format!("{zone}/max_energy_range_uj"), "262143328850\n"),
    ]);
    let watch = Duration::from_millis(100);
    let of_energy = |found: Vec<Disturbance>| found.into_iter().find(|it| it.code == "energy");
    assert_eq!(of_energy(look(root.path(), watch)), None, "a counter that stands still");
    let counter = root.path().join(zone).join("energy_uj");
    let rising = std::thread::spawn(move || {
        std::thread::sleep(watch / 2);
        std::fs::write(counter, "5000\n").unwrap();
    });
    let energy = of_energy(look(root.path(), watch)).unwrap();
    rising.join().unwrap();
    assert_eq!(energy.state, State::Fine);
    assert!(energy.finding.contains("not yet run on hardware"), "{}", energy.finding);
}

#[test]
fn steal_is_a_share_of_the_time_that_passed() {
    let before = CpuTicks { steal: 10, all: 1000 };
    let seen = steal(Some(&before), Some(&CpuTicks { steal: 15, all: 1100 }));
    assert_eq!(
        (seen.state, seen.finding.as_str()),
        (State::Disturbs, "neighbours took 5.0 % of the CPU time")
    );
    let seen = steal(Some(&before), Some(&CpuTicks { steal: 10, all: 1100 }));
    assert_eq!(
        (seen.state, seen.finding.as_str()),
        (State::Fine, "none just now, but some since boot")
    );
}

#[test]
fn busy_processes_are_named_busiest_first() {
    let before = BTreeMap::from([
        (1, (String::from("init"), 5)),
        (2, (String::from("cc (1)"), 5)),
        (3, (String::from("ld"), 0)),
    ]);
    let after = BTreeMap::from([
        (1, (String::from("init"), 5)),
        (2, (String::from("cc (1)"), 55)),
        (3, (String::from("ld"), 99)),
    ]);
    let seen = background(&before, &after, Duration::from_secs(1));
    assert_eq!(seen.finding, "using a CPU right now: `ld` (3) 99 %, `cc (1)` (2) 50 %");
}

#[test]
fn the_name_of_a_process_may_hold_brackets_and_spaces() {
    let stat = "77 (a) b (c) S 1 77 77 0 -1 4194304 100 0 0 0 12 34 0 0 20 0 1 0 100 0 0";
    assert_eq!(ticks_of(stat), Some((String::from("a) b (c"), 46)));
}
