//! A console of Xen's as the channel to the host: bytes as they are, and no terminal.
//!
//! The first one, `hvc0`, is the kernel's. Others are served to a domain like any device, and a
//! domain finds the device file of one that nobody serves yet.
//!
//! Source: Linux `drivers/tty/hvc/hvc_xen.c`, `termios(3)`.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io;
use std::path::Path;

/// Prefix of the names of these devices.
pub const PREFIX: &str = "hvc";

/// Opens a console; nothing while nobody serves it.
///
/// # Errors
/// It is no terminal.
pub fn open(device: &str) -> io::Result<Option<File>> {
    // The first process of a machine would take it for the terminal that it is controlled by.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(Path::new("/dev").join(device), flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NODEV | Errno::NOENT | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut settings = tcgetattr(&opened)?;
    settings.make_raw();
    tcsetattr(&opened, OptionalActions::Now, &settings)?;
    Ok(Some(File::from(opened)))
}
