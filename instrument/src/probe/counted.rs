//! Counts of events in the files of groups, a line each with its key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest number of groups in a tree that are looked at.
const GROUPS_LIMIT: usize = 10_000;

/// Reads what each group of a tree has counted on the line of this key, in the file of that name in
/// its directory.
pub(super) fn below(
    top: PathBuf,
    key: &str,
    file: impl Fn(&Path) -> &'static str,
) -> BTreeMap<PathBuf, u64> {
    let mut counts = BTreeMap::new();
    let mut left = vec![top];
    while let Some(directory) = left.pop() {
        let Some(count) = counted(&directory.join(file(&directory)), key) else { continue };
        let below = fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(below.map(|entry| entry.path()));
        counts.insert(directory, count);
        if counts.len() >= GROUPS_LIMIT {
            break;
        }
    }
    counts
}

/// Counts by how much the groups of a tree rose in between, all together.
pub(super) fn rise(now: &BTreeMap<PathBuf, u64>, earlier: &BTreeMap<PathBuf, u64>) -> u64 {
    let rise = |(group, count): (&PathBuf, &u64)| {
        // A group of the same name that was made anew counts from none again.
        let before = earlier.get(group).filter(|before| *before <= count);
        count - before.unwrap_or(&0)
    };
    now.iter().map(rise).fold(0, u64::saturating_add)
}

/// Reads one such line; `None` where there is none.
pub(super) fn counted(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
