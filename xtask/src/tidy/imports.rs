//! Imports: which part of surtax may know of which. ARCHITECTURE.md says why.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;

/// The rooms of the host side, from the ground up, and those below each that it may name: whole, or
/// one part of it. Nobody names a room above, so that none can stand in a circle. What is not
/// listed may name all.
const ROOMS: &[(&str, &[&str])] = &[
    ("fault", &[]),
    ("regular_file", &[]),
    ("agent", &["fault"]),
    ("lab", &["fault"]),
    ("layer", &["agent", "lab", "fault"]),
    ("rootfs", &["layer", "lab", "fault"]),
    ("container", &["rootfs", "layer", "agent", "lab", "fault"]),
    ("guest", &["rootfs", "layer", "agent", "lab", "fault"]),
    ("driver", &["guest", "container", "rootfs", "layer", "agent", "lab", "fault"]),
    ("stack", &["driver", "rootfs", "layer", "agent", "lab", "fault"]),
    ("workload", &["driver", "layer", "fault"]),
    ("plan", &["workload", "stack", "driver", "layer", "fault"]),
    ("trial", &["workload", "plan", "stack", "driver", "layer", "agent", "lab", "fault"]),
    (
        "ledger",
        &[
            "trial",
            "workload",
            "plan",
            "stack",
            "layer",
            "lab::state",
            "lab::byte_lock",
            "lab::sudoer",
            "lab::exclusive",
            "fault",
        ],
    ),
    ("campaign", &["ledger", "trial", "plan", "stack", "layer", "fault"]),
    (
        "finding",
        &["ledger", "trial", "plan", "workload", "stack", "driver", "rootfs", "layer", "fault"],
    ),
    ("report", &["finding", "plan", "workload", "fault"]),
    ("serve", &["report", "finding", "campaign", "ledger", "trial", "plan", "lab", "fault"]),
    (
        "prove",
        &[
            "report", "finding", "campaign", "ledger", "trial", "plan", "workload", "stack",
            "driver", "rootfs", "layer", "lab", "agent", "fault",
        ],
    ),
];

/// Modules that know of nobody, and that all may name.
const EVERYBODYS: &[&str] = &["regular_file"];

/// A crate, where it stands, and which of our crates it may name.
const CRATES: &[(&str, &[&str])] = &[
    ("instrument/", &[]),
    ("statistics/", &[]),
    ("engines/", &["surtax_instrument"]),
    ("agent/", &["surtax_instrument", "surtax_engines"]),
    ("xtask/", &[]),
    ("fuzz/", &["surtax_instrument", "surtax_engines", "surtax_statistics", "surtax"]),
    ("src/", &["surtax_instrument", "surtax_engines", "surtax_statistics", "surtax"]),
];

/// Our crates by the names that code calls them.
const OURS: &[&str] =
    &["surtax", "surtax_instrument", "surtax_engines", "surtax_statistics", "surtax_agent"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust() {
        findings.extend(foreign_crates(path, source));
        findings.extend(foreign_modules(path, source));
    }
    findings
}

fn foreign_crates(path: &str, source: &RustSource) -> Vec<Finding> {
    let Some((folder, allowed)) = CRATES.iter().find(|(folder, _)| path.starts_with(folder)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for name in OURS {
        let own = folder.trim_end_matches('/') == name.trim_start_matches("surtax_");
        if own || allowed.contains(name) {
            continue;
        }
        for offset in source.find(name) {
            if source.code[offset + name.len()..].starts_with("::") {
                let message = format!("`{folder}` may not know of `{name}`");
                findings.push(Finding::new(path, source.line_of(offset), message));
            }
        }
    }
    findings
}

fn foreign_modules(path: &str, source: &RustSource) -> Vec<Finding> {
    let Some(module) = path.strip_prefix("src/").map(first_word) else {
        return Vec::new();
    };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == module) else {
        return Vec::new();
    };
    source
        .find("crate::")
        .flat_map(|offset| {
            let rest = &source.code[offset + "crate::".len()..];
            named_paths(rest).into_iter().map(move |path| (offset, path))
        })
        .filter(|(_, named)| {
            let covers = |it: &&str| named == it || named.starts_with(&format!("{it}::"));
            let name = first_word(named);
            name != module && !EVERYBODYS.contains(&name) && !allowed.iter().any(covers)
        })
        .map(|(offset, named)| {
            let name = first_word(named);
            let may = if allowed.is_empty() { String::from("nothing") } else { allowed.join(", ") };
            let message = format!("`{module}` may not know of `{name}`; it may know of {may}");
            Finding::new(path, source.line_of(offset), message)
        })
        .collect()
}

/// The paths named right after `crate::`: one, or those at the first level of a `{…}` group.
fn named_paths(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![first_path(rest)];
    };
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                names.push(first_path(group[begin..at].trim_start()));
                begin = at + 1;
                if letter == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_path(text: &str) -> &str {
    text.split(|it: char| !it.is_alphanumeric() && it != '_' && it != ':')
        .next()
        .unwrap_or_default()
}

fn first_word(text: &str) -> &str {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_report_that_knows_of_the_lab_is_found() {
        let found = messages("src/report/html.rs", "use std::fs;\nuse crate::lab::Lab;\n");
        assert_eq!(
            found,
            ["src/report/html.rs:2: `report` may not know of `lab`; \
              it may know of finding, plan, workload, fault"]
        );
    }

    #[test]
    fn a_group_of_imports_is_looked_into() {
        let text = "use crate::{fault::Fault, layer::{Layer, Descriptor}, cli};\n";
        assert_eq!(messages("src/agent/mod.rs", text).len(), 2);
        assert!(messages("src/cli/compare.rs", text).is_empty());
    }

    #[test]
    fn one_part_of_a_module_may_be_allowed_alone() {
        assert!(messages("src/ledger/hold.rs", "use crate::lab::state::runs;\n").is_empty());
        assert_eq!(messages("src/ledger/hold.rs", "use crate::lab::Room;\n").len(), 1);
        assert_eq!(messages("src/ledger/hold.rs", "use crate::lab::stateful;\n").len(), 1);
    }

    #[test]
    fn a_room_names_only_rooms_below_it() {
        for (place, (room, named)) in ROOMS.iter().enumerate() {
            for name in *named {
                let is_below = ROOMS[..place].iter().any(|(below, _)| *below == first_word(name));
                assert!(is_below, "`{room}` names `{name}`, which is not below it");
            }
        }
    }

    #[test]
    fn a_path_in_the_middle_of_code_counts_and_a_test_does_not() {
        assert_eq!(messages("src/agent/link.rs", "fn f() { crate::layer::x() }").len(), 1);
        let test = "#[cfg(test)]\nmod tests { use crate::cli; }\n";
        assert!(messages("src/agent/link.rs", test).is_empty());
    }

    #[test]
    fn statistics_and_instrument_know_nothing_of_ours() {
        let text = "use surtax_instrument::quantity::Ratio;\n";
        assert_eq!(messages("statistics/src/overhead.rs", text).len(), 1);
        assert!(messages("instrument/src/wire.rs", text).is_empty());
        assert!(messages("agent/src/serve.rs", text).is_empty());
        assert_eq!(messages("instrument/src/wire.rs", "surtax_engines::x()").len(), 1);
        assert_eq!(messages("agent/src/serve.rs", "surtax_statistics::x()").len(), 1);
    }
}
