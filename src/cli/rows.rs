//! Rows of text, printed as a table, as CSV, or as Markdown.

use super::{Format, Globals, note};
use crate::finding::foreign;
use crate::report::export;
use crate::report::markdown::{plain, sentence};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, TableStyle, Width, presets};

/// A table in the making.
pub(super) struct Rows {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    pub(super) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The text, with a line feed at its end. JSON has a shape of its own in every command.
    pub(super) fn text(&self, format: Format, width: Option<u16>) -> String {
        match format {
            Format::Csv => self.csv(),
            Format::Markdown => self.table(presets::ASCII_MARKDOWN, None, markdown_cell),
            Format::Table | Format::Json => self.table(presets::NOTHING, width, foreign::message),
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
            if width.is_some_and(|width| widest <= width / 2) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widest + 1)));
            }
        }
        table.trim_fmt() + "\n"
    }
}

/// Says lines that belong above a table: notes of their own, or a list that begins the Markdown.
pub(super) fn above(lines: &[String], format: Format, globals: &Globals) -> String {
    if format != Format::Markdown {
        lines.iter().for_each(|line| note(line, globals));
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

impl Globals {
    /// The width of the terminal that is written to; in a pipe a row is a line, however long.
    pub(super) fn table_width(&self) -> Option<u16> {
        use std::io::IsTerminal;
        std::io::stdout().is_terminal().then(|| self.look().width)
    }
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
            rows().text(Format::Csv, None),
            "layer,ran_on_hardware\r\na|b,\"say \"\"no\"\", twice\\u{1b}\"\r\n"
        );
    }

    #[test]
    fn markdown_keeps_its_columns_and_terminals_their_colours() {
        let text = rows().text(Format::Markdown, None);
        assert!(text.contains("a\\|b") && text.contains("|---"), "{text}");
        assert!(!rows().text(Format::Table, None).contains('\x1b'));
        let mut hostile = Rows::new(&["Layer"]);
        hostile.push(vec![String::from("<img src=//evil.example/p> [x](//evil.example)")]);
        let text = hostile.text(Format::Markdown, None);
        assert!(text.contains("&lt;img") && text.contains("\\[x\\]"), "{text}");
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_and_in_a_pipe_a_row_is_a_line() {
        let mut rows = rows();
        rows.push(vec![String::from("b"), "word ".repeat(40)]);
        let lines = |width| rows.text(Format::Table, width).lines().count();
        assert_eq!(lines(None), 3);
        let text = rows.text(Format::Table, Some(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_name_is_broken_only_where_it_would_take_more_than_half() {
        let mut rows = Rows::new(&["Run", "Stacks", "Title"]);
        let (name, long) = ("20261126T164732Z-tar-gzip".to_owned(), "native,runc,gvisor".repeat(4));
        rows.push(vec![name.clone(), long.clone(), long]);
        let text = |width| rows.text(Format::Table, Some(width));
        assert!(text(80).contains(&name), "{}", text(80));
        for width in [30, 60, 80] {
            assert!(text(width).lines().all(|it| it.chars().count() <= width.into()));
        }
    }
}
