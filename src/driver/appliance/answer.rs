//! An answer that comes line by line, until one says that it has ended.

use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Output;
use xxhash_rust::xxh3::Xxh3Default;

/// The longest line that is waited for, in bytes; a longer one is no end of an answer.
const LINE_LIMIT: usize = 64 << 10;

/// Part of an answer that came so far.
pub(super) struct Answer {
    ended: Option<String>,
    line: Vec<u8>,
    hash: Xxh3Default,
    length: u64,
    tail: Vec<u8>,
    keep: usize,
}

impl Answer {
    /// One that ends with a line that begins so; without that, with the machine. Of its text the
    /// last `keep` bytes are kept, and all is hashed.
    pub(super) fn new(ended: Option<&str>, keep: usize) -> Self {
        let ended = ended.map(String::from);
        Self {
            ended,
            line: Vec::new(),
            hash: Xxh3Default::new(),
            length: 0,
            tail: Vec::new(),
            keep,
        }
    }

    /// Takes what came; the status, if the answer has ended with it. Carriage returns are a
    /// console's business and left out.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<i32> {
        for &byte in bytes.iter().filter(|byte| **byte != b'\r') {
            self.line.push(byte);
            if byte == b'\n' {
                if let Some(status) = self.status() {
                    return Some(status);
                }
                self.flush();
            } else if self.line.len() >= LINE_LIMIT {
                self.flush();
            }
        }
        None
    }

    /// All that came, as a command's standard output.
    pub(super) fn output(mut self) -> Output {
        self.flush();
        Output { hash: self.hash.digest128(), length: Bytes(self.length), tail: self.tail }
    }

    /// The status in a last line, its first word; another word than a number is a failure.
    fn status(&mut self) -> Option<i32> {
        let line = String::from_utf8_lossy(&self.line);
        let rest = line.strip_prefix(self.ended.as_deref()?)?;
        let status = match rest.split_ascii_whitespace().next() {
            None => 0,
            Some(word) => word.parse().unwrap_or(255),
        };
        self.line.clear();
        Some(status)
    }

    fn flush(&mut self) {
        self.hash.update(&self.line);
        self.length += self.line.len() as u64;
        self.tail.append(&mut self.line);
        let excess = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn an_answer_ends_with_its_last_line_in_however_many_pieces() {
        let mut answer = Answer::new(Some("end "), 100);
        assert_eq!(answer.feed(b"one\r\ntw"), None);
        assert_eq!(answer.feed(b"o\nen"), None);
        assert_eq!(answer.feed(b"d 7\nand more"), Some(7));
        let output = answer.output();
        assert_eq!(output.tail, b"one\ntwo\n");
        assert_eq!(output.hash, xxh3_128(b"one\ntwo\n"));
        assert_eq!(output.length, Bytes(8));
    }

    #[test]
    fn a_last_line_without_a_number_is_a_failure_and_one_without_anything_a_success() {
        for (line, status) in [
            ("end 0\n", 0),
            ("end\n", 0),
            ("end 3 ===\n", 3),
            ("end badly\n", 255),
            ("end -1\n", -1),
        ] {
            assert_eq!(Answer::new(Some("end"), 0).feed(line.as_bytes()), Some(status), "{line}");
        }
        assert_eq!(Answer::new(Some("end"), 0).feed(b"the end 0\n"), None);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory_without_an_end() {
        let mut answer = Answer::new(None, 10);
        for _ in 0..100 {
            assert_eq!(answer.feed(&[b'x'; 4096]), None);
            assert!(answer.line.len() <= LINE_LIMIT);
        }
        let output = answer.output();
        assert_eq!((output.length, output.tail.len()), (Bytes(409_600), 10));
    }
}
