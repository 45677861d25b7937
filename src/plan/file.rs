//! Plan files: a plan as TOML, read with errors that name the line, and written.
//!
//! A key that is not known is refused with the nearest one that is: a plan that silently ignored
//! `warmup = 3` would measure something else than its author believes.

use super::word::ESCAPED;
use super::{Cache, Draft, Neighbour, Plan, Word, duration, percentage, shelf};
use crate::fault::Fault;
use crate::layer::{Descriptor, StackSpec, instead};
use crate::meter::MeterSpec;
use crate::regular_file;
use crate::workload::Workload;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest plan file, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Every key of a plan file, in the order in which [`write()`] writes them.
pub const KEYS: [&str; 28] = [
    "title", "command", "workload", "stacks", "baseline", "beside", "meters", "runs", "time",
    "precision", "looks", "warm_up", "iterations", "instances", "cache", "settle", "env_padding",
    "watch", "ignore_failure", "keep_disturbed", "seed", "margin", "deadline", "start_deadline",
    "cwd", "writable", "inherit_environment", "environment",
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

    /// Passes on what was read of a value; a fault says where that stands.
    fn at<T>(&self, value: &Value<'_>, read: Result<T, Fault>) -> Result<T, Fault> {
        read.map_err(|fault| fault.during(self.place(&value.span())))
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
                let found = Workload::find(self.string(field, value)?);
                draft.workload = Some(self.at(value, found)?);
            }
            "stacks" => draft.stacks = self.stacks(value)?,
            "baseline" => draft.baseline = Some(self.stack(value)?),
            "beside" => draft.beside = self.neighbours(field, value)?,
            "meters" => draft.meters = self.meters(field, value)?,
            "runs" => draft.runs = Some(self.whole(field, value)?),
            "time" => draft.time = Some(self.duration(field, value)?),
            "precision" => draft.precision_ppm = Some(self.share(field, value)?),
            "looks" => draft.looks = Some(self.whole(field, value)?),
            "warm_up" => draft.warm_up = Some(self.whole(field, value)?),
            "iterations" => draft.conduct.iterations = Some(self.whole(field, value)?),
            "instances" => draft.conduct.instances = Some(self.whole(field, value)?),
            "cache" => {
                let state = Cache::parse(self.string(field, value)?);
                draft.conduct.cache = Some(self.at(value, state)?);
            }
            "settle" => draft.conduct.settle = Some(self.duration(field, value)?),
            "watch" => draft.conduct.watch = Some(self.interval(field, value)?),
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
            "environment" => draft.environment = self.environment(value)?,
            other => return Err(Fault::bug(format!("nobody reads the key `{other}` of a plan"))),
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
                    let line = toml_strings(["sh", "-c", text]).unwrap_or_default();
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
        self.at(value, duration::parse(text))
    }

    fn interval(&self, field: &str, value: &Value<'_>) -> Result<Duration, Fault> {
        let text = value.get_ref().as_str().ok_or_else(|| {
            let hint = format!("write `{field} = \"1s\"`, or `\"off\"`");
            self.wrong_type(field, "a duration or `off`", value).hint(hint)
        })?;
        self.at(value, duration::parse_interval(text))
    }

    fn share(&self, field: &str, value: &Value<'_>) -> Result<u32, Fault> {
        let text = value.get_ref().as_str().ok_or_else(|| {
            let hint = format!("write `{field} = \"3%\"`");
            self.wrong_type(field, "a percentage", value).hint(hint)
        })?;
        self.at(value, percentage::parse(text))
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
        let read = |text: &String| self.at(value, Neighbour::parse_with(text, self.descriptors));
        self.strings(field, value)?.iter().map(read).collect()
    }

    fn meters(&self, field: &str, value: &Value<'_>) -> Result<Vec<MeterSpec>, Fault> {
        let read = |text: &String| self.at(value, MeterSpec::parse(text));
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
        self.at(value, StackSpec::parse_with(&text, self.descriptors))
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
    let conduct = &plan.conduct;
    let time = |time| toml_string(&duration::text(time));
    let share = |ppm| toml_string(&percentage::text(ppm));
    let command: Vec<String> = plan.command.iter().map(toml_word).collect();
    let command = format!("[{}]", command.join(", "));
    let is_settled = !conduct.settle().is_zero();
    let lines = [
        ("title", Some(toml_string(&plan.title))),
        ("command", plan.workload.is_none().then_some(command)),
        ("workload", plan.workload.as_ref().map(|workload| toml_string(&workload.typed()))),
        ("stacks", toml_strings(&plan.stacks)),
        ("baseline", Some(toml_string(&plan.baseline.to_string()))),
        ("beside", toml_strings(&plan.beside)),
        ("meters", toml_strings(&plan.meters)),
        ("runs", plan.runs.map(|runs| runs.to_string())),
        ("time", plan.time_budget().map(time)),
        ("precision", plan.precision_ppm.map(share)),
        ("looks", (!plan.looks().is_empty()).then(|| plan.looks.to_string())),
        ("warm_up", Some(plan.warm_up.to_string())),
        ("iterations", Some(conduct.iterations.to_string())),
        ("instances", (conduct.instances > 1).then(|| conduct.instances.to_string())),
        ("cache", conduct.cache.word().map(toml_string)),
        ("settle", is_settled.then(|| time(conduct.settle()))),
        ("watch", conduct.watch().map(|watch| toml_string(&duration::interval_text(watch)))),
        ("env_padding", Some(conduct.padding_limit_bytes.to_string())),
        ("ignore_failure", conduct.ignore_failure.then(|| true.to_string())),
        ("keep_disturbed", conduct.keep_disturbed.then(|| true.to_string())),
        ("seed", Some(plan.seed.to_string())),
        ("margin", Some(share(plan.equivalence_margin_ppm))),
        ("deadline", Some(time(plan.command_deadline()))),
        ("start_deadline", Some(time(plan.start_deadline()))),
        ("cwd", Some(toml_word(&plan.cwd.as_path().into()))),
        ("writable", toml_strings(plan.writable.iter().map(|path| path.display()))),
        ("inherit_environment", (!plan.inherit_environment).then(|| false.to_string())),
    ];
    let said = lines.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
    let variable =
        |(name, value): &(String, Word)| format!("{} = {}\n", toml_string(name), toml_word(value));
    let variables = plan.environment.iter().map(variable);
    let heading = (!plan.environment.is_empty()).then(|| String::from("\n[environment]\n"));
    let head =
        "# A plan of surtax. `surtax plan FILE` shows every trial, `surtax run FILE` runs it.\n";
    std::iter::once(head.to_owned()).chain(said).chain(heading).chain(variables).collect()
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

/// A list of such strings; `None` where it would be empty.
fn toml_strings<T: ToString>(texts: impl IntoIterator<Item = T>) -> Option<String> {
    let items: Vec<String> = texts.into_iter().map(|it| toml_string(&it.to_string())).collect();
    (!items.is_empty()).then(|| format!("[{}]", items.join(", ")))
}

#[cfg(test)]
mod tests;
