//! virtiofsd: serves directories of this level to the guest.
//!
//! It sees a mount namespace of its own, where the root is read only and each writable directory is
//! shown a second time, writable: a guest that breaks out of its own root still cannot write to the
//! host. It is given its socket as a descriptor, so that it writes no pid file.

use super::errand::Errand;
use super::initramfs::{SERVED_MODULES, SERVED_ROOT, SERVED_WRITABLE};
use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Process, Program, Room};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Where distributions keep it; it is seldom in `PATH`.
const PLACES: [&str; 4] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/lib/virtiofsd",
    "/usr/local/libexec/virtiofsd",
];

/// The descriptor at which it finds its listening socket.
const SOCKET_DESCRIPTOR: i32 = 3;

/// The most files that it may hold open: one for every file that the guest's kernel remembers.
const OPEN_FILES: u64 = 1_000_000;

/// Which of the two programs of that name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// The one in C, part of QEMU until 7.2.
    C,
    /// The one in Rust.
    Rust,
}

/// A virtiofsd that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Virtiofsd {
    program: PathBuf,
    dialect: Dialect,
    /// The first line of what it says of its version.
    pub(super) version: String,
}

/// What the guest is served.
pub(super) struct Served<'a> {
    /// Becomes the lower layer of the guest's root.
    pub(super) root: &'a Path,
    /// `lib/modules/RELEASE` of the guest's kernel.
    pub(super) modules: &'a Path,
    /// Directories whose writes are kept.
    pub(super) writable: &'a [PathBuf],
}

/// A virtiofsd that serves one guest.
pub(super) struct Serving {
    /// It ends by itself when QEMU does.
    pub(super) process: Process,
    /// Where QEMU finds it.
    pub(super) socket: PathBuf,
    /// What it said; kept apart from the guest's console, because it grumbles whenever QEMU ends.
    pub(super) words: ConsoleTail,
}

impl Virtiofsd {
    /// Finds it and asks for its version; nothing when it is not installed.
    ///
    /// # Errors
    /// It is there and does not run.
    pub(super) fn find(room: &Room) -> Result<Option<Self>, Fault> {
        let places = PLACES.iter().map(PathBuf::from).find(|path| path.is_file());
        let Some(program) = crate::lab::find("virtiofsd").or(places) else { return Ok(None) };
        let said = Errand::new(&[&program.display().to_string(), "--version"]).text(room)?;
        let dialect = dialect_of(&said);
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        Ok(Some(Self { program, dialect, version }))
    }

    /// Starts it on what a guest is to see.
    ///
    /// # Errors
    /// The namespace, the socket or the program could not be had.
    pub(super) fn serve(
        &self,
        served: &Served<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Serving, Fault> {
        let (output, errors) = std::io::pipe().doing("make a pipe for virtiofsd's words")?;
        let words = ConsoleTail::new();
        words.drain(output.into());
        let export = room.directory().join("served");
        std::fs::create_dir(&export).doing(format_args!("create `{}`", export.display()))?;
        let mount_namespace = room.mount_namespace(&mounts(served, &export))?;
        let socket = room.directory().join("files.sock");
        let listener = UnixListener::bind(&socket)
            .doing(format_args!("listen on the socket `{}`", socket.display()))?;
        let process = room.spawn(Program {
            argv: self.command_line(&export, open_files_limit()),
            stdio: [None, None, Some(errors.into())],
            descriptors: vec![(listener.into(), SOCKET_DESCRIPTOR)],
            group: group.map(Path::to_owned),
            mount_namespace: Some(mount_namespace),
            ..Program::default()
        })?;
        Ok(Serving { process, socket, words })
    }

    fn command_line(&self, export: &Path, open_files: u64) -> Vec<String> {
        let (program, export) = (self.program.display(), export.display());
        let text = match self.dialect {
            Dialect::C => format!(
                "{program} --fd={SOCKET_DESCRIPTOR} --rlimit-nofile={open_files} \
                 -o log_level=warn -o sandbox=chroot -o cache=auto -o source="
            ),
            Dialect::Rust => format!(
                "{program} --fd={SOCKET_DESCRIPTOR} --rlimit-nofile={open_files} \
                 --log-level=warn --sandbox=chroot --cache=auto --shared-dir="
            ),
        };
        let mut argv: Vec<String> = text.split(' ').map(String::from).collect();
        if let Some(last) = argv.last_mut() {
            last.push_str(&export.to_string());
        }
        argv
    }
}

/// The read-only root and modules, then each writable directory once more.
fn mounts(served: &Served<'_>, export: &Path) -> Vec<Mount> {
    let bind = |source: &Path, target: PathBuf, read_only: bool| Mount::Bind {
        source: source.to_owned(),
        target,
        recursive: true,
        read_only,
    };
    let mut mounts = vec![
        bind(served.root, export.join(SERVED_ROOT), true),
        bind(served.modules, export.join(SERVED_MODULES), true),
    ];
    for (number, path) in served.writable.iter().enumerate() {
        mounts.push(bind(path, export.join(SERVED_WRITABLE).join(number.to_string()), false));
    }
    mounts
}

/// The one in C calls itself `virtiofsd version 7.2.22 (…)`; the other says only its number.
fn dialect_of(said: &str) -> Dialect {
    if said.starts_with("virtiofsd version") { Dialect::C } else { Dialect::Rust }
}

/// As many as it likes, but not more than this process may hand down.
fn open_files_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES)
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
        virtiofsd.command_line(Path::new("/room/served"), 20_000).join(" ").replace(" -", "\n-")
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
-o cache=auto
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
--cache=auto
--shared-dir=/room/served"
        );
    }

    #[test]
    fn the_two_are_told_apart_by_how_they_give_their_version() {
        assert_eq!(dialect_of("virtiofsd version 7.2.22 (Debian 1:7.2+dfsg-7)\n"), Dialect::C);
        assert_eq!(dialect_of("virtiofsd 1.13.2\n"), Dialect::Rust);
        assert_eq!(dialect_of("virtiofsd backend 1.5.1\n"), Dialect::Rust);
    }

    #[test]
    fn only_the_directories_that_were_named_are_served_writable() {
        let served = Served {
            root: Path::new("/"),
            modules: Path::new("/cache/modules"),
            writable: &["/home/a/out".into()],
        };
        let shown: Vec<String> = mounts(&served, Path::new("/room/served"))
            .iter()
            .map(|mount| match mount {
                Mount::Bind { source, target, read_only, .. } => {
                    let mode = if *read_only { "ro" } else { "rw" };
                    format!("{} {mode} {}", source.display(), target.display())
                }
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "/ ro /room/served/root",
                "/cache/modules ro /room/served/modules",
                "/home/a/out rw /room/served/writable/0",
            ]
        );
    }
}
