//! The pool of huge pages of this level's kernel: how many there are, and how many are free.
//!
//! surtax never changes its size: what it is too small for is refused, with the command that makes
//! it larger.
//!
//! Source: Linux `Documentation/admin-guide/mm/hugetlbpage.rst`.

use crate::fault::{Doing, Fault};
use std::fs;
use std::path::Path;

/// The size of huge pages that is asked for, in mebibytes: the one that every x86-64 has.
pub const HUGE_PAGE_MIB: u64 = 2;

/// Directory of the pool of that size.
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Number of all its pages.
    pub all: u64,
    /// Those that nobody has, and that are promised to nobody.
    pub free: u64,
}

impl Pool {
    /// That of this level's kernel.
    ///
    /// # Errors
    /// The machine's: the kernel has no such pages.
    pub fn read() -> Result<Self, Fault> {
        Self::at(Path::new(POOL))
    }

    fn at(directory: &Path) -> Result<Self, Fault> {
        let read = |name: &str| -> Result<u64, Fault> {
            let path = directory.join(name);
            let text =
                fs::read_to_string(&path).doing(format_args!("read `{}`", path.display()))?;
            let doing = format!("read a number of huge pages in `{}`", path.display());
            text.trim().parse().doing(doing)
        };
        let free = read("free_hugepages")?.saturating_sub(read("resv_hugepages")?);
        Ok(Self { all: read("nr_hugepages")?, free })
    }

    /// That it has the pages for so much memory.
    ///
    /// # Errors
    /// The machine's: how many are missing, and how to get them.
    pub fn require(self, mib: u64) -> Result<(), Fault> {
        let Self { all, free } = self;
        let needed = mib.div_ceil(HUGE_PAGE_MIB);
        let missing = needed.saturating_sub(free);
        if missing == 0 {
            return Ok(());
        }
        Err(Fault::machine(format!(
            "{missing} of the {needed} huge pages for {mib} MiB are missing: {free} of {all} are \
             free"
        ))
        .hint(format!("sysctl vm.nr_hugepages={}", all + missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_promised_are_not_free() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in
            [("nr_hugepages", "64\n"), ("free_hugepages", "40\n"), ("resv_hugepages", "8\n")]
        {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let pool = Pool::at(directory.path()).unwrap();
        assert_eq!(pool, Pool { all: 64, free: 32 });
        assert_eq!(pool.require(64), Ok(()));
        let fault = pool.require(66).unwrap_err();
        assert!(fault.message.starts_with("1 of the 33 huge pages"), "{fault}");
        assert_eq!(fault.hint.as_deref(), Some("sysctl vm.nr_hugepages=65"));
        let fault = Pool { all: 100, free: 40 }.require(512).unwrap_err();
        assert_eq!(
            fault.message,
            "216 of the 256 huge pages for 512 MiB are missing: 40 of 100 are free"
        );
        assert_eq!(fault.hint.as_deref(), Some("sysctl vm.nr_hugepages=316"));
        assert!(Pool::at(&directory.path().join("none")).is_err());
    }
}
