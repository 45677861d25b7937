//! Files of counters: a number alone, or a line each with its name.

use std::fs::File;
use std::os::unix::fs::FileExt;

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
        let status = "VmHWM:\t    1000 kB\nVmHWMore: 1 kB\nPid:\t7\n";
        assert_eq!((bytes(status, "VmHWM"), bytes(status, "Vm")), (Some(1_024_000), None));
        assert_eq!(bytes(status, "Pid"), None);
    }
}
