//! File names by a pattern, as ldconfig's `include` has them.
//!
//! Finds all that `glob(3)` finds, and more of some: `?` stands here for any characters, and so
//! does all of a name from a `[` on. To read a file too many refuses a directory too many at most.
//!
//! Source: `glob(3)`, `glob(7)`.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Characters that make a name a pattern.
const SPECIAL: &[u8] = br"*?[\";

/// Directory in which a pattern's first name that is none is looked for; `None` where all are.
pub(super) fn base(pattern: &Path) -> Option<PathBuf> {
    let plain = pattern.components().take_while(|part| !is_special(*part)).collect::<PathBuf>();
    (plain != pattern).then_some(plain)
}

/// Lists the files that an absolute pattern may name. Where it is none, that is one, be it there or
/// not.
///
/// # Errors
/// The kernel's, of a directory that is there and cannot be listed; or they are more than `most`.
pub(super) fn files(pattern: &Path, most: usize) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let mut next = Vec::new();
        for directory in &found {
            if is_special(part) {
                next.extend(matching(directory, part.as_os_str())?);
            } else {
                next.push(directory.join(part));
            }
        }
        found = next;
        if found.len() > most {
            return Err(io::Error::other(format!("more than {most} names fit")));
        }
    }
    Ok(found)
}

fn is_special(part: Component<'_>) -> bool {
    part.as_os_str().as_bytes().iter().any(|byte| SPECIAL.contains(byte))
}

fn matching(directory: &Path, pattern: &OsStr) -> io::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        // What is to be mounted when somebody looks cannot be, here.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let is_hidden = name.as_bytes().starts_with(b".");
        let is_meant = !is_hidden || pattern.as_bytes().starts_with(b".");
        if is_meant && fits(pattern.as_bytes(), name.as_bytes()) {
            found.push(directory.join(name));
        }
    }
    Ok(found)
}

/// Tells whether a name may be one that the pattern stands for. Goes back to the last star only, so
/// that it takes at most as many steps as the product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, name);
    // The pattern behind the last star, and the name from which that was tried last.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (rest, left) {
            ([b'[', ..], _) | ([], []) => return true,
            ([b'*' | b'?', after @ ..], _) => {
                star = Some((after, left));
                rest = after;
                continue;
            }
            ([b'\\', byte, after @ ..], [first, others @ ..]) if byte == first => {
                (rest, left) = (after, others);
                continue;
            }
            ([byte, after @ ..], [first, others @ ..]) if byte == first && *byte != b'\\' => {
                (rest, left) = (after, others);
                continue;
            }
            _ => {}
        }
        let Some((after, [_, others @ ..])) = star else { return false };
        star = Some((after, others));
        (rest, left) = (after, others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_pattern_finds_all_that_it_stands_for() {
        let place = tempfile::tempdir().unwrap();
        for directory in ["a", "b", ".c"] {
            fs::create_dir(place.path().join(directory)).unwrap();
            for name in ["x.conf", "y.conf", ".z.conf", "x.confs", "x*"] {
                fs::write(place.path().join(directory).join(name), "").unwrap();
            }
        }
        for (pattern, told) in [
            ("a/*.conf", &["a/x.conf", "a/y.conf"][..]),
            ("*/x.conf", &["a/x.conf", "b/x.conf"]),
            ("a/.*.conf", &["a/.z.conf"]),
            ("a/x.con?", &["a/x.conf", "a/x.confs"]),
            ("a/[xy].conf", &["a/x*", "a/x.conf", "a/x.confs", "a/y.conf"]),
            (r"a/x\*", &["a/x*"]),
            ("a/x.conf", &["a/x.conf"]),
            ("a/none", &["a/none"]),
            ("none/*", &[]),
            ("a/x.conf/*", &[]),
            ("a/*/none", &["a/x*/none", "a/x.conf/none", "a/x.confs/none", "a/y.conf/none"]),
        ] {
            let mut found = files(&place.path().join(pattern), 9).unwrap();
            found.sort();
            let told: Vec<PathBuf> = told.iter().map(|name| place.path().join(name)).collect();
            assert_eq!(found, told, "{pattern}");
        }
        assert!(!fits(b"*a*a*a*a*a*a*a*a*a*b", &[b'a'; 250]), "and that takes no time");
        let error = files(&place.path().join("*/*"), 3).unwrap_err();
        assert_eq!(error.to_string(), "more than 3 names fit");
    }

    #[test]
    fn a_pattern_is_looked_for_below_its_last_plain_name() {
        for (pattern, told) in [
            ("/etc/ld.so.conf.d/*.conf", Some("/etc/ld.so.conf.d")),
            ("/srv/*/lib/x.conf", Some("/srv")),
            ("/?", Some("/")),
            ("/srv/x.conf", None),
        ] {
            assert_eq!(base(Path::new(pattern)), told.map(PathBuf::from), "{pattern}");
        }
    }
}
