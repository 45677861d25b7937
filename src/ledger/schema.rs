//! The schema of a ledger, to the letter: what surtax wrote in each format, and nothing else, is
//! read.

use rusqlite::Connection;
use std::collections::BTreeMap;

/// Statements that make the tables of a new ledger.
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// Statements that make what earlier formats had in the place of `quantities` and `readings`.
pub(super) const READINGS_OF_7: &str = include_str!("schema_7.sql");

/// The first format with `quantities`.
pub(super) const QUANTITIES_SINCE: i32 = 8;

/// The first format with `counting`.
pub(super) const CAUSES_SINCE: i32 = 9;

/// The first format with `timelines`.
pub(super) const TIMELINES_SINCE: i32 = 10;

/// The first format with `meters`.
pub(super) const METERS_SINCE: i32 = 11;

/// More objects than any ledger has.
const OBJECTS_MAX: usize = 100;

/// The tables that not every format has, and the first that has them.
const SINCE: [(&str, i32); 16] = [
    ("disturbances", 2),
    ("iterations", 3),
    ("metrics", 4),
    ("histograms", 4),
    ("absences", 4),
    ("instances", 5),
    ("memory", 7),
    ("quantities", QUANTITIES_SINCE),
    ("amounts", QUANTITIES_SINCE),
    ("counting", CAUSES_SINCE),
    ("calls", CAUSES_SINCE),
    ("prices", CAUSES_SINCE),
    ("timelines", TIMELINES_SINCE),
    ("series", TIMELINES_SINCE),
    ("phases", TIMELINES_SINCE),
    ("meters", METERS_SINCE),
];

/// The table that some ledgers of format 4 lack.
const MAY_LACK: (&str, i32) = ("absences", 4);

/// The first formats whose trials can be disturbed, whose runs are sealed, and whose machines are
/// read as a whole; with the words that came with each.
const WORDS: [(&str, i32, &str); 3] = [
    ("trials", 2, "'disturbed', "),
    ("run", 6, ",\n    seal            TEXT"),
    ("payers", TIMELINES_SINCE, ", 'machine'"),
];

/// Table and statement of each object, by its kind and name; no statement for what SQLite makes
/// itself.
type Objects = BTreeMap<(String, String), (String, Option<String>)>;

/// Returns what a database has otherwise than a ledger of this format; `None` where it is the same
/// to the letter.
pub(super) fn difference(connection: &Connection, format: i32) -> rusqlite::Result<Option<String>> {
    let model = Connection::open_in_memory()?;
    model.execute_batch(SCHEMA)?;
    if format < QUANTITIES_SINCE {
        model.execute_batch("DROP VIEW amounts; DROP TABLE readings; DROP TABLE quantities")?;
        model.execute_batch(READINGS_OF_7)?;
    }
    let expected = as_in(objects(&model)?, format);
    let found = objects(connection)?;
    let named = |(kind, name): &(String, String)| format!("the {kind} `{}`", name.escape_debug());
    let strange = found.iter().find(|(object, made)| expected.get(object) != Some(made));
    if let Some((object, _)) = strange {
        let is_known = expected.contains_key(object);
        let what = if is_known { "is another one" } else { "is none of a run's" };
        return Ok(Some(format!("{} {what}", named(object))));
    }
    let may_lack = |(kind, name): &(String, String), table: &str| {
        format == MAY_LACK.1 && table == MAY_LACK.0 && (kind == "table" || name.contains(table))
    };
    let lacking = expected
        .iter()
        .find(|(object, (table, _))| !found.contains_key(object) && !may_lack(object, table));
    Ok(lacking.map(|(object, _)| format!("it lacks {}", named(object))))
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let query = "SELECT type, name, tbl_name, sql FROM sqlite_schema";
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut objects = Objects::new();
    while let Some(row) = rows.next()? {
        objects.insert((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?));
        if objects.len() > OBJECTS_MAX {
            break;
        }
    }
    Ok(objects)
}

/// The objects of now as they were in an earlier format.
fn as_in(mut now: Objects, format: i32) -> Objects {
    let since = |table: &str| SINCE.iter().find(|(name, _)| *name == table).map_or(1, |it| it.1);
    now.retain(|_, (table, _)| since(table) <= format);
    for (table, since, words) in WORDS {
        let made = now.get_mut(&(String::from("table"), String::from(table)));
        if let Some((_, Some(sql))) = made.filter(|_| format < since) {
            *sql = sql.replace(words, "");
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sql: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    #[test]
    fn a_schema_is_its_own_and_every_addition_and_every_lack_is_named() {
        let now = super::super::FORMAT_VERSION;
        let with = |more: &str| difference(&made(&format!("{SCHEMA};{more}")), now).unwrap();
        assert_eq!(with(""), None);
        for (more, named) in [
            ("CREATE TABLE extra (a)", "the table `extra` is none of a run's"),
            ("CREATE TRIGGER t AFTER UPDATE ON run BEGIN SELECT 1; END", "the trigger `t` is none"),
            ("CREATE INDEX i ON logs (abs(at_ns))", "the index `i` is none of a run's"),
            ("CREATE VIEW v AS SELECT 1", "the view `v` is none of a run's"),
            ("DROP TABLE trials; CREATE VIEW trials AS SELECT 1", "the view `trials` is none"),
            ("DROP TABLE logs; CREATE TABLE logs (log)", "the table `logs` is another one"),
            ("DROP VIEW trial_evidence", "it lacks the view `trial_evidence`"),
            ("DROP INDEX trials_counted_once", "it lacks the index `trials_counted_once`"),
        ] {
            let found = with(more).unwrap_or_default();
            assert!(found.starts_with(named), "{more}: {found}");
        }
    }

    #[test]
    fn a_format_is_known_by_what_it_has_and_by_no_other_number() {
        let first = "DROP TABLE metrics; DROP TABLE histograms; DROP TABLE absences; DROP TABLE \
                     instances; DROP TABLE iterations; DROP TABLE disturbances; DROP TABLE memory";
        let tenth = format!("{SCHEMA}; DROP TABLE meters");
        assert_eq!(difference(&made(&tenth), 10).unwrap(), None);
        assert!(difference(&made(&tenth), 11).unwrap().is_some());
        let ninth = tenth.replace(WORDS[2].2, "");
        let ninth = format!("{ninth}; DROP TABLE phases; DROP TABLE series; DROP TABLE timelines");
        assert_eq!(difference(&made(&ninth), 9).unwrap(), None);
        assert!(difference(&made(&ninth), 10).unwrap().is_some());
        let eighth = format!("{ninth}; DROP TABLE calls; DROP TABLE counting; DROP TABLE prices");
        assert_eq!(difference(&made(&eighth), 8).unwrap(), None);
        assert!(difference(&made(&eighth), 9).unwrap().is_some());
        assert!(difference(&made(SCHEMA), 9).unwrap().is_some());
        let seventh = format!(
            "{eighth}; DROP VIEW amounts; DROP TABLE readings; DROP TABLE quantities; \
             {READINGS_OF_7}"
        );
        assert_eq!(difference(&made(&seventh), 7).unwrap(), None);
        assert!(difference(&made(&seventh), 8).unwrap().is_some());
        assert!(difference(&made(SCHEMA), 7).unwrap().is_some());
        let schema = seventh.replace("'disturbed', ", "").replace(WORDS[1].2, "");
        assert!(schema.len() < seventh.len() - 30);
        let old = made(&format!("{schema};{first}"));
        assert_eq!(difference(&old, 1).unwrap(), None);
        assert!(difference(&old, 2).unwrap().is_some());
        let sixth = made(&format!("{seventh};DROP TABLE memory"));
        assert_eq!(difference(&sixth, 6).unwrap(), None);
        assert!(difference(&sixth, 7).unwrap().is_some());
        let without = "DROP TABLE instances; DROP TABLE memory";
        let fourth = made(&format!("{};{without}", seventh.replace(WORDS[1].2, "")));
        assert_eq!(difference(&fourth, 4).unwrap(), None);
        fourth.execute_batch("DROP TABLE absences").unwrap();
        assert_eq!(difference(&fourth, 4).unwrap(), None);
        assert!(difference(&fourth, 5).unwrap().is_some());
    }
}
