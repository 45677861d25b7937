//! Rows of text, printed as a table, as CSV, or as Markdown.

use super::Format;
use comfy_table::{ContentArrangement, Table, presets};

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
    pub(super) fn text(&self, format: Format) -> String {
        match format {
            Format::Csv => self.csv(),
            Format::Markdown => self.table(true),
            Format::Table | Format::Json => self.table(false),
        }
    }

    fn csv(&self) -> String {
        let header = self.header.iter().map(|name| name.replace(' ', "_").to_lowercase()).collect();
        let lines = std::iter::once(header).chain(self.rows.iter().cloned());
        lines.map(|row: Vec<String>| csv_line(&row)).collect()
    }

    fn table(&self, markdown: bool) -> String {
        let mut table = Table::new();
        if markdown {
            table.load_style(presets::ASCII_MARKDOWN);
        } else {
            table.load_style(presets::NOTHING);
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        table.set_header(self.header.clone());
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| cell_text(cell, markdown)).collect::<Vec<_>>());
        }
        if let Some(column) = table.column_mut(0) {
            column.set_padding((0, 1));
        }
        table.trim_fmt() + "\n"
    }
}

fn cell_text(cell: &str, markdown: bool) -> String {
    let cell = super::say::escaped(cell);
    if markdown { cell.replace('\n', " ").replace('|', "\\|") } else { cell }
}

/// One line by RFC 4180.
fn csv_line(row: &[String]) -> String {
    let cells: Vec<String> = row
        .iter()
        .map(|cell| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        })
        .collect();
    cells.join(",") + "\r\n"
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
    fn csv_quotes_what_would_break_a_line() {
        assert_eq!(
            rows().text(Format::Csv),
            "layer,ran_on_hardware\r\na|b,\"say \"\"no\"\", twice\x1b\"\r\n"
        );
    }

    #[test]
    fn markdown_keeps_its_columns_and_terminals_their_colours() {
        let text = rows().text(Format::Markdown);
        assert!(text.contains("a\\|b") && text.contains("|---"), "{text}");
        assert!(!rows().text(Format::Table).contains('\x1b'));
    }
}
