//! An archive of files of the kind that Linux unpacks as its first root (`newc`).

use crate::fault::{Doing, Fault};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::io::Write;

/// An archive that grows.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    last_inode: u32,
}

impl Archive {
    /// The whole of it.
    ///
    /// # Errors
    /// The machine's: it cannot be ended.
    pub(crate) fn end(self) -> Result<Vec<u8>, Fault> {
        trailer(self.bytes).doing("end the initramfs")
    }

    /// Puts one file or directory behind the others; its parents must stand before it.
    ///
    /// # Errors
    /// The machine's: it is larger than the format allows.
    pub(crate) fn add(
        &mut self,
        name: &str,
        permissions: u32,
        kind: ModeFileType,
        contents: &[u8],
    ) -> Result<(), Fault> {
        self.last_inode += 1;
        let size = u32::try_from(contents.len())
            .map_err(|_| Fault::machine(format!("`{name}` is too large for an initramfs")))?;
        let entry = Builder::new(name)
            .ino(self.last_inode)
            .nlink(1)
            .mode(permissions)
            .set_mode_file_type(kind);
        let mut writer = entry.write(std::mem::take(&mut self.bytes), size);
        writer.write_all(contents).doing(format_args!("put `{name}` into the initramfs"))?;
        self.bytes = writer.finish().doing(format_args!("put `{name}` into the initramfs"))?;
        Ok(())
    }
}
