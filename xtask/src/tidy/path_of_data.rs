//! The path of the data: lib.rs, ARCHITECTURE.md and README.md name the same stations in order.

use super::Finding;
use super::tree::Tree;

const LIBRARY: &str = "src/lib.rs";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const README: &str = "README.md";

/// Modules that stand beside the path, not on it.
const BESIDE: &[&str] =
    &["container", "guest", "meter", "prove", "serve", "cli", "fault", "regular_file"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let path = in_library(tree.text(LIBRARY).unwrap_or_default());
    let mut findings = Vec::new();
    for (file, (line, names)) in [
        (ARCHITECTURE, in_code_map(tree.text(ARCHITECTURE).unwrap_or_default())),
        (README, in_figure(tree.text(README).unwrap_or_default())),
    ] {
        if names != path {
            let message = format!(
                "the path of the data is `{}` here and `{}` in {LIBRARY}",
                names.join(" → "),
                path.join(" → ")
            );
            findings.push(Finding::new(file, line, message));
        }
    }
    findings
}

fn in_library(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .filter(|name| !BESIDE.contains(name))
        .collect()
}

/// The rows of the first table below the heading "Code map", and where they begin.
fn in_code_map(text: &str) -> (usize, Vec<&str>) {
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| *line != "## Code map");
    let heading = lines.next().map_or(1, |(index, _)| index + 1);
    let table = lines
        .skip_while(|(_, line)| !line.starts_with('|'))
        .take_while(|(_, line)| line.starts_with('|'));
    let names = table.filter_map(|(_, line)| line.strip_prefix("| `src/")?.split('/').next());
    (heading, names.collect())
}

/// The names in the first line of a code block that has arrows between them.
fn in_figure(text: &str) -> (usize, Vec<&str>) {
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced && line.contains(" → ") {
            return (index + 1, line.split('→').map(str::trim).collect());
        }
    }
    (1, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str =
        "//! surtax.\n\npub mod plan;\npub mod layer;\npub mod cli;\npub mod fault;\n";
    const MAP: &str = "# A\n\n## Code map\n\n| where | what |\n|---|---|\n| `src/plan/` | x |\n| \
                       `src/layer/` | y |\n";
    const FIGURE: &str = "# R\n\n```text\nplan → layer\n```\n";

    fn findings(lib: &str, map: &str, figure: &str) -> Vec<String> {
        let tree = Tree::of(&[(LIBRARY, lib), (ARCHITECTURE, map), (README, figure)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn three_equal_paths_are_spared() {
        assert!(findings(LIB, MAP, FIGURE).is_empty());
    }

    #[test]
    fn another_order_and_a_missing_station_are_found() {
        let found = findings(LIB, MAP, "# R\n\n```text\nlayer → plan\n```\n");
        assert_eq!(
            found,
            ["README.md:4: the path of the data is `layer → plan` here and `plan → layer` in \
                 src/lib.rs"]
        );
        let longer = LIB.replace("pub mod cli", "pub mod ledger;\npub mod cli");
        assert_eq!(findings(&longer, MAP, FIGURE).len(), 2);
    }
}
