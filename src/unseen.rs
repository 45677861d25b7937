//! Letters that act on whoever reads a text, or that nobody sees: one table for all who write text
//! for people.

/// Tells whether a letter does something instead of being seen, is not seen, or looks like a space
/// and is another.
#[must_use]
pub(crate) fn acts(letter: char) -> bool {
    let is_unseen = || UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&letter));
    letter.is_control() || (!letter.is_ascii() && is_unseen())
}

/// Letters that are not seen, from the first to the last of each stretch: those that may be ignored
/// when text is shown (variation selectors, fillers, tags), those of format, and all separators but
/// the space. U+2800, U+1D159 and U+16FE4 are no such letters, and yet show nothing.
///
/// Source: Unicode 16.0, `DerivedCoreProperties.txt`, `Default_Ignorable_Code_Point`, and
/// `DerivedGeneralCategory.txt`, `Cf`, `Zs`, `Zl`, `Zp`.
const UNSEEN: [(char, char); 31] = [
    ('\u{a0}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_seen_do_not_act_and_all_others_do() {
        for letter in ['\0', '\t', '\n', '\x1b', '\x7f', '\u{9b}', '\u{202e}', '\u{3164}'] {
            assert!(acts(letter), "{letter:?}");
        }
        for letter in [' ', '~', '\\', '\'', '"', 'ß', '\u{301}', '東', '🙂'] {
            assert!(!acts(letter), "{letter:?}");
        }
    }

    #[test]
    fn the_stretches_stand_in_order() {
        assert!(UNSEEN.iter().all(|(first, last)| first <= last), "{UNSEEN:?}");
        assert!(UNSEEN.is_sorted_by(|one, next| one.1 < next.0), "{UNSEEN:?}");
    }
}
