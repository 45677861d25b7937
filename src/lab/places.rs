//! Where a lab makes what it makes, and what its names begin with.

use super::exclusive;
use crate::fault::Fault;
use std::path::{Path, PathBuf};

/// Where directories in memory are made where this process may mount nothing.
pub(super) const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Where directories on a disk are made, also on machines whose `/run` and `/tmp` are in memory.
pub const DISK_DIRECTORY: &str = "/var/tmp";

/// The static agent itself; `build.rs` made it.
pub const AGENT_BINARY: &[u8] = include_bytes!(env!("SURTAX_AGENT"));

/// The agent's file in a lab's directory; no room has such a name.
pub(super) const AGENT: &str = ".surtax-agent";

/// What the lab's id follows in names of groups and directories.
pub(super) const PREFIX: &str = "surtax-";

/// Where kernels, unpacked images and verdicts are kept between runs; made if absent.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn cache_directory() -> Result<PathBuf, Fault> {
    let home = |below: &str| std::env::var_os("HOME").map(|home| Path::new(&home).join(below));
    let path = if let Some(named) = std::env::var_os("SURTAX_CACHE_DIR") {
        PathBuf::from(named)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/cache/surtax")
    } else if let Some(cache) = std::env::var_os("XDG_CACHE_HOME") {
        PathBuf::from(cache).join("surtax")
    } else {
        home(".cache/surtax")
            .ok_or_else(|| Fault::machine("there is no `XDG_CACHE_HOME` and no `HOME`"))?
    };
    exclusive::ensure(&path, 0o755).map_err(|fault| {
        let hint = fault.hint.clone().map_or_else(String::new, |hint| format!("{hint}; or "));
        fault
            .during("the cache of kernels and images")
            .hint(format!("{hint}name a directory of your own in `SURTAX_CACHE_DIR`"))
    })
}

/// Where the labs' directories are.
#[must_use]
pub fn run_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/surtax");
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.map_or_else(
        || PathBuf::from(format!("/tmp/surtax-{}", rustix::process::geteuid().as_raw())),
        |runtime| runtime.join("surtax"),
    )
}
