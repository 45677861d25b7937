//! apt: fetches one of the distribution's own kernels, or Xen, without installing it.
//!
//! apt checks the chain from the archive's signed index to the package; we check the package
//! against that index once more before it is opened. Nothing outside our cache changes: where the
//! machine has no package lists, they are fetched into a directory of ours.

use crate::fault::{Doing, Fault};
use crate::lab::{Room, ToolRun, Undo, us};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::hex;
use surtax_instrument::wire::Cause;

/// Prefix of the concrete package's name; the release follows.
const CONCRETE_PREFIX: &str = "linux-image-";

/// Time limit of a download.
const DOWNLOAD_DEADLINE: Duration = Duration::from_secs(300);

/// A kernel package as the archive's index describes it.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    sha256: String,
}

impl Package {
    /// Makes a package of what the index says of it.
    ///
    /// # Errors
    /// The machine's: see [`plain`].
    fn of(name: &str, version: &str, sha256: &str) -> Result<Self, Fault> {
        Ok(Self { name: plain(name)?, version: plain(version)?, sha256: sha256.to_owned() })
    }

    /// Release of the kernel in it.
    ///
    /// # Errors
    /// The machine's: see [`plain`].
    fn release(&self) -> Result<String, Fault> {
        plain(self.name.trim_start_matches(CONCRETE_PREFIX))
    }
}

/// A name or a version in the index, which becomes a part of a path and of a command line.
///
/// Source: Debian Policy, 5.6.7 "Package" and 5.6.12 "Version".
///
/// # Errors
/// The machine's: it is none, and could lead elsewhere.
fn plain(word: &str) -> Result<String, Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+~:-".contains(&byte);
    let is_word = word.starts_with(|first: char| first.is_ascii_alphanumeric());
    if is_word && word.bytes().all(is_plain) {
        return Ok(word.to_owned());
    }
    let shown: String = word.escape_debug().take(80).collect();
    Err(Fault::machine(format!("apt calls a package or its version `{shown}`, as none is called")))
}

/// Fetches the kernel on which `meta`, a package of no files, depends into `kernels/RELEASE`, and
/// says which release it is.
///
/// It appears there whole or not at all: it is unpacked beside its place and then renamed.
///
/// # Errors
/// apt is not there, does not know the package, cannot reach the archive, or the package is not
/// what the index says.
pub(crate) fn fetch(meta: &str, kernels: &Path, room: &Room) -> Result<String, Fault> {
    let fetched = beside(kernels, room, |place| fetch_into(meta, place, kernels, room));
    fetched.map_err(|fault| {
        let fault = fault.during("cannot fetch a guest kernel by apt");
        if fault.hint.is_some() {
            return fault;
        }
        fault.hint("name a kernel with `kernel=PATH`; its modules are looked for beside it")
    })
}

/// Fetches packages into `trees/VERSION`, unpacked over each other, where VERSION is that of the
/// first.
///
/// It appears there as a kernel does.
///
/// # Errors
/// As [`fetch`]'s.
pub(crate) fn fetch_tree(names: &[&str], trees: &Path, room: &Room) -> Result<PathBuf, Fault> {
    beside(trees, room, |place| {
        let (apt, packages) = look_up(names, place, room, |apt| {
            let found = names.iter().map(|name| apt.candidate(name, room));
            // Nothing as soon as one is not known.
            found.collect::<Result<Option<Vec<Package>>, Fault>>()
        })?;
        let version = packages.first().map(|package| package.version.clone()).unwrap_or_default();
        let tree = unpack(&apt, &packages, place, room)?;
        let target = trees.join(version);
        match std::fs::rename(&tree, &target) {
            Ok(()) => Ok(target),
            Err(_) if target.is_dir() => Ok(target),
            Err(error) => Err(error).doing(format_args!("move packages to `{}`", target.display())),
        }
    })
}

/// Does something in a directory that is gone afterwards; after a crash its promise takes it away.
fn beside<T>(
    target: &Path,
    room: &Room,
    make: impl FnOnce(&Path) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let name = format!("surtax-fetch-{}-{}", std::process::id(), clock::monotonic_raw().0);
    let place = target.join(name);
    room.promise(Undo::Directory { path: place.clone() })?;
    let made = ["lists/partial", "cache/archives/partial", "tree"].iter().try_for_each(|part| {
        let path = place.join(part);
        std::fs::create_dir_all(&path).doing(format_args!("create `{}`", path.display()))
    });
    let done = made.and_then(|()| make(&place));
    let _ = std::fs::remove_dir_all(&place);
    done
}

/// Downloads packages, checks each against the index, and unpacks them over each other.
fn unpack(apt: &Apt, packages: &[Package], place: &Path, room: &Room) -> Result<PathBuf, Fault> {
    let wanted = packages.iter().map(|package| format!("{}={}", package.name, package.version));
    let wanted: Vec<String> = [String::from("download")].into_iter().chain(wanted).collect();
    let download = apt.get(&wanted.iter().map(String::as_str).collect::<Vec<_>>());
    let words: Vec<&str> = download.iter().map(String::as_str).collect();
    ToolRun { cwd: Some(place), deadline: DOWNLOAD_DEADLINE, ..ToolRun::new(&words) }.run(room)?;
    let tree = place.join("tree");
    for package in packages {
        let file = file_of(package, place)?;
        verify(&file, package)?;
        let (from, to) = (file.display().to_string(), tree.display().to_string());
        ToolRun::new(&["dpkg-deb", "-x", &from, &to]).run(room)?;
    }
    Ok(tree)
}

fn fetch_into(meta: &str, place: &Path, kernels: &Path, room: &Room) -> Result<String, Fault> {
    let (apt, package) = look_up(&[meta], place, room, |apt| concrete(meta, apt, room))?;
    let release = package.release()?;
    let tree = unpack(&apt, &[package], place, room)?;
    let to = tree.display().to_string();
    // Only for `modprobe` inside the guest; the driver itself computes the order of modules.
    let _ = ToolRun::new(&["depmod", "-b", &to, &release]).run(room);

    let target = kernels.join(&release);
    match std::fs::rename(&tree, &target) {
        Ok(()) => Ok(release),
        // Another surtax was faster; what it put there was verified in the same way.
        Err(_) if target.join("boot").is_dir() => Ok(release),
        Err(error) => Err(error).doing(format_args!("move the kernel to `{}`", target.display())),
    }
}

/// Settings with which apt is called: the machine's package lists, or ours.
struct Apt {
    lists: Option<PathBuf>,
    cache: PathBuf,
}

impl Apt {
    fn options(&self) -> Vec<String> {
        let mut options = vec!["-o".into(), format!("Dir::Cache={}", self.cache.display())];
        // Root of a namespace of their own can become nobody else.
        if us::is_in_a_namespace() {
            options.extend(["-o".into(), "APT::Sandbox::User=root".into()]);
        }
        if let Some(lists) = &self.lists {
            options.extend(["-o".into(), format!("Dir::State::Lists={}", lists.display())]);
        }
        options
    }

    fn get(&self, words: &[&str]) -> Vec<String> {
        let mut argv = vec![String::from("apt-get"), String::from("-q")];
        argv.extend(self.options());
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        argv
    }

    /// A package as the index has it; nothing when it does not.
    fn candidate(&self, name: &str, room: &Room) -> Result<Option<Package>, Fault> {
        let entry = self.show(name, room)?;
        let found = field(&entry, "Version").zip(field(&entry, "SHA256"));
        found.map(|(version, sha256)| Package::of(name, version, sha256)).transpose()
    }

    /// The index's newest entry for a package; empty when it has none.
    fn show(&self, package: &str, room: &Room) -> Result<String, Fault> {
        let mut argv = vec![String::from("apt-cache")];
        argv.extend(self.options());
        argv.extend(["show", "--no-all-versions", package].map(String::from));
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        match ToolRun::new(&words).text(room) {
            Err(fault) if fault.cause == Some(Cause::Absent) => Ok(String::new()),
            other => other,
        }
    }
}

/// Finds what is looked for, by the machine's package lists or else by fresh ones.
fn look_up<T>(
    names: &[&str],
    place: &Path,
    room: &Room,
    find: impl Fn(&Apt) -> Result<Option<T>, Fault>,
) -> Result<(Apt, T), Fault> {
    let mut apt = Apt { lists: None, cache: place.join("cache") };
    if let Some(found) = find(&apt)? {
        return Ok((apt, found));
    }
    apt.lists = Some(place.join("lists"));
    let update = apt.get(&["update"]);
    let words: Vec<&str> = update.iter().map(String::as_str).collect();
    ToolRun { deadline: DOWNLOAD_DEADLINE, ..ToolRun::new(&words) }.run(room)?;
    match find(&apt)? {
        Some(found) => Ok((apt, found)),
        None => {
            let names = names.join("`, or no `");
            Err(Fault::machine(format!("apt knows no package `{names}`")))
        }
    }
}

fn concrete(meta: &str, apt: &Apt, room: &Room) -> Result<Option<Package>, Fault> {
    let Some((name, version)) = dependency(&apt.show(meta, room)?) else {
        return Ok(None);
    };
    let entry = apt.show(&format!("{}={}", plain(&name)?, plain(&version)?), room)?;
    field(&entry, "SHA256").map(|sha256| Package::of(&name, &version, sha256)).transpose()
}

/// The kernel that the meta package depends on, and its exact version.
fn dependency(entry: &str) -> Option<(String, String)> {
    field(entry, "Depends")?.split(", ").find_map(|dependency| {
        let (name, version) = dependency.split_once(" (= ")?;
        let is_kernel = name.starts_with(CONCRETE_PREFIX);
        is_kernel.then(|| (name.to_owned(), version.trim_end_matches(')').to_owned()))
    })
}

fn field<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(": ");
    entry.lines().find_map(value)
}

/// The file that apt made of a package: its name begins with the package's.
fn file_of(package: &Package, place: &Path) -> Result<PathBuf, Fault> {
    let entries = std::fs::read_dir(place).doing(format_args!("list `{}`", place.display()))?;
    let begins = format!("{}_", package.name);
    let is_file = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&begins) && name.ends_with(".deb")
    };
    entries.flatten().map(|entry| entry.path()).find(is_file).ok_or_else(|| {
        Fault::machine(format!("apt-get ended well and left no package `{}`", package.name))
    })
}

fn verify(file: &Path, package: &Package) -> Result<(), Fault> {
    let bytes = std::fs::read(file).doing(format_args!("read `{}`", file.display()))?;
    let found = hex::of(&Sha256::digest(&bytes));
    if found == package.sha256 {
        return Ok(());
    }
    Err(Fault::machine(format!(
        "`{}` {} has SHA-256 {found}, but the archive's index says {}",
        package.name, package.version, package.sha256
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "\
Package: linux-image-cloud-amd64
Version: 6.1.192-2
Depends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)
SHA256: 00be21c0
";

    #[test]
    fn the_concrete_kernel_is_read_from_the_meta_package() {
        let (name, version) = dependency(META).unwrap();
        assert_eq!(name, "linux-image-6.1.0-56-cloud-amd64");
        assert_eq!(version, "6.1.192-2");
        assert_eq!(field(META, "SHA256"), Some("00be21c0"));
        assert_eq!(dependency("Package: x\nDepends: libc6 (>= 2.36)\n"), None);
        assert_eq!(dependency(""), None);
    }

    #[test]
    fn a_name_and_a_version_of_the_index_lead_nowhere_else() {
        for word in ["../../etc", "/etc", "..", ".x", "-o", "", "a/b", "a b", "a\n", "é"] {
            assert!(Package::of("xen-hypervisor", word, "00").is_err(), "{word:?}");
            assert!(Package::of(word, "1", "00").is_err(), "{word:?}");
        }
        let named = |name| Package::of(name, "1:6.1.192-2~deb12u1+b1", "00").unwrap();
        let kernel = named("linux-image-6.1.0-56-cloud-amd64");
        assert_eq!(kernel.release().unwrap(), "6.1.0-56-cloud-amd64");
        assert_eq!(kernel.version, "1:6.1.192-2~deb12u1+b1");
        // What stands behind the prefix is a name of its own.
        for name in ["linux-image-..", "linux-image-", "linux-image--o"] {
            assert!(named(name).release().is_err(), "{name}");
        }
    }

    #[test]
    fn a_package_that_is_not_what_the_index_says_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kernel.deb");
        std::fs::write(&file, b"abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let mut package = Package { name: "k".into(), version: "1".into(), sha256: abc.into() };
        assert_eq!(verify(&file, &package), Ok(()));
        package.sha256 = "00".into();
        let fault = verify(&file, &package).unwrap_err();
        assert!(fault.message.contains("the archive's index says 00"), "{fault}");
    }
}
