//! Writes a command so that a shell reads the same words again.

use crate::unseen::acts;
use std::path::Path;

/// The words with quotes where a shell needs them: those of POSIX, and `$'…'` for what is not seen
/// and what is no text.
///
/// ```
/// use surtax::plan::shell_line;
/// assert_eq!(shell_line(["sh", "-c", "echo 'a b'"]), r"sh -c 'echo '\''a b'\'''");
/// assert_eq!(shell_line([b"caf\xe9"]), r"$'caf\351'");
/// ```
pub fn line<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> String {
    let words = words.into_iter().map(|word| match std::str::from_utf8(word.as_ref()) {
        Ok(text) => quoted(text),
        Err(_) => quoted_bytes(word.as_ref()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A path as one such word; what of it is no text is shown as it is to people.
#[must_use]
pub fn path(path: &Path) -> String {
    line([path.to_string_lossy().as_bytes()])
}

/// A word with bytes in it that are no text.
fn quoted_bytes(word: &[u8]) -> String {
    let mut said = String::from("$'");
    for chunk in word.utf8_chunks() {
        said.extend(chunk.valid().chars().map(in_dollar_quotes));
        said.extend(octal(chunk.invalid()));
    }
    said + "'"
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%^".contains(&byte);
    if word.chars().any(acts) {
        return format!("$'{}'", word.chars().map(in_dollar_quotes).collect::<String>());
    }
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The letter as bash, ksh and zsh read it between `$'` and `'`.
fn in_dollar_quotes(letter: char) -> String {
    match letter {
        '\n' => String::from("\\n"),
        '\t' => String::from("\\t"),
        '\\' | '\'' => format!("\\{letter}"),
        _ if !acts(letter) => String::from(letter),
        _ => octal(letter.encode_utf8(&mut [0; 4]).as_bytes()).collect(),
    }
}

/// Bytes as every such shell reads them, whatever its locale and whatever follows: ksh reads on in
/// hexadecimal digits, and bash does not know a letter by its number where the locale has none.
fn octal(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.iter().map(|byte| format!("\\{byte:03o}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(line(["make", "-j4", "CC=gcc"]), "make -j4 CC=gcc");
        assert_eq!(line(["echo", "", "$HOME", "a;b", "ä"]), "echo '' '$HOME' 'a;b' 'ä'");
    }

    #[test]
    fn a_letter_that_shows_nothing_is_written_as_bytes_and_one_that_is_seen_as_itself() {
        assert_eq!(line(["ru\u{3164}nc"]), r"$'ru\343\205\244nc'");
        assert_eq!(line([b"\xff\xe2\xa0\x80"]), r"$'\377\342\240\200'");
        assert_eq!(line(["e\u{301}", "⠿"]), "'e\u{301}' '⠿'");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a real shell reads the line")]
    fn what_is_not_seen_is_written_so_that_bash_reads_it_back() {
        let texts = ["a\nb", "\x1b'\\", "x\u{202e}y1", "ß"].map(str::as_bytes);
        let others: [&[u8]; 3] = [b"\xff", b"caf\xe9ab'\\", b"\xc3\xc3\xa4\n\xf0\x9f\x98"];
        let words = [texts.as_slice(), &others].concat();
        let line = line(&words);
        assert_eq!(
            line,
            r"$'a\nb' $'\033\'\\' $'x\342\200\256y1' 'ß' $'\377' $'caf\351ab\'\\' $'\303ä\n\360\237\230'"
        );
        let script = format!("printf '%s\\0' {line}");
        for locale in ["C.UTF-8", "C"] {
            let output = std::process::Command::new("bash")
                .env("LC_ALL", locale)
                .args(["-c", &script])
                .output();
            let Ok(output) = output else { continue };
            let wanted: Vec<u8> =
                words.iter().flat_map(|word| [word, b"\0".as_slice()]).flatten().copied().collect();
            assert_eq!(output.stdout, wanted, "{locale}");
        }
    }
}
