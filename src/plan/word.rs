//! A word of a command: bytes, as the kernel takes them, and text wherever it can be.
//!
//! Linux asks of an argument only that no byte of it is zero, so `printf '%s' $'\xff'` is a
//! command. A word that is UTF-8 is written down as the string that it is; any other as
//! `{ escaped = 'caf\xe9' }` in a plan file, and as an object with that key in JSON. No byte is
//! lost, and no raw one reaches a document.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The one key of a word that is no text.
pub const ESCAPED: &str = "escaped";

/// Bytes that a command gets as one argument, or as the value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Vec<u8>);

impl Word {
    /// The bytes themselves.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The word as text, if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text that the word is, or else [`Self::escaped`]: for people, who cannot be asked to
    /// tell them apart.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        self.text().map_or_else(|| self.escaped().into(), Cow::from)
    }

    /// The word with a text before it.
    #[must_use]
    pub fn after(&self, text: &str) -> Self {
        Self([text.as_bytes(), &self.0].concat())
    }

    /// The word with `\xNN` for each byte that is no printable text, and `\\` for a backslash.
    #[must_use]
    pub fn escaped(&self) -> String {
        let mut said = String::new();
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\\' => said.push_str("\\\\"),
                    _ if letter.is_control() => letter
                        .encode_utf8(&mut [0; 4])
                        .bytes()
                        .for_each(|byte| push_escaped(&mut said, byte)),
                    _ => said.push(letter),
                }
            }
            chunk.invalid().iter().for_each(|byte| push_escaped(&mut said, *byte));
        }
        said
    }

    /// Reads what [`Self::escaped`] writes; `None` where a backslash begins anything else.
    #[must_use]
    pub fn unescaped(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\\') {
            bytes.extend_from_slice(before.as_bytes());
            rest = match after.strip_prefix('\\') {
                Some(after) => {
                    bytes.push(b'\\');
                    after
                }
                None => {
                    let digits = after.strip_prefix('x')?.get(..2)?;
                    let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                    bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| are_digits)?);
                    after.get(3..)?
                }
            };
        }
        bytes.extend_from_slice(rest.as_bytes());
        Some(Self(bytes))
    }
}

fn push_escaped(said: &mut String, byte: u8) {
    // Writing into a string cannot fail.
    let _ = write!(said, "\\x{byte:02x}");
}

impl<T: Into<OsString>> From<T> for Word {
    fn from(text: T) -> Self {
        Self(text.into().into_vec())
    }
}

impl From<Word> for PathBuf {
    fn from(word: Word) -> Self {
        OsString::from_vec(word.0).into()
    }
}

impl AsRef<[u8]> for Word {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<Path> for Word {
    fn as_ref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

/// Written form of a word that is no text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object<T> {
    escaped: T,
}

/// Written form of a word.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a string, or an object with the one key `escaped`")]
enum Written {
    Text(String),
    Escaped(Object<String>),
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text() {
            Some(text) => serializer.serialize_str(text),
            None => Object { escaped: self.escaped() }.serialize(serializer),
        }
    }
}

impl schemars::JsonSchema for Word {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Word".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A word; one that is no UTF-8 is an object, in which `\\xNN` is a byte.",
            "oneOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "escaped": { "type": "string" } },
                    "required": ["escaped"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self::from(text)),
            Written::Escaped(Object { escaped }) => Self::unescaped(&escaped).ok_or_else(|| {
                serde::de::Error::custom(format!(
                    "`{}` holds a backslash that begins neither `\\\\` nor `\\xNN`",
                    escaped.escape_debug()
                ))
            }),
        }
    }
}

/// A path that is written down as a [`Word`] is: for `#[serde(with = …)]`.
pub(super) mod path {
    use super::Word;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::path::{Path, PathBuf};

    pub(in crate::plan) fn serialize<S: Serializer>(
        path: &Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Word::from(path).serialize(serializer)
    }

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(Word::deserialize(deserializer)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8]) -> Word {
        OsString::from_vec(bytes.to_vec()).into()
    }

    #[test]
    fn text_is_written_down_as_it_is_and_other_bytes_escaped() {
        let json = |bytes| serde_json::to_string(&word(bytes)).unwrap();
        assert_eq!(json("a\\x ä\n".as_bytes()), r#""a\\x ä\n""#);
        assert_eq!(json(b"caf\xe9"), r#"{"escaped":"caf\\xe9"}"#);
        assert_eq!(json(b"\\\x1b\xff\xc3\xa4"), r#"{"escaped":"\\\\\\x1b\\xffä"}"#);
    }

    #[test]
    fn every_byte_beside_every_other_is_read_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                let word = word(&[b'x', first, second, b'0']);
                assert_eq!(Word::unescaped(&word.escaped()), Some(word.clone()));
                let json = serde_json::to_string(&word).unwrap();
                assert!(!word.escaped().contains(char::is_control));
                assert_eq!(serde_json::from_str::<Word>(&json).unwrap(), word);
            }
        }
    }

    #[test]
    fn an_escape_that_is_none_is_refused() {
        for text in ["\\", "\\x", "\\xf", "\\xg0", "\\x+f", "\\n", "a\\", "\\xä", "\\x1ä"] {
            assert_eq!(Word::unescaped(text), None, "{text}");
            let json = serde_json::json!({ ESCAPED: text });
            assert!(serde_json::from_value::<Word>(json).is_err());
        }
        for json in ["7", "[]", r#"{"escaped":"a","b":1}"#, r#"{"text":"a"}"#] {
            assert!(serde_json::from_str::<Word>(json).is_err(), "{json}");
        }
    }
}
