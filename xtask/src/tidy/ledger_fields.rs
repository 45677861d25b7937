//! Ledger fields: a quantity's name ends with its unit, and FORMAT.md explains every field.

use super::Finding;
use super::tree::Tree;

const SCHEMA: &str = "src/ledger/schema.sql";
const FORMAT: &str = "src/ledger/FORMAT.md";

/// Suffixes that the name of a quantity may have.
const UNITS: &[&str] = &[
    "_ns", "_bytes", "_mib", "_count", "_ratio", "_ppm", "_joules", "_uj", "_uw", "_hz", "_celsius",
];

/// Numbers that are no quantities: places and names. `value` has its unit in the row's other
/// fields.
const PLACES: &[&str] = &[
    "block", "position", "arm", "attempt", "iteration", "instance", "level", "seed", "value",
    "limit_value",
];

/// The field that keeps a table to one row, which nobody reads.
const SINGLE_ROW: &str = "one";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(schema) = tree.text(SCHEMA) else { return Vec::new() };
    let format = tree.text(FORMAT).unwrap_or_default();
    let mut findings = Vec::new();
    for (line, name, definition) in fields(schema) {
        if !format.contains(&format!("`{name}`")) && name != SINGLE_ROW {
            let message = format!("{FORMAT} does not explain the field `{name}`");
            findings.push(Finding::new(SCHEMA, line, message));
        }
        if is_quantity(name, definition) && !UNITS.iter().any(|unit| name.ends_with(unit)) {
            let message = format!("the quantity `{name}` does not end with its unit");
            findings.push(Finding::new(SCHEMA, line, message));
        }
    }
    findings
}

fn is_quantity(name: &str, definition: &str) -> bool {
    let number = definition.starts_with("INTEGER") || definition.starts_with("REAL");
    let identity = ["PRIMARY KEY", "REFERENCES", "CHECK"].iter().any(|it| definition.contains(it));
    number && !identity && !PLACES.contains(&name)
}

/// The fields of every table: line, name, and the rest of the line.
fn fields(schema: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut inside = false;
    schema.lines().enumerate().filter_map(move |(index, line)| {
        if line.starts_with("CREATE TABLE") {
            inside = true;
            return None;
        }
        inside &= !line.starts_with(')');
        let (name, definition) = line.strip_prefix("    ")?.split_once(' ')?;
        let is_field = inside && name.starts_with(|it: char| it.is_ascii_lowercase());
        is_field.then(|| (index + 1, name, definition.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &str, format: &str) -> Vec<String> {
        let tree = Tree::of(&[(SCHEMA, schema), (FORMAT, format)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_quantity_without_a_unit_is_found() {
        let schema = "CREATE TABLE trials (\n    trial INTEGER PRIMARY KEY,\n    wall REAL NOT \
                      NULL,\n    start_ns INTEGER\n) STRICT;\n";
        let found = messages(schema, "`trial` `wall` `start_ns`");
        assert_eq!(
            found,
            ["src/ledger/schema.sql:3: the quantity `wall` does not end with its unit"]
        );
    }

    #[test]
    fn a_field_that_the_format_does_not_explain_is_found() {
        let schema = "CREATE TABLE run (\n    title TEXT NOT NULL\n) STRICT;\n";
        assert_eq!(messages(schema, "`id`").len(), 1);
        assert!(messages(schema, "the `title` of the run").is_empty());
    }
}
