//! The end of a console: what a guest printed, as an error message quotes it.

use super::Target;
use crate::text::assert_inert;
use surtax::agent::ConsoleTail;
use surtax::finding::foreign;

pub const TARGET: Target =
    Target { name: "console", run, seeds: super::none, folders: &[], longest: 128 << 10 };

/// Far more than the last lines of a console and the line of a panic, each cut off, come to.
const QUOTE_LIMIT: usize = 64 << 10;

fn run(bytes: &[u8]) {
    let console = ConsoleTail::new();
    bytes.chunks(4096).for_each(|part| console.keep(part));
    let (text, quote) = (console.text(), console.quote());
    for (what, text) in [("the text of a console", &text), ("its quotation", &quote)] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{what} acts: {text:?}");
    }
    assert!(quote.len() <= QUOTE_LIMIT, "{} bytes are quoted", quote.len());
    assert_inert("a message with a quotation", &foreign::message(&quote).replace('\t', ""));
    if let Some(words) = foreign::last_words(bytes) {
        assert_inert("the last words of a command", &words);
    }
}
