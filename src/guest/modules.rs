//! Kernel modules: which files a guest must load, and in which order.
//!
//! The order comes from what each module says of itself (`depends=` in its `.modinfo` section), so
//! that a tree fresh from a package, without `modules.dep`, is enough.
//!
//! A tree may be somebody else's, beside a kernel that was named, and what is read of it reaches
//! the guest. So it is read below its directory only: a link in it is followed as long as it stays
//! inside.

use crate::fault::{Doing, Fault};
use crate::guest::elf::Elf;
use crate::regular_file;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, ReadDir};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The most directories of a module tree that are looked into.
const DIRECTORY_LIMIT: usize = 10_000;

/// The most bytes of a list of modules: a hundred thousand have room in it.
const LIST_LIMIT: u64 = 8 << 20;

/// The most bytes of a module's file, as packed as it lies there.
const MODULE_LIMIT: u64 = 256 << 20;

/// The most bytes of the modules that are loaded together, no longer compressed.
const TOTAL_LIMIT: usize = 1 << 30;

/// Number of times that a name is looked up while others rename something that may be above it.
const LOOKUP_TRIES: usize = 100;

/// Hint where a tree cannot be read.
const ADVICE: &str = "put the file itself there, or name another kernel by `kernel=`";

/// Way to a file that does not leave the tree.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The modules of one kernel release.
pub(crate) struct Tree {
    place: Place,
    /// Paths below the place, by the modules' names.
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

/// One module, ready to be loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// With underscores, as the kernel prints it.
    pub(crate) name: String,
    /// The file's contents, no longer compressed.
    pub(crate) bytes: Vec<u8>,
}

impl Tree {
    /// Reads the names below `lib/modules/RELEASE`.
    ///
    /// # Errors
    /// The machine's, when the directory or a list in it cannot be read.
    pub(crate) fn open(directory: &Path) -> Result<Self, Fault> {
        let place = Place::open(directory)?;
        // The list is one file to read; a whole tree would be a thousand, some over a network.
        let listed = match place.list("modules.order")? {
            listed if listed.is_empty() => walk(&place)?,
            listed => listed,
        };
        let built_in = place.list("modules.builtin")?;
        let built_in = built_in.iter().filter_map(|path| module_name(path)).collect();
        let name_it = |path: PathBuf| Some((module_name(&path)?, path));
        let files = listed.into_iter().filter_map(name_it).collect();
        Ok(Self { place, files, built_in })
    }

    /// Those of `names` that are neither a module here nor built into the kernel.
    pub(crate) fn missing<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        let is_here = |name: &str| self.files.contains_key(name) || self.built_in.contains(name);
        names.iter().copied().filter(|name| !is_here(name)).collect()
    }

    /// Lists the modules to load for `names`, dependencies first, without those in `loaded`, which
    /// grows.
    ///
    /// `unpack` turns a module's file into the module, whatever it was compressed with.
    ///
    /// # Errors
    /// A module that is nowhere, or that cannot be read; all of them are too large for a guest.
    pub(crate) fn order(
        &self,
        names: &[&str],
        loaded: &mut BTreeSet<String>,
        unpack: &dyn Fn(Vec<u8>) -> Result<Vec<u8>, Fault>,
    ) -> Result<Vec<Module>, Fault> {
        let mut total = 0_usize;
        let mut begin = |name: &str| -> Result<Option<Pending>, Fault> {
            let begun = self.begin(name, loaded, unpack)?;
            total += begun.as_ref().map_or(0, |pending| pending.module.bytes.len());
            if total > TOTAL_LIMIT {
                let what = format!(
                    "the kernel modules for the guest have more than {TOTAL_LIMIT} bytes together"
                );
                return Err(Fault::machine(what).hint("name another kernel by `kernel=`"));
            }
            Ok(begun)
        };
        let mut order = Vec::new();
        for name in names {
            // By hand: a chain of modules may be longer than a stack is deep.
            let mut way: Vec<Pending> = begin(name)?.into_iter().collect();
            while let Some(mut pending) = way.pop() {
                if let Some(need) = pending.needs.next() {
                    way.push(pending);
                    way.extend(begin(&need)?);
                } else {
                    order.push(pending.module);
                }
            }
        }
        Ok(order)
    }

    /// Reads a module that is not loaded yet; none where there is nothing to load.
    fn begin(
        &self,
        name: &str,
        loaded: &mut BTreeSet<String>,
        unpack: &dyn Fn(Vec<u8>) -> Result<Vec<u8>, Fault>,
    ) -> Result<Option<Pending>, Fault> {
        // Marked before its dependencies are visited: a ring of modules ends.
        if self.built_in.contains(name) || !loaded.insert(name.to_owned()) {
            return Ok(None);
        }
        let path = self.files.get(name).ok_or_else(|| {
            Fault::machine(format!(
                "the guest kernel has no module `{name}` and it is not built in"
            ))
        })?;
        let shown = self.place.path.join(path);
        let packed = self
            .place
            .module(path)
            .doing(format_args!("read the kernel module `{}`", shown.display()))
            .map_err(advised)?;
        let bytes = unpack(packed)?;
        let needs = dependencies(&bytes).into_iter();
        Ok(Some(Pending { module: Module { name: name.to_owned(), bytes }, needs }))
    }
}

/// A module that is loaded when those that it needs are.
struct Pending {
    module: Module,
    /// Names of those that were not looked at yet.
    needs: std::vec::IntoIter<String>,
}

/// The directory of a kernel release, by its descriptor: all that is read of it lies below.
struct Place {
    /// For people.
    path: PathBuf,
    held: OwnedFd,
}

impl Place {
    fn open(path: &Path) -> Result<Self, Fault> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty())
            .doing(format_args!("open the kernel modules in `{}`", path.display()))?;
        Ok(Self { path: path.to_owned(), held })
    }

    /// Finds what a path below leads to, and opens nothing yet.
    fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        for _ in 0..LOOKUP_TRIES {
            match rustix::fs::openat2(&self.held, path, flags, Mode::empty(), INSIDE) {
                Err(Errno::AGAIN) => {}
                Err(Errno::XDEV) => {
                    let what = format!("it leads out of `{}`", self.path.display());
                    return Err(io::Error::new(ErrorKind::InvalidInput, what));
                }
                found => return Ok(found?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let found = self.find(path)?;
        regular_file::read(&name_of(&found), limit)
    }

    fn entries(&self, path: &Path) -> io::Result<ReadDir> {
        let found = self.find(path)?;
        fs::read_dir(name_of(&found))
    }

    /// Reads a list of modules; it is empty where there is none.
    fn list(&self, name: &str) -> Result<Vec<PathBuf>, Fault> {
        let read = self.read(Path::new(name), LIST_LIMIT);
        if is_absent(&read) {
            return Ok(Vec::new());
        }
        let shown = self.path.join(name);
        let bytes = read
            .doing(format_args!("read the list of modules `{}`", shown.display()))
            .map_err(advised)?;
        Ok(String::from_utf8_lossy(&bytes).lines().map(PathBuf::from).collect())
    }

    /// Reads a module; the list of a tree leaves out what its files are compressed with.
    fn module(&self, path: &Path) -> io::Result<Vec<u8>> {
        let plain = self.read(path, MODULE_LIMIT);
        if !is_absent(&plain) {
            return plain;
        }
        let packed = ["xz", "zst", "gz"].map(|suffix| path.with_extension(format!("ko.{suffix}")));
        let mut packed = packed.iter().map(|path| self.read(path, MODULE_LIMIT));
        packed.find(|read| !is_absent(read)).unwrap_or(plain)
    }
}

/// Returns a path of what a descriptor holds, whatever has its name by now.
fn name_of(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

fn is_absent(read: &io::Result<Vec<u8>>) -> bool {
    matches!(read, Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Says what to do about a tree that cannot be read, where nothing better was said.
fn advised(fault: Fault) -> Fault {
    if fault.hint.is_some() { fault } else { fault.hint(ADVICE) }
}

/// Every file below `kernel`.
fn walk(place: &Place) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    let mut pending = vec![PathBuf::from("kernel")];
    for _ in 0..DIRECTORY_LIMIT {
        let Some(next) = pending.pop() else { break };
        let shown = place.path.join(&next);
        let entries = place
            .entries(&next)
            .doing(format_args!("list the kernel modules in `{}`", shown.display()))
            .map_err(advised)?;
        for entry in entries.flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let found = next.join(entry.file_name());
            if is_directory { &mut pending } else { &mut files }.push(found);
        }
    }
    Ok(files)
}

/// `virtio_rng` for `…/virtio-rng.ko.xz`; nothing for a file that is no module.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, suffix) = file.split_once(".ko")?;
    matches!(suffix, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

/// Lists what a module needs before it: the `depends=` line of its `.modinfo` section.
fn dependencies(module: &[u8]) -> Vec<String> {
    let lines = Elf::parse(module).and_then(|elf| elf.section(".modinfo")).unwrap_or_default();
    lines
        .split(|byte| *byte == 0)
        .filter_map(|line| line.strip_prefix(b"depends="))
        .flat_map(|names| names.split(|byte| *byte == b','))
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Time that a reader may wait for what nobody will write.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A file that is just enough ELF to hold a `.modinfo` section.
    fn module(depends: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={depends}\0name=x\0");
        let names = b"\0.modinfo\0";
        let mut bytes = vec![0; 0x40];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[0x28] = 0x40; // section headers start here
        bytes[0x3a] = 0x40; // size of one
        bytes[0x3c] = 3; // how many, of which the first is none
        bytes[0x3e] = 2; // the one with the names
        let start = 0x40 + 3 * 0x40;
        bytes.resize(2 * 0x40, 0);
        for (name, kind, offset, length) in
            [(1u32, 1, start, info.len()), (0, 3, start + info.len(), names.len())]
        {
            let mut header = vec![0; 0x40];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4] = kind;
            header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
            bytes.extend(header);
        }
        bytes.extend(info.as_bytes());
        bytes.extend(names);
        bytes
    }

    fn tree(modules: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("kernel/drivers")).unwrap();
        for (file, depends) in modules {
            let path = directory.path().join("kernel/drivers").join(file);
            fs::write(path, module(depends)).unwrap();
        }
        fs::write(directory.path().join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        (directory, tree)
    }

    fn names(order: &[Module]) -> Vec<&str> {
        order.iter().map(|module| module.name.as_str()).collect()
    }

    #[test]
    fn dependencies_are_loaded_first_and_once() {
        let (_directory, tree) = tree(&[
            ("virtio.ko", "virtio_ring"),
            ("virtio_ring.ko", ""),
            ("virtio_pci.ko", "virtio_ring,virtio"),
            ("virtio-rng.ko", "virtio"),
        ]);
        let mut loaded = BTreeSet::new();
        let first = tree.order(&["virtio_pci", "ext4"], &mut loaded, &Ok).unwrap();
        assert_eq!(names(&first), ["virtio_ring", "virtio", "virtio_pci"]);
        let second = tree.order(&["virtio_rng"], &mut loaded, &Ok).unwrap();
        assert_eq!(names(&second), ["virtio_rng"]);
    }

    #[test]
    fn modules_that_need_each_other_do_not_loop() {
        let (_directory, tree) = tree(&[("a.ko", "b"), ("b.ko", "a")]);
        let order = tree.order(&["a"], &mut BTreeSet::new(), &Ok).unwrap();
        assert_eq!(names(&order), ["b", "a"]);
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        let (_directory, tree) = tree(&[("a.ko", "b")]);
        assert_eq!(tree.missing(&["a", "ext4", "virtiofs"]), ["virtiofs"]);
        let fault = tree.order(&["a"], &mut BTreeSet::new(), &Ok).unwrap_err();
        assert_eq!(fault.message, "the guest kernel has no module `b` and it is not built in");
    }

    /// A chain of 60,000 on a stack of 2 MiB was too long; this is as many for an eighth of it.
    #[test]
    fn a_long_chain_of_modules_takes_no_stack() {
        const LAST: usize = 7_500;
        let mut chain: Vec<(String, String)> =
            (0..LAST).map(|at| (format!("m{at}.ko"), format!("m{}", at + 1))).collect();
        chain.push((format!("m{LAST}.ko"), String::new()));
        let chain: Vec<(&str, &str)> =
            chain.iter().map(|(file, need)| (file.as_str(), need.as_str())).collect();
        let (_directory, tree) = tree(&chain);
        let order = thread::scope(|scope| {
            let order = || tree.order(&["m0"], &mut BTreeSet::new(), &Ok);
            let small = thread::Builder::new().stack_size(256 << 10);
            small.spawn_scoped(scope, order).unwrap().join().unwrap()
        });
        let order = order.unwrap();
        let expected: Vec<String> = (0..=LAST).rev().map(|at| format!("m{at}")).collect();
        assert_eq!(names(&order), expected);
    }

    #[test]
    fn a_module_that_leads_out_of_the_tree_is_refused_and_its_bytes_are_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("x.ko");
        fs::write(&secret, "secret").unwrap();
        let (directory, _tree) = tree(&[]);
        let at = |name: &str| directory.path().join(name);
        let beside = outside.path().file_name().unwrap().to_str().unwrap();
        symlink(&secret, at("kernel/far.ko")).unwrap();
        symlink(&secret, at("kernel/packed.ko.xz")).unwrap();
        symlink(format!("../../{beside}/x.ko"), at("kernel/up.ko")).unwrap();
        symlink(outside.path(), at("kernel/door")).unwrap();
        let listed_up = format!("../{beside}/x.ko");
        for listed in [
            "kernel/far.ko",
            "kernel/packed.ko",
            "kernel/up.ko",
            "kernel/door/x.ko",
            listed_up.as_str(),
            secret.to_str().unwrap(),
        ] {
            fs::write(at("modules.order"), format!("{listed}\n")).unwrap();
            let tree = Tree::open(directory.path()).unwrap();
            let name = module_name(Path::new(listed)).unwrap();
            let unpack = |bytes: Vec<u8>| -> Result<Vec<u8>, Fault> {
                panic!("{listed}: {} bytes were read", bytes.len())
            };
            let fault = tree.order(&[name.as_str()], &mut BTreeSet::new(), &unpack).unwrap_err();
            assert!(fault.message.contains("it leads out of `"), "{listed}: {fault}");
            assert!(!fault.to_string().contains("secret"), "{listed}: {fault}");
            assert_eq!(fault.hint.as_deref(), Some(ADVICE), "{listed}");
        }
        fs::remove_file(at("modules.order")).unwrap();
        symlink(&secret, at("modules.order")).unwrap();
        let fault = Tree::open(directory.path()).err().unwrap();
        assert!(fault.message.contains("it leads out of `"), "{fault}");
    }

    #[test]
    fn links_within_the_tree_are_followed_and_those_beside_the_modules_are_left_alone() {
        let (directory, _tree) = tree(&[("real.ko", "")]);
        let at = |name: &str| directory.path().join(name);
        symlink("/usr/src/linux-headers", at("build")).unwrap();
        symlink("/usr/src/linux", at("source")).unwrap();
        symlink("drivers/real.ko", at("kernel/link.ko")).unwrap();
        symlink("../../kernel/drivers/real.ko", at("kernel/drivers/around.ko")).unwrap();
        symlink("real.ko", at("kernel/drivers/packed.ko.zst")).unwrap();
        symlink("drivers", at("kernel/alias")).unwrap();
        let also = directory.path().join("tree");
        symlink(".", &also).unwrap();
        let read = |place: &Path, name: &str| {
            let tree = Tree::open(place).unwrap();
            let mut order = tree.order(&[name], &mut BTreeSet::new(), &Ok).unwrap();
            order.pop().unwrap().bytes
        };
        for name in ["link", "around", "packed", "real"] {
            assert_eq!(read(directory.path(), name), module(""), "{name}");
        }
        assert_eq!(read(&also, "link"), module(""), "the tree itself by a link");
        let listed = "kernel/alias/real.ko\nkernel/drivers/packed.ko\n";
        fs::write(at("modules.order"), listed).unwrap();
        for name in ["real", "packed"] {
            assert_eq!(read(directory.path(), name), module(""), "{name}, listed");
        }
    }

    /// Opens a tree and orders a module of it, which must be refused, and soon; gives the reason.
    fn refused_soon(directory: &Path, name: &'static str) -> String {
        let directory = directory.to_path_buf();
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let tree = Tree::open(&directory);
            let order = tree.and_then(|tree| tree.order(&[name], &mut BTreeSet::new(), &Ok));
            say.send(order)
        });
        let refused = said.recv_timeout(PATIENCE).expect("it is waited for");
        refused.unwrap_err().message
    }

    #[test]
    fn a_list_or_a_module_that_is_no_file_or_has_no_end_is_refused_at_once() {
        let (directory, _tree) = tree(&[("a.ko", "")]);
        let at = |name: &str| directory.path().join(name);
        rustix::fs::mkfifoat(CWD, at("kernel/pipe.ko"), Mode::RUSR).unwrap();
        let said = refused_soon(directory.path(), "pipe");
        assert!(said.contains("pipe.ko`: it is a pipe, and no regular file"), "{said}");
        for list in ["modules.order", "modules.builtin"] {
            let _ = fs::remove_file(at(list));
            rustix::fs::mkfifoat(CWD, at(list), Mode::RUSR).unwrap();
            let said = refused_soon(directory.path(), "a");
            assert!(
                said.contains(&format!("{list}`: it is a pipe, and no regular file")),
                "{said}"
            );
            fs::remove_file(at(list)).unwrap();
            // A file without blocks.
            fs::File::create(at(list)).unwrap().set_len(1 << 40).unwrap();
            let said = refused_soon(directory.path(), "a");
            assert!(said.contains(&format!("{list}`: it is longer than 8388608 bytes")), "{said}");
            fs::remove_file(at(list)).unwrap();
        }
    }

    #[test]
    fn modules_that_are_too_large_together_are_refused() {
        let (_directory, tree) = tree(&[("a.ko", ""), ("b.ko", "")]);
        // Never touched, so no memory is taken.
        let unpack = |_: Vec<u8>| -> Result<Vec<u8>, Fault> { Ok(vec![0; TOTAL_LIMIT / 2 + 1]) };
        assert!(tree.order(&["a"], &mut BTreeSet::new(), &unpack).is_ok());
        let fault = tree.order(&["a", "b"], &mut BTreeSet::new(), &unpack).unwrap_err();
        assert!(fault.message.ends_with("more than 1073741824 bytes together"), "{fault}");
    }

    #[test]
    fn a_compressed_module_has_the_same_name() {
        assert_eq!(module_name(Path::new("x/virtio-rng.ko.zst")).as_deref(), Some("virtio_rng"));
        assert_eq!(module_name(Path::new("x/fuse.ko")).as_deref(), Some("fuse"));
        assert_eq!(module_name(Path::new("modules.order")), None);
    }
}
