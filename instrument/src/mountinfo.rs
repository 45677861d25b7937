//! `/proc/PID/mountinfo`: what is mounted where in a mount namespace.
//!
//! Source: `proc_pid_mountinfo(5)`, Linux `Documentation/filesystems/proc.rst` section 3.5.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The mount's number.
    pub id: u64,
    /// That of the mount on which it lies.
    pub parent: u64,
    /// The numbers of the device; the first is 0 where the file system has none of its own.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Path at which it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// The kind of the file system, as the kernel names it: `ext4`, `tmpfs`.
    pub kind: String,
    /// Source that it was mounted from: `/dev/vda`, or any word.
    pub source: String,
    /// Options of the file system, which may be no text.
    pub system_options: Vec<u8>,
}

impl Mounted {
    /// Reads a line such as `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root
    /// rw,errors=continue`; nothing of one that is no such line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let mut number = || text(words.next()?).parse().ok();
        let (id, parent) = (number()?, number()?);
        let device = text(words.next()?);
        let (major, minor) = device.split_once(':')?;
        let (root, point) = (unescape(words.next()?), unescape(words.next()?));
        let options = text(words.next()?);
        let mut of_system = words.skip_while(|word| *word != b"-").skip(1);
        Some(Self {
            id,
            parent,
            device: (major.parse().ok()?, minor.parse().ok()?),
            root,
            point,
            options,
            kind: text(of_system.next()?),
            source: unescape(of_system.next()?).to_string_lossy().into_owned(),
            system_options: of_system.next().unwrap_or_default().to_vec(),
        })
    }

    /// Tells whether the mount or its file system is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        [self.options.as_bytes(), &self.system_options]
            .into_iter()
            .any(|options| options.split(|&byte| byte == b',').any(|option| option == b"ro"))
    }

    /// The upper directory, of an overlay that has one.
    #[must_use]
    pub fn upper(&self) -> Option<PathBuf> {
        if self.kind != "overlay" {
            return None;
        }
        let mut options = self.system_options.split(|&byte| byte == b',');
        let upper = options.find_map(|option| option.strip_prefix(b"upperdir="))?;
        Some(unescape(upper))
    }
}

/// The table, in the order in which it was mounted.
#[must_use]
pub fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|&byte| byte == b'\n').filter_map(Mounted::parse).collect()
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// Undoes what the kernel does to spaces and the like: `\040` is a space.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        };
        match (byte, tail.get(..3).and_then(octal)) {
            (b'\\', Some(escaped)) => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole_whatever_stands_between() {
        let line = "36 35 98:0 /a\\040b /mnt/c\\134d rw,noatime shared:7 master:1 - ext3 \
                    /dev/e\\040f rw,ro";
        let mounted = Mounted::parse(line.as_bytes()).unwrap();
        let expected = Mounted {
            id: 36,
            parent: 35,
            device: (98, 0),
            root: PathBuf::from("/a b"),
            point: PathBuf::from("/mnt/c\\d"),
            options: String::from("rw,noatime"),
            kind: String::from("ext3"),
            source: String::from("/dev/e f"),
            system_options: b"rw,ro".to_vec(),
        };
        assert_eq!(mounted, expected);
        assert!(mounted.is_read_only());
        for broken in
            ["", "36 35 98:0 / /a rw", "36 35 980 / /a rw - ext3 a rw", "x 35 98:0 / /a rw - a b c"]
        {
            assert_eq!(Mounted::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_stays_what_it_is_and_only_an_overlay_has_an_upper_directory() {
        let line =
            b"47 30 0:43 / /\xff rw - overlay o rw,lowerdir=/,upperdir=/a\\040b\xff/0,workdir=/w";
        let mounted = Mounted::parse(line).unwrap();
        assert_eq!(mounted.point, PathBuf::from(OsString::from_vec(b"/\xff".to_vec())));
        let upper = OsString::from_vec(b"/a b\xff/0".to_vec());
        assert_eq!(mounted.upper(), Some(PathBuf::from(upper)));
        assert_eq!(Mounted { kind: String::from("ext4"), ..mounted }.upper(), None);
        let lower = b"47 30 0:43 / / ro - overlay x ro,lowerdir=/a:/b";
        assert_eq!(Mounted::parse(lower).unwrap().upper(), None, "nothing is written to it");
        assert_eq!(parse(b"\nno line\n").len(), 0);
    }
}
