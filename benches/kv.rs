//! The key-value engine against mutilate and memtier_benchmark, alternating in one run.
//!
//! - **Measures** the time of a request to memcached with Facebook's sizes, in closed loops over 1,
//!   16 and 64 connections and with four requests on their way on each of 16; and, while the server
//!   stands still for 200 ms of 4 s at 5,000 requests per second, how far the 99th percentile lies
//!   from the truth. Client and server have a CPU each, and each client a server of its own: keys
//!   of mutilate's and of ours may have one name and two values.
//! - **Peer** mutilate and memtier_benchmark, as whoever runs this has built them from their public
//!   source: `SURTAX_MUTILATE` and `SURTAX_MEMTIER` name them. mutilate spins as it is delivered
//!   and sleeps with `-B`, so either is compared with our own `--poll on` and `off`. A peer that is
//!   not there is said.
//! - **Bar** at most 1/1.2, 1/1.25, 1/1.35 and 1 times the peer's time; a p99 within 5 % of the
//!   truth, and a rate that is sent within 0.5 % of the one that is asked for.
//! - **Command** `SURTAX_MUTILATE=… SURTAX_MEMTIER=… cargo bench --bench kv -- --enforce`, as root,
//!   on a quiet machine; `--row TEXT` measures only those rows whose names have that text.

mod figure;
mod pairs;
mod ratio;

#[path = "kv_clients.rs"]
mod clients;

use clients::{Bench, Client};
use figure::{Figure, Sheet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::Lab;

/// Pairs that count.
const PAIRS: u32 = 10;

/// Number of requests that the times are of.
const THOUSAND: f64 = 1e3;

/// Connections, requests on their way on each, and how many times as quick as its peer the engine
/// must be.
const CASES: [(u32, u32, f64); 4] = [(1, 1, 1.2), (16, 1, 1.25), (64, 1, 1.35), (16, 4, 1.0)];

/// Clients that are compared with us, and whether both spin.
const PEERS: [(Client, bool); 3] =
    [(Client::Mutilate, true), (Client::Mutilate, false), (Client::Memtier, false)];

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let words: Vec<String> = std::env::args().collect();
    let place = words.iter().position(|word| word == "--row");
    let wanted = place.and_then(|place| words.get(place + 1)).cloned().unwrap_or_default();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");
    let room = lab.room("kv").expect("a room opens");
    let mut bench = Bench::open(&room, &agent);
    for (connections, depth, times) in CASES {
        for (peer, is_polling) in PEERS {
            let how = if is_polling { "polling" } else { "blocking" };
            let theirs = peer.name();
            let name = format!(
                "kv: {connections} connections, depth {depth}, {how}, time over {theirs}'s"
            );
            if name.contains(&wanted) && is_there(&bench, peer, &name) {
                let time = |client| {
                    let rate = bench.rate(client, connections, depth, is_polling);
                    Duration::from_secs_f64(THOUSAND / rate)
                };
                let (ours, theirs) = (|| time(Client::Ours), || time(peer));
                pairs::compare(&mut sheet, &name, Some(0.0..=1.0 / times), PAIRS, ours, theirs);
            }
        }
    }
    stopped(&mut sheet, &mut bench, &wanted);
    bench.close();
    room.close().expect("the room closes");
    lab.close().expect("the lab closes");
    sheet.close()
}

/// Tells whether somebody says where a client is; else that is printed here.
fn is_there(bench: &Bench<'_>, client: Client, name: &str) -> bool {
    let is_there = bench.has(client);
    if !is_there {
        println!("{name}: not compared, nobody says where {} is", client.name());
    }
    is_there
}

/// Measures what each client says while its server stands still, one after the other.
fn stopped(sheet: &mut Sheet, bench: &mut Bench<'_>, wanted: &str) {
    let count = sheet.count(PAIRS);
    let name = |client: Client| {
        format!("kv: p99 by {} with a server that stands still, over the truth", client.name())
    };
    let sent_name = "kv: rate sent by ours with a server that stands still, over the one asked for";
    let mut clients: Vec<Client> = Client::ALL.into_iter().filter(|it| bench.has(*it)).collect();
    clients.retain(|it| name(*it).contains(wanted));
    let mut ratios = vec![Vec::new(); clients.len()];
    let mut sent = Vec::new();
    for _ in 0..count {
        for (client, ratios) in clients.iter().zip(&mut ratios) {
            let stopped = bench.during_a_stop(*client);
            ratios.push(stopped.p99_s / stopped.truth_s);
            sent.extend(stopped.sent_ratio);
        }
    }
    let mut put = |name: &str, values: &[f64], bar| {
        let value = ratio::median(values);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        // The bar holds for every run, and not only for their median.
        sheet.put(&Figure { name, value, interval: Some((least, most)), unit: "", bar, count });
    };
    for (client, ratios) in clients.iter().zip(&ratios) {
        let bar = (*client == Client::Ours).then_some(0.95..=1.05);
        put(&name(*client), ratios, bar);
    }
    if !sent.is_empty() {
        put(sent_name, &sent, Some(0.995..=1.005));
    }
}
