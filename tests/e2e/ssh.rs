//! Another machine by ssh: a real `sshd` on this one, which is therefore its own far side.

use crate::answers::{arm, compare, fact};
use crate::machine::{
    Machine, children_named, is_usable, parent, pids, process, skip, ssh_connection, text, turn_at,
};
use crate::suite::{lab, run, start};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surtax::layer::Source;
use surtax::stack::start::RunningStack;
use surtax_instrument::wire::Status;

/// Path of Debian's `sshd`.
const SSHD: &str = "/usr/sbin/sshd";

/// Empty directory that it wants, which its service makes.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// Argument of `sleep` in the commands that nobody waits for, in seconds.
const SLEEP: &str = "98765.75";

/// Time limit of a start here.
const DEADLINE: Duration = Duration::from_secs(60);

/// The lease of an agent on another machine, and what it may take to leave.
const GONE_AFTER: Duration = Duration::from_secs(20 + 15);

/// An `sshd` of the test's own.
pub struct Sshd {
    child: Child,
    directory: PathBuf,
    address: String,
    port: u16,
    made_directory: bool,
    /// Turn of all tests that look for traces of agents there.
    _turn: fs::File,
    /// Traces of agents there, from before the test.
    before: BTreeSet<String>,
}

impl Sshd {
    /// Starts one with its own keys; `None` where there is no `sshd`, which was said.
    fn start(machine: &Machine) -> Option<Self> {
        Self::start_at(machine, "127.0.0.1", &[], "")
    }

    /// The same at another address of this machine's, by a command that leads to where that is, and
    /// with further lines of its configuration.
    pub fn start_at(machine: &Machine, address: &str, by: &[String], lines: &str) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            skip("ssh", "there is no `/usr/sbin/sshd`: apt-get install openssh-server");
            return None;
        }
        let turn = turn_at("ssh");
        let directory = machine.path("sshd");
        fs::create_dir(&directory).unwrap();
        for key in ["host_key", "user_key", "other_key"] {
            let file = directory.join(key);
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
                .arg(file)
                .status();
            assert!(made.unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = directory.display();
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {place}/host_key\n\
             AuthorizedKeysFile {place}/user_key.pub\nPidFile none\nUsePAM no\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPrintMotd no\nPrintLastLog no\n{lines}"
        );
        fs::write(directory.join("sshd_config"), config).unwrap();
        fs::write(directory.join("ssh_config"), "").unwrap();
        for key in ["host_key", "other_key"] {
            let public = fs::read_to_string(directory.join(format!("{key}.pub"))).unwrap();
            let line = format!("[{address}]:{port} {public}");
            fs::write(directory.join(format!("known_{key}")), line).unwrap();
        }
        let mut maker = fs::DirBuilder::new();
        let made_directory = maker.mode(0o755).create(PRIVILEGE_SEPARATION).is_ok();
        let before = far_side(port);
        let words = by.iter().map(String::as_str).chain([SSHD, "-D", "-e", "-f"]);
        let words: Vec<&str> = words.collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(directory.join("sshd_config"))
            .stderr(fs::File::create(directory.join("log")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let address = address.to_owned();
        let sshd = Self { child, directory, address, port, made_directory, _turn: turn, before };
        let began = Instant::now();
        while !sshd.log().contains("Server listening on ") {
            assert!(began.elapsed() < Duration::from_secs(10), "{}", sshd.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// The layer that leads there.
    pub fn stack(&self) -> String {
        self.stack_with(self.port, "known_host_key")
    }

    fn stack_with(&self, port: u16, known: &str) -> String {
        let place = self.directory.display();
        format!(
            "ssh:{},user=root,port={port},identity={place}/user_key,\
             known-hosts={place}/{known},config={place}/ssh_config",
            self.address
        )
    }

    /// Lists the agents and starters there that were not there before.
    pub fn left(&self) -> Vec<String> {
        far_side(self.port).difference(&self.before).cloned().collect()
    }

    #[track_caller]
    fn assert_left_within(&self, limit: Duration) {
        let began = Instant::now();
        while !self.left().is_empty() {
            assert!(began.elapsed() < limit, "still there: {:#?}", self.left());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.made_directory {
            let _ = fs::remove_dir(PRIVILEGE_SEPARATION);
        }
    }
}

/// Processes that came by the `sshd` of this port, agents under a lease, starters and our long
/// commands on this machine, and directories of agents; but for what another test started on this
/// side.
fn far_side(port: u16) -> BTreeSet<String> {
    let end = format!(" {port}");
    let mut found = BTreeSet::new();
    for pid in pids() {
        let line = text(&fs::read(process(pid).join("cmdline")).unwrap_or_default());
        let words: Vec<&str> = line.split('\0').collect();
        let is_far = match words.as_slice() {
            [agent, "leased", ..] => agent.ends_with("surtax-agent"),
            [_, "__starter", ..] | ["sleep", SLEEP, ..] => true,
            _ => false,
        };
        let came = ssh_connection(pid).is_some_and(|connection| connection.ends_with(&end));
        if came || is_far && !is_of_another_test(pid) {
            found.insert(format!("process {pid} {words:?}"));
        }
    }
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let random = name.strip_prefix("surtax-").unwrap_or_default();
            if random.len() == 10 && entry.path().is_dir() {
                found.insert(format!("directory {}", entry.path().display()));
            }
        }
    }
    found
}

/// Tells whether another test, or an engine's daemon on this side, stands above a process.
fn is_of_another_test(pid: u32) -> bool {
    let above = std::iter::successors(parent(pid), |pid| parent(*pid));
    let mut above = above.take_while(|pid| *pid > 1 && *pid != std::process::id());
    above.any(|pid| {
        let exe = fs::read_link(process(pid).join("exe")).unwrap_or_default();
        let name = exe.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ["e2e-", "containerd-shim", "conmon"].iter().any(|begin| name.starts_with(begin))
    })
}

/// A visit that waits there for a long command.
struct Visit {
    child: Child,
    client: Pid,
}

impl Visit {
    /// Begins one, and waits until its command runs.
    fn begin(machine: &Machine, sshd: &Sshd, stack: &str) -> Self {
        let before = sleepers(sshd);
        let child = machine.start(&["enter", stack, "--", "sleep", SLEEP]);
        let began = Instant::now();
        while sleepers(sshd) == before {
            assert!(began.elapsed() < DEADLINE, "it does not run: {:#?}", sshd.left());
            std::thread::sleep(Duration::from_millis(20));
        }
        let clients = children_named(child.id(), "StrictHostKeyChecking=yes");
        let [client] = clients.as_slice() else { panic!("{clients:?}") };
        Self { client: Pid::from_raw(i32::try_from(*client).unwrap()).unwrap(), child }
    }

    fn signal_client(&self, signal: Signal) {
        kill_process(self.client, signal).unwrap();
    }

    /// Waits for the end of one whose link is lost.
    fn fails(self) {
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    }
}

/// Counts the long commands that run there.
fn sleepers(sshd: &Sshd) -> usize {
    sshd.left().iter().filter(|line| line.contains(SLEEP)).count()
}

#[test]
fn a_command_runs_on_another_machine_and_nothing_is_left_there() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    let lab = lab();
    let mut running = start(&lab, &sshd.stack(), "far", DEADLINE).unwrap();
    let script = "echo inside; echo there >&2; exit 7";
    let outcome = run(&mut running, script).unwrap();
    assert_eq!(outcome.status, Status::Exit(7), "{outcome:?}");
    assert_eq!((outcome.stdout.tail, outcome.stderr.tail), (b"inside\n".into(), b"there\n".into()));

    let said = |key: &str| {
        let facts = &running.evidence()[0].facts;
        facts.iter().find(|fact| fact.key == key).unwrap().value.clone()
    };
    let listed =
        Command::new("ssh-keygen").arg("-lf").arg(sshd.directory.join("host_key")).output();
    let fingerprint = text(&listed.unwrap().stdout).split(' ').nth(1).unwrap().to_owned();
    assert_eq!(said("host_key"), format!("ssh-ed25519 {fingerprint}"));
    assert_eq!(said("machine"), "this level's own", "the test's other machine is this one");
    assert_eq!((said("user"), said("user_id")), ("root".into(), "0".into()));

    assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    assert_eq!(sshd.left(), [""; 0]);
    machine.assert_as_before();
}

#[test]
fn a_comparison_and_a_visit_go_to_another_machine_too() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    let stacks = format!("native,{}", sshd.stack());
    let output = machine.surtax(&compare(&stacks, "1", &["uname", "-r"]));
    let said = text(&output.stderr);
    assert!(said.contains("writes to the other machine's own files"), "{said}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let far = answer["arms"].as_array().unwrap().last().unwrap();
    assert_eq!(far["trial_count"], 1, "{}", far["trouble"]);
    assert!(far["stack"].as_str().unwrap().starts_with("ssh:config="), "{}", far["stack"]);
    assert_eq!(far["stdout_hashes"], arm(&answer, "native")["stdout_hashes"], "one kernel");
    assert_eq!(fact(&far["evidence"][0], "root"), "host");

    let visit = machine.surtax(&["enter", &sshd.stack(), "--", "sh", "-c", "echo here; exit 3"]);
    assert_eq!(visit.status.code(), Some(3), "{}", text(&visit.stderr));
    assert_eq!(text(&visit.stdout), "here\n");
    assert_eq!(sshd.left(), [""; 0]);
    machine.assert_as_before();
}

#[test]
fn a_host_whose_key_is_not_known_or_another_is_refused_with_what_helps() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    for (known, why, help) in [
        ("none", "Host key verification failed", "connect once by hand and compare"),
        ("known_other_key", "IDENTIFICATION HAS CHANGED", "whether its key was renewed"),
    ] {
        let stack = sshd.stack_with(sshd.port, known);
        // Asked before anything is started, and again where nobody asks.
        for arguments in [
            ["compare", "--in", &stack, "--baseline", &stack, "--runs", "1", "--", "true"]
                .as_slice(),
            &["enter", &stack, "--", "true"],
        ] {
            let output = machine.surtax(arguments);
            let said = text(&output.stderr) + &text(&output.stdout);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(why) && flat.contains(help), "{said}");
        }
    }
    assert_eq!(sshd.left(), [""; 0]);
    machine.assert_as_before();
}

#[test]
fn a_port_where_nobody_listens_or_nobody_answers_is_said_in_time() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    // Whoever connects is let in by the kernel, and hears nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    for (port, why) in [(1, "Connection refused"), (silent_port, "timed out")] {
        let began = Instant::now();
        let stack = sshd.stack_with(port, "known_host_key");
        let output = machine.surtax(&["enter", &stack, "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(why) && said.contains("correct the host or its port"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(25), "it took {:?}", began.elapsed());
    }
    let lab = lab();
    let stack = sshd.stack_with(silent_port, "known_host_key");
    let given_up = start(&lab, &stack, "silent", Duration::from_secs(2)).map(drop).unwrap_err();
    assert!(given_up.message.contains("within 2.0 s"), "{given_up}");
    let given_up = start(&lab, &sshd.stack(), "no-time", Duration::ZERO);
    assert!(given_up.is_err(), "nothing starts in no time");
    lab.close().unwrap();
    sshd.assert_left_within(DEADLINE);
    machine.assert_as_before();
}

#[test]
fn a_container_behind_another_machine() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    if !is_usable(&machine, "runc") {
        return;
    }
    let stack = sshd.stack() + "+runc";
    let script = "echo inside; touch /surtax-test-of-writes; exit 5";
    let visit = machine.surtax(&["enter", &stack, "--", "sh", "-c", script]);
    assert_eq!(visit.status.code(), Some(5), "{}", text(&visit.stderr));
    assert_eq!(text(&visit.stdout), "inside\n");
    assert!(!text(&visit.stderr).contains("removed by force"), "{}", text(&visit.stderr));
    assert!(!Path::new("/surtax-test-of-writes").exists(), "a layer behind throws writes away");
    assert!(!Path::new("/surtax-starter").exists(), "the starter is no file there");

    let answer = machine.json(&[
        "compare", "--in", &stack, "--baseline", "simulated", "--runs", "1", "--format", "json",
        "--", "true",
    ]);
    let far = answer["arms"].as_array().unwrap().last().unwrap();
    assert_eq!(far["trial_count"], 1, "{}", far["trouble"]);
    assert_eq!(far["evidence"].as_array().unwrap().len(), 2);
    assert_eq!(sshd.left(), [""; 0]);
    machine.assert_as_before();
}

/// The client is the one who pays here.
fn client_of(running: &RunningStack) -> Pid {
    match running.payers()[0].source {
        Source::Process(pid) => Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
        ref other => panic!("the client is a process, not {other:?}"),
    }
}

#[test]
fn a_trial_whose_link_is_cut_fails_and_leaves_nothing_on_the_other_machine() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    let lab = lab();
    let mut running = start(&lab, &sshd.stack(), "trial", DEADLINE).unwrap();
    let client = client_of(&running);
    let cut = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        kill_process(client, Signal::KILL).unwrap();
    });
    let lost = run(&mut running, &format!("sleep {SLEEP}")).unwrap_err();
    assert!(lost.message.contains("the agent is gone"), "{lost}");
    cut.join().unwrap();
    sshd.assert_left_within(GONE_AFTER);
    let _ = running.stop();
    lab.close().unwrap();
    machine.assert_as_before();
}

#[test]
fn a_link_that_is_cut_leaves_nothing_on_the_other_machine() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    for behind in ["", "+runc"] {
        let visit = Visit::begin(&machine, &sshd, &(sshd.stack() + behind));
        visit.signal_client(Signal::KILL);
        sshd.assert_left_within(GONE_AFTER);
        visit.fails();
        machine.assert_as_before();
    }
}

#[test]
fn a_link_that_falls_silent_leaves_nothing_on_the_other_machine_when_the_lease_is_over() {
    let machine = Machine::take();
    let Some(sshd) = Sshd::start(&machine) else { return };
    let stacks = [sshd.stack(), sshd.stack() + "+runc"];
    let visits = stacks.each_ref().map(|stack| Visit::begin(&machine, &sshd, stack));
    // Longer than the lease: what renews it is that we are heard.
    std::thread::sleep(Duration::from_secs(25));
    assert_eq!(sleepers(&sshd), 2);
    for visit in &visits {
        // The connection stays, and nothing comes through it: as when a cable is pulled.
        visit.signal_client(Signal::STOP);
    }
    sshd.assert_left_within(GONE_AFTER);
    for visit in visits {
        visit.signal_client(Signal::KILL);
        visit.fails();
    }
    machine.assert_as_before();
}
