//! The workloads that come with surtax, held to what their tools really printed.
//!
//! `tests/workloads/NAME-VERSION.txt` is the output of a trial, `readings.txt` what is read from
//! it: a person has compared the two. Any change of a unit or of a column must be refused, or seen.

use super::*;
use crate::workload::{Definition, Workload, WorkloadReading};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Units and headings as tools print them, and what another version might print in their place.
const UNITS_MISTAKEN: [(&str, &str); 14] = [
    ("Latency (ms)", "Latency (us)"),
    ("events per second", "events per minute"),
    ("MiB/sec", "MB/sec"),
    ("1000s of bytes", "1024s of bytes"),
    ("bytes per second", "bits per second"),
    ("bogo ops/s", "bogo ops/m"),
    ("(real time) (usr+sys time)", "(usr+sys time) (real time)"),
    ("95th percentile", "99th percentile"),
    ("per second)", "per minute)"),
    ("\"rps\"", "\"rpm\""),
    ("_latency_ms", "_latency_us"),
    ("% packet loss", " packets lost"),
    ("min/avg/max", "max/avg/min"),
    ("KiB/s ", "MiB/s "),
];

/// Metrics whose unit no output says.
const WITHOUT_A_UNIT: [(&str, &str); 1] = [("compress.xz", "packed")];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads")
}

fn ready(name: &str) -> Definition {
    Workload::find(name).unwrap().resolve().unwrap()
}

/// Every recorded output: workload, version, text.
fn recorded() -> Vec<(&'static str, String, String)> {
    let mut found = Vec::new();
    for (name, _) in READY {
        let Some(version) = ready(name).version else { continue };
        for known in version.known {
            let path = folder().join(format!("{name}-{known}.txt"));
            let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
            found.push((*name, known, text));
        }
    }
    found
}

fn read(name: &str, text: &str) -> Result<WorkloadReading, String> {
    ready(name).read(text)
}

fn is_json(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(['{', '[']))
}

#[test]
fn every_ready_workload_says_all_that_makes_its_numbers_believable() {
    for (name, text) in READY {
        let definition = Definition::parse(text, name).unwrap();
        assert!(text.starts_with("#:schema ./workload.schema.json\n# "), "{name}");
        if definition.is_built_in() {
            continue;
        }
        let known = definition.version.map(|version| version.known).unwrap_or_default();
        assert!(known.len() >= 2, "{name}: outputs of two versions, and not of {known:?}");
        assert!(
            definition.packages.iter().any(|(distribution, _)| distribution == "debian"),
            "{name}"
        );
        let is_checked = !definition.checks.is_empty()
            || definition.metrics.iter().any(|it| it.limits.min.is_some());
        assert!(is_checked, "{name}");
        for rule in definition.metrics.iter().chain(&definition.histograms) {
            assert!(
                rule.limits.min.is_some() && rule.limits.max.is_some(),
                "{name}: {}",
                rule.name
            );
        }
    }
}

#[test]
fn every_recorded_output_is_of_a_workload_and_reads_as_somebody_has_looked_at() {
    let mut readings = String::new();
    let mut names = BTreeSet::from([String::from("readings.txt")]);
    for (name, version, text) in recorded() {
        let reading = read(name, &text).unwrap_or_else(|why| panic!("{name}: {why}"));
        // Writing into a string cannot fail.
        let _ = writeln!(readings, "{name} {version}");
        for metric in &reading.metrics {
            let (metric_name, better) = (&metric.name, metric.better.word());
            let _ = writeln!(readings, "  {metric_name} {} {} {better}", metric.value, metric.unit);
        }
        for found in &reading.histograms {
            let _ = writeln!(readings, "  {} of {} times", found.name, found.histogram.count());
        }
        names.insert(format!("{name}-{version}.txt"));
    }
    let files = fs::read_dir(folder()).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<String>>(), names);
    let path = folder().join("readings.txt");
    if std::env::var_os("SURTAX_BLESS").is_some() {
        fs::write(&path, &readings).unwrap();
    }
    let golden = fs::read_to_string(path).unwrap();
    assert_eq!(golden, readings, "compare with the outputs, then run again with SURTAX_BLESS=1");
}

#[test]
fn another_unit_in_an_output_is_refused_for_every_metric() {
    for (name, _, text) in recorded().into_iter().filter(|(_, _, text)| !is_json(text)) {
        for rule in &ready(name).metrics {
            if WITHOUT_A_UNIT.contains(&(name, rule.name.as_str())) {
                continue;
            }
            let mut definition = ready(name);
            definition.metrics.retain(|it| it.name == rule.name);
            let alone = |text: &str| definition.read(text).is_ok();
            assert!(alone(&text), "{name}: {}", rule.name);
            let is_refused =
                |(from, to): &(&str, &str)| text.contains(from) && !alone(&text.replace(from, to));
            assert!(UNITS_MISTAKEN.iter().any(is_refused), "{name}: {}", rule.name);
        }
    }
}

#[test]
fn another_key_in_json_is_refused_or_belongs_to_nothing_that_is_read() {
    for (name, _, text) in recorded().into_iter().filter(|(_, _, text)| is_json(text)) {
        let definition = ready(name);
        let reading = definition.read(&text).unwrap();
        let printed: Value = serde_json::from_str(&text).unwrap();
        let mut keys = BTreeSet::new();
        keys_of(&printed, &mut keys);
        let mut refused = BTreeSet::new();
        for key in keys {
            let mistaken = text.replace(&format!("\"{key}\""), &format!("\"{key}_us\""));
            match definition.read(&mistaken) {
                Ok(same) => assert_eq!(same, reading, "{name}: {key}"),
                Err(_) => drop(refused.insert(key)),
            }
        }
        let rules = definition.metrics.iter().chain(&definition.histograms);
        for rule in rules {
            let path = rule.extract.to_string();
            assert!(refused.iter().any(|key| path.contains(key.as_str())), "{name}: {path}");
        }
    }
}

/// Keys that are no numbers: those of bins are values.
fn keys_of(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| keys_of(item, keys)),
        Value::Object(object) => {
            for (key, value) in object {
                keys_of(value, keys);
                if key.parse::<f64>().is_err() {
                    keys.insert(key.clone());
                }
            }
        }
        _ => {}
    }
}

#[test]
fn two_columns_that_change_places_are_refused_or_seen() {
    let number = Regex::new(r"[0-9]+(\.[0-9]+)?").unwrap();
    for (name, _, text) in recorded().into_iter().filter(|(_, _, text)| !is_json(text)) {
        let definition = ready(name);
        let reading = definition.read(&text).unwrap();
        let mut seen = BTreeSet::new();
        let places: Vec<(usize, usize)> =
            number.find_iter(&text).map(|found| (found.start(), found.end())).collect();
        for pair in places.windows(2) {
            let [(a, b), (c, d)] = [pair[0], pair[1]];
            let swapped = [&text[..a], &text[c..d], &text[b..c], &text[a..b], &text[d..]].concat();
            match definition.read(&swapped) {
                Ok(same) if same == reading => {}
                Ok(other) => {
                    let changed = other.metrics.iter().filter(|it| !reading.metrics.contains(it));
                    seen.extend(changed.map(|metric| metric.name.clone()));
                }
                Err(why) => {
                    let rules = definition.metrics.iter().map(|rule| rule.name.clone());
                    seen.extend(rules.filter(|rule| why.contains(&format!("`{rule}`"))));
                }
            }
        }
        let names: BTreeSet<String> =
            reading.metrics.into_iter().map(|metric| metric.name).collect();
        assert_eq!(seen, names, "{name}");
    }
}

#[test]
fn a_network_that_carries_no_echo_is_named_so() {
    let printed = "PING 10.9.9.2 (10.9.9.2) 56(84) bytes of data.\n\n--- 10.9.9.2 ping statistics \
                   ---\n2 packets transmitted, 0 received, 100% packet loss, time 10ms\n\n";
    assert_eq!(
        read("net.ping", printed).unwrap_err(),
        "it did not do its work: that this network carries ICMP echoes and some came back takes at \
         least 1, and it says 0"
    );
}

#[test]
fn a_workload_that_there_is_not_is_answered_with_the_nearest() {
    let fault = Workload::find("disk.randwriet").unwrap_err();
    assert_eq!(fault.message, "there is no workload `disk.randwriet`");
    assert!(fault.hint.unwrap().starts_with("use `disk.randwrite`; the workloads are "));
    let fault = Workload::find("nginx").unwrap_err();
    assert!(fault.hint.unwrap().starts_with("use `web.nginx`; the workloads are "));
    let fault = Workload::find("./nowhere/x.toml").unwrap_err();
    assert!(fault.message.starts_with("cannot read the workload `./nowhere/x.toml`: "), "{fault}");
    let fault = Workload::find("disk.randwrite.toml").unwrap_err();
    assert!(
        fault.hint.unwrap().starts_with("there is a workload `disk.randwrite`: name it without")
    );
}

#[test]
fn a_file_of_the_users_own_is_listed_under_its_name() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine.toml"), "").unwrap();
    fs::write(place.path().join("mine.txt"), "").unwrap();
    let path = Some(place.path().join("mine.toml"));
    assert_eq!(own(place.path()).unwrap(), [Listed { name: String::from("mine"), path }]);
    assert_eq!(own(&place.path().join("nowhere")).unwrap(), []);
}

#[test]
fn a_workload_file_that_is_a_pipe_has_no_end_or_is_too_long_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    fs::write(path("long"), vec![b'#'; 1 + (64 << 10)]).unwrap();
    for (name, says) in [
        ("pipe", "it is a pipe, and no regular file"),
        ("zero", "it is a device, and no regular file"),
        ("long", "it is longer than 65536 bytes"),
    ] {
        let fault = super::read(&path(name)).unwrap_err();
        assert!(fault.message.ends_with(says), "{fault}");
        assert_eq!(fault.exit_code(), 2);
    }
}
