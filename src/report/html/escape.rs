//! Makes a guest's text harmless: what it prints is shown, and never obeyed.
//!
//! Two dangers, two steps. Characters that act instead of being seen become escapes, as everywhere;
//! then the five characters that mean something in HTML become references. Every text of the report
//! goes through here, through `table.rs`, or through the chart library, which does the second step
//! itself.

use crate::finding::foreign;

/// Longest text that the report repeats; the ledger has the rest.
pub const LENGTH_MAX: usize = 16_000;

/// One line, fit for an element's content and for an attribute in double quotes.
pub fn line(text: &str) -> String {
    markup(&visible(text, foreign::line))
}

/// One line whose `names in backticks`, as our own messages have them, are set as code. The lines
/// of a message are joined.
pub fn prose(text: &str) -> String {
    let text = line(&foreign::on_one_line(text));
    let parts: Vec<&str> = text.split('`').collect();
    // An even number of parts has a backtick without a partner: then none is a mark of ours.
    if parts.len().is_multiple_of(2) {
        return text;
    }
    parts.iter().enumerate().fold(String::new(), |prose, (place, part)| match place % 2 {
        0 => prose + part,
        _ => prose + "<code>" + part + "</code>",
    })
}

/// A stack's text, which may be broken where a layer or an option begins.
pub fn name(text: &str) -> String {
    line(text).replace('+', "+<wbr>").replace(',', ",<wbr>")
}

/// Several lines, fit for the content of `<pre>`.
pub fn lines(text: &str) -> String {
    markup(&visible(text, foreign::message))
}

/// One line without acting characters, for a place that escapes markup by itself.
pub fn plain(text: &str) -> String {
    visible(text, foreign::line)
}

/// At most `length` characters of a text; an ellipsis stands for the rest.
pub fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(length.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// Text that `shown` makes visible, and of one without end how much is left out.
fn visible(text: &str, shown: fn(&str) -> String) -> String {
    let Some((end, _)) = text.char_indices().nth(LENGTH_MAX) else { return shown(text) };
    let (kept, rest) = text.split_at(end);
    format!("{}… and {} more characters", shown(kept), rest.chars().count())
}

/// Text that HTML and XML show as it is, also within quotes; what acts on a reader stays.
pub(crate) fn markup(text: &str) -> String {
    // The ampersand first: the others become references that have one.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(line("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
    }

    #[test]
    fn characters_that_act_are_shown_and_do_nothing() {
        assert_eq!(line("\u{1b}[31mred\u{7}"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(line("abc\u{202e}txt.exe"), "abc\\u{202e}txt.exe");
        assert_eq!(line("two\nlines"), "two\\nlines");
    }

    #[test]
    fn names_in_backticks_are_code_and_a_lone_backtick_is_a_backtick() {
        assert_eq!(prose("use `a<b` or `c`"), "use <code>a&lt;b</code> or <code>c</code>");
        assert_eq!(prose("it`s"), "it`s");
        assert_eq!(prose("`runc` is gone\n  | why"), "<code>runc</code> is gone; why");
    }

    #[test]
    fn line_breaks_and_tabs_survive_only_where_they_are_wanted() {
        assert_eq!(lines("a\tb\r\nc\u{9b}"), "a\tb\\r\nc\\u{9b}");
    }

    #[test]
    fn a_text_without_end_is_cut_and_says_how_much_is_missing() {
        let shown = line(&"x".repeat(LENGTH_MAX + 7));
        assert!(shown.ends_with("… and 7 more characters"), "{}", shown.len());
    }

    #[test]
    fn shortened_text_is_no_longer_than_asked() {
        assert_eq!(shortened("äöüß", 4), "äöüß");
        assert_eq!(shortened("äöüßx", 4), "äöü…");
    }
}
