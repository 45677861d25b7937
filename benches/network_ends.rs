//! Two ends of one way through a network, each in its namespace and on its CPU.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;
use surtax::lab::{self, Process, Program, Room};

/// Time limit of a program.
const DEADLINE: Duration = Duration::from_secs(30);

/// CPUs of both ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// The second, both.
    One,
    /// The client the first, the server the second.
    Own,
}

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The one that calls.
    Client,
    /// The one that answers.
    Server,
}

/// Both.
pub struct Ends<'a> {
    pub room: &'a Room,
    pub server: OwnedFd,
    pub client: OwnedFd,
    /// Address at which the client finds the server.
    pub address: &'static str,
    pub seat: Seat,
}

impl Ends<'_> {
    /// Starts a program at one of them.
    pub fn start(&self, line: &str, end: End) -> (OwnedFd, Process) {
        let (cpu, namespace) = match (end, self.seat) {
            (End::Client, Seat::Own) => ("0", &self.client),
            (End::Client, Seat::One) => ("1", &self.client),
            (End::Server, _) => ("1", &self.server),
        };
        let line = format!("taskset -c {cpu} {line}");
        let argv = line.split_whitespace().map(String::from).collect();
        let namespace = namespace.try_clone().expect("a descriptor is copied");
        started(self.room, argv, Some(namespace))
    }
}

/// Starts a program whose output can be read.
pub fn started(room: &Room, argv: Vec<String>, network: Option<OwnedFd>) -> (OwnedFd, Process) {
    let (read, write) = lab::pipe().expect("a pipe is made");
    let program = Program {
        argv,
        network_namespace: network,
        stdio: [None, Some(write), None],
        ..Program::default()
    };
    (read, room.spawn(program).expect("a program starts"))
}

/// Waits for a program that must end well, and returns what it printed.
pub fn ended(text: OwnedFd, mut process: Process) -> String {
    let mut said = String::new();
    File::from(text).read_to_string(&mut said).expect("it prints text");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {said}");
    said
}

/// Ends a server that would go on.
pub fn end(process: &mut Process) {
    process.kill().expect("a server is ended");
    process.wait(DEADLINE).expect("it can be waited for");
}
