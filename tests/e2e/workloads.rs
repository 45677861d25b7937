//! Workloads: a file becomes a command, its output numbers, and what cannot be believed an invalid
//! trial.

use crate::answers::arm;
use crate::machine::{Machine, cases, is_usable, text};
use serde_json::Value;
use std::path::PathBuf;

/// A workload of the user's own: a program that no file that comes with surtax knows.
const OWN: &str = r#"
about = "how many words a list has, and how long a look took"
command = ["sh", "-c", "test -e /tmp/made && echo \"words: {count}\" && echo \"took {took} ms\" && echo '{{\"bins\": [[1000, 30], [2000, 70]]}}'"]
setup = [["touch", "/tmp/made"]]
cleanup = [["rm", "/tmp/made"]]
packages = { debian = ["words-of-ours"] }

[parameters]
count = { about = "how many words", default = 40, min = 0 }
took = { about = "what it says to have taken", default = "1.5", pattern = '[0-9.]+' }

[version]
command = ["sh", "-c", "echo words 1.2.3"]
regex = 'words (\d+\.\d+)'
known = ["1.2"]

[[check]]
about = "there were words"
regex = 'words: (\d+)'
min = 1

[[metric]]
name = "rate"
unit = "1/s"
better = "higher"
regex = 'words: (\d+)'

[[metric]]
name = "look"
unit = "ms"
better = "lower"
regex = 'took ([0-9.]+) ms'
max = 100

[[histogram]]
name = "latency"
unit = "ns"
jsonpath = "$.bins"
"#;

fn own(machine: &Machine, name: &str, text: &str) -> PathBuf {
    let path = machine.path(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn metric<'a>(arm: &'a Value, name: &str) -> &'a Value {
    let metrics = arm["metrics"].as_array().unwrap();
    metrics
        .iter()
        .find(|metric| metric["metric"] == name)
        .unwrap_or_else(|| panic!("{name}: {arm}"))
}

#[test]
fn a_workload_of_the_users_own_is_measured_in_every_stack_and_gone_on_with() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let path = own(&machine, "mine.toml", OWN);
    let ledger = machine.path("own.surtax");
    let workload = format!("{}:count=50", path.display());
    let mut arguments = vec!["compare", "--in", "native,runc", "--runs", "4", "--iterations", "2"];
    arguments.extend(["--format", "json", "-o", ledger.to_str().unwrap(), "--workload", &workload]);
    let answer = machine.json(&arguments);
    for stack in ["native", "runc"] {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 4, "{stack}: {}", arm["trouble"]);
        assert_eq!(metric(arm, "rate")["median"], 50.0);
        assert_eq!(metric(arm, "look")["median"], 1.5e6);
        assert_eq!(metric(arm, "latency_p50")["unit"], "ns");
        // Two iterations of 100 values in each of four trials.
        assert_eq!(arm["histograms"][0]["value_count"], 800);
        let facts =
            arm["evidence"].as_array().unwrap().last().unwrap()["facts"].as_array().unwrap();
        let version = facts.iter().find(|fact| fact["key"] == "workload_version").unwrap();
        assert_eq!(version["value"], "1.2");
    }
    // The same number everywhere costs nothing more anywhere.
    let runc = arm(&answer, "runc");
    assert_eq!(metric(runc, "rate")["judgement"]["verdict"]["is"], "equivalent");
    assert!(answer["cautions"].as_array().unwrap().iter().all(|it| it["code"] != "outputs-vary"));
    // The run knows its workload, whatever has become of the file.
    std::fs::remove_file(&path).unwrap();
    let kept = machine.surtax(&["show", ledger.to_str().unwrap(), "--fail-if", "rate > +3%"]);
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let refused = machine.surtax(&["show", ledger.to_str().unwrap(), "--fail-if", "rat > +3%"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("hint: use `rate`"), "{}", text(&refused.stderr));
    machine.assert_as_before();
}

#[test]
fn what_cannot_be_believed_makes_a_trial_invalid_with_the_reason() {
    let machine = Machine::take();
    for (name, change, parameters, reason) in [
        (
            "none.toml",
            ("took ([0-9.]+) ms", "took ([0-9.]+) us"),
            "",
            "no metric `look`: `took ([0-9.]+) us` matches nothing",
        ),
        (
            "much.toml",
            ("", ""),
            ":took=500",
            "`look` is said to be 500 ms, and at most 100 is plausible",
        ),
        (
            "idle.toml",
            ("", ""),
            ":count=0",
            "it did not do its work: that there were words takes at least 1, and it says 0",
        ),
        (
            "new.toml",
            ("words 1.2.3", "words 1.3.0"),
            "",
            "`sh` is of version 1.3, and its output is known of 1.2 only",
        ),
        (
            "long.toml",
            ("echo \\\"words", "seq 99999 && echo \\\"words"),
            "",
            ", and no more than 256 KiB are read",
        ),
    ] {
        let path = own(&machine, name, &OWN.replacen(change.0, change.1, 1));
        let workload = format!("{}{parameters}", path.display());
        let answer = machine.json_of_a_failure(&[
            "compare", "--in", "native", "--runs", "1", "--format", "json", "--workload", &workload,
        ]);
        let trial = &answer["arms"][0]["trials"][0];
        assert_eq!(trial["state"], "invalid", "{name}: {trial}");
        assert!(trial["why"].as_str().unwrap().contains(reason), "{name}: {}", trial["why"]);
    }
    machine.assert_as_before();
}

/// There is no such file where surtax looks before it starts anything.
#[test]
fn a_program_that_the_setup_makes_is_found_in_the_stack() {
    let machine = Machine::take();
    let tool = machine.path("tool");
    let bins = r#"echo '{"bins": [[1000, 30], [2000, 70]]}'"#;
    std::fs::write(&tool, format!("#!/bin/sh\necho words: $1\necho took $2 ms\n{bins}\n")).unwrap();
    let line = |line: &str| match line.split(' ').next() {
        Some("command") if line.contains("/tmp/made") => {
            String::from(r#"command = ["/tmp/made", "{count}", "{took}"]"#)
        }
        Some("setup") => {
            let made = format!("cp {} /tmp/made && chmod 755 /tmp/made", tool.display());
            format!(r#"setup = [["sh", "-c", "{made}"]]"#)
        }
        _ => line.to_owned(),
    };
    let text = OWN.lines().map(line).collect::<Vec<_>>().join("\n");
    let path = own(&machine, "made.toml", &text);
    let workload = path.to_str().unwrap();
    let compare = ["compare", "--in", "native", "--runs", "1", "--format", "json"];
    let answer = machine.json(&[&compare[..], &["--workload", workload]].concat());
    let arm = &answer["arms"][0];
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    machine.assert_as_before();
}

#[test]
fn a_tool_that_a_stack_has_not_is_told_with_its_package() {
    let machine = Machine::take();
    let path = own(
        &machine,
        "gone.toml",
        &OWN.replace("[\"sh\", \"-c\", \"echo words 1.2.3\"]", "[\"wordz\"]"),
    );
    let workload = path.to_str().unwrap();
    let answer = machine.json_of_a_failure(&[
        "compare", "--in", "native", "--runs", "1", "--format", "json", "--workload", workload,
    ]);
    let trouble = &answer["arms"][0]["trouble"];
    assert!(trouble["why"].as_str().unwrap().contains("cannot start `wordz`"), "{trouble}");
    assert_eq!(trouble["remedy"], "apt-get install words-of-ours");
    machine.assert_as_before();
}

/// Place where a ready workload is tried, by its need.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Nothing,
    Scratch,
    Network,
    /// Limits that hold it, and the medium.
    Limits,
    /// A limit on processes. What a refused one had of the kernel is freed some time later, and on
    /// a busy machine that has come to more than 256 MiB.
    Processes,
    /// Minutes, and a package of 130 MB: a test of its own, which is asked for by name.
    Minutes,
}

use Need::{Limits, Minutes, Network, Nothing, Processes, Scratch};

/// Every workload that comes with surtax, as short as it can be.
const READY: &[(&str, Need)] = &[
    ("adversary.allocbomb:time=5000", Limits),
    ("adversary.forkbomb:time=200", Processes),
    ("adversary.load:time=300,memory=4M", Nothing),
    ("adversary.logflood:time=100", Nothing),
    ("adversary.synflood:time=100", Network),
    ("adversary.thrash:time=100,bytes=4M", Limits),
    ("build.gcc:files=1", Nothing),
    ("build.kernel:config=tinyconfig,target=init/main.o,file=init/main.o", Minutes),
    ("compress.xz:numbers=20000", Nothing),
    ("cpu.7zip:seconds=1", Nothing),
    ("cpu.pi:digits=100", Nothing),
    ("cpu.sysbench:events=50,prime=20000", Nothing),
    ("crypto.openssl:seconds=1", Nothing),
    ("database.redis:requests=1000", Network),
    ("database.sqlite:transactions=5", Scratch),
    ("disk.bonnie:size=16,memory=8,files=1", Scratch),
    ("disk.ioping:requests=200,size=1M", Scratch),
    ("disk.randread:size=4M,time=100ms", Scratch),
    ("disk.randrw:size=4M,time=100ms", Scratch),
    ("disk.randwrite:size=4M,time=100ms", Scratch),
    ("disk.read:size=4M,time=100ms", Scratch),
    ("disk.requests:seconds=1,file_bytes=1048576", Scratch),
    ("disk.write:size=4M,time=100ms", Scratch),
    ("intensity.cpu:seconds=1,intensity=1", Nothing),
    ("intensity.memory:seconds=1,intensity=9", Nothing),
    ("intensity.threads:seconds=1,intensity=3", Nothing),
    ("kv.memcached_etc:time=50,keys=500,protocol=memcached-binary", Network),
    ("kv.memcached_rate:time=100,keys=500,gaps=etc", Network),
    ("kv.memcached_search:time=40,keys=500,limit=1000000,quantile=p50", Network),
    ("kv.redis:time=50,keys=500,ratio=1:1,value_size=100", Network),
    ("kv.redis_rate:time=100,keys=500", Network),
    ("memory.memtester:size=1M", Nothing),
    ("memory.stream:array_bytes=1048576,passes=5", Nothing),
    ("memory.sysbench:total=1G", Nothing),
    ("mutex.sysbench:locks=2000", Nothing),
    ("net.iperf3:seconds=1", Nothing),
    ("net.ping:count=5", Network),
    ("net.tcp_crr:time=50", Network),
    ("net.tcp_echo:time=50", Network),
    ("net.tcp_maerts:time=50", Network),
    ("net.tcp_rr:time=50", Network),
    ("net.tcp_rr_rate:time=100,rate=500", Network),
    ("net.tcp_stream:time=50", Network),
    ("net.udp_rr:time=50", Network),
    ("net.udp_stream:time=50", Network),
    ("noise:seconds=1,threshold_us=1", Nothing),
    ("prices:each=2,array_bytes=1048576", Nothing),
    ("stress:seconds=1", Nothing),
    ("threads.sysbench:events=50", Nothing),
    ("timer:seconds=1", Nothing),
    ("web.nginx:seconds=1", Network),
];

/// Runs a ready workload once in each of these stacks, and looks for every number that it promises.
fn runs_in(machine: &Machine, stacks: &str, workload: &str) {
    let definition = surtax::workload::Workload::find(workload).unwrap().resolve().unwrap();
    let mut arguments = vec!["compare", "--in", stacks, "--runs", "1", "--format", "json"];
    arguments.extend(["--workload", workload]);
    let answer = machine.json(&arguments);
    for arm in answer["arms"].as_array().unwrap() {
        let said = format!("{workload}, {}: {}", arm["stack"], arm["trouble"]);
        assert_eq!(arm["trial_count"], 1, "{said}");
        let absences = arm["absences"].as_array().unwrap();
        for rule in &definition.metrics {
            let is = |it: &&Value| it["metric"] == rule.name;
            if rule.is_optional && absences.iter().any(|it| is(&it)) {
                continue;
            }
            let value = metric(arm, &rule.name)["median"].as_f64().unwrap();
            let least = rule.limits.min.unwrap_or(0.0);
            assert!(value > 0.0 || least <= 0.0, "{said}: {} is {value}", rule.name);
        }
        let histograms = arm["histograms"].as_array().unwrap();
        assert_eq!(histograms.len(), definition.histograms.len(), "{said}");
    }
}

#[test]
fn every_ready_workload_runs_in_native_and_runc() {
    let machine = Machine::take();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let mut files: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    files.sort();
    let tried: Vec<&str> = READY.iter().map(|it| it.0.split(':').next().unwrap()).collect();
    assert_eq!(tried, files, "this test runs each");
    let listed: Value = machine.json(&["workload", "list", "--format", "json"]);
    let listed: Vec<&str> =
        listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(tried, listed, "each is a part of the binary");
    if !is_usable(&machine, "runc") {
        return;
    }
    for (workload, need) in READY {
        let stacks = match need {
            Nothing => "native,runc",
            Scratch => "native:scratch=bind,runc:scratch=bind",
            Network => "native,runc:net=veth",
            Limits => concat!(
                "native:scratch=bind,pids=60,memory=256M,",
                "runc:scratch=bind,pids=60,memory=256M"
            ),
            Processes => "native:pids=60,memory=2G,runc:pids=60,memory=2G",
            Minutes => continue,
        };
        runs_in(&machine, stacks, workload);
    }
    machine.assert_as_before();
}

#[test]
#[ignore = "takes minutes, and the package linux-source-6.1"]
fn a_kernel_is_built_in_native_and_runc() {
    let machine = Machine::take();
    for (workload, _) in READY.iter().filter(|(_, need)| *need == Minutes) {
        runs_in(&machine, "native:scratch=bind,runc:scratch=bind", workload);
    }
    machine.assert_as_before();
}

#[test]
fn the_quick_ones_run_in_a_virtual_machine() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let workloads = [
        ("native,qemu:accel=tcg", "cpu.pi:digits=50"),
        ("native,qemu:accel=tcg", "cpu.sysbench:events=5,prime=20000"),
        (
            "native:scratch=bind,qemu:accel=tcg,scratch=virtio-blk",
            "disk.randwrite:size=1M,time=200ms",
        ),
    ];
    for (stacks, workload) in cases(&workloads, 2) {
        runs_in(&machine, stacks, workload);
    }
    machine.assert_as_before();
}
