//! The network engines against the tools whose work they do, alternating in one run.
//!
//! - **Measures** the time of a transaction (requests over TCP and UDP, connections), of a byte
//!   (both directions) and of a datagram that arrived, by the engines of the agent, with every
//!   transaction recorded; over the loopback of a namespace of its own and over a veth pair between
//!   two. Also what recording costs, and how long connections that are to take a second take.
//! - **Peer** netperf 2.7 without its histogram and sockperf 3.10, as whoever runs this has built
//!   them from their public source: `SURTAX_NETPERF` names the one, with `netserver` beside it,
//!   `SURTAX_SOCKPERF` the other; and iperf3, by `SURTAX_IPERF3` or from `PATH`. Streams have
//!   TCP_NODELAY on both sides in all of them. A peer that is not there is said.
//! - **Bar** on one CPU, blocking: at most netperf's time. Polling on two: over TCP at most
//!   sockperf's time, over UDP 1/1.15 of it; netperf's, which sleeps, is only told. Bytes: 1/0.98
//!   of netperf's and of iperf3's, so of the better one's. Datagrams: 1/1.2 of netperf's, and a
//!   tenth where the kernels cut and join them (`--gso`). Recording: 15 ns.
//! - **Command** `SURTAX_NETPERF=… SURTAX_SOCKPERF=… cargo bench --bench network -- --enforce`, as
//!   root, on a quiet machine; `--row TEXT` measures only those rows whose names have that text.

mod figure;
mod pairs;
mod peers;
mod ratio;

#[path = "network_ends.rs"]
mod network;

use figure::{Figure, Sheet};
use network::{End, Ends, Seat, ended, started};
use peers::{Peer, SECONDS, THOUSAND};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::{Lab, Room};
use surtax_instrument::clock;

/// Pairs that count.
const PAIRS: u32 = 10;

/// One comparison: what ours is told, where both ends are, the peer, and its bar.
struct Row {
    engine: &'static str,
    options: &'static str,
    seat: Seat,
    peer: Peer,
    /// Number of times that ours must be done in the peer's time; `None` where that is only told.
    times: Option<f64>,
}

/// No bar: how much polling saves is what the machine takes to wake somebody.
const NONE: f64 = 0.0;

const POLL: &str = "--poll on --request 14 --response 14";

const fn row(
    engine: &'static str,
    options: &'static str,
    seat: Seat,
    peer: Peer,
    times: f64,
) -> Row {
    let times = if times > 0.0 { Some(times) } else { None };
    Row { engine, options, seat, peer, times }
}

/// sockperf's shortest message has 14 bytes.
const ROWS: [Row; 13] = [
    row("tcp_rr", "", Seat::One, Peer::Netperf("TCP_RR", "-r 1,1"), 1.0),
    row("udp_rr", "", Seat::One, Peer::Netperf("UDP_RR", "-r 1,1"), 1.0),
    row("tcp_crr", "", Seat::One, Peer::Netperf("TCP_CRR", "-r 1,1"), 1.0),
    row("tcp_rr", POLL, Seat::Own, Peer::Sockperf("--tcp"), 1.0),
    row("tcp_rr", POLL, Seat::Own, Peer::Netperf("TCP_RR", "-r 14,14"), NONE),
    row("udp_rr", POLL, Seat::Own, Peer::Sockperf(""), 1.15),
    row("udp_rr", POLL, Seat::Own, Peer::Netperf("UDP_RR", "-r 14,14"), NONE),
    row("tcp_stream", "", Seat::Own, Peer::Netperf("TCP_STREAM", "-D L,R"), 0.98),
    row("tcp_stream", "", Seat::Own, Peer::Iperf("-N"), 0.98),
    row("tcp_maerts", "", Seat::Own, Peer::Netperf("TCP_MAERTS", "-D L,R"), 0.98),
    row("tcp_maerts", "", Seat::Own, Peer::Iperf("-N -R"), 0.98),
    row("udp_stream", "", Seat::Own, Peer::Netperf("UDP_STREAM", "-m 1472"), 1.2),
    row("udp_stream", "--gso on", Seat::Own, Peer::Netperf("UDP_STREAM", "-m 1472"), 10.0),
];

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let words: Vec<String> = std::env::args().collect();
    let place = words.iter().position(|word| word == "--row");
    let wanted = place.and_then(|place| words.get(place + 1)).cloned().unwrap_or_default();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");
    let room = lab.room("network").expect("a room opens");
    if "network: recording one latency".contains(&wanted) {
        recording(&mut sheet, &agent, &room);
    }
    let inner = room.bare_network().expect("a namespace is made");
    let outer = room.network().expect("a bridge is made");
    outer.connect_empty(&inner).expect("a veth pair is made");
    for (way, client, address) in
        [("loopback", inner.namespace(), "127.0.0.1"), ("veth", outer.namespace(), "198.18.0.2")]
    {
        let server = inner.namespace().expect("a descriptor is copied");
        let client = client.expect("a descriptor is copied");
        let mut ends = Ends { room: &room, server, client, address, seat: Seat::One };
        for row in &ROWS {
            let (engine, peer) = (row.engine, row.peer.name());
            let how =
                if row.options.is_empty() { String::new() } else { format!(" {}", row.options) };
            let name = format!("network: {engine}{how} over {way}, time over {peer}'s");
            if name.contains(&wanted) {
                ends.seat = row.seat;
                compare(&mut sheet, &name, row, &ends, &agent);
            }
        }
        let name = format!("network: tcp_crr over {way}, a second of it");
        if name.contains(&wanted) {
            ends.seat = Seat::One;
            second(&mut sheet, &name, &ends, &agent);
        }
    }
    room.close().expect("the room closes");
    lab.close().expect("the lab closes");
    sheet.close()
}

fn compare(sheet: &mut Sheet, name: &str, row: &Row, ends: &Ends<'_>, agent: &Path) {
    let Some(program) = row.peer.program() else {
        println!("{name}: not compared, nobody says where {} is", row.peer.name());
        return;
    };
    let ours = || ours(ends, agent, row.engine, row.options);
    let theirs = || row.peer.time(&program, ends);
    pairs::compare(sheet, name, row.times.map(|times| 0.0..=1.0 / times), PAIRS, ours, theirs);
}

/// One measurement by an engine: the time of a thousand transactions, datagrams or megabytes.
fn ours(ends: &Ends<'_>, agent: &Path, engine: &str, options: &str) -> Duration {
    let (agent, address) = (agent.display(), ends.address);
    let serve = format!("{agent} engine serve --listen {address}:5201");
    let (served, server) = ends.start(&serve, End::Server);
    let call =
        format!("{agent} engine {engine} --connect {address}:5201 --time {SECONDS}s {options}");
    let (text, client) = ends.start(&call, End::Client);
    let answer: Value = serde_json::from_str(&ended(text, client)).expect("it is JSON");
    ended(served, server);
    let number = |key: &str| answer[key].as_f64();
    let rate = number("transactions_per_s").or_else(|| number("received_per_s"));
    let rate = rate.or_else(|| Some(number("bytes_per_s")? / 1e6));
    Duration::from_secs_f64(THOUSAND / rate.expect("it says a rate"))
}

/// Measures how long a client takes in all that is told to measure for a second.
fn second(sheet: &mut Sheet, name: &str, ends: &Ends<'_>, agent: &Path) {
    let count = sheet.count(PAIRS);
    let once = |_| {
        let began = clock::monotonic_raw();
        ours(ends, agent, "tcp_crr", "");
        clock::monotonic_raw().since(began).seconds()
    };
    let times: Vec<f64> = (0..count).map(once).collect();
    let value = ratio::median(&times);
    sheet.put(&Figure { name, value, interval: None, unit: "s", bar: Some(0.0..=1.1), count });
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
