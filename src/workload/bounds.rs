//! Bounds of a workload file: a stranger may have written it, and a ledger that somebody sent holds
//! one.
//!
//! A parser of paths calls itself at each bracket and reads what a filter holds more than once, and
//! a short regex becomes megabytes once it is compiled. So length, nesting and number are looked at
//! before any of them is read.

use super::reader::{Fields, Value};
use crate::fault::Fault;

/// The longest workload file, in bytes: a plan holds it whole, and a ledger the plan.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// The longest regex, in bytes.
pub(super) const PATTERN_LENGTH: usize = 1 << 10;

/// The most memory that one regex takes once it is compiled, in bytes.
pub(super) const PATTERN_SIZE: usize = 512 << 10;

/// The most parameters of a workload, and the most that are given to one.
pub(super) const PARAMETERS_MAX: usize = 256;

/// The longest value that is given to a parameter, in bytes.
pub(super) const VALUE_LENGTH: usize = 4 << 10;

/// The longest JSONPath, in bytes.
const PATH_LENGTH: usize = 512;

/// The most brackets and parentheses of a JSONPath that are open at once.
const PATH_NESTING: usize = 8;

/// The most filters of a JSONPath.
const PATH_FILTERS: usize = 4;

/// The most checks, metrics, histograms and settings of a file together.
const RULES_MAX: usize = 256;

/// The most regexes of a file, those of its parameters among them.
const PATTERNS_MAX: usize = 64;

/// Largest part shown of a text that is too long, in characters.
const SHOWN: usize = 40;

/// The beginning of a text that is too long, or all of it.
pub(super) fn beginning(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Says why a JSONPath is not read, if it is not.
pub(super) fn path_fault(text: &str) -> Option<String> {
    let length = text.len();
    if length > PATH_LENGTH {
        return Some(format!("it is {length} bytes long, and {PATH_LENGTH} at most are read"));
    }
    let (nesting, filters) = nesting_and_filters(text);
    if nesting > PATH_NESTING {
        return Some(format!(
            "{nesting} of its brackets and parentheses stand one within another, and \
             {PATH_NESTING} at most are read"
        ));
    }
    (filters > PATH_FILTERS)
        .then(|| format!("it has {filters} filters, and {PATH_FILTERS} at most are read"))
}

/// Counts the brackets and parentheses of a path that are open at once, and its filters; what is
/// in quotes is a name.
fn nesting_and_filters(text: &str) -> (usize, usize) {
    let (mut open, mut deepest, mut filters) = (0_usize, 0, 0);
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => {
                letters.next();
            }
            (Some(end), _) if end == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[' | '(') => {
                open += 1;
                deepest = open.max(deepest);
            }
            (None, ']' | ')') => open = open.saturating_sub(1),
            (None, '?') => filters += 1,
            _ => {}
        }
    }
    (deepest, filters)
}

/// Checks that a file has no more rules and parameters than anybody needs.
///
/// # Errors
/// The user's: it has more.
pub(super) fn require_few_rules(file: &Fields<'_, '_>) -> Result<(), Fault> {
    let rules = ["check", "metric", "histogram", "setting"];
    let count: usize = rules.iter().map(|key| tables(file.get(key), |_| true)).sum();
    if count > RULES_MAX {
        return Err(file
            .refuse(format!(
                "it has {count} checks, metrics, histograms and settings, and {RULES_MAX} at most \
                 are read"
            ))
            .hint("leave out what nobody compares, or make two workloads of it"));
    }
    let parameters = file.get("parameters").and_then(|it| it.get_ref().as_table());
    let count = parameters.map_or(0, |table| table.iter().count());
    if count > PARAMETERS_MAX {
        return Err(file
            .refuse(format!("it has {count} parameters, and {PARAMETERS_MAX} at most are read"))
            .hint("leave out those that nobody sets"));
    }
    Ok(())
}

/// Checks that a file has no more regexes than are compiled at once.
///
/// # Errors
/// The user's: it has more.
pub(super) fn require_few_patterns(file: &Fields<'_, '_>) -> Result<(), Fault> {
    let rules = ["check", "metric", "setting"];
    let of_rules: usize =
        rules.iter().map(|key| tables(file.get(key), |it| has(it, "regex"))).sum();
    let of_version = file.get("version").is_some_and(|it| has(it, "regex"));
    let parameters = file.get("parameters").and_then(|it| it.get_ref().as_table());
    let of_parameters = parameters
        .map_or(0, |table| table.iter().filter(|(_, value)| has(value, "pattern")).count());
    let count = of_rules + usize::from(of_version) + of_parameters;
    if count > PATTERNS_MAX {
        return Err(file
            .refuse(format!("it has {count} regexes, and {PATTERNS_MAX} at most are read"))
            .hint("let the command print JSON, and find each number by its `jsonpath`"));
    }
    Ok(())
}

/// Counts these of a list of tables.
fn tables(value: Option<&Value<'_>>, is_counted: impl Fn(&Value<'_>) -> bool) -> usize {
    let list = value.and_then(|value| value.get_ref().as_array());
    list.map_or(0, |list| list.iter().filter(|&item| is_counted(item)).count())
}

/// Tells whether a table has a key.
fn has(value: &Value<'_>, key: &str) -> bool {
    value.get_ref().as_table().is_some_and(|table| table.get(key).is_some())
}

#[cfg(test)]
mod tests;
