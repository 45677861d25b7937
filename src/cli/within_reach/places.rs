//! Places that decide what root's programs do, and those in which surtax keeps what it has.
//!
//! Of this machine's they are a table: the innermost place around a directory decides, so that
//! somebody's project in `/var/lib` is no engine's. Others are found: what is in `PATH` or
//! configures programs in a home, and where links in there lead.

use crate::lab::{self, sudoer};
use crate::ledger::shelf;
use crate::rootfs::engines;
use crate::{regular_file, workload};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A place that a command must not exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Path of the place, absolute.
    pub(super) path: PathBuf,
    /// Description of the place, which goes on after "is".
    pub(super) description: &'static str,
    /// Extent of it that must not be written.
    pub(super) extent: Extent,
    /// Harm that a command could do, which goes on after "could".
    pub(super) harm: &'static str,
    /// Way to have it elsewhere, as part of a hint.
    pub(super) remedy: Option<&'static str>,
}

/// Extent of a place that no command may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Nothing in it may be written either.
    Whole,
    /// It may not be written as a whole: what lies in it is like any other directory.
    Itself,
}

use Extent::{Itself, Whole};

/// Places of this machine; `docs/what-it-does-to-your-machine.md` has them for users.
///
/// Source: Filesystem Hierarchy Standard 3.0; `file-hierarchy(7)`; `hier(7)`.
const OF_THE_MACHINE: [(&str, Extent, &str); 64] = [
    ("/bin", Whole, PROGRAMS),
    ("/boot", Whole, "where kernels and what starts them lie"),
    ("/dev", Whole, "where devices lie"),
    ("/dev/hugepages", Itself, "where others keep shared memory"),
    ("/dev/shm", Itself, "where surtax and others keep shared memory"),
    ("/efi", Whole, "where kernels and what starts them lie"),
    ("/etc", Whole, "where the configuration of root's programs lies"),
    ("/gnu/store", Whole, PROGRAMS),
    ("/home", Itself, "where the homes of users lie"),
    ("/lib", Whole, PROGRAMS),
    ("/lib32", Whole, PROGRAMS),
    ("/lib64", Whole, PROGRAMS),
    ("/nix", Whole, PROGRAMS),
    ("/opt", Itself, "where programs that root may start lie"),
    ("/opt/cni", Whole, PROGRAMS),
    ("/opt/containerd", Whole, PROGRAMS),
    ("/opt/kata", Whole, PROGRAMS),
    ("/proc", Whole, KERNEL),
    ("/run", Whole, "where services of root have their sockets and units"),
    ("/run/media", Itself, "where disks that can be taken out are mounted"),
    ("/sbin", Whole, PROGRAMS),
    ("/snap", Whole, PROGRAMS),
    ("/sys", Whole, KERNEL),
    ("/tmp", Itself, "where everybody has sockets and files of what runs"),
    ("/usr", Whole, PROGRAMS),
    ("/usr/local", Itself, PROGRAMS),
    ("/usr/local/bin", Whole, PROGRAMS),
    ("/usr/local/etc", Whole, "where the configuration of root's programs lies"),
    ("/usr/local/lib", Whole, PROGRAMS),
    ("/usr/local/lib64", Whole, PROGRAMS),
    ("/usr/local/libexec", Whole, PROGRAMS),
    ("/usr/local/sbin", Whole, PROGRAMS),
    ("/usr/local/share", Whole, PROGRAMS),
    ("/usr/local/src", Itself, "where sources of root's programs lie"),
    ("/usr/src", Itself, "where sources of root's programs lie"),
    ("/var/cache", Itself, STATE),
    ("/var/cache/apparmor", Whole, "where profiles of root's programs lie"),
    ("/var/cache/apt", Whole, "where packages lie that root installs"),
    ("/var/cache/dnf", Whole, "where packages lie that root installs"),
    ("/var/cache/pacman", Whole, "where packages lie that root installs"),
    ("/var/lib", Itself, STATE),
    ("/var/lib/apt", Whole, "where packages lie that root installs"),
    ("/var/lib/cloud", Whole, "where scripts lie that root executes"),
    ("/var/lib/cni", Whole, STATE),
    ("/var/lib/confexts", Whole, "where parts of the system's configuration lie"),
    ("/var/lib/dkms", Whole, "where modules of the kernel lie"),
    ("/var/lib/dpkg", Whole, "where the scripts of packages lie, which root executes"),
    ("/var/lib/etcd", Whole, STATE),
    ("/var/lib/extensions", Whole, "where parts of the system lie"),
    ("/var/lib/extrausers", Whole, "where users of this machine stand"),
    ("/var/lib/initramfs-tools", Whole, "where kernels and what starts them lie"),
    ("/var/lib/libvirt", Whole, ENGINE),
    ("/var/lib/nomad", Whole, ENGINE),
    ("/var/lib/pacman", Whole, "where the scripts of packages lie, which root executes"),
    ("/var/lib/polkit-1", Whole, "where it stands who may do what"),
    ("/var/lib/rpm", Whole, "where the scripts of packages lie, which root executes"),
    ("/var/lib/snapd", Whole, PROGRAMS),
    ("/var/lib/systemd", Whole, STATE),
    ("/var/spool", Itself, "where jobs lie that root executes"),
    ("/var/spool/anacron", Whole, "where jobs lie that root executes"),
    ("/var/spool/at", Whole, "where jobs lie that root executes"),
    ("/var/spool/cron", Whole, "where jobs lie that root executes"),
    ("/var/spool/incron", Whole, "where jobs lie that root executes"),
    ("/var/tmp", Itself, "where surtax and others make directories"),
];

const PROGRAMS: &str = "where programs of root's lie, or what these load and read";
const KERNEL: &str = "where the kernel's settings lie";
const STATE: &str = "where services of root keep what they start from";
const ENGINE: &str = "where containers or machines lie that root starts";

/// Places that are surtax's on every machine, whatever this one's are called.
const OURS: [(&str, &str, &str); 3] = [
    ("/run/surtax", "where surtax has what runs", RESULT),
    ("/var/cache/surtax", "where surtax keeps kernels and images", START),
    ("/var/lib/surtax", "where surtax keeps runs and its state", RESULT),
];

const RESULT: &str = "write its own result";
const START: &str = "exchange what is started or obeyed next";

/// Directories of a home that configure the programs that surtax starts, and what these start.
const CONFIGURATIONS_OF_A_HOME: [&str; 9] = [
    ".config/containers",
    ".config/environment.d",
    ".config/libvirt",
    ".config/lxc",
    ".config/systemd",
    ".docker",
    ".local/share/lxc",
    ".local/share/systemd",
    ".ssh",
];

/// Directories of this machine that configure them, in which links may lead elsewhere.
const CONFIGURATIONS: [&str; 10] = [
    "/etc",
    "/etc/cni/net.d",
    "/etc/containerd",
    "/etc/containers",
    "/etc/docker",
    "/etc/ld.so.conf.d",
    "/etc/libvirt",
    "/etc/lxc",
    "/etc/ssh",
    "/etc/systemd/system",
];

/// Directories of libraries that every machine has; the others are in [`LOADER`].
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// Configuration of the loader of libraries, and the directory of its parts.
const LOADER: [&str; 2] = ["/etc/ld.so.conf", "/etc/ld.so.conf.d"];

/// Most bytes of a file that are read to find an interpreter, and of the loader's configuration.
const INTERPRETER_MOST: usize = 256;
const LOADER_MOST: u64 = 1 << 16;

/// The file that says where users' homes are, and the most bytes of it that are read.
const USERS: &str = "/etc/passwd";
const USERS_MOST: u64 = 16 << 20;

/// Lists the places of the table, and those of engines, wherever their owner put them.
pub(super) fn of_the_machine() -> impl Iterator<Item = Place> {
    let usual = engines::USUAL.map(|path| (PathBuf::from(path), Whole, ENGINE));
    let configured = engines::configured().map(|path| (path, Whole, ENGINE));
    let table = OF_THE_MACHINE.map(|(path, extent, of)| (PathBuf::from(path), extent, of));
    let all = table.into_iter().chain(usual).chain(configured);
    all.map(|(path, extent, description)| Place {
        path,
        description,
        extent,
        harm: START,
        remedy: None,
    })
}

/// Lists the places in which surtax keeps what it has, wherever these were put.
pub(super) fn of_surtax() -> impl Iterator<Item = Place> {
    let place =
        |path, description, harm, remedy| Place { path, description, extent: Whole, harm, remedy };
    let fixed = OURS.map(|(path, description, harm)| place(path.into(), description, harm, None));
    let runs = shelf::directories().unwrap_or_default().into_iter().map(move |path| {
        let remedy = Some(", or have runs kept elsewhere: set `XDG_DATA_HOME`");
        place(path, "where surtax keeps runs", RESULT, remedy)
    });
    let state = lab::state::directory().ok().map(move |path| {
        let remedy = Some(", or have it elsewhere: set `SURTAX_STATE_DIR`");
        place(path, "where surtax keeps its state", RESULT, remedy)
    });
    let cache = lab::cache_place().ok().map(move |path| {
        let remedy = Some(", or have these elsewhere: set `SURTAX_CACHE_DIR`");
        place(path, "where surtax keeps kernels and images", START, remedy)
    });
    let workloads = workload::shelf::directory().ok().map(move |path| {
        let remedy = Some(", or have workloads elsewhere: set `XDG_CONFIG_HOME`");
        place(path, "where surtax finds your workloads", START, remedy)
    });
    let running = place(lab::run_directory(), "where surtax has what runs", RESULT, None);
    fixed.into_iter().chain(runs).chain(state).chain(cache).chain(workloads).chain([running])
}

/// Lists what configures the programs of whoever runs surtax, or of who typed `sudo`, in a home.
pub(super) fn of_homes() -> Vec<Place> {
    let place = |path| Place {
        path,
        description: "where the configuration of programs that surtax starts lies",
        extent: Whole,
        harm: START,
        remedy: None,
    };
    let below = |home: PathBuf| CONFIGURATIONS_OF_A_HOME.map(|name| place(home.join(name)));
    homes().into_iter().flat_map(below).collect()
}

/// Lists the links in directories of configuration, here and in `homes`.
pub(super) fn of_links(homes: &[Place]) -> impl Iterator<Item = Place> + use<> {
    let homes = homes.iter().map(|place| place.path.clone());
    let directories: Vec<PathBuf> = homes.chain(CONFIGURATIONS.map(PathBuf::from)).collect();
    links(directories.into_iter()).map(|path| Place {
        path,
        description: "a link by which programs of root's find their configuration",
        extent: Whole,
        harm: START,
        remedy: Some(", or put the file itself in place of the link"),
    })
}

/// Lists the places from which programs are started: surtax's own file, the directories of `PATH`,
/// be they relative to where surtax was called, and the links in them.
pub(super) fn of_programs() -> impl Iterator<Item = Place> {
    let place = |description, remedy| {
        move |path| Place { path, description, extent: Itself, harm: START, remedy: Some(remedy) }
    };
    // Without the variable, programs are looked for in places of the table.
    let path = std::env::var_os("PATH");
    let directories: Vec<PathBuf> = path
        .iter()
        .flat_map(std::env::split_paths)
        .filter_map(|directory| std::path::absolute(Path::new(".").join(directory)).ok())
        .collect();
    let links = links(directories.clone().into_iter());
    let interpreters: BTreeSet<PathBuf> =
        directories.iter().flat_map(|it| interpreters(it)).collect();
    let ourselves = std::env::current_exe().ok().into_iter();
    let ourselves = ourselves.map(place("surtax itself", ", or install surtax elsewhere"));
    let directories = directories
        .into_iter()
        .map(place("a directory of `PATH`", ", or take that one off `PATH`"));
    let links = links.map(place(
        "a program of a directory of `PATH`",
        ", or put the program itself in place of the link",
    ));
    let interpreters = interpreters.into_iter().map(place(
        "what a program of a directory of `PATH` is interpreted by",
        ", or take that program off `PATH`",
    ));
    ourselves.chain(directories).chain(links).chain(interpreters)
}

/// Lists where libraries of root's programs are loaded from, and the links in there.
pub(super) fn of_libraries() -> impl Iterator<Item = Place> {
    let place = |path, extent| Place {
        path,
        description: "where libraries of root's programs are loaded from",
        extent,
        harm: START,
        remedy: None,
    };
    let [main, parts] = LOADER.map(PathBuf::from);
    let parts = parts.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let named: Vec<PathBuf> = std::iter::once(main).chain(parts).flat_map(|it| told(&it)).collect();
    let all: Vec<PathBuf> = LIBRARIES.map(PathBuf::from).into_iter().chain(named).collect();
    let links = links(all.clone().into_iter()).map(move |path| place(path, Itself));
    all.into_iter().map(move |path| place(path, Whole)).chain(links)
}

/// Directories that a file of the loader's configuration names.
fn told(file: &Path) -> Vec<PathBuf> {
    let text = regular_file::read(file, LOADER_MOST).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().map(|line| PathBuf::from(line.trim())).filter(|path| path.is_absolute()).collect()
}

/// The interpreters that scripts of a directory name.
fn interpreters(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    files.filter_map(|file| interpreter(&file)).collect()
}

/// The interpreter in the first line of a script, as `execve(2)` reads it.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    let most = u64::try_from(INTERPRETER_MOST).unwrap_or(u64::MAX);
    File::open(file).ok()?.take(most).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = line.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
}

fn links(directories: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
    let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let entries = directories.filter_map(|place| place.read_dir().ok());
    entries.flat_map(move |entries| entries.flatten().filter(is_link)).map(|entry| entry.path())
}

/// The homes of whoever runs surtax, by `HOME` and by their number, which is how `ssh` finds its
/// own, and of whoever typed `sudo`.
fn homes() -> Vec<PathBuf> {
    let users = regular_file::read(Path::new(USERS), USERS_MOST).unwrap_or_default();
    let users = String::from_utf8_lossy(&users).into_owned();
    let us = rustix::process::geteuid().as_raw();
    let named = std::env::var_os("HOME").map(PathBuf::from);
    let found =
        [Some(us), sudoer::uid()].into_iter().flatten().filter_map(|user| home(&users, user));
    let mut homes: Vec<PathBuf> = named.into_iter().chain(found).collect();
    homes.retain(|home| home.is_absolute() && home.parent().is_some());
    homes.dedup();
    homes
}

/// The home of a user by number, in the text of a file such as `/etc/passwd`.
fn home(users: &str, user: u32) -> Option<PathBuf> {
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_them = fields.get(2)?.parse() == Ok(user);
        is_them.then(|| fields.get(5).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_that_of_the_number_and_not_of_the_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\n# 7\n7:x:8:8::/eight:/bin/sh\n\
                     ann:x:7:7:Ann,,,:/home/ann:/bin/zsh\n";
        assert_eq!(home(users, 0), Some("/root".into()));
        assert_eq!(home(users, 7), Some("/home/ann".into()));
        assert_eq!(home(users, 9), None);
    }

    #[test]
    fn the_table_names_each_place_once_and_in_order() {
        assert!(OF_THE_MACHINE.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn the_book_has_the_table() {
        let book = include_str!("../../../docs/what-it-does-to-your-machine.md");
        let fixed = OF_THE_MACHINE.into_iter().map(|(path, ..)| path);
        let homes = CONFIGURATIONS_OF_A_HOME.into_iter();
        for path in fixed.chain(engines::USUAL).chain(homes) {
            let is_told = book.contains(&format!("`{path}`"));
            assert!(is_told, "`{path}` is not in the page that says what `--writable` refuses");
        }
    }
}
