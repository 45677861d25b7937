//! Where a number is in what a tool printed: a JSONPath (RFC 9535), or a regular expression.
//!
//! Either must find exactly one thing. A number that is found twice is as bad as one that is missing:
//! one of the two is another one.

use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

/// Where something is.
#[derive(Clone, Debug)]
pub enum Extract {
    /// In JSON.
    Path(JsonPath),
    /// In text: what the one group captures.
    Pattern(Regex),
}

/// What a tool printed.
pub struct Printed<'a> {
    text: &'a str,
    json: Option<Value>,
}

impl<'a> Printed<'a> {
    /// Reads it as text, and as JSON where a line begins some: tools write warnings before it.
    pub fn of(text: &'a str) -> Self {
        let mut at = 0;
        let mut json = None;
        for line in text.split_inclusive('\n') {
            if line.starts_with(['{', '[']) {
                let read = serde_json::Deserializer::from_str(&text[at..]).into_iter().next();
                json = read.and_then(Result::ok);
                if json.is_some() {
                    break;
                }
            }
            at += line.len();
        }
        Self { text, json }
    }
}

impl Extract {
    /// The one value there, as JSON; what a pattern captures is a string.
    pub fn value(&self, printed: &Printed<'_>) -> Result<Value, String> {
        match self {
            Self::Path(path) => {
                let json = printed.json.as_ref().ok_or("it printed no JSON")?;
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
                let first = first.ok_or_else(|| format!("`{pattern}` matches nothing"))?;
                match found.count() {
                    0 => Ok(Value::String(first.as_str().to_owned())),
                    more => Err(format!("`{pattern}` matches {} times, not once", more + 1)),
                }
            }
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
        let text = "note: both are set\n[not json\n{\"a\": {\"n\": 7, \"s\": \"8.5\", \"t\": true}}\nbye\n";
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
    fn a_pattern_matches_once_or_is_refused() {
        let printed = Printed::of("rate: 12.5 ops\nrate: 9 ops\nname: x\n");
        assert_eq!(pattern(r"rate: ([0-9.]+) ops\nname").number(&printed), Ok(9.0));
        let fault = pattern("rate: ([0-9.]+)").number(&printed).unwrap_err();
        assert_eq!(fault, "`rate: ([0-9.]+)` matches 2 times, not once");
        let fault = pattern("speed: (.*)").number(&printed).unwrap_err();
        assert_eq!(fault, "`speed: (.*)` matches nothing");
        let fault = pattern("name: (.)").number(&printed).unwrap_err();
        assert_eq!(fault, "`name: (.)` finds \"x\", which is no number");
        let fault = pattern("name: (.)").number(&Printed::of("name: inf")).unwrap_err();
        assert!(fault.ends_with("which is no number"), "{fault}");
    }
}
