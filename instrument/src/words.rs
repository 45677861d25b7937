//! Words of an enum: what each of its variants is called where it is written down.

/// Gives an enum without fields its words: `ALL`, `word()` and `of_word()`. A word is what a file
/// or an answer has, so it is spelled out, and stays when a variant gets another name.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Side {
///     Left,
///     Right,
/// }
///
/// surtax_instrument::words!(Side { Left: "left", Right: "right" });
///
/// assert_eq!(Side::ALL.map(Side::word), ["left", "right"]);
/// assert_eq!(Side::of_word("right"), Some(Side::Right));
/// assert_eq!(Side::of_word("Right"), None);
/// ```
#[macro_export]
macro_rules! words {
    ($name:ident { $($variant:ident: $word:literal),+ $(,)? }) => {
        impl $name {
            /// All of them, in the order in which their words are listed.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            /// Returns what a word means; `None` where it means nothing.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.word() == word)
            }
        }
    };
}
