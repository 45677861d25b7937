//! One suite that every layer passes, through the library and on the real machine.
//!
//! `check` changes nothing; a start that fails half-way leaves nothing; `stop` leaves nothing, also
//! after SIGKILL of the payload; payers are alive between; two at once do not disturb each other.
//! `slow_suite.rs` is the same for virtual machines of other kinds, and for stacks of more than one
//! layer.

use crate::golden;
use crate::machine::{Machine, is_usable};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::driver;
use surtax::fault::Fault;
use surtax::lab::Lab;
use surtax::stack::start::{RunningStack, StartContext};
use surtax_instrument::wire::{Command, LevelFacts, Outcome, Reply, Request, Status};

/// The layers, and one stack of each.
macro_rules! conformance {
    ($($name:ident: $stack:literal),* $(,)?) => {
        const CONFORMING: &[&str] = &[$($stack),*];
        $(
        mod $name {
            #[test]
            fn a_command_runs_there_and_nothing_is_left() {
                super::a_command_runs_there_and_nothing_is_left($stack);
            }
            #[test]
            fn a_start_that_is_given_up_leaves_nothing() {
                super::a_start_that_is_given_up_leaves_nothing($stack);
            }
            #[test]
            fn nothing_is_left_after_its_payload_was_killed() {
                super::nothing_is_left_after_its_payload_was_killed($stack);
            }
            #[test]
            fn two_at_once_do_not_disturb_each_other() {
                super::two_at_once_do_not_disturb_each_other($stack);
            }
        }
        )*
    };
}
// Their kinds are those that `make test` requires: the Makefile reads these lines.
conformance! {
    native: "native",
    native_direct: "native:root=host",
    namespaces: "namespaces",
    namespaces_all: "namespaces:user=private,time=private",
    bubblewrap: "bubblewrap",
    runc: "runc",
    runc_veth: "runc:net=veth",
    crun: "crun",
    nspawn: "nspawn",
    nspawn_veth: "nspawn:net=veth",
    nspawn_init: "nspawn:init=systemd,net=bridge",
    lxc: "lxc",
    lxc_veth: "lxc:net=veth",
    lxc_init: "lxc:init=systemd",
    lxc_users: "lxc:user=private",
    lxc_busybox: "lxc:init=busybox",
    lxd: "lxd",
    lxd_veth: "lxd:user=host,net=veth",
    gvisor: "gvisor",
    gvisor_ptrace: "gvisor:platform=ptrace",
    gvisor_sandbox: "gvisor:net=sandbox",
    docker: "docker",
    docker_host_network: "docker:net=host",
    docker_user_network: "docker:net=user",
    docker_macvlan: "docker:net=macvlan",
    docker_rootless: "docker:rootless=on,storage=overlay2",
    docker_btrfs: "docker:storage=btrfs",
    docker_crun: "docker:runtime=crun",
    docker_runsc: "docker:runtime=runsc",
    podman: "podman",
    podman_bridge: "podman:net=bridge",
    podman_crun: "podman:runtime=crun,net=user,publish=8088",
    podman_runsc: "podman:runtime=runsc",
    podman_storage: "podman:storage=overlay2,scratch=layer",
    podman_rootless: "podman:rootless=on,net=slirp4netns",
    qemu_q35: "qemu:accel=tcg,machine=q35,cpus=1,memory=512M",
    appliance_with_a_client: "appliance:arceos-echo,accel=tcg",
}

/// Kinds that are tried elsewhere, each with the reason.
const ELSEWHERE: [(&str, &str); 8] = [
    ("cloud-hypervisor", "it needs KVM: monitors.rs"),
    ("firecracker", "it needs KVM: monitors.rs"),
    ("krun", "it needs KVM: lab.rs has it in a guest"),
    ("libvirt", "it borrows a domain of somebody else's: libvirt.rs"),
    ("simulated", "it starts nothing: simulated.rs"),
    ("ssh", "it needs another machine: ssh.rs makes one"),
    ("xen", "it needs a machine under Xen: slow_suite.rs boots one"),
    ("youki", "Debian has none: it is a descriptor of what runc and crun are"),
];

#[test]
fn every_kind_passes_the_suite_or_says_where_it_is_tried() {
    let conforming = CONFORMING.iter().filter_map(|stack| stack.split(':').next());
    let tried: Vec<&str> = conforming.chain(ELSEWHERE.iter().map(|(kind, _)| *kind)).collect();
    for layer in driver::REGISTRY {
        let kind = layer.descriptor().kind;
        assert!(tried.contains(&kind), "`{kind}` passes no suite: put it into `conformance!`");
    }
}

/// Stacks whose command line is shown on the page of their kind.
const SHOWN: [&str; 8] = [
    "bubblewrap",
    "runc",
    "crun",
    "nspawn",
    "lxc",
    "gvisor",
    "qemu:accel=tcg,machine=q35,cpus=1,memory=512M",
    "appliance:arceos-echo,accel=tcg",
];

/// A unikernel has no agent and no shell: it is told lines of its own. What a file, a second output
/// stream or a signal would show cannot be asked there; all else holds.
mod appliance {
    const STACK: &str = "appliance:arceos,accel=tcg";

    #[test]
    fn a_line_is_answered_there_and_nothing_is_left() {
        super::a_line_is_answered_there_and_nothing_is_left(STACK);
    }
    #[test]
    fn a_start_that_is_given_up_leaves_nothing() {
        super::a_start_that_is_given_up_leaves_nothing(STACK);
    }
    #[test]
    fn nothing_is_left_after_its_payload_was_killed() {
        super::nothing_is_left_after_its_payload_was_killed(STACK);
    }
    #[test]
    fn two_at_once_do_not_disturb_each_other() {
        super::two_at_once_do_not_disturb_each_other(STACK);
    }
}

/// Opens a lab whose reaper and starters are the built binary.
pub fn lab() -> Lab {
    Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).unwrap()
}

pub fn start(
    lab: &Lab,
    stack: &str,
    name: &str,
    deadline: Duration,
) -> Result<RunningStack, Fault> {
    let agent = lab.agent()?;
    let cache = surtax::lab::cache_directory()?;
    let writable: Vec<PathBuf> = Vec::new();
    let packed = command(stack, "true");
    let context = StartContext {
        lab,
        level: 0,
        agent: &agent,
        cache: &cache,
        writable: &writable,
        cwd: Path::new("/"),
        command: Some(&packed),
        network: None,
        start_deadline: deadline,
    };
    let spec = driver::parse(stack)?;
    match spec.start(&context, name) {
        // QEMU 7.2 translates with a thread per CPU, and about once in a thousand starts one of
        // them reads through a null pointer. A trial is tried once more then, and so are we.
        Err(fault) if fault.message.contains("itself was ended by signal 11") => {
            println!("once more: {fault}");
            spec.start(&context, &format!("{name}-again"))
        }
        started => started,
    }
}

const DEADLINE: Duration = Duration::from_secs(60);

/// A script for whoever takes it in this stack: a shell; one that has its tools in itself, where
/// nothing else is packed; or an appliance, for which it is one line.
fn command(stack: &str, script: &str) -> Command {
    let words: Vec<&str> = if stack.starts_with("appliance:") && !stack.contains("echo") {
        script.split(' ').collect()
    } else if stack.contains("root=packed") {
        vec!["busybox", "sh", "-c", script, "/etc/os-release"]
    } else {
        vec!["sh", "-c", script]
    };
    Command {
        argv: words.into_iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: vec![(b"PATH".to_vec(), b"/usr/sbin:/usr/bin:/sbin:/bin".to_vec())],
        cwd: b"/".to_vec(),
        keep_bytes: 4096,
        ..Command::default()
    }
}

pub fn run(running: &mut RunningStack, script: &str) -> Result<Outcome, Fault> {
    let innermost = running.evidence().last().map(|level| level.layer.clone());
    let mut command = command(&innermost.unwrap_or_default(), script);
    running.tell(&mut command);
    let link = running.link()?;
    link.send(&Request::Run(command))?;
    link.send(&Request::Go)?;
    loop {
        match link.receive(DEADLINE)?.reply {
            Reply::Exited(outcome) => return Ok(*outcome),
            Reply::Failed(failure) => return Err(Fault::machine(failure.what)),
            _ => {}
        }
    }
}

/// The doctor checks every layer.
#[test]
fn check_changes_nothing() {
    let machine = Machine::take();
    machine.json(&["doctor", "--format", "json"]);
    machine.assert_as_before();
}

fn a_command_runs_there_and_nothing_is_left(stack: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let lab = lab();
    let mut running = start(&lab, stack, "conformance", DEADLINE).unwrap();
    assert!(!running.payers().is_empty(), "somebody must pay");
    assert!(running.evidence().iter().all(|level| !level.facts.is_empty()));
    hold_command_line(stack, running.evidence().last().unwrap());
    let outcome =
        run(&mut running, "echo inside; echo there >&2; cat /etc/os-release > /dev/null").unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "{outcome:?}");
    assert_eq!(outcome.stdout.tail, b"inside\n");
    assert_eq!(outcome.stderr.tail, b"there\n");
    assert!(run(&mut running, "exit 7").unwrap().status == Status::Exit(7));
    assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    machine.assert_as_before();
}

/// Holds the command line that started the level of a shown stack against its golden file, which is
/// what the page of its kind shows: without what is this machine's or this lab's own.
fn hold_command_line(stack: &str, level: &LevelFacts) {
    if !SHOWN.contains(&stack) {
        return;
    }
    let keys = ["tool_command_line", "runtime_command_line", "qemu_command_line"];
    let line = level.facts.iter().find(|fact| keys.contains(&fact.key.as_str())).unwrap();
    let kind = stack.split(':').next().unwrap();
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own = [
        (r"^\S*/", ""),
        (r"surtax-[0-9a-f]{8}-conformance", "NAME"),
        (r"tsc_early_khz=[0-9]+", "tsc_early_khz=KHZ"),
        (&*format!("(hostname[= ]){}", regex::escape(&host_name)), "${1}HOST"),
    ];
    let line = own.iter().fold(line.value.clone(), |line, (pattern, word)| {
        Regex::new(pattern).unwrap().replace_all(&line, *word).into_owned()
    });
    golden::hold("command_lines", &format!("{kind}.txt"), &format!("{stack}\n{line}\n"));
}

fn a_line_is_answered_there_and_nothing_is_left(stack: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let lab = lab();
    let mut running = start(&lab, stack, "conformance", DEADLINE).unwrap();
    assert!(!running.payers().is_empty(), "somebody must pay");
    assert!(running.evidence().iter().all(|level| !level.facts.is_empty()));
    let outcome = run(&mut running, "primes 1000").unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "{outcome:?}");
    assert_eq!(outcome.stdout.tail, b"168\n");
    assert!(outcome.memory_peak.0 > 1 << 20, "{outcome:?}");
    assert_eq!(run(&mut running, "exit 7").unwrap().status, Status::Exit(7));
    assert_eq!(run(&mut running, "no-such-command").unwrap().status, Status::Exit(127));
    assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    machine.assert_as_before();
}

fn a_start_that_is_given_up_leaves_nothing(stack: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let lab = lab();
    let started = start(&lab, stack, "given-up", Duration::ZERO);
    assert!(started.is_err(), "nothing starts in no time");
    lab.close().unwrap();
    machine.assert_as_before();
}

fn nothing_is_left_after_its_payload_was_killed(stack: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let lab = lab();
    let mut running = start(&lab, stack, "killed", DEADLINE).unwrap();
    lab.kill_everything();
    assert!(run(&mut running, "true").is_err(), "a killed payload answers nothing");
    let _ = running.stop();
    lab.close().unwrap();
    machine.assert_as_before();
}

fn two_at_once_do_not_disturb_each_other(stack: &str) {
    let machine = Machine::take();
    if !is_usable(&machine, stack) {
        return;
    }
    let lab = lab();
    let mut first = start(&lab, stack, "first", DEADLINE).unwrap();
    let mut second = start(&lab, stack, "second", DEADLINE).unwrap();
    let outcome = run(&mut first, "true").unwrap();
    assert_eq!(outcome.status, Status::Exit(0));
    first.stop().unwrap();
    let outcome = run(&mut second, "true").unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "the second outlives the first");
    second.stop().unwrap();
    lab.close().unwrap();
    machine.assert_as_before();
}
