//! Text that reaches people: what must never be in it, whoever wrote the input.

/// Panics where a text would act on the terminal, or on whoever reads it, instead of being seen.
/// Line feeds are meant.
///
/// # Panics
/// On the first such letter, with its place.
pub fn assert_inert(what: &str, text: &str) {
    if let Some((at, letter)) = text.char_indices().find(|(_, letter)| acts(*letter)) {
        let before: String = text[..at].chars().rev().take(40).collect();
        let before: String = before.chars().rev().collect();
        panic!("{what} holds {letter:?} at byte {at}, behind {before:?}");
    }
}

/// Control characters, and marks that turn the direction of writing around.
fn acts(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_and_an_escape_does_not() {
        assert_inert("a text", "one\ntwo ± größer");
        for letter in ["\x1b[2J", "a\r", "\u{9b}31m", "a\u{202e}b"] {
            assert!(std::panic::catch_unwind(|| assert_inert("a text", letter)).is_err());
        }
    }
}
