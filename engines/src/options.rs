//! Options of an engine: what it takes, and what it was given as `--key value`, each read to its
//! type, with the one that is wrong named.

use super::{Engine, Refused};
use std::ops::RangeInclusive;
use std::time::Duration;

/// One option of an engine.
#[derive(Debug)]
pub struct OptionSpec {
    /// The word after `--`.
    pub key: &'static str,
    /// Word for the value that follows; empty for an option that is there or not.
    pub value: &'static str,
    /// One line for people, with the default.
    pub help: &'static str,
}

/// Describes an option in one line: its key, a word for its value, and its help with the default.
pub(crate) const fn option(
    key: &'static str,
    value: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { key, value, help }
}

/// The options of one call. A key that the engine does not take is refused when they are read.
#[derive(Debug, Default)]
pub struct Options {
    pairs: Vec<(&'static str, String)>,
}

impl Options {
    /// Reads the words after an engine's name.
    ///
    /// # Errors
    /// The user's: a key that there is not, one that is given twice, or one without its value.
    pub(crate) fn read(engine: &Engine, words: &[String]) -> Result<Self, Refused> {
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let key = word.strip_prefix("--").unwrap_or_default();
            let Some(choice) = engine.options.iter().find(|choice| choice.key == key) else {
                let shown = word.escape_debug();
                let keys: Vec<String> =
                    engine.options.iter().map(|choice| format!("--{}", choice.key)).collect();
                return Err(Refused::user(format!("`{}` takes no `{shown}`", engine.name))
                    .hint(format!("it takes {}", keys.join(", "))));
            };
            if pairs.iter().any(|(known, _)| *known == choice.key) {
                return Err(Refused::user(format!("`--{key}` is given twice")));
            }
            let value =
                if choice.value.is_empty() { Some(String::new()) } else { words.next().cloned() };
            let value = value.ok_or_else(|| {
                Refused::user(format!("`--{key}` lacks its value"))
                    .hint(format!("write `--{key} {}`: {}", choice.value, choice.help))
            })?;
            pairs.push((choice.key, value));
        }
        Ok(Self { pairs })
    }

    /// The text of an option, where it is given.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(known, _)| *known == key);
        pair.map(|(_, value)| value.as_str())
    }

    /// Tells whether an option is given at all.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.text(key).is_some()
    }

    /// One of these words; the first one where it is not given.
    ///
    /// # Errors
    /// The user's: it is none of them.
    pub fn word<'a>(&self, key: &str, words: &[&'a str]) -> Result<&'a str, Refused> {
        let Some(text) = self.text(key) else { return Ok(words.first().copied().unwrap_or("")) };
        words.iter().copied().find(|word| *word == text).ok_or_else(|| {
            let (shown, known) = (text.escape_debug(), words.join(", "));
            Refused::user(format!("`--{key} {shown}` is none of {known}"))
        })
    }

    /// A whole number within limits; a default where it is not given.
    ///
    /// # Errors
    /// The user's: it is none, or beyond the limits.
    pub fn number(
        &self,
        key: &str,
        default: u64,
        limits: RangeInclusive<u64>,
    ) -> Result<u64, Refused> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let (low, high) = (limits.start(), limits.end());
        text.parse().ok().filter(|number| limits.contains(number)).ok_or_else(|| {
            let shown = text.escape_debug();
            Refused::user(format!("`--{key} {shown}` is no whole number from {low} to {high}"))
        })
    }

    /// The same of a number that its limits keep small.
    ///
    /// # Errors
    /// As [`Options::number`].
    pub fn small(
        &self,
        key: &str,
        default: u64,
        limits: RangeInclusive<u64>,
    ) -> Result<usize, Refused> {
        self.number(key, default, limits).map(|it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// A duration such as `10s` or `250ms`; a default where it is not given.
    ///
    /// # Errors
    /// The user's: it is none.
    pub fn duration(&self, key: &str, default: Duration) -> Result<Duration, Refused> {
        let Some(text) = self.text(key) else { return Ok(default) };
        duration_of(text).ok_or_else(|| {
            let shown = text.escape_debug();
            Refused::user(format!("`--{key} {shown}` is no duration above 0"))
                .hint(format!("write one such as `--{key} 10s`, or with `ms` or `us`"))
        })
    }
}

/// A duration above 0 from a number and its unit: `s`, `ms`, `us`, `ns`, and seconds without one.
fn duration_of(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Duration::try_from_secs_f64(number * scale).ok().filter(|duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, ENGINES};
    use super::*;
    use std::collections::BTreeSet;

    const ENGINE: Engine = Engine {
        name: "x",
        about: "nothing",
        options: &[option("count", "N", "how many; 1"), option("poll", "", "polls")],
        run: |_| Ok(Answer::of("x")),
    };

    fn read(line: &str) -> Result<Options, Refused> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        Options::read(&ENGINE, &words)
    }

    #[test]
    fn no_name_is_that_of_two_engines_and_no_option_is_there_twice() {
        let names: BTreeSet<&str> = ENGINES.iter().map(|engine| engine.name).collect();
        assert_eq!(names.len(), ENGINES.len());
        for engine in ENGINES {
            let keys: BTreeSet<&str> = engine.options.iter().map(|option| option.key).collect();
            assert_eq!(keys.len(), engine.options.len(), "{}", engine.name);
            let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
            assert!(keys.into_iter().all(is_word), "{}", engine.name);
        }
    }

    #[test]
    fn what_an_engine_does_not_take_is_named_with_what_it_takes() {
        for (line, what, hint) in [
            ("--size 3", "`x` takes no `--size`", "it takes --count, --poll"),
            ("3", "`x` takes no `3`", "it takes --count, --poll"),
            ("--poll --poll", "`--poll` is given twice", ""),
            ("--count", "`--count` lacks its value", "write `--count N`: how many; 1"),
        ] {
            let refused = read(line).unwrap_err();
            assert_eq!((refused.what.as_str(), refused.hint.as_str()), (what, hint), "{line}");
            assert!(refused.is_users);
        }
    }

    #[test]
    fn options_have_types_limits_and_defaults() {
        let options = read("--poll --count 12").unwrap();
        assert!(options.has("poll") && !options.has("other"));
        assert_eq!(options.number("count", 1, 1..=12), Ok(12));
        assert_eq!(options.number("other", 7, 1..=2), Ok(7));
        let refused = options.number("count", 1, 1..=11).unwrap_err();
        assert_eq!(refused.what, "`--count 12` is no whole number from 1 to 11");
    }

    #[test]
    fn a_duration_has_a_unit_or_is_seconds() {
        for (text, nanoseconds) in
            [("2", 2_000_000_000), ("1.5s", 1_500_000_000), ("250ms", 250_000_000), ("3us", 3000)]
        {
            assert_eq!(duration_of(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "1h", "1e400", "nan", "é"] {
            assert_eq!(duration_of(text), None, "{text}");
        }
    }
}
