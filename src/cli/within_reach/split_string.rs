//! Words of `env -S`: splits a text as `env` does, for which quotes, escapes and `${NAME}` stand
//! for something else.
//!
//! A comment is split like the rest, and so is a text that `env` would refuse: a word too many
//! refuses a directory too many at most.
//!
//! Source: `env(1)`, `-S`; GNU coreutils 9.1, `src/env.c` (`build_argv`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Splits a text; `value` is that of an environment variable, of which one that is not set stands
/// for nothing.
pub(super) fn words(text: &[u8], value: impl Fn(&OsStr) -> Option<OsString>) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut quote = None;
    let mut rest = text;
    while let Some((part, after)) = part(rest, quote) {
        rest = after;
        match part {
            Part::Quote(mark) => quote = if quote.is_none() { Some(mark) } else { None },
            Part::Space => words.push(Vec::new()),
            Part::Byte(byte) => words.last_mut().into_iter().for_each(|word| word.push(byte)),
            Part::Variable(name) => {
                let value = value(OsStr::from_bytes(name)).unwrap_or_default();
                words.last_mut().into_iter().for_each(|word| word.extend(value.as_bytes()));
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Beginning of a text.
enum Part<'t> {
    /// One that opens or closes a quotation.
    Quote(u8),
    /// One that ends a word.
    Space,
    Byte(u8),
    Variable(&'t [u8]),
}

/// The first part of a text in a quotation by this mark, and what is behind it.
fn part(text: &[u8], quote: Option<u8>) -> Option<(Part<'_>, &[u8])> {
    let is_single = quote == Some(b'\'');
    Some(match text {
        [] => return None,
        [b'\\', escaped @ (b'\\' | b'\''), after @ ..] => (Part::Byte(*escaped), after),
        [b'\\', escaped, after @ ..] if !is_single => (escape(*escaped, quote), after),
        [b'$', b'{', after @ ..] if !is_single && after.contains(&b'}') => {
            let mut halves = after.splitn(2, |byte| *byte == b'}');
            let name = halves.next().unwrap_or_default();
            (Part::Variable(name), halves.next().unwrap_or_default())
        }
        [mark @ (b'"' | b'\''), after @ ..] if quote.is_none_or(|open| open == *mark) => {
            (Part::Quote(*mark), after)
        }
        [b' ' | b'\t'..=b'\r', after @ ..] if quote.is_none() => (Part::Space, after),
        [byte, after @ ..] => (Part::Byte(*byte), after),
    })
}

/// The part that a backslash and another byte are. `\c` ends a text, and here a word.
fn escape(byte: u8, quote: Option<u8>) -> Part<'static> {
    match byte {
        b'c' => Part::Space,
        b'_' if quote.is_none() => Part::Space,
        b'_' => Part::Byte(b' '),
        b'f' => Part::Byte(b'\x0c'),
        b'n' => Part::Byte(b'\n'),
        b'r' => Part::Byte(b'\r'),
        b't' => Part::Byte(b'\t'),
        b'v' => Part::Byte(b'\x0b'),
        byte => Part::Byte(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_as_env_splits_it() {
        let value = |name: &OsStr| (name == "HOME").then(|| OsString::from("/a b"));
        for (text, told) in [
            (r"/srv/python -u", &["/srv/python", "-u"][..]),
            ("\t/x\x0b \r/y\n", &["/x", "/y"]),
            (r#""/my dir/x"'/y z'/a"#, &["/my dir/x/y z/a"]),
            (r#""it's" 'a "b"'"#, &["it's", "a \"b\""]),
            (r"/x\_/y", &["/x", "/y"]),
            (r#""/x\_/y""#, &["/x /y"]),
            (r"'/x\_/y'", &[r"/x\_/y"]),
            (r"\#\$\\\'", &[r"#$\'"]),
            (r#"\""#, &["\""]),
            (r"'\\\'\t'", &[r"\'\t"]),
            (r"\f\n\r\t\v", &["\x0c\n\r\t\x0b"]),
            (r"/x\c/y", &["/x", "/y"]),
            ("# /x", &["#", "/x"]),
            ("${HOME}/v", &["/a b/v"]),
            (r#"V="${HOME}" ${NONE}/v"#, &["V=/a b", "/v"]),
            (r"'${HOME}' \${HOME} $HOME ${HOME", &["${HOME}", "${HOME}", "$HOME", "${HOME"]),
            (r#""/open /x"#, &["/open /x"]),
            (r"/x\", &[r"/x\"]),
            (r"\/\x", &["/x"]),
            ("", &[]),
            ("\"\" ''", &[]),
        ] {
            let told: Vec<Vec<u8>> = told.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(words(text.as_bytes(), value), told, "{text:?}");
        }
    }
}
