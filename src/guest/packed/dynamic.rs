//! The dynamic section: what a program or a library asks its loader for.
//!
//! Found by the segments, as the loader does; what sections say of it may be something else. Reads
//! files of 64 bits for this kind of machine, which anybody may have made: `object` checks every
//! offset before it looks.
//!
//! Source: System V gABI, "Dynamic Section"; glibc 2.36, `elf/get-dynamic-info.h`.

use object::LittleEndian;
use object::elf::{
    DT_AUDIT, DT_DEPAUDIT, DT_FILTER, DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME,
    DT_STRTAB, DynamicTag, EM_X86_64, FileHeader64, PT_LOAD, ProgramHeader64,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// The most segments that are looked at, and the most entries; a program has about 13, and 30.
const SEGMENTS_MOST: usize = 128;
const ENTRIES_MOST: usize = 4096;

/// The most bytes of a library's name, and of a list of directories.
const NAME_MOST: usize = 4096;
const LIST_MOST: usize = 1 << 16;

/// Libraries and directories that a file asks the loader for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Names of the libraries, in order.
    pub(crate) libraries: Vec<Vec<u8>>,
    /// The name that it gives itself.
    pub(crate) own_name: Option<Vec<u8>>,
    /// Directories for its libraries, and for theirs.
    pub(crate) rpath: Option<Vec<u8>>,
    /// Directories for its libraries alone. Where it has these, the others do not count.
    pub(crate) runpath: Option<Vec<u8>>,
    /// True if it names libraries that the loader runs to tell them what it does.
    pub(crate) is_audited: bool,
}

/// Reads what a file asks for, if it is one for this machine, and whole.
pub(crate) fn read(bytes: &[u8]) -> Option<Needs> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    header.endian().ok()?;
    if header.e_machine(LittleEndian) != EM_X86_64 {
        return None;
    }
    let segments = header.program_headers(LittleEndian, bytes).ok()?;
    let segments = segments.get(..SEGMENTS_MOST).unwrap_or(segments);
    let dynamic = segments.iter().find_map(|it| it.dynamic(LittleEndian, bytes).transpose());
    let Some(entries) = dynamic else { return Some(Needs::default()) };
    let entries = entries.ok()?.iter().map(|it| (it.d_tag(LittleEndian), it.d_val(LittleEndian)));
    let entries = entries.take_while(|(tag, _)| *tag != DT_NULL).take(ENTRIES_MOST + 1);
    let entries: Vec<(DynamicTag, u64)> = entries.collect();
    if entries.len() > ENTRIES_MOST {
        return None;
    }
    let last = |wanted: DynamicTag| {
        entries.iter().rfind(|(tag, _)| *tag == wanted).map(|(_, value)| *value)
    };
    let strings = last(DT_STRTAB).and_then(|address| behind(address, segments, bytes));
    let strings = strings.unwrap_or_default();
    let needed = entries.iter().filter(|(tag, _)| matches!(*tag, DT_NEEDED | DT_FILTER));
    let libraries: Option<Vec<Vec<u8>>> =
        needed.map(|(_, at)| text(strings, *at, NAME_MOST)).collect();
    let named = |tag: DynamicTag, most: usize| text(strings, last(tag)?, most);
    Some(Needs {
        libraries: libraries?,
        own_name: named(DT_SONAME, NAME_MOST),
        rpath: named(DT_RPATH, LIST_MOST),
        runpath: named(DT_RUNPATH, LIST_MOST),
        is_audited: entries.iter().any(|(tag, _)| matches!(*tag, DT_AUDIT | DT_DEPAUDIT)),
    })
}

/// Bytes of the file from an address in memory on.
fn behind<'a>(
    address: u64,
    segments: &[ProgramHeader64<LittleEndian>],
    bytes: &'a [u8],
) -> Option<&'a [u8]> {
    let mut loaded = segments.iter().filter(|it| it.p_type(LittleEndian) == PT_LOAD);
    loaded.find_map(|segment| {
        let offset = address.checked_sub(segment.p_vaddr(LittleEndian))?;
        let data = segment.data(LittleEndian, bytes).ok()?;
        data.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())
    })
}

/// The text at this place, up to its NUL.
fn text(strings: &[u8], at: u64, most: usize) -> Option<Vec<u8>> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().take(most + 1).position(|byte| *byte == 0)?;
    Some(rest.get(..end)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::elf::Elf;
    use crate::guest::packed::planted::Planted;

    #[test]
    fn what_a_file_asks_for_is_read_in_order_and_the_last_of_each_list_counts() {
        let bytes = Planted::new()
            .with(DT_NEEDED, "libb.so.1")
            .with(DT_SONAME, "libours.so.2")
            .with(DT_RPATH, "/srv/first")
            .with(DT_RPATH, "/srv/last")
            .with(DT_NEEDED, "liba.so.1")
            .with(DT_FILTER, "libc.so.6")
            .with(DT_RUNPATH, "$ORIGIN/../lib")
            .bytes();
        let text = |text: &str| text.as_bytes().to_vec();
        let told = Needs {
            libraries: ["libb.so.1", "liba.so.1", "libc.so.6"].map(text).to_vec(),
            own_name: Some(text("libours.so.2")),
            rpath: Some(text("/srv/last")),
            runpath: Some(text("$ORIGIN/../lib")),
            is_audited: false,
        };
        assert_eq!(read(&bytes), Some(told));
        assert_eq!(read(&Planted::new().bytes()), Some(Needs::default()));
        for tag in [DT_AUDIT, DT_DEPAUDIT] {
            assert!(read(&Planted::new().with(tag, "/srv/audit.so").bytes()).unwrap().is_audited);
        }
        let loader = Planted::new().started_by("/lib64/ld.so").bytes();
        assert_eq!(Elf::parse(&loader).unwrap().interpreter(), Some("/lib64/ld.so"));
    }

    #[test]
    fn a_file_for_another_machine_or_one_that_is_cut_off_asks_for_nothing() {
        let whole = Planted::new().with(DT_NEEDED, "libc.so.6").bytes();
        assert!(read(&whole).is_some());
        for (at, byte) in [(4, 1), (5, 2), (18, 183)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(read(&other), None, "{at}");
        }
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
        assert_eq!(read(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_name_or_a_table_that_is_longer_than_any_is_refused() {
        let named = |length: usize| Planted::new().with(DT_NEEDED, &"x".repeat(length)).bytes();
        assert!(read(&named(NAME_MOST)).is_some());
        assert_eq!(read(&named(NAME_MOST + 1)), None);
        let entries = |count: usize| {
            let planted = Planted::new();
            (0..count).fold(planted, |planted, _| planted.with(DT_NEEDED, "")).bytes()
        };
        // One more says where the texts are.
        assert!(read(&entries(ENTRIES_MOST - 1)).is_some());
        assert_eq!(read(&entries(ENTRIES_MOST)), None);
    }
}
