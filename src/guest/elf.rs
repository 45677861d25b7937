//! ELF: what a kernel, its modules and a program say of themselves.
//!
//! Reads 64-bit little-endian files only, checks every offset before it looks, and takes nothing on
//! trust: the file may be anything that a user named.

/// The type of the note that names the 32-bit entry point of PVH.
///
/// Source: Linux `include/xen/interface/elfnote.h`, `XEN_ELFNOTE_PHYS32_ENTRY`.
const PHYS32_ENTRY: u32 = 18;

/// The program header type of notes.
const PT_NOTE: u32 = 4;

/// The program header type of the interpreter's name: the loader of a dynamic program.
const PT_INTERP: u32 = 3;

/// A 64-bit little-endian ELF file, or bytes that claim to be one.
#[derive(Clone, Copy)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// The file, if its first bytes say that it is of this kind.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        bytes.starts_with(b"\x7fELF\x02\x01").then_some(Self { bytes })
    }

    /// The contents of the section called `name`.
    pub(crate) fn section(self, name: &str) -> Option<&'a [u8]> {
        let names = self.section_header(usize::from(self.half(0x3e)?))?;
        let names = self.extent(names, 0x18)?;
        (0..usize::from(self.half(0x3c)?)).find_map(|index| {
            let header = self.section_header(index)?;
            let start = usize::try_from(self.word(header)?).ok()?;
            let found = names.get(start..)?.split(|byte| *byte == 0).next()?;
            if found == name.as_bytes() { self.extent(header, 0x18) } else { None }
        })
    }

    /// Tells whether a hypervisor can enter this kernel by PVH, without a boot loader's protocol.
    pub(crate) fn enters_by_pvh(self) -> bool {
        self.segments(PT_NOTE).any(|notes| notes_hold(notes, b"Xen\0", PHYS32_ENTRY))
    }

    /// The loader that a program names; a static one has none.
    pub(crate) fn interpreter(self) -> Option<&'a str> {
        let name = self.segments(PT_INTERP).next()?.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok()
    }

    /// The bytes of each segment of a type, as far as they are in the file.
    fn segments(self, kind: u32) -> impl Iterator<Item = &'a [u8]> {
        let count = usize::from(self.half(0x38).unwrap_or(0));
        (0..count).filter_map(move |index| {
            let start = usize::try_from(self.long(0x20)?).ok()?;
            let size = usize::from(self.half(0x36)?);
            let header = start.checked_add(index.checked_mul(size)?)?;
            if self.word(header)? != kind {
                return None;
            }
            let offset = usize::try_from(self.long(header.checked_add(8)?)?).ok()?;
            let length = usize::try_from(self.long(header.checked_add(32)?)?).ok()?;
            self.bytes.get(offset..offset.checked_add(length)?)
        })
    }

    fn section_header(self, index: usize) -> Option<usize> {
        let start = usize::try_from(self.long(0x28)?).ok()?;
        start.checked_add(index.checked_mul(usize::from(self.half(0x3a)?))?)
    }

    /// The bytes whose offset and length stand `at` bytes into a section header.
    fn extent(self, header: usize, at: usize) -> Option<&'a [u8]> {
        let offset = usize::try_from(self.long(header.checked_add(at)?)?).ok()?;
        let length = usize::try_from(self.long(header.checked_add(at + 8)?)?).ok()?;
        self.bytes.get(offset..offset.checked_add(length)?)
    }

    fn half(self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    fn word(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    fn long(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }
}

/// The types of the notes of Xen's in a kernel, of 32 bits or of 64; none where it is no ELF.
pub(crate) fn notes_of(kernel: &[u8]) -> Vec<u32> {
    let segments: Vec<&[u8]> = match Elf::parse(kernel) {
        Some(elf) => elf.segments(PT_NOTE).collect(),
        None => note_segments_of_32_bits(kernel).unwrap_or_default(),
    };
    segments.into_iter().flat_map(|notes| types_of(notes, b"Xen\0")).collect()
}

/// The same of a file whose headers have 32 bits: offsets of four bytes, and all at other places.
fn note_segments_of_32_bits(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let elf = bytes.starts_with(b"\x7fELF\x01\x01").then_some(Elf { bytes })?;
    let number = |at: usize| usize::try_from(elf.word(at)?).ok();
    let (start, size, count) = (number(0x1c)?, elf.half(0x2a)?, elf.half(0x2c)?);
    let found = (0..usize::from(count)).filter_map(|index| {
        let header = start.checked_add(index.checked_mul(usize::from(size))?)?;
        let is_note = elf.word(header)? == PT_NOTE;
        let (offset, length) = (number(header.checked_add(4)?)?, number(header.checked_add(16)?)?);
        let segment = bytes.get(offset..offset.checked_add(length)?)?;
        is_note.then_some(segment)
    });
    Some(found.collect())
}

fn notes_hold(notes: &[u8], owner: &[u8], kind: u32) -> bool {
    types_of(notes, owner).contains(&kind)
}

/// Walks `Elf64_Nhdr` records: two lengths, a type, the owner and the description, each padded
/// to 4.
fn types_of(mut notes: &[u8], owner: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some((head, rest)) = notes.split_first_chunk::<12>() {
        let field =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = |at: usize| usize::try_from(field(at)).unwrap_or(usize::MAX);
        let (name, description) = (length(0), length(4));
        if rest.get(..name) == Some(owner) {
            found.push(field(8));
        }
        let padded = |length: usize| length.checked_next_multiple_of(4);
        let next = padded(name).zip(padded(description)).and_then(|(a, b)| a.checked_add(b));
        match next.and_then(|next| rest.get(next..)) {
            Some(rest) => notes = rest,
            None => return found,
        }
    }
    found
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

    #[test]
    fn the_pvh_entry_is_found_behind_other_notes() {
        let mut notes = note(b"Linux\0", 7, b"6.1.0");
        notes.extend(note(b"Xen\0", 6, b"linux\0"));
        assert!(!notes_hold(&notes, b"Xen\0", PHYS32_ENTRY));
        notes.extend(note(b"Xen\0", PHYS32_ENTRY, &[0; 4]));
        assert!(notes_hold(&notes, b"Xen\0", PHYS32_ENTRY));
    }

    #[test]
    fn a_note_longer_than_the_file_ends_the_search() {
        let mut notes = note(b"Xen\0", 6, b"linux\0");
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!notes_hold(&notes, b"Xen\0", PHYS32_ENTRY));
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
        for length in [6, 0x3f, 0x40, 4096] {
            assert_eq!(Elf::parse(&whole[..length]).unwrap().section(".text"), None);
        }
        assert!(Elf::parse(b"MZ").is_none());
    }
}
