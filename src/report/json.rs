//! JSON in which nothing acts on a terminal: what JSON lets stand, and a terminal obeys, is written
//! as an escape.
//!
//! JSON has escapes for the characters below a space, and lets those of C1, marks of writing
//! direction and invisible joiners stand. A reader of JSON gets the same text either way.

use crate::finding::foreign;
use serde::Serialize;
use std::fmt::Write as _;

/// A value as indented JSON, ended by a line feed.
///
/// # Errors
/// What cannot be JSON: a map whose keys are no text.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    let mut seen = String::with_capacity(json.len() + 1);
    for letter in json.chars() {
        // Outside of a text nothing acts but line feeds, and none of them stands in a text.
        if letter == '\n' || !foreign::acts(letter) {
            seen.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(seen, "\\u{unit:04x}");
        }
    }
    Ok(seen + "\n")
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
