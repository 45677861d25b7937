//! Writes tables. Every cell that holds text escapes it, so that no caller can forget.

use super::escape;
use crate::finding::Interval;
use crate::finding::number::{self, GAP};
use maud::{Markup, Render, html};

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
    Markup(Markup),
}

/// A table that is being filled.
pub struct Table {
    caption: String,
    is_sortable: bool,
    columns: Vec<String>,
    rows: Vec<(Option<u32>, Vec<Cell>)>,
}

impl Table {
    /// Begins a table; a column whose name starts with `#` holds numbers.
    pub fn new(caption: &str, columns: &[impl AsRef<str>]) -> Self {
        let columns = columns.iter().map(|it| it.as_ref().to_owned()).collect();
        Self { caption: caption.to_owned(), is_sortable: false, columns, rows: Vec::new() }
    }

    /// Lets the script sort it.
    pub fn sortable(self) -> Self {
        Self { is_sortable: true, ..self }
    }

    /// Adds a row; the first cell names it. The script hides the rows of a hidden arm.
    pub fn row(&mut self, arm: Option<u32>, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.caption);
        self.rows.push((arm, cells));
    }

    /// The markup; nothing when no row was added.
    pub fn finish(self) -> Markup {
        if self.rows.is_empty() {
            return Markup::default();
        }
        let caption = escape::line(&self.caption);
        html! {
            div.scroll role="region" tabindex="0" aria-label=(caption) {
                table.cards data-sortable[self.is_sortable] {
                    caption { (caption) }
                    thead { tr { @for column in &self.columns { (head(column)) } } }
                    tbody {
                        @for (arm, cells) in &self.rows {
                            tr data-arm=[arm] { (self.cells(cells)) }
                            "\n"
                        }
                    }
                }
            }
            "\n"
        }
    }

    /// The cells of a row, of which the first is its head.
    fn cells(&self, cells: &[Cell]) -> Markup {
        html! {
            @for (place, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
                @if place == 0 {
                    th scope="row" data-value=[cell.value()] { (cell) }
                } @else {
                    @let label = escape::line(column.trim_start_matches('#'));
                    td data-label=(label) data-value=[cell.value()] { (cell) }
                }
            }
        }
    }
}

/// The head of a column.
fn head(column: &str) -> Markup {
    let number = column.strip_prefix('#');
    html! {
        th scope="col" class=[number.map(|_| "number")] { (escape::line(number.unwrap_or(column))) }
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

    /// Value that the script sorts by; nothing where that is the text.
    fn value(&self) -> Option<String> {
        match self {
            Self::Number(_, value) => Some(value.to_string()),
            Self::Gap => Some(String::new()),
            _ => None,
        }
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        match self {
            Self::Text(text) | Self::Number(text, _) => escape::line(text),
            Self::Prose(text) => escape::prose(text),
            Self::Lines(text) => {
                let lines = text.lines().filter(|line| !line.is_empty()).enumerate();
                html! {
                    code {
                        @for (place, line) in lines {
                            @if place > 0 { br; }
                            (escape::name(line))
                        }
                    }
                }
            }
            Self::Code(text) => html! { code { (escape::name(text)) } },
            Self::Gap => html! { (GAP) },
            Self::Markup(markup) => markup.clone(),
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
        let html = table.finish().into_string();
        assert!(html.contains("<code>&lt;script&gt;</code>"), "{html}");
        assert!(html.contains("&lt;caption&gt;"), "{html}");
        assert!(html.contains("<tr data-arm=\"3\">"), "{html}");
    }

    #[test]
    fn lines_that_were_read_are_lines_and_a_sentence_has_its_names_as_code() {
        let mut table = Table::new("facts", &["Value", "Why"]);
        let read = Cell::Lines(String::from("0::/a\n8:pids:/<b>\n"));
        table.row(None, vec![read, Cell::Prose(String::from("as good as `native`"))]);
        let html = table.finish().into_string();
        assert!(html.contains("<code>0::/a<br>8:pids:/&lt;b&gt;</code>"), "{html}");
        assert!(html.contains("as good as <code>native</code>"), "{html}");
    }

    #[test]
    fn a_table_without_rows_is_no_table() {
        assert_eq!(Table::new("empty", &["stack"]).finish().into_string(), "");
    }
}
