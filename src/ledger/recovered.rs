//! A database file as recovery would leave it, in memory: whatever lies beside it, nothing on the
//! disk is changed.
//!
//! SQLite recovers by writing: it rolls a journal back, deletes it, makes an index beside a
//! write-ahead log. That cannot be done in a directory that may only be read, and must not be done
//! for a file that somebody else made: a rollback journal names a further file, which is deleted.
//! So the two formats are read here, checksums and all, and laid over the pages.
//!
//! Source: SQLite, "Database File Format", sections 3 (the rollback journal) and 4 (the write-ahead
//! log).

use super::files::{Beside, Files};
use std::io;
use std::os::unix::fs::FileExt;

/// First bytes of a rollback journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Length of the head of a rollback journal, which fills a sector.
const JOURNAL_HEAD: usize = 28;

/// The count of records of a journal that was not synced as it was written: they go on to its end.
const TO_THE_END: u32 = 0xffff_ffff;

/// Magic numbers of a write-ahead log: checksums of little-endian words, and of big-endian ones.
const WAL_MAGICS: [u32; 2] = [0x377f_0682, 0x377f_0683];

/// The only version of the log's format.
const WAL_VERSION: u32 = 3_007_000;

const WAL_HEAD: usize = 32;

const FRAME_HEAD: usize = 24;

/// Number of times that a file is read that somebody writes meanwhile.
const TRIES: u32 = 50;

/// Bytes in which a database says how it is written and read.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// Value of the last of them while there may be a write-ahead log: before the log is made, and
/// until it was removed. Only then SQLite believes one.
const WITH_LOG: u8 = 2;

/// The whole database as its last committed transaction left it; readable without any file beside
/// it.
///
/// # Errors
/// The machine's, or [`io::ErrorKind::InvalidData`] where it would be larger than `limit`.
pub(super) fn image(files: &Files, limit: usize) -> io::Result<Vec<u8>> {
    for _ in 0..TRIES {
        let before = files.stamp()?;
        let mut image = files.database(limit)?;
        let journal = files.beside(Beside::Journal, limit)?;
        let log = files.beside(Beside::Log, limit)?;
        if files.stamp()? != before {
            std::thread::yield_now();
            continue;
        }
        roll_back(&mut image, &journal, limit)?;
        if image.get(VERSIONS.end - 1) == Some(&WITH_LOG) {
            roll_forward(&mut image, &log, limit)?;
        }
        if let Some(versions) = image.get_mut(VERSIONS) {
            versions.fill(1); // what is in memory has no log beside it
        }
        return Ok(image);
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "somebody keeps writing it"))
}

/// Tells whether a database says that there may be a log beside it.
///
/// # Errors
/// The machine's.
pub(super) fn may_have_log(files: &Files) -> io::Result<bool> {
    let mut version = [0];
    let read = files.file().read_at(&mut version, VERSIONS.end as u64 - 1)?;
    Ok(read == 1 && version == [WITH_LOG])
}

/// Undoes a transaction that did not end: puts back the pages that its journal holds.
fn roll_back(image: &mut Vec<u8>, journal: &[u8], limit: usize) -> io::Result<()> {
    let mut at = 0;
    let mut is_first = true;
    while let Some(head) = journal_head(journal, at) {
        if is_first {
            fit(image, head.page_count, head.page_size, limit)?;
        }
        is_first = false;
        let record = head.page_size + 8;
        let room = journal.len().saturating_sub(at + head.sector) / record;
        let count = match head.record_count {
            TO_THE_END => room,
            count => room.min(usize_of(count)),
        };
        at += head.sector;
        for _ in 0..count {
            let Some(bytes) = journal.get(at..at + record) else { return Ok(()) };
            let Some((number, page)) = journalled(bytes, &head) else { return Ok(()) };
            put(image, number, page);
            at += record;
        }
        at = at.next_multiple_of(head.sector);
    }
    Ok(())
}

/// The head of one part of a rollback journal.
struct JournalHead {
    record_count: u32,
    nonce: u32,
    page_count: u32,
    sector: usize,
    page_size: usize,
}

fn journal_head(journal: &[u8], at: usize) -> Option<JournalHead> {
    let head = journal.get(at..at.checked_add(JOURNAL_HEAD)?)?;
    let field = |place: usize| word(head, 8 + 4 * place);
    let (sector, page_size) = (usize_of(field(3)?), usize_of(field(4)?));
    let is_fine = head.starts_with(&JOURNAL_MAGIC)
        && is_page_size(page_size)
        && sector.is_power_of_two()
        && (32..=65_536).contains(&sector);
    is_fine.then_some(JournalHead {
        record_count: field(0)?,
        nonce: field(1)?,
        page_count: field(2)?,
        sector,
        page_size,
    })
}

/// The number and the content of a page in a journal, if its checksum is right.
fn journalled<'a>(record: &'a [u8], head: &JournalHead) -> Option<(u32, &'a [u8])> {
    let page = record.get(4..4 + head.page_size)?;
    let sampled = (1..head.page_size.div_ceil(200)).map(|back| head.page_size - 200 * back);
    let sampled = sampled.filter(|place| *place > 0).filter_map(|place| page.get(place));
    let sum = sampled.fold(head.nonce, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    let is_right = word(record, 4 + head.page_size)? == sum;
    word(record, 0).filter(|number| is_right && *number > 0).map(|number| (number, page))
}

/// Does what a write-ahead log says, up to the last transaction that was committed.
fn roll_forward(image: &mut Vec<u8>, log: &[u8], limit: usize) -> io::Result<()> {
    let Some(head) = WalHead::of(log) else { return Ok(()) };
    let frames: Vec<Frame<'_>> = head.frames(log).collect();
    let Some(last) = frames.iter().rposition(|frame| frame.page_count > 0) else { return Ok(()) };
    let Some(committed) = frames.get(..=last) else { return Ok(()) };
    let page_count = committed.last().map_or(0, |frame| frame.page_count);
    fit(image, page_count, head.page_size, limit)?;
    for frame in committed {
        put(image, frame.number, frame.page);
    }
    Ok(())
}

/// The head of a write-ahead log.
struct WalHead {
    is_big_endian: bool,
    page_size: usize,
    salts: [u8; 8],
    sums: (u32, u32),
}

/// A page in a log.
struct Frame<'a> {
    number: u32,
    /// Number of pages of the database after the transaction that ends here; zero within one.
    page_count: u32,
    page: &'a [u8],
}

impl WalHead {
    fn of(log: &[u8]) -> Option<Self> {
        let head = log.get(..WAL_HEAD)?;
        let magic = word(head, 0)?;
        let is_big_endian = magic == WAL_MAGICS[1];
        let page_size = usize_of(word(head, 8)?);
        let sums = summed((0, 0), head.get(..24)?, is_big_endian);
        let is_fine = WAL_MAGICS.contains(&magic)
            && word(head, 4)? == WAL_VERSION
            && is_page_size(page_size)
            && sums == (word(head, 24)?, word(head, 28)?);
        let salts = head.get(16..24)?.try_into().ok()?;
        is_fine.then_some(Self { is_big_endian, page_size, salts, sums })
    }

    /// The frames up to the first that is not of this log, or whose checksum is wrong.
    fn frames<'a>(&self, log: &'a [u8]) -> impl Iterator<Item = Frame<'a>> {
        let body = log.get(WAL_HEAD..).unwrap_or_default();
        let mut sums = self.sums;
        body.chunks_exact(FRAME_HEAD + self.page_size).map_while(move |frame| {
            let (head, page) = frame.split_at_checked(FRAME_HEAD)?;
            sums = summed(sums, head.get(..8)?, self.is_big_endian);
            sums = summed(sums, page, self.is_big_endian);
            let is_right = head.get(8..16)? == self.salts
                && sums == (word(head, 16)?, word(head, 20)?)
                && word(head, 0)? > 0;
            is_right.then_some(Frame { number: word(head, 0)?, page_count: word(head, 4)?, page })
        })
    }
}

/// The checksum of a log, over so many more bytes.
fn summed(sums: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let read = |four: &[u8]| {
        let four = four.try_into().unwrap_or_default();
        if is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    bytes.chunks_exact(8).fold(sums, |(one, two), eight| {
        let (first, second) = eight.split_at(4);
        let one = one.wrapping_add(read(first)).wrapping_add(two);
        (one, two.wrapping_add(read(second)).wrapping_add(one))
    })
}

/// Makes the image so many pages long.
fn fit(image: &mut Vec<u8>, page_count: u32, page_size: usize, limit: usize) -> io::Result<()> {
    let length = usize_of(page_count).saturating_mul(page_size);
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it says that it is far larger"));
    }
    image.resize(length, 0);
    Ok(())
}

/// Puts a page in its place; one beyond the end belongs to what was undone.
fn put(image: &mut [u8], number: u32, page: &[u8]) {
    let from = (usize_of(number) - 1).saturating_mul(page.len());
    if let Some(place) = image.get_mut(from..from.saturating_add(page.len())) {
        place.copy_from_slice(page);
    }
}

fn is_page_size(size: usize) -> bool {
    size.is_power_of_two() && (512..=65_536).contains(&size)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
