//! Files for tests that ask a loader for what a test says.

use object::elf::{DT_STRTAB, DynamicTag};

/// Bytes of an ELF header, and of a program header, of 64 bits.
const HEAD: usize = 64;
const SEGMENT: usize = 56;

/// A file that asks for things, and has no code.
pub(super) struct Planted {
    interpreter: Option<String>,
    entries: Vec<(DynamicTag, String)>,
}

impl Planted {
    pub(super) fn new() -> Self {
        Self { interpreter: None, entries: Vec::new() }
    }

    /// Names the loader.
    pub(super) fn started_by(mut self, interpreter: &str) -> Self {
        self.interpreter = Some(interpreter.to_owned());
        self
    }

    /// Adds an entry whose value is a text.
    pub(super) fn with(mut self, tag: DynamicTag, text: &str) -> Self {
        self.entries.push((tag, text.to_owned()));
        self
    }

    /// The file. Its texts come before its table, so that it is whole or has no table.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let segment_count = 2 + usize::from(self.interpreter.is_some());
        let texts_at = HEAD + segment_count * SEGMENT;
        let mut texts: Vec<u8> = vec![0];
        let mut add = |text: &str| {
            let at = texts.len();
            texts.extend(text.as_bytes());
            texts.push(0);
            at
        };
        let interpreter = self.interpreter.as_ref().map(|text| (add(text), text.len() + 1));
        let mut table: Vec<u8> = [DT_STRTAB.0.to_le_bytes(), wide(texts_at)].concat();
        for (tag, text) in &self.entries {
            table.extend(tag.0.to_le_bytes());
            table.extend(wide(add(text)));
        }
        table.extend([0; 16]);
        let table_at = texts_at + texts.len();
        let length = table_at + table.len();
        // Types of segments: 1 is what is loaded, 2 the table, 3 the loader's name.
        let mut segments = vec![(1_u8, 0, length), (2, table_at, table.len())];
        segments.extend(interpreter.map(|(at, length)| (3, texts_at + at, length)));
        let mut bytes: Vec<u8> = vec![0; HEAD];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        // A shared object, for x86-64, whose segments come next.
        (bytes[16], bytes[18], bytes[20]) = (3, 62, 1);
        bytes[32..40].copy_from_slice(&wide(HEAD));
        (bytes[52], bytes[54]) = (u8::try_from(HEAD).unwrap(), u8::try_from(SEGMENT).unwrap());
        bytes[56] = u8::try_from(segment_count).unwrap();
        for (kind, at, length) in segments {
            bytes.extend([kind, 0, 0, 0, 4, 0, 0, 0]);
            for number in [at, at, at, length, length, 1] {
                bytes.extend(wide(number));
            }
        }
        [bytes, texts, table].concat()
    }
}

fn wide(number: usize) -> [u8; 8] {
    u64::try_from(number).unwrap().to_le_bytes()
}
