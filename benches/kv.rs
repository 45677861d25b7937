//! The key-value engine against mutilate and memtier_benchmark, alternating in one run.
//!
//! - **Measures** the time of a request to memcached with Facebook's sizes, in closed loops over 1, 16 and 64 connections and
//!   with four requests on their way on each of 16; and, while the server stands still for 200 ms of 4 s at 5,000
//!   requests per second, how far the 99th percentile lies from the truth. Client and server have a CPU each.
//! - **Peer** mutilate and memtier_benchmark, as whoever runs this has built them from their public source: `SURTAX_MUTILATE` and
//!   `SURTAX_MEMTIER` name them. mutilate spins as it is delivered and sleeps with `-B`, so either is compared with our own
//!   `--poll on` and `off`. A peer that is not there is said.
//! - **Bar** at most 1/1.2, 1/1.25, 1/1.35 and 1 times the peer's time; a p99 within 5 % of the truth, and a rate that is sent
//!   within 0.5 % of the one that is asked for.
//! - **Command** `SURTAX_MUTILATE=… SURTAX_MEMTIER=… cargo bench --bench kv -- --enforce`, as root, on a quiet machine.

mod figure;
mod pairs;
mod ratio;

use figure::{Figure, Sheet};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::{self, Lab, Process, Program, Room};
use surtax_instrument::clock;

/// Pairs that count.
const PAIRS: u32 = 10;

/// How long one measurement takes, in seconds.
const SECONDS: u32 = 1;

/// How long a program may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How many requests the times are of.
const THOUSAND: f64 = 1e3;

/// Where the server listens, in a namespace of its own.
const ADDRESS: &str = "127.0.0.1:21211";

/// The CPU of each side.
const SERVER_CPU: &str = "1";
const CLIENT_CPU: &str = "0";

/// How many keys there are.
const KEYS: u32 = 10_000;

/// Connections, requests on their way on each, and how many times as quick as its peer the engine must be.
const CASES: [(u32, u32, f64); 4] = [(1, 1, 1.2), (16, 1, 1.25), (64, 1, 1.35), (16, 4, 1.0)];

/// The open loop: requests per second, seconds, and when and how long the server stands still, in milliseconds.
const RATE: f64 = 5000.0;
const OPEN_SECONDS: u32 = 4;
const STOP_AT: Duration = Duration::from_millis(1500);
const STOP: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");
    let room = lab.room("kv").expect("a room opens");
    let inner = room.bare_network().expect("a namespace is made");
    let network = inner.namespace().expect("a descriptor is copied");
    let bench = Bench { room: &room, agent: &agent, network };
    let line = "memcached -u root -U 0 -l 127.0.0.1 -p 21211 -t 1 -m 256";
    let (_said, mut server) = bench.start(line, SERVER_CPU);
    bench.load();
    for (connections, depth, times) in CASES {
        bench.compare(&mut sheet, connections, depth, times);
    }
    bench.stopped(&mut sheet, &mut server);
    server.kill().expect("memcached is ended");
    server.wait(DEADLINE).expect("it can be waited for");
    room.close().expect("the room closes");
    lab.close().expect("the lab closes");
    sheet.close()
}

/// A server of its own in a namespace, and who calls it there.
struct Bench<'a> {
    room: &'a Room,
    agent: &'a Path,
    network: OwnedFd,
}

impl Bench<'_> {
    /// Starts a program on a CPU.
    fn start(&self, line: &str, cpu: &str) -> (OwnedFd, Process) {
        let (read, write) = lab::pipe().expect("a pipe is made");
        let argv = format!("taskset -c {cpu} {line}");
        let program = Program {
            argv: argv.split_whitespace().map(String::from).collect(),
            network_namespace: Some(self.network.try_clone().expect("a descriptor is copied")),
            stdio: [None, Some(write), None],
            ..Program::default()
        };
        (read, self.room.spawn(program).expect("a program starts"))
    }

    /// What a client printed, when it has ended well.
    fn said(&self, line: &str) -> String {
        ended(self.start(line, CLIENT_CPU))
    }

    fn ours(&self, options: &str) -> String {
        let agent = self.agent.display();
        format!("{agent} engine kv --connect {ADDRESS} --keys {KEYS} --worst 0 {options}")
    }

    /// Stores the keys of each client: no two of them have the same ones.
    fn load(&self) {
        self.said(&self.ours("--time 100ms"));
        if let Some(mutilate) = peer("SURTAX_MUTILATE") {
            self.said(&format!("{} --loadonly", mutilate_line(&mutilate)));
        }
        if let Some(memtier) = peer("SURTAX_MEMTIER") {
            let all = "-c 1 --ratio 1:0 --key-pattern=P:P -n allkeys";
            self.said(&format!("{} {all}", memtier_line(&memtier)));
        }
    }

    fn compare(&self, sheet: &mut Sheet, connections: u32, depth: u32, times: f64) {
        let ours = |poll: &'static str| {
            let line = self.ours(&format!(
                "--no-load --time {SECONDS}s --connections {connections} --depth {depth} --poll {poll}"
            ));
            move || {
                let answer: Value = serde_json::from_str(&self.said(&line)).expect("it is JSON");
                assert_eq!((&answer["wrong_count"], &answer["miss_count"]), (&0.into(), &0.into()));
                time_of(answer["transactions_per_s"].as_f64().expect("it says a rate"))
            }
        };
        let name = |peer: &str, how: &str| {
            format!("kv: {connections} connections, depth {depth}, {how}, time over {peer}'s")
        };
        let bar = || Some(0.0..=1.0 / times);
        match peer("SURTAX_MUTILATE") {
            Some(mutilate) => {
                for (how, poll, flag) in [("polling", "on", ""), ("blocking", "off", "-B")] {
                    let line = format!(
                        "{} --noload -u 0.0323 -t {SECONDS} -c {connections} -d {depth} {flag}",
                        mutilate_line(&mutilate)
                    );
                    let theirs = || time_of(after(&self.said(&line), "Total QPS ="));
                    pairs::compare(sheet, &name("mutilate", how), bar(), PAIRS, ours(poll), theirs);
                }
            }
            None => println!("{}: not compared, there is none", name("mutilate", "blocking")),
        }
        match peer("SURTAX_MEMTIER") {
            Some(memtier) => {
                let line = format!(
                    "{} --ratio 1:30 --test-time {SECONDS} -c {connections} --pipeline {depth}",
                    memtier_line(&memtier)
                );
                let theirs = || time_of(after(&self.said(&line), "Totals"));
                let name = name("memtier_benchmark", "blocking");
                pairs::compare(sheet, &name, bar(), PAIRS, ours("off"), theirs);
            }
            None => {
                println!("{}: not compared, there is none", name("memtier_benchmark", "blocking"))
            }
        }
    }

    /// Runs a client while the server stands still for a while; what it printed, and what p99 is then in seconds.
    fn during_a_stop(&self, server: &mut Process, line: &str) -> (String, f64) {
        let client = self.start(line, CLIENT_CPU);
        std::thread::sleep(STOP_AT);
        server.signal(Signal::STOP).expect("the server is stopped");
        let began = clock::monotonic_raw();
        std::thread::sleep(STOP);
        server.signal(Signal::CONT).expect("the server goes on");
        let stood = clock::monotonic_raw().since(began).seconds();
        // A hundredth of all was due in the first part of the stop, and waited for longer.
        (ended(client), stood - f64::from(OPEN_SECONDS) / 100.0)
    }

    fn stopped(&self, sheet: &mut Sheet, server: &mut Process) {
        let line = self.ours(&format!(
            "--no-load --time {OPEN_SECONDS}s --connections 16 --rate {RATE} --gaps even"
        ));
        let (said, truth) = self.during_a_stop(server, &line);
        let answer: Value = serde_json::from_str(&said).expect("it is JSON");
        let number = |key: &str| answer[key].as_f64().expect("it says so");
        let mut put = |name: &str, value: f64, bar| {
            sheet.put(&Figure { name, value, interval: None, unit: "", bar, count: 1 });
        };
        let p99 = number("latency_p99_ns") / 1e9;
        put(
            "kv: p99 with a server that stands still, over the truth",
            p99 / truth,
            Some(0.95..=1.05),
        );
        let sent = number("rate_sent_per_s") / RATE;
        put("kv: rate sent, over the one asked for", sent, Some(0.995..=1.005));
        if let Some(mutilate) = peer("SURTAX_MUTILATE") {
            let line = format!(
                "{} --noload -u 0.0323 -t {OPEN_SECONDS} -c 16 -q {RATE}",
                mutilate_line(&mutilate)
            );
            let (said, truth) = self.during_a_stop(server, &line);
            // Of the line of reads the last column, in microseconds.
            let reads = said.lines().find(|line| line.starts_with("read"));
            let p99 =
                reads.and_then(|line| line.split_whitespace().next_back()?.parse::<f64>().ok());
            let p99 = p99.expect("it says a p99") / 1e6;
            put("kv: the same p99 by mutilate, over the truth", p99 / truth, None);
        }
        if let Some(memtier) = peer("SURTAX_MEMTIER") {
            let line = format!(
                "{} --ratio 1:30 --test-time {OPEN_SECONDS} -c 16 --rate-limiting 312",
                memtier_line(&memtier)
            );
            let (said, truth) = self.during_a_stop(server, &line);
            let totals = said.lines().find(|line| line.starts_with("Totals"));
            // Rate, hits, misses, mean, p50, p99 and p99.9, in milliseconds.
            let p99 = totals.and_then(|line| line.split_whitespace().nth(6)?.parse::<f64>().ok());
            let p99 = p99.expect("it says a p99") / 1e3;
            put("kv: the same p99 by memtier_benchmark, over the truth", p99 / truth, None);
        }
    }
}

fn peer(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn mutilate_line(program: &Path) -> String {
    format!("{} -s {ADDRESS} -K fb_key -V fb_value -r {KEYS}", program.display())
}

/// It has no distribution of Facebook's: the lengths are the means of ours.
fn memtier_line(program: &Path) -> String {
    let prefix = "k".repeat(32);
    format!(
        "{} -s 127.0.0.1 -p 21211 -P memcache_text -t 1 --key-prefix={prefix} --key-maximum {KEYS} -d 194 --hide-histogram",
        program.display()
    )
}

/// The time of a thousand requests.
fn time_of(rate: f64) -> Duration {
    Duration::from_secs_f64(THOUSAND / rate)
}

/// The first number after a word in what a program printed.
fn after(said: &str, word: &str) -> f64 {
    let rest = said.split_once(word).map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number after `{word}`: {said}"))
}

fn ended((text, mut process): (OwnedFd, Process)) -> String {
    let mut said = String::new();
    File::from(text).read_to_string(&mut said).expect("it prints text");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {said}");
    said
}
