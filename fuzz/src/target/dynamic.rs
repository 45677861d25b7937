//! Dynamic sections of programs and libraries: what a file asks its loader for, within bounds.

use super::Target;
use surtax::driver::untrusted;

pub const TARGET: Target = Target { name: "dynamic", run, seeds, folders: &[], longest: 72 << 10 };

/// The most texts that one file can ask for, and the longest of them, in bytes.
const TEXTS_MOST: usize = 4096 + 3;
const TEXT_MOST: usize = 1 << 16;

/// Tags of a dynamic section.
///
/// Source: System V gABI, "Dynamic Section".
const NEEDED: u64 = 1;
const STRTAB: u64 = 5;
const SONAME: u64 = 14;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// Bytes of an ELF header, and of a program header, of 64 bits.
const HEAD: usize = 64;
const SEGMENT: usize = 56;

fn run(bytes: &[u8]) {
    let texts = untrusted::dynamic_section(bytes);
    assert!(texts.len() <= TEXTS_MOST, "{} texts are asked for", texts.len());
    for text in texts {
        assert!(text.len() <= TEXT_MOST, "a text of {} bytes", text.len());
        assert!(text.len() < bytes.len(), "a text is longer than its file");
        assert!(!text.contains(&0), "a text goes on behind its end");
    }
}

/// A library that asks for another one and for directories, one that asks for nothing, and a file
/// that is cut off.
fn seeds() -> Vec<Vec<u8>> {
    let asking = library(&[
        (NEEDED, "libc.so.6"),
        (SONAME, "libours.so.2"),
        (RPATH, "/srv/lib"),
        (RUNPATH, "$ORIGIN/../lib"),
    ]);
    let cut_off = asking[..asking.len() / 2].to_vec();
    vec![asking, library(&[]), cut_off]
}

/// A shared object for x86-64 with a header, a segment that is loaded, one of its dynamic section,
/// the texts, and that section.
fn library(entries: &[(u64, &str)]) -> Vec<u8> {
    let texts_at = HEAD + 2 * SEGMENT;
    let mut texts = vec![0];
    let mut table = [STRTAB.to_le_bytes(), texts_at.to_le_bytes()].concat();
    for (tag, text) in entries {
        table.extend(tag.to_le_bytes());
        table.extend(texts.len().to_le_bytes());
        texts.extend(text.bytes());
        texts.push(0);
    }
    table.extend([0; 16]);
    let table_at = texts_at + texts.len();
    let mut bytes = vec![0; HEAD];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // Its type, its machine, its version; where its segments are, how long a header and one of them
    // is, and how many there are.
    (bytes[16], bytes[18], bytes[20]) = (3, 62, 1);
    (bytes[32], bytes[52], bytes[54], bytes[56]) = (64, 64, 56, 2);
    for (kind, at, length) in [(1_u8, 0, table_at + table.len()), (2, table_at, table.len())] {
        bytes.extend([kind, 0, 0, 0, 4, 0, 0, 0]);
        for number in [at, at, at, length, length, 1] {
            bytes.extend(number.to_le_bytes());
        }
    }
    [bytes, texts, table].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_input_asks_for_is_read() {
        let texts = untrusted::dynamic_section(&seeds()[0]);
        let said = ["libc.so.6", "libours.so.2", "/srv/lib", "$ORIGIN/../lib"];
        assert_eq!(texts, said.map(|text| text.as_bytes().to_vec()));
    }
}
