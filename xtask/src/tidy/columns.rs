//! Columns: comments and prose are at most 100 wide, as rustfmt holds code, which looks at neither.
//!
//! A line without a place to break it is spared: a link, a long word of code, a table, a drawing, a
//! quoted text. Code is wider only where a literal is, of which there may be as many as there are.

use super::Finding;
use super::links::outside_code;
use super::tree::Tree;

/// The most, in characters, as in `rustfmt.toml`.
const WIDTH: usize = 100;

/// Lines of code that are wider, for a literal in them. May become fewer.
const WIDE_LITERALS: usize = 106;

/// A span of code or a link up to this length is not broken.
const WHOLE: usize = 72;

/// Pages that are made by a program.
const MADE: &str = "docs/layers/";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wide = Vec::new();
    for (path, text) in tree.files() {
        if path.ends_with(".md") && !path.starts_with(MADE) {
            findings.extend(prose(path, text));
        } else if path.ends_with(".rs") {
            let mut is_quoted = false;
            for (index, line) in text.lines().enumerate() {
                let comment = comment(line);
                is_quoted = comment.is_some_and(|it| is_quoted ^ is_fence(it));
                if line.chars().count() <= WIDTH {
                    continue;
                }
                match comment {
                    Some(words) if !is_quoted && may_be_broken(words) => {
                        findings.push(found(path, index));
                    }
                    Some(_) => {}
                    None => wide.push((path, index)),
                }
            }
        }
    }
    let more = wide.iter().skip(WIDE_LITERALS);
    findings.extend(more.map(|(path, index)| found(path, *index)));
    findings
}

fn prose<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Finding> + 'a {
    outside_code(text)
        .filter(|(_, line)| line.chars().count() > WIDTH && may_be_broken(line))
        .map(|(number, _)| found(path, number - 1))
}

fn found(path: &str, index: usize) -> Finding {
    Finding::new(path, index + 1, format!("more than {WIDTH} columns: break it at a space"))
}

/// Tells whether quoted text begins or ends at a line.
fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Contents of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.strip_prefix(['/', '!']).unwrap_or(rest))
}

/// Tells whether there is a place to break a line of prose that is too long.
fn may_be_broken(line: &str) -> bool {
    let text = line.strip_prefix(' ').unwrap_or(line);
    let starts = ["|", "```", "#", ">", "<", "["];
    let is_form = starts.iter().any(|it| text.trim_start().starts_with(it));
    let is_drawn = ["──", "══"].iter().any(|it| text.contains(it)) || text.starts_with("    ");
    !is_form && !is_drawn && breaks(text) > 0
}

/// Number of spaces between words, those in short spans of code and in links left out.
fn breaks(text: &str) -> usize {
    let text = text.trim().trim_start_matches(['-', '*', ' ']);
    let mut count = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let whole = match c {
            '`' => rest[1..].find('`').map(|end| end + 2),
            '[' => link(rest),
            _ => None,
        };
        let is_kept = |length: &usize| rest[..*length].chars().count() <= WHOLE;
        let step = whole.filter(is_kept).unwrap_or_else(|| c.len_utf8());
        count += usize::from(c == ' ');
        rest = &rest[step..];
    }
    count
}

/// Length of the link at the beginning of a text, if there is one.
fn link(text: &str) -> Option<usize> {
    let middle = text.find("](")?;
    let target = &text[middle..];
    let end = target.find([')', ' '])?;
    (target[end..].starts_with(')') && !text[1..middle].contains(']')).then_some(middle + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|it| it.line).collect()
    }

    #[test]
    fn a_comment_or_a_paragraph_that_is_too_wide_is_found() {
        let long = "word ".repeat(25);
        let both = format!("/// {long}\n    // {long}\nfn a() {{}}\n");
        assert_eq!(places("src/a.rs", &both), [1, 2]);
        assert_eq!(places("docs/a.md", &format!("short\n\n- {long}\n")), [3]);
    }

    #[test]
    fn what_has_no_place_to_break_is_spared() {
        let word = "w".repeat(120);
        let cell = "word ".repeat(25);
        let lines = [
            format!("see {word}"),
            format!("| {cell} |"),
            format!("`{}`", "c ".repeat(34).trim()),
            format!("```\n{cell}\n```"),
        ];
        assert!(places("docs/a.md", &lines[1..].join("\n")).is_empty());
        assert_eq!(places("docs/a.md", &lines[0]), [1]);
        assert!(places("src/a.rs", &format!("// {word}\n/// | {cell} |\n")).is_empty());
        let example = format!("/// ```\n/// // {cell}\n/// ```\nfn a() {{}}\n");
        assert!(places("src/a.rs", &example).is_empty());
    }

    #[test]
    fn code_may_be_as_wide_as_its_literals_but_no_more_of_it_than_there_is() {
        let line = format!("const A: &str = \"{}\";\n", "a".repeat(100));
        assert!(places("src/a.rs", &line.repeat(WIDE_LITERALS)).is_empty());
        assert_eq!(places("src/a.rs", &line.repeat(WIDE_LITERALS + 1)), [WIDE_LITERALS + 1]);
    }
}
