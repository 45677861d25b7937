//! Loader of shared libraries: directories in which it finds them, and those that it loads into
//! every program.
//!
//! Reads `/etc/ld.so.conf` with what that includes, as ldconfig does, and `/etc/ld.so.preload`. Who
//! can write to a file of this configuration names directories, so these files are places too. A
//! program that is linked to musl is loaded by musl's own loader, which has a list for itself.
//!
//! Source: `ldconfig(8)`, `ld.so(8)`; glibc 2.36, `elf/ldconfig.c` (`parse_conf`, `add_dir_1`) and
//! `elf/rtld.c` (`dl_main`); musl 1.2.5, `ldso/dynlink.c` (`load_library`, `path_open`).

use super::places::{Extent, Place, Reason};
use super::{configuration, pattern};
use crate::fault::Fault;
use crate::plan::writable::real;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories of libraries that every machine has.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// The file that names others, and the one that names libraries for every program.
const CONFIGURATION: &str = "/etc/ld.so.conf";
const PRELOAD: &str = "/etc/ld.so.preload";

/// Files, one for each architecture, in which musl's loader finds directories of libraries.
const OF_MUSL: &str = "/etc/ld-musl-*.path";

/// Most bytes of one such file, and most files that one may include.
const BYTES_MOST: u64 = 1 << 20;
const FILES_MOST: usize = 1000;

const DIRECTORY: Reason = Reason::started("where libraries of root's programs are loaded from");
const CONFIGURING: Reason = Reason::started("part of what configures the loader of libraries");
const PRELOADED: Reason = Reason::started("loaded as a library into every program of root's");

/// Lists where libraries of root's programs are loaded from, the links in there, and what says so.
///
/// # Errors
/// The machine's: a part of the loader's configuration cannot be read.
pub(super) fn places() -> Result<Vec<Place>, Fault> {
    let mut directories = LIBRARIES.map(PathBuf::from).to_vec();
    directories.extend(of_musl(Path::new(OF_MUSL))?);
    let mut places = configured(Path::new(CONFIGURATION), &directories)?;
    places.extend(preloaded(Path::new(PRELOAD))?);
    Ok(places)
}

/// Lists the places of these directories and of those that a configuration names.
fn configured(main: &Path, usual: &[PathBuf]) -> Result<Vec<Place>, Fault> {
    let Told { files, bases, directories } = Told::by(main)?;
    let directories: Vec<PathBuf> = usual.iter().cloned().chain(directories).collect();
    let links = directories.iter().flat_map(|directory| configuration::links(directory));
    let links = links.map(|path| Place::new(path, Extent::Itself, DIRECTORY));
    let files = files.into_iter().map(|path| Place::new(path, Extent::Itself, CONFIGURING));
    let bases = bases.into_iter().map(|path| Place::new(path, Extent::Whole, CONFIGURING));
    let configuring: Vec<Place> = links.chain(files).chain(bases).collect();
    let directories =
        directories.into_iter().map(|path| Place::new(path, Extent::Whole, DIRECTORY));
    Ok(directories.chain(configuring).collect())
}

/// Lists the directories that musl's loader finds in files of a pattern. A relative one is looked
/// for where whoever starts a program is.
fn of_musl(pattern: &Path) -> Result<Vec<PathBuf>, Fault> {
    let files = pattern::files(pattern, FILES_MOST)
        .map_err(|error| configuration::unknown(pattern, &error))?;
    let mut directories = Vec::new();
    for file in files {
        let text = configuration::read(&file, BYTES_MOST)?;
        let names = text.split(|byte| matches!(byte, b':' | b'\n' | 0)).map(path);
        directories.extend(names.filter(|path| path.parent().is_some() && path.is_absolute()));
    }
    Ok(directories)
}

/// Contents of a configuration and of what it includes.
#[derive(Default)]
struct Told {
    /// Files of it.
    files: BTreeSet<PathBuf>,
    /// Directories of which it includes what lies in them.
    bases: BTreeSet<PathBuf>,
    /// Directories of libraries.
    directories: Vec<PathBuf>,
}

impl Told {
    fn by(main: &Path) -> Result<Self, Fault> {
        let mut told = Self::default();
        let mut read = BTreeSet::new();
        let mut waiting = vec![main.to_path_buf()];
        while let Some(file) = waiting.pop() {
            told.files.insert(file.clone());
            // One that includes itself through `..` has a longer name each time.
            let beside = file.parent().map(real).unwrap_or_default();
            if !read.insert((beside.clone(), file.file_name().map(OsStr::to_owned))) {
                continue;
            }
            if read.len() > FILES_MOST {
                let error = format!("it includes more than {FILES_MOST} files");
                return Err(configuration::unknown(main, &error));
            }
            let text = configuration::read(&file, BYTES_MOST)?;
            for line in text.split(|byte| *byte == b'\n').map(line) {
                match line {
                    Line::Nothing => {}
                    Line::Directories(directories) => told.directories.extend(directories),
                    Line::Include(patterns) => {
                        for pattern in patterns {
                            waiting.extend(told.include(&beside.join(pattern))?);
                        }
                    }
                }
            }
        }
        Ok(told)
    }

    /// The files of a pattern, whose directory is remembered.
    fn include(&mut self, pattern: &Path) -> Result<Vec<PathBuf>, Fault> {
        self.bases.extend(pattern::base(pattern));
        let found = pattern::files(pattern, FILES_MOST);
        found.map_err(|error| configuration::unknown(pattern, &error))
    }
}

/// One line of the configuration.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Nothing,
    /// Directories of libraries, absolute. Of `DIR=TYPE` these are two: glibc 2.36 leaves out the
    /// type, and another may not.
    Directories(Vec<PathBuf>),
    /// Patterns of files that are read, too.
    Include(Vec<PathBuf>),
}

fn line(text: &[u8]) -> Line {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let is_end = |byte: &u8| matches!(byte, b'#' | 0);
    let text = text.split(is_end).next().unwrap_or_default();
    let begin = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let text = text.get(begin..).unwrap_or_default();
    if let Some((b"include", [b' ' | b'\t', patterns @ ..])) = text.split_first_chunk() {
        let patterns = patterns.split(|byte| matches!(byte, b' ' | b'\t'));
        return Line::Include(patterns.filter(|it| !it.is_empty()).map(path).collect());
    }
    if let Some((word, [b' ' | b'\t', ..])) = text.split_first_chunk::<5>()
        && word.eq_ignore_ascii_case(b"hwcap")
    {
        return Line::Nothing;
    }
    let without_type = text.split(|byte| *byte == b'=').next().unwrap_or_default();
    let trimmed = |text: &[u8]| {
        let end = text.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
        Path::new("/").join(path(text.get(..end).unwrap_or_default()))
    };
    let mut named = vec![trimmed(without_type), trimmed(text)];
    named.dedup();
    named.retain(|path| path.parent().is_some());
    if named.is_empty() { Line::Nothing } else { Line::Directories(named) }
}

/// Lists the libraries that a file names for every program.
fn preloaded(file: &Path) -> Result<Vec<Place>, Fault> {
    let text = configuration::read(file, BYTES_MOST)?;
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.split(|byte| *byte == b'#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split(|byte| matches!(byte, b':' | b' ' | b'\t' | 0)));
    Ok(names.filter_map(library).collect())
}

/// The place of a library by its name in such a file. One without `/` is looked for in directories
/// of libraries, which are places already.
fn library(name: &[u8]) -> Option<Place> {
    let named = path(name);
    if !name.contains(&b'/') {
        return None;
    }
    // What `$LIB` and its like stand for, the loader knows.
    let is_plain = |part: &std::path::Component<'_>| !part.as_os_str().as_bytes().contains(&b'$');
    let plain: PathBuf = named.components().take_while(is_plain).collect();
    if plain == named {
        return Some(Place::new(std::path::absolute(&plain).ok()?, Extent::Itself, PRELOADED));
    }
    // `$ORIGIN` is where each program lies, and `..` leads from there to anywhere.
    let unknown = named.components().skip(plain.components().count());
    let is_anywhere = { unknown }.any(|part| part == std::path::Component::ParentDir);
    match plain.is_absolute() && plain.parent().is_some() {
        _ if is_anywhere => Some(Place::new("/", Extent::Whole, DIRECTORY)),
        true => Some(Place::new(plain, Extent::Whole, DIRECTORY)),
        false => None,
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests;
