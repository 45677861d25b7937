//! Honest claims at both ends of what they may be are believed, and those beyond are not.

use super::*;
use crate::workload::{Histogrammed, Instanced};
use surtax_instrument::amount::{Amounts, CPU_COMMAND_GROUP, CPU_SYSTEM, CPU_USER};
use surtax_instrument::wire::{Fact, Output, Role, Status};
use surtax_statistics::Histogram;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// A run that this host waited so long for, of which the inside says that it took that.
fn ran(between: u64, wall: u64) -> TimedRun {
    let outcome = Outcome {
        status: Status::Exit(0),
        wall: Nanoseconds(wall),
        cpu_user: Nanoseconds(0),
        cpu_system: Nanoseconds(0),
        memory_peak: Bytes(1 << 20),
        oom_kill_count: None,
        left_running_count: 0,
        counts: Amounts::NONE,
        agent_cpu: Nanoseconds(0),
        machine: Vec::new(),
        calls: None,
        stops: None,
        stdout: Output::default(),
        stderr: Output::default(),
        instances: Vec::new(),
    };
    TimedRun { began: Nanoseconds(0), between: Nanoseconds(between), outcome, bill: Vec::new() }
}

/// The same, of which the inside says that it used so much CPU time.
fn used(between: u64, cpu: u64) -> TimedRun {
    let mut ran = ran(between, between);
    (ran.outcome.cpu_user, ran.outcome.cpu_system) =
        (Nanoseconds(cpu / 2), Nanoseconds(cpu - cpu / 2));
    ran
}

/// A host whose frames take 30 µs there and back.
fn host() -> Host {
    let clock = ClockSync::with_round_trip(true, Nanoseconds(30_000));
    Host {
        clock,
        quota_millis: None,
        memory: Some(Bytes(1 << 30)),
        kernel: None,
        kept_waiting: Nanoseconds(0),
    }
}

fn kernel(group: Option<u64>) -> Host {
    let group = group.map(Nanoseconds);
    Host { kernel: Some(Kernel { group, cpus: 2, is_of_the_timed: true }), ..host() }
}

#[test]
fn an_honest_time_is_believed_at_both_ends_of_what_it_may_be() {
    for ran in
        [ran(SECOND, SECOND), ran(SECOND, 500 * MS), ran(300_000, 250_000), ran(300 * MS, MS)]
    {
        assert_eq!(host().contradicts(&[ran]), None);
    }
    // A minute beside a hundred others, and a command held to a hundredth of a CPU.
    assert_eq!(host().contradicts(&[ran(60 * SECOND, 58 * SECOND)]), None);
    let held = Host { quota_millis: Some(10), ..host() };
    assert_eq!(held.contradicts(&[ran(SECOND, 300 * MS)]), None);
}

#[test]
fn a_microsecond_is_not_claimed_for_a_second() {
    for wall in [1, 1000, 100 * MS, 400 * MS] {
        let words = host().contradicts(&[ran(SECOND, wall)]).unwrap();
        assert!(words.contains("this host waited for 1.000 s"), "{words}");
    }
    // One such run among honest ones is enough.
    let runs = [ran(SECOND, SECOND), ran(SECOND, 1000), ran(SECOND, SECOND)];
    assert!(host().contradicts(&runs).unwrap().contains("taken 1.0 µs"));
    let held = Host { quota_millis: Some(1000), ..host() };
    assert!(held.contradicts(&[ran(SECOND, 1000)]).is_some());
}

#[test]
fn nobody_takes_longer_than_this_host_waited_and_nobody_takes_no_time() {
    assert_eq!(host().contradicts(&[ran(MS, MS + 10_000)]), None, "two CPUs differ by that");
    let words = host().contradicts(&[ran(MS, 2 * MS)]).unwrap();
    assert_eq!(words, "the command is said to have taken 2.0 ms, and this host waited for 1.0 ms");
    let words = host().contradicts(&[ran(MS, 0)]).unwrap();
    assert_eq!(words, "the command is said to have taken no time at all");
}

#[test]
fn a_clock_that_is_not_the_hosts_is_not_asked() {
    let clock = ClockSync::with_round_trip(false, Nanoseconds(30_000));
    let host = Host { clock, ..host() };
    assert_eq!(host.contradicts(&[ran(SECOND, 1)]), None, "its time is the host's");
    assert!(host.contradicts(&[ran(20_000, 20_000)]).is_some(), "less than the way there and back");
}

#[test]
fn cpu_time_is_in_the_group_and_at_most_that_of_all_cpus() {
    for (cpu, group) in [(0, 0), (SECOND, SECOND), (SECOND, 995 * MS), (15 * MS, MS)] {
        assert_eq!(kernel(Some(group)).contradicts(&[used(SECOND, cpu)]), None, "{cpu} {group}");
    }
    let words = kernel(Some(760 * MS)).contradicts(&[used(2 * SECOND, 2240 * MS)]).unwrap();
    assert!(words.contains("used 2.240 s") && words.ends_with("used 760.0 ms"), "{words}");
    let words = kernel(None).contradicts(&[used(SECOND, 3 * SECOND)]).unwrap();
    assert!(words.contains("used 3.000 s") && words.contains("2 CPUs had 2.000 s"), "{words}");
    // The group is that of all runs together.
    let runs = [used(SECOND, SECOND), used(SECOND, SECOND)];
    assert_eq!(kernel(Some(2 * SECOND)).contradicts(&runs), None);
    assert!(kernel(Some(SECOND)).contradicts(&runs).is_some());
    assert_eq!(host().contradicts(&runs), None, "another kernel's word is the bill's matter");
}

#[test]
fn a_server_that_ran_longer_than_its_client_was_timed_is_no_lie() {
    let mut host = kernel(Some(3 * SECOND));
    assert!(host.contradicts(&[used(SECOND, 3 * SECOND)]).is_some());
    host.kernel = host.kernel.map(|kernel| Kernel { is_of_the_timed: false, ..kernel });
    assert_eq!(host.contradicts(&[used(SECOND, 3 * SECOND)]), None);
}

#[test]
fn memory_is_at_most_all_there_is() {
    let mut large = ran(SECOND, SECOND);
    large.outcome.memory_peak = Bytes(1 << 30);
    assert_eq!(host().contradicts(&[ran(SECOND, SECOND)]), None);
    assert_eq!(host().contradicts(std::slice::from_ref(&large)), None);
    large.outcome.memory_peak = Bytes((1 << 30) + 1);
    let words = host().contradicts(std::slice::from_ref(&large)).unwrap();
    assert!(words.contains("1025 MiB") && words.contains("1024 MiB"), "{words}");
    assert_eq!(Host { memory: None, ..host() }.contradicts(&[large]), None);
}

#[test]
fn a_guest_has_at_most_what_its_monitor_gave_it() {
    let level = |facts| LevelFacts { layer: String::from("qemu"), facts };
    let guest = level(vec![Fact::new("memory_bytes", "268435456", "query-memory-size-summary")]);
    let nested = level(vec![Fact::new("memory_bytes", "1099511627776", "its own word")]);
    assert_eq!(memory_of(&[guest.clone(), nested.clone()]), Bytes(256 << 20));
    let (of_container, all) = (memory_of(&[level(Vec::new()), nested]), memory_of(&[]));
    assert!(of_container == all && all > Bytes(256 << 20));
}

#[test]
fn only_a_kernel_that_all_levels_name_is_the_hosts() {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let level = |release: String| LevelFacts {
        layer: String::from("runc"),
        facts: vec![
            Fact::new("inside_kernel_release", release, "uname(2)"),
            Fact::new("inside_kernel_version", text(system.version()), "uname(2)"),
        ],
    };
    let (ours, other) = (level(text(system.release())), level(String::from("4.4.0")));
    let clock = host().clock;
    let found = Kernel::shared(clock, &[ours.clone(), ours.clone()]).unwrap();
    assert!(found.cpus > 0);
    assert!(Kernel::shared(clock, &[ours.clone(), other]).is_none());
    assert!(Kernel::shared(clock, &[]).is_none());
    let another = ClockSync::with_round_trip(false, Nanoseconds(1));
    assert!(Kernel::shared(another, &[ours]).is_none());
}

#[test]
fn the_group_is_the_one_that_holds_the_command() {
    let payer = |name: &str, source, carries_workload| {
        Payer::new(name, Role::Engine, source).carrying(carries_workload)
    };
    let reading = |payer: &str, cpu| Reading {
        payer: payer.into(),
        role: Role::Engine,
        level: 0,
        amounts: Amounts::of_cpu(Nanoseconds(cpu), Nanoseconds(1)),
        carries_workload: true,
        is_shared: false,
    };
    let readings = [reading("runc", 7), reading("container", 9)];
    let container = payer("container", Source::Group("/x".into()), true);
    let payers = [payer("runc", Source::Process(1), false), container];
    assert_eq!(of_the_group(&payers, &readings), Some(Nanoseconds(10)));
    assert_eq!(of_the_group(&payers[..1], &readings), None);
    assert_eq!(of_the_group(&payers, &readings[..1]), None, "it was not read");
    let gone = Reading { amounts: Amounts::NONE, ..readings[1].clone() };
    assert_eq!(of_the_group(&payers, &[gone]), None, "it was gone");
}

#[test]
fn no_time_that_a_command_measured_is_longer_than_the_command() {
    let measured = |times: &[u64]| {
        let mut histogram = Histogram::new();
        times.iter().for_each(|time| histogram.record(*time).unwrap());
        let histograms = vec![Histogrammed { name: String::from("latency"), histogram }];
        WorkloadReading { histograms, ..WorkloadReading::default() }
    };
    let instance = |wall: u64| {
        let value = wall as f64;
        let metric = String::from(WALL_OF_INSTANCE);
        let instances = vec![Instanced { instance: 1, metric, unit: "ns", value }];
        WorkloadReading { instances, ..WorkloadReading::default() }
    };
    let runs = [ran(SECOND, SECOND), ran(4 * SECOND, 4 * SECOND)];
    assert_eq!(too_long(&measured(&[1_000, 4 * SECOND]), &runs), None);
    assert_eq!(too_long(&measured(&[4_510 * MS]), &runs), None, "clocks differ, and bins are wide");
    let of_short = too_long(&measured(&[400 * MS; 3]), &[ran(25 * MS, 25 * MS)]).unwrap();
    assert!(of_short.ends_with("waited for 25.0 ms for the whole command"), "{of_short}");
    let words = too_long(&measured(&[1_000, 6 * SECOND]), &runs).unwrap();
    assert!(words.starts_with("`latency` holds a time of 6."), "{words}");
    assert!(words.ends_with("waited for 4.000 s for the whole command"), "{words}");
    assert_eq!(too_long(&instance(4 * SECOND), &runs), None);
    let words = too_long(&instance(6 * SECOND), &runs).unwrap();
    assert!(words.starts_with("instance 1 is said to have taken 6.000 s, and"), "{words}");
    assert_eq!(too_long(&WorkloadReading::default(), &runs), None);
    assert_eq!(too_long(&measured(&[6 * SECOND]), &[]), None, "nothing was run");
}

#[test]
fn what_a_group_used_and_nobody_waited_for_is_the_commands() {
    // The container's group, with so much of it in the command's, if that is apart.
    let group = |ms: u64, of_command: Option<u64>| Reading {
        payer: String::from("container"),
        role: Role::Engine,
        level: 0,
        amounts: Amounts::default()
            .with(CPU_USER, ms * MS)
            .with(CPU_SYSTEM, 0)
            .with(CPU_COMMAND_GROUP, of_command.map(|ms| ms * MS)),
        carries_workload: true,
        is_shared: false,
    };
    let held_in = |reading: Reading, claim: u64, of_agent: u64| {
        let mut outcome = ran(SECOND, SECOND).outcome;
        (outcome.cpu_user, outcome.cpu_system) = (Nanoseconds(claim * MS), Nanoseconds(0));
        outcome.agent_cpu = Nanoseconds(of_agent * MS);
        let told = with_unwaited(&mut outcome, &[reading]).map(|(_, ns)| ns / 1e6);
        (told, (outcome.cpu_user + outcome.cpu_system).0 / MS)
    };
    let held = |ms, claim, of_agent| held_in(group(ms, Some(ms)), claim, of_agent);
    // The command hid 400 ms in children whose end it ignores.
    assert_eq!(held(401, 1, 1), (Some(399.0), 400));
    // What it printed kept the agent busy; and a container's own init does a little.
    assert_eq!(held(401, 100, 300), (None, 100));
    assert_eq!((held(109, 100, 0), held(111, 100, 0)), ((None, 100), (Some(11.0), 111)));
    // What the container's own have used in their groups is theirs, and where nothing tells them
    // apart nobody knows.
    assert_eq!(held_in(group(901, Some(501)), 1, 1), (Some(499.0), 500));
    assert_eq!(held_in(group(901, Some(3)), 1, 1), (None, 1));
    assert_eq!(held_in(group(901, None), 1, 1), (None, 1));
    // Of a claim that is more than the group had, nothing is known.
    assert_eq!(held(100, 400, 0), (None, 400));
}

#[test]
fn who_was_kept_from_a_cpu_by_neighbours_is_believed_for_as_long_as_that_was() {
    let starved = |time, group| Host { kept_waiting: Nanoseconds(time), ..kernel(Some(group)) };
    let late = || [ran(10 * SECOND, 3 * SECOND), ran(3 * SECOND, 3 * SECOND)];
    assert_eq!(starved(6 * SECOND, 0).contradicts(&late()), None);
    let words = starved(5 * SECOND, 0).contradicts(&late()).unwrap();
    assert!(words.ends_with("of which an agent explains 6.002 s"), "{words}");
    // It is one time for all of the runs.
    let twice = || [ran(10 * SECOND, 3 * SECOND), ran(10 * SECOND, 3 * SECOND)];
    assert!(starved(6 * SECOND, 0).contradicts(&twice()).is_some());
    assert_eq!(starved(12 * SECOND, 0).contradicts(&twice()), None);
    // What works in the command's own group may be what was waited for.
    assert_eq!(starved(7 * SECOND, SECOND).contradicts(&late()), None);
    assert!(starved(6 * SECOND, SECOND).contradicts(&late()).is_some());
    let held = Host { quota_millis: Some(2000), ..starved(6 * SECOND, 0) };
    assert!(held.contradicts(&late()).is_some());
    let unknown = Host { kernel: None, ..starved(6 * SECOND, 0) };
    assert!(unknown.contradicts(&late()).is_some());
    let mut of_a_server = starved(6 * SECOND, 0);
    of_a_server.kernel = of_a_server.kernel.map(|it| Kernel { is_of_the_timed: false, ..it });
    assert!(of_a_server.contradicts(&late()).is_some());
}
