//! Doors: objects of the host are made in `src/lab` and nowhere else.
//!
//! What is made there has its undo in a journal first. The agent is free of this, and so are
//! engines, which run nowhere else: what they make lives inside a layer and dies with it.

use super::Finding;
use super::rust_source::RustSource;
use super::tree::Tree;

/// Names that make an object or start a process, each with what it makes.
const MAKERS: &[(&str, &str)] = &[
    ("process::Command", "a process"),
    ("Command::new", "a process"),
    ("posix_spawn", "a process"),
    ("libc::fork", "a process"),
    ("libc::clone", "a process"),
    ("libc::unshare", "a namespace"),
    ("thread::unshare", "a namespace"),
    ("libc::setns", "a way into a namespace"),
    ("thread::move_into_link_name_space", "a way into a namespace"),
    ("libc::mount", "a mount"),
    ("rustix::mount", "a mount"),
    ("mount::mount", "a mount"),
    ("mount::move_mount", "a mount"),
    ("libc::mknod", "a device node"),
];

/// Names that make a file or folder: everybody may, but not in the kernel's own trees.
const WRITERS: &[&str] =
    &["create_dir", "create_dir_all", "fs::write", "File::create", "OpenOptions"];

/// The kernel's own trees.
const KERNEL_TREES: &[&str] = &["/sys/fs/cgroup", "/proc/sys", "/sys/kernel", "/sys/devices"];

/// Files that write to those trees, or mount one, by which nothing is set and nothing is left to
/// undo: a mount without a place is gone with its descriptor.
const UNDOES_ITSELF: &[&str] = &["instrument/src/cache.rs", "instrument/src/calls/trace_event.rs"];

/// Largest distance, in lines, at which a writer and a kernel's tree still belong together.
const NEAR: usize = 12;

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(path, _)| {
            ["src/", "instrument/src/", "statistics/src/"].iter().any(|it| path.starts_with(it))
        })
        .filter(|(path, _)| !path.starts_with("src/lab/"))
        .filter(|(path, _)| !UNDOES_ITSELF.contains(path))
        .flat_map(|(path, source)| found_in(path, source))
        .collect()
}

fn found_in(path: &str, source: &RustSource) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (maker, what) in MAKERS {
        for offset in source.find(maker) {
            let message = format!("`{maker}` makes {what} outside src/lab: ask the room for it");
            findings.push(Finding::new(path, source.line_of(offset), message));
        }
    }
    for literal in source.literals.iter().filter(|it| !source.is_test(it.offset)) {
        let Some(tree) = KERNEL_TREES.iter().find(|tree| literal.text.starts_with(**tree)) else {
            continue;
        };
        let named_at = source.line_of(literal.offset);
        for offset in WRITERS.iter().flat_map(|writer| source.find(writer)) {
            let line = source.line_of(offset);
            if line.abs_diff(named_at) <= NEAR {
                let message =
                    format!("writes beside `{tree}`: settings and groups are made in src/lab");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings.sort();
    findings.dedup_by_key(|finding| finding.line);
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_object_made_outside_the_lab_is_found() {
        let text = "use std::process::Command;\n\nfn f() { unsafe { libc::mount() } }\n";
        assert_eq!(lines("src/driver/xen.rs", text), [1, 3]);
        assert!(lines("src/lab/process.rs", text).is_empty());
        assert!(lines("agent/src/init.rs", text).is_empty());
    }

    #[test]
    fn a_group_made_outside_the_lab_is_found_and_a_folder_of_the_users_is_not() {
        let group = "fn f() {\n let g = \"/sys/fs/cgroup/x\";\n fs::create_dir(g);\n}\n";
        assert_eq!(lines("src/layer/watch.rs", group), [3]);
        let far = format!(
            "fn f() {{ fs::write(\"out\"); }}\n{}const G: &str = \"/sys/fs/cgroup\";\n",
            "\n".repeat(20)
        );
        assert!(lines("src/cli/report.rs", &far).is_empty());
    }

    #[test]
    fn words_about_mounts_in_comments_messages_and_tests_are_spared() {
        let text = "// libc::mount\nfn f() { say(\"Command::new\") }\n#[cfg(test)]\nmod tests { \
                    Command::new; }\n";
        assert!(lines("src/driver/xen.rs", text).is_empty());
    }
}
