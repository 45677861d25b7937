//! Places that a command must not write to: runs that are kept, what vouches for them, and results.

use super::results::RunFlags;
use crate::fault::Fault;
use crate::ledger::shelf;
use crate::plan::Plan;
use crate::plan::writable::{leads_into, real};
use std::path::{Path, PathBuf};

/// Places that are surtax's on every machine.
const OURS: [&str; 3] = ["/var/lib/surtax", "/var/cache/surtax", "/run/surtax"];

/// Places whose names are of what the caller has opened.
const OPENED: [&str; 2] = ["/dev", "/proc"];

/// Number of links that the kernel follows.
const LINKS_MAX: u32 = 40;

/// Refuses a plan whose command may write to its own run, to those that are kept, to surtax's state
/// or to where a result will be: it could make any number, or have surtax write to where it likes.
///
/// # Errors
/// The user's, with the directory; also where one has become a link since the plan was made.
pub(super) fn refuse(plan: &Plan, run: &Path, results: &RunFlags) -> Result<(), Fault> {
    for directory in &plan.writable {
        let found = real(directory);
        if found != *directory {
            let (shown, found) = (directory.display(), found.display());
            return Err(Fault::user(format!(
                "the writable directory `{shown}` leads to `{found}` now"
            ))
            .hint("see who made it a link; to write there, begin another run that names it"));
        }
        let kept = shelf::directories().unwrap_or_default().into_iter();
        let ours = kept.chain(OURS.map(PathBuf::from)).chain([beside(run)]);
        if let Some(place) = ours.into_iter().find(|place| leads_into(place, directory)) {
            let (shown, place) = (directory.display(), place.display());
            return Err(Fault::user(format!(
                "`{place}`, where surtax keeps runs or its state, lies in the writable directory \
                 `{shown}`: the command could write its own result"
            ))
            .hint(
                "name a narrower directory with `--writable`, or keep the run elsewhere, with \
                 `--output` or `XDG_DATA_HOME`",
            ));
        }
        if let Some(result) = results.paths().find(|path| is_within(path, directory)) {
            let (shown, result) = (directory.display(), result.display());
            return Err(Fault::user(format!(
                "`{result}` would be written into the writable directory `{shown}`: the command \
                 could leave a link there, and surtax would write to where it leads"
            ))
            .hint("write it elsewhere, or name a narrower directory with `--writable`"));
        }
    }
    Ok(())
}

/// Tells whether a file is made or replaced in a directory, or is a link that leads there, be it to
/// a file that is not there yet.
fn is_within(file: &Path, directory: &Path) -> bool {
    let mut file = file.to_path_buf();
    for _ in 0..LINKS_MAX {
        if leads_into(&beside(&file), directory) {
            return true;
        }
        let is_opened = OPENED.iter().any(|place| file.starts_with(place));
        match file.read_link() {
            Ok(target) if !is_opened => file = beside(&file).join(target),
            _ => return false,
        }
    }
    false // nobody follows more
}

/// The directory of a file.
fn beside(file: &Path) -> PathBuf {
    let above = file.parent().filter(|it| !it.as_os_str().is_empty());
    above.unwrap_or(Path::new(".")).to_path_buf()
}
