//! Place of the ledgers: `$XDG_DATA_HOME/surtax/runs`, one file per run, named by time and title.
//!
//! Runs under `sudo` are for the user who typed it. They are in a folder that root keeps for them,
//! which they may read: a folder of their own they could exchange under root's hands.

use super::{EXTENSION, calendar, stranger};
use crate::fault::{Doing, Fault};
use crate::lab::exclusive;
use crate::lab::sudoer;
use crate::regular_file;
use etcetera::BaseStrategy;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use surtax_instrument::quantity::Nanoseconds;

/// The part of a file name that is the time: `20260102T030405Z`.
const STAMP_LENGTH: usize = 16;

/// Number of runs of one title that may begin in one second.
const NAMES_MAX: u32 = 1_000;

/// The longest part of a title in a file name.
const SLUG_LENGTH: usize = 40;

/// A folder on the way to the runs that is not there yet is made for this user alone.
///
/// Source: XDG Base Directory Specification 0.8, section 4.
const FOLDER_MODE: u32 = 0o700;

/// Name of the file beside the folder that says where the last run is, if not in the folder.
const LAST: &str = "last-run";

/// Name of a folder of runs.
const RUNS: &str = "runs";

/// The longest path, as the kernel has it.
const PATH_MAX: u64 = 4096;

/// Time when a run began, to put it among others.
type Begun = (String, Option<SystemTime>);

/// The folders of runs, which need not exist yet: first the one for new runs, then others that are
/// looked into. Of root under `sudo` the first is the one for whoever typed it, of anybody else
/// that is the second.
///
/// # Errors
/// The machine's, when there is neither `XDG_DATA_HOME` nor a home directory.
pub fn directories() -> Result<Vec<PathBuf>, Fault> {
    let strategy = etcetera::base_strategy::Xdg::new()
        .doing("find the home directory")
        .map_err(|fault| fault.hint("set HOME or XDG_DATA_HOME"))?;
    let own = strategy.data_dir().join("surtax").join(RUNS);
    let is_named = std::env::var_os("XDG_DATA_HOME").is_some_and(|it| Path::new(&it).is_absolute());
    let us = rustix::process::geteuid();
    Ok(match sudoer::uid() {
        // Whoever names a folder for root has one. `sudo` itself takes the variable away.
        _ if is_named && us.is_root() => vec![own],
        Some(user) => vec![folder_for(user), own],
        None if us.is_root() => vec![own],
        None => vec![own, folder_for(us.as_raw())],
    })
}

/// The folder that root keeps for runs that a user asked for by `sudo`.
fn folder_for(user: u32) -> PathBuf {
    sudoer::folder(user).join(RUNS)
}

/// The user of `sudo` whom a folder is for.
pub(super) fn reader_of(directory: &Path) -> Option<u32> {
    sudoer::uid().filter(|user| directory == folder_for(*user))
}

/// Tells whether a run is in the folder that root keeps for the user of this process: root put it
/// there, as a rule when they asked by `sudo`.
#[must_use]
pub fn is_of_sudo(run: &Path) -> bool {
    let folder = folder_for(rustix::process::geteuid().as_raw());
    let is_of_root = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.uid() == 0);
    run.parent() == Some(&folder)
        && is_of_root(run)
        && exclusive::require_ours_alone(&folder).is_ok()
}

/// Returns what is to be said of a new run that whoever typed `sudo` cannot read.
#[must_use]
pub fn unreadable(run: &Path) -> Option<String> {
    let user = sudoer::uid().filter(|user| !sudoer::may_read(run, *user))?;
    let shown = run.display();
    let why = match reader_of(run.parent()?) {
        Some(_) => "its disk has no access lists",
        None => "it is not in the folder that is kept for them",
    };
    Some(format!("only root can read `{shown}`, and not user {user}: {why}"))
}

/// Makes a folder for new runs if absent.
fn ensure(directory: &Path) -> Result<(), Fault> {
    if let Some(user) = reader_of(directory) {
        return sudoer::ensure(user, RUNS);
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(directory)
        .doing(format!("make the folder `{}`", directory.display()))
        .map_err(|fault| {
            fault.hint("run it as root, or name a run file that can be written with `--output`")
        })
}

/// Returns what is to be said of an `XDG_DATA_HOME` that names no folder for runs: a relative one
/// counts as not set. `None` where there is nothing to say.
///
/// Source: XDG Base Directory Specification 0.8, section 2.
#[must_use]
pub fn ignored(directory: &Path) -> Option<String> {
    ignored_one(&std::env::var_os("XDG_DATA_HOME")?, directory)
}

fn ignored_one(named: &OsStr, directory: &Path) -> Option<String> {
    let is_meant = !named.is_empty() && Path::new(named).is_relative();
    let named = named.to_string_lossy();
    is_meant.then(|| {
        format!(
            "`XDG_DATA_HOME={}` is no absolute path and counts as not set: runs are in `{}`; name \
             the folder from `/` on",
            named.escape_debug(),
            directory.display()
        )
    })
}

/// The names that a new run in this folder may get, in their order: `<time>-<title>.surtax`, then
/// with a number. The folder is made if absent.
///
/// # Errors
/// The machine's, when the folder cannot be made.
pub fn names(
    directory: &Path,
    title: &str,
    at: Nanoseconds,
) -> Result<impl Iterator<Item = PathBuf> + use<>, Fault> {
    ensure(directory)?;
    let stem = format!("{}-{}", calendar::compact(at), slug(title));
    let directory = directory.to_path_buf();
    let named = move |count| match count {
        1 => directory.join(format!("{stem}.{EXTENSION}")),
        _ => directory.join(format!("{stem}-{count}.{EXTENSION}")),
    };
    Ok((1..=NAMES_MAX).map(named))
}

/// Notes beside the folder that the last run was begun elsewhere, in this file; or, without one,
/// that it is in the folder.
///
/// # Errors
/// The machine's.
pub fn note_last(directory: &Path, elsewhere: Option<&Path>) -> Result<(), Fault> {
    let Some(note) = directory.parent().map(|parent| parent.join(LAST)) else { return Ok(()) };
    let doing = || format!("note in `{}` where the run is", note.display());
    let there = match fs::symlink_metadata(&note) {
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        found => {
            found.doing(doing())?;
            if noted(&note).is_none() {
                return Err(Fault::user(format!("`{}` is no note of a run", note.display()))
                    .hint("see what it is, and remove it"));
            }
            true
        }
    };
    let folder = note.parent().unwrap_or(Path::new("."));
    let Some(path) = elsewhere else {
        if there {
            exclusive::require_ours_alone(folder)?;
            fs::remove_file(&note).doing(format!("remove `{}`", note.display()))?;
        }
        return Ok(());
    };
    ensure(directory)?;
    exclusive::require_ours_alone(folder)?;
    let path = std::path::absolute(path).doing(doing())?;
    // As a whole or not at all.
    let part = folder.join(format!("{LAST}-{}", exclusive::unguessable()?));
    let mut file = exclusive::create(&part, 0o600)?;
    if let Some(user) = reader_of(directory) {
        // Without it, `last` is the last one in the folder for them.
        let _ = sudoer::let_read(&file, user);
    }
    let written =
        file.write_all(path.as_os_str().as_bytes()).and_then(|()| fs::rename(&part, &note));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.doing(doing())
}

/// The file of the run that was begun last, over all folders.
fn last<P: AsRef<Path>>(directories: &[P]) -> Result<PathBuf, Fault> {
    let ledgers = list(directories)?;
    let of_each = directories.iter().filter_map(|it| last_in(it.as_ref(), &ledgers));
    of_each.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, path)| path).ok_or_else(|| {
        let first = directories.first().map_or(Path::new("."), AsRef::as_ref);
        Fault::user(format!("there is no run in `{}` yet", first.display()))
            .hint("make one: surtax compare --in native,runc -- true")
    })
}

/// The file of the run that was begun last of those in a folder, or that the note beside it names,
/// and when.
fn last_in(directory: &Path, ledgers: &[PathBuf]) -> Option<(Begun, PathBuf)> {
    let note = directory.parent().map(|parent| parent.join(LAST));
    if let Some(path) = note.as_deref().and_then(noted).filter(|path| may_be_file(path)) {
        let written = fs::symlink_metadata(note?).and_then(|it| it.modified()).ok()?;
        let since = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Some(((calendar::compact(since.into()), Some(written)), path));
    }
    let is_here = |path: &&PathBuf| path.parent() == Some(directory);
    let path = ledgers.iter().rev().filter(is_here).find(|path| !stranger::is_unbegun(path))?;
    Some((begun(path), path.clone()))
}

/// Tells whether there is a file, also where this user may not see that.
fn may_be_file(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
        Ok(found) => found.is_file(),
    }
}

/// The second in which a run began, as its name says, and when its file was made: of one second,
/// the names do not tell which was first.
fn begun(path: &Path) -> Begun {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let second = name.chars().take(STAMP_LENGTH).collect();
    (second, path.symlink_metadata().and_then(|file| file.created()).ok())
}

/// The path in a note. One that somebody else could have written is none.
fn noted(note: &Path) -> Option<PathBuf> {
    let file = regular_file::open(note).ok()?;
    let found = file.metadata().ok()?;
    if !exclusive::is_trusted(found.uid()) || found.mode() & exclusive::GROUP_OR_OTHER_WRITE != 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(PATH_MAX).read_to_end(&mut bytes).ok()?;
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// The ledgers in these folders, oldest first; none when no folder exists. One that cannot be read
/// hides none of the others.
///
/// # Errors
/// The machine's, when a folder cannot be read and the others have nothing.
pub fn list<P: AsRef<Path>>(directories: &[P]) -> Result<Vec<PathBuf>, Fault> {
    let (mut ledgers, mut unread) = (Vec::new(), None);
    for (index, directory) in directories.iter().map(AsRef::as_ref).enumerate() {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            // Nothing was ever asked for by `sudo`, as a rule.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && index > 0 => continue,
            result => result.doing(format!("read the folder `{}`", directory.display())),
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(fault) => {
                unread = unread.or(Some(fault));
                continue;
            }
        };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let named = paths.filter(|path| path.extension().is_some_and(|it| it == EXTENSION));
        ledgers.extend(named.filter(|path| !path.is_dir()));
    }
    ledgers.sort_by_cached_key(|path| (begun(path), path.file_name().map(OsStr::to_owned)));
    match unread {
        Some(fault) if ledgers.is_empty() => Err(fault),
        _ => Ok(ledgers),
    }
}

/// Finds a run: by path, which has a `/` or ends in `.surtax`, by its file's name, by a part of it
/// that only one run has, or `last`, which is the one that was begun last, wherever it is kept: a
/// file that an older surtax left without a run is none.
///
/// # Errors
/// The user's, when no run or more than one fits.
pub fn find<P: AsRef<Path>>(directories: &[P], name: &str) -> Result<PathBuf, Fault> {
    let path = Path::new(name);
    // Somebody else may have laid a file there that is called as a run of ours, or `last`. What
    // else than a file is named so is told when it is opened.
    let is_path = name.contains('/') || path.extension().is_some_and(|it| it == EXTENSION);
    // A folder may have a run's name by chance.
    let is_named = |it: fs::Metadata| !it.is_dir() || name.contains('/');
    let is_there = match fs::symlink_metadata(path) {
        Err(error) => error.kind() == ErrorKind::PermissionDenied && name.contains('/'),
        Ok(found) => is_named(found),
    };
    if is_path && is_there {
        return Ok(path.into());
    }
    if name == "last" {
        return last(directories);
    }
    let ledgers = list(directories)?;
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = name.strip_suffix(&format!(".{EXTENSION}")).unwrap_or(name);
    let fits: [&dyn Fn(&str) -> bool; 3] =
        [&|stem| stem == wanted, &|stem| stem.starts_with(wanted), &|stem| stem.contains(wanted)];
    for fit in fits {
        let mut found: Vec<&PathBuf> = ledgers.iter().filter(|path| fit(&stem(path))).collect();
        // A copy in another folder is the same run.
        let mut known = BTreeSet::new();
        found.retain(|path| known.insert(stem(path)));
        match found.as_slice() {
            [] => {}
            [only] => return Ok(PathBuf::clone(only)),
            [first, second, more @ ..] => {
                let (first, second) = (stem(first), stem(second));
                let more = match more.len() {
                    0 => String::new(),
                    count => format!(" and {count} more"),
                };
                return Err(Fault::user(format!(
                    "more than one run fits `{name}`: `{first}`, `{second}`{more}"
                ))
                .hint("type more of its name, as `surtax list` shows it"));
            }
        }
    }
    let fault = Fault::user(format!("there is no run `{name}`"));
    Err(match fs::symlink_metadata(path) {
        Ok(_) if name.ends_with(EXTENSION) => {
            fault.hint(format!("for the file of that name here, write `./{name}`"))
        }
        _ => fault.hint("see `surtax list`, or name the file itself"),
    })
}

/// A title as a part of a file name: lower case, letters and digits, the rest becomes `-`.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for letter in title.chars().flat_map(char::to_lowercase) {
        match letter {
            _ if slug.len() >= SLUG_LENGTH => break,
            'a'..='z' | '0'..='9' => slug.push(letter),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    String::from(if slug.is_empty() { "run" } else { slug })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_that_is_named_and_not_used_is_said() {
        let said = |named: &str| ignored_one(OsStr::new(named), Path::new("/root/runs"));
        let note = said("data").unwrap();
        assert!(note.starts_with("`XDG_DATA_HOME=data` is no absolute path"), "{note}");
        assert!(note.contains("runs are in `/root/runs`"), "{note}");
        assert_eq!((said(""), said("/data")), (None, None));
    }

    #[test]
    fn a_title_never_leads_out_of_the_folder() {
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("make -j4 in ÄÖÜ"), "make-j4-in");
        assert_eq!(slug("..."), "run");
        assert!(slug(&"x".repeat(300)).len() <= SLUG_LENGTH);
    }

    /// The first name that no file has, taken by a file that holds something.
    fn place(shelf: &Path, title: &str, at: u64) -> PathBuf {
        let mut names = names(shelf, title, Nanoseconds(at)).unwrap();
        let path = names.find(|path| !path.exists()).unwrap();
        fs::write(&path, "something").unwrap();
        path
    }

    #[test]
    fn the_last_run_is_the_one_that_was_begun_last_wherever_it_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let shelf = home.path().join("runs");
        let first = place(&shelf, "first", 1_000_000_000);
        let elsewhere = home.path().join("mine.surtax");
        fs::write(&elsewhere, "something").unwrap();
        note_last(&shelf, Some(&elsewhere)).unwrap();
        assert_eq!(find(&[&shelf], "last").unwrap(), elsewhere);
        // Somebody else's note is none, and neither is one of a file that is gone.
        let note = home.path().join(LAST);
        let mode = |mode| fs::set_permissions(&note, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o666);
        assert_eq!(find(&[&shelf], "last").unwrap(), first);
        note_last(&shelf, None).unwrap_err();
        assert!(note.exists(), "what is no note of ours stays");
        mode(0o600);
        fs::remove_file(&elsewhere).unwrap();
        assert_eq!(find(&[&shelf], "last").unwrap(), first);
        note_last(&shelf, None).unwrap();
        note_last(&shelf, None).unwrap();
        assert!(!note.exists());
        let left: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn of_several_runs_that_fit_a_name_two_are_named_and_the_others_counted() {
        let home = tempfile::tempdir().unwrap();
        let shelf = home.path().join("runs");
        let said = |at: u64| {
            place(&shelf, "one", at * 1_000_000_000);
            find(&[&shelf], "one").err().map(|fault| fault.message)
        };
        assert_eq!(said(1), None);
        assert!(said(2).is_some_and(|it| it.ends_with("Z-one`")));
        assert!(said(3).is_some_and(|it| it.ends_with("Z-one` and 1 more")));
        assert!(said(4).is_some_and(|it| it.ends_with("Z-one` and 2 more")));
    }

    #[test]
    fn of_two_folders_the_last_run_is_the_one_that_was_begun_last_and_each_is_found_by_name() {
        let home = tempfile::tempdir().unwrap();
        let folders = ["own", "of-sudo"].map(|it| home.path().join(it).join("runs"));
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(find(&folders, "last").unwrap_err().message.contains("own/runs` yet"));
        let first = place(&folders[1], "first", 2_000_000_000);
        assert_eq!(find(&folders, "last").unwrap(), first);
        pause();
        let second = place(&folders[0], "second", 3_000_000_000);
        assert_eq!(find(&folders, "last").unwrap(), second);
        let elsewhere = home.path().join("mine.surtax");
        fs::write(&elsewhere, "something").unwrap();
        pause();
        note_last(&folders[1], Some(&elsewhere)).unwrap();
        assert_eq!(find(&folders, "last").unwrap(), elsewhere);
        assert_eq!(find(&folders, "first").unwrap(), first);
        assert_eq!(list(&folders).unwrap(), [first.clone(), second.clone()]);
        // A copy is the same run, and an old run that came home later is no new one.
        note_last(&folders[1], None).unwrap();
        let copy = folders[0].join(first.file_name().unwrap());
        fs::copy(&first, &copy).unwrap();
        assert_eq!(find(&folders, "first").unwrap(), first);
        assert_eq!(find(&folders, "last").unwrap(), second);
        // One folder that cannot be read hides none of the other.
        fs::remove_dir_all(&folders[0]).unwrap();
        fs::write(&folders[0], "").unwrap();
        assert_eq!(find(&folders, "last").unwrap(), first);
        fs::remove_dir_all(&folders[1]).unwrap();
        assert!(find(&folders, "last").unwrap_err().message.contains("read the folder"));
    }

    #[test]
    fn a_run_is_found_by_last_by_its_beginning_and_by_a_part_that_only_it_has() {
        let shelf = tempfile::tempdir().unwrap();
        let day = 86_400_000_000_000;
        let runs = [("make", 0), ("sysbench cpu", day), ("make", 2 * day)];
        let paths = runs.map(|(title, at)| place(shelf.path(), title, at));
        assert_eq!(list(&[shelf.path()]).unwrap(), paths);
        assert_eq!(find(&[shelf.path()], "last").unwrap(), paths[2]);
        assert_eq!(find(&[shelf.path()], "19700101").unwrap(), paths[0]);
        assert_eq!(find(&[shelf.path()], "sysbench").unwrap(), paths[1]);
        let error = find(&[shelf.path()], "make").unwrap_err();
        assert!(error.message.contains("19700101T000000Z-make"), "{error}");
        assert_eq!(find(&[shelf.path()], "nothing").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_folder_that_is_made_for_runs_is_for_this_user_alone_and_one_that_is_there_stays() {
        use std::os::unix::fs::PermissionsExt;
        let shelf = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let there = shelf.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o750)).unwrap();
        let runs = there.join("surtax/runs");
        place(&runs, "make", 0);
        assert_eq!(
            [&there, &there.join("surtax"), &runs].map(|it| mode(it)),
            [0o750, 0o700, 0o700]
        );
    }

    #[test]
    fn two_runs_of_one_second_get_two_names() {
        let shelf = tempfile::tempdir().unwrap();
        place(shelf.path(), "make", 0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = place(shelf.path(), "make", 0);
        assert!(second.to_string_lossy().ends_with("-make-2.surtax"));
        assert_eq!(find(&[shelf.path()], "last").unwrap(), second);
    }

    #[test]
    fn a_file_in_which_no_run_was_begun_is_never_the_last_run() {
        let shelf = tempfile::tempdir().unwrap();
        let first = place(shelf.path(), "make", 0);
        fs::write(shelf.path().join("19700102T000000Z-make.surtax"), "").unwrap();
        let half = shelf.path().join("19700103T000000Z-make.surtax");
        let connection = rusqlite::Connection::open(&half).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        drop(connection);
        assert!(half.metadata().unwrap().len() > 0);
        assert_eq!(find(&[shelf.path()], "last").unwrap(), first);
        assert_eq!(list(&[shelf.path()]).unwrap().len(), 3);
    }
}
