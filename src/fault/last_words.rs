//! Last words: what a foreign tool said before it failed, read once, where it is heard.
//!
//! Tools have no numbers for what goes wrong, only words, which must not be translated where
//! somebody decides by them.

use super::Fault;
use surtax_instrument::wire::Cause;

/// Largest number of its last lines that are quoted.
const QUOTE: usize = 20;

/// Words, in lower case, that tell a cause, and whose they are.
const SIGNS: [(&str, Cause); 8] = [
    // The C library, and so nearly all.
    ("no space left on device", Cause::NoSpace),
    ("address already in use", Cause::PortTaken),
    ("address in use", Cause::PortTaken),
    ("eaddrinuse", Cause::PortTaken),
    // The loader of shared libraries.
    ("cannot open shared object file", Cause::NoSuchLibrary),
    // libvirt's `virsh`.
    ("failed to get domain", Cause::Absent),
    ("failed to connect to the hypervisor", Cause::Absent),
    // `apt-cache`.
    ("no packages found", Cause::Absent),
];

/// Words, in lower case, of runc, which sets a limit when its own first process has more already,
/// or whose process is killed; of crun, Docker and the C library.
const TOO_LITTLE_MEMORY: [&str; 5] = [
    "unable to set memory limit", "oom-killed", "memory limit too low",
    "minimum memory limit allowed", "cannot allocate memory",
];

/// Reads the cause, if it is one that somebody decides by.
#[must_use]
pub fn cause_of(words: &str) -> Option<Cause> {
    let words = words.to_lowercase();
    SIGNS.iter().find(|(sign, _)| words.contains(sign)).map(|(_, cause)| *cause)
}

/// Reads whether there was too little memory, and nothing else: by this one nobody decides but who
/// asks why a stack did not start.
pub(super) fn lack_of_memory(words: &str) -> Option<Cause> {
    let words = words.to_lowercase();
    TOO_LITTLE_MEMORY.iter().any(|sign| words.contains(sign)).then_some(Cause::NoMemory)
}

/// Says that a tool failed, with its last lines, each on a line of its own.
#[must_use]
pub fn fault(failed: &str, words: &str) -> Fault {
    Fault::machine(failed).because(cause_of(words)).saying(&last_lines(words.lines()))
}

/// Quotes the last of the lines that somebody else said, each on a line of its own.
#[must_use]
pub fn last_lines<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(QUOTE);
    lines[first..].iter().map(|line| quoted(line)).collect()
}

/// Puts a line that somebody else said on a line of its own, below a message of ours. It is escaped
/// but for its quotation marks.
#[must_use]
pub fn quoted(line: &str) -> String {
    let escaped = line.escape_debug().to_string();
    format!("\n  | {}", escaped.replace("\\'", "'").replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_the_words_of_tools() {
        for (words, cause) in [
            ("fio: write: No space left on device", Some(Cause::NoSpace)),
            ("bind: Address already in use", Some(Cause::PortTaken)),
            ("Error: listen EADDRINUSE: :::80", Some(Cause::PortTaken)),
            ("error: failed to get domain 'x'", Some(Cause::Absent)),
            ("E: No packages found", Some(Cause::Absent)),
            ("it failed", None),
        ] {
            assert_eq!(cause_of(words), cause, "{words}");
        }
    }

    #[test]
    fn too_little_memory_is_read_from_words_and_takes_the_place_of_no_cause() {
        for words in ["Error: Minimum memory limit allowed is 6MB", "fork: Cannot allocate memory"]
        {
            assert_eq!(Fault::machine("it").saying(words).cause, Some(Cause::NoMemory), "{words}");
            let full = Fault::machine("it").because(Cause::NoSpace).saying(words);
            assert_eq!(full.cause, Some(Cause::NoSpace));
        }
        let other = Fault::machine("it failed").saying(": no space left on device");
        assert_eq!(other.cause, None, "what a console said once is no cause of what came later");
        assert_eq!(other.message, "it failed: no space left on device");
    }

    #[test]
    fn the_last_lines_are_quoted() {
        let words: String = (0..30).map(|number| format!("{number}\n\n")).collect();
        let said = fault("it failed", &words).message;
        assert!(said.starts_with("it failed\n  | 10\n  | 11\n"), "{said}");
        assert!(said.ends_with("\n  | 29"), "{said}");
    }

    #[test]
    fn a_quoted_line_keeps_its_quotation_marks_and_shows_what_would_act() {
        let said = fault("it failed", "no `a` in 'b'\x1b[2J\ta\u{9b}\n").message;
        assert_eq!(said, "it failed\n  | no `a` in 'b'\\u{1b}[2J\\ta\\u{9b}");
    }
}
