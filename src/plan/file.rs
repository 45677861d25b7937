//! Plan files: a plan as TOML, read with errors that name the line, and written.
//!
//! A key that is not known is refused with the nearest one that is: a plan that silently ignored
//! `warmup = 3` would measure something else than its author believes.

use super::word::ESCAPED;
use super::{Cache, Draft, Neighbour, Plan, Word, duration, percentage, shelf};
use crate::fault::Fault;
use crate::layer::{Descriptor, StackSpec, instead};
use crate::regular_file;
use crate::workload::Workload;
use std::fmt::{Display, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest plan file, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Every key of a plan file, in the order in which [`write()`] writes them.
pub const KEYS: [&str; 25] = [
    "title", "command", "workload", "stacks", "baseline", "beside", "runs", "time", "precision",
    "warm_up", "iterations", "instances", "cache", "settle", "env_padding", "ignore_failure",
    "keep_disturbed", "seed", "margin", "deadline", "start_deadline", "cwd", "writable",
    "inherit_environment", "environment",
];

/// Reads a plan file, or one of the plans that come with surtax where no file has that name; stacks
/// are checked against these descriptors.
///
/// # Errors
/// The user's: the file cannot be read, is no TOML, or asks for something that there is not.
pub fn read(path: &Path, descriptors: &[&'static Descriptor]) -> Result<Draft, Fault> {
    let name = path.display().to_string();
    let cannot = |error: &dyn Display| {
        Fault::user(format!("cannot read the plan `{}`: {error}", name.escape_debug()))
            .hint(shelf::remedy(path))
    };
    if let Some(text) = shelf::text(path).filter(|_| !path.exists()) {
        return parse(text, &format!("plans/{name}.toml"), descriptors);
    }
    let text = regular_file::text_given(path, FILE_LIMIT).map_err(|error| cannot(&error))?;
    parse(&text, &name, descriptors)
}

/// Reads the text of a plan file; `name` is what errors call it.
///
/// # Errors
/// See [`read`].
pub fn parse(text: &str, name: &str, descriptors: &[&'static Descriptor]) -> Result<Draft, Fault> {
    let reader = Reader { text, name, descriptors };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        reader.refuse(&span, error.message().replace('\n', ", "))
    })?;
    let mut draft = Draft::default();
    for (key, value) in table.get_ref() {
        reader.field(&mut draft, key, value)?;
    }
    Ok(draft)
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    descriptors: &'a [&'static Descriptor],
}

type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.as_bytes().iter().take(span.start);
        format!("{}:{}", self.name, 1 + before.filter(|&&byte| byte == b'\n').count())
    }

    fn refuse(&self, span: &Range<usize>, message: impl Display) -> Fault {
        Fault::user(format!("{}: {message}", self.place(span)))
    }

    fn field(
        &self,
        draft: &mut Draft,
        key: &Spanned<impl AsRef<str>>,
        value: &Value<'_>,
    ) -> Result<(), Fault> {
        let name = key.get_ref().as_ref();
        let Some(field) = KEYS.into_iter().find(|known| *known == name) else {
            let shown = name.escape_debug();
            return Err(self
                .refuse(&key.span(), format!("unknown key `{shown}`"))
                .hint(instead(name, "keys of a plan", KEYS)));
        };
        draft.places.insert(field, self.place(&key.span()));
        match field {
            "title" => draft.title = Some(self.string(field, value)?.to_owned()),
            "command" => draft.command = self.words(field, value)?,
            "workload" => {
                let typed = self.string(field, value)?;
                let found = Workload::find(typed);
                let found = found.map_err(|fault| fault.during(self.place(&value.span())))?;
                draft.workload = Some(found);
            }
            "stacks" => draft.stacks = self.stacks(value)?,
            "baseline" => draft.baseline = Some(self.stack(value)?),
            "beside" => draft.beside = self.neighbours(field, value)?,
            "runs" => draft.runs = Some(self.whole(field, value)?),
            "time" => draft.time = Some(self.duration(field, value)?),
            "precision" => draft.precision_ppm = Some(self.share(field, value)?),
            "warm_up" => draft.warm_up = Some(self.whole(field, value)?),
            "iterations" => draft.conduct.iterations = Some(self.whole(field, value)?),
            "instances" => draft.conduct.instances = Some(self.whole(field, value)?),
            "cache" => draft.conduct.cache = Some(self.cache(field, value)?),
            "settle" => draft.conduct.settle = Some(self.duration(field, value)?),
            "env_padding" => {
                draft.conduct.padding_limit_bytes = Some(self.whole(field, value)?);
            }
            "seed" => draft.seed = Some(self.whole(field, value)?),
            "margin" => draft.margin_ppm = Some(self.share(field, value)?),
            "deadline" => draft.deadline = Some(self.duration(field, value)?),
            "start_deadline" => draft.start_deadline = Some(self.duration(field, value)?),
            "cwd" => draft.cwd = Some(self.word(field, value)?.into()),
            "writable" => {
                draft.writable =
                    self.strings(field, value)?.into_iter().map(PathBuf::from).collect();
            }
            "ignore_failure" => draft.conduct.ignore_failure = Some(self.truth(field, value)?),
            "keep_disturbed" => draft.conduct.keep_disturbed = Some(self.truth(field, value)?),
            "inherit_environment" => draft.inherit_environment = Some(self.truth(field, value)?),
            _ => draft.environment = self.environment(value)?,
        }
        Ok(())
    }

    fn truth(&self, field: &str, value: &Value<'_>) -> Result<bool, Fault> {
        let said = value.get_ref().as_bool();
        said.ok_or_else(|| self.wrong_type(field, "`true` or `false`", value))
    }

    fn wrong_type(&self, field: &str, wanted: &str, value: &Value<'_>) -> Fault {
        let kind = value.get_ref().type_str();
        self.refuse(&value.span(), format!("`{field}` is {wanted}, and this is of type {kind}"))
    }

    fn string<'v>(&self, field: &str, value: &'v Value<'_>) -> Result<&'v str, Fault> {
        value.get_ref().as_str().ok_or_else(|| self.wrong_type(field, "a string", value))
    }

    fn strings(&self, field: &str, value: &Value<'_>) -> Result<Vec<String>, Fault> {
        let item = |item: &Value<'_>| self.string(field, item).map(str::to_owned);
        self.list(field, value)?.iter().map(item).collect()
    }

    fn words(&self, field: &str, value: &Value<'_>) -> Result<Vec<Word>, Fault> {
        self.list(field, value)?.iter().map(|item| self.word(field, item)).collect()
    }

    /// A string, or a table with the one key `escaped`: see [`Word`].
    fn word(&self, field: &str, value: &Value<'_>) -> Result<Word, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return self.string(field, value).map(Word::from);
        };
        let mut entries = table.iter();
        let only = entries.next().filter(|(key, _)| key.get_ref().as_ref() == ESCAPED);
        let Some((_, escaped)) = only.filter(|_| entries.next().is_none()) else {
            return Err(self
                .refuse(
                    &value.span(),
                    format!("a table in `{field}` has keys beside `{ESCAPED}`, or not that one"),
                )
                .hint("write bytes that are no text as `{ escaped = 'caf\\xe9' }`"));
        };
        let text = self.string(&format!("{field}.{ESCAPED}"), escaped)?;
        Word::unescaped(text).ok_or_else(|| {
            let shown = text.escape_debug();
            self.refuse(
                &escaped.span(),
                format!("`{shown}` has a backslash before neither `x` with two digits nor another"),
            )
            .hint("write `\\xNN` for a byte and `\\\\` for a backslash, in single quotes")
        })
    }

    fn list<'v, 't>(
        &self,
        field: &str,
        value: &'v Value<'t>,
    ) -> Result<&'v toml::de::DeArray<'t>, Fault> {
        value.get_ref().as_array().ok_or_else(|| {
            let fault = self.wrong_type(field, "a list of strings", value);
            match value.get_ref().as_str() {
                Some(text) if field == "command" => {
                    let line = toml_strings(&["sh".to_owned(), "-c".to_owned(), text.to_owned()]);
                    fault.hint(format!("write one word per string, or `command = {line}`"))
                }
                _ => fault.hint(format!("put it in brackets: `{field} = [\"…\"]`")),
            }
        })
    }

    /// A whole number that fits the field.
    fn whole<T: TryFrom<i64>>(&self, field: &str, value: &Value<'_>) -> Result<T, Fault> {
        let number = value
            .get_ref()
            .as_integer()
            .ok_or_else(|| self.wrong_type(field, "a whole number", value))?;
        let shown = number.as_str();
        i64::from_str_radix(shown, number.radix())
            .ok()
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                self.refuse(&value.span(), format!("`{field} = {shown}` is out of range"))
            })
    }

    fn duration(&self, field: &str, value: &Value<'_>) -> Result<Duration, Fault> {
        let text = value.get_ref().as_str().ok_or_else(|| {
            self.wrong_type(field, "a duration", value).hint(format!("write `{field} = \"90s\"`"))
        })?;
        duration::parse(text).map_err(|fault| fault.during(self.place(&value.span())))
    }

    fn share(&self, field: &str, value: &Value<'_>) -> Result<u32, Fault> {
        let text = value.get_ref().as_str().ok_or_else(|| {
            let hint = format!("write `{field} = \"3%\"`");
            self.wrong_type(field, "a percentage", value).hint(hint)
        })?;
        percentage::parse(text).map_err(|fault| fault.during(self.place(&value.span())))
    }

    fn cache(&self, field: &str, value: &Value<'_>) -> Result<Cache, Fault> {
        let text = self.string(field, value)?;
        Cache::parse(text).map_err(|fault| fault.during(self.place(&value.span())))
    }

    fn environment(&self, value: &Value<'_>) -> Result<Vec<(String, Word)>, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self
                .wrong_type("environment", "a table", value)
                .hint("write `environment = { NAME = \"value\" }`"));
        };
        let variables = table.iter().map(|(name, value)| {
            let name = name.get_ref().as_ref();
            Ok((name.to_owned(), self.word(&format!("environment.{name}"), value)?))
        });
        variables.collect()
    }

    fn stacks(&self, value: &Value<'_>) -> Result<Vec<StackSpec>, Fault> {
        let Some(list) = value.get_ref().as_array() else {
            return Err(self
                .wrong_type("stacks", "a list of stacks", value)
                .hint("put them in brackets: `stacks = [\"native\", \"qemu:memory=1G+runc\"]`"));
        };
        list.iter().map(|stack| self.stack(stack)).collect()
    }

    fn neighbours(&self, field: &str, value: &Value<'_>) -> Result<Vec<Neighbour>, Fault> {
        let read = |text: &String| {
            let read = Neighbour::parse_with(text, self.descriptors);
            read.map_err(|fault| fault.during(self.place(&value.span())))
        };
        self.strings(field, value)?.iter().map(read).collect()
    }

    /// One stack: a string as after `--in`, or a list with one table per layer.
    fn stack(&self, value: &Value<'_>) -> Result<StackSpec, Fault> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Array(layers) => {
                let layers: Vec<String> =
                    layers.iter().map(|layer| self.layer(layer)).collect::<Result<_, _>>()?;
                layers.join("+")
            }
            _ => {
                return Err(self
                    .wrong_type("a stack", "a string or a list of tables", value)
                    .hint(
                        "write `\"qemu:memory=1G+runc\"`, or `[{ layer = \"qemu\", memory = \
                           \"1G\" }, { layer = \"runc\" }]`",
                    ));
            }
        };
        StackSpec::parse_with(&text, self.descriptors)
            .map_err(|fault| fault.during(self.place(&value.span())))
    }

    /// The text of a layer that is given as a table.
    fn layer(&self, value: &Value<'_>) -> Result<String, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self
                .wrong_type("a layer", "a table", value)
                .hint("write `{ layer = \"runc\" }`, or the whole stack as one string"));
        };
        let mut kind = None;
        let mut options = Vec::new();
        for (key, value) in table {
            let text = self.option_text(value)?;
            match key.get_ref().as_ref() {
                "layer" => kind = Some(text),
                key => options.push(format!("{key}={text}")),
            }
        }
        let kind = kind.ok_or_else(|| {
            self.refuse(&value.span(), "a layer without its name").hint("add `layer = \"runc\"`")
        })?;
        Ok(if options.is_empty() { kind } else { format!("{kind}:{}", options.join(",")) })
    }

    fn option_text(&self, value: &Value<'_>) -> Result<String, Fault> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(said) => said.to_string(),
            _ => return Err(self.wrong_type("an option", "a string or a number", value)),
        };
        match text.find(['+', ',']) {
            None => Ok(text),
            Some(_) => {
                let shown = text.escape_debug();
                Err(self.refuse(&value.span(), format!("the value `{shown}` holds `+` or `,`")))
            }
        }
    }
}

/// Writes a plan as a file that reads as the same plan again.
#[must_use]
pub fn write(plan: &Plan) -> String {
    let texts: Vec<String> = plan.stacks.iter().map(ToString::to_string).collect();
    let writable: Vec<String> =
        plan.writable.iter().map(|path| path.display().to_string()).collect();
    let mut lines = vec![
        String::from(
            "# A plan of surtax. `surtax plan FILE` shows every trial, `surtax run FILE` runs it.",
        ),
        format!("title = {}", toml_string(&plan.title)),
        match &plan.workload {
            Some(workload) => format!("workload = {}", toml_string(&workload.typed())),
            None => {
                let words: Vec<String> = plan.command.iter().map(toml_word).collect();
                format!("command = [{}]", words.join(", "))
            }
        },
        format!("stacks = {}", toml_strings(&texts)),
        format!("baseline = {}", toml_string(&plan.baseline.to_string())),
    ];
    if !plan.beside.is_empty() {
        let beside: Vec<String> = plan.beside.iter().map(ToString::to_string).collect();
        lines.push(format!("beside = {}", toml_strings(&beside)));
    }
    lines.extend(plan.runs.map(|runs| format!("runs = {runs}")));
    lines.extend(plan.time_budget().map(|time| format!("time = \"{}\"", duration::text(time))));
    let precision = plan.precision_ppm.map(percentage::text);
    lines.extend(precision.map(|share| format!("precision = \"{share}\"")));
    lines.push(format!("warm_up = {}", plan.warm_up));
    lines.extend(conduct_lines(plan));
    lines.push(format!("seed = {}", plan.seed));
    lines.push(format!("margin = \"{}\"", percentage::text(plan.equivalence_margin_ppm)));
    lines.push(format!("deadline = \"{}\"", duration::text(plan.command_deadline())));
    lines.push(format!("start_deadline = \"{}\"", duration::text(plan.start_deadline())));
    lines.push(format!("cwd = {}", toml_word(&plan.cwd.as_path().into())));
    if !writable.is_empty() {
        lines.push(format!("writable = {}", toml_strings(&writable)));
    }
    lines.join("\n") + "\n" + &environment_text(plan)
}

fn conduct_lines(plan: &Plan) -> Vec<String> {
    let conduct = &plan.conduct;
    let mut lines = vec![format!("iterations = {}", conduct.iterations)];
    if conduct.instances > 1 {
        lines.push(format!("instances = {}", conduct.instances));
    }
    lines.extend(conduct.cache.word().map(|word| format!("cache = \"{word}\"")));
    if !conduct.settle().is_zero() {
        lines.push(format!("settle = \"{}\"", duration::text(conduct.settle())));
    }
    lines.push(format!("env_padding = {}", conduct.padding_limit_bytes));
    if conduct.ignore_failure {
        lines.push(String::from("ignore_failure = true"));
    }
    if conduct.keep_disturbed {
        lines.push(String::from("keep_disturbed = true"));
    }
    lines
}

fn environment_text(plan: &Plan) -> String {
    let mut text = String::new();
    if !plan.inherit_environment {
        text += "inherit_environment = false\n";
    }
    if !plan.environment.is_empty() {
        text += "\n[environment]\n";
        for (name, value) in &plan.environment {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{} = {}", toml_string(name), toml_word(value));
        }
    }
    text
}

fn toml_word(word: &Word) -> String {
    match word.text() {
        Some(text) => toml_string(text),
        None => format!("{{ {ESCAPED} = {} }}", toml_string(&word.escaped())),
    }
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn toml_strings(texts: &[String]) -> String {
    let items: Vec<String> = texts.iter().map(|text| toml_string(text)).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests;
