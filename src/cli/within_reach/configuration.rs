//! Configuration of root's programs: reads a file of it, and finds the links in its directories.
//!
//! A file that is not there configures nothing. One that is there and cannot be read may name any
//! directory, so none can be accepted.

use super::places::{Extent, Place, Reason};
use crate::fault::Fault;
use crate::regular_file;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Directories of this machine in which links may lead elsewhere; those of a home are in
/// `homes.rs`.
const DIRECTORIES: [&str; 10] = [
    "/etc", "/etc/cni/net.d", "/etc/containerd", "/etc/containers", "/etc/docker",
    "/etc/ld.so.conf.d", "/etc/libvirt", "/etc/lxc", "/etc/ssh", "/etc/systemd/system",
];

const LINK: Reason =
    Reason::started("a link by which programs of root's find what they start or obey");

/// Reads a file of at most `most` bytes; nothing where there is none, or a directory.
///
/// # Errors
/// The machine's: it is there, and cannot be read, or is longer.
pub(super) fn read(file: &Path, most: u64) -> Result<Vec<u8>, Fault> {
    regular_file::read(file, most).or_else(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Ok(Vec::new()),
        _ => Err(unknown(file, &error)),
    })
}

/// The fault of something that may name places, and of which nobody knows which.
pub(super) fn unknown(what: &Path, error: &impl std::fmt::Display) -> Fault {
    let what = what.display();
    Fault::machine(format!(
        "no directory can be made writable, since `{what}` says what root's programs load or obey \
         and cannot be read: {error}"
    ))
    .hint("mend or remove it, or measure without `--writable`")
}

/// Lists the links in directories of configuration: this machine's, and those of homes, some of
/// which have programs.
pub(super) fn places(homes: &[Place]) -> Vec<Place> {
    let homes = homes.iter().map(|place| place.path.clone());
    let directories = homes.chain(DIRECTORIES.map(PathBuf::from));
    let links = directories.flat_map(|directory| links(&directory));
    let remedy = ", or put the file itself in place of the link";
    links.map(|path| Place::new(path, Extent::Whole, LINK).or(remedy)).collect()
}

/// Lists the links in a directory, by their paths.
pub(super) fn links(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_that_is_not_there_is_nothing_and_one_that_cannot_be_read_is_said() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "four").unwrap();
        symlink("circle", at("circle")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read(&at("file"), 4), Ok(b"four".to_vec()));
        for name in ["none", "file/none", "."] {
            assert_eq!(read(&at(name), 4), Ok(Vec::new()), "{name}");
        }
        for (name, most, told) in [
            ("file", 3, "it is longer than 3 bytes"),
            ("circle", 4, "Too many levels of symbolic links"),
            ("pipe", 4, "it is a pipe"),
        ] {
            let fault = read(&at(name), most).unwrap_err();
            assert!(fault.message.contains(told), "{name}: {fault}");
            assert!(fault.message.contains(at(name).to_str().unwrap()), "{name}: {fault}");
            assert!(fault.hint.unwrap().contains("without `--writable`"), "{name}");
        }
    }

    #[test]
    fn links_in_a_home_are_found_and_files_are_none() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("known_hosts"), "").unwrap();
        symlink("/srv/config", home.path().join("config")).unwrap();
        let place = Place::new(home.path(), Extent::Whole, LINK);
        let found = places(&[place]);
        let found = found.iter().filter(|place| place.path.starts_with(home.path()));
        let found: Vec<&Path> = found.map(|place| place.path.as_path()).collect();
        assert_eq!(found, [home.path().join("config")]);
    }
}
