//! Places in which a lab makes what it makes, and the beginning of the names there.

use super::{exclusive, us};
use crate::fault::Fault;
use std::path::{Path, PathBuf};

/// Place for directories in memory where this process may mount nothing.
pub(super) const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Place for directories on a disk, also on machines whose `/run` and `/tmp` are in memory.
pub const DISK_DIRECTORY: &str = "/var/tmp";

/// The static agent itself; `build.rs` made it.
pub const AGENT_BINARY: &[u8] = include_bytes!(env!("SURTAX_AGENT"));

/// The agent's file in a lab's directory; no room has such a name.
pub(super) const AGENT: &str = ".surtax-agent";

/// Prefix of the lab's id in names of groups and directories.
pub(super) const PREFIX: &str = "surtax-";

/// Returns the directory of kernels, unpacked images and verdicts that are kept between runs, be it
/// there or not.
///
/// # Errors
/// The machine's: nobody says where this user's files are.
pub fn cache_place() -> Result<PathBuf, Fault> {
    let home = |below: &str| std::env::var_os("HOME").map(|home| Path::new(&home).join(below));
    if let Some(named) = std::env::var_os("SURTAX_CACHE_DIR") {
        return Ok(PathBuf::from(named));
    }
    if us::is_machines_root() {
        return Ok(PathBuf::from("/var/cache/surtax"));
    }
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(cache).join("surtax"));
    }
    home(".cache/surtax")
        .ok_or_else(|| Fault::machine("there is no `XDG_CACHE_HOME` and no `HOME`"))
}

/// The same, made if absent.
///
/// # Errors
/// As [`cache_place`]; it cannot be made.
pub fn cache_directory() -> Result<PathBuf, Fault> {
    exclusive::ensure(&cache_place()?, 0o755).map_err(|fault| {
        let hint = fault.hint.clone().map_or_else(String::new, |hint| format!("{hint}; or "));
        fault
            .during("the cache of kernels and images")
            .hint(format!("{hint}name a directory of your own in `SURTAX_CACHE_DIR`"))
    })
}

/// Returns the directory that the labs' directories are in.
#[must_use]
pub fn run_directory() -> PathBuf {
    if us::is_machines_root() {
        return PathBuf::from("/run/surtax");
    }
    // The specification has it that a relative one is as none.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = us::outside().map_or_else(|| rustix::process::geteuid().as_raw(), |(user, _)| user);
    runtime.filter(|runtime| runtime.is_absolute()).map_or_else(
        || PathBuf::from(format!("/tmp/surtax-{user}")),
        |runtime| runtime.join("surtax"),
    )
}
