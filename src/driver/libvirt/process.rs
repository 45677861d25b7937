//! A domain's QEMU: the process, its virtual CPUs, and the way to a socket that it listens on.

use crate::fault::{Doing, Fault};
use crate::lab;
use crate::layer::Payer;
use rustix::fs::{Mode, OFlags, open};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Prefix of the names of virtual-CPU threads: libvirt always asks QEMU for names.
const VCPU_PREFIX: &str = "CPU ";

/// The process that runs a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Qemu {
    pub(super) pid: u32,
}

impl Qemu {
    /// The process whose command line has a domain's UUID.
    ///
    /// # Errors
    /// The machine's: there is none on this level.
    pub(super) fn find(uuid: &str) -> Result<Self, Fault> {
        let entries = fs::read_dir("/proc").doing("list the processes")?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let runs_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.windows(2).any(|pair| pair[0] == b"-uuid" && pair[1] == uuid.as_bytes())
        };
        let mut found = pids.filter(runs_it);
        found.next().map(|pid| Self { pid }).ok_or_else(|| {
            Fault::machine(format!("libvirt: no process on this level runs the domain `{uuid}`"))
        })
    }

    /// Calls a socket of its: by its own eyes, since it may have a mount namespace of its own.
    ///
    /// # Errors
    /// The machine's: nobody listens there.
    pub(super) fn connect(self, socket: &Path) -> Result<UnixStream, Fault> {
        let seen = Path::new("/proc").join(self.pid.to_string()).join("root");
        let inside = socket.strip_prefix("/").unwrap_or(socket);
        let path = seen.join(inside);
        let doing = || format!("call the channel `{}` of the domain", path.display());
        let parent = path.parent().unwrap_or(&path);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(parent, flags, Mode::empty()).doing(doing())?;
        // A socket's path is short, and that of a domain's may be long.
        let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
            .join(path.file_name().unwrap_or_default());
        UnixStream::connect(short).doing(doing())
    }

    /// Lists the thread IDs of its virtual CPUs.
    pub(super) fn vcpus(self) -> Vec<u32> {
        let threads = lab::tasks(format!("/proc/{}/task", self.pid)).unwrap_or_default();
        let vcpus = threads.into_iter().filter(|(name, _)| name.starts_with(VCPU_PREFIX));
        vcpus.map(|(_, tid)| tid).collect()
    }

    /// Lists the payers that work for the domain.
    pub(super) fn payers(self) -> Vec<Payer> {
        Payer::of_machine("QEMU", self.pid, self.vcpus()).to_vec()
    }

    /// Tells whether the process is still there.
    pub(super) fn is_alive(self) -> bool {
        Path::new("/proc").join(self.pid.to_string()).join("exe").exists()
    }
}
