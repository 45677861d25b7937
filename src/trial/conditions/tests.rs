//! Conditions of machines that are trees of files, and of this one.

use super::*;
use std::collections::BTreeMap;

/// Opens the counters of a machine, and those of groups in its hierarchies.
fn open(root: &Path, groups: &[PathBuf]) -> ConditionReader {
    let hierarchies = Hierarchies::discover_below(root).unwrap_or_default();
    let mut reader = ConditionReader::open(root, &hierarchies);
    reader.widen(&hierarchies, groups);
    reader
}

/// A tree of files like those of a machine with two CPUs, all counters at `step` times something.
fn machine(root: &Path, step: u64) {
    let cpu = "sys/devices/system/cpu";
    let pressure = |some: u64, full: u64| {
        format!("some avg10=0.00 total={}\nfull avg10=0.00 total={}\n", some * step, full * step)
    };
    let files = [
        (String::from("proc/stat"), {
            let line = [50, 0, 10, 1_000, 0, 0, 0, 3].map(|ticks: u64| (ticks * step).to_string());
            format!("cpu  {} 0 0\ncpu0 0\ncpu1 0\n", line.join(" "))
        }),
        ("proc/loadavg".into(), format!("{step}.5 0 0 {}/99 7\n", step + 1)),
        (
            "proc/vmstat".into(),
            format!("pgpgin {step}\npgmajfault {step}\npswpin {step}\npswpout 0\n"),
        ),
        ("proc/pressure/cpu".into(), pressure(7, 0)),
        ("proc/pressure/io".into(), pressure(6, 5)),
        ("proc/pressure/memory".into(), pressure(4, 3)),
        (
            "proc/self/mountinfo".into(),
            "1 1 0:1 / /cg rw - cgroup cgroup rw,cpu\n2 1 0:2 / /cg2 rw - cgroup2 cgroup2 rw\n"
                .into(),
        ),
        ("proc/self/cgroup".into(), "1:cpu:/slice/surtax\n".into()),
        ("cg/cgroup.procs".into(), String::new()),
        ("cg/slice/surtax/cgroup.procs".into(), String::new()),
        (
            "cg/slice/cpu.stat".into(),
            format!("nr_throttled {}\nthrottled_time {}\n", 2 * step, 30 * step),
        ),
        ("cg/slice/cpu.cfs_quota_us".into(), "150000\n".into()),
        ("cg/slice/cpu.cfs_period_us".into(), "100000\n".into()),
        (format!("{cpu}/cpu0/cpufreq/scaling_cur_freq"), format!("{}\n", 4_000_000 / step)),
        (format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance\n".into()),
        (format!("{cpu}/cpu0/thermal_throttle/core_throttle_count"), format!("{step}\n")),
    ];
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Returns what is kept of a trial during which the counters went from one step to the second.
fn kept(payers_cpu: Option<Nanoseconds>) -> BTreeMap<String, f64> {
    let root = tempfile::tempdir().unwrap();
    machine(root.path(), 1);
    let mut reader = open(root.path(), &[]);
    let mut before = reader.read();
    machine(root.path(), 2);
    let mut after = reader.read();
    // Ten seconds and a bit over two CPUs, so that counting and measuring come to nearly the same.
    before.host.at = Nanoseconds(0);
    after.host.at = Nanoseconds(5_320_000_000);
    (before.surtax_cpu, after.surtax_cpu) = (Nanoseconds(5), Nanoseconds(100_000_005));
    after.wall_lead_ns = before.wall_lead_ns - 2_000_000;
    reader.between(&before, &after, payers_cpu).into_iter().collect()
}

#[test]
fn every_condition_is_a_difference_or_a_level_under_its_key() {
    let expected = [
        ("clock_step_ns", -2e6),
        ("cpu_quota_cpus", 1.5),
        ("cpu_quota_group_count", 1.0),
        ("frequency_after_hz", 2e9),
        ("frequency_before_hz", 4e9),
        ("governor_performance_ratio", 1.0),
        ("load_1min", 1.5),
        ("machine_cpu_ns", 6e8),
        ("major_fault_count", 1.0),
        ("others_cpu_ns", 2e8),
        ("page_in_bytes", 1024.0),
        ("pressure_cpu_some_ns", 7e3),
        ("pressure_io_full_ns", 5e3),
        ("pressure_io_some_ns", 6e3),
        ("pressure_memory_full_ns", 3e3),
        ("pressure_memory_some_ns", 4e3),
        ("running_count", 2.0),
        ("stack_stopped_count", 0.0),
        ("steal_ns", 3e7),
        ("swap_in_bytes", 4096.0),
        ("swap_out_bytes", 0.0),
        ("thermal_throttle_count", 1.0),
        ("throttled_count", 2.0),
        ("throttled_ns", 30.0),
        ("watched_ns", 5.32e9),
    ];
    let kept = kept(Some(Nanoseconds(300_000_000)));
    let expected: BTreeMap<String, f64> =
        expected.map(|(key, value)| (String::from(key), value)).into();
    assert_eq!(kept, expected);
    let page = include_str!("../../ledger/FORMAT.md");
    for key in kept.keys() {
        assert!(page.contains(&format!("`{key}`")), "`{key}` is not explained");
    }
}

#[test]
fn where_a_payer_could_not_be_read_what_others_used_is_unknown() {
    let kept = kept(None);
    assert!(kept.contains_key("machine_cpu_ns") && !kept.contains_key("others_cpu_ns"));
}

#[test]
fn the_stack_that_used_all_of_it_leaves_nothing_to_others() {
    let kept = kept(Some(Nanoseconds(700_000_000)));
    assert!(kept["others_cpu_ns"].abs() < f64::EPSILON);
}

#[test]
fn on_a_machine_without_files_only_the_clocks_and_its_own_children_are_known() {
    let root = tempfile::tempdir().unwrap();
    let mut reader = open(root.path(), &[]);
    let (before, after) = (reader.read(), reader.read());
    let kept = reader.between(&before, &after, Some(Nanoseconds(0)));
    let keys: Vec<&str> = kept.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["watched_ns", "clock_step_ns", "stack_stopped_count"]);
}

#[test]
fn a_counter_that_fell_and_cpus_that_went_say_nothing() {
    assert_eq!(rise(Some(5), Some(3)), None);
    let before = CpuTime { cpu_count: 4, ..CpuTime::default() };
    let after = CpuTime { cpu_count: 3, ..CpuTime::default() };
    assert_eq!(busy(&before, &after, Nanoseconds(1_000)), None);
}

#[test]
fn one_reading_of_this_machine_takes_less_than_a_millisecond() {
    let mut reader = open(Path::new("/"), &[PathBuf::from("/surtax-nobody/room/command")]);
    let mut took: Vec<u64> = (0..200)
        .map(|_| {
            let began = clock::monotonic_raw();
            let read = reader.read();
            assert!(read.host.cpu.is_some() && read.host.load_1min.is_some());
            clock::monotonic_raw().since(began).0
        })
        .collect();
    took.sort_unstable();
    println!("a reading takes {} (median of 200)", Nanoseconds(took[100]));
    assert!(took[100] < 1_000_000, "{}", Nanoseconds(took[100]));
}
