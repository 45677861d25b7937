//! Writes a command so that a shell reads the same words again.

/// The words with quotes where a POSIX shell needs them.
///
/// ```
/// use surtax::plan::shell_line;
/// assert_eq!(shell_line(["sh", "-c", "echo 'a b'"]), r"sh -c 'echo '\''a b'\'''");
/// ```
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%^".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(line(["make", "-j4", "CC=gcc"]), "make -j4 CC=gcc");
        assert_eq!(line(["echo", "", "$HOME", "a;b", "ä"]), "echo '' '$HOME' 'a;b' 'ä'");
    }
}
