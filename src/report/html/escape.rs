//! Makes a guest's text harmless: what it prints is shown, and never obeyed.
//!
//! Two dangers, two steps. Characters that act instead of being seen become escapes here, as
//! everywhere. What means something in HTML becomes references in the template: `maud` takes any
//! text for a text, and for markup only what has the type [`Markup`]. Which texts are foreign no
//! template knows, so each of them goes through here, through `table.rs`, or through `chart.rs`.

use crate::finding::foreign;
use maud::{Markup, html};

/// Longest text that the report repeats; the ledger has the rest.
pub const LENGTH_MAX: usize = 16_000;

/// One line, fit for an element's content and for an attribute.
pub fn line(text: &str) -> Markup {
    html! { (plain(text)) }
}

/// One line whose `names in backticks`, as our own messages have them, are set as code. The lines
/// of a message are joined.
pub fn prose(text: &str) -> Markup {
    let text = plain(&foreign::on_one_line(text));
    let parts: Vec<&str> = text.split('`').collect();
    // An even number of parts has a backtick without a partner: then none is a mark of ours.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (place, part) in parts.iter().enumerate() {
            @if place % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A stack's text, which may be broken where a layer or an option begins.
pub fn name(text: &str) -> Markup {
    html! {
        @for part in plain(text).split_inclusive(['+', ',']) {
            (part)
            @if part.ends_with(['+', ',']) { wbr; }
        }
    }
}

/// Several lines, fit for the content of `<pre>`.
pub fn lines(text: &str) -> Markup {
    html! { (visible(text, foreign::message)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(line("<a href='x'>\"&").0, "&lt;a href='x'&gt;&quot;&amp;");
    }

    #[test]
    fn characters_that_act_are_shown_and_do_nothing() {
        assert_eq!(line("\u{1b}[31mred\u{7}").0, "\\u{1b}[31mred\\u{7}");
        assert_eq!(line("abc\u{202e}txt.exe").0, "abc\\u{202e}txt.exe");
        assert_eq!(line("two\nlines").0, "two\\nlines");
    }

    #[test]
    fn names_in_backticks_are_code_and_a_lone_backtick_is_a_backtick() {
        assert_eq!(prose("use `a<b` or `c`").0, "use <code>a&lt;b</code> or <code>c</code>");
        assert_eq!(prose("it`s").0, "it`s");
        assert_eq!(prose("`runc` is gone\n  | why").0, "<code>runc</code> is gone; why");
    }

    #[test]
    fn line_breaks_and_tabs_survive_only_where_they_are_wanted() {
        assert_eq!(lines("a\tb\r\nc\u{9b}").0, "a\tb\\r\nc\\u{9b}");
    }

    #[test]
    fn a_text_without_end_is_cut_and_says_how_much_is_missing() {
        let shown = line(&"x".repeat(LENGTH_MAX + 7)).0;
        assert!(shown.ends_with("… and 7 more characters"), "{}", shown.len());
    }

    #[test]
    fn shortened_text_is_no_longer_than_asked() {
        assert_eq!(shortened("äöüß", 4), "äöüß");
        assert_eq!(shortened("äöüßx", 4), "äöü…");
    }
}
