//! The page cache of the kernel that we run on.

use crate::clock;
use crate::wire::Dropped;
use std::fs;

/// Drops it all: page cache, directory entries and inodes. Source: Linux
/// `Documentation/admin-guide/sysctl/vm.rst`, `drop_caches`.
const DROP: (&str, &str) = ("/proc/sys/vm/drop_caches", "3");

/// Writes what is dirty to disk, since only what is clean can be dropped, and drops the cache.
/// Needs root and a `/proc/sys` that can be written; otherwise it says why not.
#[must_use]
pub fn drop_page_cache() -> Dropped {
    rustix::fs::sync();
    let (path, what) = DROP;
    let failure = match fs::write(path, what) {
        Ok(()) => String::new(),
        Err(error) => format!("cannot write `{path}`: {error}"),
    };
    Dropped { kernel: clock::kernel_begin_ns().to_string(), failure }
}
