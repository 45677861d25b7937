//! Kernel modules: which files a guest must load, and in which order.
//!
//! The order comes from what each module says of itself (`depends=` in its `.modinfo` section), so
//! that a tree fresh from a package, without `modules.dep`, is enough.

use crate::fault::{Doing, Fault};
use crate::guest::elf::Elf;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most directories of a module tree that are looked into.
const DIRECTORY_LIMIT: usize = 10_000;

/// The modules of one kernel release.
pub(crate) struct Tree {
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
    /// The machine's, when the directory cannot be read.
    pub(crate) fn open(directory: &Path) -> Result<Self, Fault> {
        let names = |list: &str| -> Vec<PathBuf> {
            let text = fs::read_to_string(directory.join(list)).unwrap_or_default();
            text.lines().map(|line| directory.join(line)).collect()
        };
        // The list is one file to read; a whole tree would be a thousand, some over a network.
        let listed = match names("modules.order") {
            listed if listed.is_empty() => walk(directory)?,
            listed => listed,
        };
        let name_it = |path: PathBuf| Some((module_name(&path)?, path));
        let built_in =
            names("modules.builtin").iter().filter_map(|path| module_name(path)).collect();
        Ok(Self { files: listed.into_iter().filter_map(name_it).collect(), built_in })
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
    /// A module that is nowhere, or that cannot be read.
    pub(crate) fn order(
        &self,
        names: &[&str],
        loaded: &mut BTreeSet<String>,
        unpack: &dyn Fn(Vec<u8>) -> Result<Vec<u8>, Fault>,
    ) -> Result<Vec<Module>, Fault> {
        let mut order = Vec::new();
        for name in names {
            self.visit(name, loaded, unpack, &mut order)?;
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        loaded: &mut BTreeSet<String>,
        unpack: &dyn Fn(Vec<u8>) -> Result<Vec<u8>, Fault>,
        order: &mut Vec<Module>,
    ) -> Result<(), Fault> {
        // Marked before its dependencies are visited: a ring of modules ends instead of recursing.
        if self.built_in.contains(name) || !loaded.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| {
            Fault::machine(format!(
                "the guest kernel has no module `{name}` and it is not built in"
            ))
        })?;
        let packed =
            read_module(path).doing(format_args!("read the kernel module `{}`", path.display()))?;
        let bytes = unpack(packed)?;
        for dependency in dependencies(&bytes) {
            self.visit(&dependency, loaded, unpack, order)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

/// Every file below `kernel`.
fn walk(directory: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    let mut pending = vec![directory.join("kernel")];
    for _ in 0..DIRECTORY_LIMIT {
        let Some(next) = pending.pop() else { break };
        let entries = fs::read_dir(&next)
            .doing(format_args!("list the kernel modules in `{}`", next.display()))?;
        for entry in entries.flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory { &mut pending } else { &mut files }.push(entry.path());
        }
    }
    Ok(files)
}

/// Reads a module; the list of a tree leaves out what its files are compressed with.
fn read_module(path: &Path) -> std::io::Result<Vec<u8>> {
    let packed = ["xz", "zst", "gz"].map(|suffix| path.with_extension(format!("ko.{suffix}")));
    let plain = fs::read(path);
    match packed.iter().find(|packed| packed.is_file()) {
        Some(packed) if plain.is_err() => fs::read(packed),
        _ => plain,
    }
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

    #[test]
    fn a_compressed_module_has_the_same_name() {
        assert_eq!(module_name(Path::new("x/virtio-rng.ko.zst")).as_deref(), Some("virtio_rng"));
        assert_eq!(module_name(Path::new("x/fuse.ko")).as_deref(), Some("fuse"));
        assert_eq!(module_name(Path::new("modules.order")), None);
    }
}
