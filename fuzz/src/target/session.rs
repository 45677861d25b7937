//! The agent's session: the real agent, as a process, with a stream of requests at its standard
//! input.
//!
//! Requests are read here first and made harmless: each command is `true`, a file is `/dev/null`,
//! and this machine keeps its caches. Bytes that are no request reach the agent as they are. It
//! must end by itself, by no signal, and say nothing but whole frames.

use super::Target;
use super::wire::{bodies, of_request, request, requests, sealed};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command as Process, Stdio};
use std::sync::OnceLock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Command, Reply, Request, Sealer, WireError, hosts, read_reply, write_request,
};

pub const TARGET: Target = Target { name: "session", run, seeds, folders: &[], longest: 8 << 10 };

/// The most instances of a command, so that an input is quick.
const INSTANCES: usize = 3;

/// The longest that a command or a relay is let run.
const DEADLINE: Nanoseconds = Nanoseconds(1_000_000_000);

fn run(bytes: &[u8]) {
    let (mut sealer, mut opener) = hosts().expect("random bytes");
    let said = harmless(bytes, &mut sealer);
    #[expect(clippy::disallowed_methods, reason = "the agent is the part that is tested")]
    let mut process = Process::new(format!("/proc/self/fd/{}", agent().as_raw_fd()));
    process.arg("stdio").env_clear().current_dir("/");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut agent = process.spawn().expect("the agent starts");
    let mut stdin = agent.stdin.take().expect("its standard input is ours");
    // An agent that has left does not read the rest.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&said)));
    let output = agent.wait_with_output().expect("the agent ends");
    assert!(writer.join().is_ok());
    assert_eq!(output.status.signal(), None, "the agent was ended by a signal");
    let mut rest = output.stdout.as_slice();
    assert!(
        matches!(read_reply(&mut rest, &mut opener), Ok(Reply::Hello(_))),
        "its first frame is no greeting"
    );
    loop {
        match read_reply(&mut rest, &mut opener) {
            Ok(_) => {}
            Err(WireError::Closed) => return,
            Err(error) => panic!("the agent says what is no frame: {error}"),
        }
    }
}

/// The agent as an executable file in memory.
fn agent() -> &'static std::fs::File {
    static AGENT: OnceLock<std::fs::File> = OnceLock::new();
    AGENT.get_or_init(|| {
        let file = rustix::fs::memfd_create("surtax-agent", rustix::fs::MemfdFlags::empty());
        let mut file = std::fs::File::from(file.expect("a file in memory"));
        file.write_all(surtax::lab::AGENT_BINARY).expect("the agent fits into memory");
        // A program that somebody has open for writing is not executed.
        std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("the agent again")
    })
}

/// The requests in the bytes, harmless and under their seals, and what is none as it is, also under
/// its seal.
fn harmless(bytes: &[u8], sealer: &mut Sealer) -> Vec<u8> {
    let mut said = Vec::new();
    for body in bodies(bytes) {
        match request(body) {
            Ok(request) => {
                let _fits = write_request(&mut said, sealer, &without_harm(request));
            }
            Err(_) => said.extend(sealed(sealer, body)),
        }
    }
    said
}

fn without_harm(request: Request) -> Request {
    match request {
        Request::Run(command) => Request::Run(truth(command)),
        Request::Relay(command) => Request::Relay(truth(command)),
        Request::Resolve(command) => Request::Resolve(truth(command)),
        Request::Locate(command) => Request::Locate(truth(command)),
        Request::Put { mode, bytes, .. } => {
            Request::Put { path: b"/dev/null".to_vec(), mode, bytes }
        }
        Request::DropCaches => Request::Clock,
        other => other,
    }
}

/// The same command with `true` for its program.
fn truth(mut command: Command) -> Command {
    let words = |words: &mut Vec<Vec<u8>>| {
        if let Some(program) = words.first_mut() {
            *program = b"/bin/true".to_vec();
        }
    };
    words(&mut command.argv);
    command.instances.truncate(INSTANCES);
    command.instances.iter_mut().for_each(words);
    command.deadline = command.deadline.clamp(Nanoseconds(1), DEADLINE);
    command
}

/// Conversations: each kind of request by itself, all of them, a command, and a relay.
fn seeds() -> Vec<Vec<u8>> {
    let all = requests();
    let of = |kinds: &[usize]| kinds.iter().flat_map(|kind| of_request(&all[*kind])).collect();
    let mut seeds: Vec<Vec<u8>> = all.iter().map(of_request).collect();
    let whole: Vec<usize> = (0..all.len()).collect();
    seeds.extend([of(&whole), of(&[0, 2, 15]), of(&[1, 2]), of(&[6, 7, 9, 8]), of(&[0, 0, 2, 3])]);
    seeds
}
