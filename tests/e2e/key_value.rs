//! Key-value workloads where something is wrong: a rate too high, a server that fails, and one of
//! somebody else's.

use crate::answers::{arm, median};
use crate::machine::{Machine, text};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;
use surtax::workload::Workload;

fn compare<'a>(stacks: &'a str, workload: &'a str) -> [&'a str; 9] {
    ["compare", "--in", stacks, "--workload", workload, "--runs", "1", "--format", "json"]
}

#[test]
fn a_rate_that_memcached_cannot_reach_is_a_shortfall() {
    let machine = Machine::alone();
    let workload = "kv.memcached_rate:time=100,keys=100,rate=10000000";
    let answer = machine.json(&compare("native", workload));
    let native = arm(&answer, "native");
    assert!(median(native, "shortfall") > 0.3, "{native}");
    assert!(median(native, "rate") < 7e6, "{native}");
    machine.assert_as_before();
}

/// A ready workload with another text in the place of a part of it.
fn changed(machine: &Machine, name: &str, from: &str, to: &str) -> String {
    let text = Workload::find(name).unwrap().text;
    assert!(text.contains(from), "{name}: {from}");
    let path = machine.path("changed.toml");
    fs::write(&path, text.replace(from, to)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_goes_wrong_with_a_server_is_told_and_nothing_of_it_is_left() {
    let machine = Machine::alone();
    for (name, from, to, parameters, expected) in [
        // Not there at all, and where it is to be had.
        (
            "kv.memcached_etc", "\"memcached\", \"-", "\"memcachet\", \"-", "",
            "cannot start `memcachet`",
        ),
        (
            "kv.redis", "\"redis-server\", \"--version\"", "\"redis-servr\", \"-v\"", "",
            "apt-get install redis-server",
        ),
        // Too small for the keys: they are missed, and no number of that counts.
        (
            "kv.memcached_etc",
            "min = 8",
            "min = 8",
            ":memory=8,keys=20000,value_size=1000,time=50",
            "no key was missing",
        ),
        // It does not take what it is asked.
        (
            "kv.redis", "\"--maxmemory\", \"{memory}mb\"", "\"--maxmemory\", \"1mb\"",
            ":keys=5000,value_size=1000,time=50", "the server does not store",
        ),
        // It never listens.
        (
            "kv.redis",
            "\"--patience\", \"20s\"",
            "\"--patience\", \"300ms\", \"--connect-not\"",
            "",
            "`kv` takes no `--connect-not`",
        ),
        (
            "kv.memcached_etc",
            "\"-p\", \"{port}\"",
            "\"-p\", \"21298\"",
            ":time=50",
            "no key-value server listens at 127.0.0.1:21211",
        ),
    ] {
        let path = changed(&machine, name, from, to);
        if expected.starts_with("no key-value") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("\"20s\"", "\"300ms\"")).unwrap();
        }
        let output = machine.surtax(&compare("native", &format!("{path}{parameters}")));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(expected), "{name}, {expected}: {said}");
        machine.assert_as_before();
    }
}

#[test]
fn a_server_of_somebody_elses_is_neither_filled_nor_ended() {
    let machine = Machine::alone();
    let line = "-u root -A -U 0 -l 127.0.0.1 -p 21297 -m 8";
    let mut theirs = Command::new("memcached").args(line.split(' ')).spawn().unwrap();
    let mut ask = {
        let reached = || TcpStream::connect("127.0.0.1:21297").ok();
        let mut tries = (0..500).map(|_| {
            thread::sleep(Duration::from_millis(10));
            reached()
        });
        let mut stream = tries.find_map(|it| it).expect("it listens");
        move |line: &str, length: usize| {
            stream.write_all(line.as_bytes()).unwrap();
            let mut said = vec![0; length];
            stream.read_exact(&mut said).unwrap();
            String::from_utf8(said).unwrap()
        }
    };
    assert_eq!(ask("set a 0 0 1\r\nx\r\n", 8), "STORED\r\n");
    let output = machine.surtax(&compare("native", "kv.memcached_etc:time=50,port=21297"));
    let kept = "VALUE a 0 1\r\nx\r\nEND\r\n";
    let found = ask("get a\r\n", kept.len());
    // Before anything is required: it would go on after a test that failed.
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    assert_eq!(found, kept);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("port 21297 is taken here, by `memcached`"), "{said}");
    machine.assert_as_before();
}
