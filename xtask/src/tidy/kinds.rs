//! Kinds: what others need to know of a driver stands on its descriptor, and nobody outside of
//! `src/driver/` asks by name.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;
use std::collections::BTreeSet;

/// Folder of the drivers.
const DRIVERS: &str = "src/driver/";

/// Campaigns name the stacks that they attack, as plans do.
const CAMPAIGNS: &str = "src/prove/";

/// Kind that others are measured against: every plan has it.
const BASELINE: &str = "native";

/// Words that are no driver's name: part of what gVisor's kernel says that it is and of what its
/// runtime is called, a directory that is served, the transport of registries, groups that engines
/// make and files that they leave.
const OTHERS: [(&str, &str); 12] = [
    ("src/finding/caution/kernels.rs", "gvisor"),
    ("src/container/engine_runtime.rs", "gvisor"),
    ("src/guest/share.rs", "xen"),
    ("src/layer/site.rs", "docker"),
    ("src/lab/census.rs", "docker"),
    ("src/lab/census.rs", "lxc"),
    ("src/lab/census.rs", "nspawn"),
    ("src/lab/census.rs", "podman"),
    ("src/lab/census.rs", "runc"),
    ("src/lab/census.rs", "crun"),
    ("src/lab/census.rs", "crun."),
    ("src/lab/census.rs", "youki"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let drivers = tree.rust().filter(|(path, _)| path.starts_with(DRIVERS));
    let kinds: BTreeSet<&str> = drivers.flat_map(|(_, source)| kinds_of(source)).collect();
    let is_outside = |path: &str| {
        path.starts_with("src/") && !path.starts_with(DRIVERS) && !path.starts_with(CAMPAIGNS)
    };
    let mut findings = Vec::new();
    for (path, source) in tree.rust().filter(|(path, _)| is_outside(path)) {
        for literal in source.literals.iter().filter(|it| !source.is_test(it.offset)) {
            let text = literal.text.as_str();
            let kind = text.split([':', '+', '.']).next().unwrap_or_default();
            let is_kind = kinds.contains(kind) && kind != BASELINE && !text.contains(' ');
            if is_kind && !OTHERS.contains(&(path, text)) {
                let message =
                    format!("asks for `{kind}` by name: say on its descriptor what is wanted");
                findings.push(Finding::new(path, source.line_of(literal.offset), message));
            }
        }
    }
    findings
}

/// The kinds of the descriptors in a driver's file.
fn kinds_of(source: &RustSource) -> impl Iterator<Item = &str> {
    let is_of_descriptor = |offset: usize, length: usize| {
        let before = source.code[..offset].trim_end();
        let after: String = source.code[offset + length..].split_whitespace().take(2).collect();
        let is_named = before.ends_with("KIND: &str =") || before.ends_with(" descriptor(");
        is_named || before.ends_with("kind:") && after.starts_with(",summary:")
    };
    let literals = source.literals.iter();
    literals
        .filter(move |it| is_of_descriptor(it.offset, it.text.len() + 2))
        .map(|it| it.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: (&str, &str) = (
        "src/driver/xen.rs",
        "static DESCRIPTOR: Descriptor = Descriptor {\n    kind: \"xen\",\n    summary: \
         \"x\",\n};\nfn f() { Mount { kind: \"tmpfs\", target }; g(\"xen\") }\n",
    );
    const OCI: (&str, &str) = (
        "src/driver/oci.rs",
        "const A: X = descriptor(\n    \"runc\", \"y\");\nconst KIND: &str = \"krun\";\n",
    );

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[DRIVER, OCI, (path, text)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn who_asks_by_name_is_found_outside_of_drivers() {
        let text = "fn f() { matches!(kind, \"xen\" | \"other\"); parse(\"runc:net=veth+xen\") }\n";
        let expected = ["xen", "runc"].map(|kind| {
            format!(
                "src/report/a.rs:1: asks for `{kind}` by name: say on its descriptor what is wanted"
            )
        });
        assert_eq!(found("src/report/a.rs", text), expected);
    }

    #[test]
    fn prose_file_systems_campaigns_the_baseline_and_tests_are_spared() {
        let text = "fn f() { g(\"use `xen` or xen:type=pv\"); g(\"tmpfs\"); g(\"native\") }\n\
                    #[cfg(test)]\nmod tests { fn f() { g(\"xen\") } }\n";
        assert!(found("src/report/a.rs", text).is_empty());
        assert_eq!(found("src/report/a.rs", "fn f() { g(\"krun\") }").len(), 1);
        assert!(found("src/prove/a.rs", "fn f() { g(\"xen\") }").is_empty());
        assert!(found("src/driver/b.rs", "fn f() { g(\"xen\") }").is_empty());
    }
}
