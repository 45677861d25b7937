//! Circles: files that name each other, directly or by way of others, and can only be understood
//! together.
//!
//! A path such as `crate::lab::{Room, find}` or `super::Room` leads to the file that defines what
//! is named: to the longest module on its way, and through a `pub use` of that module to where it
//! comes from. Tests name whom they like.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The most files of the host side that may stand in one circle.
const MOST: usize = 8;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let circles = circles(&Graph::of(tree));
    let too_large = circles.into_iter().filter(|circle| circle.len() > MOST);
    too_large.map(|circle| finding(&circle)).collect()
}

/// The sizes of all circles, the largest first.
pub fn note(tree: &Tree) -> String {
    let sizes: Vec<String> =
        circles(&Graph::of(tree)).iter().map(|it| it.len().to_string()).collect();
    format!("import circles, in files: {}; at most {MOST}", sizes.join(", "))
}

fn finding(circle: &[String]) -> Finding {
    let message = format!(
        "{} files import each other in a circle, and at most {MOST} may: {}",
        circle.len(),
        circle.join(", ")
    );
    Finding::new(&circle[0], 1, message)
}

/// Graph of the files and of those that they name.
struct Graph {
    /// Files by the path of their module: `lab::room`.
    files: BTreeMap<String, String>,
    /// By the paths of modules, what they publish of others: a name, and the path where it comes
    /// from.
    published: BTreeMap<String, BTreeMap<String, String>>,
    /// By modules, the modules that they name.
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn of(tree: &Tree) -> Self {
        let sources: Vec<(String, &str, &RustSource)> = tree
            .rust()
            .filter_map(|(path, source)| Some((module_of(path)?, path, source)))
            .collect();
        let files: BTreeMap<String, String> =
            sources.iter().map(|(module, path, _)| (module.clone(), (*path).to_owned())).collect();
        let mut graph = Self { files, published: BTreeMap::new(), edges: BTreeMap::new() };
        for (module, _, source) in &sources {
            let published = graph.published_by(module, source);
            graph.published.insert(module.clone(), published);
        }
        for (module, _, source) in &sources {
            let named = paths(module, source).into_iter().chain(graph.below(module, source));
            let named = named.map(|path| graph.resolved(&path));
            let others = named.filter(|it| !it.is_empty() && it != module).collect();
            graph.edges.insert(module.clone(), others);
        }
        graph
    }

    /// The names that a module takes from another and publishes.
    fn published_by(&self, module: &str, source: &RustSource) -> BTreeMap<String, String> {
        let mut published = BTreeMap::new();
        for begin in ["pub use ", "pub(crate) use ", "pub(super) use "] {
            for at in source.find(begin) {
                let rest = &source.code[at + begin.len()..];
                for path in expanded(&rest[..rest.find(';').unwrap_or(rest.len())]) {
                    let path = match path.split_once("::") {
                        Some(("crate", rest)) => rest.to_owned(),
                        Some(("super", rest)) => joined(parent(module), rest),
                        Some(("self", rest)) => joined(module, rest),
                        // Of a module below, or another crate.
                        _ => joined(module, &path),
                    };
                    if let Some((whence, name)) = path.rsplit_once("::")
                        && self.files.contains_key(whence)
                    {
                        published.insert(name.to_owned(), path.clone());
                    }
                }
            }
        }
        published
    }

    /// The paths into modules right below a module that it names, but for what it only publishes.
    fn below(&self, module: &str, source: &RustSource) -> Vec<String> {
        let begin = if module.is_empty() { String::new() } else { format!("{module}::") };
        let names = self.files.keys().filter_map(|it| it.strip_prefix(&begin));
        let mut found = Vec::new();
        for name in names.filter(|name| !name.is_empty() && !name.contains("::")) {
            for at in source.find(&format!("{name}::")) {
                let before = &source.code[..at];
                let statement = before.rfind(';').map_or(0, |end| end + 1);
                let publishes = before[statement..].trim_start().starts_with("pub");
                let is_published = publishes && before[statement..].contains(" use ");
                if !is_published && !before.ends_with("::") {
                    found.extend(expanded(&source.code[at..]).iter().map(|it| joined(module, it)));
                }
            }
        }
        found
    }

    /// The module that defines what a path from the root leads to; empty for the root.
    fn resolved(&self, path: &str) -> String {
        let mut path = path.to_owned();
        // A name that is published on and on in a circle does not compile.
        for _ in 0..16 {
            let words: Vec<&str> = path.split("::").collect();
            let known =
                (0..=words.len()).rev().find(|&n| self.files.contains_key(&words[..n].join("::")));
            let Some(known) = known.filter(|&known| known > 0) else { return String::new() };
            let module = words[..known].join("::");
            let next = words.get(known).and_then(|name| self.published.get(&module)?.get(*name));
            match next {
                Some(whence) => path = joined(whence, &words[known + 1..].join("::")),
                None => return module,
            }
        }
        path
    }

    /// The modules that one leads to, directly or by way of others.
    fn reached_from<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![module]);
        while let Some(module) = open.pop() {
            for other in self.edges.get(module).into_iter().flatten() {
                if reached.insert(other.as_str()) {
                    open.push(other);
                }
            }
        }
        reached
    }
}

/// The path of the module that a file of the host side is; the root has an empty one.
fn module_of(path: &str) -> Option<String> {
    let path = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let is_root = ["lib", "main"].contains(&path);
    Some(if is_root { String::new() } else { path.replace('/', "::") })
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn joined(module: &str, rest: &str) -> String {
    if module.is_empty() || rest.is_empty() {
        format!("{module}{rest}")
    } else {
        format!("{module}::{rest}")
    }
}

/// The paths that a module names outside of its tests, from the root.
fn paths(module: &str, source: &RustSource) -> Vec<String> {
    let mut found = Vec::new();
    for begin in ["crate::", "super::"] {
        for at in source.find(begin) {
            let before = &source.code[..at];
            // Who may see an item is no import.
            if before.ends_with("super::") || before.ends_with("(in ") {
                continue;
            }
            let mut base = if begin == "crate::" { "" } else { parent(module) };
            let mut rest = &source.code[at + begin.len()..];
            while let Some(further) = rest.strip_prefix("super::") {
                (base, rest) = (parent(base), further);
            }
            found.extend(expanded(rest).iter().map(|path| joined(base, path)));
        }
    }
    found
}

/// The paths of one tree of a `use`: `a::{b, c::{self, d}}` is three.
fn expanded(text: &str) -> Vec<String> {
    let is_of_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let end = text.find(|letter| !is_of_path(letter)).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let path = path.trim_end_matches(':');
    let Some(group) = rest.strip_prefix('{') else { return vec![path.to_owned()] };
    let (mut depth, mut begin, mut all) = (0_usize, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let inner = group[begin..at].trim();
                begin = at + 1;
                let inner = if inner.is_empty() { Vec::new() } else { expanded(inner) };
                all.extend(inner.into_iter().map(|it| match it.as_str() {
                    "self" => path.to_owned(),
                    it => joined(path, it),
                }));
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    all
}

/// The circles of more than one file, the largest first: each of its files leads to each other.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let modules = graph.edges.keys().map(|module| (module.as_str(), graph.reached_from(module)));
    let reached: BTreeMap<&str, BTreeSet<&str>> = modules.collect();
    let leads_back = |from: &str, to: &str| reached.get(from).is_some_and(|it| it.contains(to));
    let (mut circles, mut seen) = (Vec::new(), BTreeSet::new());
    for (&module, others) in &reached {
        let circle = || others.iter().copied().filter(|other| leads_back(other, module));
        if circle().count() > 1 && seen.insert(module) {
            seen.extend(circle());
            let mut files: Vec<String> = circle().map(|it| graph.files[it].clone()).collect();
            files.sort();
            circles.push(files);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&Graph::of(&Tree::of(files)))
    }

    #[test]
    fn a_circle_is_found_through_groups_parents_and_what_is_published() {
        let files = [
            ("src/lib.rs", "pub mod a; pub mod b;"),
            ("src/a/mod.rs", "mod c; pub use c::{C, D as E};"),
            ("src/a/c.rs", "use crate::{b::{self, B}, fault};"),
            ("src/b.rs", "fn f() { crate::a::C::new() }"),
            ("src/fault.rs", "use std::fmt;"),
        ];
        assert_eq!(found(&files), [["src/a/c.rs", "src/b.rs"]]);
    }

    #[test]
    fn one_way_and_tests_are_no_circle() {
        let files = [
            ("src/a.rs", "use crate::b::B;\n"),
            ("src/b.rs", "struct B;\n#[cfg(test)]\nmod tests { use crate::a; }\n"),
        ];
        assert!(found(&files).is_empty());
        let files = [
            ("src/a/mod.rs", "mod b; mod c;"),
            ("src/a/b.rs", "use super::c::C;"),
            ("src/a/c.rs", ""),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn two_files_of_one_room_that_name_each_other_by_super_are_one() {
        let files = [
            ("src/a/mod.rs", "mod b; mod c;"),
            ("src/a/b.rs", "use super::c::C;"),
            ("src/a/c.rs", "fn f() { super::b::g() }"),
        ];
        assert_eq!(found(&files), [["src/a/b.rs", "src/a/c.rs"]]);
    }

    #[test]
    fn who_may_see_an_item_is_no_import() {
        let files =
            [("src/a/mod.rs", "mod b; use b::B;"), ("src/a/b.rs", "pub(in crate::a) struct B;")];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_module_that_needs_what_is_below_it_is_one_with_it() {
        let below = ("src/a/b.rs", "use super::A;");
        assert!(found(&[("src/a/mod.rs", "mod b; pub use b::B; struct A;"), below]).is_empty());
        let files = [("src/a/mod.rs", "mod b; use b::B; struct A(B);"), below];
        assert_eq!(found(&files), [["src/a/b.rs", "src/a/mod.rs"]]);
    }
}
