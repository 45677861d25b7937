//! Trace points of the kernel: their numbers, and where the fields of each lie.
//!
//! Read in a mount of tracefs that has no place in any tree, and is gone with its descriptor.
//!
//! Source: Linux `Documentation/trace/events.rst`.

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;

/// More than the description of any trace point.
const LONGEST: u64 = 64 << 10;

/// The kernel's list of them.
pub(super) struct TraceEvents(OwnedFd);

/// A trace point.
pub(super) struct TraceEvent {
    /// Number of the trace point.
    pub id: u64,
    name: String,
    format: String,
}

impl TraceEvents {
    /// Opens the list.
    ///
    /// # Errors
    /// The kernel has none, or does not let us.
    pub(super) fn open() -> io::Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let mount =
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        Ok(Self(mount))
    }

    /// The trace point of a name, as in `raw_syscalls/sys_enter`.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn event(&self, name: &str) -> io::Result<TraceEvent> {
        let id = self.read(&format!("events/{name}/id"))?;
        let id = id.trim().parse().map_err(|_| strange(name, "has no number"))?;
        let format = self.read(&format!("events/{name}/format"))?;
        Ok(TraceEvent { id, name: name.into(), format })
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, path, flags, Mode::empty())?);
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// The offset of a field of this size, in bytes.
///
/// # Errors
/// There is no such field, or it has another size.
pub(super) fn field(event: &TraceEvent, name: &str, size: u16) -> io::Result<i16> {
    let found = event.format.lines().find_map(|line| offset(line, name, size));
    found.ok_or_else(|| strange(&event.name, &format!("has no field `{name}` of {size} bytes")))
}

/// Reads a line such as `field:long id; offset:8; size:8; signed:1;`.
fn offset(line: &str, name: &str, size: u16) -> Option<i16> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?.rsplit(' ').next()?.split('[').next()?;
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let length: u16 = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    (declared == name && length == size).then_some(offset)
}

fn strange(event: &str, why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the trace point `{event}` {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_and_size_wherever_it_lies() {
        let field_line = |declared: &str, offset: u16, size: u16| {
            format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        };
        let format = [
            String::from("name: sys_exit\nID: 5\nformat:\n"),
            field_line("unsigned short common_type", 0, 2),
            field_line("long id", 8, 8),
            field_line("unsigned long args[6]", 16, 48),
            String::from("\nprint fmt: \"NR %ld\", REC->id"),
        ];
        let format = format.concat();
        let event = TraceEvent { id: 5, name: "a/b".into(), format };
        assert_eq!(field(&event, "id", 8).unwrap(), 8);
        assert_eq!(field(&event, "common_type", 2).unwrap(), 0);
        assert_eq!(field(&event, "args", 48).unwrap(), 16);
        for (name, size) in [("id", 4), ("ret", 8), ("args", 8), ("arg", 48)] {
            let fault = field(&event, name, size).unwrap_err().to_string();
            assert!(fault.contains(&format!("`a/b` has no field `{name}`")), "{fault}");
        }
    }
}
