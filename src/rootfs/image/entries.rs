//! The entries of a tar archive, one after the other, with a limit to what is read of it at once.
//!
//! A name that does not fit into a header, and the records of a PAX header, are read whole into
//! memory, however long they say they are; and of a packed archive a few bytes say a lot.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read};
use tar::{Archive, Entry};

/// The most that the headers of one entry may have, in bytes.
const HEADERS_LIMIT: u64 = 1 << 20;

/// A reader of which so much may still be read.
pub(super) struct Limited<'a, R> {
    source: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            let what = format!("the headers of an entry have more than {HEADERS_LIMIT} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        let most = buffer.len().min(left);
        let count = self.source.read(&mut buffer[..most])?;
        self.left.set(self.left.get().saturating_sub(count as u64));
        Ok(count)
    }
}

/// Gives every entry of an archive to `act`, and reads what that leaves of it.
///
/// # Errors
/// The archive's, `act`'s; headers are longer than any archive needs.
pub(super) fn each<R: Read>(
    source: R,
    mut act: impl FnMut(&mut Entry<'_, Limited<'_, R>>) -> io::Result<()>,
) -> io::Result<()> {
    let left = Cell::new(HEADERS_LIMIT);
    let mut archive = Archive::new(Limited { source, left: &left });
    let mut entries = archive.entries()?;
    loop {
        left.set(HEADERS_LIMIT);
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry?;
        left.set(u64::MAX);
        act(&mut entry)?;
        // What would else be skipped together with the next headers.
        io::copy(&mut entry, &mut io::sink())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, EntryType, Header};

    fn archive(name_bytes: u64, content: usize) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut long = Header::new_gnu();
        long.set_path("././@LongLink").unwrap();
        long.set_entry_type(EntryType::GNULongName);
        long.set_size(name_bytes);
        long.set_cksum();
        let name = io::repeat(b'a').take(name_bytes);
        builder.append(&long, name).unwrap();
        let mut file = Header::new_gnu();
        file.set_path("file").unwrap();
        file.set_size(content as u64);
        file.set_cksum();
        builder.append(&file, vec![b'x'; content].as_slice()).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_name_without_end_is_refused_and_content_may_be_as_long_as_it_is() {
        let count = |bytes: &[u8]| {
            let mut sizes = Vec::new();
            each(bytes, |entry| {
                sizes.push(entry.size());
                Ok(())
            })
            .map(|()| sizes)
        };
        assert_eq!(count(&archive(200, 5 << 20)).unwrap(), [5 << 20]);
        let error = count(&archive(2 << 20, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    }
}
