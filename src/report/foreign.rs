//! Foreign text: what guests, files and tools said, made safe to show anywhere.
//!
//! Control characters could move a terminal's cursor or retitle its window; marks of writing
//! direction could make one stack's name read as another's. Both become visible escapes. Escaping
//! twice changes nothing.

/// So many lines of a command's last words are shown.
const LAST_LINES: usize = 20;

/// One line: every control character is shown as an escape, line feeds too.
#[must_use]
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmful(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Several lines, each made safe by [`line`]; tabs become spaces.
#[must_use]
pub fn lines(text: &str) -> String {
    let safe = |text: &str| line(&text.replace('\t', "    "));
    text.lines().map(safe).collect::<Vec<_>>().join("\n")
}

/// The last lines of an output; what is not UTF-8 is shown as `�`.
#[must_use]
pub fn last_words(tail: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(tail);
    let all: Vec<&str> = text.lines().collect();
    let last = all.get(all.len().saturating_sub(LAST_LINES)..)?;
    let words = lines(&last.join("\n"));
    (!words.trim().is_empty()).then_some(words)
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_move_the_cursor_nor_turn_the_writing_around() {
        assert_eq!(line("a\x1b[2J\rb\u{202e}c"), "a\\u{1b}[2J\\rb\\u{202e}c");
        assert_eq!(line(&line("\x07")), "\\u{7}");
        assert_eq!(line("±3 %, größer, 東京"), "±3 %, größer, 東京");
    }

    #[test]
    fn last_words_are_the_last_lines_and_nothing_when_nothing_was_said() {
        let flood = "x\n".repeat(1000) + "out of memory\x1b[0m\n";
        let words = last_words(flood.as_bytes()).unwrap();
        assert_eq!(words.lines().count(), LAST_LINES);
        assert!(words.ends_with("out of memory\\u{1b}[0m"), "{words}");
        assert_eq!(last_words(b" \n"), None);
    }
}
