//! Last output of a console, or of a tool's standard error.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Number of bytes kept.
const KEEP: usize = 64 << 10;

/// Largest number of lines that an error quotes.
const QUOTE: usize = 20;

/// Largest number of characters of a line that an error quotes.
const QUOTE_WIDTH: usize = 200;

/// Beginning of the line in which Linux says why it died.
const PANIC: &str = "Kernel panic - ";

/// The last 64 KiB of what a console, or a tool's standard error, said.
///
/// A guest may print without end; a thread drains it, and only its end is kept.
#[derive(Clone, Debug, Default)]
pub struct ConsoleTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Number of sources that have not come to their end, and the condition that wakes who waits
    /// for that.
    open: Arc<(Mutex<usize>, Condvar)>,
}

impl ConsoleTail {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads from `source` until its end, in a thread of its own.
    pub fn drain(&self, source: OwnedFd) {
        let tail = self.clone();
        *tail.open.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        std::thread::spawn(move || {
            let mut source = File::from(source);
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                tail.keep(&buffer[..count]);
            }
            *tail.open.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            tail.open.1.notify_all();
        });
    }

    /// Waits until every source has come to its end, at most so long: for the last words of
    /// somebody who is gone.
    pub fn settle(&self, deadline: Duration) {
        let (count, changed) = &*self.open;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        // Past the deadline the words that are there must do.
        drop(changed.wait_timeout_while(count, deadline, |count| *count > 0));
    }

    /// Adds to the end.
    pub fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(KEEP);
        kept.drain(..excess);
    }

    /// Returns what is kept, as text with every control character but the line feed replaced.
    #[must_use]
    pub fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).into_owned();
        text.chars()
            .filter(|c| *c != '\r')
            .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
            .collect()
    }

    /// The last lines for the end of an error message, and before them the one in which a kernel
    /// said why it died, whose registers and call trace come after it; empty when nothing was said.
    #[must_use]
    pub fn quote(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let first = lines.len().saturating_sub(QUOTE);
        let quoted = |line: &&str| format!("\n  | {}", shortened(line));
        let reason = lines[..first].iter().rfind(|line| line.contains(PANIC));
        let reason = reason.map_or_else(String::new, |line| quoted(line) + "\n  | …");
        reason + &lines[first..].iter().map(quoted).collect::<String>()
    }
}

/// The line, of which the middle is left out where it is too long: its beginning says who speaks,
/// and its end, where one cause hangs on another, what the matter was.
fn shortened(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    if letters.len() <= QUOTE_WIDTH {
        return line.to_owned();
    }
    let first = QUOTE_WIDTH / 3;
    let last = letters.len() - (QUOTE_WIDTH - first - 1);
    letters[..first].iter().chain(&['…']).chain(&letters[last..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_that_floods_is_kept_at_its_end_only() {
        let console = ConsoleTail::new();
        for number in 0..100_000 {
            console.keep(format!("line {number}\n").as_bytes());
        }
        assert!(console.text().len() <= KEEP);
        assert!(console.quote().ends_with("line 99999"));
        assert_eq!(console.quote().lines().count(), QUOTE + 1);
    }

    #[test]
    fn a_kernel_that_died_is_quoted_with_its_reason_and_no_line_is_endless() {
        let console = ConsoleTail::new();
        console.keep(b"Kernel panic - not syncing: no init\n");
        (0..50).for_each(|number| console.keep(format!("RAX: {number}\n").as_bytes()));
        console.keep(&[b'x'; 1000]);
        let quote = console.quote();
        assert!(quote.starts_with("\n  | Kernel panic - not syncing: no init\n  | …\n"), "{quote}");
        assert!(quote.lines().all(|line| line.chars().count() <= QUOTE_WIDTH + 4), "{quote}");
    }

    #[test]
    fn a_long_line_is_quoted_with_its_beginning_and_with_the_reason_at_its_end() {
        let console = ConsoleTail::new();
        let line = format!("runc run failed: {}: OOM-killed (limit too low?)", "x".repeat(400));
        console.keep(line.as_bytes());
        let quote = console.quote();
        assert!(quote.starts_with("\n  | runc run failed: xx"), "{quote}");
        assert!(quote.ends_with("xx: OOM-killed (limit too low?)"), "{quote}");
        assert_eq!(quote.matches('…').count(), 1, "{quote}");
        assert_eq!(quote.trim_start().chars().count(), QUOTE_WIDTH + 2);
    }

    #[test]
    fn the_last_words_of_one_who_is_gone_are_waited_for() {
        let console = ConsoleTail::new();
        let (reader, mut writer) = std::io::pipe().unwrap();
        console.drain(reader.into());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            std::io::Write::write_all(&mut writer, b"farewell").unwrap();
        });
        console.settle(Duration::from_secs(20));
        assert_eq!(console.text(), "farewell");

        let (reader, _writer) = std::io::pipe().unwrap();
        console.drain(reader.into());
        console.settle(Duration::from_millis(10));
    }

    #[test]
    fn escape_codes_of_a_guest_do_not_reach_our_terminal() {
        let console = ConsoleTail::new();
        console.keep(b"\x1b[2Jgone\r\n");
        assert_eq!(console.text(), "\u{fffd}[2Jgone\n");
    }
}
