//! Workload files: TOML, read with errors that name the line and the nearest key that there is.

use super::bounds::{TEXT_MAX, require_few_patterns, require_few_rules};
use super::definition::{Client, Definition, Kind, METRICS_MAX, Parameter};
use super::instances::{INSTANCE, Share};
use super::keys::{KEYS, PARAMETER_KEYS};
use super::metric::is_name;
use super::parameter::{has_mistaken_braces, named_in};
use super::port::PORT;
use super::reader::{Fields, Reader, Value};
use crate::fault::Fault;
use crate::layer::instead;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Name of the server's address in a word of a workload with two sides: where the client finds it,
/// and where the server itself listens.
pub const ADDRESS: &str = "address";

/// Names that such a workload gives a meaning of its own.
const RESERVED: [&str; 2] = [ADDRESS, Client::PARAMETER];

/// The parameter that says where the client is.
fn client() -> Parameter {
    Parameter {
        name: Client::PARAMETER.to_owned(),
        about: String::from(
            "where the client is: outside (`native`), in the stack (`stack`; the server is outside \
             then), or in another stack beside it, also on another machine, `ssh:HOST`; the last \
             parameter",
        ),
        default: String::from("native"),
        kind: Kind::Client,
        share: None,
    }
}

/// Largest part shown of a word with wrong braces, in characters.
const WORD_SHOWN: usize = 80;

/// Reads the text of a workload file; `name` is what errors call it.
///
/// # Errors
/// The user's, with the line.
pub fn parse(text: &str, name: &str) -> Result<Definition, Fault> {
    let reader = Reader { text, name, is_outline: false };
    let table = document(&reader)?;
    let file = reader.fields("a workload", &KEYS, table.get_ref(), 0..0)?;
    require_few_rules(&file)?;
    require_few_patterns(&file)?;
    let parameters = reader.all_parameters(&file)?;
    let optional = |key| file.get(key).map(|it| reader.command(key, it, &parameters)).transpose();
    let mut definition = Definition {
        about: file.string("about")?,
        command: reader.command("command", file.need("command")?, &parameters)?,
        beside: optional("beside")?,
        server: optional("server")?,
        stops_server: reader.truth("stop_server", file.get("stop_server"))?,
        is_over_udp: reader.truth("udp", file.get("udp"))?,
        listens: reader.truth("listens", file.get("listens"))?,
        port: None,
        client: Client::default(),
        setup: reader.commands("setup", file.get("setup"), &parameters)?,
        cleanup: reader.commands("cleanup", file.get("cleanup"), &parameters)?,
        packages: file.get("packages").map_or(Ok(Vec::new()), |it| reader.packages(it))?,
        scratch: reader.truth("scratch", file.get("scratch"))?,
        is_alone: reader.truth("alone", file.get("alone"))?,
        is_of_fixed_time: reader.truth("fixed_time", file.get("fixed_time"))?,
        parameters,
        version: file.get("version").map(|it| reader.version(it)).transpose()?,
        checks: reader.each("check", file.get("check"), |it| reader.check(it))?,
        metrics: reader.each("metric", file.get("metric"), |it| reader.metric(it))?,
        histograms: reader.each("histogram", file.get("histogram"), |it| reader.histogram(it))?,
        settings: reader.each("setting", file.get("setting"), |it| reader.setting(it))?,
    };
    require_sides(&definition, &file)?;
    // Where only wall time counts, there is at least a sign that the work was done.
    if definition.metrics.is_empty()
        && definition.histograms.is_empty()
        && definition.checks.is_empty()
    {
        return Err(file.refuse("it measures nothing and checks nothing").hint(
            "add a metric: `[[metric]]`, then `name`, `unit`, `better`, and `jsonpath` or `regex`; \
             or a `[[check]]`, if wall time is what counts",
        ));
    }
    require_names(&definition, &file)?;
    definition.parameters.shrink_to_fit();
    Ok(definition)
}

/// Reads of such a text what findings need: the names and units of what it measures, and whether it
/// works for a time that it is told. Its commands and parameters are left out, and no path or regex
/// of it is read, so that a stranger's costs little and is shown whatever else it says.
///
/// # Errors
/// The user's, with the line.
pub fn outline(text: &str, name: &str) -> Result<Definition, Fault> {
    let reader = Reader { text, name, is_outline: true };
    let table = document(&reader)?;
    let file = reader.fields("a workload", &KEYS, table.get_ref(), 0..0)?;
    require_few_rules(&file)?;
    Ok(Definition {
        about: file.string("about")?,
        is_of_fixed_time: reader.truth("fixed_time", file.get("fixed_time"))?,
        metrics: reader.each("metric", file.get("metric"), |it| reader.metric(it))?,
        histograms: reader.each("histogram", file.get("histogram"), |it| reader.histogram(it))?,
        ..Definition::default()
    })
}

/// The TOML of a text, unless it is longer than any file.
fn document<'a>(reader: &Reader<'a>) -> Result<Spanned<DeTable<'a>>, Fault> {
    let (name, length) = (reader.name, reader.text.len());
    if length > TEXT_MAX {
        return Err(Fault::user(format!(
            "{name}: it is {length} bytes long, and {TEXT_MAX} at most are read"
        ))
        .hint("leave out what no workload needs: a long script has a file of its own"));
    }
    DeTable::parse(reader.text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let fault = reader.refuse(&span, error.message().replace('\n', ", "));
        let line = reader.line(&span);
        if error.message().contains("escape")
            && ["regex", "pattern"].iter().any(|key| line.contains(key))
        {
            return fault.hint("write regexes in single quotes: `regex = '(\\d+)'`");
        }
        fault
    })
}

/// That no two things which are measured, and no two settings, have one name.
fn require_names(definition: &Definition, file: &Fields<'_, '_>) -> Result<(), Fault> {
    let mut names = definition.metric_names();
    if names.len() > METRICS_MAX {
        let count = names.len();
        return Err(file
            .refuse(format!("it measures {count} things, and {METRICS_MAX} at most are read"))
            .hint("leave out what nobody compares: a histogram alone is ten quantiles"));
    }
    names.extend(definition.histograms.iter().map(|rule| rule.name.clone()));
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(file.refuse(format!("two of its metrics are called `{}`", twice[0])));
    }
    let mut names: Vec<&str> = definition.settings.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(file.refuse(format!("two of its settings are called `{}`", twice[0]))),
        None => Ok(()),
    }
}

/// That what is said of a server fits the sides that the workload has.
fn require_sides(definition: &Definition, file: &Fields<'_, '_>) -> Result<(), Fault> {
    if definition.is_over_udp && definition.server.is_none() {
        return Err(file
            .refuse("`udp` says how its server is called, and it has none")
            .hint("add `server = [\"…\"]`"));
    }
    if definition.listens && definition.server.is_some() {
        return Err(file
            .refuse(
                "`listens` is said of a workload whose own command does, and this one has a \
                     `server`",
            )
            .hint("leave `listens` out: a server is known to"));
    }
    if definition.listens && definition.parameters.iter().all(|it| it.name != PORT) {
        return Err(file.refuse("it listens, and has no parameter that says at which port").hint(
            "add `port = { about = \"…\", default = …, min = 1, max = 65535 }` to `[parameters]`",
        ));
    }
    if definition.stops_server && definition.server.is_none() {
        return Err(file.refuse("it stops its server and has none").hint("add `server = [\"…\"]`"));
    }
    Ok(())
}

impl Reader<'_> {
    /// The parameters of a file, and those that every file of its kind has.
    fn all_parameters(&self, file: &Fields<'_, '_>) -> Result<Vec<Parameter>, Fault> {
        let mut parameters =
            file.get("parameters").map_or(Ok(Vec::new()), |it| self.parameters(it))?;
        if parameters.iter().any(|it| it.name == INSTANCE) {
            return Err(file
                .refuse(format!("`{{{INSTANCE}}}` is the number of an instance, and no parameter"))
                .hint("give that parameter another name"));
        }
        if file.get("server").is_some() {
            if let Some(taken) = parameters.iter().find(|it| RESERVED.contains(&it.name.as_str())) {
                let message =
                    format!("a workload with a `server` has a `{}` of its own", taken.name);
                return Err(file.refuse(message).hint("give that parameter another name"));
            }
            parameters.push(client());
        }
        Ok(parameters)
    }

    fn commands(
        &self,
        field: &str,
        value: Option<&Value<'_>>,
        parameters: &[Parameter],
    ) -> Result<Vec<Vec<String>>, Fault> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.wrong_type(field, "a list of commands", value));
        };
        if list.iter().any(|item| item.get_ref().is_str()) {
            return Err(self
                .refuse(&value.span(), format!("`{field}` is a list of commands"))
                .hint(format!(
                    "each is a list of words itself: `{field} = [[\"mkdir\", \"/scratch/a\"]]`"
                )));
        }
        list.iter().map(|item| self.command(field, item, parameters)).collect()
    }

    /// Words, at least one, that name no other parameters than there are.
    pub(super) fn command(
        &self,
        field: &str,
        value: &Value<'_>,
        parameters: &[Parameter],
    ) -> Result<Vec<String>, Fault> {
        let words = self.strings(field, value)?;
        if words.first().is_none_or(String::is_empty) {
            return Err(self.refuse(&value.span(), format!("`{field}` names no program")));
        }
        if let Some(word) = words.iter().find(|word| has_mistaken_braces(word)) {
            let word: String = word.chars().take(WORD_SHOWN).collect();
            let message = format!(
                "two braces together are one in a word of `{field}`, and what is left does not \
                 pair: `{}`",
                word.escape_debug()
            );
            return Err(self.refuse(&value.span(), message).hint(
                "keep them apart, as in `{ if (x) { print } }`, or write each brace twice, as in \
                 `{{ if (x) {{ print }} }}`",
            ));
        }
        let mut known: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
        known.push(INSTANCE);
        if known.contains(&Client::PARAMETER) {
            known.push(ADDRESS);
        }
        for named in words.iter().flat_map(|word| named_in(word)) {
            if !known.contains(&named) {
                let message = format!("`{{{named}}}` in `{field}` is no parameter of this file");
                let or = instead(named, "parameters", known);
                let hint =
                    format!("{or}; braces that mean themselves are written `{{{{{named}}}}}`");
                return Err(self.refuse(&value.span(), message).hint(hint));
            }
        }
        Ok(words)
    }

    fn packages(&self, value: &Value<'_>) -> Result<Vec<(String, Vec<String>)>, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self
                .wrong_type("packages", "a table by distribution", value)
                .hint("write `packages = { debian = [\"fio\"] }`"));
        };
        let one = |(name, list): (&Spanned<DeString<'_>>, &Value<'_>)| {
            let packages = self.strings("packages", list)?;
            if packages.is_empty() {
                return Err(self.refuse(&list.span(), "a distribution without a package"));
            }
            Ok((name.get_ref().to_string(), packages))
        };
        table.iter().map(one).collect()
    }

    fn parameters(&self, value: &Value<'_>) -> Result<Vec<Parameter>, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong_type("parameters", "a table", value));
        };
        let mut found: Vec<(usize, Parameter)> = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if !is_name(name) {
                let message =
                    format!("`{}` cannot be the name of a parameter", name.escape_debug());
                let hint = "use small letters, digits and `_`, beginning with a letter";
                return Err(self.refuse(&key.span(), message).hint(hint));
            }
            found.push((key.span().start, self.parameter(name, value)?));
        }
        found.sort_by_key(|(start, _)| *start);
        Ok(found.into_iter().map(|(_, parameter)| parameter).collect())
    }

    fn parameter(&self, name: &str, value: &Value<'_>) -> Result<Parameter, Fault> {
        let fields = self.table("a parameter", &PARAMETER_KEYS, value)?;
        let default = fields.need("default")?;
        let limit = |key| fields.get(key).map(|it| self.whole(key, it)).transpose();
        let (default, kind) = match default.get_ref() {
            DeValue::Integer(_) => {
                let (min, max) = (limit("min")?.unwrap_or(0), limit("max")?.unwrap_or(i64::MAX));
                (self.whole("default", default)?.to_string(), Kind::Whole { min, max })
            }
            DeValue::String(text) => (text.to_string(), self.words_or_pattern(&fields)?),
            _ => {
                let fault = self.wrong_type("default", "a string or a whole number", default);
                return Err(fault.hint(
                    "write another number as text, with what it may be: `default = \"0.5\", \
                     pattern = '[0-9.]+'`",
                ));
            }
        };
        let about = fields.string("about")?;
        let share = match fields.get("instances") {
            Some(_) if !matches!(kind, Kind::Whole { .. }) => {
                return Err(fields
                    .refuse(format!("`{name}` is text, and instances can only share a number"))
                    .hint("leave `instances` out; `{instance}` in a word is the number of each"));
            }
            Some(word) => {
                Some(self.one_of("instances", word, &Share::ALL.map(|it| (it.word(), it)))?)
            }
            None => None,
        };
        let parameter = Parameter { name: name.to_owned(), about, default, kind, share };
        match parameter.refusal(&parameter.default) {
            Some(wanted) => {
                let shown = parameter.default.escape_debug();
                Err(fields.refuse(format!("the default `{shown}` of `{name}` is not {wanted}")))
            }
            None => Ok(parameter),
        }
    }

    /// Returns the meaning of one of these words, and refuses any other.
    pub(super) fn one_of<T: Copy>(
        &self,
        field: &str,
        value: &Value<'_>,
        known: &[(&'static str, T)],
    ) -> Result<T, Fault> {
        let word = self.string(field, value)?;
        let found = known.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant);
        found.ok_or_else(|| {
            let shown = word.escape_debug();
            self.refuse(&value.span(), format!("`{field}` cannot be `{shown}`")).hint(instead(
                &word,
                "words",
                known.iter().map(|(word, _)| *word),
            ))
        })
    }

    fn words_or_pattern(&self, fields: &Fields<'_, '_>) -> Result<Kind, Fault> {
        match (fields.get("words"), fields.get("pattern")) {
            (Some(words), None) => Ok(Kind::Words(self.strings("words", words)?)),
            (None, Some(pattern)) => {
                let whole = format!("^(?:{})$", self.string("pattern", pattern)?);
                Ok(Kind::Pattern(self.regex(&whole, &pattern.span())?))
            }
            _ => Err(fields.refuse("a parameter that is text has either `words` or `pattern`")),
        }
    }
}

#[cfg(test)]
mod tests;
