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
    /// The process whose command line has a domain's UUID, and which is of the user as whom libvirt
    /// runs it: everybody can write such a line. `user` is none where libvirt itself says none, as
    /// a daemon of this user's does: then it is ours.
    ///
    /// # Errors
    /// The machine's: there is none on this level, or several are.
    pub(super) fn find(uuid: &str, user: Option<&str>) -> Result<Self, Fault> {
        let user = match user {
            None => rustix::process::geteuid().as_raw(),
            Some(word) => number_of(word)?,
        };
        let entries = fs::read_dir("/proc").doing("list the processes")?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let says_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.windows(2).any(|pair| pair[0] == b"-uuid" && pair[1] == uuid.as_bytes())
        };
        let is_of_it = |pid: &u32| lab::user(Path::new(&format!("/proc/{pid}"))) == Some(user);
        let (found, others): (Vec<u32>, Vec<u32>) = pids.filter(says_it).partition(is_of_it);
        match (found.as_slice(), others.first()) {
            ([pid], _) => Ok(Self { pid: *pid }),
            ([], None) => Err(Fault::machine(format!(
                "libvirt: no process on this level runs the domain `{uuid}`"
            ))),
            ([], Some(other)) => Err(Fault::machine(format!(
                "libvirt: process {other} has the UUID of the domain `{uuid}`, and is not of user \
                 {user}, as whom libvirt runs it"
            ))),
            ([one, other, ..], _) => Err(Fault::machine(format!(
                "libvirt: both process {one} and process {other} have the UUID of the domain \
                 `{uuid}`"
            ))),
        }
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

/// The number of a user, whom libvirt names by it or by name.
fn number_of(user: &str) -> Result<u32, Fault> {
    let by_name = || {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
        line.split(':').nth(2)?.parse().ok()
    };
    user.parse().ok().or_else(by_name).ok_or_else(|| {
        Fault::machine(format!(
            "libvirt: it runs the domain as `{}`, who is no user here",
            user.escape_debug()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    /// A process that says of itself that it runs a domain.
    fn runs(uuid: &str, user: u32) -> Child {
        #[expect(clippy::disallowed_methods, reason = "another user's process, in a test")]
        let mut command = Command::new("sh");
        command.args(["-c", "read x", "-uuid", uuid]).stdin(std::process::Stdio::piped());
        command.uid(user).spawn().unwrap()
    }

    #[test]
    fn nobody_elses_process_is_taken_for_a_domains_qemu() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let uuid = format!("a097cbdb-cda7-444f-8132-{:012}", std::process::id());
        assert!(Qemu::find(&uuid, None).unwrap_err().message.contains("no process on this level"));
        // Older than the domain's own, and so found first.
        let mut strangers = runs(&uuid, 65534);
        let await_line = |pid: u32| {
            while !fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"sh") {}
        };
        await_line(strangers.id());
        for user in [None, Some("0"), Some("root"), Some("64055")] {
            let fault = Qemu::find(&uuid, user).unwrap_err();
            assert!(fault.message.contains("is not of user"), "{user:?}: {fault}");
        }
        let mut own = runs(&uuid, 0);
        await_line(own.id());
        assert_eq!(Qemu::find(&uuid, Some("root")).unwrap().pid, own.id());
        assert_eq!(Qemu::find(&uuid, Some("65534")).unwrap().pid, strangers.id());
        let mut second = runs(&uuid, 0);
        await_line(second.id());
        let fault = Qemu::find(&uuid, Some("0")).unwrap_err();
        assert!(fault.message.contains("both process"), "{fault}");
        let fault = Qemu::find(&uuid, Some("nobody-at-all")).unwrap_err();
        assert!(fault.message.contains("no user here"), "{fault}");
        for child in [&mut strangers, &mut own, &mut second] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
