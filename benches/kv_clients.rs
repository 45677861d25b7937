//! The clients of a key-value server: ours, mutilate and memtier_benchmark, each with a memcached
//! of its own.
//!
//! The peers are as whoever runs this has built them from their public source; nothing of them is
//! ours.

use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::lab::{self, Process, Program, Room};
use surtax_instrument::clock;

/// Duration of one measurement, in seconds.
const SECONDS: u32 = 1;

/// Time limit of a program.
const DEADLINE: Duration = Duration::from_secs(30);

/// The CPU of each side.
const SERVER_CPU: &str = "1";
const CLIENT_CPU: &str = "0";

/// Number of keys.
const KEYS: u32 = 10_000;

/// memtier_benchmark's totals are garbled now and then, and then far beyond what any server does.
const IMPOSSIBLE_RATE: f64 = 5e6;
const TRIES: u32 = 5;

/// The open loop: requests per second, seconds, and when and how long the server stands still.
const RATE: f64 = 5000.0;
const OPEN_SECONDS: u32 = 4;
const STOP_AT: Duration = Duration::from_millis(1500);
const STOP: Duration = Duration::from_millis(200);

/// Client that asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Ours,
    Mutilate,
    Memtier,
}

impl Client {
    pub const ALL: [Self; 3] = [Self::Ours, Self::Mutilate, Self::Memtier];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Mutilate => "mutilate",
            Self::Memtier => "memtier_benchmark",
        }
    }

    /// Port at which the client's server listens, in a namespace of their own.
    fn port(self) -> u16 {
        21211 + self as u16
    }
}

/// Result of an open loop whose server stood still for a while.
pub struct Stopped {
    /// 99th percentile as the client says it, and as it truly was, in seconds.
    pub p99_s: f64,
    pub truth_s: f64,
    /// The rate that was sent, over the one that was asked for, where the client says so.
    pub sent_ratio: Option<f64>,
}

/// Servers in a namespace, and who calls them there.
pub struct Bench<'a> {
    room: &'a Room,
    network: OwnedFd,
    programs: [Option<PathBuf>; 3],
    servers: Vec<(OwnedFd, Process)>,
}

impl<'a> Bench<'a> {
    /// Starts a server for each client, and stores its keys there.
    pub fn open(room: &'a Room, agent: &Path) -> Self {
        let inner = room.bare_network().expect("a namespace is made");
        let network = inner.namespace().expect("a descriptor is copied");
        let said = |variable| std::env::var_os(variable).map(PathBuf::from);
        let programs = [Some(agent.to_path_buf()), said("SURTAX_MUTILATE"), said("SURTAX_MEMTIER")];
        let mut bench = Self { room, network, programs, servers: Vec::new() };
        for client in Client::ALL {
            let port = client.port();
            let line = format!("memcached -u root -U 0 -l 127.0.0.1 -p {port} -t 1 -m 256");
            let server = bench.start(&line, SERVER_CPU);
            bench.servers.push(server);
        }
        bench.said(&bench.line(Client::Ours, "--time 100ms"));
        if bench.has(Client::Mutilate) {
            bench.said(&bench.line(Client::Mutilate, "--loadonly"));
        }
        if bench.has(Client::Memtier) {
            let all = "-c 1 --ratio 1:0 --key-pattern=P:P -n allkeys";
            bench.said(&bench.line(Client::Memtier, all));
        }
        bench
    }

    /// Ends the servers.
    pub fn close(self) {
        for (_said, mut server) in self.servers {
            server.kill().expect("memcached is ended");
            server.wait(DEADLINE).expect("it can be waited for");
        }
    }

    /// Tells whether somebody says where a client is.
    pub fn has(&self, client: Client) -> bool {
        self.programs[client as usize].is_some()
    }

    /// Requests per second in a closed loop.
    pub fn rate(&self, client: Client, connections: u32, depth: u32, is_polling: bool) -> f64 {
        let poll = if is_polling { "on" } else { "off" };
        let blocking = if is_polling { "" } else { "-B" };
        let options = match client {
            Client::Ours => format!(
                "--no-load --time {SECONDS}s --connections {connections} --depth {depth} --poll \
                 {poll}"
            ),
            Client::Mutilate => {
                format!("--noload -u 0.0323 -t {SECONDS} -c {connections} -d {depth} {blocking}")
            }
            Client::Memtier => {
                format!("--ratio 1:30 --test-time {SECONDS} -c {connections} --pipeline {depth}")
            }
        };
        let line = self.line(client, &options);
        for _ in 0..TRIES {
            let said = self.said(&line);
            let rate = match client {
                Client::Ours => of_ours(&said, "transactions_per_s"),
                Client::Mutilate => after(&said, "Total QPS ="),
                Client::Memtier => after(&said, "Totals"),
            };
            if rate < IMPOSSIBLE_RATE {
                return rate;
            }
            println!("  {} says {rate:.0} per second: measured again", client.name());
        }
        panic!("{} says no rate that can be", client.name());
    }

    /// Runs a client at a rate while its server stands still for a while.
    pub fn during_a_stop(&mut self, client: Client) -> Stopped {
        let options = match client {
            Client::Ours => format!(
                "--no-load --time {OPEN_SECONDS}s --connections 16 --rate {RATE} --gaps even"
            ),
            // Without a parameter of its gaps it dereferences a null pointer; the rate is what
            // counts.
            Client::Mutilate => {
                format!("--noload -u 0.0323 -t {OPEN_SECONDS} -c 16 -q {RATE} -i exponential:1")
            }
            // Its rate is that of a connection: 4,992 in all.
            Client::Memtier => {
                format!("--ratio 1:30 --test-time {OPEN_SECONDS} -c 16 --rate-limiting 312")
            }
        };
        let running = self.start(&self.line(client, &options), CLIENT_CPU);
        std::thread::sleep(STOP_AT);
        let (_, server) = &mut self.servers[client as usize];
        server.signal(Signal::STOP).expect("the server is stopped");
        let began = clock::monotonic_raw();
        std::thread::sleep(STOP);
        server.signal(Signal::CONT).expect("the server goes on");
        let stood_s = clock::monotonic_raw().since(began).seconds();
        let said = ended(running);
        let (p99_s, sent) = match client {
            Client::Ours => {
                let sent = of_ours(&said, "rate_sent_per_s");
                (of_ours(&said, "latency_p99_ns") / 1e9, Some(sent))
            }
            // Of the line of reads the last column, in microseconds.
            Client::Mutilate => (column(&said, "read", None) / 1e6, None),
            // Rate, hits, misses, mean, p50, p99 and p99.9, in milliseconds.
            Client::Memtier => (column(&said, "Totals", Some(6)) / 1e3, None),
        };
        // A hundredth of all was due in the first part of the stop, and waited for longer than
        // this.
        let truth_s = stood_s - f64::from(OPEN_SECONDS) / 100.0;
        Stopped { p99_s, truth_s, sent_ratio: sent.map(|sent| sent / RATE) }
    }

    /// A client's command line.
    fn line(&self, client: Client, options: &str) -> String {
        let program = self.programs[client as usize].as_ref().expect("it was asked for before");
        let (program, port) = (program.display(), client.port());
        match client {
            Client::Ours => format!(
                "{program} engine kv --connect 127.0.0.1:{port} --keys {KEYS} --worst 0 {options}"
            ),
            Client::Mutilate => {
                format!("{program} -s 127.0.0.1:{port} -K fb_key -V fb_value -r {KEYS} {options}")
            }
            // It has no distribution of Facebook's: the lengths are the means of ours.
            Client::Memtier => format!(
                "{program} -s 127.0.0.1 -p {port} -P memcache_text -t 1 --key-prefix={} \
                 --key-maximum {KEYS} -d 194 --hide-histogram {options}",
                "k".repeat(32)
            ),
        }
    }

    /// Starts a program on a CPU.
    fn start(&self, line: &str, cpu: &str) -> (OwnedFd, Process) {
        let (read, write) = lab::pipe().expect("a pipe is made");
        let line = format!("taskset -c {cpu} {line}");
        let program = Program {
            argv: line.split_whitespace().map(String::from).collect(),
            network_namespace: Some(self.network.try_clone().expect("a descriptor is copied")),
            stdio: [None, Some(write), None],
            ..Program::default()
        };
        (read, self.room.spawn(program).expect("a program starts"))
    }

    /// Runs a client that must end well, and returns what it printed.
    fn said(&self, line: &str) -> String {
        ended(self.start(line, CLIENT_CPU))
    }
}

/// A number of what ours says, which has had every value that it wrote.
fn of_ours(said: &str, key: &str) -> f64 {
    let answer: Value = serde_json::from_str(said).expect("it is JSON");
    assert_eq!((&answer["wrong_count"], &answer["miss_count"]), (&0.into(), &0.into()), "{said}");
    answer[key].as_f64().unwrap_or_else(|| panic!("it says no `{key}`: {said}"))
}

/// The first number after a word in what a program printed.
fn after(said: &str, word: &str) -> f64 {
    let rest = said.split_once(word).map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number after `{word}`: {said}"))
}

/// A number of the line that begins with a word: the last one, or that of a column.
fn column(said: &str, word: &str, column: Option<usize>) -> f64 {
    let line = said.lines().find(|line| line.starts_with(word)).unwrap_or_default();
    let mut words = line.split_whitespace();
    let text = if let Some(column) = column { words.nth(column) } else { words.next_back() };
    let number = text.and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("no such number in the line of `{word}`: {said}"))
}

fn ended((text, mut process): (OwnedFd, Process)) -> String {
    let mut said = String::new();
    File::from(text).read_to_string(&mut said).expect("it prints text");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {said}");
    said
}
