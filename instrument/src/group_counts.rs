//! Counts of events in the files of groups, a line each with its key.

use crate::counters::{self, value};
use crate::group_tree::{self, GROUPS_LIMIT, Way};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Counts of each group of a tree, by the number that the kernel gives its directory.
pub(crate) type Counts = BTreeMap<u64, u64>;

/// Reads what each group of a tree has counted on the line of this key, in the first of these files
/// that it has; calls `each` with the way to it. Groups may lie deeper than a path can say.
pub(crate) fn below(
    top: &Path,
    key: &str,
    files: &[&CStr],
    mut each: impl FnMut(&Way<'_>, BorrowedFd<'_>, u64),
) -> Counts {
    let mut counts = Counts::new();
    group_tree::visit(top, &mut |group, way| {
        if counts.len() >= GROUPS_LIMIT {
            return;
        }
        let texts = files.iter().map(|file| group_tree::read(group, file));
        let text = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let (Some(count), Some(number)) = (value(&text, key), way.number()) else { return };
        each(way, group, count);
        counts.insert(number, count);
    });
    counts
}

/// Counts by how much the groups of a tree rose in between, all together.
pub(crate) fn rise(now: &Counts, earlier: &Counts) -> u64 {
    let rise = |(group, count): (&u64, &u64)| {
        // A group with the number of one that is gone counts from none again.
        let before = earlier.get(group).filter(|before| *before <= count);
        count - before.unwrap_or(&0)
    };
    now.iter().map(rise).fold(0, u64::saturating_add)
}

/// Reads one such line of a file; `None` where there is none.
pub(crate) fn counted(file: &Path, key: &str) -> Option<u64> {
    value(&counters::text_of(file).ok()?, key)
}
