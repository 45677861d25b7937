//! Frames of the wire: whatever is read as a frame is written back as the very same bytes.

use super::Target;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{
    Command, Descend, Dropped, Fact, Failure, Hello, Instance, LevelFacts, Outcome, Output,
    PROTOCOL, Reading, Reply, Request, Role, Status, Stops, read_reply, read_request, write_reply,
    write_request,
};

pub const TARGET: Target = Target {
    name: "wire",
    run,
    seeds: || replies().iter().map(of_reply).chain(requests().iter().map(of_request)).collect(),
    folders: &[],
    words: &["SURTAX_INSTANCE", "/surtax-starter", "\0\0\0\0"],
    longest: 4096,
};

fn run(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(reply) = read_reply(&mut rest) {
        let read = bytes.len() - rest.len();
        assert!(bytes[..read].ends_with(&of_reply(&reply)), "{reply:?} is written otherwise");
    }
    let mut rest = bytes;
    while let Ok(request) = read_request(&mut rest) {
        let read = bytes.len() - rest.len();
        assert!(bytes[..read].ends_with(&of_request(&request)), "{request:?} is written otherwise");
    }
}

/// A bug that the runner must find: a proof that it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A clock of the second half of time panics.
    Panic,
    /// A bill with a reading of the deepest level is read without end.
    Hang,
    /// A failure with a negative `errno` takes a gigabyte.
    Memory,
}

impl Planted {
    /// As it is named on a command line.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "panic" => Some(Self::Panic),
            "hang" => Some(Self::Hang),
            "memory" => Some(Self::Memory),
            _ => None,
        }
    }

    /// Reads the bytes as the target does, with the bug.
    ///
    /// # Panics
    /// On whoever meets that bug.
    pub fn run(self, bytes: &[u8]) {
        match (self, read_reply(&mut &*bytes)) {
            (Self::Panic, Ok(Reply::Clock { at })) => assert!(at.0 < 1 << 63, "the planted bug"),
            (Self::Hang, Ok(Reply::Bill(readings))) => {
                while readings.iter().any(|reading| reading.level == u8::MAX) {
                    std::hint::spin_loop();
                }
            }
            (Self::Memory, Ok(Reply::Failed(failure))) if failure.errno < 0 => {
                std::hint::black_box(vec![1_u8; 1 << 30]);
            }
            _ => run(bytes),
        }
    }
}

pub fn of_reply(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read fits; what this program makes does, too.
    let _fits = write_reply(&mut bytes, reply);
    bytes
}

pub fn of_request(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _fits = write_request(&mut bytes, request);
    bytes
}

fn command() -> Command {
    Command {
        argv: vec![b"sh".to_vec(), b"-c".to_vec(), b"true".to_vec()],
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        cwd: b"/".to_vec(),
        keep_bytes: 1024,
        deadline: Nanoseconds(1_000_000_000),
        ..Command::default()
    }
}

/// One request of every kind.
pub fn requests() -> Vec<Request> {
    let instances = vec![vec![b"true".to_vec()], vec![b"false".to_vec()]];
    let descend = Descend {
        stack: String::from("runc+native"),
        level: 1,
        writable: vec![b"/tmp".to_vec()],
        cwd: b"/".to_vec(),
        command: Some(command()),
        start_deadline: Nanoseconds(9),
    };
    vec![
        Request::Run(command()),
        Request::Run(Command { instances, ..command() }),
        Request::Go,
        Request::Cancel,
        Request::Resolve(command()),
        Request::Put { path: b"/dev/null".to_vec(), mode: 0o600, bytes: b"bytes".to_vec() },
        Request::Relay(Command { terminal: true, ..command() }),
        Request::Data(b"data".to_vec()),
        Request::CloseRelay,
        Request::Resize { rows: 24, columns: 80 },
        Request::Clock,
        Request::Identify,
        Request::DropCaches,
        Request::KeepAlive,
        Request::Descend(descend),
        Request::Stop,
    ]
}

/// One reply of every kind.
pub fn replies() -> Vec<Reply> {
    let output = Output { hash: 7, length: Bytes(3), tail: b"out".to_vec() };
    let (cpu_user, cpu_system, memory_peak) = (Nanoseconds(2), Nanoseconds(3), Bytes(4096));
    let instance = Instance {
        status: Status::Exit(0),
        wall: Nanoseconds(10),
        cpu_user,
        cpu_system,
        memory_peak,
        stdout: output.clone(),
        stderr: Output::default(),
    };
    let outcome = Outcome {
        status: Status::Signal(9),
        wall: Nanoseconds(10),
        cpu_user,
        cpu_system,
        memory_peak,
        stops: Some(Stops { count: 1, time: Nanoseconds(1) }),
        stdout: output.clone(),
        stderr: output,
        instances: vec![instance.clone(), instance],
    };
    let reading = Reading {
        payer: String::from("vCPU threads"),
        role: Role::GuestKernel,
        level: 1,
        cpu_user,
        cpu_system,
        memory_peak: Some(memory_peak),
        carries_workload: true,
    };
    let facts = vec![Fact::new("kernel_release", "6.1", "uname")];
    let levels = vec![LevelFacts { layer: String::from("runc"), facts: facts.clone() }];
    let failure = Failure { errno: 2, what: String::from("cannot start"), hint: String::new() };
    let dropped = Dropped { kernel: String::from("12"), failure: String::new() };
    vec![
        Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(5) }),
        Reply::Started { at: Nanoseconds(6) },
        Reply::Exited(outcome),
        Reply::Bill(vec![reading.clone(), reading]),
        Reply::Failed(failure),
        Reply::Written,
        Reply::Data(b"data".to_vec()),
        Reply::RelayEnded { status: Status::Exit(1), stderr: b"last words".to_vec() },
        Reply::Clock { at: Nanoseconds(7) },
        Reply::Identity(facts),
        Reply::Descended(levels),
        Reply::Dropped(vec![dropped]),
        Reply::Stopped,
    ]
}
