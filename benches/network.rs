//! The network engines against the tools whose work they do, alternating in one run.
//!
//! - **Measures** the time of a transaction (requests over TCP and UDP, connections) and of a byte (both directions), by the
//!   engines of the agent, with every transaction recorded; over the loopback of a namespace of its own and over a veth
//!   pair between two. Also what recording costs.
//! - **Peer** netperf 2.7 without its histogram, as whoever runs this has built it from its public source: `SURTAX_NETPERF`
//!   names it, and `netserver` lies beside it. iperf3, by `SURTAX_IPERF3` or from `PATH`, for bytes; all with TCP_NODELAY on both
//!   sides. A peer that is not there is said.
//! - **Bar** requests and connections: at most netperf's time, both ends on one CPU. Bytes: at most 1/0.98 of the time
//!   of either peer, so of the better one. Recording: 15 ns.
//! - **Command** `SURTAX_NETPERF=… cargo bench --bench network -- --enforce`, as root, on a quiet machine.

mod figure;
mod pairs;
mod ratio;

use figure::{Figure, Sheet};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::{self, Lab, Process, Program, Room};

/// Pairs that count.
const PAIRS: u32 = 10;

/// How long one measurement takes, in seconds.
const SECONDS: u32 = 1;

/// How long a peer's server may take to listen: their clients do not wait for it.
const SETTLE: Duration = Duration::from_millis(300);

/// How long a client may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How many transactions or megabytes the times are of.
const THOUSAND: f64 = 1e3;

/// The CPU of both ends where they share one.
const CPU: &str = "1";

/// What netperf calls each engine, and whether both ends are on one CPU.
const ENGINES: [(&str, &str, bool); 5] = [
    ("tcp_rr", "TCP_RR", true),
    ("udp_rr", "UDP_RR", true),
    ("tcp_crr", "TCP_CRR", true),
    ("tcp_stream", "TCP_STREAM", false),
    ("tcp_maerts", "TCP_MAERTS", false),
];

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");
    let room = lab.room("network").expect("a room opens");
    recording(&mut sheet, &agent, &room);
    let inner = room.bare_network().expect("a namespace is made");
    let outer = room.network().expect("a bridge is made");
    outer.connect_empty(&inner).expect("a veth pair is made");
    for (way, client, address) in
        [("loopback", inner.namespace(), "127.0.0.1"), ("veth", outer.namespace(), "198.18.0.2")]
    {
        let server = inner.namespace().expect("a descriptor is copied");
        let client = client.expect("a descriptor is copied");
        let ends = Ends { room: &room, agent: &agent, server, client, address };
        for (engine, test, is_one_cpu) in ENGINES {
            ends.compare(&mut sheet, way, engine, test, is_one_cpu);
        }
    }
    room.close().expect("the room closes");
    lab.close().expect("the lab closes");
    sheet.close()
}

fn recording(sheet: &mut Sheet, agent: &Path, room: &Room) {
    let agent = agent.display().to_string();
    let argv = [&agent, "engine", "recording"].map(String::from).to_vec();
    let (text, process) = started(room, argv, None);
    let answer: Value = serde_json::from_str(&ended(text, process)).expect("it is JSON");
    let value = answer["recording_ns"].as_f64().expect("it says what recording costs");
    sheet.put(&Figure {
        name: "network: recording one latency",
        value,
        interval: None,
        unit: "ns",
        bar: Some(0.0..=15.0),
        count: 1,
    });
}

/// Two ends of one way.
struct Ends<'a> {
    room: &'a Room,
    agent: &'a Path,
    server: OwnedFd,
    client: OwnedFd,
    address: &'static str,
}

impl Ends<'_> {
    fn compare(&self, sheet: &mut Sheet, way: &str, engine: &str, test: &str, is_one_cpu: bool) {
        let is_stream = !is_one_cpu;
        let most = if is_stream { 1.0 / 0.98 } else { 1.0 };
        let netperf = std::env::var_os("SURTAX_NETPERF").map(PathBuf::from);
        let iperf = std::env::var_os("SURTAX_IPERF3").map(PathBuf::from);
        let iperf = iperf.or_else(|| lab::find("iperf3")).filter(|_| is_stream);
        let ours = || self.ours(engine, is_one_cpu);
        let name = |peer: &str| format!("network: {engine} over {way}, time over {peer}'s");
        match netperf {
            Some(netperf) => {
                let theirs = || self.netperf(&netperf, test, is_one_cpu);
                let bar = Some(0.0..=most);
                pairs::compare(sheet, &name("netperf"), bar, PAIRS, ours, theirs);
            }
            None => println!("{}: not compared, SURTAX_NETPERF names none", name("netperf")),
        }
        match iperf {
            Some(iperf) => {
                let theirs = || self.iperf(&iperf, engine == "tcp_maerts");
                let bar = Some(0.0..=most);
                pairs::compare(sheet, &name("iperf3"), bar, PAIRS, ours, theirs);
            }
            None if is_stream => println!("{}: not compared, there is none", name("iperf3")),
            None => {}
        }
    }

    /// Starts a program in one of the namespaces, on the one CPU if so.
    fn start(&self, line: &str, is_client: bool, is_one_cpu: bool) -> (OwnedFd, Process) {
        let place = if is_one_cpu { format!("taskset -c {CPU} ") } else { String::new() };
        let argv = (place + line).split_whitespace().map(String::from).collect();
        let namespace = if is_client { &self.client } else { &self.server };
        let namespace = namespace.try_clone().expect("a descriptor is copied");
        started(self.room, argv, Some(namespace))
    }

    /// One measurement by the engine: the time of a thousand transactions or megabytes.
    fn ours(&self, engine: &str, is_one_cpu: bool) -> Duration {
        let (agent, address) = (self.agent.display(), self.address);
        let serve = format!("{agent} engine serve --listen {address}:5201");
        let (served, server) = self.start(&serve, false, is_one_cpu);
        let call = format!("{agent} engine {engine} --connect {address}:5201 --time {SECONDS}s");
        let (text, client) = self.start(&call, true, is_one_cpu);
        let answer: Value = serde_json::from_str(&ended(text, client)).expect("it is JSON");
        ended(served, server);
        let rate = answer["transactions_per_s"].as_f64();
        let rate = rate.or_else(|| Some(answer["bytes_per_s"].as_f64()? / 1e6));
        Duration::from_secs_f64(THOUSAND / rate.expect("it says a rate"))
    }

    /// The same by netperf.
    fn netperf(&self, netperf: &Path, test: &str, is_one_cpu: bool) -> Duration {
        let server = netperf.with_file_name("netserver");
        let line = format!("{} -D -4 -p 12866", server.display());
        // It prints, and would end if nobody could read that.
        let (_said, mut serving) = self.start(&line, false, is_one_cpu);
        std::thread::sleep(SETTLE);
        // Its streams are in millions of bits per second.
        let (unit, nodelay) = if is_one_cpu { ("", "-r 1,1") } else { ("-f m", "-D L,R") };
        let line = format!(
            "{} -4 -H {} -p 12866 -t {test} -l {SECONDS} -P 0 -v 0 {unit} -- {nodelay}",
            netperf.display(),
            self.address
        );
        let (text, client) = self.start(&line, true, is_one_cpu);
        let said = ended(text, client);
        serving.kill().expect("netserver is ended");
        serving.wait(DEADLINE).expect("it can be waited for");
        let rate: f64 = said.trim().parse().unwrap_or_else(|_| panic!("netperf says `{said}`"));
        Duration::from_secs_f64(THOUSAND / if is_one_cpu { rate } else { rate / 8.0 })
    }

    /// The same by iperf3: the time of a thousand megabytes.
    fn iperf(&self, iperf: &Path, is_reverse: bool) -> Duration {
        let (iperf, address) = (iperf.display(), self.address);
        let (served, server) = self.start(&format!("{iperf} -s -1 -B {address}"), false, false);
        std::thread::sleep(SETTLE);
        let reverse = if is_reverse { "-R" } else { "" };
        let line = format!("{iperf} -c {address} -N -J -t {SECONDS} {reverse}");
        let (text, client) = self.start(&line, true, false);
        let answer: Value = serde_json::from_str(&ended(text, client)).expect("it is JSON");
        ended(served, server);
        let bits = answer["end"]["sum_received"]["bits_per_second"].as_f64();
        Duration::from_secs_f64(THOUSAND * 8e6 / bits.expect("it says a rate"))
    }
}

fn started(room: &Room, argv: Vec<String>, network: Option<OwnedFd>) -> (OwnedFd, Process) {
    let (read, write) = lab::pipe().expect("a pipe is made");
    let program = Program {
        argv,
        network_namespace: network,
        stdio: [None, Some(write), None],
        ..Program::default()
    };
    (read, room.spawn(program).expect("a program starts"))
}

/// What it printed, when it has ended well.
fn ended(text: OwnedFd, mut process: Process) -> String {
    let mut said = String::new();
    File::from(text).read_to_string(&mut said).expect("it prints text");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {said}");
    said
}
