//! ELF: what a kernel, its modules and a program say of themselves.
//!
//! Reads little-endian files only. The file may be anything that a user named: `object` checks
//! every offset before it looks, and what it refuses is not there.

use object::LittleEndian;
use object::elf::{FileHeader32, FileHeader64, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};

/// The type of the note that names the 32-bit entry point of PVH.
///
/// Source: Linux `include/xen/interface/elfnote.h`, `XEN_ELFNOTE_PHYS32_ENTRY`.
pub(crate) const PHYS32_ENTRY: u32 = 18;

/// The most segments of a file whose notes are read; a kernel has about five.
const SEGMENTS_MAX: usize = 128;

/// A 64-bit little-endian ELF file.
#[derive(Clone, Copy)]
pub(crate) struct Elf<'a> {
    header: &'a FileHeader64<LittleEndian>,
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// The file, if its header says that it is of this kind.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { header: header(bytes)?, bytes })
    }

    /// The contents of the section called `name`.
    pub(crate) fn section(self, name: &str) -> Option<&'a [u8]> {
        let sections = self.header.sections(LittleEndian, self.bytes).ok()?;
        let (_, section) = sections.section_by_name(LittleEndian, name.as_bytes())?;
        section.data(LittleEndian, self.bytes).ok()
    }

    /// Tells whether a hypervisor can enter this kernel by PVH, without a boot loader's protocol.
    pub(crate) fn enters_by_pvh(self) -> bool {
        notes_in(self.header, self.bytes).any(|it| it == PHYS32_ENTRY)
    }

    /// The loader that a program names; a static one has none.
    pub(crate) fn interpreter(self) -> Option<&'a str> {
        let mut segments = self.header.program_headers(LittleEndian, self.bytes).ok()?.iter();
        let name = segments.find_map(|it| it.interpreter(LittleEndian, self.bytes).ok()?)?;
        std::str::from_utf8(name).ok()
    }
}

/// Tells whether a kernel, of 32 bits or of 64, has a note of Xen's of this type.
pub(crate) fn has_note(kernel: &[u8], kind: u32) -> bool {
    if let Some(header) = header::<FileHeader64<LittleEndian>>(kernel) {
        return notes_in(header, kernel).any(|it| it == kind);
    }
    let header = header::<FileHeader32<LittleEndian>>(kernel);
    header.is_some_and(|header| notes_in(header, kernel).any(|it| it == kind))
}

fn header<H: FileHeader>(bytes: &[u8]) -> Option<&H> {
    let header = H::parse(bytes).ok()?;
    header.endian().is_ok().then_some(header)
}

/// The types of the notes of Xen's, one after the other: a file may name the same ones many times.
fn notes_in<H: FileHeader<Endian = LittleEndian, Word: From<u32>>>(
    header: &H,
    bytes: &[u8],
) -> impl Iterator<Item = u32> {
    let segments = header.program_headers(LittleEndian, bytes).unwrap_or_default();
    let notes = segments.iter().take(SEGMENTS_MAX).filter_map(move |segment| {
        let is_note = segment.p_type(LittleEndian) == PT_NOTE;
        let notes = is_note.then(|| segment.data(LittleEndian, bytes).ok())??;
        // Whatever the header says, kernels pad them to four bytes.
        NoteIterator::<H>::new(LittleEndian, 4.into(), notes).ok()
    });
    let notes = notes.flatten().filter_map(Result::ok).filter(|note| note.name() == b"Xen");
    notes.map(|note| note.n_type(LittleEndian).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [owner.len(), description.len()] {
            bytes.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        bytes.extend(kind.to_le_bytes());
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    /// A header may claim 65,535 segments.
    #[test]
    fn notes_behind_more_segments_than_a_kernel_has_are_not_looked_for() {
        let behind = |count: usize| {
            let mut bytes = kernel(true, &note(b"Xen\0", PHYS32_ENTRY, &[0; 8]));
            let (head, segment) = (64, 56);
            bytes.splice(head..head, vec![0; count * segment]);
            bytes[0x38..0x3a].copy_from_slice(&u16::try_from(count + 1).unwrap().to_le_bytes());
            let offset = head + count * segment + 8;
            let old = u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap());
            let moved = old + u64::try_from(count * segment).unwrap();
            bytes[offset..offset + 8].copy_from_slice(&moved.to_le_bytes());
            has_note(&bytes, PHYS32_ENTRY)
        };
        assert!(behind(0) && behind(SEGMENTS_MAX - 1) && !behind(SEGMENTS_MAX));
    }

    /// A file of 64 bits, or of 32, with these notes alone.
    fn kernel(is_wide: bool, notes: &[u8]) -> Vec<u8> {
        let (head, segment) = if is_wide { (64, 56) } else { (52, 32) };
        let mut bytes = vec![0; head + segment];
        bytes[..7].copy_from_slice(if is_wide {
            b"\x7fELF\x02\x01\x01"
        } else {
            b"\x7fELF\x01\x01\x01"
        });
        let [start, size, count, offset, length] = match is_wide {
            true => [0x20, 0x36, 0x38, 8, 32],
            false => [0x1c, 0x2a, 0x2c, 4, 16],
        };
        let small = |number: usize| u8::try_from(number).unwrap();
        (bytes[start], bytes[size], bytes[count]) = (small(head), small(segment), 1);
        bytes[head] = 4;
        bytes[head + offset] = small(head + segment);
        bytes[head + length] = small(notes.len());
        [&bytes, notes].concat()
    }

    #[test]
    fn the_pvh_entry_is_found_behind_other_notes() {
        let mut notes = note(b"Linux\0", 7, b"6.1.0");
        notes.extend(note(b"Xen\0", 6, b"linux\0"));
        assert!(!Elf::parse(&kernel(true, &notes)).unwrap().enters_by_pvh());
        notes.extend(note(b"Xen\0", PHYS32_ENTRY, &[0; 4]));
        assert!(Elf::parse(&kernel(true, &notes)).unwrap().enters_by_pvh());
        for kernel in [true, false].map(|is_wide| kernel(is_wide, &notes)) {
            let found: Vec<u32> = (0..=32).filter(|kind| has_note(&kernel, *kind)).collect();
            assert_eq!(found, [6, PHYS32_ENTRY]);
        }
    }

    #[test]
    fn a_note_longer_than_the_file_ends_the_search() {
        let mut notes = note(b"Xen\0", 6, b"linux\0");
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!has_note(&kernel(true, &notes), 6));
    }

    #[test]
    fn a_dynamic_program_names_its_loader_and_a_static_one_none() {
        let ours = std::fs::read("/proc/self/exe").unwrap();
        assert!(Elf::parse(&ours).unwrap().interpreter().unwrap().starts_with("/lib64/ld-linux"));
        let agent = std::fs::read(env!("SURTAX_AGENT")).unwrap();
        assert_eq!(Elf::parse(&agent).unwrap().interpreter(), None);
    }

    #[test]
    fn a_file_that_ends_early_has_no_sections() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        assert!(Elf::parse(&whole).unwrap().section(".text").is_some());
        for length in [0x40, 4096] {
            assert_eq!(Elf::parse(&whole[..length]).unwrap().section(".text"), None);
        }
        for length in [0, 6, 0x3f] {
            assert!(Elf::parse(&whole[..length]).is_none());
        }
        assert!(Elf::parse(b"MZ").is_none());
    }
}
