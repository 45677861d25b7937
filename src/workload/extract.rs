//! Place of a number in what a tool printed: a JSONPath (RFC 9535), or a regular expression.
//!
//! Either must find exactly one thing. A number that is found twice is as bad as one that is
//! missing: one of the two is another one.

use super::json::Document;
use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

/// Place of something in an output.
#[derive(Clone, Debug)]
pub enum Extract {
    /// In JSON.
    Path(JsonPath),
    /// In text: what the one group captures.
    Pattern(Regex),
    /// A place that was left unread, in the outline of a workload, which reads no output.
    Unread,
}

/// Number of the last lines that are shown of an output in which a pattern matches nothing.
const LINES_SHOWN: usize = 3;

/// Largest part shown of each of them, in characters.
const LINE_MAX: usize = 100;

/// Advice where the value is on standard error.
const ADD: &str = "add `2>&1`, as in `[\"sh\", \"-c\", \"PROGRAM 2>&1\"]`";

/// Output of a tool.
pub struct Printed<'a> {
    text: &'a str,
    /// Name of that text in errors.
    place: &'static str,
    /// Text printed on standard error: never read, and looked at where the other says nothing.
    aside: &'a str,
    /// The first document, and how many there are.
    json: Option<(Document, usize)>,
}

impl<'a> Printed<'a> {
    /// Reads it as text, and as JSON where a line begins some: tools write warnings before it.
    pub fn of(text: &'a str) -> Self {
        Self { text, place: "standard output", aside: "", json: documents(text) }
    }

    /// The same, with what was printed on standard error.
    pub fn beside(self, aside: &'a str) -> Self {
        Self { aside, ..self }
    }

    /// The same, under another name in errors.
    pub fn called(self, place: &'static str) -> Self {
        Self { place, ..self }
    }

    /// Returns its one JSON document; fails where there is none, more than one, or one that
    /// contradicts itself.
    fn json(&self) -> Result<&Value, String> {
        match &self.json {
            Some((Document { value, twice: None }, 1)) => Ok(value),
            Some((Document { twice: Some(name), .. }, 1)) => {
                let name: String = name.chars().take(LINE_MAX).collect();
                Err(format!(
                    "its JSON has two values of one `{name}`, and which one counts cannot be told"
                ))
            }
            Some((_, count)) => Err(format!(
                "it printed {count} JSON documents, and which one counts cannot be told: let it \
                 print one, as `| tail -n 1` does with lines"
            )),
            None if documents(self.aside).is_some() => Err(format!(
                "it printed no JSON on {}, and some on standard error: {ADD}",
                self.place
            )),
            None => Err(String::from("it printed no JSON")),
        }
    }

    /// Says why a pattern that matches nothing does so, as far as that can be seen.
    fn missed(&self, pattern: &Regex) -> String {
        let Self { text, place, aside, .. } = self;
        if pattern.is_match(aside) {
            return format!(
                "`{pattern}` matches nothing on {place}; it does match standard error: {ADD}"
            );
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN));
        let shown =
            last.map(|line| format!("`{}`", line.chars().take(LINE_MAX).collect::<String>()));
        match shown.collect::<Vec<_>>().join(", ") {
            last if last.is_empty() => format!("`{pattern}` matches nothing: {place} is empty"),
            last => format!("`{pattern}` matches nothing on {place}, which ends with {last}"),
        }
    }
}

/// The first JSON document in a text, and how many there are: each begins a line or follows
/// another.
fn documents(text: &str) -> Option<(Document, usize)> {
    let mut rest = text;
    let mut found: Option<(Document, usize)> = None;
    while !rest.is_empty() {
        if rest.starts_with(['{', '[']) {
            let mut read = serde_json::Deserializer::from_str(rest).into_iter::<Document>();
            if let Some(Ok(json)) = read.next() {
                rest = &rest[read.byte_offset()..];
                let (line, _) = rest.split_once('\n').unwrap_or((rest, ""));
                let line = line.trim_start();
                let is_followed = line.starts_with(['{', '[']);
                found = match found {
                    None => Some((json, 1)),
                    // A line of text such as `[1] done` is no document.
                    Some((first, count)) => {
                        let is_whole = line.is_empty() || is_followed;
                        Some((first, count + usize::from(is_whole)))
                    }
                };
                if is_followed {
                    rest = rest.trim_start();
                    continue;
                }
            }
        }
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    found
}

impl Extract {
    /// The one value there, as JSON; what a pattern captures is a string.
    pub fn value(&self, printed: &Printed<'_>) -> Result<Value, String> {
        match self {
            Self::Path(path) => {
                let json = printed.json()?;
                let found = path.query(json).all();
                match found.as_slice() {
                    [one] => Ok((*one).clone()),
                    [] => Err(format!("`{path}` finds nothing")),
                    many => Err(format!("`{path}` finds {} values, not one", many.len())),
                }
            }
            Self::Pattern(pattern) => {
                let mut found = pattern.captures_iter(printed.text);
                let first = found.next().and_then(|captures| captures.get(1));
                let first = first.ok_or_else(|| printed.missed(pattern))?;
                match found.count() {
                    0 => Ok(Value::String(first.as_str().to_owned())),
                    more => Err(format!("`{pattern}` matches {} times, not once", more + 1)),
                }
            }
            Self::Unread => Err(String::from("where it stands was left unread")),
        }
    }

    /// The one text there.
    pub fn text(&self, printed: &Printed<'_>) -> Result<String, String> {
        match self.value(printed)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("`{self}` finds no text but {}", kind(&other))),
        }
    }

    /// The one number there.
    pub fn number(&self, printed: &Printed<'_>) -> Result<f64, String> {
        let value = self.value(printed)?;
        let number = match &value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            other => return Err(format!("`{self}` finds no number but {}", kind(other))),
        };
        number.filter(|number: &f64| number.is_finite()).ok_or_else(|| {
            let shown: String = value.to_string().chars().take(40).collect();
            format!("`{self}` finds {shown}, which is no number")
        })
    }
}

impl std::fmt::Display for Extract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{path}"),
            Self::Pattern(pattern) => write!(f, "{pattern}"),
            Self::Unread => f.write_str("unread"),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Extract {
        Extract::Pattern(Regex::new(text).unwrap())
    }

    fn path(text: &str) -> Extract {
        Extract::Path(JsonPath::parse(text).unwrap())
    }

    #[test]
    fn json_is_found_behind_warnings_and_before_more() {
        let text = "note: both are set\n[not json\n{\"a\": {\"n\": 7, \"s\": \"8.5\", \"t\": \
                    true}}\nbye\n";
        let printed = Printed::of(text);
        assert_eq!(path("$.a.n").number(&printed), Ok(7.0));
        assert_eq!(path("$.a.s").number(&printed), Ok(8.5));
        let fault = path("$.a.t").number(&printed).unwrap_err();
        assert!(fault.ends_with("finds no number but a truth value"), "{fault}");
        let fault = path("$.a.x").number(&printed).unwrap_err();
        assert!(fault.ends_with("finds nothing"), "{fault}");
        let fault = path("$.a.*").number(&printed).unwrap_err();
        assert!(fault.ends_with("finds 3 values, not one"), "{fault}");
        assert_eq!(path("$.a").number(&Printed::of("{\"a\": ")), Err("it printed no JSON".into()));
    }

    #[test]
    fn of_several_json_documents_none_is_taken() {
        for (text, count) in [
            ("{\"a\": 1}\n{\"a\": 2}\n", 2),
            ("note\n{\"a\": 1} {\"a\": 2}{\"a\": 3}", 3),
            ("{\n\"a\": 1\n}\nthen\n[\n2]\n", 2),
        ] {
            let fault = path("$.a").number(&Printed::of(text)).unwrap_err();
            assert!(fault.starts_with(&format!("it printed {count} JSON documents, ")), "{fault}");
        }
        let text = "{\"a\": 1}\n[1] done\n[12:30] {\nbye {}\n";
        assert_eq!(path("$.a").number(&Printed::of(text)), Ok(1.0));
    }

    #[test]
    fn of_two_values_of_one_name_none_is_taken() {
        let printed = Printed::of("{\"rate\": 1, \"n\": 3, \"rate\": 9}\n");
        for place in ["$.rate", "$.n"] {
            let fault = path(place).number(&printed).unwrap_err();
            assert!(fault.starts_with("its JSON has two values of one `rate`, "), "{fault}");
        }
        // Said twice, and the same: nothing is contradicted.
        assert_eq!(path("$.rate").number(&Printed::of("{\"rate\": 9, \"rate\": 9}")), Ok(9.0));
    }

    #[test]
    fn what_is_on_standard_error_is_not_read_and_said() {
        let printed = Printed::of("").beside("took 0.1 s\n{\"a\": 1}\n");
        let fault = pattern("took ([0-9.]+) s").number(&printed).unwrap_err();
        assert!(
            fault.contains("nothing on standard output; it does match standard error"),
            "{fault}"
        );
        assert!(fault.ends_with("PROGRAM 2>&1\"]`"), "{fault}");
        let fault = path("$.a").number(&printed).unwrap_err();
        assert!(fault.starts_with("it printed no JSON on standard output, and some on"), "{fault}");
    }

    #[test]
    fn a_pattern_matches_once_or_is_refused() {
        let printed = Printed::of("rate: 12.5 ops\nrate: 9 ops\nname: x\n");
        assert_eq!(pattern(r"rate: ([0-9.]+) ops\nname").number(&printed), Ok(9.0));
        let fault = pattern("rate: ([0-9.]+)").number(&printed).unwrap_err();
        assert_eq!(fault, "`rate: ([0-9.]+)` matches 2 times, not once");
        let fault = pattern("speed: (.*)").number(&printed).unwrap_err();
        let last = "`rate: 12.5 ops`, `rate: 9 ops`, `name: x`";
        assert_eq!(
            fault,
            format!("`speed: (.*)` matches nothing on standard output, which ends with {last}")
        );
        let fault = pattern("speed: (.*)").number(&Printed::of("\n")).unwrap_err();
        assert_eq!(fault, "`speed: (.*)` matches nothing: standard output is empty");
        let fault = pattern("name: (.)").number(&printed).unwrap_err();
        assert_eq!(fault, "`name: (.)` finds \"x\", which is no number");
        let fault = pattern("name: (.)").number(&Printed::of("name: inf")).unwrap_err();
        assert!(fault.ends_with("which is no number"), "{fault}");
    }
}
