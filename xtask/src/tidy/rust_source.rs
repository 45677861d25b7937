//! A Rust file as rules need it: code without comments, string literals apart, tests marked.
//!
//! It knows where comments and literals begin and end, and nothing more of the grammar: enough to
//! tell a use of `Command::new` from a sentence about it.

/// A string literal outside comments.
#[derive(Debug, PartialEq, Eq)]
pub struct Literal {
    /// Byte offset of its first quote in the file.
    pub offset: usize,
    /// Text between the quotes, as written, with line continuations joined.
    pub text: String,
}

/// A Rust file, taken apart.
pub struct RustSource {
    /// The file with comments and the insides of literals blanked out; same length, same lines.
    pub code: String,
    /// String literals of the file, in order.
    pub literals: Vec<Literal>,
    /// The byte ranges of items under `#[cfg(test)]`; the whole file where it is all tests.
    tests: Vec<std::ops::Range<usize>>,
}

impl RustSource {
    /// Takes a file apart. `path` tells files that hold nothing but tests.
    pub fn parse(path: &str, text: &str) -> Self {
        let mut scanner =
            Scanner { bytes: text.as_bytes(), code: Vec::new(), literals: Vec::new() };
        scanner.scan();
        let code = String::from_utf8_lossy(&scanner.code).into_owned();
        assert_eq!(code.len(), text.len(), "blanking must keep every offset of `{path}`");
        let whole = path.ends_with("/tests.rs")
            || path.split('/').any(|part| part == "tests" || part == "benches");
        let tests =
            if whole { std::iter::once(0..code.len()).collect() } else { test_items(&code) };
        Self { code, literals: scanner.literals, tests }
    }

    /// The line, from 1, that a byte offset is on.
    pub fn line_of(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Tells whether a byte offset lies in an item that only tests see.
    pub fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Offsets of a needle in code outside tests. It must not continue a longer word at its left.
    pub fn find<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(needle).map(|(offset, _)| offset).filter(move |offset| {
            let before = self.code[..*offset].chars().next_back();
            !before.is_some_and(|it| it.is_alphanumeric() || it == '_') && !self.is_test(*offset)
        })
    }

    /// Counts the lines that do not belong to tests.
    pub fn line_count_without_tests(&self) -> usize {
        let mut offset = 0;
        let mut count = 0;
        for line in self.code.split_inclusive('\n') {
            count += usize::from(!self.is_test(offset));
            offset += line.len();
        }
        count
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    code: Vec<u8>,
    literals: Vec<Literal>,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'/')) => self.line_comment(),
                (b'/', Some(b'*')) => self.block_comment(),
                (b'"', _) => self.string(),
                (b'r', _) if !self.continues_word() && self.raw_hashes().is_some() => {
                    let hashes = self.raw_hashes().unwrap_or_default();
                    self.copy(1 + hashes);
                    self.raw_string(hashes);
                }
                (b'\'', Some(next)) => self.character(next),
                _ => self.copy(1),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.code.len() + ahead).copied()
    }

    fn copy(&mut self, count: usize) {
        let at = self.code.len();
        self.code.extend_from_slice(&self.bytes[at..(at + count).min(self.bytes.len())]);
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek(0) {
                Some(b'\n') => self.code.push(b'\n'),
                Some(_) => self.code.push(b' '),
                None => return,
            }
        }
    }

    fn continues_word(&self) -> bool {
        // The prefix of a byte or C string is no word of its own.
        let before = match self.code.as_slice() {
            [.., before, b'b' | b'c'] | [.., before] => *before,
            [] => return false,
        };
        before.is_ascii_alphanumeric() || before == b'_'
    }

    /// Counts the `#` that follow the `r` of a raw string that begins here; `None` if none begins.
    fn raw_hashes(&self) -> Option<usize> {
        let rest = &self.bytes[self.code.len() + 1..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        (rest.get(hashes) == Some(&b'"')).then_some(hashes)
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'*')) => depth += 1,
                (b'*', Some(b'/')) => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let offset = self.code.len();
        self.copy(1);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => break,
                b'\\' => self.blank(2),
                _ => self.blank(1),
            }
        }
        self.close_literal(offset, 0);
    }

    fn raw_string(&mut self, hashes: usize) {
        let offset = self.code.len();
        self.copy(1);
        let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
        while self.peek(0).is_some() && !self.bytes[self.code.len()..].starts_with(&end) {
            self.blank(1);
        }
        self.close_literal(offset, hashes);
    }

    fn close_literal(&mut self, offset: usize, hashes: usize) {
        let inside = String::from_utf8_lossy(&self.bytes[offset + 1..self.code.len()]);
        let mut lines = inside.split("\\\n");
        let mut text = lines.next().unwrap_or_default().to_owned();
        lines.for_each(|line| text.push_str(line.trim_start()));
        self.literals.push(Literal { offset, text });
        self.copy(1 + hashes);
    }

    /// A character literal, or the tick of a lifetime.
    fn character(&mut self, next: u8) {
        let rest = &self.bytes[self.code.len() + 1..];
        let width = match next {
            b'\\' => rest.iter().skip(2).position(|byte| *byte == b'\'').map(|at| at + 2),
            _ => rest.iter().take(5).position(|byte| *byte == b'\'').filter(|width| {
                *width > 0 && std::str::from_utf8(&rest[..*width]).is_ok_and(is_one_character)
            }),
        };
        self.copy(1);
        if let Some(width) = width {
            self.blank(width);
            self.copy(1);
        }
    }
}

fn is_one_character(text: &str) -> bool {
    text.chars().count() == 1
}

/// Each item under a `cfg` that mentions `test`, from its attribute to its last brace.
fn test_items(code: &str) -> Vec<std::ops::Range<usize>> {
    let attributes = ["#[cfg(test)]", "#[cfg(all(test"];
    let starts = attributes.iter().flat_map(|it| code.match_indices(it)).map(|(at, _)| at);
    starts.map(|start| start..end_of_item(code, start)).collect()
}

fn end_of_item(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "let a = \"x // y\"; // Command::new\n/* a /* b */ c */ let r = r#\"q\"z\"#;\n";
        let source = RustSource::parse("src/a.rs", text);
        let blanked = source.code.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(blanked, "let a = \" \"; let r = r#\" \"#;");
        let literals: Vec<&str> = source.literals.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(literals, ["x // y", "q\"z"]);
        assert_eq!(source.code.len(), text.len());
    }

    #[test]
    fn a_lifetime_is_no_character_and_a_quote_character_no_string() {
        let source =
            RustSource::parse("src/a.rs", "fn f<'a>(x: &'a u8) { '\"'; 'µ'; '\\''; b'\"' }");
        assert!(source.literals.is_empty(), "{:?}", source.literals);
        assert!(source.code.contains("fn f<'a>(x: &'a u8)"));
    }

    #[test]
    fn a_continued_literal_reads_as_one_line() {
        let source = RustSource::parse("src/a.rs", "f(\"one \\\n     two\")");
        assert_eq!(source.literals[0].text, "one two");
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { {} }\n}\nfn c() {}\n";
        let source = RustSource::parse("src/a.rs", text);
        assert_eq!(source.line_count_without_tests(), 2);
        assert_eq!(source.find("fn ").count(), 2);
        assert_eq!(RustSource::parse("src/a/tests.rs", text).line_count_without_tests(), 0);
    }

    #[test]
    fn a_needle_is_a_whole_word_at_its_left() {
        let source = RustSource::parse("src/a.rs", "MyCommand::new(); Command::new()");
        assert_eq!(source.find("Command::new").collect::<Vec<_>>(), [18]);
    }
}
