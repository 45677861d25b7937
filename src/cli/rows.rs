//! Rows of text, as a command prints them.

use super::{Format, Globals, note};
pub(super) use crate::report::rows::Rows;
use crate::report::rows::{RowsForm, list};

/// JSON has a shape of its own in every command.
impl From<Format> for RowsForm {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => Self::Csv,
            Format::Markdown => Self::Markdown,
            Format::Table | Format::Json => Self::Table,
        }
    }
}

/// Says lines that belong above a table: notes of their own, or a list that begins the Markdown.
pub(super) fn above(lines: &[String], format: Format, globals: &Globals) -> String {
    if format == Format::Markdown {
        return list(lines);
    }
    lines.iter().for_each(|line| note(line, globals));
    String::new()
}

impl Globals {
    /// The width of the terminal that is written to; in a pipe a row is a line, however long.
    pub(super) fn table_width(&self) -> Option<u16> {
        use std::io::IsTerminal;
        std::io::stdout().is_terminal().then(|| self.look().width)
    }
}
