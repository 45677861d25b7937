//! Opens and reads files that somebody else may have named or made: regular files only, and no more
//! of them than asked for.
//!
//! A name can lead to a pipe that nobody writes to, or to a device without an end, and both say
//! that they are 0 bytes long. So a file is looked at before it is opened, is never waited for, and
//! is read up to a limit whatever length it says. Links are followed.

use rustix::fs::{Mode, OFlags};
use std::fs::{File, FileType};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The first descriptors by the names that shells and tools have for them.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// Directories in which a process finds its open files, by number.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// File systems in which every file is the kernel's own, by the number of their kind: `proc`,
/// `sysfs`, `debugfs`, `tracefs`, `securityfs`, `selinuxfs`, `smackfs`, AppArmor's, both of
/// `cgroup`, `resctrl`, `bpf`, `pstore`, `efivarfs`, `configfs`, `binfmt_misc`, `xenfs` and
/// `fusectl`.
///
/// Source: Linux `include/uapi/linux/magic.h`; `fs/configfs/mount.c`, `fs/fuse/control.c`.
const OF_THE_KERNEL: [u32; 18] = [
    0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0xf97c_ff8c, 0x4341_5d53,
    0x5a3c_69f0, 0x0027_e0eb, 0x6367_7270, 0x0765_5821, 0xcafe_4a11, 0x6165_676c, 0xde5e_81e4,
    0x6265_6570, 0x4249_4e4d, 0xabba_1974, 0x6573_5543,
];

/// Opens a regular file for reading.
///
/// # Errors
/// The kernel's; or what the name leads to is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_found(&find(path)?)
}

/// Opens a regular file that a disk, memory or another machine keeps. Of the kernel's own some act
/// when they are read, or opened: `/proc/kmsg` gives each line once.
///
/// # Errors
/// As [`open`]; or it is one of the kernel's own.
pub fn open_kept(path: &Path) -> io::Result<File> {
    let found = find(path)?;
    let kind = rustix::fs::fstatfs(&found)?.f_type;
    if OF_THE_KERNEL.iter().any(|of_it| i128::from(kind) == i128::from(*of_it)) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is the kernel's own, and kept nowhere",
        ));
    }
    open_found(&found)
}

/// Reads the first `count` bytes of an open file, or all where it has fewer.
///
/// # Errors
/// The kernel's.
pub fn read_again(mut file: &File, count: u64) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file whole, if it has no more bytes than `limit`.
///
/// # Errors
/// As [`open`]; or it is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    up_to(open(path)?, limit)
}

/// Reads a text that a person names: a regular file, or standard input or another descriptor that
/// the caller opened.
///
/// `surtax run <(…)` hands over a pipe as `/dev/fd/63`. It was made by whoever called, and so was
/// `/dev/stdin`; no name in a directory leads to it by surprise. It is waited for as long as its
/// writer takes, as by any other tool.
///
/// # Errors
/// As [`read`]; or it is no UTF-8.
pub fn text_given(path: &Path, limit: u64) -> io::Result<String> {
    // What is there to be written to would be waited for.
    let is_to_read = |number: &i32| !(1..=2).contains(number);
    let bytes = if handed_down(path).filter(is_to_read).is_some() {
        let file = open_at_once(path)?;
        // The open file is a new one: only this reader waits.
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        up_to(file, limit)?
    } else {
        read(path, limit)?
    };
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The descriptor of this process that a path names by itself, as `/dev/stdin` and `/dev/fd/63` do,
/// and no directory.
#[must_use]
pub fn handed_down(path: &Path) -> Option<i32> {
    let number = |at: &&str| path.strip_prefix(at).ok()?.to_str()?.parse::<u32>().ok();
    let named = (0_u32..).zip(STREAMS).find(|(_, name)| path == Path::new(name));
    named.map(|(number, _)| number).or_else(|| DESCRIPTORS.iter().find_map(number))?.try_into().ok()
}

/// Holds what a name leads to, if it is a regular file, by a descriptor that opens nothing: some
/// devices act when they are opened.
fn find(path: &Path) -> io::Result<File> {
    let found = File::from(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    require_regular(found.metadata()?.file_type())?;
    Ok(found)
}

fn open_found(found: &File) -> io::Result<File> {
    open_at_once(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
}

fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn require_regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => return Err(rustix::io::Errno::ISDIR.into()),
        kind if kind.is_fifo() => "pipe",
        kind if kind.is_socket() => "socket",
        _ => "device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is a {what}, and no regular file")))
}

fn up_to(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_long(limit));
    }
    Ok(bytes)
}

/// The error of a file that has more bytes than this.
pub fn too_long(limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::io::Write;

    fn refused(path: &Path) -> String {
        let said = [open(path).unwrap_err(), read(path, 9).unwrap_err()].map(|it| it.to_string());
        assert_eq!(said[0], said[1]);
        assert_eq!(text_given(path, 9).unwrap_err().to_string(), said[0]);
        said[0].clone()
    }

    #[test]
    fn a_pipe_a_device_and_a_socket_are_refused_at_once_also_behind_a_link() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(refused(&at("pipe")), "it is a pipe, and no regular file");
        assert_eq!(refused(&at("link")), "it is a pipe, and no regular file");
        assert_eq!(refused(&at("zero")), "it is a device, and no regular file");
        assert_eq!(refused(&at("socket")), "it is a socket, and no regular file");
        assert_eq!(refused(place.path()), "Is a directory (os error 21)");
        assert_eq!(refused(&at("none")), "No such file or directory (os error 2)");
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_no_further_whatever_length_it_says() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"123456789").unwrap();
        assert_eq!(read(file.path(), 9).unwrap(), b"123456789");
        assert_eq!(text_given(file.path(), 9).unwrap(), "123456789");
        let fault = read(file.path(), 8).unwrap_err();
        assert_eq!(fault.to_string(), "it is longer than 8 bytes");
        // The kernel says that it is empty.
        assert!(!read(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
        assert!(read(Path::new("/proc/self/status"), 9).is_err());
    }

    #[test]
    fn what_is_kept_nowhere_is_refused_where_it_is_to_be_kept() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("kept"), "twice").unwrap();
        for (name, path) in [("proc", "/proc/kmsg"), ("sys", "/sys/kernel/uevent_seqnum")] {
            std::os::unix::fs::symlink(path, at(name)).unwrap();
            let told = open_kept(&at(name)).unwrap_err().to_string();
            assert_eq!(told, "it is the kernel's own, and kept nowhere", "{path}");
        }
        let kept = open_kept(&at("kept")).unwrap();
        // Another of that name is another.
        std::fs::remove_file(at("kept")).unwrap();
        std::fs::write(at("kept"), "other").unwrap();
        assert_eq!([read_again(&kept, 9).unwrap(), read_again(&kept, 9).unwrap()], [b"twice"; 2]);
        assert_eq!(read_again(&kept, 4).unwrap(), b"twic");
    }

    #[test]
    fn a_pipe_that_the_caller_handed_down_is_read_to_its_end_and_up_to_the_limit() {
        let handed = |text: &'static [u8], limit| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let late = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                // Whoever reads less hangs up.
                let _ = writer.write_all(text);
            });
            let path = format!("/dev/fd/{}", reader.as_raw_fd());
            let said = text_given(Path::new(&path), limit).map_err(|error| error.to_string());
            drop(reader);
            late.join().unwrap();
            said
        };
        assert_eq!(handed(b"runs = 3", 8), Ok(String::from("runs = 3")));
        assert_eq!(handed(b"runs = 3", 7), Err(String::from("it is longer than 7 bytes")));
        assert_eq!(handed(b"\xff", 7), Err(String::from("it is not UTF-8")));
        for (path, number) in [
            ("/dev/stdin", Some(0)),
            ("/dev/stderr", Some(2)),
            ("/proc/self/fd/12", Some(12)),
            ("/dev/fd/../zero", None),
            ("/dev/fd/-1", None),
            ("/dev/zero", None),
        ] {
            assert_eq!(handed_down(Path::new(path)), number, "{path}");
        }
    }
}
