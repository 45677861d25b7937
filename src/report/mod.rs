//! Reports: findings as a terminal, Markdown, CSV, JSON or HTML shows them.
//!
//! Every format of a run is a function from [`crate::finding::Findings`] to text, so that no two
//! formats can disagree; what several runs say together is one of [`crate::finding::diff::Diff`] or
//! [`crate::finding::history::History`].

mod apart;
pub mod diff;
pub mod export;
pub mod forms;
pub mod history;
pub mod html;
pub mod json;
pub mod list;
pub mod markdown;
mod metric_fields;
pub mod over_time;
pub mod page;
pub mod rows;
pub mod series;
pub mod terminal;
mod trials;
pub mod why;
