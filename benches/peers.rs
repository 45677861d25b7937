//! The tools that the network engines are measured against, each as the time that a thousand of its
//! transactions or megabytes take.
//!
//! They are as whoever runs this has built them from their public source; nothing of them is ours.

use crate::network::{End, Ends};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::lab;

/// Time that a peer's server gets to listen: their clients do not wait for it.
const SETTLE: Duration = Duration::from_millis(300);

/// Duration of one measurement, in seconds.
pub const SECONDS: u32 = 1;

/// Number of transactions, datagrams or megabytes that the times are of.
pub const THOUSAND: f64 = 1e3;

/// Peer, and what it is asked for.
#[derive(Clone, Copy)]
pub enum Peer {
    /// netperf: its test, and what follows `--`.
    Netperf(&'static str, &'static str),
    /// sockperf's ping-pong with `--nonblocked`, and its other options.
    Sockperf(&'static str),
    /// iperf3, and its options.
    Iperf(&'static str),
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Netperf(..) => "netperf",
            Self::Sockperf(_) => "sockperf",
            Self::Iperf(_) => "iperf3",
        }
    }

    /// Returns the path of the program; `None` where nobody says it and it is not found.
    pub fn program(self) -> Option<PathBuf> {
        let (variable, usual) = match self {
            Self::Netperf(..) => ("SURTAX_NETPERF", None),
            Self::Sockperf(_) => ("SURTAX_SOCKPERF", None),
            Self::Iperf(_) => ("SURTAX_IPERF3", Some("iperf3")),
        };
        std::env::var_os(variable).map(PathBuf::from).or_else(|| lab::find(usual?))
    }

    /// One measurement.
    pub fn time(self, program: &Path, ends: &Ends<'_>) -> Duration {
        match self {
            Self::Netperf(test, options) => netperf(program, ends, test, options),
            Self::Sockperf(options) => sockperf(program, ends, options),
            Self::Iperf(options) => iperf(program, ends, options),
        }
    }
}

fn netperf(program: &Path, ends: &Ends<'_>, test: &str, options: &str) -> Duration {
    let server = program.with_file_name("netserver");
    // It prints, and would end if nobody could read that.
    let (_said, mut serving) =
        ends.start(&format!("{} -D -4 -p 12866", server.display()), End::Server);
    std::thread::sleep(SETTLE);
    // The streams of TCP are in millions of bits per second; of datagrams the second line is what
    // arrived.
    let is_stream = matches!(test, "TCP_STREAM" | "TCP_MAERTS");
    let unit = match test {
        "UDP_STREAM" => "",
        _ if is_stream => "-v 0 -f m",
        _ => "-v 0",
    };
    let line = format!(
        "{} -4 -H {} -p 12866 -t {test} -l {SECONDS} -P 0 {unit} -- {options}",
        program.display(),
        ends.address
    );
    let (text, client) = ends.start(&line, End::Client);
    let said = crate::network::ended(text, client);
    crate::network::end(&mut serving);
    let number = |word: Option<&str>| -> f64 {
        let number = word.and_then(|word| word.parse().ok());
        number.unwrap_or_else(|| panic!("netperf says `{said}`"))
    };
    let rate = if test == "UDP_STREAM" {
        let received = said.lines().filter(|line| !line.trim().is_empty()).nth(1);
        number(received.and_then(|line| line.split_whitespace().nth(2))) / f64::from(SECONDS)
    } else {
        number(said.split_whitespace().last()) / if is_stream { 8.0 } else { 1.0 }
    };
    Duration::from_secs_f64(THOUSAND / rate)
}

fn sockperf(program: &Path, ends: &Ends<'_>, options: &str) -> Duration {
    let (program, address) = (program.display(), ends.address);
    let line = format!("{program} server -i {address} -p 11111 --nonblocked {options}");
    let (_said, mut serving) = ends.start(&line, End::Server);
    std::thread::sleep(SETTLE);
    let line = format!(
        "{program} ping-pong -i {address} -p 11111 -t {SECONDS} -m 14 --nonblocked {options}"
    );
    let (text, client) = ends.start(&line, End::Client);
    let said = crate::network::ended(text, client);
    crate::network::end(&mut serving);
    // `[Valid Duration] RunTime=0.999 sec; SentMessages=…; ReceivedMessages=412345`
    let valid = said.split("[Valid Duration] ").nth(1).and_then(|rest| rest.lines().next());
    let number = |key: &str| -> f64 {
        let after = valid.and_then(|line| line.split(key).nth(1));
        let digits = after.map(|rest| rest.split(|it: char| !it.is_ascii_digit() && it != '.'));
        let number = digits.and_then(|mut words| words.next()?.parse().ok());
        number.unwrap_or_else(|| panic!("sockperf says `{said}`"))
    };
    Duration::from_secs_f64(THOUSAND * number("RunTime=") / number("ReceivedMessages="))
}

fn iperf(program: &Path, ends: &Ends<'_>, options: &str) -> Duration {
    let (program, address) = (program.display(), ends.address);
    let (served, server) = ends.start(&format!("{program} -s -1 -B {address}"), End::Server);
    std::thread::sleep(SETTLE);
    let line = format!("{program} -c {address} -J -t {SECONDS} {options}");
    let (text, client) = ends.start(&line, End::Client);
    let answer: Value =
        serde_json::from_str(&crate::network::ended(text, client)).expect("it is JSON");
    crate::network::ended(served, server);
    let bits = answer["end"]["sum_received"]["bits_per_second"].as_f64();
    Duration::from_secs_f64(THOUSAND * 8e6 / bits.expect("it says a rate"))
}
