//! Places that decide what root's programs do, as every machine has them, and those in which surtax
//! keeps what it has.
//!
//! Of this machine's they are a table: the innermost place around a directory decides, so that
//! somebody's project in `/var/lib` is no engine's. Those that depend on what a machine is
//! configured to do are found by the readers beside this file.

use crate::lab;
use crate::ledger::shelf;
use crate::plan::writable::real;
use crate::rootfs::engines;
use crate::workload;
use std::path::{Path, PathBuf};

/// A place that a command must not exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Path of the place, absolute.
    pub(super) path: PathBuf,
    /// Extent of it that must not be written.
    pub(super) extent: Extent,
    /// Reason for which it must not.
    pub(super) reason: Reason,
    /// Ways to have it elsewhere, each as part of a hint. Places with one in common are all had
    /// elsewhere by it.
    pub(super) remedies: Vec<String>,
}

impl Place {
    /// One that nothing but a narrower directory helps with.
    pub(super) fn new(path: impl Into<PathBuf>, extent: Extent, reason: Reason) -> Self {
        Self { path: path.into(), extent, reason, remedies: Vec::new() }
    }

    /// One that a line or a setting names: all of it, since modules may be loaded from below. A
    /// directory of everybody's, such as in `TMPDIR=/tmp`, is not, nor one right below `/`, nor a
    /// home.
    pub(super) fn named(path: impl Into<PathBuf>, reason: Reason) -> Self {
        let path = path.into();
        let found = real(&path);
        let is_shared = |(shared, extent, _): &(&str, Extent, Reason)| {
            *extent == Itself && found == Path::new(shared)
        };
        let above = found.parent();
        let is_wide = above
            .is_none_or(|above| [Path::new("/"), Path::new("/home")].contains(&above))
            || std::env::home_dir().is_some_and(|home| found == home)
            || OF_THE_MACHINE.iter().any(is_shared);
        Self::new(path, if is_wide { Itself } else { Whole }, reason)
    }

    /// The same place, which can be had elsewhere.
    pub(super) fn or(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

/// Extent of a place that no command may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Nothing in it may be written either.
    Whole,
    /// It may not be written as a whole: what lies in it is like any other directory.
    Itself,
}

/// Reason for which a place must not be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// Description of the place, which goes on after "is".
    pub(super) description: &'static str,
    /// Harm that a command could do, which goes on after "could".
    pub(super) harm: &'static str,
}

impl Reason {
    /// That of a place from which something is started or obeyed.
    pub(super) const fn started(description: &'static str) -> Self {
        Self { description, harm: "exchange what is started or obeyed next" }
    }

    /// That of a place in which surtax has what it says in the end.
    const fn result(description: &'static str) -> Self {
        Self { description, harm: "write its own result" }
    }
}

use Extent::{Itself, Whole};

/// Places of this machine; `docs/what-it-does-to-your-machine.md` has them for users.
///
/// Source: Filesystem Hierarchy Standard 3.0; `file-hierarchy(7)`; `hier(7)`.
const OF_THE_MACHINE: [(&str, Extent, Reason); 72] = [
    ("/bin", Whole, PROGRAMS),
    ("/boot", Whole, KERNELS),
    ("/dev", Whole, DEVICES),
    ("/dev/hugepages", Itself, SHARED),
    ("/dev/shm", Itself, SHARED),
    ("/efi", Whole, KERNELS),
    ("/etc", Whole, CONFIGURATION),
    ("/gnu/store", Whole, PROGRAMS),
    ("/home", Itself, HOMES),
    ("/lib", Whole, PROGRAMS),
    ("/lib32", Whole, PROGRAMS),
    ("/lib64", Whole, PROGRAMS),
    ("/nix", Whole, PROGRAMS),
    ("/opt", Itself, OPTIONAL),
    ("/opt/cni", Whole, PROGRAMS),
    ("/opt/containerd", Whole, PROGRAMS),
    ("/opt/kata", Whole, PROGRAMS),
    ("/proc", Whole, SETTINGS),
    ("/run", Whole, UNITS),
    ("/run/media", Itself, DISKS),
    ("/sbin", Whole, PROGRAMS),
    ("/snap", Whole, PROGRAMS),
    ("/sys", Whole, SETTINGS),
    ("/tmp", Itself, TEMPORARY),
    ("/usr", Whole, PROGRAMS),
    ("/usr/local", Itself, PROGRAMS),
    ("/usr/local/bin", Whole, PROGRAMS),
    ("/usr/local/etc", Whole, CONFIGURATION),
    ("/usr/local/go", Whole, PROGRAMS),
    ("/usr/local/lib", Whole, PROGRAMS),
    ("/usr/local/lib64", Whole, PROGRAMS),
    ("/usr/local/libexec", Whole, PROGRAMS),
    ("/usr/local/sbin", Whole, PROGRAMS),
    ("/usr/local/share", Whole, PROGRAMS),
    ("/usr/local/src", Itself, SOURCES),
    ("/usr/src", Itself, SOURCES),
    ("/var/cache", Itself, STATE),
    ("/var/cache/apparmor", Whole, CONFIGURATION),
    ("/var/cache/apt", Whole, PACKAGES),
    ("/var/cache/dnf", Whole, PACKAGES),
    ("/var/cache/pacman", Whole, PACKAGES),
    ("/var/lib", Itself, STATE),
    ("/var/lib/NetworkManager", Whole, STATE),
    ("/var/lib/apt", Whole, PACKAGES),
    ("/var/lib/binfmts", Whole, STATE),
    ("/var/lib/cloud", Whole, SCRIPTS),
    ("/var/lib/cni", Whole, STATE),
    ("/var/lib/confexts", Whole, CONFIGURATION),
    ("/var/lib/crio", Whole, ENGINE),
    ("/var/lib/dkms", Whole, KERNELS),
    ("/var/lib/dpkg", Whole, SCRIPTS),
    ("/var/lib/etcd", Whole, STATE),
    ("/var/lib/extensions", Whole, PROGRAMS),
    ("/var/lib/extrausers", Whole, USERS),
    ("/var/lib/initramfs-tools", Whole, KERNELS),
    ("/var/lib/libvirt", Whole, ENGINE),
    ("/var/lib/nomad", Whole, ENGINE),
    ("/var/lib/pacman", Whole, SCRIPTS),
    ("/var/lib/pam", Whole, CONFIGURATION),
    ("/var/lib/polkit-1", Whole, USERS),
    ("/var/lib/portables", Whole, PROGRAMS),
    ("/var/lib/private", Whole, STATE),
    ("/var/lib/rpm", Whole, SCRIPTS),
    ("/var/lib/snapd", Whole, PROGRAMS),
    ("/var/lib/systemd", Whole, STATE),
    ("/var/log", Itself, LOGS),
    ("/var/spool", Itself, JOBS),
    ("/var/spool/anacron", Whole, JOBS),
    ("/var/spool/at", Whole, JOBS),
    ("/var/spool/cron", Whole, JOBS),
    ("/var/spool/incron", Whole, JOBS),
    ("/var/tmp", Itself, DIRECTORIES),
];

const CONFIGURATION: Reason = Reason::started("where the configuration of root's programs lies");
const DEVICES: Reason = Reason::started("where devices lie");
const DIRECTORIES: Reason = Reason::started("where surtax and others make directories");
const DISKS: Reason = Reason {
    description: "where disks that can be taken out are mounted",
    harm: "lead what is mounted or read there next to another place",
};
const ENGINE: Reason = Reason::started("where containers or machines lie that root starts");
const HOMES: Reason = Reason::started("where the homes of users lie");
const JOBS: Reason = Reason::started("where jobs lie that root executes");
const KERNELS: Reason = Reason::started("where kernels lie, their modules and what starts them");
const LOGS: Reason = Reason {
    description: "where services of root write their logs",
    harm: "lead what these write elsewhere",
};
const OPTIONAL: Reason = Reason::started("where programs that root may start lie");
const PACKAGES: Reason = Reason::started("where packages lie that root installs");
const PROGRAMS: Reason =
    Reason::started("where programs of root's lie, or what these load and read");
const SCRIPTS: Reason = Reason::started("where scripts lie that root executes");
const SETTINGS: Reason = Reason::started("where the kernel's settings lie");
const SHARED: Reason = Reason {
    description: "where surtax and others keep shared memory",
    harm: "exchange what others share there",
};
const SOURCES: Reason = Reason::started("where sources of root's programs lie");
const STATE: Reason = Reason::started("where services of root keep what they start from");
const TEMPORARY: Reason = Reason::started("where everybody has sockets and files of what runs");
const UNITS: Reason = Reason::started("where services of root have their sockets and units");
const USERS: Reason = Reason::started("where it stands who is a user and who may do what");

const CACHE: Reason = Reason::started("where surtax keeps kernels and images");
const OWN_STATE: Reason = Reason::result("where surtax keeps its state");
const RUNNING: Reason = Reason::result("where surtax has what runs");
const RUNS: Reason = Reason::result("where surtax keeps runs");
const WORKLOADS: Reason = Reason::started("where surtax finds your workloads");

/// Places that are surtax's on every machine, whatever this one's are called.
const OURS: [(&str, Reason); 3] = [
    ("/run/surtax", RUNNING),
    ("/var/cache/surtax", CACHE),
    ("/var/lib/surtax", Reason::result("where surtax keeps runs and its state")),
];

/// Lists the places of the table, and those of engines, wherever their owner put them.
pub(super) fn of_the_machine() -> impl Iterator<Item = Place> {
    let usual = engines::USUAL.map(|path| Place::new(path, Whole, ENGINE));
    let configured = engines::configured().map(|path| Place::new(path, Whole, ENGINE));
    let table = OF_THE_MACHINE.map(|(path, extent, reason)| Place::new(path, extent, reason));
    table.into_iter().chain(usual).chain(configured)
}

/// Lists the places in which surtax keeps what it has, wherever these were put.
pub(super) fn of_surtax() -> impl Iterator<Item = Place> {
    let fixed = OURS.map(|(path, reason)| Place::new(path, Whole, reason));
    let runs = shelf::directories().unwrap_or_default().into_iter().map(|path| {
        let remedy = ", or have runs kept elsewhere: set `XDG_DATA_HOME`";
        Place::new(path, Whole, RUNS).or(remedy)
    });
    let state = lab::state::directory().ok().map(|path| {
        let remedy = ", or have it elsewhere: set `SURTAX_STATE_DIR`";
        Place::new(path, Whole, OWN_STATE).or(remedy)
    });
    let cache = lab::cache_place().ok().map(|path| {
        let remedy = ", or have these elsewhere: set `SURTAX_CACHE_DIR`";
        Place::new(path, Whole, CACHE).or(remedy)
    });
    let workloads = workload::shelf::directory().ok().map(|path| {
        let remedy = ", or have workloads elsewhere: set `XDG_CONFIG_HOME`";
        Place::new(path, Whole, WORKLOADS).or(remedy)
    });
    let running = Place::new(lab::run_directory(), Whole, RUNNING);
    fixed.into_iter().chain(runs).chain(state).chain(cache).chain(workloads).chain([running])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of the book's table that names a path.
    fn row(path: &str) -> &'static str {
        let book = include_str!("../../../docs/what-it-does-to-your-machine.md");
        let named = format!("`{path}`");
        let row = book.lines().find(|line| line.starts_with('|') && line.contains(&named));
        row.unwrap_or_else(|| panic!("no row of what `--writable` refuses has `{path}`"))
    }

    #[test]
    fn all_of_a_directory_that_is_named_is_a_place_unless_it_is_everybody_s() {
        for (path, extent) in [
            ("/srv/lib", Whole),
            ("/srv/not-there", Whole),
            ("/usr/lib", Whole),
            ("/tmp", Itself),
            ("/srv/../tmp/.", Itself),
            ("/home", Itself),
            ("/", Itself),
            ("/..", Itself),
        ] {
            assert_eq!(Place::named(path, PROGRAMS).extent, extent, "{path}");
        }
    }

    #[test]
    fn the_table_names_each_place_once_and_in_order() {
        assert!(OF_THE_MACHINE.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn the_book_has_the_table_with_its_reasons() {
        let usual = engines::USUAL.map(|path| (path, Whole, ENGINE));
        for (path, extent, Reason { description, .. }) in OF_THE_MACHINE.into_iter().chain(usual) {
            let row = row(path);
            // Of those that are refused as a whole the row says that one reason for all.
            let is_told = extent == Itself || row.contains(description);
            assert!(is_told, "`{path}` is {description}, and the book says: {row}");
        }
    }
}
