//! Writes tables. Every cell that holds text escapes it, so that no caller can forget.

use super::escape;
use crate::finding::Interval;
use crate::finding::number::{self, GAP};

/// One cell.
pub enum Cell {
    /// Words as they are.
    Text(String),
    /// A sentence of ours, with names in backticks.
    Prose(String),
    /// A name, a stack, a hash.
    Code(String),
    /// Value that was read, of one line or several.
    Lines(String),
    /// Text that is shown, and the number that the script sorts by.
    Number(String, f64),
    /// No number here: sorts last.
    Gap,
    /// Markup of our own making.
    Markup(String),
}

/// A table that is being filled.
pub struct Table {
    caption: String,
    attributes: &'static str,
    names: Vec<String>,
    head: String,
    rows: String,
}

impl Table {
    /// Begins a table; a column whose name starts with `#` holds numbers.
    pub fn new(caption: &str, columns: &[impl AsRef<str>]) -> Self {
        let columns: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
        let head = columns.iter().fold(String::new(), |head, name| match name.strip_prefix('#') {
            Some(name) => head + "<th scope=\"col\" class=\"number\">" + name + "</th>",
            None => head + "<th scope=\"col\">" + name + "</th>",
        });
        let caption = escape::line(caption);
        let names = columns.iter().map(|it| it.trim_start_matches('#').to_owned()).collect();
        Self { caption, attributes: "", names, head, rows: String::new() }
    }

    /// Lets the script sort it.
    pub fn sortable(mut self) -> Self {
        self.attributes = " data-sortable";
        self
    }

    /// Adds a row; the first cell names it. The script hides the rows of a hidden arm.
    pub fn row(&mut self, arm: Option<u32>, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.names.len(), "{}", self.caption);
        match arm {
            Some(arm) => self.rows.push_str(&format!("<tr data-arm=\"{arm}\">")),
            None => self.rows.push_str("<tr>"),
        }
        for (place, cell) in cells.into_iter().enumerate() {
            let (name, scope) = match (place, self.names.get(place)) {
                (1.., Some(label)) => ("td", format!(" data-label=\"{label}\"")),
                _ => ("th", String::from(" scope=\"row\"")),
            };
            let (attributes, content) = cell.written();
            self.rows.push_str(&format!("<{name}{scope}{attributes}>{content}</{name}>"));
        }
        self.rows.push_str("</tr>\n");
    }

    /// The markup; nothing when no row was added.
    pub fn finish(self) -> String {
        let Self { caption, attributes, head, rows, .. } = self;
        if rows.is_empty() {
            return String::new();
        }
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\
             <table class=\"cards\"{attributes}><caption>{caption}</caption>\
             <thead><tr>{head}</tr></thead>\n\
             <tbody>{rows}</tbody></table></div>\n"
        )
    }
}

impl Cell {
    /// A number, or the gap where there is none.
    pub fn number(value: Option<f64>, shown: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self::Number(shown(value), value),
            None => Self::Gap,
        }
    }

    /// A number that is shown as it is.
    pub fn count(number: impl ToString + Into<f64>) -> Self {
        Self::Number(number.to_string(), number.into())
    }

    /// A value from one end to the other, sorted by the lower one.
    pub fn range(low: f64, high: f64, shown: impl Fn(f64) -> String) -> Self {
        Self::Number(format!("{} – {}", shown(low), shown(high)), low)
    }

    /// An overhead with its interval, or the gap where there is none.
    pub fn overhead(found: Option<&Interval>) -> Self {
        found.map_or(Self::Gap, |found| Self::Number(number::overhead(found), found.ratio))
    }

    fn written(self) -> (String, String) {
        match self {
            Self::Text(text) => (String::new(), escape::line(&text)),
            Self::Prose(text) => (String::new(), escape::prose(&text)),
            Self::Lines(text) => {
                let lines = text.lines().filter(|line| !line.is_empty()).map(escape::name);
                let lines = lines.collect::<Vec<_>>().join("<br>");
                (String::new(), format!("<code>{lines}</code>"))
            }
            Self::Code(text) => (String::new(), format!("<code>{}</code>", escape::name(&text))),
            Self::Number(shown, value) => {
                (format!(" data-value=\"{value}\""), escape::line(&shown))
            }
            Self::Gap => (String::from(" data-value=\"\""), GAP.to_owned()),
            Self::Markup(markup) => (String::new(), markup),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_a_cell_cannot_become_markup() {
        let mut table = Table::new("<caption>", &["stack", "#time"]);
        table.row(Some(3), vec![Cell::Code("<script>".into()), Cell::Gap]);
        let html = table.finish();
        assert!(html.contains("<code>&lt;script&gt;</code>"), "{html}");
        assert!(html.contains("&lt;caption&gt;"), "{html}");
        assert!(html.contains("<tr data-arm=\"3\">"), "{html}");
    }

    #[test]
    fn lines_that_were_read_are_lines_and_a_sentence_has_its_names_as_code() {
        let mut table = Table::new("facts", &["Value", "Why"]);
        let read = Cell::Lines(String::from("0::/a\n8:pids:/<b>\n"));
        table.row(None, vec![read, Cell::Prose(String::from("as good as `native`"))]);
        let html = table.finish();
        assert!(html.contains("<code>0::/a<br>8:pids:/&lt;b&gt;</code>"), "{html}");
        assert!(html.contains("as good as <code>native</code>"), "{html}");
    }

    #[test]
    fn a_table_without_rows_is_no_table() {
        assert_eq!(Table::new("empty", &["stack"]).finish(), "");
    }
}
