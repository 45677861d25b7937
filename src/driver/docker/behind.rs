//! The processes behind the machine's own daemon: of whoever listens at its socket, and of its
//! containerd.
//!
//! A name is anybody's: every process can call itself `dockerd`. So the kernel is asked who listens
//! at the socket. Where that is an init, which does it for the daemon (`docker.socket` of systemd),
//! the daemon is the child of that init, of the same user, that has the name. A containerd is a
//! child of the daemon, or root's behind the socket at which all look for it. Of several that could
//! be it none is taken: an unknown payer is better than somebody else.
//!
//! Source: `SO_PEERCRED` in `unix(7)`: the process that called `listen(2)`; `proc_pid_status(5)`.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Name of the daemon's process.
const DAEMON: &str = "dockerd";

/// Name of the process of its containerd.
const CONTAINERD: &str = "containerd";

/// Socket of a containerd that the daemon has not started.
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// Name of a user's init; that of the machine is process 1.
const USER_INIT: &str = "systemd";

/// A process as the kernel tells of it, but for the name, which is its own choice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Whose rights it has.
    user: u32,
    name: String,
}

/// Process that listens at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    pid: u32,
    user: u32,
}

/// The daemon at a socket and its containerd, by name; without a number where nothing tells which
/// process it is. A daemon of another kind has no containerd that would be missed.
pub(super) fn processes(socket: &Path) -> Vec<(String, Option<u32>)> {
    let all = all();
    let daemon = listener(socket).and_then(|listener| daemon_of(listener, &all));
    payers(daemon, || listener(Path::new(CONTAINERD_SOCKET)), &all)
}

fn payers(
    daemon: Option<&Process>,
    listener: impl FnOnce() -> Option<Listener>,
    all: &[Process],
) -> Vec<(String, Option<u32>)> {
    let Some(daemon) = daemon else { return vec![(DAEMON.to_owned(), None)] };
    let containerd = containerd_of(daemon, listener, all).map(|it| it.pid);
    let has_one = containerd.is_some() || daemon.name == DAEMON;
    let containerd = has_one.then_some((CONTAINERD.to_owned(), containerd));
    std::iter::once((DAEMON.to_owned(), Some(daemon.pid))).chain(containerd).collect()
}

/// The daemon at a socket.
pub(super) fn daemon(socket: &Path) -> Option<u32> {
    daemon_of(listener(socket)?, &all()).map(|it| it.pid)
}

fn daemon_of(listener: Listener, all: &[Process]) -> Option<&Process> {
    let found = process_of(listener, all)?;
    let is_init = found.pid == 1 || found.name == USER_INIT;
    if is_init { only_child(found, DAEMON, all) } else { Some(found) }
}

fn containerd_of<'a>(
    daemon: &Process,
    listener: impl FnOnce() -> Option<Listener>,
    all: &'a [Process],
) -> Option<&'a Process> {
    only_child(daemon, CONTAINERD, all)
        .or_else(|| process_of(listener().filter(|it| it.user == 0)?, all))
}

/// The listener, unless its number is somebody else's by now.
fn process_of(listener: Listener, all: &[Process]) -> Option<&Process> {
    all.iter().find(|it| it.pid == listener.pid && it.user == listener.user)
}

fn only_child<'a>(parent: &Process, name: &str, all: &'a [Process]) -> Option<&'a Process> {
    let is_it =
        |it: &&Process| it.parent == parent.pid && it.user == parent.user && it.name == name;
    let mut found = all.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none())
}

fn listener(socket: &Path) -> Option<Listener> {
    let stream = UnixStream::connect(socket).ok()?;
    let mut said = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the descriptor is open, and both pointers are to values of our own, of which the
    // length is the first one's.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut said).cast(),
            &raw mut length,
        )
    };
    // One of another process namespace has no number here, which is 0.
    let pid = u32::try_from(said.pid).ok().filter(|pid| result == 0 && *pid != 0)?;
    Some(Listener { pid, user: said.uid })
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| read(pid, &fs::read(format!("/proc/{pid}/status")).ok()?)).collect()
}

fn read(pid: u32, status: &[u8]) -> Option<Process> {
    let status = String::from_utf8_lossy(status);
    // A line feed in a name is escaped.
    let line =
        |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t"));
    let parent = line("PPid")?.parse().ok()?;
    // The real one comes before it.
    let user = line("Uid")?.split('\t').nth(1)?.parse().ok()?;
    Some(Process { pid, parent, user, name: line("Name")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn process(pid: u32, parent: u32, user: u32, name: &str) -> Process {
        Process { pid, parent, user, name: name.to_owned() }
    }

    #[test]
    fn the_daemon_is_who_listens_and_no_name_makes_another_process_one() {
        let all = [
            process(1, 0, 0, "systemd"),
            process(20, 1, 0, "podman"),
            process(21, 1, 1000, "systemd"),
            process(22, 21, 1000, "dockerd"),
            process(23, 1, 1000, "dockerd"),
            process(24, 20, 0, "dockerd"),
        ];
        let daemon = |pid, user| daemon_of(Listener { pid, user }, &all).map(|it| it.pid);
        assert_eq!(daemon(20, 0), Some(20), "whatever it is called");
        assert_eq!(daemon(21, 1000), Some(22), "an init listens for its child");
        assert_eq!(daemon(1, 0), None, "no child of the machine's init is root's and called so");
        assert_eq!((daemon(20, 1000), daemon(99, 0)), (None, None), "the number is another's now");
        let two = [process(1, 0, 0, "init"), process(30, 1, 0, DAEMON), process(31, 1, 0, DAEMON)];
        let by_init = Listener { pid: 1, user: 0 };
        assert_eq!(daemon_of(by_init, &two), None, "which of the two is not told");
        assert_eq!(daemon_of(by_init, &two[..2]), Some(&two[1]));
    }

    #[test]
    fn a_containerd_is_the_daemon_s_child_or_root_s_at_its_socket() {
        let daemon = process(20, 1, 0, DAEMON);
        let all = [
            process(40, 1, 0, CONTAINERD),
            process(41, 20, 1000, CONTAINERD),
            process(42, 1, 1000, CONTAINERD),
            process(43, 20, 0, CONTAINERD),
        ];
        let found = |listener: Option<(u32, u32)>, all: &[Process]| {
            let listener = listener.map(|(pid, user)| Listener { pid, user });
            containerd_of(&daemon, || listener, all).map(|it| it.pid)
        };
        assert_eq!(found(None, &all), Some(43));
        assert_eq!(found(Some((40, 0)), &all), Some(43), "it has one of its own");
        assert_eq!(found(Some((40, 0)), &all[..3]), Some(40));
        assert_eq!(found(Some((42, 1000)), &all[..3]), None, "it is a user's");
        assert_eq!(found(None, &all[..3]), None);
    }

    /// A sum without it would look whole.
    #[test]
    fn who_cannot_be_told_is_a_payer_without_a_number() {
        let daemon = process(20, 1, 0, DAEMON);
        let found = |daemon, all: &[Process]| -> Vec<Option<u32>> {
            payers(daemon, || None, all).into_iter().map(|(_, pid)| pid).collect()
        };
        assert_eq!(found(Some(&daemon), &[process(43, 20, 0, CONTAINERD)]), [Some(20), Some(43)]);
        assert_eq!(found(Some(&daemon), &[]), [Some(20), None]);
        assert_eq!(found(None, &[]), [None]);
        let other = process(20, 1, 0, "podman");
        assert_eq!(found(Some(&other), &[]), [Some(20)], "it has no containerd");
    }

    #[test]
    fn a_process_that_renames_itself_is_no_payer_and_the_listener_is_one() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("docker.sock");
        let _listening = UnixListener::bind(&socket).unwrap();
        let lab = crate::lab::tests::lab(place.path());
        let room = lab.room("renamed").unwrap();
        let spawn = |name: &str| {
            // A shell of a shell: a daemon's own child may be its containerd.
            let script = format!("sh -c 'printf {name} > /proc/$$/comm; read x'; true");
            let (end, kept) = crate::lab::pipe().unwrap();
            let process = room
                .spawn(crate::lab::Program {
                    argv: ["/bin/sh", "-c", &script].map(String::from).to_vec(),
                    stdio: [Some(end), None, None],
                    ..crate::lab::Program::default()
                })
                .unwrap();
            (process, kept)
        };
        let renamed = [DAEMON, CONTAINERD].map(|name| (spawn(name), name));
        for ((process, _), name) in &renamed {
            let is_it = |it: &Process| it.parent == process.pid() && it.name == *name;
            while !all().iter().any(is_it) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        let found = processes(&socket);
        assert_eq!(found[0], (DAEMON.to_owned(), Some(std::process::id())));
        let others: Vec<u32> = found[1..].iter().filter_map(|(_, pid)| *pid).collect();
        let parents = renamed.each_ref().map(|((process, _), _)| process.pid());
        let is_renamed = |it: &Process| others.contains(&it.pid) && parents.contains(&it.parent);
        assert!(!all().iter().any(is_renamed), "{found:?}");
        assert_eq!(daemon(&socket), Some(std::process::id()));
        let none = place.path().join("none");
        assert_eq!((daemon(&none), processes(&none)), (None, vec![(DAEMON.to_owned(), None)]));
        drop(renamed);
        room.close().unwrap();
        lab.close().unwrap();
    }

    #[test]
    fn a_process_is_read_by_the_rights_that_it_has() {
        let status = b"Name:\ta\\nPPid:\t7\nUmask:\t0022\nPPid:\t3\nUid:\t1000\t0\t0\t0\n";
        assert_eq!(read(9, status), Some(process(9, 3, 0, "a\\nPPid:\t7")));
        assert_eq!(read(9, b""), None);
    }
}
