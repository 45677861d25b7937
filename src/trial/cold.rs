//! Cold caches: every kernel of a stack drops its page cache before the command runs.
//!
//! The inside is asked first, so that what a guest writes back is in our cache when ours is
//! dropped. A kernel that will not drop its cache, such as gVisor's, is as cold as it can be right
//! after its start; before a further run in the same start that is a fault, not a number.

use crate::agent::{Link, unexpected};
use crate::fault::Fault;
use std::time::Duration;
use surtax_instrument::wire::{Dropped, Reply, Request};
use surtax_instrument::{cache, clock};

/// Time limit of a level: it writes all that is dirty to disk.
const DEADLINE: Duration = Duration::from_secs(120);

/// Drops the caches of all levels behind this link, and this machine's. `is_fresh`: nothing has run
/// in the stack yet.
///
/// # Errors
/// The machine's: a cache that holds what an earlier run left cannot be dropped.
pub(super) fn drop_caches(link: &mut Link, is_fresh: bool) -> Result<(), Fault> {
    let answer = link.ask(&Request::DropCaches, DEADLINE)?.reply;
    let Reply::Dropped(levels) = answer else {
        return Err(unexpected(&answer, "the request to drop its caches"));
    };
    judge(&cache::drop_page_cache(), &levels, is_fresh)
}

fn judge(here: &Dropped, levels: &[Dropped], is_fresh: bool) -> Result<(), Fault> {
    if !here.failure.is_empty() {
        return Err(Fault::machine(format!("this machine's cache stays: {}", here.failure))
            .hint("run surtax as root, or leave `--cache cold` out"));
    }
    let all = || std::iter::once(here).chain(levels);
    let is_dropped = |level: &Dropped| {
        let same = |other: &Dropped| shares_kernel(level, other);
        level.failure.is_empty() || all().any(|other| same(other) && other.failure.is_empty())
    };
    match levels.iter().find(|level| !is_dropped(level)) {
        Some(level) if !is_fresh => Err(Fault::machine(format!(
            "a cache inside the stack holds what the run before has left: {}",
            level.failure
        ))
        .hint("with `--cache cold` run the command once in each start: `--iterations 1`")),
        _ => Ok(()),
    }
}

/// Tells whether two levels have one kernel, and so one cache.
fn shares_kernel(one: &Dropped, other: &Dropped) -> bool {
    let [one, other] = [one, other].map(|level| level.kernel.parse().ok());
    one.zip(other).is_some_and(|(one, other)| clock::is_one_kernel(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(kernel: &str, failure: &str) -> Dropped {
        Dropped { kernel: kernel.to_owned(), failure: failure.to_owned() }
    }

    #[test]
    fn a_container_that_may_not_drop_shares_the_cache_of_the_kernel_that_did() {
        let inside = [level("7000400000", "read-only")];
        assert_eq!(judge(&level("7000000000", ""), &inside, false), Ok(()));
    }

    #[test]
    fn a_kernel_that_kept_its_cache_is_cold_only_right_after_its_start() {
        for other in ["", "9000000000"] {
            let inside = [level(other, "no such file")];
            assert_eq!(judge(&level("7000000000", ""), &inside, true), Ok(()));
            let fault = judge(&level("7000000000", ""), &inside, false).unwrap_err();
            assert!(fault.message.contains("no such file"), "{fault}");
        }
        let nested = [level("9000000000", ""), level("9000000000", "read-only")];
        assert_eq!(judge(&level("7000000000", ""), &nested, false), Ok(()));
    }

    #[test]
    fn without_root_nothing_here_is_cold() {
        let fault = judge(&level("7000000000", "Permission denied"), &[], true).unwrap_err();
        assert!(fault.hint.unwrap().contains("as root"));
    }
}
