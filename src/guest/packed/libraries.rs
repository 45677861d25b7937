//! The libraries of a program: those that its loader would load before it, and theirs.
//!
//! Found by reading, in the order in which the loader looks, and nothing that a file names is
//! started: the program may be anybody's, and so may what it names as its loader. Which of a
//! library's variants for newer processors (`glibc-hwcaps`) is loaded, the guest's processor
//! decides, so all of them come along. Directories that are named with `$LIB` or `$PLATFORM` are
//! left out: the guest's loader passes over what it does not find there.
//!
//! Source: `ld.so(8)`; glibc 2.36, `elf/dl-load.c` (`_dl_map_object`, `is_dst`); musl 1.2.5,
//! `ldso/dynlink.c` (`load_library`, `fixup_rpath`).

use super::directories;
use super::dynamic::{self, Needs};
use super::file::PackedFile;
use crate::fault::{Doing, Fault};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use surtax_instrument::command_file::path;
use surtax_instrument::wire::Command;

/// The most libraries, and how far one may be behind the program.
const LIBRARIES_MOST: usize = 500;
const DEPTH_MOST: usize = 32;

/// The most directories of one list; of more the first count.
const PLACES_MOST: usize = 128;

/// The most bytes of one file, and of all that are read.
pub(super) const FILE_MOST: u64 = 1 << 30;
const ALL_MOST: u64 = 1 << 32;

/// Directories, beside a library, of its variants.
///
/// Source: `ld.so(8)`, "glibc-hwcaps".
const VARIANTS: [&str; 3] = ["x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// Names, behind `lib`, of what musl's loader is itself.
const MUSL_ITSELF: [&[u8]; 7] = [b"c.", b"pthread.", b"rt.", b"m.", b"dl.", b"util.", b"xnet."];

/// Hint where nothing else helps.
pub(super) const LEAVE_OUT: &str = "leave `root=packed` out";

/// Lists the libraries of a program, whose contents these are, and its loader last.
///
/// # Errors
/// The user's: one is not found, or asks for what cannot be packed.
pub(super) fn of(
    program: &Path,
    bytes: &[u8],
    loader: &str,
    command: &Command,
) -> Result<Vec<PackedFile>, Fault> {
    let shown = program.display();
    let needs = dynamic::read(bytes).ok_or_else(|| {
        Fault::user(format!("`{shown}` is no whole program for this machine, and cannot be packed"))
    })?;
    let loader = Path::new(loader);
    let (mut search, loader) = Search::by(loader, command).map_err(|fault| {
        let fault = fault.during(format_args!("the loader of `{shown}`, `{}`", loader.display()));
        fault.hint(LEAVE_OUT)
    })?;
    search.add(Loaded::program(program, needs))?;
    let mut next = 0;
    while let Some(loaded) = search.loaded.get_mut(next) {
        for name in mem::take(&mut loaded.needs.libraries) {
            search.require(&name, next)?;
        }
        next += 1;
    }
    let found = search.loaded.into_iter().filter_map(|it| it.file);
    Ok(found.chain([loader]).collect())
}

/// A file that the loader loads.
struct Loaded {
    /// Path by which it was found.
    path: PathBuf,
    /// The library; the program is its caller's.
    file: Option<PackedFile>,
    needs: Needs,
    /// Index of the file that needs it first; the program has none.
    by: Option<usize>,
    /// Number of files above it, of which each needs the next.
    depth: usize,
}

impl Loaded {
    fn program(path: &Path, needs: Needs) -> Self {
        Self { path: path.to_owned(), file: None, needs, by: None, depth: 0 }
    }

    /// A library that the file of this index needs.
    fn library(file: PackedFile, needs: Needs, by: usize) -> Self {
        Self { path: file.path.clone(), file: Some(file), needs, by: Some(by), depth: 0 }
    }

    /// Directory in which it lies.
    fn origin(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// Files that have been found, and places in which to look for more.
struct Search<'a> {
    /// Working directory of the command.
    cwd: &'a Path,
    /// True if the loader is musl's, and not glibc's.
    is_musl: bool,
    /// Directories of the command's `LD_LIBRARY_PATH`, as they are written.
    given: &'a [u8],
    /// Directories for every program.
    usual: Vec<PathBuf>,
    loaded: Vec<Loaded>,
    /// Names that need not be looked for any more.
    names: BTreeSet<Vec<u8>>,
    /// Number of bytes that were read.
    read: u64,
}

impl<'a> Search<'a> {
    /// With the loader itself.
    fn by(loader: &Path, command: &'a Command) -> Result<(Self, PackedFile), Fault> {
        if !loader.is_absolute() {
            return Err(Fault::user("its path is not absolute"));
        }
        let unread = |error| Fault::user(format!("no program can be read there: {error}"));
        let file = PackedFile::open(loader).map_err(unread)?;
        let bytes = file.read(FILE_MOST).map_err(unread)?;
        let needs = dynamic::read(&bytes)
            .ok_or_else(|| Fault::user("that is no whole program for this machine"))?;
        let file_name = loader.file_name().unwrap_or_default().as_bytes();
        let is_musl = file_name.starts_with(b"ld-musl-");
        let usual = if is_musl { directories::of_musl(loader) } else { directories::of_glibc() };
        let own = command.env.iter().rfind(|(key, _)| key == b"LD_LIBRARY_PATH");
        let names = [file_name.to_vec(), loader.as_os_str().as_bytes().to_vec()];
        let search = Self {
            cwd: path(&command.cwd),
            is_musl,
            given: own.map_or(b"".as_slice(), |(_, value)| value.as_slice()),
            usual,
            loaded: Vec::new(),
            names: names.into_iter().chain(needs.own_name).collect(),
            read: bytes.len() as u64,
        };
        Ok((search, file))
    }

    fn add(&mut self, mut loaded: Loaded) -> Result<(), Fault> {
        let shown = loaded.path.display();
        if loaded.needs.is_audited {
            return Err(Fault::user(format!(
                "`{shown}` names libraries that watch its loader (`DT_AUDIT`), and cannot be packed"
            ))
            .hint(LEAVE_OUT));
        }
        let needing = loaded.by.and_then(|by| self.loaded.get(by));
        let depth = needing.map_or(0, |needing| needing.depth + 1);
        // The program is there, too.
        if self.loaded.len() > LIBRARIES_MOST || depth > DEPTH_MOST {
            return Err(Fault::user(format!(
                "with `{shown}` there are more than {LIBRARIES_MOST} libraries, or more than \
                 {DEPTH_MOST} of which each needs the next, too many to be packed"
            ))
            .hint(LEAVE_OUT));
        }
        loaded.depth = depth;
        self.loaded.push(loaded);
        Ok(())
    }

    /// Finds a library that the file of this index needs, if it has not been found before.
    fn require(&mut self, name: &[u8], by: usize) -> Result<(), Fault> {
        let Some(needing) = self.loaded.get(by) else { return Ok(()) };
        let shown = needing.path.display().to_string();
        let as_path = name.contains(&b'/').then(|| self.place(name, needing.origin()));
        let key = match &as_path {
            Some(Some(place)) => place.as_os_str().as_bytes().to_vec(),
            _ => name.to_vec(),
        };
        let is_itself = self.is_musl && is_musl_itself(&key);
        if is_itself || self.names.contains(&key) {
            return Ok(());
        }
        let candidates: Vec<PathBuf> = match as_path {
            Some(place) => place.into_iter().collect(),
            None => self.places(by).iter().map(|it| it.join(path(name))).collect(),
        };
        let Some((found, needs)) = self.first(candidates)? else {
            let name = String::from_utf8_lossy(name);
            return Err(Fault::user(format!(
                "the library `{}`, which `{shown}` needs, is not found",
                name.escape_debug()
            ))
            .hint("install that library, or leave `root=packed` out"));
        };
        self.names.insert(key);
        // Musl's loader goes by the names of files alone.
        self.names.extend(needs.own_name.clone().filter(|_| !self.is_musl));
        let has_variants = !self.is_musl && !name.contains(&b'/');
        let variants = if has_variants { variants(&found.path) } else { Vec::new() };
        self.add(Loaded::library(found, needs, by))?;
        for variant in variants {
            if let Some((found, needs)) = self.first(vec![variant])? {
                self.add(Loaded::library(found, needs, by))?;
            }
        }
        Ok(())
    }

    /// The first of these files that is a library for this machine. The loader passes over others.
    fn first(&mut self, candidates: Vec<PathBuf>) -> Result<Option<(PackedFile, Needs)>, Fault> {
        for candidate in candidates {
            let left = ALL_MOST.saturating_sub(self.read).min(FILE_MOST);
            let found = PackedFile::open(&candidate).and_then(|file| Ok((file.read(left)?, file)));
            let (bytes, file) = match found {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                    let shown = candidate.display();
                    return Err(
                        Fault::user(format!("`{shown}` cannot be packed: {error}")).hint(LEAVE_OUT)
                    );
                }
                // Others are passed over by the loader, too.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => {
                    return Err(error).doing("open another library");
                }
                Err(_) => continue,
            };
            self.read += bytes.len() as u64;
            if let Some(needs) = dynamic::read(&bytes) {
                return Ok(Some((file, needs)));
            }
        }
        Ok(None)
    }

    /// Directories in which a library is looked for that the file of this index needs, in order.
    fn places(&self, by: usize) -> Vec<PathBuf> {
        let program = self.loaded.first().map_or(self.cwd, Loaded::origin);
        let given = self.listed(self.given, b":;", program);
        let mut chain = Vec::new();
        let mut next = self.loaded.get(by);
        while let Some(file) = next {
            chain.push(file);
            next = file.by.and_then(|by| self.loaded.get(by));
        }
        let inherited = chain.iter().flat_map(|file| {
            let list: &[u8] = match (&file.needs.runpath, &file.needs.rpath) {
                (None, Some(list)) => list.as_slice(),
                // For musl's loader both are the same.
                (Some(list), _) if self.is_musl => list.as_slice(),
                _ => b"".as_slice(),
            };
            self.listed(list, b":\n", file.origin())
        });
        let runpath = chain.first().and_then(|file| Some((file.needs.runpath.as_ref()?, file)));
        let usual = self.usual.iter().cloned();
        match runpath {
            _ if self.is_musl => given.into_iter().chain(inherited).chain(usual).collect(),
            Some((list, file)) => {
                let own = self.listed(list, b":", file.origin());
                given.into_iter().chain(own).chain(usual).collect()
            }
            None => inherited.chain(given).chain(usual).collect(),
        }
    }

    /// The directories of a list.
    fn listed(&self, list: &[u8], separators: &[u8], origin: &Path) -> Vec<PathBuf> {
        if list.is_empty() {
            return Vec::new();
        }
        // For glibc's loader one without a name is the working directory.
        let parts = list.split(|byte| separators.contains(byte));
        let parts = parts.filter(|part| !self.is_musl || !part.is_empty()).take(PLACES_MOST);
        parts.filter_map(|part| self.place(part, origin)).collect()
    }

    /// The absolute path that a text stands for; none where the loader alone knows it.
    fn place(&self, text: &[u8], origin: &Path) -> Option<PathBuf> {
        let mut parts = text.split(|byte| *byte == b'$');
        let mut plain = parts.next().unwrap_or_default().to_vec();
        for part in parts {
            let rest = part.strip_prefix(b"{ORIGIN}").or_else(|| part.strip_prefix(b"ORIGIN"))?;
            plain.extend(origin.as_os_str().as_bytes());
            plain.extend(rest);
        }
        let plain = Path::new(OsStr::from_bytes(&plain));
        Some(self.cwd.join(plain))
    }
}

/// Paths at which a library may have variants.
fn variants(library: &Path) -> Vec<PathBuf> {
    let (Some(beside), Some(name)) = (library.parent(), library.file_name()) else {
        return Vec::new();
    };
    VARIANTS.map(|variant| beside.join("glibc-hwcaps").join(variant).join(name)).to_vec()
}

fn is_musl_itself(name: &[u8]) -> bool {
    let behind = name.strip_prefix(b"lib");
    behind.is_some_and(|rest| MUSL_ITSELF.iter().any(|itself| rest.starts_with(itself)))
}

#[cfg(test)]
mod tests;
