//! A ledger appears whole, under a name that nobody had, or not at all.
//!
//! Its first database is a file without a name, which the kernel forgets if this process is killed;
//! it gets its name, with the run in it and synced, by a link that never replaces anything. Two
//! runs of one second cannot take one name.

use super::files::{self, Beside, Files};
use super::hold::{self, Hold};
use super::recovered;
use super::shelf;
use crate::fault::{Doing, Fault};
use crate::lab::sudoer;
use crate::plan::shell_path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A run may hold values of `--env`: it is for whoever made it alone, and in the folder for a user
/// of `sudo` for them.
const MODE: u32 = 0o600;

/// Beginning of the name of a file that has no final name yet, on a file system that has no files
/// without names.
const PART: &str = ".surtax-part-";

/// A database is at most so large where a journal must be rolled back before it can be written.
const RECOVERED_MAX_BYTES: usize = 512 << 20;

/// Writes a first database and gives it the first of these names, all of one directory, that is
/// free; holds it.
///
/// # Errors
/// The user's where none is free, the machine's where it cannot be written.
pub(super) fn publish(
    image: &[u8],
    paths: impl IntoIterator<Item = PathBuf>,
) -> Result<Hold, Fault> {
    let mut paths = paths.into_iter().peekable();
    let first = paths.peek().cloned().unwrap_or_default();
    let doing = || format!("create the run file `{}`", first.display());
    let directory = directory_of(&first);
    let unnamed = Unnamed::make(directory, image)
        .doing(doing())
        .map_err(|fault| fault.hint("name another place with `--output`"))?;
    for path in paths {
        let files = Files::of(&path, unnamed.file.try_clone().doing(doing())?);
        // A name that is taken is told as such, whatever lies beside it.
        if path.symlink_metadata().is_err() {
            let elsewhere = |fault: Fault| fault.hint("name another place with `--output`");
            files.require_own().map_err(elsewhere)?;
            require_nothing_beside(&files)?;
        }
        let hold = hold::take_of(files)?;
        match unnamed.take_name(&path) {
            Ok(()) => {
                File::open(directory).and_then(|it| it.sync_all()).doing(doing())?;
                return Ok(hold);
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error).doing(doing()),
        }
    }
    Err(taken(&first))
}

/// Refuses a name beside which a log or a journal lies: SQLite would take it into the run that gets
/// the name.
fn require_nothing_beside(files: &Files) -> Result<(), Fault> {
    let left = [Beside::Journal, Beside::Log].into_iter().find(|which| files.has(*which));
    let Some(left) = left else { return Ok(()) };
    let path = files.path_of(left);
    let (shown, quoted) = (path.display(), shell_path(&path));
    Err(Fault::user(format!("`{shown}` is left of another run, whose file is not there any more"))
        .hint(format!("choose another name, or remove it: rm {quoted}")))
}

/// Refuses a log beside a run that says that it has none: nobody was shown what is in it, and
/// SQLite would take it in.
pub(super) fn require_no_strange_log(files: &Files) -> Result<(), Fault> {
    let path = files.path_of(Beside::Log);
    let (shown, quoted) = (path.display(), shell_path(&path));
    let may_have_log =
        recovered::may_have_log(files).doing(format_args!("read beside `{shown}`"))?;
    if may_have_log || !files.has(Beside::Log) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "`{shown}` lies beside a run that has no such file, and is none of its"
    ))
    .hint(format!("see what it is, and remove it: rm {quoted}")))
}

/// Returns the fault of a name that is taken.
pub(crate) fn taken(path: &Path) -> Fault {
    let (shown, quoted) = (path.display(), shell_path(path));
    if path.is_dir() {
        let quoted = shell_path(&path.join("run.surtax"));
        return Fault::user(format!("`{shown}` is a directory, and a run is a file"))
            .hint(format!("name the run in it: --output {quoted}"));
    }
    if super::stranger::is_unbegun(path) {
        return Fault::user(format!(
            "`{shown}` is there already, and no run was ever begun in it: an older surtax was \
             killed, or its disk was full"
        ))
        .hint(format!("remove it, and ask again: rm {quoted}"));
    }
    Fault::user(format!("the run file `{shown}` already exists"))
        .hint(format!("choose another name, or go on with it: surtax resume {quoted}"))
}

/// Rolls back what a killed process left undone by a rollback journal, which surtax itself does not
/// use any more. What it gives back is the hold of the file that has the name then.
///
/// The file is replaced as a whole, and the journal removed after it: killed in between, the same
/// is done once more.
///
/// # Errors
/// The machine's.
pub(super) fn require_recovered(hold: Hold) -> Result<Hold, Fault> {
    let files = hold.files();
    if !files.has(Beside::Journal) {
        // An empty one says nothing, and would only be in the way.
        let _ = std::fs::remove_file(files.path_of(Beside::Journal));
        return Ok(hold);
    }
    let path = files.path();
    let doing = || format!("roll back the journal of `{}`", path.display());
    let out_of_room = |fault: Fault| fault.hint("make room, and ask again");
    let image = recovered::image(files, RECOVERED_MAX_BYTES).doing(doing())?;
    files.require_own()?;
    let part = part_of(path);
    let file = filled(&part, &image).doing(doing()).map_err(out_of_room)?;
    // Held before it has the name: nobody takes it in between.
    let replaced = hold::take_of(Files::of(path, file))?;
    let replace = || -> io::Result<()> {
        std::fs::rename(&part, path)?;
        for beside in [Beside::Log, Beside::Journal] {
            match std::fs::remove_file(files.path_of(beside)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        File::open(directory_of(path))?.sync_all()
    };
    replace().doing(doing()).map_err(out_of_room)?;
    Ok(replaced)
}

/// A file that is not there yet for anybody else.
struct Unnamed {
    file: File,
    /// The name that it has all the same where the file system knows no files without one.
    part: Option<PathBuf>,
}

impl Unnamed {
    fn make(directory: &Path, image: &[u8]) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(MODE);
        let made = match rustix::fs::open(directory, flags, mode) {
            Ok(file) => Self { file: File::from(file), part: None },
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::make_part(directory)?,
            Err(error) => return Err(error.into()),
        };
        made.file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
        if let Some(user) = shelf::reader_of(directory) {
            // Without it the run is root's alone, which its maker says.
            let _ = sudoer::let_read(&made.file, user);
        }
        let mut file = &made.file;
        file.write_all(image)?;
        file.sync_all()?;
        Ok(made)
    }

    /// The same under a hidden name. What killed processes left under such names is removed first.
    fn make_part(directory: &Path) -> io::Result<Self> {
        sweep(directory);
        let part = part_of(&directory.join("run"));
        Ok(Self { file: made(&part)?, part: Some(part) })
    }

    /// Gives it a name that is free.
    fn take_name(&self, path: &Path) -> Result<(), Errno> {
        match &self.part {
            Some(part) => rustix::fs::renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE),
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)
            }
        }
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Where it has its name now, there is nothing left under this one.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Removes what killed processes left: files of ours that nobody holds.
fn sweep(directory: &Path) {
    let us = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_part = entry.file_name().to_string_lossy().starts_with(PART);
        let is_ours = entry.metadata().is_ok_and(|it| it.is_file() && it.uid() == us);
        let path = entry.path();
        let is_held = |file| Hold::of_nobody(Files::of(&path, file)).is_held();
        let is_free = || files::opened(&path, OFlags::RDONLY).is_ok_and(|file| !is_held(file));
        if is_part && is_ours && is_free() {
            // Whoever made it may be quicker.
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    directory_of(path).join(format!("{PART}{}-{name}", std::process::id()))
}

fn made(part: &Path) -> io::Result<File> {
    // A process of this number was killed before; it cannot be at work on it.
    let _ = std::fs::remove_file(part);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(part, flags, Mode::from_raw_mode(MODE))?))
}

/// A new file with all that it is to hold, on the disk; none where that is full.
fn filled(part: &Path, image: &[u8]) -> io::Result<File> {
    let mut file = made(part)?;
    match file.write_all(image).and_then(|()| file.sync_all()) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = std::fs::remove_file(part);
            Err(error)
        }
    }
}

/// The directory that a name is in.
pub(super) fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
