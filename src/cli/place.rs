//! Where a result is written to: whole or not at all, and nothing is replaced that is no result.
//!
//! surtax is often root, to whom every name gives way: a run, a device, or what a link leads to in a directory that is
//! open to all. So a name is looked at before anything is measured, and again before it is written.

use super::say;
use crate::fault::{Doing, Fault};
use crate::lab;
use crate::ledger::EXTENSION;
use crate::plan::shell_line;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How a database begins, and so a run, whatever it is called.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// How names end of what lies beside a run.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What a name is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Standard output.
    Output,
    /// This file, which is made, or replaced as a whole.
    File(PathBuf),
    /// A pipe or a device, which takes it as it comes.
    Stream,
}

/// Refuses early what would be refused after hours of measuring.
///
/// # Errors
/// The user's: a result cannot be written there, or something would be lost that is no result.
pub(super) fn require(path: &Path) -> Result<(), Fault> {
    look(path).map(drop)
}

/// Writes a result.
///
/// # Errors
/// As [`require`]; the machine's where it cannot be written.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Fault> {
    let doing = || format!("write `{}`", path.display());
    match look(path)? {
        Place::Output => say::answer(text),
        Place::Stream => {
            // A pipe that nobody reads is not waited for.
            let access = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let stream = rustix::fs::open(path, access, Mode::empty()).doing(doing())?;
            rustix::fs::fcntl_setfl(&stream, OFlags::empty()).doing(doing())?;
            File::from(stream).write_all(text.as_bytes()).doing(doing())
        }
        Place::File(path) => {
            let part = path.with_added_extension("part");
            // One that a crash left; what somebody else puts there again is refused.
            let _ = fs::remove_file(&part);
            let filled =
                lab::write(&part, text).and_then(|()| fs::rename(&part, &path).doing(doing()));
            if filled.is_err() {
                let _ = fs::remove_file(&part);
            }
            filled
        }
    }
}

fn look(path: &Path) -> Result<Place, Fault> {
    if path == Path::new("-") {
        return Ok(Place::Output);
    }
    let shown = path.display();
    if is_called_like_a_run(path) {
        return Err(Fault::user(format!(
            "`{shown}` is a name for a run, and not for what is said of it"
        ))
        .hint("choose a name that ends in `.html`, `.json`, `.csv`, `.md` or `.txt`"));
    }
    let named = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return absent(path),
        found => found.doing(format_args!("look at `{shown}`"))?,
    };
    if named.is_symlink() {
        require_ours(path, "link", &named)?;
    }
    let found = path.metadata().map_err(|error| {
        Fault::user(format!("`{shown}` leads to no file: {error}"))
            .hint(format!("remove it, and ask again: rm {}", quoted(path)))
    })?;
    if found.is_dir() {
        return Err(Fault::user(format!("`{shown}` is a directory"))
            .hint(format!("name a file in it: {}", quoted(&path.join("report.html")))));
    }
    if found.is_file() {
        return require_no_run(path)
            .map(|()| Place::File(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())));
    }
    if found.file_type().is_block_device() || found.file_type().is_socket() {
        return Err(Fault::user(format!("`{shown}` is neither a file nor a stream"))
            .hint("name a file, or leave it out for standard output"));
    }
    require_ours(path, "stream", &found)?;
    Ok(Place::Stream)
}

fn is_called_like_a_run(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = format!(".{EXTENSION}");
    BESIDE.iter().map(|beside| format!("{ending}{beside}")).any(|it| name.ends_with(&it))
        || name.ends_with(&ending)
}

/// A name that is free, in a directory that is there.
fn absent(path: &Path) -> Result<Place, Fault> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        let (shown, missing) = (path.display(), parent.display());
        return Err(Fault::user(format!("there is no directory `{missing}` for `{shown}`"))
            .hint(format!("mkdir -p {}", quoted(parent))));
    }
    Ok(Place::File(path.to_owned()))
}

/// That a file is no database: a run may have any name.
fn require_no_run(path: &Path) -> Result<(), Fault> {
    let mut begin = [0; DATABASE.len()];
    let is_database = File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == DATABASE;
    if !is_database {
        return Ok(());
    }
    Err(Fault::user(format!(
        "`{}` is a run or another database, and would be lost",
        path.display()
    ))
    .hint("choose another name"))
}

/// That what somebody else could have put there is not obeyed.
fn require_ours(path: &Path, what: &str, found: &Metadata) -> Result<(), Fault> {
    let owner = found.uid();
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(Fault::user(format!("the {what} `{}` belongs to user {owner}", path.display()))
        .hint("name a file of your own"))
}

fn quoted(path: &Path) -> String {
    shell_line([path.display().to_string().as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_result_is_replaced_and_a_link_of_ours_is_followed() {
        let place = place();
        let (file, link) = (place.path().join("a.json"), place.path().join("latest.json"));
        symlink(&file, &link).unwrap();
        assert!(require(&link).unwrap_err().message.contains("leads to no file"));
        for text in ["one", "two"] {
            write(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        write(&link, "three").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_run_is_never_replaced_whatever_it_is_called() {
        let place = place();
        for name in ["a.surtax", "a.surtax-wal", "a.surtax-journal"] {
            let fault = require(&place.path().join(name)).unwrap_err();
            assert!(fault.message.contains("is a name for a run"), "{fault}");
        }
        let run = place.path().join("kept.html");
        fs::write(&run, [DATABASE, b"and more"].concat()).unwrap();
        assert!(write(&run, "x").unwrap_err().message.contains("would be lost"));
        assert_eq!(fs::read(&run).unwrap().len(), DATABASE.len() + 8);
    }

    #[test]
    fn a_pipe_and_a_device_take_a_result_and_stay_what_they_are() {
        let place = place();
        let pipe = place.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(write(&pipe, "x").unwrap_err().message.contains("write `"), "nobody reads it");
        let (read, path) = (pipe.clone(), pipe.clone());
        let reader = std::thread::spawn(move || fs::read_to_string(read).unwrap());
        // It is open as soon as there is a reader.
        while write(&path, "a result\n").is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(reader.join().unwrap(), "a result\n");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        write(Path::new("/dev/null"), "x").unwrap();
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn what_is_somebody_elses_or_no_file_is_refused() {
        let place = place();
        let refused = |path: &Path| require(path).unwrap_err().message;
        assert!(refused(place.path()).contains("is a directory"));
        assert!(refused(&place.path().join("no/x.html")).contains("there is no directory"));
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: only root can give a link away");
            return;
        }
        let link = place.path().join("link");
        fs::write(place.path().join("precious"), "x").unwrap();
        symlink(place.path().join("precious"), &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).unwrap();
        assert!(refused(&link).contains("the link `"));
    }
}
