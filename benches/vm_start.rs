//! How long a virtual machine takes to the agent's first frame, against a bare busybox initramfs.
//!
//! Both boot the same kernel on the same machine under TCG, one after the other in turn: the command
//! line is the one that the driver proved it ran, without the file server. Ours loads the drivers of
//! its channel and sends a frame; busybox prints one line on the console.
//!
//! `cargo bench --bench vm_start`; `PAIRS=30` for more than 10 pairs. Needs busybox-static.

mod pairs;

use cpio::newc::{Builder, ModeFileType, trailer};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::lab::{Lab, Program, Room};
use surtax::stack::{StackSpec, rise::Ground};

/// What is booted; `memory` and `cpus` are named so that the figure does not depend on the host.
const STACK: &str = "qemu:accel=tcg,cpus=1,memory=512M";

/// The line that busybox prints.
const LINE: &str = "busybox is up";

fn main() {
    let pairs = std::env::var("PAIRS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab");
    let room = lab.room("vm-start").expect("a room");
    let (command_line, ours) = proved_command_line(&lab, room.directory());
    let busybox = room.directory().join("busybox.cpio");
    fs::write(&busybox, busybox_initramfs()).expect("busybox's initramfs");

    pairs::compare(
        "VM start, agent against busybox",
        "1.3",
        pairs,
        || start(&room, &command_line, &ours, Sign::Frame),
        || start(&room, &command_line, &busybox, Sign::Line),
    );
    room.close().expect("an empty room");
    lab.close().expect("an empty lab");
}

/// What QEMU was started with, from the evidence of a real stack, and a copy of its initramfs.
fn proved_command_line(lab: &Lab, keep: &Path) -> (Vec<String>, PathBuf) {
    let agent = lab.agent().expect("the agent");
    let cache = surtax::lab::cache_directory().expect("a cache");
    let ground = Ground {
        lab,
        level: 0,
        agent: &agent,
        cache: &cache,
        writable: &[],
        cwd: Path::new("/"),
        start_deadline: Duration::from_secs(60),
    };
    let spec = StackSpec::parse(STACK).expect("a stack");
    let standing = spec.raise(&ground, "vm-start-proof").expect("a virtual machine");
    let fact = |key: &str| {
        let mut facts = standing.evidence().iter().flat_map(|level| &level.facts);
        facts.find(|fact| fact.key == key).map(|fact| fact.value.clone()).expect("a fact")
    };
    // The kernel's command line is one word of QEMU's, with spaces in it.
    let append = fact("kernel_command_line");
    let text = fact("qemu_command_line").replace(&append, "APPEND");
    let words = text.split(' ').map(|word| if word == "APPEND" { &append } else { word });
    let command_line = without_files(words.map(String::from).collect());
    let copy = keep.join("agent.cpio");
    fs::copy(&command_line[initramfs_at(&command_line)], &copy).expect("the agent's initramfs");
    standing.stop().expect("a stopped stack");
    (command_line, copy)
}

/// Leaves out the file server and its device, an option and its value each.
fn without_files(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    for word in words {
        if word.contains("=files") {
            kept.pop();
        } else {
            kept.push(word);
        }
    }
    kept
}

fn initramfs_at(command_line: &[String]) -> usize {
    command_line.iter().position(|word| word == "-initrd").expect("an initramfs") + 1
}

/// What tells that user space was reached.
#[derive(Clone, Copy)]
enum Sign {
    /// The first byte of a frame on the agent's port.
    Frame,
    /// [`LINE`] on the console.
    Line,
}

/// From starting QEMU to the sign. The machine is killed then.
fn start(room: &Room, command_line: &[String], initramfs: &Path, sign: Sign) -> Duration {
    let mut argv = command_line.to_vec();
    let at = initramfs_at(&argv);
    argv[at] = initramfs.display().to_string();
    let (mut agent, agent_of_qemu) = UnixStream::pair().expect("a socket pair");
    let (_qmp, qmp_of_qemu) = UnixStream::pair().expect("a socket pair");
    let (mut console, console_of_qemu) = std::io::pipe().expect("a pipe");
    let program = Program {
        argv,
        stdio: [None, Some(console_of_qemu.into()), None],
        descriptors: vec![(agent_of_qemu.into(), 3), (qmp_of_qemu.into(), 4)],
        ..Program::default()
    };
    let (elapsed, mut process) = pairs::timed(|| {
        let process = room.spawn(program).expect("QEMU");
        match sign {
            Sign::Frame => agent.read_exact(&mut [0]).expect("a frame"),
            Sign::Line => await_line(&mut console),
        }
        process
    });
    process.kill().expect("a killed QEMU");
    elapsed
}

fn await_line(console: &mut impl Read) {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&said).contains(LINE) {
        match console.read(&mut buffer) {
            Ok(count @ 1..) => said.extend_from_slice(&buffer[..count]),
            _ => panic!("busybox did not come up: {}", String::from_utf8_lossy(&said)),
        }
    }
}

/// busybox and a script of two lines.
fn busybox_initramfs() -> Vec<u8> {
    let busybox = fs::read("/bin/busybox").expect("busybox-static");
    let script = format!("#!/bin/busybox sh\necho {LINE}\nexec /bin/busybox sleep 1000\n");
    let mut archive = Vec::new();
    for (name, kind, contents) in [
        ("bin", ModeFileType::Directory, &[][..]),
        ("bin/busybox", ModeFileType::Regular, &busybox),
        ("init", ModeFileType::Regular, script.as_bytes()),
    ] {
        let size = u32::try_from(contents.len()).expect("a small file");
        let entry = Builder::new(name).mode(0o755).nlink(1).set_mode_file_type(kind);
        let mut writer = entry.write(archive, size);
        writer.write_all(contents).expect("memory");
        archive = writer.finish().expect("an entry");
    }
    trailer(archive).expect("an archive")
}
