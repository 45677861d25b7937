//! Frames of the wire: whatever is read as a frame is written back as the very same bytes, and
//! without its seal none is read.
//!
//! An input is a row of frames without seals: a length of four bytes, little endian, and as many
//! bytes. They are sealed here, as whoever holds the key would have sent them.

use super::Target;
use surtax_instrument::amount::{Amounts, PAGE_FAULTS, QUANTITIES};
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{
    Cause, Command, Dropped, Fact, Failure, Hello, Instance, LevelFacts, Opener, Outcome, Output,
    PROTOCOL, Reading, Reply, Request, Role, Sealer, StartNested, Status, Stops, Watching,
    WireError, agents, body_of, hosts, read_reply, read_request, write_any, write_reply,
    write_request,
};

pub const TARGET: Target = Target {
    name: "wire",
    run,
    seeds: || replies().iter().map(of_reply).chain(requests().iter().map(of_request)).collect(),
    folders: &[],
    longest: 4096,
};

fn run(bytes: &[u8]) {
    for body in bodies(bytes) {
        if let Ok(reply) = reply(body) {
            assert!(body_of(&reply).is_ok_and(|it| it == body), "{reply:?} is written otherwise");
        }
        if let Ok(request) = request(body) {
            let is_same = body_of(&request).is_ok_and(|it| it == body);
            assert!(is_same, "{request:?} is written otherwise");
        }
    }
    let ((_, mut host), (_, mut agent)) = session();
    assert!(read_reply(&mut &*bytes, &mut host).is_err(), "what bears no seal was read");
    assert!(
        read_request(&mut &*bytes, &mut agent).is_err(),
        "what bears no seal was read as a request"
    );
}

/// Reads, as the host, a frame that its agent sealed.
fn reply(body: &[u8]) -> Result<Reply, WireError> {
    let ((_, mut opener), (mut sealer, _)) = session();
    read_reply(&mut sealed(&mut sealer, body).as_slice(), &mut opener)
}

/// Reads, as the agent, a frame that its host sealed.
pub fn request(body: &[u8]) -> Result<Request, WireError> {
    let ((mut sealer, _), (_, mut opener)) = session();
    read_request(&mut sealed(&mut sealer, body).as_slice(), &mut opener)
}

/// A frame under the seal that is due.
pub fn sealed(sealer: &mut Sealer, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_any(&mut bytes, sealer, body).expect("memory takes all");
    bytes
}

/// The frames of an input; the last one may be shorter than it says.
pub fn bodies(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (body, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        Some(body)
    })
}

/// Both ends of a session that stands: the host's, and the agent's.
fn session() -> ((Sealer, Opener), (Sealer, Opener)) {
    let (mut host, mut agent) = (hosts().expect("random bytes"), agents());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let hello = Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(5) };
    write_reply(&mut up, &mut agent.0, &Reply::Hello(hello)).expect("memory takes a greeting");
    read_reply(&mut up.as_slice(), &mut host.1).expect("a greeting is a frame");
    write_request(&mut down, &mut host.0, &Request::Clock).expect("memory takes a question");
    read_request(&mut down.as_slice(), &mut agent.1).expect("a question is a frame");
    (host, agent)
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
        let first = bodies(bytes).next().map(reply);
        match (self, first.unwrap_or(Err(WireError::Closed))) {
            (Self::Panic, Ok(Reply::Clock { at, .. })) => {
                assert!(at.0 < 1 << 63, "the planted bug")
            }
            (Self::Hang, Ok(Reply::Bill(readings))) => {
                while readings.iter().any(|reading| reading.level == u8::MAX) {
                    std::hint::spin_loop();
                }
            }
            (Self::Memory, Ok(Reply::Failed(failure))) if !failure.what.starts_with('c') => {
                std::hint::black_box(vec![1_u8; 1 << 30]);
            }
            _ => run(bytes),
        }
    }
}

/// A reply as a part of an input.
pub fn of_reply(reply: &Reply) -> Vec<u8> {
    of(body_of(reply).unwrap_or_default())
}

/// A request as a part of an input.
pub fn of_request(request: &Request) -> Vec<u8> {
    of(body_of(request).unwrap_or_default())
}

fn of(body: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), body.as_slice()].concat()
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
    let descend = StartNested {
        stack: String::from("runc+native"),
        level: 1,
        writable: vec![b"/tmp".to_vec()],
        cwd: b"/".to_vec(),
        command: Some(command()),
        start_deadline: Nanoseconds(9),
    };
    let watching = Watching { kernel_begin_ns: -7, level: 2, every: Nanoseconds(9) };
    vec![
        Request::Run(command()),
        Request::Run(Command { instances, ..command() }),
        Request::Run(Command { counts_calls: true, ..command() }),
        Request::Run(Command { watching: Some(watching), ..command() }),
        Request::Go,
        Request::Cancel,
        Request::Resolve(command()),
        Request::Locate(command()),
        Request::Put { path: b"/dev/null".to_vec(), mode: 0o600, bytes: b"bytes".to_vec() },
        Request::Relay(Command { terminal: true, ..command() }),
        Request::Data(b"data".to_vec()),
        Request::CloseRelay,
        Request::Resize { rows: 24, columns: 80 },
        Request::Clock,
        Request::Identify,
        Request::DropCaches,
        Request::KeepAlive,
        Request::StartNested(descend),
        Request::Stop,
    ]
}

/// An amount of each kind, of somebody further in.
pub fn reading() -> Reading {
    Reading {
        payer: String::from("vCPU threads"),
        role: Role::GuestKernel,
        level: 1,
        amounts: QUANTITIES.iter().map(|it| (it.key, 4096)).collect(),
        carries_workload: true,
        is_shared: true,
    }
}

/// One reply of every kind.
pub fn replies() -> Vec<Reply> {
    let output = Output { hash: 7, length: Bytes(3), tail: b"out".to_vec() };
    let (cpu_user, cpu_system, memory_peak) = (Nanoseconds(2), Nanoseconds(3), Bytes(4096));
    let counts = Amounts::NONE.with(PAGE_FAULTS, 5);
    let instance = Instance {
        status: Status::Exit(0),
        wall: Nanoseconds(10),
        cpu_user,
        cpu_system,
        memory_peak,
        counts: counts.clone(),
        stdout: output.clone(),
        stderr: Output::default(),
    };
    let outcome = Outcome {
        status: Status::Signal(9),
        wall: Nanoseconds(10),
        cpu_user,
        cpu_system,
        memory_peak,
        oom_kill_count: Some(1),
        left_running_count: 2,
        counts,
        agent_cpu: Nanoseconds(0),
        machine: vec![reading()],
        calls: None,
        stops: Some(Stops { count: 1, time: Nanoseconds(1) }),
        stdout: output.clone(),
        stderr: output,
        instances: vec![instance.clone(), instance],
    };
    let reading = reading();
    let facts = vec![Fact::new("kernel_release", "6.1", "uname")];
    let levels = vec![LevelFacts { layer: String::from("runc"), facts: facts.clone() }];
    let failure = Failure {
        cause: Some(Cause::NoSuchProgram),
        what: String::from("cannot start"),
        hint: String::new(),
    };
    let dropped = Dropped { kernel: String::from("12"), failure: String::new() };
    vec![
        Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(5) }),
        Reply::Started { at: Nanoseconds(6) },
        Reply::Ended { at: Nanoseconds(8) },
        Reply::Exited(outcome.into()),
        Reply::Bill(vec![reading.clone(), reading.clone()]),
        // A short one, of which each byte is changed soon.
        Reply::Bill(vec![Reading { amounts: Amounts::NONE, ..reading.clone() }]),
        Reply::Failed(failure),
        Reply::Written,
        Reply::Data(b"data".to_vec()),
        Reply::RelayEnded { status: Status::Exit(1), stderr: b"last words".to_vec() },
        Reply::Clock { at: Nanoseconds(7), passed: vec![(1, Nanoseconds(8))] },
        Reply::Sampled { at: Nanoseconds(9), readings: vec![reading] },
        Reply::Identity(facts),
        Reply::StartedNested(levels),
        Reply::Dropped(vec![dropped]),
        Reply::Stopped,
    ]
}
