//! Reach of a command into the process that started it: its agent, by every way that a kernel has
//! into a process.
//!
//! The command is this very program: [`tries_every_way_into_its_agent`], which opens what it can,
//! changes nothing, and says what it found on its standard error.

use crate::answers::{alone, arm};
use crate::machine::{Machine, is_usable, text};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getppid, pidfd_getfd, pidfd_open};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Every way, in the order in which it is tried.
const WAYS: [&str; 8] =
    ["attach", "seize", "readv", "writev", "mem-read", "mem-write", "fd-names", "getfd"];

/// The command that this program is, as its own test's name.
const TRIES: &str = "shut::tries_every_way_into_its_agent";

/// Whom it tries, where that is not its parent.
const TARGET: &str = "SURTAX_TEST_TARGET";

/// Word before each line that it says.
const SAYS: &str = "way ";

/// Layers in which an agent is out of its command's reach, every way.
const SHUT: [&str; 6] = ["runc", "crun", "bubblewrap", "docker", "podman", "gvisor"];

/// Layers in which its command runs as root with `CAP_SYS_PTRACE` over it, and can do all of it.
const OPEN: [&str; 5] = ["native", "namespaces", "lxc", "nspawn", "qemu:accel=tcg"];

/// Layer whose filter of system calls takes a way from a command that has the capability for it,
/// and the way.
const FILTERED: (&str, &str) = ("nspawn", "getfd");

/// Tells whether a way is shut because nobody may take it, and for no other reason.
fn is_forbidden(what: &str) -> bool {
    what.starts_with("shut")
        && ["(os error 1)", "(os error 13)"].iter().any(|it| what.ends_with(it))
}

/// No test: what a stack runs. It ends with 1, so that what it says is kept.
#[test]
#[ignore = "is run as a command, by the tests beside it"]
fn tries_every_way_into_its_agent() {
    let target = std::env::var(TARGET).ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let target = target.or_else(getppid).expect("a command has a parent");
    for way in WAYS {
        match attempt(way, target) {
            Ok(()) => eprintln!("{SAYS}{way} open"),
            Err(error) => eprintln!("{SAYS}{way} shut {error}"),
        }
    }
    std::process::exit(1);
}

fn attempt(way: &str, target: Pid) -> io::Result<()> {
    let pid = target.as_raw_nonzero().get();
    let mut word = [0; 8];
    match way {
        "attach" => attach(pid),
        "seize" => traced(libc::PTRACE_SEIZE, pid).and_then(|()| {
            traced(libc::PTRACE_INTERRUPT, pid)?;
            leave(pid)
        }),
        "readv" => across(libc::SYS_process_vm_readv, pid, address(pid), &mut word),
        // What is written is what was read: it changes nothing.
        "writev" => across(libc::SYS_process_vm_readv, pid, address(pid), &mut word)
            .and_then(|()| across(libc::SYS_process_vm_writev, pid, address(pid), &mut word)),
        "mem-read" => memory(pid, false)?.read_exact_at(&mut word, address(pid)),
        "mem-write" => {
            let memory = memory(pid, true)?;
            memory.read_exact_at(&mut word, address(pid))?;
            memory.write_all_at(&word, address(pid))
        }
        "fd-names" => {
            let mut names = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
            let first = names.next().ok_or_else(|| io::Error::other("there is none"))??;
            std::fs::read_link(first.path()).map(drop)
        }
        "getfd" => {
            let process = pidfd_open(target, PidfdFlags::empty())?;
            pidfd_getfd(&process, 0, PidfdGetfdFlags::empty())?;
            Ok(())
        }
        other => panic!("no way `{other}`"),
    }
}

/// Returns an address in its stack. Where that is not said, one that no process has: permission is
/// checked before the address.
fn address(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let stack = maps.lines().find(|line| line.ends_with("[stack]"));
    let end = stack.and_then(|line| line.split(['-', ' ']).nth(1));
    end.and_then(|end| u64::from_str_radix(end, 16).ok()).map_or(4096, |end| end - 64)
}

fn memory(pid: i32, is_written: bool) -> io::Result<File> {
    File::options().read(true).write(is_written).open(format!("/proc/{pid}/mem"))
}

fn attach(pid: i32) -> io::Result<()> {
    traced(libc::PTRACE_ATTACH, pid)?;
    leave(pid)
}

/// Waits until it stands, and lets it go on without us.
fn leave(pid: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the pointer is to a value of ours that outlives the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    if waited == pid { traced(libc::PTRACE_DETACH, pid) } else { Err(io::Error::last_os_error()) }
}

fn traced(request: libc::c_uint, pid: i32) -> io::Result<()> {
    // SAFETY: none of the requests made here reads or writes memory of ours.
    let answer = unsafe { libc::ptrace(request, pid, 0_usize, 0_usize) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One word from or to another process's memory.
fn across(call: libc::c_long, pid: i32, there: u64, word: &mut [u8; 8]) -> io::Result<()> {
    let ours = libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: word.len() };
    let theirs = libc::iovec { iov_base: there as *mut libc::c_void, iov_len: word.len() };
    // SAFETY: the kernel reads two vectors that outlive the call, and writes at most a word of
    // ours.
    let count = unsafe {
        libc::syscall(call, pid, &raw const ours, 1_usize, &raw const theirs, 1_usize, 0_usize)
    };
    match usize::try_from(count) {
        Ok(count) if count == word.len() => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads what was said of each way: `open`, or `shut` and why.
fn said(errors: &str) -> BTreeMap<String, String> {
    let lines = errors.lines().filter_map(|line| line.trim_start().strip_prefix(SAYS));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs.map(|(way, what)| (way.to_owned(), what.to_owned())).collect()
}

/// This program as the command that tries.
fn words() -> [String; 6] {
    let exe = std::env::current_exe().unwrap();
    let exe = exe.to_str().unwrap();
    [exe, TRIES, "--exact", "--ignored", "--nocapture", "--quiet"].map(String::from)
}

/// Returns what the command of a stack can do to its agent, by way.
fn found_in(machine: &Machine, stack: &str) -> BTreeMap<String, String> {
    let words = words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = machine.surtax(&alone(stack, &words));
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let trouble = &arm(&answer, stack)["trouble"];
    let found = said(trouble["stderr"].as_str().unwrap_or_default());
    assert_eq!(found.len(), WAYS.len(), "{stack}: {trouble:#}");
    found
}

#[test]
fn no_way_leads_from_a_command_into_its_agent_where_the_layer_shuts_it() {
    let machine = Machine::take();
    for stack in SHUT.into_iter().filter(|stack| is_usable(&machine, stack)) {
        for (way, what) in found_in(&machine, stack) {
            assert!(is_forbidden(&what), "{stack}: {way} is {what}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn root_beside_its_agent_reaches_it_as_the_threat_model_says() {
    let machine = Machine::take();
    for stack in OPEN.into_iter().filter(|stack| is_usable(&machine, stack)) {
        for (way, what) in found_in(&machine, stack) {
            let is_open = what == "open";
            let is_filtered = (stack, way.as_str()) == FILTERED && is_forbidden(&what);
            assert!(is_open || is_filtered, "{stack}: {way} is {what}");
        }
    }
    machine.assert_as_before();
}

/// Starts a program as nobody, lets nobody try every way into it, and ends it.
fn found_by_nobody(mut child: Child) -> BTreeMap<String, String> {
    let [exe, rest @ ..] = words();
    let mut other = Command::new(exe);
    other.args(rest).env(TARGET, child.id().to_string()).uid(65534).gid(65534).current_dir("/");
    let output = other.output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let found = said(&text(&output.stderr));
    assert_eq!(found.len(), WAYS.len(), "{}", text(&output.stderr));
    found
}

fn as_nobody(program: &str, word: &str) -> Child {
    let mut process = Command::new(program);
    process.arg(word).uid(65534).gid(65534).current_dir("/");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    process.spawn().unwrap()
}

/// A user's own processes are open to each other; an agent of the same user is not.
#[test]
fn no_way_leads_into_an_agent_from_another_process_of_its_user() {
    let machine = Machine::take();
    for (way, what) in found_by_nobody(as_nobody("sleep", "60")) {
        assert_eq!(what, "open", "the way `{way}` leads nowhere, so nothing is shown by it");
    }
    let mut agent = as_nobody(env!("SURTAX_AGENT"), "stdio");
    // It has shut itself when it has greeted.
    let mut greeting = [0; 8];
    io::Read::read_exact(agent.stdout.as_mut().unwrap(), &mut greeting).unwrap();
    for (way, what) in found_by_nobody(agent) {
        assert!(is_forbidden(&what), "{way} is {what}");
    }
    machine.assert_as_before();
}
