//! Imports: which part of surtax may know of which. ARCHITECTURE.md says why.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;
use std::collections::BTreeSet;

/// The rooms of the host side, from the ground up, and those below each that it may name: whole, or
/// one part of it. Nobody names a room above, so that none can stand in a circle. What is not
/// listed may name all.
const ROOMS: &[(&str, &[&str])] = &[
    ("fault", &[]),
    ("regular_file", &[]),
    ("table", &[]),
    ("unseen", &[]),
    ("agent", &["fault"]),
    ("lab", &["fault"]),
    ("layer", &["agent", "lab", "fault"]),
    ("rootfs", &["layer", "lab", "fault"]),
    ("container", &["rootfs", "layer", "agent", "lab", "fault"]),
    ("guest", &["rootfs", "layer", "agent", "lab", "fault"]),
    ("vm", &["guest", "rootfs", "layer", "agent", "lab", "fault"]),
    ("driver", &["vm", "guest", "container", "rootfs", "layer", "agent", "lab", "fault"]),
    ("stack", &["driver", "rootfs", "layer", "agent", "lab", "fault"]),
    ("workload", &["driver", "layer", "lab::program_file", "fault"]),
    ("meter", &["layer", "lab", "fault"]),
    ("plan", &["meter", "workload", "stack", "driver", "layer", "fault"]),
    (
        "trial",
        &[
            "meter", "workload", "plan", "stack", "driver", "rootfs", "layer", "agent", "lab",
            "fault",
        ],
    ),
    (
        "ledger",
        &[
            "trial", "meter", "workload", "plan", "stack", "layer", "lab::state", "lab::byte_lock",
            "lab::sudoer", "lab::exclusive", "lab::us", "fault",
        ],
    ),
    ("campaign", &["ledger", "trial", "plan", "meter", "stack", "layer", "fault"]),
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
const EVERYBODYS: &[&str] = &["regular_file", "table", "unseen"];

/// Room that is above all others, and may name every one.
const TOP: &str = "cli";

/// Roots of the crate, which are in no room.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];

/// The file that says why, and the head of its table.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const TABLE: &str = "| room | may name |";

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
        findings.extend(ways_out(path, source));
        findings.extend(passed_on(path, source));
    }
    findings.extend(unlisted(tree));
    findings.extend(tree.text(ARCHITECTURE).map(untrue_rows).unwrap_or_default());
    findings
}

/// Rooms whose row of the table in ARCHITECTURE.md is missing, or says otherwise than [`ROOMS`].
fn untrue_rows(text: &str) -> Vec<Finding> {
    let table = text.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
    let rows: Vec<(&str, &str)> = table
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.trim_start_matches('|').split_once('|'))
        .collect();
    let is_untrue = |(room, named): &&(&str, &[&str])| {
        let row = rows.iter().find(|(rooms, _)| names(rooms).contains(room));
        let named = named.iter().copied().filter(|name| !is_ground(name)).collect();
        row.is_none_or(|(_, rest)| told(room, rest.split('|').next().unwrap_or_default()) != named)
    };
    let untrue = ROOMS.iter().filter(is_untrue).map(|(room, named)| {
        let named = named.join(", ");
        let message = format!("`{room}` may name {named}, and its row of the table says not so");
        Finding::new(ARCHITECTURE, 1, message)
    });
    let is_room = |name: &&str| *name == TOP || ROOMS.iter().any(|(room, _)| room == name);
    let gone = rows.iter().flat_map(|(rooms, _)| names(rooms)).filter(|name| !is_room(name));
    let gone = gone.map(|name| {
        Finding::new(ARCHITECTURE, 1, format!("`{name}` has a row of the table, and is no room"))
    });
    untrue.chain(gone).collect()
}

/// Tells whether a room names nobody: such a one everybody names, so that no row does.
fn is_ground(name: &str) -> bool {
    ROOMS.iter().any(|(room, named)| *room == name && named.is_empty())
}

/// The rooms that a row says its room may name.
fn told<'a>(room: &str, cell: &'a str) -> BTreeSet<&'a str> {
    let Some(others) = cell.trim().strip_prefix("all but ") else { return names(cell) };
    let others = names(others);
    let all = ROOMS.iter().map(|(name, _)| *name).filter(|name| *name != room);
    all.filter(|name| !others.contains(name) && !is_ground(name)).collect()
}

/// The names in a cell, without what is said of them in brackets.
fn names(cell: &str) -> BTreeSet<&str> {
    let outside = cell.split('(').enumerate().map(|(place, text)| match place {
        0 => text,
        _ => text.split_once(')').map_or("", |(_, after)| after),
    });
    let words = outside.flat_map(|text| text.split([',', ';'])).flat_map(|it| it.split(" and "));
    let words = words.map(|word| word.trim().trim_matches('`'));
    words.filter(|word| !word.is_empty() && !word.starts_with("nothing")).collect()
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

/// Rooms that are in no list, so that nothing is said of what they may name.
fn unlisted(tree: &Tree) -> Vec<Finding> {
    let is_listed = |room: &str| room == TOP || ROOMS.iter().any(|(name, _)| *name == room);
    let mut rooms = BTreeSet::new();
    for (path, _) in tree.rust() {
        let inside = path.strip_prefix("src/").filter(|rest| !ROOTS.contains(rest));
        let room =
            inside.map(|rest| rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs"));
        rooms.extend(room.filter(|room| !is_listed(room)));
    }
    let message = |room| format!("`{room}` is in no row of what a room may name (`ROOMS`)");
    rooms.into_iter().map(|room| Finding::new(&format!("src/{room}"), 1, message(room))).collect()
}

/// Places at which a room is left by `super::`, past the list.
fn ways_out(path: &str, source: &RustSource) -> Vec<Finding> {
    let Some(inside) = path.strip_prefix("src/") else { return Vec::new() };
    let modules = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = modules.split('/').count();
    let is_first = |offset: &usize| !source.code[..*offset].ends_with("super::");
    let steps = |offset: usize| {
        source.code[offset..].split("::").take_while(|word| *word == "super").count()
    };
    let leaves = source.find("super::").filter(is_first).filter(|at| steps(*at) >= depth);
    let leaves = leaves.chain(source.find("super::{super"));
    let message = "leaves its room by `super::`: name what is meant by `crate::`";
    leaves.map(|at| Finding::new(path, source.line_of(at), message)).collect()
}

/// Places at which a room passes on what is another's: whoever names it so names the other room.
fn passed_on(path: &str, source: &RustSource) -> Vec<Finding> {
    let Some(module) = path.strip_prefix("src/").map(first_word) else { return Vec::new() };
    let all = ["pub use crate::", "pub(crate) use crate::"]
        .into_iter()
        .flat_map(|way| source.find(way).map(move |offset| (offset, offset + way.len())));
    let of_others = all.flat_map(|(offset, end)| {
        let named = named_paths(&source.code[end..]);
        named.into_iter().map(move |path| (offset, first_word(path)))
    });
    let others = of_others.filter(|(_, name)| *name != module && !EVERYBODYS.contains(name));
    others
        .map(|(offset, name)| {
            let message = format!("passes on what is of `{name}`: say it with a function");
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
    fn a_row_that_says_otherwise_or_is_missing_is_found() {
        let text = include_str!("../../../ARCHITECTURE.md");
        assert!(untrue_rows(text).is_empty(), "{:?}", untrue_rows(text));
        let of = |text: &str| untrue_rows(text).iter().map(Finding::to_string).collect::<Vec<_>>();
        let more = of(&text.replace("| `layer` | agent, lab |", "| `layer` | agent, lab, cli |"));
        assert_eq!(more.len(), 1, "{more:?}");
        let fewer = of(&text.replace("campaign (when a stack is given up), ", ""));
        assert!(fewer[0].contains("`serve` may name report"), "{fewer:?}");
        let renamed = of(&text.replace("| `prove` |", "| `proves` |"));
        assert_eq!(renamed.len(), 2, "{renamed:?}");
        assert!(renamed[1].contains("`proves` has a row"), "{renamed:?}");
        assert_eq!(of("no table").len(), ROOMS.len());
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
    fn a_room_is_not_left_by_its_parents_and_none_is_unlisted() {
        let found = messages("src/lab/cgroup/end.rs", "use super::super::super::layer::Layer;\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(messages("src/lab/cgroup/end.rs", "use super::super::room::Room;\n").is_empty());
        assert_eq!(messages("src/lab/mod.rs", "fn f() { super::layer::x() }\n").len(), 1);
        assert!(messages("src/lab/room.rs", "use super::base::Base;\n").is_empty());
        assert_eq!(messages("src/lab/room.rs", "use super::{super::layer::Layer};\n").len(), 1);
        for path in ["src/annex/mod.rs", "src/annex.rs"] {
            assert_eq!(messages(path, "fn f() {}\n").len(), 1, "{path}");
        }
        assert!(messages("src/main.rs", "fn f() {}\n").is_empty());
    }

    #[test]
    fn what_is_another_rooms_is_not_passed_on() {
        let passed = "pub use crate::container::users::refuse;\n";
        assert_eq!(messages("src/driver/mod.rs", passed).len(), 1);
        assert!(messages("src/driver/mod.rs", "pub use crate::driver::oci::RUNC;\n").is_empty());
        assert!(messages("src/driver/mod.rs", "pub(crate) use crate::unseen::acts;\n").is_empty());
        assert!(messages("src/container/mod.rs", passed).is_empty());
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
