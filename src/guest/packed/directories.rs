//! Directories in which a loader looks for libraries of every program.
//!
//! Reads `/etc/ld.so.conf` with what that includes, as ldconfig does, and the list of musl's
//! loader. Only what is written as everybody writes it counts: absolute directories, and in the
//! name of an included file one `*`. What cannot be read names nothing.
//!
//! Source: `ldconfig(8)`, `ld.so(8)`; musl 1.2.5, `ldso/dynlink.c` (`load_library`).

use crate::regular_file;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use surtax_instrument::command_file::path;

/// The file that names directories for glibc's loader, and those that it knows by itself.
const CONFIGURATION: &str = "/etc/ld.so.conf";
const OF_GLIBC: [&str; 6] = [
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib",
    "/usr/lib",
];

/// The same for musl's: the file lies in the directory above the loader's.
const LIST_OF_MUSL: &str = "etc/ld-musl-x86_64.path";
const OF_MUSL: [&str; 3] = ["/lib", "/usr/local/lib", "/usr/lib"];

/// The most bytes of a file of configuration, files of one, and directories.
const BYTES_MOST: u64 = 1 << 16;
const FILES_MOST: usize = 100;
const DIRECTORIES_MOST: usize = 128;

/// Lists those of glibc's loader.
pub(super) fn of_glibc() -> Vec<PathBuf> {
    let mut directories = configured(Path::new(CONFIGURATION));
    directories.extend(OF_GLIBC.map(PathBuf::from));
    directories
}

/// Lists those of musl's loader, by its path.
pub(super) fn of_musl(loader: &Path) -> Vec<PathBuf> {
    let list = loader.parent().and_then(Path::parent).map(|above| above.join(LIST_OF_MUSL));
    let Some(text) = list.and_then(|list| regular_file::read(&list, BYTES_MOST).ok()) else {
        return OF_MUSL.map(PathBuf::from).to_vec();
    };
    let names = text.split(|byte| matches!(byte, b':' | b'\n' | 0));
    let names = names.filter(|name| name.starts_with(b"/")).take(DIRECTORIES_MOST);
    names.map(|name| path(name).to_owned()).collect()
}

/// Step to which one line of the configuration leads.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Libraries lie in this directory.
    Look(PathBuf),
    /// More lines are in this file.
    Read(PathBuf),
}

/// Lists the directories that a configuration names, in order.
fn configured(main: &Path) -> Vec<PathBuf> {
    let (mut found, mut read) = (Vec::new(), BTreeSet::new());
    // What comes next is at its end.
    let mut waiting = vec![Step::Read(main.to_owned())];
    while let Some(step) = waiting.pop() {
        match step {
            Step::Look(directory) if found.len() < DIRECTORIES_MOST => found.push(directory),
            Step::Read(file) if read.len() < FILES_MOST && read.insert(file.clone()) => {
                let text = regular_file::read(&file, BYTES_MOST).unwrap_or_default();
                let beside = file.parent().unwrap_or(&file);
                let lines = text.split(|byte| *byte == b'\n').rev();
                waiting.extend(lines.flat_map(|line| steps(line, beside).into_iter().rev()));
            }
            Step::Look(_) | Step::Read(_) => {}
        }
    }
    found
}

/// Reads one line of a file that lies in the directory `beside`.
fn steps(line: &[u8], beside: &Path) -> Vec<Step> {
    let line = line.split(|byte| matches!(byte, b'#' | 0)).next().unwrap_or_default();
    if let Some([b' ' | b'\t', patterns @ ..]) = line.trim_ascii().strip_prefix(b"include") {
        let patterns = patterns.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
        return patterns.flat_map(|it| files(&beside.join(path(it)))).map(Step::Read).collect();
    }
    // A kind of library may stand behind it.
    let name = line.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    let directory = name.starts_with(b"/").then(|| Step::Look(path(name).to_owned()));
    directory.into_iter().collect()
}

/// Lists the files whose path fits a pattern, by name.
fn files(pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let Some(star) = name.as_bytes().iter().position(|byte| *byte == b'*') else {
        return vec![pattern.to_owned()];
    };
    let (head, tail) = name.as_bytes().split_at(star);
    let tail = tail.strip_prefix(b"*").unwrap_or(tail);
    let fits = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(head);
        rest.is_some_and(|rest| rest.ends_with(tail)) && !name.as_bytes().starts_with(b".")
    };
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name()).filter(|name| fits(name));
    let names: BTreeSet<_> = names.collect();
    names.into_iter().take(FILES_MOST).map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn directories_of_included_files_stand_where_the_include_does() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("parts")).unwrap();
        let text = "# ours\n/srv/first\n include parts/*.conf\tnone/*.conf # theirs\n/srv/last\n";
        fs::write(at("main"), text).unwrap();
        fs::write(at("parts/b.conf"), "/srv/b =libc6\nsrv/relative\nhwcap 0 nosegneg\n").unwrap();
        fs::write(at("parts/a.conf"), "\t/srv/a \ninclude a.conf\nincludes\n").unwrap();
        fs::write(at("parts/.c.conf"), "/srv/c\n").unwrap();
        fs::write(at("parts/d.conf.old"), "/srv/d\n").unwrap();
        let told = ["/srv/first", "/srv/a", "/srv/b", "/srv/last"].map(PathBuf::from);
        assert_eq!(configured(&at("main")), told);
        assert!(configured(&at("none")).is_empty());
    }

    #[test]
    fn a_configuration_without_an_end_ends() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("parts")).unwrap();
        // Its name is a longer one each time.
        fs::write(at("parts/again"), "/srv/x\ninclude ../parts/again\n").unwrap();
        assert_eq!(configured(&at("parts/again")).len(), FILES_MOST);
        fs::write(at("many"), "/srv/x\n".repeat(DIRECTORIES_MOST + 1)).unwrap();
        assert_eq!(configured(&at("many")).len(), DIRECTORIES_MOST);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert!(configured(&at("pipe")).is_empty());
    }

    #[test]
    fn musl_s_loader_has_a_list_above_it_or_looks_where_it_always_does() {
        let place = tempfile::tempdir().unwrap();
        let loader = place.path().join("lib/ld-musl-x86_64.so.1");
        assert_eq!(of_musl(&loader), OF_MUSL.map(PathBuf::from));
        fs::create_dir(place.path().join("etc")).unwrap();
        fs::write(place.path().join(LIST_OF_MUSL), "/srv/a:b\n/srv/c\n").unwrap();
        assert_eq!(of_musl(&loader), ["/srv/a", "/srv/c"].map(PathBuf::from));
    }
}
