//! virtiofsd: serves a directory of a jail of its own to the guest.
//!
//! It is given its socket as a descriptor, so that it writes no pid file. What serves a guest what
//! it may only read is an unprivileged user who may read every file, and no more. Where the guest
//! may write to some directories, another one serves these alone. The guest's root is root there:
//! that virtiofsd changes its user for every file that it makes, and so must be root, but has no
//! capability that files do not need, and makes no devices.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::guest::share::WRITABLE_TAG;
use crate::lab::{
    self, CapabilitySet, Confinement, Jail, Mount, Process, Program, Room, ToolRun, open_files,
    tool_version,
};
use crate::layer::{Payer, Source, Unavailable};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::{Fact, Role};

/// The directory in a jail that holds what is served.
pub(crate) const EXPORT: &str = "served";

/// Paths where distributions keep virtiofsd; it is seldom in `PATH`.
const PLACES: [&str; 4] = [
    "/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd",
    "/usr/local/libexec/virtiofsd",
];

/// The descriptor at which it finds its listening socket.
const SOCKET_DESCRIPTOR: i32 = 3;

/// The most files that it may hold open: one for every file that the guest's kernel remembers.
const OPEN_FILES: u64 = 1_000_000;

/// Capabilities that it needs to begin: it changes its root, and gives up all that it does not need
/// to serve.
const STARTS: CapabilitySet = CapabilitySet::SYS_CHROOT.union(CapabilitySet::SETPCAP);

/// Capabilities that it needs to show every file as root sees it, and to open it as an overlay
/// does, without a mark that it was read (`O_NOATIME`), which is for its owner alone: Linux
/// `fs/overlayfs/file.c`, `OVL_OPEN_FLAGS`.
const READS: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::FOWNER);

/// Capabilities that it needs to be the guest's root where that may write: all that virtiofsd keeps
/// by itself, but for devices.
const WRITES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP);

/// The same in its own words, of what it keeps by itself: `docs/tools/virtiofsd.rst` of QEMU 7.2,
/// "modcaps".
const READER: &str =
    "-chown:-dac_override:-fsetid:-setgid:-setuid:-mknod:-setfcap:+dac_read_search";
const WRITER: &str = "-mknod";

/// Implementation of virtiofsd: there are two programs of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// The one in C, part of QEMU until 7.2.
    C,
    /// The one in Rust.
    Rust,
}

/// A virtiofsd that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Virtiofsd {
    program: PathBuf,
    dialect: Dialect,
    /// The first line of what it says of its version.
    pub(crate) version: String,
}

/// A virtiofsd that serves one guest.
pub(crate) struct Serving {
    /// The tag of what it serves.
    pub(crate) tag: &'static str,
    /// It ends by itself when QEMU does.
    pub(crate) process: Process,
    /// Path of the socket where QEMU finds it.
    pub(crate) socket: PathBuf,
    /// Output of virtiofsd; kept apart from the guest's console, because it grumbles whenever QEMU
    /// ends.
    pub(crate) words: ConsoleTail,
    /// Jail whose user is nobody else's as long as it runs.
    _jail: Jail,
}

impl Serving {
    /// Returns who is to pay for it.
    pub(crate) fn payer(&self) -> Payer {
        let name = if self.tag == WRITABLE_TAG { "virtiofsd (writable)" } else { "virtiofsd" };
        Payer::new(name, Role::Hypervisor, Source::Process(self.process.pid()))
    }
}

impl Virtiofsd {
    /// Finds it and asks for its version; nothing when it is not installed.
    ///
    /// # Errors
    /// It is there and does not run.
    pub(crate) fn find(room: &Room) -> Result<Option<Self>, Fault> {
        let places = PLACES.iter().map(PathBuf::from).find(|path| path.is_file());
        let Some(program) = crate::lab::find("virtiofsd").or(places) else { return Ok(None) };
        let question = vec![program.display().to_string(), String::from("--version")];
        let ask = || ToolRun::new(&[&program.display().to_string(), "--version"]).text(room);
        let version = tool_version::once(question, ask)?;
        let dialect = dialect_of(&version);
        Ok(Some(Self { program, dialect, version }))
    }

    /// Finds it, as above.
    ///
    /// # Errors
    /// It is not installed, or does not run.
    pub(crate) fn require(room: &Room) -> Result<Self, Fault> {
        Self::find(room)?.ok_or_else(|| missing().fault().during("no files for the guest"))
    }

    /// Starts it on a directory of a jail, in which `mounts` puts what is served by this tag; in
    /// the room, and in a group of it.
    ///
    /// # Errors
    /// The socket, the jail or the program could not be had.
    pub(crate) fn serve(
        &self,
        tag: &'static str,
        mounts: impl FnOnce(&Path) -> Result<Vec<Mount>, Fault>,
        (room, group): (&Room, Option<&Path>),
    ) -> Result<Serving, Fault> {
        let is_writable = tag == WRITABLE_TAG;
        let (output, errors) = std::io::pipe().doing("make a pipe for virtiofsd's words")?;
        let words = ConsoleTail::new();
        words.drain(output.into());
        let socket = room.directory().join(socket_name(tag));
        let listener = UnixListener::bind(&socket)
            .doing(format_args!("listen on the socket `{}`", socket.display()))?;
        let mut jail = Jail::make(&format!("files-{tag}"), room)?;
        jail.keep(STARTS | if is_writable { WRITES } else { READS });
        let (place, export) = jail.at(EXPORT);
        jail.add(mounts(&place)?);
        let jailed = jail.close(room)?;
        let user = if is_writable { 0 } else { jailed.confinement.user };
        let open_files = open_files::most().min(OPEN_FILES);
        let process = room.spawn(Program {
            argv: self.command_line(&export, open_files, is_writable),
            open_files: Some(open_files),
            environment: Some(lab::path_alone()),
            stdio: [None, None, Some(errors.into())],
            descriptors: vec![(listener.into(), SOCKET_DESCRIPTOR)],
            group: group.map(Path::to_owned),
            mount_namespace: Some(jailed.mount_namespace),
            confinement: Some(Confinement { user, ..jailed.confinement }),
            ..Program::default()
        })?;
        Ok(Serving { tag, process, socket, words, _jail: jail })
    }

    fn command_line(&self, export: &Path, open_files: u64, is_writable: bool) -> Vec<String> {
        let (program, export) = (self.program.display(), export.display());
        let rights = if is_writable { WRITER } else { READER };
        let cache = cache(is_writable);
        let text = match self.dialect {
            Dialect::C => format!(
                "{program} --fd={SOCKET_DESCRIPTOR} --rlimit-nofile={open_files} \
                 -o log_level=warn -o sandbox=chroot -o modcaps={rights} -o cache={cache} -o source="
            ),
            Dialect::Rust => format!(
                "{program} --fd={SOCKET_DESCRIPTOR} --rlimit-nofile={open_files} --log-level=warn \
                 --sandbox=chroot --modcaps={rights} --seccomp=kill --cache={cache} --shared-dir="
            ),
        };
        let mut argv: Vec<String> = text.split(' ').map(String::from).collect();
        if let Some(last) = argv.last_mut() {
            last.push_str(&export.to_string());
        }
        argv
    }
}

/// Returns the name of the socket of what is served by this tag.
pub(crate) fn socket_name(tag: &str) -> String {
    format!("files-{tag}.sock")
}

/// Returns the word for how long a guest may keep what it has read. Where it writes nothing, nobody
/// changes the files for as long as a trial, and they stay in its page cache as those of a disk
/// would: with `auto` it forgets all of a file whenever that is opened, and reads every program
/// anew at each start of it. Where it writes, this level may write there, too. Source:
/// `docs/tools/virtiofsd.rst` of QEMU 7.2, "cache"; Linux `fs/fuse/file.c`, `fuse_finish_open`.
fn cache(is_writable: bool) -> &'static str {
    if is_writable { "auto" } else { "always" }
}

/// Returns what is said where virtiofsd is not installed.
pub(crate) fn missing() -> Unavailable {
    // Until Debian 12 it came with QEMU; from Debian 13 on it is a package of its own.
    Unavailable::new(
        "virtiofsd, which serves files to the guest, is not installed",
        "apt-get install qemu-system-common virtiofsd",
    )
}

/// Returns its version, as evidence.
pub(crate) fn version_fact(version: String) -> Fact {
    Fact::new("virtiofsd_version", version, "virtiofsd --version")
}

/// The one in C calls itself `virtiofsd version 7.2.22 (…)`; the other says only its number.
fn dialect_of(said: &str) -> Dialect {
    if said.starts_with("virtiofsd version") { Dialect::C } else { Dialect::Rust }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(dialect: Dialect) -> String {
        let virtiofsd = Virtiofsd {
            program: "/usr/lib/qemu/virtiofsd".into(),
            dialect,
            version: String::new(),
        };
        virtiofsd
            .command_line(Path::new("/room/served"), 20_000, false)
            .join(" ")
            .replace(" -", "\n-")
    }

    #[test]
    fn the_one_in_c_takes_mount_options() {
        assert_eq!(
            command_line(Dialect::C),
            "\
/usr/lib/qemu/virtiofsd
--fd=3
--rlimit-nofile=20000
-o log_level=warn
-o sandbox=chroot
-o modcaps=-chown:-dac_override:-fsetid:-setgid:-setuid:-mknod:-setfcap:+dac_read_search
-o cache=always
-o source=/room/served"
        );
    }

    #[test]
    fn the_one_in_rust_takes_flags() {
        assert_eq!(
            command_line(Dialect::Rust),
            "\
/usr/lib/qemu/virtiofsd
--fd=3
--rlimit-nofile=20000
--log-level=warn
--sandbox=chroot
--modcaps=-chown:-dac_override:-fsetid:-setgid:-setuid:-mknod:-setfcap:+dac_read_search
--seccomp=kill
--cache=always
--shared-dir=/room/served"
        );
    }

    #[test]
    fn the_two_are_told_apart_by_how_they_give_their_version() {
        assert_eq!(dialect_of("virtiofsd version 7.2.22 (Debian 1:7.2+dfsg-7)\n"), Dialect::C);
        assert_eq!(dialect_of("virtiofsd 1.13.2\n"), Dialect::Rust);
        assert_eq!(dialect_of("virtiofsd backend 1.5.1\n"), Dialect::Rust);
    }
}
