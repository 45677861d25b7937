//! Opens files that a stranger may have laid there: regular ones only, without waiting, up to a length.
//!
//! A pipe without a writer would be waited for, `/dev/zero` read for ever, and a watchdog's device starts to count down when
//! it is opened. So a path is looked at before it is opened, by a descriptor that opens nothing.

use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Opens a regular file for reading. Links are followed; a lease of somebody else's is an error and not waited for.
///
/// # Errors
/// It cannot be opened, or is anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let found = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, same, flags, Mode::empty())?))
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; it is longer; it cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let what = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| directory.path().join(name));
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(io::read_to_string(open(&link).unwrap()).unwrap(), "text");
        for other in [fifo.as_path(), directory.path(), Path::new("/dev/zero")] {
            let error = open(other).unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{}: {error}", other.display());
        }
        let absent = open(&directory.path().join("absent")).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_a_byte_beyond() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "four").unwrap();
        assert_eq!(read(&file, 4).unwrap(), b"four");
        let error = read(&file, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("more than 3 bytes"), "{error}");
    }
}
