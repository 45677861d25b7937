//! Places of workload files: those that come with surtax, and the user's own.

use super::bounds::TEXT_MAX;
use crate::fault::{Doing, Fault};
use crate::lab::program_file::require_trusted_file;
use crate::layer::instead;
use crate::regular_file;
use etcetera::BaseStrategy;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Ending of the names of workload files.
const EXTENSION: &str = "toml";

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../workloads/", $name, ".toml")))),*]
    };
}

/// Those that come with surtax, by name.
pub const READY: &[(&str, &str)] = ready![
    "adversary.allocbomb", "adversary.forkbomb", "adversary.load", "adversary.logflood",
    "adversary.synflood", "adversary.thrash", "build.gcc", "build.kernel", "compress.xz",
    "cpu.7zip", "cpu.pi", "cpu.sysbench", "crypto.openssl", "database.redis", "database.sqlite",
    "disk.bonnie", "disk.ioping", "disk.randread", "disk.randrw", "disk.randwrite", "disk.read",
    "disk.requests", "disk.write", "intensity.cpu", "intensity.memory", "intensity.threads",
    "kv.memcached_etc", "kv.memcached_rate", "kv.memcached_search", "kv.redis", "kv.redis_rate",
    "memory.memtester", "memory.stream", "memory.sysbench", "mutex.sysbench", "net.iperf3",
    "net.ping", "net.tcp_crr", "net.tcp_echo", "net.tcp_maerts", "net.tcp_rr", "net.tcp_rr_rate",
    "net.tcp_stream", "net.udp_rr", "net.udp_stream", "noise", "prices", "stress",
    "threads.sysbench", "timer", "web.nginx",
];

/// A workload that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As typed after `--workload`.
    pub name: String,
    /// Path of its file; absent for one that comes with surtax.
    pub path: Option<PathBuf>,
}

impl Listed {
    /// Reads its text for a line about it, of a file that is kept somewhere: it is not waited for,
    /// and nothing acts when it is read. `None` where there is no such text.
    #[must_use]
    pub fn kept_text(&self) -> Option<String> {
        let Some(path) = &self.path else {
            return READY
                .iter()
                .find(|(name, _)| *name == self.name)
                .map(|(_, text)| (*text).into());
        };
        let file = regular_file::open_kept(path).ok()?;
        String::from_utf8(regular_file::read_again(&file, TEXT_MAX as u64).ok()?).ok()
    }
}

/// The folder of the user's own files; it need not exist.
///
/// # Errors
/// The machine's, when there is neither `XDG_CONFIG_HOME` nor a home directory.
pub fn directory() -> Result<PathBuf, Fault> {
    let strategy = etcetera::base_strategy::Xdg::new()
        .doing("find the home directory, and in it the workloads")
        .map_err(|fault| fault.hint("set HOME or XDG_CONFIG_HOME"))?;
    Ok(strategy.config_dir().join("surtax/workloads"))
}

/// Every workload, by name; one of the user's own stands before one of the same name.
///
/// # Errors
/// The machine's, when the user's folder is there and cannot be read.
pub fn all() -> Result<Vec<Listed>, Fault> {
    let mut found = own(&directory()?)?;
    for (name, _) in READY {
        if !found.iter().any(|own| own.name == *name) {
            found.push(Listed { name: (*name).to_owned(), path: None });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The workloads of this folder; none when it does not exist.
fn own(directory: &Path) -> Result<Vec<Listed>, Fault> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.doing(format!("read the workloads in `{}`", directory.display()))?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let named = |path: PathBuf| {
        let is_one = path.extension().is_some_and(|end| end == EXTENSION) && path.is_file();
        let name = path.file_stem()?.to_str()?.to_owned();
        is_one.then_some(Listed { name, path: Some(path) })
    };
    Ok(paths.filter_map(named).collect())
}

/// The text of a workload: of a file if that is what is named, or one of [`all`].
///
/// # Errors
/// The user's: there is none, or it cannot be read.
pub fn text(name: &str) -> Result<String, Fault> {
    if is_path(name) {
        return read(Path::new(name));
    }
    let all = all()?;
    let Some(found) = all.iter().find(|listed| listed.name == name) else {
        let shown = name.escape_debug();
        return Err(Fault::user(format!("there is no workload `{shown}`")).hint(format!(
            "{}; a file of your own is named by its path, as in `./mine.toml`",
            instead(full_name(name, &all), "workloads", all.iter().map(|it| it.name.as_str()))
        )));
    };
    match &found.path {
        Some(path) => {
            // What it says is executed, by root too, and its name does not tell whose it is.
            require_trusted_file(path).map_err(|fault| {
                fault.hint(format!("where you know whose it is, name it: `{}`", path.display()))
            })?;
            read(path)
        }
        None => {
            let ready = READY.iter().find(|(ready, _)| *ready == name);
            ready
                .map(|(_, text)| (*text).to_owned())
                .ok_or_else(|| Fault::bug("a workload is lost"))
        }
    }
}

/// The name that ends with this word, as `web.nginx` does with `nginx`; the word itself where there
/// is none.
fn full_name<'a>(word: &'a str, all: &'a [Listed]) -> &'a str {
    let is_it = |listed: &&Listed| listed.name.rsplit('.').next() == Some(word);
    all.iter().find(is_it).map_or(word, |listed| &listed.name)
}

/// Tells whether one of this name comes with surtax: a file of the user's own then stands in its
/// place.
#[must_use]
pub fn is_ready(name: &str) -> bool {
    READY.iter().any(|(ready, _)| *ready == name)
}

/// The file of the user's own that has this name, if there is one.
///
/// # Errors
/// The machine's, when the user's folder is there and cannot be read.
pub fn own_file(name: &str) -> Result<Option<PathBuf>, Fault> {
    if is_path(name) {
        return Ok(None);
    }
    Ok(own(&directory()?)?.into_iter().find(|own| own.name == name).and_then(|own| own.path))
}

/// Returns the name of a workload's file in errors.
#[must_use]
pub fn shown(name: &str) -> String {
    let name = name.escape_debug();
    if is_path(&name.to_string()) { name.to_string() } else { format!("{name}.{EXTENSION}") }
}

/// Tells whether a name is that of a file: no workload's has a `/`, or ends like a file's.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Reads a file.
///
/// # Errors
/// The user's: it cannot be read, or is too long.
pub fn read(path: &Path) -> Result<String, Fault> {
    let shown = path.display().to_string();
    let cannot = |error: &dyn std::fmt::Display| {
        let fault =
            Fault::user(format!("cannot read the workload `{}`: {error}", shown.escape_debug()));
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // One that is found by its name was named by a file that is somewhere else.
        let is_known =
            !path.exists() && all().is_ok_and(|all| all.iter().any(|listed| listed.name == stem));
        fault.hint(if is_known {
            format!("there is a workload `{stem}`: name it without the path and `.{EXTENSION}`")
        } else {
            String::from("`surtax workload list` shows those that there are")
        })
    };
    regular_file::text_given(path, TEXT_MAX as u64).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests;
