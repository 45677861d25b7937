//! Threads that work at once, each of which finds something or says why not.

use super::cpu;
use std::io;
use std::thread::{self, ScopedJoinHandle};

/// Runs all of these at once, a thread each; what they found, in their order.
///
/// # Errors
/// A thread cannot be started, or the first one of theirs.
pub(crate) fn together<T: Send>(
    works: impl IntoIterator<Item = impl FnOnce() -> io::Result<T> + Send>,
) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let start = |work| thread::Builder::new().spawn_scoped(scope, work);
        let threads: io::Result<Vec<_>> = works.into_iter().map(start).collect();
        threads?.into_iter().map(joined).collect()
    })
}

/// Runs the same for each CPU that may be used.
///
/// # Errors
/// As [`together`].
pub(crate) fn for_each_cpu<T: Send>(
    work: impl Fn(usize) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let work = &work;
    together(cpu::allowed()?.into_iter().map(|cpu| move || work(cpu)))
}

/// Returns what a thread found, or why it did not.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("a measuring thread panicked"))?
}
