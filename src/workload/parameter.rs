//! Parameters: named words in the commands of a workload, each with a default and with limits.

use super::bounds::{PARAMETERS_MAX, VALUE_LENGTH};
use super::definition::{Client, Definition};
use super::instances::{INSTANCE, InstanceIndex, Share};
use super::metric::is_name;
use super::port::PORT;
use crate::fault::Fault;
use crate::layer::instead;
use regex::Regex;

/// One parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// As typed before `=`.
    pub name: String,
    /// Meaning of the parameter.
    pub about: String,
    /// The value where none is named.
    pub default: String,
    /// Values that it may have.
    pub kind: Kind,
    /// Way in which several instances share it; `None` where each has the same.
    pub share: Option<Share>,
}

/// Values that a parameter may have.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A whole number between these.
    Whole {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// One of these words.
    Words(Vec<String>),
    /// Text that the whole pattern matches.
    Pattern(Regex),
    /// Place where a client may be.
    Client,
}

/// A piece of a word with places for parameters.
enum Piece<'a> {
    Text(&'a str),
    Parameter(&'a str),
    Brace(char),
}

/// Reads `key=value,key=value`.
///
/// # Errors
/// The user's: a piece without `=`, or a key twice.
pub(super) fn assignments(text: &str, typed: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut found: Vec<(String, String)> = Vec::new();
    // The options of a stack are parted by commas, too: so where the client is comes last.
    let client = format!("{}=", Client::PARAMETER);
    let begins = |at: usize| at == 0 || text.as_bytes()[at - 1] == b',';
    let at = text.match_indices(&client).map(|(at, _)| at).find(|at| begins(*at));
    let (before, last) = at.map_or((text, None), |at| (&text[..at], Some(&text[at..])));
    let before = if last.is_some() { before.strip_suffix(',').unwrap_or("") } else { before };
    let pieces = before.split(',').filter(|piece| last.is_none() || !piece.is_empty());
    for piece in pieces.chain(last) {
        let Some((key, value)) = piece.split_once('=') else {
            let (piece, typed) = (piece.escape_debug(), typed.escape_debug());
            return Err(Fault::user(format!(
                "`{piece}` in `{typed}` is no parameter with a value"
            ))
            .hint("write it as in `disk.randwrite:size=64,depth=4`"));
        };
        if found.iter().any(|(known, _)| known == key) {
            let (key, typed) = (key.escape_debug(), typed.escape_debug());
            return Err(Fault::user(format!("the parameter `{key}` is twice in `{typed}`")));
        }
        found.push((key.to_owned(), value.to_owned()));
    }
    Ok(found)
}

impl Parameter {
    /// Says what it may be, if this value cannot be; `None` if it can.
    pub fn refusal(&self, value: &str) -> Option<String> {
        let is_fine = match &self.kind {
            Kind::Whole { min, max } => {
                value.parse::<i64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
            Kind::Words(words) => words.iter().any(|word| word == value),
            Kind::Pattern(pattern) => pattern.is_match(value),
            Kind::Client => Client::parse(value).is_ok(),
        };
        (!is_fine).then(|| self.kind.words())
    }
}

impl Kind {
    /// Says what it may be, for people.
    pub fn words(&self) -> String {
        match self {
            Self::Whole { min, max: i64::MAX } => format!("a whole number from {min} on"),
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Pattern(pattern) => format!("text that `{}` matches", pattern.as_str()),
            Self::Client => Client::WORDS.to_owned(),
        }
    }
}

impl Definition {
    /// These parameters in the order of the file, if it has all of them.
    pub(super) fn ordered(
        &self,
        name: &str,
        given: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, Fault> {
        let name = name.escape_debug();
        if given.len() > PARAMETERS_MAX {
            let count = given.len();
            return Err(Fault::user(format!(
                "`{name}` is given {count} parameters, and {PARAMETERS_MAX} at most are read"
            ))
            .hint("name each parameter once"));
        }
        for (key, value) in &given {
            let Some(known) = self.parameters.iter().find(|known| known.name == *key) else {
                let shown = key.escape_debug();
                let valid = self.parameters.iter().map(|known| known.name.as_str());
                return Err(Fault::user(format!("`{name}` has no parameter `{shown}`"))
                    .hint(instead(key, "parameters", valid)));
            };
            if value.len() > VALUE_LENGTH {
                let length = value.len();
                return Err(Fault::user(format!(
                    "the value of `{key}` is {length} bytes long, and {VALUE_LENGTH} at most are \
                     read"
                ))
                .hint("put what is longer into a file, and name that"));
            }
            if let Some(wanted) = known.refusal(value) {
                let value = value.escape_debug();
                return Err(Fault::user(format!(
                    "`{key}={value}` cannot be a parameter of `{name}`"
                ))
                .hint(format!("`{key}` is {wanted}")));
            }
        }
        let place = |(key, _): &(String, String)| {
            self.parameters.iter().position(|known| known.name == *key)
        };
        let mut ordered = given;
        ordered.sort_by_key(place);
        Ok(ordered)
    }

    /// Puts what one of several instances has in the place of what all have together.
    fn share(
        &self,
        name: &str,
        given: &mut Vec<(String, String)>,
        place: InstanceIndex,
    ) -> Result<(), Fault> {
        for parameter in &self.parameters {
            let Some(share) = parameter.share else { continue };
            let key = &parameter.name;
            let said = given.iter().position(|(known, _)| known == key);
            let all = said.map_or(&parameter.default, |at| &given[at].1);
            let own = share.apply(key, all, place)?;
            if let Some(wanted) = parameter.refusal(&own) {
                let (InstanceIndex { instance, count }, name) = (place, name.escape_debug());
                return Err(Fault::user(format!(
                    "instance {instance} of {count} would have `{key}={own}`, which cannot be a \
                     parameter of `{name}`"
                ))
                .hint(format!("`{key}` is {wanted}")));
            }
            match said {
                Some(at) => given[at].1 = own,
                None => given.push((key.clone(), own)),
            }
        }
        Ok(())
    }

    /// The same with these values in every command.
    pub(super) fn with(
        mut self,
        name: &str,
        given: &[(String, String)],
        place: InstanceIndex,
    ) -> Result<Self, Fault> {
        let mut given = self.ordered(name, given.to_vec())?;
        if place.count > 1 {
            self.share(name, &mut given, place)?;
        }
        given.push((INSTANCE.to_owned(), place.instance.to_string()));
        let parameters = std::mem::take(&mut self.parameters);
        let value = |wanted: &str| {
            let named = given.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
            named.or_else(|| Some(&parameters.iter().find(|it| it.name == wanted)?.default))
        };
        let fill = |word: &mut String| {
            let filled = pieces(word).into_iter().map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Brace(brace) => brace.to_string(),
                // The address of the server is known when the stack stands.
                Piece::Parameter(name) => {
                    value(name).cloned().unwrap_or_else(|| format!("{{{name}}}"))
                }
            });
            *word = filled.collect();
        };
        let others = self.server.iter_mut().chain(&mut self.beside).flatten();
        self.command.iter_mut().chain(others).for_each(fill);
        if let Some(word) = value(Client::PARAMETER).filter(|_| self.server.is_some()) {
            self.client = Client::parse(word)?;
        }
        self.port = value(PORT).and_then(|port| port.parse().ok());
        self.setup.iter_mut().chain(&mut self.cleanup).flatten().for_each(fill);
        self.parameters = parameters;
        Ok(self)
    }
}

/// The parameters that a word names.
pub(super) fn named_in(word: &str) -> Vec<&str> {
    let name = |piece| match piece {
        Piece::Parameter(name) => Some(name),
        _ => None,
    };
    pieces(word).into_iter().filter_map(name).collect()
}

/// Tells whether the braces of a word pair as they are written, and do not once each two are one:
/// then `}}` was meant as two.
pub(super) fn has_mistaken_braces(word: &str) -> bool {
    let surplus = |text: &str| {
        text.matches('{').count().cast_signed() - text.matches('}').count().cast_signed()
    };
    let filled: isize = pieces(word)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => surplus(text),
            Piece::Parameter(_) => 0,
            Piece::Brace(brace) => surplus(brace.encode_utf8(&mut [0; 4])),
        })
        .sum();
    surplus(word) == 0 && filled != 0
}

/// A word in pieces: `{name}` is a parameter, `{{` and `}}` are braces, and a brace that is
/// followed by anything else or follows a `$` is itself, so that `${name}` and most shell lines
/// need no care.
fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let from = &rest[at..];
        let is_shells = rest[..at].ends_with('$');
        rest = if let Some(after) = from.strip_prefix("{{") {
            pieces.push(Piece::Brace('{'));
            after
        } else if let Some(after) = from.strip_prefix("}}") {
            pieces.push(Piece::Brace('}'));
            after
        } else if let Some((name, after)) = parameter_at(from).filter(|_| !is_shells) {
            pieces.push(Piece::Parameter(name));
            after
        } else {
            pieces.push(Piece::Text(&from[..1]));
            &from[1..]
        };
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// The name in braces that a text begins with, and what follows it.
fn parameter_at(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('{')?.split_once('}').filter(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brace_is_a_place_only_around_a_name() {
        assert_eq!(named_in("--size={size}M --x={depth}"), ["size", "depth"]);
        assert_eq!(named_in("{{size}} ${HOME} {Size} {} }{ {a"), Vec::<&str>::new());
        let texts = |word| -> String {
            let text = |piece| match piece {
                Piece::Text(text) => String::from(text),
                Piece::Brace(brace) => String::from(brace),
                Piece::Parameter(name) => format!("<{name}>"),
            };
            pieces(word).into_iter().map(text).collect()
        };
        assert_eq!(texts("awk '{{print}}' ${home} {n}"), "awk '{print}' ${home} <n>");
        assert_eq!(texts("}{"), "}{");
    }

    #[test]
    fn two_braces_that_were_meant_as_two_are_noticed() {
        for word in ["{ if (x) { print }}", "{\"a\": {\"b\": 1}}", "{ echo ${x}}", "{{ a } b }"] {
            assert!(has_mistaken_braces(word), "{word}");
        }
        for word in [
            "{ if (x) { print } }", "{{ if (x) {{ print }} }}", "{print {n}}", "grep '^{{'",
            "print \"}}\"", "${HOME} {n} {{n}}",
        ] {
            assert!(!has_mistaken_braces(word), "{word}");
        }
    }

    #[test]
    fn assignments_are_pairs_and_none_is_said_twice() {
        let read = assignments("a=1,b=x=y", "t").unwrap();
        assert_eq!(read, [("a".into(), "1".into()), ("b".into(), "x=y".into())]);
        let beside = assignments("a=1,client=qemu:accel=tcg,net=tap", "t").unwrap();
        assert_eq!(beside[1], ("client".into(), "qemu:accel=tcg,net=tap".into()));
        assert_eq!(assignments("client=é,", "t").unwrap(), [("client".into(), "é,".into())]);
        assert_eq!(
            assignments("a", "t:a").unwrap_err().message,
            "`a` in `t:a` is no parameter with a value"
        );
        assert_eq!(
            assignments("a=1,a=2", "t:a=1,a=2").unwrap_err().message,
            "the parameter `a` is twice in `t:a=1,a=2`"
        );
    }
}
