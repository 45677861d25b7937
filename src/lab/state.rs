//! Directory in which surtax keeps what outlives it: the journals of labs, and the key by which
//! this user's runs are known.
//!
//! `SURTAX_STATE_DIR` names one directory for both. Otherwise it is `/var/lib/surtax` for root, and
//! what the XDG Base Directory Specification says for others; the journals are in `labs` there.

use super::exclusive;
use crate::fault::Fault;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable that names it.
const VARIABLE: &str = "SURTAX_STATE_DIR";

/// Directory of root.
pub(super) const OF_ROOT: &str = "/var/lib/surtax";

/// Extension of the files of runs, wherever they are.
pub const RUN_EXTENSION: &str = "surtax";

/// The directory that was named, if one was, and another than root's own.
#[must_use]
pub fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from).filter(|named| named != Path::new(OF_ROOT))
}

/// The directory of all that is kept.
///
/// # Errors
/// The machine's: nobody says where this user's files are.
pub fn directory() -> Result<PathBuf, Fault> {
    if let Some(named) = named() {
        return Ok(named);
    }
    if super::us::is_machines_root() {
        return Ok(PathBuf::from(OF_ROOT));
    }
    of_user(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")).ok_or_else(|| {
        Fault::machine("neither `XDG_STATE_HOME` nor `HOME` is set")
            .hint(format!("set `HOME`, or name a directory of your own in `{VARIABLE}`"))
    })
}

/// The same, made if absent, in which nobody else can put a file.
///
/// # Errors
/// As [`directory`]; somebody else could change what is in it.
pub fn ensured() -> Result<PathBuf, Fault> {
    exclusive::ensure(&directory()?, 0o700)
}

/// The directory of journals.
///
/// # Errors
/// As [`directory`].
pub(super) fn journals() -> Result<PathBuf, Fault> {
    match named() {
        Some(named) => Ok(named),
        None => directory().map(|directory| directory.join("labs")),
    }
}

/// A relative `XDG_STATE_HOME` does not count, as its specification says.
fn of_user(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let state = state.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(home?).join(".local/state")));
    Some(state?.join("surtax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_state_is_where_the_specification_has_it() {
        let of = |state: Option<&str>, home: Option<&str>| {
            of_user(state.map(OsString::from), home.map(OsString::from))
        };
        let at = |path: &str| Some(Path::new(path).to_path_buf());
        assert_eq!(of(Some("/s"), Some("/h")), at("/s/surtax"));
        assert_eq!(of(Some("here"), Some("/h")), at("/h/.local/state/surtax"));
        assert_eq!(of(None, Some("/h")), at("/h/.local/state/surtax"));
        assert_eq!(of(Some(""), None), None);
    }
}
