//! Reads the values of a workload file, with errors that name the line.

use crate::fault::Fault;
use crate::layer::instead;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value, and where it stands.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// The text that is read.
pub struct Reader<'a> {
    pub text: &'a str,
    /// Name of the text in errors.
    pub name: &'a str,
    /// True if it reads what is measured, and leaves unread where that stands in an output.
    pub is_outline: bool,
}

/// A table whose keys are known.
pub struct Fields<'r, 'v> {
    reader: &'r Reader<'r>,
    table: &'v DeTable<'v>,
    /// Place of the table in the text.
    span: Range<usize>,
    /// Name of its kind, for people: `a metric`.
    what: &'static str,
}

impl<'r> Reader<'r> {
    /// The user's fault about one place of the file.
    pub fn refuse(&self, span: &Range<usize>, message: impl Display) -> Fault {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|&&byte| byte == b'\n').count();
        Fault::user(format!("{}:{line}: {message}", self.name))
    }

    /// The text of the line where something begins.
    pub fn line(&self, span: &Range<usize>) -> &str {
        let at = span.start.min(self.text.len());
        let (before, after) = self.text.split_at_checked(at).unwrap_or((self.text, ""));
        let start = before.rfind('\n').map_or(0, |feed| feed + 1);
        let end = after.find('\n').map_or(self.text.len(), |feed| at + feed);
        self.text.get(start..end).unwrap_or_default()
    }

    /// A table with no other keys than these.
    pub fn fields<'v>(
        &'r self,
        what: &'static str,
        keys: &[&'static str],
        table: &'v DeTable<'v>,
        span: Range<usize>,
    ) -> Result<Fields<'r, 'v>, Fault> {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !keys.contains(&name) {
                let message = format!("{what} has no key `{}`", name.escape_debug());
                let hint = instead(name, "keys", keys.iter().copied());
                return Err(self.refuse(&key.span(), message).hint(hint));
            }
        }
        Ok(Fields { reader: self, table, span, what })
    }

    /// The same of a value.
    pub fn table<'v>(
        &'r self,
        what: &'static str,
        keys: &[&'static str],
        value: &'v Value<'v>,
    ) -> Result<Fields<'r, 'v>, Fault> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong_type(what, "a table", value));
        };
        self.fields(what, keys, table, value.span())
    }

    pub fn wrong_type(&self, field: &str, wanted: &str, value: &Value<'_>) -> Fault {
        let kind = value.get_ref().type_str();
        self.refuse(&value.span(), format!("`{field}` is {wanted}, and not of type {kind}"))
    }

    pub fn string(&self, field: &str, value: &Value<'_>) -> Result<String, Fault> {
        let text = value.get_ref().as_str();
        text.map(str::to_owned).ok_or_else(|| self.wrong_type(field, "a string", value))
    }

    /// `true` or `false`, the latter where nothing is said.
    pub fn truth(&self, field: &str, value: Option<&Value<'_>>) -> Result<bool, Fault> {
        let Some(value) = value else { return Ok(false) };
        let said = value.get_ref().as_bool();
        said.ok_or_else(|| self.wrong_type(field, "`true` or `false`", value))
    }

    /// A list of strings.
    pub fn strings(&self, field: &str, value: &Value<'_>) -> Result<Vec<String>, Fault> {
        let Some(list) = value.get_ref().as_array() else {
            let fault = self.wrong_type(field, "a list of strings", value);
            return Err(
                fault.hint(format!("write one word per string: `{field} = [\"…\", \"…\"]`"))
            );
        };
        list.iter().map(|item| self.string(field, item)).collect()
    }

    /// A number, whole or not.
    pub fn number(&self, field: &str, value: &Value<'_>) -> Result<f64, Fault> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().replace('_', "").parse().ok(),
            DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.wrong_type(field, "a decimal number", value))
    }

    /// A whole number, in decimal digits.
    pub fn whole(&self, field: &str, value: &Value<'_>) -> Result<i64, Fault> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|it| i64::from_str_radix(it.as_str(), it.radix()).ok());
        number.ok_or_else(|| self.wrong_type(field, "a whole number", value))
    }
}

impl<'r, 'v> Fields<'r, 'v> {
    pub fn get(&self, key: &str) -> Option<&'v Value<'v>> {
        self.table.get(key)
    }

    /// The value of a key that must be there.
    pub fn need(&self, key: &str) -> Result<&'v Value<'v>, Fault> {
        let lacking = || self.refuse(format!("{} has no `{key}`", self.what));
        self.get(key).ok_or_else(|| lacking().hint(format!("add `{key} = …`")))
    }

    /// The user's fault about the whole table.
    pub fn refuse(&self, message: impl Display) -> Fault {
        self.reader.refuse(&self.span, message)
    }

    pub fn string(&self, key: &str) -> Result<String, Fault> {
        self.reader.string(key, self.need(key)?)
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>, Fault> {
        self.get(key).map(|value| self.reader.number(key, value)).transpose()
    }
}
