//! Foreign text: what guests, files and tools said, made safe to show anywhere.
//!
//! Control characters could move a terminal's cursor or retitle its window; marks of writing
//! direction could make one stack's name read as another's; what is not seen, or is seen as a space
//! and is none, could hide in it. All become visible escapes, here and nowhere else. Escaping twice
//! changes nothing.

pub(crate) use crate::unseen::acts;

/// Number of lines of a command's last words that are shown.
const LAST_LINES: usize = 20;

/// One line: every control character is shown as an escape, line feeds too.
#[must_use]
pub fn line(text: &str) -> String {
    shown(text, |_| false)
}

/// Several lines, each made safe by [`line()`]; tabs become spaces.
#[must_use]
pub fn lines(text: &str) -> String {
    let safe = |text: &str| line(&text.replace('\t', "    "));
    text.lines().map(safe).collect::<Vec<_>>().join("\n")
}

/// Our own message with foreign words in it: its line feeds and tabs are meant, all else is
/// escaped.
#[must_use]
pub fn message(text: &str) -> String {
    shown(text, |letter| matches!(letter, '\n' | '\t'))
}

/// Our own message of several lines, in a place that has one: `; ` stands between them, unless the
/// punctuation does already. The bar before what is quoted goes.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    let own = |line: &'_ str| {
        let line = line.trim();
        String::from(line.strip_prefix("| ").unwrap_or(line).trim_start())
    };
    text.lines().map(own).filter(|line| !line.is_empty()).fold(String::new(), |all, line| {
        let gap = match all.chars().last() {
            None => "",
            Some(':' | ';' | ',') => " ",
            Some(_) => "; ",
        };
        all + gap + &line
    })
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

/// Adds one letter to a text that is shown: as itself, or as an escape if it acts.
pub fn push(text: &mut String, letter: char) {
    if acts(letter) {
        text.extend(letter.escape_default());
    } else {
        text.push(letter);
    }
}

fn shown(text: &str, is_meant: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_meant(letter) { shown.push(letter) } else { push(&mut shown, letter) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use crate::finding::foreign::*;

    #[test]
    fn a_guest_cannot_move_the_cursor_nor_turn_the_writing_around() {
        assert_eq!(line("a\x1b[2J\rb\u{202e}c"), "a\\u{1b}[2J\\rb\\u{202e}c");
        assert_eq!(line(&line("\x07")), "\\u{7}");
        assert_eq!(line("±3 %, größer, 東京"), "±3 %, größer, 東京");
    }

    #[test]
    fn what_is_not_seen_and_what_only_looks_like_a_space_is_shown() {
        let unseen = [
            '\u{a0}', '\u{ad}', '\u{34f}', '\u{115f}', '\u{1160}', '\u{1680}', '\u{17b4}',
            '\u{180b}', '\u{180e}', '\u{200a}', '\u{200b}', '\u{2029}', '\u{202f}', '\u{205f}',
            '\u{2060}', '\u{2064}', '\u{206f}', '\u{2800}', '\u{3000}', '\u{3164}', '\u{fe00}',
            '\u{fe0f}', '\u{ffa0}', '\u{fff9}', '\u{fffb}', '\u{1343f}', '\u{1bca0}', '\u{1d159}',
            '\u{1d173}', '\u{e0000}', '\u{e0041}', '\u{e007f}', '\u{e0100}', '\u{e01ef}',
            '\u{e0fff}',
        ];
        for letter in unseen {
            let shown = format!("ru{}nc", letter.escape_unicode());
            assert_eq!(line(&format!("ru{letter}nc")), shown);
        }
        let seen = "ru nc ~ ¡ é e\u{301} ߷ 가 ㄱ ⠿ — … ‰ 、。 \u{fffd} 🙂";
        assert_eq!(line(seen), seen);
    }

    #[test]
    fn a_message_keeps_its_lines_and_nothing_else_that_acts() {
        assert_eq!(message("a\x1b[2J\u{9b}31m\r\nb\tc"), "a\\u{1b}[2J\\u{9b}31m\\r\nb\tc");
    }

    #[test]
    fn a_message_of_several_lines_is_one_where_there_is_room_for_one() {
        let said = "the agent is gone\n  | time=5 process:\n  | no memory\n\n  | end";
        assert_eq!(on_one_line(said), "the agent is gone; time=5 process: no memory; end");
        assert_eq!(on_one_line("one"), "one");
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
