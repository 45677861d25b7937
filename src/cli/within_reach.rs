//! Places that a command must not write to: runs that are kept, what vouches for them, results,
//! what root executes, and what decides where another of its directories is.

use crate::fault::Fault;
use crate::ledger::shelf;
use crate::plan::Plan;
use crate::plan::writable::{leads_into, real};
use crate::{driver, lab, workload};
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
    let mut files = stacks.flat_map(|stack| &stack.layers).flat_map(driver::files);
    if let Some(file) = files.find(|file| is_within(file, directory)) {
        return Err(Fault::user(format!(
            "`{}`, which a stack is made of, lies in the writable directory `{shown}`",
            file.display()
        ))
        .hint("a command could replace it for the trials after its own: move one"));
    }
    Ok(())
}

/// Nothing of surtax's lies in it nor above it, and nothing that root executes lies in it.
fn require_foreign(directory: &Path, run: Option<&Path>) -> Result<(), Fault> {
    let shown = directory.display();
    let kept = shelf::directories().unwrap_or_default().into_iter();
    let ours = kept.chain(lab::state::directory()).chain(lab::cache_place());
    let ours = ours.chain([lab::run_directory()]).chain(workload::shelf::directory());
    let ours = ours.chain(OURS.map(PathBuf::from));
    let ours: Vec<PathBuf> = ours.collect();
    let around = ours.iter().find(|place| leads_into(directory, place));
    let shared = SHARED.map(PathBuf::from);
    let inside = ours.iter().chain(&shared).find(|place| leads_into(place, directory));
    let beside = run.map(beside).filter(|place| leads_into(place, directory));
    if let Some(place) = around.or(inside).or(beside.as_ref()) {
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

/// Tells whether a path is in a directory or leads there, be it to a file that is not there yet,
/// or by a link that is there.
fn is_within(file: &Path, directory: &Path) -> bool {
    if leads_into(file, directory) {
        return true;
    }
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
