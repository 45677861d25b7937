//! The agent by itself, over pipes: what it answers, what it refuses, and what it takes with it.

use crate::machine::Machine;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command as Process, ExitStatus, Stdio};
use std::time::Duration;
use surtax::agent::{ConsoleTail, Link, Listener};
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Command, Fact, Outcome, PROTOCOL, Reply, Request, Status, Stops};

const DEADLINE: Duration = Duration::from_secs(20);

/// An agent that runs, and our end of its channel.
struct Agent {
    child: Child,
    link: Link,
    /// Turn of the test: another test's census would count the agent.
    machine: Machine,
}

#[expect(clippy::disallowed_methods, reason = "the test starts the agent under test")]
fn process() -> Child {
    let mut process = Process::new(env!("SURTAX_AGENT"));
    process.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    process.spawn().unwrap()
}

impl Agent {
    fn start() -> Self {
        let machine = Machine::take();
        let mut child = process();
        let stdout = File::from(OwnedFd::from(child.stdout.take().unwrap()));
        let stdin: ChildStdin = child.stdin.take().unwrap();
        let mut link = Link::over("agent", stdout, stdin, &ConsoleTail::new()).unwrap();
        match link.receive(DEADLINE).unwrap().reply {
            Reply::Hello(hello) => assert_eq!((hello.protocol, hello.pid), (PROTOCOL, child.id())),
            other => panic!("an agent began with {other:?}"),
        }
        Self { child, link, machine }
    }

    fn ask(&mut self, request: &Request) -> Reply {
        self.link.send(request).unwrap();
        self.receive()
    }

    fn receive(&mut self) -> Reply {
        self.link.receive(DEADLINE).unwrap().reply
    }

    /// Starts a command; nothing has been heard of its end.
    fn begin(&mut self, command: Command) {
        let started = self.ask(&Request::Run(command));
        assert!(matches!(started, Reply::Started { .. }), "{started:?}");
        self.link.send(&Request::Go).unwrap();
    }

    fn ended(&mut self) -> Outcome {
        let ended = self.receive();
        assert!(matches!(ended, Reply::Ended { .. }), "{ended:?}");
        match self.receive() {
            Reply::Exited(outcome) => *outcome,
            other => panic!("instead of the end of the command came {other:?}"),
        }
    }

    /// Asks for the end; nothing may come after the last frame.
    fn stop(mut self) -> ExitStatus {
        assert_eq!(self.ask(&Request::Stop), Reply::Stopped);
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.machine.assert_as_before();
        }
    }
}

fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        cwd: b"/".to_vec(),
        keep_bytes: 8,
        ..Command::default()
    }
}

fn shell(script: &str) -> Command {
    command(&["sh", "-c", script])
}

#[track_caller]
fn what(reply: Reply) -> String {
    match reply {
        Reply::Failed(failure) => failure.what,
        other => panic!("instead of a failure came {other:?}"),
    }
}

/// Tells whether a process with this on its command line is still there after two seconds.
fn remains(word: &str) -> bool {
    let is_there = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|argument| argument == word)
        })
    };
    (0..200).all(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_there()
    })
}

#[test]
fn it_is_one_static_file_of_at_most_three_megabytes() {
    let bytes = std::fs::read(env!("SURTAX_AGENT")).unwrap();
    assert!(bytes.len() <= 3_000_000, "{} bytes", bytes.len());
    let interpreter = b"/ld-linux";
    assert!(!bytes.windows(interpreter.len()).any(|window| window == interpreter));
}

#[test]
fn a_command_is_started_at_go_timed_and_kept_at_its_end() {
    let mut agent = Agent::start();
    agent.begin(shell("printf 0123456789; echo why >&2; exit 9"));
    let outcome = agent.ended();
    assert_eq!(outcome.status, Status::Exit(9));
    assert_eq!(
        (outcome.stdout.length, outcome.stdout.tail.as_slice()),
        (Bytes(10), b"23456789".as_slice())
    );
    assert_eq!(outcome.stderr.tail, b"why\n");
    let first = outcome.stdout.hash;
    agent.begin(shell("printf 01234; printf 56789"));
    assert_eq!(agent.ended().stdout.hash, first, "the hash is of the bytes, not of the writes");
    agent.begin(shell("kill -SEGV $$"));
    assert_eq!(agent.ended().status, Status::Signal(11));
    agent.begin(command(&["true"]));
    let outcome = agent.ended();
    assert_eq!((outcome.stdout.length, outcome.stdout.tail.len()), (Bytes(0), 0));
    assert!(agent.stop().success());
}

#[test]
fn a_stop_of_the_command_or_of_the_agent_is_counted_and_no_signal_is_left_blocked() {
    let mut agent = Agent::start();
    // Whoever lets it go on waits until it stands still, however late that is.
    let stand_still = "(until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done; \
                       sleep 0.1; kill -CONT $$) & kill -STOP $$; wait";
    agent.begin(shell(stand_still));
    let stops = agent.ended().stops.unwrap();
    assert_eq!(stops.count, 1);
    assert!((Nanoseconds(90_000_000)..Nanoseconds(10_000_000_000)).contains(&stops.time));

    agent.begin(shell(&format!("for n in 1 2 3; do {stand_still}; done")));
    assert_eq!(agent.ended().stops.unwrap().count, 3);

    agent.begin(shell("kill -STOP $PPID; sleep 0.1; kill -CONT $PPID"));
    assert_eq!(agent.ended().stops, Some(Stops { count: 1, time: Nanoseconds(0) }));

    // The second of three instances stands still; all but one are there when it does.
    let script = format!("test $SURTAX_INSTANCE = 1 || exit 0; {stand_still}");
    let words: Vec<Vec<u8>> = ["sh", "-c", &script].map(|word| word.as_bytes().to_vec()).to_vec();
    agent.begin(Command { instances: vec![words; 3], ..command(&[]) });
    let outcome = agent.ended();
    let stops = outcome.stops.unwrap();
    assert_eq!((outcome.instances.len(), stops.count), (3, 1));
    assert!((Nanoseconds(90_000_000)..Nanoseconds(10_000_000_000)).contains(&stops.time));

    let blocked = Command { keep_bytes: 99, ..command(&["grep", "SigBlk", "/proc/self/status"]) };
    for _ in 0..2 {
        agent.begin(blocked.clone());
        let outcome = agent.ended();
        assert_eq!(outcome.stops, Some(Stops::default()));
        assert_eq!(text(&outcome.stdout.tail), "SigBlk:\t0000000000000000\n");
    }
    assert!(agent.stop().success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The facts about the file of a command, by their keys without `command_file`.
fn resolved(agent: &mut Agent, command: Command) -> BTreeMap<String, String> {
    let Reply::Identity(facts) = agent.ask(&Request::Resolve(command)) else { panic!("no facts") };
    let short = |fact: Fact| (fact.key.replace("command_file", ""), fact.value);
    facts.into_iter().map(short).collect()
}

#[test]
fn a_command_is_the_first_file_of_that_name_that_can_be_started() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &[u8], mode: u32| {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    put("a/it", b"not to be started", 0o644);
    put("b/it", b"one", 0o755);
    put("c/it", b"other", 0o755);
    let at = |path: &str| {
        let cwd = directory.path().as_os_str().as_encoded_bytes().to_vec();
        let path = path.replace('@', directory.path().to_str().unwrap());
        Command { env: vec![(b"PATH".to_vec(), path.into_bytes())], cwd, ..command(&["it"]) }
    };
    let mut agent = Agent::start();
    let found = resolved(&mut agent, at("@/nowhere:@/a:@/b:@/c"));
    assert_eq!(found[""], directory.path().join("b/it").to_str().unwrap());
    assert_eq!(found["_bytes"], "3");
    let other = resolved(&mut agent, at("c:@/b"));
    assert!(other["_bytes"] == "5" && other["_xxh3"] != found["_xxh3"], "{other:?}");
    let named = Command { argv: vec![b"b/it".to_vec()], ..at("@/c") };
    assert_eq!(resolved(&mut agent, named)["_xxh3"], found["_xxh3"]);
    assert!(resolved(&mut agent, at("@/a")).is_empty());
    assert!(resolved(&mut agent, command(&[])).is_empty());

    // Of a long file both ends count, and its length.
    let long = |change: &[(u64, u8)], length: u64| {
        use std::os::unix::fs::FileExt;
        put("d/it", b"", 0o755);
        let file = File::options().write(true).open(directory.path().join("d/it")).unwrap();
        file.set_len(length).unwrap();
        for (offset, byte) in change {
            file.write_at(&[*byte], *offset).unwrap();
        }
    };
    let mib = 1 << 20;
    let mut hash = |change: &[(u64, u8)], length: u64| {
        long(change, length);
        let found = resolved(&mut agent, at("@/d"));
        (found["_bytes"].clone(), found["_xxh3"].clone())
    };
    let zeros = hash(&[], 80 * mib);
    assert_ne!(hash(&[(5, 1)], 80 * mib), zeros);
    assert_ne!(hash(&[(80 * mib - 5, 1)], 80 * mib), zeros);
    assert_eq!(hash(&[(40 * mib, 1)], 80 * mib), zeros);
    assert_ne!(hash(&[], 81 * mib), zeros);
    assert_ne!(hash(&[(30 * mib, 1)], 60 * mib), hash(&[], 60 * mib));
    assert!(agent.stop().success());
}

#[test]
fn what_cannot_be_started_is_named() {
    let mut agent = Agent::start();
    agent.begin(command(&["no-such-program"]));
    assert!(what(agent.receive()).starts_with("cannot start `no-such-program`: "));
    let file = tempfile::NamedTempFile::new().unwrap();
    agent.begin(command(&[file.path().to_str().unwrap()]));
    assert!(what(agent.receive()).contains("Permission denied"));
    agent.begin(Command { cwd: b"/no/such/place".to_vec(), ..command(&["true"]) });
    assert!(what(agent.receive()).contains("`/no/such/place` is not there"));
    agent.begin(command(&[]));
    assert_eq!(what(agent.receive()), "the command is empty");
    assert_eq!(what(agent.ask(&Request::Go)), "there is no command to start");
    assert!(agent.stop().success());
}

#[test]
fn a_second_command_and_a_descent_are_refused() {
    let mut agent = Agent::start();
    agent.begin(shell("sleep 20"));
    assert_eq!(what(agent.ask(&Request::Run(shell("true")))), "a command is already running here");
    assert_eq!(
        what(agent.ask(&Request::Relay(shell("true")))),
        "a command is already running here"
    );
    let nested = surtax_instrument::wire::StartNested {
        stack: "runc".into(),
        level: 1,
        writable: vec![],
        cwd: b"/".to_vec(),
        command: None,
        start_deadline: Nanoseconds(0),
    };
    assert!(what(agent.ask(&Request::StartNested(nested))).contains("a starter does"));
    agent.link.send(&Request::Cancel).unwrap();
    assert_eq!(agent.ended().status, Status::Cancelled);
    assert!(agent.stop().success());
}

#[test]
fn a_deadline_and_a_cancellation_take_everything_that_was_started() {
    let mut agent = Agent::start();
    let script = "trap '' TERM; setsid sleep 71.001 & sleep 71.001 & sleep 71.001";
    let began = monotonic_raw();
    agent.begin(Command { deadline: Nanoseconds(200_000_000), ..shell(script) });
    let outcome = agent.ended();
    assert_eq!(outcome.status, Status::Deadline);
    assert!(outcome.wall >= Nanoseconds(200_000_000));
    assert!(monotonic_raw().since(began) < Nanoseconds(15_000_000_000));
    assert!(!remains("71.001"));
    agent.begin(shell("sleep 71.002 & sleep 71.002"));
    agent.link.send(&Request::Cancel).unwrap();
    assert_eq!(agent.ended().status, Status::Cancelled);
    assert!(!remains("71.002"));
    assert!(agent.stop().success());
}

#[test]
fn what_a_command_leaves_running_is_counted_and_gone_before_the_next_one() {
    let mut agent = Agent::start();
    // Each is in a session of its own, and only who is killed first hands on the one below.
    let nest =
        "setsid sh -c \"setsid sh -c 'sleep 71.004; true'; true\" >/dev/null 2>&1 & sleep 0.3";
    agent.begin(shell(nest));
    let outcome = agent.ended();
    assert_eq!((outcome.status, outcome.left_running_count), (Status::Exit(0), 3));
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    });
    assert_eq!(lines.filter(|line| line.contains("71.004")).count(), 0);
    agent.begin(shell("sleep 0.01 & wait"));
    assert_eq!(agent.ended().left_running_count, 0);
    assert!(agent.stop().success());
}

#[test]
fn work_of_processes_that_nobody_waited_for_is_the_commands() {
    let mut agent = Agent::start();
    let used = |agent: &mut Agent, script: &str| {
        agent.begin(shell(script));
        let outcome = agent.ended();
        outcome.cpu_user + outcome.cpu_system
    };
    // One that has ended by then, and one that is killed.
    let work = "i=0; while test $i -lt 100000; do i=$((i+1)); done";
    let waited = used(&mut agent, work);
    // The shell is gone when its child ends, and waits for nobody.
    let orphaned = used(&mut agent, &format!("(({work}) &) ; exec sleep 1"));
    let killed = used(&mut agent, "(while :; do :; done) & sleep 1");
    assert!(orphaned.0 > waited.0 / 2, "{orphaned} against {waited}");
    assert!(killed > Nanoseconds(100_000_000), "{killed}");
    assert!(used(&mut agent, ":") < waited, "what an earlier command used is not counted again");
    assert!(agent.stop().success());
}

#[test]
fn the_end_of_its_channel_is_its_end_and_that_of_all_it_started() {
    let mut agent = Agent::start();
    agent.begin(shell("setsid sleep 71.003 & sleep 71.003"));
    assert!(!matches!(agent.ask(&Request::Clock), Reply::Exited(_)));
    // Both halves of the link go, and with them both pipes.
    let nowhere = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let nobody = Link::over("nobody", std::io::empty(), nowhere, &ConsoleTail::new());
    agent.link = nobody.unwrap();
    let status = agent.child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!remains("71.003"));
}

#[test]
fn a_host_that_speaks_another_language_is_left() {
    let machine = Machine::take();
    for words in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[1, 0, 0, 0, 250], &[3, 0, 0, 0, 1]] {
        let mut child = process();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(words).unwrap();
        drop(stdin);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(3), "{words:?}");
    }
    machine.assert_as_before();
}

#[test]
fn a_file_is_put_together_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = Agent::start();
    let put = |path: &Path, bytes: &[u8]| Request::Put {
        path: path.as_os_str().as_encoded_bytes().to_vec(),
        mode: 0o750,
        bytes: bytes.to_vec(),
    };
    let path = directory.path().join("program");
    assert_eq!(agent.ask(&put(&path, b"#!/bin/sh\n")), Reply::Written);
    assert_eq!(agent.ask(&put(&path, b"exit 4\n")), Reply::Written);
    agent.begin(command(&[path.to_str().unwrap()]));
    assert_eq!(agent.ended().status, Status::Exit(4));
    let absent = directory.path().join("no/such/directory");
    assert!(what(agent.ask(&put(&absent, b""))).starts_with("cannot write `"));
    assert!(agent.stop().success());
}

/// Everything that a relayed process prints until its end, and how that was.
fn relayed(agent: &mut Agent) -> (Vec<u8>, Status, Vec<u8>) {
    relayed_to(agent.link.listener.as_mut())
}

fn relayed_to(listener: &mut dyn Listener) -> (Vec<u8>, Status, Vec<u8>) {
    let mut printed = Vec::new();
    loop {
        match listener.receive(DEADLINE).unwrap().reply {
            Reply::Data(bytes) => printed.extend(bytes),
            Reply::RelayEnded { status, stderr } => return (printed, status, stderr),
            other => panic!("instead of relayed bytes came {other:?}"),
        }
    }
}

#[test]
fn a_relayed_process_may_print_before_it_reads_and_leave_others_behind() {
    let mut agent = Agent::start();
    let script = "sleep 0.2; head -c 500000 /dev/zero; wc -c; echo bye >&2; exit 6";
    agent.link.send(&Request::Relay(shell(script))).unwrap();
    let Link { speaker, listener } = &mut agent.link;
    // What is more than the agent keeps waits for who must be heard first: a host speaks and
    // listens at once.
    let (printed, status, stderr) = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                speaker.send(&Request::Data(vec![b'x'; 4096])).unwrap();
            }
            speaker.send(&Request::CloseRelay).unwrap();
        });
        relayed_to(listener.as_mut())
    });
    assert_eq!((status, stderr.as_slice()), (Status::Exit(6), b"bye\n".as_slice()));
    assert_eq!(&printed[500_000..], b"409600\n");

    let began = monotonic_raw();
    agent.link.send(&Request::Relay(shell("sleep 71.004 & echo here"))).unwrap();
    let (printed, status, _) = relayed(&mut agent);
    assert_eq!((printed.as_slice(), status), (b"here\n".as_slice(), Status::Exit(0)));
    assert!(monotonic_raw().since(began) < Nanoseconds(15_000_000_000));
    assert!(agent.stop().success());
    assert!(!remains("71.004"));
}

#[test]
fn a_relayed_shell_gets_a_terminal_of_the_size_that_is_told() {
    let mut agent = Agent::start();
    let command = Command { terminal: true, ..shell("read line; stty size; tty; exit 2") };
    agent.link.send(&Request::Relay(command)).unwrap();
    agent.link.send(&Request::Resize { rows: 33, columns: 77 }).unwrap();
    agent.link.send(&Request::Data(b"go\n".to_vec())).unwrap();
    let (printed, status, _) = relayed(&mut agent);
    let printed = String::from_utf8_lossy(&printed);
    assert_eq!(status, Status::Exit(2), "{printed}");
    assert!(printed.contains("33 77") && printed.contains("/dev/pts/"), "{printed}");
    assert!(agent.stop().success());
}

#[test]
fn it_says_what_it_sees_and_what_time_it_is() {
    let mut agent = Agent::start();
    let before = monotonic_raw();
    let Reply::Clock { at, .. } = agent.ask(&Request::Clock) else { panic!("no time") };
    assert!(before <= at && at <= monotonic_raw(), "one kernel, one clock");
    let Reply::Identity(facts) = agent.ask(&Request::Identify) else { panic!("no facts") };
    let fact = |key: &str| facts.iter().find(|fact| fact.key == key).map(|fact| fact.value.clone());
    let mut release = String::new();
    File::open("/proc/sys/kernel/osrelease").unwrap().read_to_string(&mut release).unwrap();
    assert_eq!(fact("kernel_release").as_deref(), Some(release.trim()));
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    assert_eq!(fact("namespace_pid").as_deref(), namespace.to_str());
    assert!(agent.stop().success());
}
