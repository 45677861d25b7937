//! Rules of a workload file for the numbers that its command prints: where they are, and what they
//! must be.

use super::bounds::{PATTERN_LENGTH, PATTERN_SIZE, beginning, path_fault};
use super::definition::{Check, Limits, Rule, Setting, Version};
use super::extract::Extract;
use super::instances::Fold;
use super::keys::{CHECK_KEYS, HISTOGRAM_KEYS, METRIC_KEYS, SETTING_KEYS, VERSION_KEYS};
use super::metric::{Better, is_name, name_fault};
use super::reader::{Fields, Reader, Value};
use super::unit::{self, UNITS};
use crate::fault::Fault;
use crate::layer::instead;
use regex::{Regex, RegexBuilder};
use serde_json_path::JsonPath;
use std::ops::Range;

impl Reader<'_> {
    pub(super) fn version(&self, value: &Value<'_>) -> Result<Version, Fault> {
        let fields = self.table("`version`", &VERSION_KEYS, value)?;
        let known = self.strings("known", fields.need("known")?)?;
        let command = self.command("command", fields.need("command")?, &[])?;
        Ok(Version { command, extract: self.extract(&fields)?, known })
    }

    /// Every table of a list of them.
    pub(super) fn each<T>(
        &self,
        field: &str,
        value: Option<&Value<'_>>,
        read: impl Fn(&Value<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let Some(list) = value.get_ref().as_array() else {
            let hint = format!("write `[[{field}]]` in double brackets");
            return Err(self.wrong_type(field, "a list of tables", value).hint(hint));
        };
        list.iter().map(read).collect()
    }

    pub(super) fn check(&self, value: &Value<'_>) -> Result<Check, Fault> {
        let fields = self.table("a check", &CHECK_KEYS, value)?;
        let (extract, limits) = (self.extract(&fields)?, limits(&fields)?);
        Ok(Check { about: fields.string("about")?, extract, limits })
    }

    pub(super) fn metric(&self, value: &Value<'_>) -> Result<Rule, Fault> {
        let fields = self.table("a metric", &METRIC_KEYS, value)?;
        let better = fields.string("better")?;
        let better = Better::of_word(&better).ok_or_else(|| {
            let shown = better.escape_debug();
            let hint = instead(&better, "directions", Better::ALL.map(Better::word));
            fields
                .refuse(format!("`{shown}` is no direction in which a metric is better"))
                .hint(hint)
        })?;
        let why = fields.get("why").map(|path| self.path("why", path)).transpose()?;
        let rule = self.rule(&fields, better)?;
        if why.is_some() && !rule.is_optional {
            return Err(fields
                .refuse("it says where the reason is, and not that there may be one")
                .hint("add `optional = true`, or leave `why` out"));
        }
        Ok(Rule { why, ..rule })
    }

    pub(super) fn histogram(&self, value: &Value<'_>) -> Result<Rule, Fault> {
        let fields = self.table("a histogram", &HISTOGRAM_KEYS, value)?;
        let rule = self.rule(&fields, Better::Lower)?;
        if rule.unit.kept != "ns" {
            return Err(fields
                .refuse("a histogram is of times")
                .hint("use `ns`, `us`, `ms` or `s`"));
        }
        Ok(rule)
    }

    pub(super) fn setting(&self, value: &Value<'_>) -> Result<Setting, Fault> {
        let fields = self.table("a setting", &SETTING_KEYS, value)?;
        let name = fields.string("name")?;
        if !is_name(&name) {
            let shown = name.escape_debug();
            return Err(fields.refuse(format!("`{shown}` cannot be the name of a setting")).hint(
                "use small letters, digits and `_`, beginning with a letter, as in `placement`",
            ));
        }
        Ok(Setting { name, extract: self.extract(&fields)? })
    }

    fn rule(&self, fields: &Fields<'_, '_>, better: Better) -> Result<Rule, Fault> {
        let name = fields.string("name")?;
        if let Some(why) = name_fault(&name) {
            let shown = name.escape_debug();
            return Err(fields.refuse(format!("`{shown}` cannot be a metric: {why}")));
        }
        let unit = fields.string("unit")?;
        let unit = unit::find(&unit).ok_or_else(|| {
            let hint = match unit::meant(&unit) {
                Some(meant) => format!("use `{}`", meant.printed),
                None => instead(&unit, "units", UNITS.iter().map(|unit| unit.printed)),
            };
            fields.refuse(format!("`{}` is no unit", unit.escape_debug())).hint(hint)
        })?;
        let (extract, limits) = (self.extract(fields)?, limits(fields)?);
        let is_optional = self.truth("optional", fields.get("optional"))?;
        let fold = match fields.get("instances") {
            Some(word) => self.one_of("instances", word, &Fold::ALL.map(|it| (it.word(), it)))?,
            None => Fold::usual(unit),
        };
        Ok(Rule { name, unit, better, extract, limits, is_optional, why: None, fold })
    }

    fn extract(&self, fields: &Fields<'_, '_>) -> Result<Extract, Fault> {
        match (fields.get("jsonpath"), fields.get("regex")) {
            (Some(path), None) => self.path("jsonpath", path),
            (None, Some(_)) if self.is_outline => Ok(Extract::Unread),
            (None, Some(pattern)) => {
                let text = self.string("regex", pattern)?;
                let read = self.regex(&text, &pattern.span())?;
                if read.captures_len() != 2 {
                    let message = format!("`{text}` has not exactly one group");
                    let hint = if read.captures_len() == 1 {
                        "put the number into parentheses `( )`; where only a text shows it, let \
                         the command print a number: `cmp a b && echo same 1`"
                    } else {
                        "keep the parentheses around the number, and write other groups as `(?:…)`"
                    };
                    return Err(self.refuse(&pattern.span(), message).hint(hint));
                }
                Ok(Extract::Pattern(read))
            }
            _ => Err(fields.refuse("it takes either `jsonpath` or `regex`")),
        }
    }

    fn path(&self, field: &str, value: &Value<'_>) -> Result<Extract, Fault> {
        if self.is_outline {
            return Ok(Extract::Unread);
        }
        let text = self.string(field, value)?;
        if let Some(why) = path_fault(&text) {
            let shown = beginning(&text);
            return Err(self
                .refuse(&value.span(), format!("`{shown}` cannot be read as a JSONPath: {why}"))
                .hint("let the command print less, and name the number as in `$.read.iops`"));
        }
        let read = JsonPath::parse(&text).map_err(|error| {
            self.refuse(&value.span(), format!("`{text}` is no JSONPath: {error}"))
                .hint("paths are those of RFC 9535, as in `$.jobs[0].read.iops`")
        })?;
        Ok(Extract::Path(read))
    }

    pub(super) fn regex(&self, text: &str, span: &Range<usize>) -> Result<Regex, Fault> {
        let (length, shown) = (text.len(), beginning(text));
        if length > PATTERN_LENGTH {
            let message = format!(
                "`{shown}` is {length} bytes long, and a regex has {PATTERN_LENGTH} at most"
            );
            return Err(self
                .refuse(span, message)
                .hint("match only the line that shows the number: `(?m)^rate: ([0-9.]+)$`"));
        }
        RegexBuilder::new(text).size_limit(PATTERN_SIZE).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                let limit = PATTERN_SIZE >> 10;
                let message = format!(
                    "`{shown}` takes more than {limit} KiB once it is compiled, and no more is read"
                );
                self.refuse(span, message).hint(
                    "write `[0-9]` for `\\d` and `[A-Za-z0-9_]` for `\\w`, which mean those of \
                     every script, and repeat less",
                )
            }
            error => {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or_default().to_owned();
                self.refuse(span, format!("`{text}` is no regular expression: {last}"))
            }
        })
    }
}

fn limits(fields: &Fields<'_, '_>) -> Result<Limits, Fault> {
    let limits = Limits { min: fields.number("min")?, max: fields.number("max")? };
    match (limits.min, limits.max) {
        (Some(min), Some(max)) if min > max => Err(fields.refuse("its `min` is above its `max`")),
        _ => Ok(limits),
    }
}
