//! Flags that apply to every command, and the form of what is printed.

use crate::report::terminal::{Colour, Look};
use clap::{Args, ValueEnum};

/// Flags of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Globals {
    /// Shows no progress and no notes; errors, results and thresholds that are not kept stay.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Says of every trial how it ended, not only of every block.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Uses no colour; the environment variable NO_COLOR does the same.
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Uses colours where standard output is a terminal, always, or never; without it as the
    /// environment variables NO_COLOR and CLICOLOR_FORCE say.
    #[arg(long, global = true, value_name = "WHEN", conflicts_with = "no_color")]
    pub color: Option<When>,
    /// The form of what is printed.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Condition on which colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Colours where standard output is a terminal.
    Auto,
    /// Colours wherever it goes.
    Always,
    /// No colours.
    Never,
}

/// The form of what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Table,
    /// One JSON object, with stable field names.
    Json,
    /// Comma-separated values with a header.
    Csv,
    /// A Markdown table.
    Markdown,
}

impl Globals {
    /// The form that was asked for; without a word a table.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Tells whether a table is for people, who see less than a program does.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        matches!(self.format(), Format::Table | Format::Markdown)
    }

    /// Returns how text may look on standard output.
    #[must_use]
    pub fn look(&self) -> Look {
        let look = Look::of_standard_output();
        let colour = match self.color {
            _ if self.no_color => Colour::No,
            Some(When::Always) => Colour::Yes,
            Some(When::Never) => Colour::No,
            Some(When::Auto) | None => look.colour,
        };
        Look { colour, ..look }
    }
}
