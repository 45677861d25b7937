//! `surtax schema`: what the JSON of each command looks like, as JSON Schema.
//!
//! A schema is made of the types that the JSON is written from, so the two cannot part; the copies
//! in `docs/schemas` show in a change what it changes for programs.

use super::doctor::Diagnosis;
use super::plan::Shown;
use super::rows::Rows;
use super::workload::WorkloadRow;
use super::{Format, Globals, answer};
use crate::fault::{Doing, Fault};
use crate::finding::Findings;
use crate::finding::diff::Diff;
use crate::finding::history::History;
use crate::finding::kept::KeptRun;
use crate::layer::instead;
use crate::report::json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

/// Flags of `surtax schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example\n  surtax schema answer > answer.schema.json")]
pub struct Arguments {
    /// Prints the schema of this answer; without it, lists them.
    #[arg(value_name = "ANSWER")]
    pub name: Option<String>,
}

/// An answer in JSON.
struct Answer {
    name: &'static str,
    /// Commands that give it with `--format json`.
    commands: &'static str,
    schema: fn() -> Schema,
}

const ANSWERS: [Answer; 8] = [
    Answer::of::<Findings>("answer", "compare, run, resume, prices, show, export"),
    Answer::of::<Diff>("diff", "diff"),
    Answer::of::<History>("history", "history"),
    Answer::of::<Vec<KeptRun>>("list", "list"),
    Answer::of::<Shown<'static>>("plan", "plan"),
    Answer::of::<Diagnosis>("doctor", "doctor"),
    Answer::of::<Vec<WorkloadRow>>("workloads", "workload list"),
    Answer::of::<super::prove::Answer>("proofs", "prove"),
];

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let Some(name) = &arguments.name else {
        let format = globals.format();
        if format == Format::Json {
            let all = ANSWERS.map(|it| serde_json::json!({ "answer": it.name, "of": it.commands }));
            return answer(&json::pretty(&all).doing("write the answers as JSON")?);
        }
        let mut rows = Rows::new(&["Answer", "Commands"]);
        ANSWERS.iter().for_each(|it| rows.push(vec![it.name.into(), it.commands.into()]));
        return answer(&rows.text(format, globals.table_width()));
    };
    let found = ANSWERS.iter().find(|it| it.name == name).ok_or_else(|| {
        let names = ANSWERS.iter().map(|it| it.name);
        Fault::user(format!("no answer in JSON is called `{}`", name.escape_debug()))
            .hint(instead(name, "answers", names))
    })?;
    answer(&json::pretty(&found.titled()).doing("write the schema as JSON")?)
}

impl Answer {
    /// One of this type, as it is written.
    const fn of<T: JsonSchema>(name: &'static str, commands: &'static str) -> Self {
        let schema = || {
            let settings = SchemaSettings::draft2020_12().for_serialize();
            settings.into_generator().into_root_schema_for::<T>()
        };
        Self { name, commands, schema }
    }

    /// The schema, under the answer's name and not under that of a type.
    fn titled(&self) -> Schema {
        let mut schema = (self.schema)();
        schema.insert("title".into(), format!("surtax {}", self.name).into());
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_schema_is_as_the_book_has_it() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
        for it in ANSWERS {
            let path = directory.join(format!("{}.json", it.name));
            let now = json::pretty(&it.titled()).unwrap();
            if std::env::var_os("SURTAX_BLESS").is_some() {
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(&path, &now).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(now, written, "{}: see it with SURTAX_BLESS=1 and `git diff`", it.name);
        }
        let files = std::fs::read_dir(directory).unwrap().count();
        assert_eq!(files, ANSWERS.len(), "a file for each, and no more");
    }

    #[test]
    fn a_run_in_all_its_parts_is_as_its_schema_says_and_one_without_a_field_is_not() {
        let findings = crate::report::html::tests::sample::colleague();
        let mut value = serde_json::to_value(&findings).unwrap();
        let schema = serde_json::to_value((ANSWERS[0].schema)()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        value["arms"][2].as_object_mut().unwrap().remove("verdict");
        assert!(!validator.is_valid(&value));
    }
}
