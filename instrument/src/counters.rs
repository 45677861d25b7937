//! Files of counters: a number alone, or a line each with its name.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that nearly all such files fit into.
const USUAL: usize = 4096;

/// Reads a small file of the kernel's to its end, as text.
///
/// # Errors
/// As [`bytes_of`], or it is no UTF-8.
pub fn text_of(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(bytes_of(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads a small file of the kernel's to its end. It has no size that could be asked for, so the
/// standard library would begin with pieces of 32 bytes.
///
/// # Errors
/// The machine's: it is not there, or cannot be read.
pub fn bytes_of(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    rest_of(File::open(path)?)
}

/// Reads what is left of such a file.
pub(crate) fn rest_of(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL);
    // Not `File::read_to_end`, which asks for the size.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the beginning of a file as text.
pub(crate) fn text<'a>(file: Option<&File>, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file?.read_at(buffer, 0).ok()?;
    std::str::from_utf8(buffer.get(..length)?).ok()
}

/// Reads a file that is a number alone.
pub(crate) fn number(file: &File) -> Option<u64> {
    text(Some(file), &mut [0; 32])?.trim().parse().ok()
}

/// Reads the number of the line with this name and a space; `None` where there is none.
pub(crate) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Reads the numbers of the lines with these names, of a text that is long; `None` for each that
/// there is none of.
pub(crate) fn values<const N: usize>(text: &str, names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    for line in text.lines() {
        if found.iter().all(Option::is_some) {
            break;
        }
        let Some((name, number)) = line.split_once(' ') else { continue };
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            found[place] = found[place].or_else(|| number.trim().parse().ok());
        }
    }
    found
}

/// Reads the amount of a line such as `MemTotal:  1000 kB`, in bytes; `None` where there is none.
#[must_use]
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_by_its_whole_name() {
        let stat = "user_usec 10\nuser_usec_more 3\n";
        assert_eq!((value(stat, "user_usec"), value(stat, "user")), (Some(10), None));
        let several = values(stat, ["user", "user_usec_more", "user_usec"]);
        assert_eq!(several, [None, Some(3), Some(10)]);
        let status = "VmHWM:\t    1000 kB\nVmHWMore: 1 kB\nPid:\t7\n";
        assert_eq!((bytes(status, "VmHWM"), bytes(status, "Vm")), (Some(1_024_000), None));
        assert_eq!(bytes(status, "Pid"), None);
    }
}
