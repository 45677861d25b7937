//! An agent under a lease, as on another machine: it leaves nothing behind when nobody is heard.

use crate::machine::Machine;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};
use surtax_instrument::wire::{
    Command, Opener, PUSHED_STARTER, Reply, Request, Sealer, hosts, read_reply, write_request,
};

/// The lease of these agents.
const LEASE: Duration = Duration::from_secs(1);

/// Time that an agent may take beyond its lease, on a machine that does other things.
const GRACE: Duration = Duration::from_secs(4);

/// An agent that was started from a file of its own.
struct Leased {
    child: Child,
    session: (Sealer, Opener),
    file: PathBuf,
    _directory: tempfile::TempDir,
    /// Turn of the test: another test's census would count the agent.
    machine: Machine,
}

impl Leased {
    fn start() -> Self {
        let machine = Machine::take();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("XXXX/surtax-agent");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::copy(env!("SURTAX_AGENT"), &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        let seconds = LEASE.as_secs().to_string();
        let mut process = Process::new(&file);
        process.args(["leased", &seconds]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A test that forks at this moment holds the file open for writing, until it has started
        // its own.
        let child = (0..100).find_map(|_| match process.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
                None
            }
            spawned => Some(spawned.unwrap()),
        });
        let (child, session) = (child.unwrap(), hosts().unwrap());
        let mut leased = Self { child, session, file, _directory: directory, machine };
        assert!(matches!(leased.receive(), Reply::Hello(_)));
        leased
    }

    fn send(&mut self, request: &Request) {
        let to = self.child.stdin.as_mut().unwrap();
        write_request(to, &mut self.session.0, request).unwrap();
    }

    fn receive(&mut self) -> Reply {
        read_reply(self.child.stdout.as_mut().unwrap(), &mut self.session.1).unwrap()
    }

    fn is_there(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Requires that it ends within its lease, and not at once.
    fn ends_by_itself(mut self) {
        let began = Instant::now();
        while self.is_there() {
            assert!(began.elapsed() < LEASE + GRACE, "it is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.machine.assert_as_before();
        }
    }
}

fn shell(script: &str) -> Command {
    Command {
        argv: [b"sh".as_slice(), b"-c", script.as_bytes()].map(<[u8]>::to_vec).to_vec(),
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        cwd: b"/".to_vec(),
        keep_bytes: 8,
        ..Command::default()
    }
}

/// Tells whether a process has this word on its command line.
fn runs(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|argument| argument == word)
    })
}

#[test]
fn its_file_and_directory_are_gone_when_it_says_hello() {
    let leased = Leased::start();
    assert!(!leased.file.parent().unwrap().exists());
}

#[test]
fn it_lives_as_long_as_it_hears_its_host_and_kills_its_command_when_it_does_not() {
    let mut leased = Leased::start();
    leased.send(&Request::Run(shell("sleep 98765.25")));
    assert!(matches!(leased.receive(), Reply::Started { .. }));
    leased.send(&Request::Go);
    let began = Instant::now();
    while began.elapsed() < 3 * LEASE {
        std::thread::sleep(LEASE / 5);
        leased.send(&Request::KeepAlive);
        assert!(leased.is_there(), "it left after {:?}", began.elapsed());
    }
    assert!(runs("98765.25"));
    leased.ends_by_itself();
    assert!(!runs("98765.25"), "the command outlived the lease");
}

#[test]
fn a_host_that_is_lost_in_the_middle_of_a_frame_is_not_waited_for() {
    let mut leased = Leased::start();
    leased.child.stdin.as_mut().unwrap().write_all(&[200, 0, 0]).unwrap();
    leased.ends_by_itself();
}

#[test]
fn a_host_that_takes_no_answers_is_lost_only_when_it_says_nothing_either() {
    let mut leased = Leased::start();
    leased.send(&Request::Relay(shell("yes 98765.5 98765.5")));
    let began = Instant::now();
    while began.elapsed() < 3 * LEASE {
        std::thread::sleep(LEASE / 5);
        leased.send(&Request::KeepAlive);
        assert!(leased.is_there(), "it left after {:?}", began.elapsed());
    }
    assert!(runs("98765.5"));
    // A pipe that nobody empties is full by now; it must not keep the agent.
    leased.ends_by_itself();
    assert!(!runs("98765.5"), "the relayed process outlived the lease");
}

#[test]
fn a_starter_is_no_file_there_and_may_take_its_stack_away_when_the_host_is_gone() {
    let mut leased = Leased::start();
    let proof = tempfile::tempdir().unwrap();
    let tidied = proof.path().join("tidied");
    // In the place of a starter: it ends at the end of its input, and needs a moment.
    let script = format!("cat; sleep 0.5; echo > {}", tidied.display());
    for half in fs::read("/bin/sh").unwrap().chunks(60_000) {
        let (path, mode) = (PUSHED_STARTER.as_bytes().to_vec(), 0o755);
        leased.send(&Request::Put { path, mode, bytes: half.to_vec() });
        assert_eq!(leased.receive(), Reply::Written);
    }
    assert!(!std::path::Path::new(PUSHED_STARTER).exists());
    let mut command = shell(&script);
    command.argv[0] = PUSHED_STARTER.as_bytes().to_vec();
    leased.send(&Request::Relay(command));
    leased.send(&Request::Data(b"ready".to_vec()));
    assert_eq!(leased.receive(), Reply::Data(b"ready".to_vec()));
    drop(leased.child.stdin.take());
    let mut rest = Vec::new();
    leased.child.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
    assert!(tidied.exists(), "it was killed before it could tidy up");
}
