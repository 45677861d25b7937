//! The header of a disk image: its format, how large its disk is, and that it names no other file.
//!
//! An image is somebody else's, and one of qcow2 may name files of whoever opens it: one that lies
//! below it, or one that holds its data. A tool that finds that out by opening them has read them
//! already, and the guest would have them as its disk. So the header is read here, and such an
//! image is refused, before QEMU has seen anything of it.
//!
//! Whether an image is raw is told by its first bytes as well, which a guest of somebody else's may
//! have written. That chooses between two readings of this one file, neither of which leads to
//! another one. Source: QEMU `docs/interop/qcow2.txt`; the first bytes of other formats:
//! `bdrv_probe` of QEMU's `block/*.c`.

use crate::fault::{Doing, Fault};
use crate::regular_file;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The most of an image that is read: any qcow2's header, and the name of the file below it in
/// most.
const START: u64 = 64 << 10;

/// First bytes of a qcow2 image, and of one of its predecessor, too.
const MAGIC: &[u8] = b"QFI\xfb";

/// Versions of qcow2. Those before it are another format.
const VERSIONS: [u32; 2] = [2, 3];

/// End of the header of the second version, and the least length of one of the third, in bytes.
const HEADER_BYTES: [usize; 2] = [72, 104];

/// The bit of the incompatible features by which the data lie in another file.
const EXTERNAL_DATA: u64 = 1 << 2;

/// Number of bytes that the length of a disk is a multiple of.
const SECTOR: u64 = 512;

/// The largest disk: QEMU counts bytes with a sign.
const DISK_BYTES_MAX: u64 = u64::MAX >> 1;

/// Formats that are not taken, and by what they are known. Some name other files, too.
const OTHERS: [(&str, usize, &[u8]); 10] = [
    ("vmdk", 0, b"KDMV"),
    ("vmdk", 0, b"COWD"),
    ("vmdk", 0, b"# Disk DescriptorFile"),
    ("vdi", 0x40, b"\x7f\x10\xda\xbe"),
    ("vhdx", 0, b"vhdxfile"),
    ("vhd", 0, b"conectix"),
    ("qed", 0, b"QED\0"),
    ("parallels", 0, b"WithoutFreeSpace"),
    ("parallels", 0, b"WithouFreSpacExt"),
    ("luks", 0, b"LUKS\xba\xbe"),
];

/// `F_SETSIG` of `asm-generic/fcntl.h`: which signal says that somebody waits for a lease.
const F_SETSIG: libc::c_int = 10;

/// Facts that an image tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// `qcow2` or `raw`, as QEMU calls its drivers.
    pub(crate) format: &'static str,
    /// Size of its disk, in bytes.
    pub(crate) disk_bytes: u64,
}

impl Header {
    /// Opens an image and reads its header. It is not opened by its name again.
    ///
    /// # Errors
    /// The user's: it is no image that is taken.
    pub(crate) fn open(path: &Path) -> Result<(File, Self), Fault> {
        let shown = path.display().to_string();
        let shown = shown.escape_debug();
        let file = regular_file::open(path).map_err(|error| {
            Fault::user(format!("the image `{shown}` cannot be opened: {error}"))
        })?;
        hold(&file).map_err(|error| {
            Fault::user(format!("the image `{shown}` is open for writing: {error}")).hint(
                "wait until it is whole: what is read of it now may be something else in a moment",
            )
        })?;
        let doing = format!("read the header of the image `{shown}`");
        let length = file.metadata().doing(&doing)?.len();
        let mut start = Vec::new();
        (&file).take(START).read_to_end(&mut start).doing(&doing)?;
        let header = Self::parse(&start, length)
            .map_err(|(why, hint)| Fault::user(format!("the image `{shown}` {why}")).hint(hint))?;
        Ok((file, header))
    }

    /// Reads how a file of this length begins.
    ///
    /// # Errors
    /// Why it is not taken, and what would help.
    pub(crate) fn parse(start: &[u8], length: u64) -> Result<Self, (String, &'static str)> {
        if !start.starts_with(MAGIC) {
            let is_it = |at: usize, magic| start.get(at..).is_some_and(|it| it.starts_with(magic));
            if let Some((format, ..)) = OTHERS.iter().find(|(_, at, magic)| is_it(*at, magic)) {
                return Err((format!("is of format `{format}`"), CONVERT));
            }
            if length == 0 {
                return Err((String::from("is empty"), "name one with a system in it"));
            }
            return Ok(Self { format: "raw", disk_bytes: whole_sectors(length) });
        }
        let cut_short = || (String::from("ends within its header"), "fetch or make it again");
        let version = be32(start, 4).ok_or_else(cut_short)?;
        let known = VERSIONS.iter().position(|known| *known == version);
        let least = known.map(|known| HEADER_BYTES[known]).ok_or_else(|| {
            (format!("is of version {version} of qcow, and 2 and 3 are known"), CONVERT)
        })?;
        if start.len() < least {
            return Err(cut_short());
        }
        let word = |at| be64(start, at).unwrap_or_default();
        let features = if version == 2 { 0 } else { word(72) };
        if word(8) != 0 {
            let name = below(start).map(|name| format!(", `{}`", name.escape_debug()));
            return Err((
                format!(
                    "lies over another file{}, which its author chose and the guest would read",
                    name.unwrap_or_default()
                ),
                FLATTEN,
            ));
        }
        if features & EXTERNAL_DATA != 0 {
            return Err((
                String::from(
                    "has its data in another file, which its author chose and the guest would read",
                ),
                FLATTEN,
            ));
        }
        let disk_bytes = word(24);
        if disk_bytes > DISK_BYTES_MAX {
            return Err((
                format!("says that its disk has {disk_bytes} bytes, more than there can be"),
                "fetch or make it again",
            ));
        }
        Ok(Self { format: "qcow2", disk_bytes: whole_sectors(disk_bytes) })
    }
}

/// Keeps everybody from opening an image for writing while it is held, as long as the kernel lets
/// nobody wait, three quarters of a minute: QEMU reads the header once more. Nothing is kept from
/// on file systems without leases.
///
/// Source: `F_SETLEASE`, `F_SETSIG` in `fcntl(2)`, `/proc/sys/fs/lease-break-time`.
fn hold(file: &File) -> std::io::Result<()> {
    // The usual signal that somebody waits would end this process; this one is ignored.
    // SAFETY: no memory is named.
    unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
    // SAFETY: no memory is named.
    let held = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    match std::io::Error::last_os_error() {
        error if held < 0 && error.raw_os_error() == Some(libc::EAGAIN) => Err(error),
        _ => Ok(()),
    }
}

/// Advice for another format.
const CONVERT: &str =
    "if you trust its author, make it one: `qemu-img convert -O qcow2 IMAGE NEW.qcow2`";

/// Advice for an image of several files. `qemu-img` reads them all, with the rights of whoever runs
/// it.
const FLATTEN: &str = "if you trust its author, make it one file: `qemu-img convert -O qcow2 IMAGE \
                       NEW.qcow2` reads whatever it names";

/// The name of the file below, if it lies in what was read.
fn below(start: &[u8]) -> Option<String> {
    let at = usize::try_from(be64(start, 8)?).ok()?;
    let length = usize::try_from(be32(start, 16)?).ok()?;
    let name = start.get(at..at.checked_add(length)?)?;
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

fn whole_sectors(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR).saturating_mul(SECTOR)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it))
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|it| u64::from_be_bytes(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of qcow2 with a disk of 1 MiB and a byte.
    fn qcow2(version: u32, changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..8].copy_from_slice(&version.to_be_bytes());
        bytes[24..32].copy_from_slice(&((1_u64 << 20) + 1).to_be_bytes());
        bytes[100..104].copy_from_slice(&104_u32.to_be_bytes());
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        Header::parse(bytes, 1 << 20).unwrap_err().0
    }

    #[test]
    fn an_image_in_one_file_is_taken_with_the_size_of_its_disk() {
        let disk_bytes = (1 << 20) + 512;
        for version in VERSIONS {
            let said = Header::parse(&qcow2(version, &[]), 4096);
            assert_eq!(said, Ok(Header { format: "qcow2", disk_bytes }));
        }
        let raw = Header { format: "raw", disk_bytes: 1024 };
        assert_eq!(Header::parse(b"\xeb\x63\x90", 513), Ok(raw));
    }

    #[test]
    fn an_image_that_names_another_file_is_refused_with_its_name() {
        let secret = b"/root/\x1bsecret";
        let named: &[(usize, &[u8])] =
            &[(8, &512_u64.to_be_bytes()), (16, &13_u32.to_be_bytes()), (512, secret)];
        for version in VERSIONS {
            let why = refused(&qcow2(version, named));
            assert!(why.starts_with("lies over another file, `/root/\\u{1b}secret`, "), "{why}");
        }
        let afar = qcow2(3, &[(8, &u64::MAX.to_be_bytes()), (16, &u32::MAX.to_be_bytes())]);
        assert!(refused(&afar).starts_with("lies over another file, which"));
        let data = qcow2(3, &[(72, &4_u64.to_be_bytes())]);
        assert!(refused(&data).starts_with("has its data in another file"));
        // The second version has no features there.
        assert!(Header::parse(&qcow2(2, &[(72, &4_u64.to_be_bytes())]), 4096).is_ok());
    }

    #[test]
    fn any_other_format_is_refused_by_name() {
        for (format, at, magic) in OTHERS {
            let bytes = [vec![0; at], magic.to_vec()].concat();
            assert_eq!(refused(&bytes), format!("is of format `{format}`"));
        }
        assert_eq!(refused(&qcow2(1, &[])), "is of version 1 of qcow, and 2 and 3 are known");
        assert_eq!(Header::parse(b"", 0).unwrap_err().0, "is empty");
        let endless = refused(&qcow2(3, &[(24, &u64::MAX.to_be_bytes())]));
        assert!(endless.ends_with("bytes, more than there can be"), "{endless}");
    }

    #[test]
    fn a_header_that_is_cut_short_anywhere_is_refused() {
        for (version, least) in VERSIONS.into_iter().zip(HEADER_BYTES) {
            let whole = qcow2(version, &[]);
            for length in MAGIC.len()..least {
                assert_eq!(refused(&whole[..length]), "ends within its header", "{length}");
            }
            assert!(Header::parse(&whole[..least], 4096).is_ok());
        }
    }

    #[test]
    fn what_qemu_s_own_tool_makes_is_understood_and_what_leads_away_is_not_opened() {
        if crate::lab::find("qemu-img").is_none() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let make = |words: &[&str]| {
            let words: Vec<String> =
                ["qemu-img", "create", "-q"].iter().chain(words).map(|it| (*it).into()).collect();
            crate::lab::ask(&words, None, std::time::Duration::from_secs(30)).unwrap();
        };
        let at = |name: &str| path(name).display().to_string();
        make(&["-f", "qcow2", &at("alone"), "1000000"]);
        make(&["-f", "qcow2", "-o", "compat=0.10", &at("old"), "1M"]);
        let header = |name: &str| Header::open(&path(name)).map(|(_, header)| header);
        let taken = |disk_bytes| Ok(Header { format: "qcow2", disk_bytes });
        assert_eq!(header("alone"), taken(1_000_448));
        assert_eq!(header("old"), taken(1 << 20));
        std::fs::write(path("secret"), "this machine's").unwrap();
        make(&["-f", "qcow2", "-F", "raw", "-b", &at("secret"), &at("over")]);
        let fault = header("over").unwrap_err();
        assert!(fault.message.contains(&at("secret")), "{fault}");
        assert_eq!(fault.exit_code(), 2);
        let data = format!("data_file={},data_file_raw=on", at("data"));
        make(&["-f", "qcow2", "-o", &data, &at("outside"), "1M"]);
        let fault = header("outside").unwrap_err();
        assert!(fault.message.contains("has its data in another file"), "{fault}");
        for format in ["vmdk", "vdi", "vhdx", "vpc", "qed", "qcow", "parallels"] {
            make(&["-f", format, &at(format), "1M"]);
            let fault = header(format).unwrap_err();
            assert!(fault.message.contains(" is of "), "{format}: {fault}");
        }
        make(&["-f", "vmdk", "-o", "subformat=monolithicFlat", &at("flat.vmdk"), "1M"]);
        assert!(header("flat.vmdk").unwrap_err().message.contains("`vmdk`"));
    }
}
