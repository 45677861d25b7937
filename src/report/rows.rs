//! Rows of text as a table of the terminal's, as CSV, as Markdown, or as HTML.

use super::export;
use super::html::escape;
use super::markdown::{plain, sentence};
use crate::finding::foreign;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle, Width, presets};
use maud::{Markup, html};

/// Form of text for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsForm {
    /// Columns of a terminal.
    Table,
    /// Comma-separated values.
    Csv,
    /// A Markdown table.
    Markdown,
}

/// A table in the making.
#[derive(Debug)]
pub struct Rows {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// An empty table with these names of columns.
    #[must_use]
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, which has a cell for each column.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The text, with a line feed at its end. A table has this width at most, if any.
    pub fn text(&self, form: impl Into<RowsForm>, width: Option<u16>) -> String {
        match form.into() {
            RowsForm::Csv => self.csv(),
            RowsForm::Markdown => self.table(presets::ASCII_MARKDOWN, None, markdown_cell),
            RowsForm::Table => self.table(presets::NOTHING, width, foreign::message),
        }
    }

    /// The table as HTML, which is named by `caption`. `cell` makes markup of a cell's text, by its
    /// column.
    pub fn html(&self, caption: &str, cell: impl Fn(usize, &str) -> Markup) -> Markup {
        let of = |column: usize, text: &String| {
            let label = self.header.get(column).copied().unwrap_or_default();
            html! {
                @if column == 0 {
                    th scope="row" { (cell(column, text)) }
                } @else {
                    td data-label=(label) { (cell(column, text)) }
                }
            }
        };
        html! {
            div.scroll role="region" tabindex="0" aria-label=(escape::line(caption)) {
                table.cards {
                    thead { tr { @for name in &self.header { th scope="col" { (name) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, text) in row.iter().enumerate() { (of(column, text)) }
                            }
                            "\n"
                        }
                    }
                }
            }
        }
    }

    fn csv(&self) -> String {
        let header = self.header.iter().map(|name| name.replace(' ', "_").to_lowercase()).collect();
        std::iter::once(header).chain(self.rows.iter().cloned()).map(export::row).collect()
    }

    /// A table; where it has a width, long cells are broken.
    fn table(&self, style: TableStyle, width: Option<u16>, cell: fn(&str) -> String) -> String {
        let mut table = Table::new();
        table.load_style(style).force_no_tty();
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.set_header(self.header.clone());
        for row in &self.rows {
            table.add_row(row.iter().map(|text| cell(text)).collect::<Vec<_>>());
        }
        let widest = self.rows.iter().filter_map(|row| row.first()).map(|it| it.chars().count());
        let widest = widest.max().and_then(|it| u16::try_from(it).ok()).unwrap_or(u16::MAX);
        if let Some(column) = table.column_mut(0) {
            column.set_padding((0, 1));
            // A name is copied: it is not broken for the sake of what is read only.
            let others = self.header.len().saturating_sub(1);
            if width.is_some_and(|width| fits(widest, others, width)) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widest + 1)));
            }
        }
        table.trim_fmt() + "\n"
    }
}

/// Columns of a terminal that a column needs beside one whose cells are not broken.
const COLUMN_LEAST: usize = 11;

/// Tells whether a table is that wide at most whose first column is not broken: `widest` is its
/// longest cell, and beside it are so many others.
pub(crate) fn fits(widest: u16, others: usize, width: u16) -> bool {
    usize::from(widest) + 1 + others * COLUMN_LEAST <= usize::from(width)
}

/// Lines that belong above a table, as a list that begins the Markdown.
#[must_use]
pub fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

fn markdown_cell(text: &str) -> String {
    plain(&text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let mut rows = Rows::new(&["Layer", "Ran on hardware"]);
        rows.push(vec![String::from("a|b"), String::from("say \"no\", twice\x1b")]);
        rows
    }

    #[test]
    fn csv_quotes_what_would_break_a_line_and_escapes_what_acts() {
        assert_eq!(
            rows().text(RowsForm::Csv, None),
            "layer,ran_on_hardware\r\na|b,\"say \"\"no\"\", twice\\u{1b}\"\r\n"
        );
    }

    #[test]
    fn markdown_keeps_its_columns_and_terminals_their_colours() {
        let text = rows().text(RowsForm::Markdown, None);
        assert!(text.contains("a\\|b") && text.contains("|---"), "{text}");
        assert!(!rows().text(RowsForm::Table, None).contains('\x1b'));
        let mut hostile = Rows::new(&["Layer"]);
        hostile.push(vec![String::from("<img src=//evil.example/p> [x](//evil.example)")]);
        let text = hostile.text(RowsForm::Markdown, None);
        assert!(text.contains("&lt;img") && text.contains("\\[x\\]"), "{text}");
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_and_in_a_pipe_a_row_is_a_line() {
        let mut rows = rows();
        rows.push(vec![String::from("b"), "word ".repeat(40)]);
        let lines = |width| rows.text(RowsForm::Table, width).lines().count();
        assert_eq!(lines(None), 3);
        let text = rows.text(RowsForm::Table, Some(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_name_is_broken_only_where_it_would_take_more_than_half() {
        let mut rows = Rows::new(&["Run", "Stacks", "Title"]);
        let (name, long) = ("20261126T164732Z-tar-gzip".to_owned(), "native,runc,gvisor".repeat(4));
        rows.push(vec![name.clone(), long.clone(), long]);
        let text = |width| rows.text(RowsForm::Table, Some(width));
        assert!(text(80).contains(&name), "{}", text(80));
        for width in [30, 60, 80] {
            assert!(text(width).lines().all(|it| it.chars().count() <= width.into()));
        }
    }
}
