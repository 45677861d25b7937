//! A guest that is told to be as little as possible: busybox, one line on the console, and sleep.
//!
//! Its machine is that of a guest of ours: the same command line, in another room.

use cpio::newc::{Builder, ModeFileType, trailer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;
use surtax::lab::{Lab, Process, Program, Room};
use surtax_instrument::clock;

/// Path of busybox, linked statically.
const BUSYBOX: &str = "/bin/busybox";

/// The line that the guest prints.
const READY: &str = "surtax-bench: up";

/// The whole of what the guest does. `echo` and `sleep` are busybox's own.
const INIT: &str = "#!/bin/busybox sh\necho 'surtax-bench: up'\nexec /bin/busybox sleep 600\n";

/// Time limit of a boot, in seconds.
const DEADLINE_SECONDS: i64 = 120;

/// The descriptors at which QEMU expects the agent's channel and QMP, as its command line says.
const QEMU_DESCRIPTORS: [i32; 2] = [3, 4];

/// The descriptor at which virtiofsd expects its listening socket, as its command line says.
const VIRTIOFSD_DESCRIPTOR: i32 = 3;

/// The command lines of a guest that runs, and the room whose files they name.
pub struct Argv {
    /// Below it are the initramfs, the socket, and what is served.
    pub room: PathBuf,
    /// QEMU's.
    pub qemu: Vec<String>,
    /// virtiofsd's.
    pub virtiofsd: Vec<String>,
}

/// The guest, switched off.
pub struct BareGuest {
    room: Room,
    qemu: Vec<String>,
    virtiofsd: Vec<String>,
}

impl BareGuest {
    /// A guest on the machine of another one.
    pub fn like(other: &Argv, lab: &Lab) -> Self {
        let room = lab.room("bare-guest").expect("a room opens");
        let (theirs, ours) = (other.room.to_string_lossy(), room.directory().to_string_lossy());
        let moved =
            |argv: &[String]| argv.iter().map(|word| word.replace(&*theirs, &ours)).collect();
        let (qemu, virtiofsd) = (moved(&other.qemu), moved(&other.virtiofsd));
        std::fs::create_dir(room.directory().join("served")).expect("a directory is made");
        std::fs::write(room.directory().join("initramfs.cpio"), initramfs())
            .expect("it is written");
        Self { room, qemu, virtiofsd }
    }

    /// From starting QEMU to the guest's line.
    pub fn boot(&self) -> Duration {
        let socket = self.room.directory().join("files.sock");
        let listener = UnixListener::bind(&socket).expect("a socket can be bound");
        let virtiofsd = self.spawn(Program {
            argv: self.virtiofsd.clone(),
            descriptors: vec![(listener.into(), VIRTIOFSD_DESCRIPTOR)],
            ..Program::default()
        });
        let pairs = QEMU_DESCRIPTORS.map(|_| UnixStream::pair().expect("a socket pair is made"));
        let [(agent, agent_of_qemu), (qmp, qmp_of_qemu)] = pairs;
        let ends = [agent_of_qemu.into(), qmp_of_qemu.into()];
        let (console, output) = std::io::pipe().expect("a pipe is made");
        let program = Program {
            argv: self.qemu.clone(),
            stdio: [None, Some(output.into()), None],
            descriptors: ends.into_iter().zip(QEMU_DESCRIPTORS).collect(),
            ..Program::default()
        };

        let began = clock::monotonic_raw();
        let qemu = self.spawn(program);
        wait_for_line(&File::from(std::os::fd::OwnedFd::from(console)));
        let took = clock::monotonic_raw().since(began).into();

        drop((qemu, agent, qmp, virtiofsd));
        std::fs::remove_file(socket).expect("the socket is ours");
        took
    }

    /// Takes it away.
    pub fn close(self) {
        self.room.close().expect("the room closes");
    }

    fn spawn(&self, program: Program) -> Process {
        self.room.spawn(program).expect("the program starts")
    }
}

/// Reads the console until the guest has said its line.
fn wait_for_line(mut console: &File) {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    let timeout = Timespec { tv_sec: DEADLINE_SECONDS, tv_nsec: 0 };
    while !String::from_utf8_lossy(&said).contains(READY) {
        let console_ready = PollFd::new(console, PollFlags::IN);
        let ready = poll(&mut [console_ready], Some(&timeout)).expect("a pipe can be polled");
        let count = if ready == 0 { 0 } else { console.read(&mut buffer).expect("it can be read") };
        let so_far = String::from_utf8_lossy(&said);
        assert!(count > 0, "the guest did not come up: {so_far}");
        said.extend(&buffer[..count]);
    }
}

fn initramfs() -> Vec<u8> {
    let busybox = std::fs::read(BUSYBOX).expect("busybox-static is installed");
    let mut archive = Vec::new();
    let parts: [(&str, ModeFileType, &[u8]); 3] = [
        ("bin", ModeFileType::Directory, b""),
        ("bin/busybox", ModeFileType::Regular, &busybox),
        ("init", ModeFileType::Regular, INIT.as_bytes()),
    ];
    for (inode, (name, kind, contents)) in (1..).zip(parts) {
        let entry = Builder::new(name).ino(inode).nlink(1).mode(0o755).set_mode_file_type(kind);
        let size = u32::try_from(contents.len()).expect("a small file");
        let mut writer = entry.write(archive, size);
        writer.write_all(contents).expect("memory takes it");
        archive = writer.finish().expect("memory takes it");
    }
    trailer(archive).expect("memory takes it")
}
