//! Places that a command must not write to: runs that are kept, what vouches for them, results,
//! what root executes, and what decides where another of its directories is.

use crate::fault::Fault;
use crate::layer::StackSpec;
use crate::ledger::shelf;
use crate::plan::Plan;
use crate::plan::writable::{leads_into, real};
use crate::workload::definition::{Client, Definition};
use crate::workload::{self, Workload};
use crate::{driver, lab};
use std::ffi::OsString;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// Places that are surtax's on every machine, whatever this one's are called.
const OURS: [&str; 3] = ["/var/lib/surtax", "/var/cache/surtax", "/run/surtax"];

/// Places in which surtax makes directories beside those of others.
const SHARED: [&str; 2] = ["/var/tmp", "/dev/shm"];

/// Places whose names are of what the caller has opened.
const OPENED: [&str; 2] = ["/dev", "/proc"];

/// Places that configure the programs that surtax starts, and what these start in turn.
const CONFIGURATIONS: [&str; 2] = ["/etc", "/boot"];

/// The same in a home.
const CONFIGURATIONS_OF_A_HOME: [&str; 3] = [".ssh", ".docker", ".config/containers"];

/// Number of links that the kernel follows.
const LINKS_MAX: u32 = 40;

/// Refuses a plan whose command may write to its own run, to those that are kept, to surtax's
/// state, to what root executes, or to where a result will be: it could make any number, or have
/// surtax write or execute what it likes.
///
/// # Errors
/// The user's, with the directory; also where one has become a link since the plan was made.
pub(super) fn refuse(plan: &Plan, run: Option<&Path>, results: &[&Path]) -> Result<(), Fault> {
    for directory in &plan.writable {
        require_plain(directory)?;
        require_apart(directory, plan)?;
        require_foreign(directory, run)?;
        if let Some(result) = results.iter().find(|path| is_within(path, directory)) {
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

/// A plan names directories without links; one of an older surtax may not.
fn require_plain(directory: &Path) -> Result<(), Fault> {
    let found = real(directory);
    if found == *directory {
        return Ok(());
    }
    let (shown, found) = (directory.display(), found.display());
    Err(Fault::user(format!("the writable directory `{shown}` leads to `{found}`"))
        .hint("see whether somebody made it a link; to write there, begin another run"))
}

/// Whoever can rename a directory above another one, or above a root, decides where that one is.
fn require_apart(directory: &Path, plan: &Plan) -> Result<(), Fault> {
    let shown = directory.display();
    let inside = |it: &&PathBuf| *it != directory && it.starts_with(directory);
    if let Some(inner) = plan.writable.iter().find(inside) {
        return Err(Fault::user(format!(
            "the writable directory `{}` lies in `{shown}`, which is writable as a whole",
            inner.display()
        ))
        .hint("name the outer one alone"));
    }
    let stacks = plan.stacks.iter().chain([&plan.baseline]);
    let stacks = stacks.chain(plan.beside.iter().map(|neighbour| &neighbour.stack));
    let clients = clients(plan)?;
    let layers = stacks.chain(&clients).flat_map(|stack| &stack.layers);
    let mut files = layers.flat_map(driver::files);
    if let Some(file) = files.find(|file| is_within(file, directory)) {
        return Err(Fault::user(format!(
            "`{}`, which a stack is made of, lies in the writable directory `{shown}`",
            file.display()
        ))
        .hint("a command could replace it for the trials after its own: move one"));
    }
    Ok(())
}

/// Lists the stacks in which clients of workloads run, which no plan names as its own.
fn clients(plan: &Plan) -> Result<Vec<StackSpec>, Fault> {
    let neighbours = plan.beside.iter().map(|neighbour| &neighbour.workload);
    let definitions = plan.workload.iter().chain(neighbours).map(Workload::resolve);
    let stack = |definition: Definition| match definition.client {
        Client::Beside(stack) => Some(stack),
        Client::Native | Client::Stack => None,
    };
    definitions.filter_map(|definition| definition.map(stack).transpose()).collect()
}

/// Neither what is surtax's nor what decides what root executes lies in it or around it.
fn require_foreign(directory: &Path, run: Option<&Path>) -> Result<(), Fault> {
    let shown = directory.display();
    let kept = shelf::directories().unwrap_or_default().into_iter();
    let ours = kept.chain(lab::state::directory()).chain(lab::cache_place());
    let ours = ours.chain([lab::run_directory()]).chain(workload::shelf::directory());
    let ours = ours.chain(OURS.map(PathBuf::from));
    let ours: Vec<PathBuf> = ours.collect();
    let around = ours.iter().find(|place| leads_into(directory, place));
    let shared = SHARED.map(PathBuf::from);
    let inside = ours.iter().chain(&shared).map(PathBuf::as_path).chain(run);
    let inside = { inside }.find(|place| is_within(place, directory));
    if let Some(place) = around.map(PathBuf::as_path).or(inside) {
        let place = place.display();
        return Err(Fault::user(format!(
            "`{place}`, where surtax keeps runs, workloads or its state, and the writable \
             directory `{shown}` lie in one another: the command could write its own result"
        ))
        .hint(
            "name a narrower directory with `--writable`, or have the run elsewhere: with \
             `--output` or `XDG_DATA_HOME`, or by moving its file",
        ));
    }
    let configured: Vec<PathBuf> = configured().collect();
    let around = configured.iter().find(|place| leads_into(directory, place)).cloned();
    let mut held = executed().chain(configured).filter(|place| is_within(place, directory));
    if let Some(place) = around.or_else(|| held.next()) {
        let place = place.display();
        return Err(Fault::user(format!(
            "`{place}`, from which surtax starts programs or which configures them, and the \
             writable directory `{shown}` lie in one another: the command could exchange what is \
             started next"
        ))
        .hint("name a narrower directory with `--writable`, or take that one off `PATH`"));
    }
    Ok(())
}

/// Places that decide what root's programs do.
fn configured() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let homes =
        home.into_iter().flat_map(|home| CONFIGURATIONS_OF_A_HOME.map(|place| home.join(place)));
    CONFIGURATIONS.map(PathBuf::from).into_iter().chain(homes)
}

/// Places from which programs are started: the directories of `PATH`, be they relative to where
/// surtax was called, the links in them, and surtax's own file.
fn executed() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path)
        .filter_map(|place| std::path::absolute(Path::new(".").join(place)).ok())
        .collect();
    let entries = directories.clone().into_iter().filter_map(|place| place.read_dir().ok());
    let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let links = entries.flat_map(move |entries| entries.flatten().filter(is_link));
    let links = links.map(|entry| entry.path());
    directories.into_iter().chain(std::env::current_exe()).chain(links)
}

/// Tells whether a path leads into a directory or through it: where one of its names, or of those
/// of a link on its way, is looked up there, that one can be exchanged. What it ends with need not
/// be there.
fn is_within(path: &Path, directory: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let directory = real(directory);
    let names = |path: &Path| path.iter().rev().map(OsString::from).collect::<Vec<_>>();
    let (mut left, mut here, mut links) = (names(&path), PathBuf::from("/"), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        if here.starts_with(&directory) {
            return true;
        }
        let next = here.join(name); // which is `/` where a link begins there
        let is_opened = OPENED.iter().any(|place| next.starts_with(place));
        match next.read_link() {
            Ok(target) if !is_opened => {
                links += 1;
                if links > LINKS_MAX {
                    return false; // nobody follows more
                }
                left.extend(names(&target));
            }
            _ => here = next,
        }
    }
    here.starts_with(&directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_anywhere_on_a_way_that_lies_in_a_directory_leads_through_it() {
        let place = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(place.path()).unwrap();
        let [kept, tool, version] = ["kept", "tool", "version"].map(|name| place.join(name));
        for directory in [&kept, &tool, &version.join("bin")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink("../kept/release", tool.join("current")).unwrap();
        symlink(&version, kept.join("release")).unwrap();
        symlink("/dev/null", kept.join("null")).unwrap();
        symlink(kept.join("not-there"), tool.join("out")).unwrap();
        symlink("loop", tool.join("loop")).unwrap();
        for through in ["tool/current/bin", "tool/out", "kept/null", "kept", "tool/../kept/x"] {
            assert!(is_within(&place.join(through), &kept), "{through}");
        }
        for apart in ["version/bin", "tool/new", "tool/loop", "keptless", "kept/../tool"] {
            assert!(!is_within(&place.join(apart), &kept), "{apart}");
        }
        assert!(!is_within(Path::new("/dev/stdout"), &kept));
    }
}
