//! JSON in which nothing acts on a terminal: what JSON lets stand, and a terminal obeys, is written
//! as an escape.
//!
//! JSON has escapes for the characters below a space, and lets those of C1, marks of writing
//! direction and invisible joiners stand. A reader of JSON gets the same text either way.

use crate::finding::foreign;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{self, Write};

/// A value as indented JSON, ended by a line feed.
///
/// # Errors
/// What cannot be JSON: a map whose keys are no text.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let form = Seen { pretty: PrettyFormatter::new() };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, form))?;
    bytes.push(b'\n');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Indented, with every acting character as an escape.
struct Seen {
    pretty: PrettyFormatter<'static>,
}

impl Formatter for Seen {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        for letter in text.chars() {
            let mut units = [0; 2];
            if !foreign::acts(letter) {
                out.write_all(letter.encode_utf8(&mut [0; 4]).as_bytes())?;
                continue;
            }
            for unit in letter.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_an_escape_and_reads_back_as_it_was() {
        let text = "a\u{1b}[2J\u{9b}31m\u{202e}\u{feff}\u{e0041}\n\u{7f}ß 東京 \"\\";
        let value = serde_json::json!({ text: [text, 1.5, null], "empty": {} });
        let json = pretty(&value).unwrap();
        assert!(!json.chars().any(|it| it != '\n' && foreign::acts(it)), "{json:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
        assert!(json.contains("ß 東京") && json.contains("\\u202e"), "{json}");
        assert_eq!(
            json.lines().count(),
            serde_json::to_string_pretty(&value).unwrap().lines().count()
        );
    }
}
