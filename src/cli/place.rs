//! Place that a result is written to: whole or not at all, and nothing is replaced that is no
//! result.
//!
//! surtax is often root, to whom every name gives way: a run, a device, or what a link leads to in
//! a directory that is open to all. So a name is looked at before anything is measured, and again
//! before it is written. A link of one's own is followed once, by what it was read to be; from then
//! on no name is followed any more, since somebody else may exchange it at any moment. On the way
//! to its directory, too, no link of somebody else's is followed.

mod way;

use super::say;
use crate::fault::{Doing, Fault};
use crate::lab::{exclusive, sudoer, us};
use crate::ledger::EXTENSION;
use crate::plan::shell_path;
use crate::regular_file::handed_down;
use crate::report::forms::Form;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// First bytes of a database, and so of a run, whatever it is called.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// First bytes of a page of ours, which may have a name without an ending.
const PAGE: &[u8] = b"<!doctype html>";

/// End of the title of a page of ours, and within how many bytes it stands.
const TITLE_END: &str = " · surtax</title>";
const HEAD_MAX: u64 = 8 << 10;

/// Endings of the names of files that lie beside a run.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Endings of the names of results, which a newer one replaces.
const ENDINGS: [&str; 10] =
    ["html", "htm", "json", "csv", "md", "markdown", "txt", "svg", "xml", "prom"];

/// Through how many links of one's own a name may lead, as the kernel has it.
const LINK_LIMIT: usize = 40;

/// Kind of thing that a name stands for.
#[derive(Debug)]
enum NameKind {
    /// Standard output.
    Output,
    /// This file, which is made, or replaced as a whole.
    File(Named),
    /// A pipe or a device, which takes it as it comes.
    Stream(Named),
    /// File descriptor of this number, which the caller has opened.
    HandedDown(i32),
}

/// A name in a directory that is held open, so that nobody exchanges what lies above it.
#[derive(Debug)]
struct Named {
    directory: OwnedFd,
    name: OsString,
    /// For people.
    path: PathBuf,
}

impl Named {
    /// Goes the way to the directory of a path, which begins in this one where it is relative.
    fn from(beginning: BorrowedFd<'_>, path: &Path, shown: PathBuf) -> Result<Self, Fault> {
        let Some(name) = path.file_name() else { return Err(is_a_directory(&shown)) };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = way::open(beginning, parent.unwrap_or(Path::new(".")))?;
        Ok(Self { directory, name: name.to_owned(), path: shown })
    }

    /// Opens it, and follows no link.
    fn open(&self, access: OFlags) -> std::io::Result<File> {
        let access = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, &self.name, access, Mode::empty())?.into())
    }

    /// Returns the metadata of what the name stands for, of the link itself where it is one.
    fn metadata(&self) -> std::io::Result<Metadata> {
        self.open(OFlags::PATH)?.metadata()
    }

    /// Returns where a link leads, which must be one that nobody else could have put there.
    fn target(&self) -> std::io::Result<Result<Self, Fault>> {
        let held = self.open(OFlags::PATH)?;
        let refused = require_ours(&self.path, "link", &held.metadata()?)
            .and_then(|()| way::require_plain(&held, &self.name, &self.path));
        if let Err(fault) = refused {
            return Ok(Err(fault));
        }
        let words = rustix::fs::readlinkat(&held, "", Vec::new())?;
        let words = PathBuf::from(OsString::from_vec(words.into_bytes()));
        let shown = self.path.parent().unwrap_or(Path::new("")).join(&words);
        Ok(Self::from(self.directory.as_fd(), &words, shown))
    }
}

/// Refuses early what would be refused after hours of measuring, and a name of a file that would
/// not be taken for a page.
///
/// # Errors
/// As [`require_form`].
pub(super) fn require_page(path: &Path) -> Result<(), Fault> {
    require_form(path, &["html", "htm"])
}

/// Refuses a name of a file that ends as that of a form in which nothing is written there. A pipe
/// or a device has any name, and a version at the end of one is no ending.
///
/// # Errors
/// The user's: a result cannot be written there, something would be lost that is no result, or the
/// name ends as that of something else.
pub(super) fn require_form(path: &Path, endings: &[&str]) -> Result<(), Fault> {
    require_no_name_of_a_run(path, endings)?;
    let NameKind::File(_) = look(path)? else { return Ok(()) };
    let begins_with_a_letter =
        |it: &&OsStr| it.as_encoded_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let Some(ending) = path.extension().filter(begins_with_a_letter) else { return Ok(()) };
    if endings.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "`{}`: no `.{}` file is written here",
        path.display(),
        ending.display()
    ))
    .hint(ends_with(endings)))
}

/// That a name is none of a run, nor of what lies beside one.
fn require_no_name_of_a_run(path: &Path, endings: &[&str]) -> Result<(), Fault> {
    if !is_called_like_a_run(path) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "`{}` is a name for a run, and not for what is said of it",
        path.display()
    ))
    .hint(ends_with(endings)))
}

fn ends_with(endings: &[&str]) -> String {
    let known: Vec<String> = endings.iter().map(|known| format!("`.{known}`")).collect();
    format!("end the name with {}", known.join(" or "))
}

/// Refuses a name for a run that ends as that of a result: what is written there is a run, which
/// no browser and no spreadsheet opens.
///
/// # Errors
/// The user's, with the option that writes such a result.
pub(super) fn require_name_for_a_run(path: &Path) -> Result<(), Fault> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if !ENDINGS.contains(&ending.as_str()) {
        return Ok(());
    }
    let shown = path.display();
    let other = match (ending.as_str(), Form::of_ending(&ending)) {
        ("html" | "htm", _) => format!("`--report {shown}` writes the report; "),
        (_, Some(form)) => format!("`--export {}={shown}` writes the results so; ", form.name),
        (_, None) => String::new(),
    };
    Err(Fault::user(format!("`--output {shown}` would write a run, and no `.{ending}` file"))
        .hint(format!("{other}end the name of a run with `.{EXTENSION}`")))
}

/// Writes a result.
///
/// # Errors
/// As [`require_form`]; the machine's where it cannot be written.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Fault> {
    let doing = || format!("write `{}`", path.display());
    match look(path)? {
        NameKind::Output => say::put(content),
        NameKind::HandedDown(number) => copy_of(number)?.write_all(content).doing(doing()),
        NameKind::Stream(named) => {
            // A pipe that nobody reads is not waited for, and what somebody put in its place since
            // is not obeyed.
            let access = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let mut stream = named.open(access).doing(doing())?;
            let found = stream.metadata().doing(doing())?;
            require_ours(path, "stream", &found)?;
            if !found.file_type().is_fifo() && !found.file_type().is_char_device() {
                return Err(Fault::user(format!("`{}` is no stream any more", path.display()))
                    .hint("choose a name in a directory that nobody else can change"));
            }
            rustix::fs::fcntl_setfl(&stream, OFlags::empty()).doing(doing())?;
            stream.write_all(content).doing(doing())
        }
        NameKind::File(named) => replace(&named, content).map_err(|fault| fault.during(doing())),
    }
}

/// Removes the page that lies at a path, if there is one, and nothing that a link leads to; says
/// whether there was.
///
/// # Errors
/// The machine's where it cannot be looked for or removed.
pub(super) fn remove_page(path: &Path) -> Result<bool, Fault> {
    let named = Named::from(rustix::fs::CWD, path, path.to_owned())?;
    let is_one = named.metadata().is_ok_and(|it| it.is_file()) && is_our_page(&named);
    if is_one {
        rustix::fs::unlinkat(&named.directory, &named.name, AtFlags::empty())
            .doing(format_args!("remove `{}`", path.display()))?;
    }
    Ok(is_one)
}

/// Puts a whole file in the place of a name, which is not followed. Who could not read what it was
/// cannot read what it is.
fn replace(named: &Named, content: &[u8]) -> Result<(), Fault> {
    let Named { directory, name, .. } = named;
    let known = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let known =
        known.filter(|known| FileType::from_raw_mode(known.st_mode) == FileType::RegularFile);
    let part = format!(".surtax-{}.part", exclusive::unguessable()?);
    let fresh = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Its owner's alone until it is known whose else it may be.
    let file = rustix::fs::openat(directory, &part, fresh, Mode::RUSR | Mode::WUSR);
    let mut file = File::from(file.doing("make a new file beside it")?);
    // Nobody else chooses who may write to it, and of somebody else's file nothing is kept.
    let is_trusted = |owner| exclusive::is_trusted(owner) || Some(owner) == sudoer::uid();
    let known = known.filter(|known| is_trusted(known.st_uid));
    let mode = known.map_or(0o644 & !umask(), |known| known.st_mode & 0o644);
    hand_over(directory, &file);
    let filled = file
        .write_all(content)
        .doing("fill the new file beside it")
        .and_then(|()| {
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::fchmod(&file, mode).doing("set its permissions")
        })
        .and_then(|()| {
            rustix::fs::renameat(directory, &part, directory, name).doing("put it in its place")
        });
    if filled.is_err() {
        let _ = rustix::fs::unlinkat(directory, &part, AtFlags::empty());
    }
    filled
}

/// Gives a result in a directory of whoever typed `sudo` to them, as if they had made it; where the
/// file system knows no owners it stays as it is.
fn hand_over(directory: &OwnedFd, file: &File) {
    let Ok(theirs) = rustix::fs::fstat(directory) else { return };
    let Some(user) = sudoer::uid().filter(|user| *user == theirs.st_uid) else { return };
    let gives_group = Mode::from_raw_mode(theirs.st_mode).contains(Mode::SGID);
    let group = sudoer::group().filter(|_| !gives_group).map(rustix::fs::Gid::from_raw);
    let _ = rustix::fs::fchown(file, Some(rustix::fs::Uid::from_raw(user)), group);
}

/// Reads the permission bits that this process takes from the files that it makes; `0o022` where
/// they cannot be read.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o022)
}

/// A copy of a descriptor that the caller has opened.
fn copy_of(number: i32) -> Result<File, Fault> {
    // SAFETY: no memory is named.
    let copied = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copied < 0 {
        return Err(std::io::Error::last_os_error())
            .doing(format_args!("write to descriptor {number} of the caller's"));
    }
    // SAFETY: it was made just now, and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(copied) })
}

fn look(path: &Path) -> Result<NameKind, Fault> {
    if path == Path::new("-") {
        return Ok(NameKind::Output);
    }
    if let Some(number) = handed_down(path).filter(|_| path != Path::new("/dev/stdin")) {
        copy_of(number)?;
        return Ok(NameKind::HandedDown(number));
    }
    let shown = path.display();
    require_no_name_of_a_run(path, &ENDINGS)?;
    let leads_nowhere = |error: std::io::Error| {
        Fault::user(format!("`{shown}` leads to no file: {error}"))
            .hint(format!("remove it, and ask again: rm {}", shell_path(path)))
    };
    require_directory(path)?;
    let mut named = Named::from(rustix::fs::CWD, path, path.to_owned())?;
    let mut found = match named.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(NameKind::File(named)),
        found => found.doing(format_args!("look at `{shown}`"))?,
    };
    for _ in 0..LINK_LIMIT {
        if !found.is_symlink() {
            break;
        }
        // Looked at again by a descriptor of the link itself, which nobody exchanges.
        named = named.target().map_err(leads_nowhere)??;
        found = named.metadata().map_err(leads_nowhere)?;
    }
    if found.is_symlink() {
        return Err(leads_nowhere(Errno::LOOP.into()));
    }
    if found.is_dir() {
        return Err(is_a_directory(path));
    }
    if found.is_file() {
        require_no_run(&named)?;
        require_result(&named, found.len())?;
        return Ok(NameKind::File(named));
    }
    if found.file_type().is_block_device() || found.file_type().is_socket() {
        return Err(Fault::user(format!("`{shown}` is neither a file nor a stream"))
            .hint("name a file, or leave it out for standard output"));
    }
    require_ours(path, "stream", &found)?;
    Ok(NameKind::Stream(named))
}

fn is_a_directory(path: &Path) -> Fault {
    Fault::user(format!("`{}` is a directory", path.display()))
        .hint(format!("name a file in it: {}", shell_path(&path.join("FILE"))))
}

fn is_called_like_a_run(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = format!(".{EXTENSION}");
    BESIDE.iter().map(|beside| format!("{ending}{beside}")).any(|it| name.ends_with(&it))
        || name.ends_with(&ending)
}

/// That there is a directory for a name.
fn require_directory(path: &Path) -> Result<(), Fault> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        let (shown, missing) = (path.display(), parent.display());
        return Err(Fault::user(format!("there is no directory `{missing}` for `{shown}`"))
            .hint(format!("mkdir -p {}", shell_path(parent))));
    }
    Ok(())
}

/// That a file is no database: a run may have any name.
fn require_no_run(named: &Named) -> Result<(), Fault> {
    if !begins_with(named, DATABASE) {
        return Ok(());
    }
    Err(Fault::user(format!(
        "`{}` is a run or another database, and would be lost",
        named.path.display()
    ))
    .hint("choose another name"))
}

/// That a file which holds something is called as a result is, or as a manual page of ours, or is a
/// page.
fn require_result(named: &Named, length: u64) -> Result<(), Fault> {
    let name = Path::new(&named.name);
    let ending = name.extension().unwrap_or_default();
    let is_called_so = ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    let is_manual = || ending == "1" && named.name.as_encoded_bytes().starts_with(b"surtax");
    if length == 0 || is_called_so || is_manual() || begins_with(named, PAGE) {
        return Ok(());
    }
    let shown = named.path.display();
    Err(Fault::user(format!("`{shown}` is there, is not called as a result is, and would be lost"))
        .hint("choose another name, such as `report.html`, or remove it first"))
}

/// Tells whether a file is a page of ours, by its title.
fn is_our_page(named: &Named) -> bool {
    let mut begin = Vec::new();
    let read = named.open(OFlags::RDONLY | OFlags::NONBLOCK);
    let is_read = read.is_ok_and(|file| file.take(HEAD_MAX).read_to_end(&mut begin).is_ok());
    is_read && begin.starts_with(PAGE) && String::from_utf8_lossy(&begin).contains(TITLE_END)
}

/// Tells whether a file can be read and begins with these bytes.
fn begins_with(named: &Named, expected: &[u8]) -> bool {
    let mut begin = vec![0; expected.len()];
    let read = named.open(OFlags::RDONLY | OFlags::NONBLOCK);
    read.is_ok_and(|mut file| file.read_exact(&mut begin).is_ok()) && begin == expected
}

/// That what somebody else could have put there is not obeyed.
fn require_ours(path: &Path, what: &str, found: &Metadata) -> Result<(), Fault> {
    let owner = us::owner_of(path, found.uid());
    if exclusive::is_trusted(owner) {
        return Ok(());
    }
    Err(Fault::user(format!("the {what} `{}` belongs to user {owner}", path.display()))
        .hint("name what it leads to, or a file of your own"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn what_is_not_called_as_a_result_is_not_lost() {
        let place = place();
        let at = |name: &str| place.path().join(name);
        for name in ["passwd", "main.c", "libz.so.1"] {
            fs::write(at(name), "theirs").unwrap();
            let fault = write(&at(name), b"ours").unwrap_err();
            assert!(fault.message.contains("would be lost"), "{fault}");
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "theirs");
            // One that is not there, or empty as `mktemp` makes it, is lost to nobody.
            fs::write(at(name), "").unwrap();
            write(&at(name), b"ours").unwrap();
        }
        // It is what a link leads to that would be lost.
        fs::write(at("kept"), "theirs").unwrap();
        symlink(at("kept"), at("link.html")).unwrap();
        assert!(write(&at("link.html"), b"ours").unwrap_err().message.contains("would be lost"));
        // A page of ours, and one of our manual, is replaced whatever it is called.
        for (name, before) in [("page", "<!doctype html>\n<html>"), ("surtax.1", ".TH")] {
            fs::write(at(name), before).unwrap();
            write(&at(name), b"ours").unwrap();
        }
    }

    #[test]
    fn a_result_is_replaced_and_a_link_of_ours_is_followed() {
        let place = place();
        let (file, link) = (place.path().join("a.json"), place.path().join("latest.json"));
        symlink(&file, &link).unwrap();
        assert!(require_page(&link).unwrap_err().message.contains("leads to no file"));
        for text in ["one", "two"] {
            write(&file, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        write(&link, b"three").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_stands_beside_a_result_stays_and_what_was_private_stays_so() {
        let place = place();
        let (file, part) = (place.path().join("r.html"), place.path().join("r.html.part"));
        fs::write(&part, "mine").unwrap();
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&part).unwrap(), "mine");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        // Nobody gets the right to write to a result by having had it before.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(mode(), 0o644);
        let long = place.path().join(format!("{}.html", "n".repeat(245)));
        write(&long, b"a long name").unwrap();
        fs::remove_file(&long).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left");
    }

    /// Somebody else exchanges a name for a link to a file of ours, over and over.
    #[test]
    fn a_name_that_is_exchanged_for_a_link_meanwhile_is_not_followed() {
        let place = place();
        let path = |name: &str| place.path().join(name);
        let (named, link, precious) = (path("r.html"), path("link"), path("precious"));
        fs::write(&precious, "precious").unwrap();
        for _ in 0..200 {
            let _ = fs::remove_file(&named);
            let _ = fs::remove_file(&link);
            fs::write(&named, "old").unwrap();
            symlink(&precious, &link).unwrap();
            // As `look` leaves it, and before it is written.
            let NameKind::File(found) = look(&named).unwrap() else { panic!("no file") };
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let here = rustix::fs::CWD;
            rustix::fs::renameat_with(here, &named, here, &link, flags).unwrap();
            replace(&found, b"a result").unwrap();
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
            assert_eq!(fs::read_to_string(&named).unwrap(), "a result");
        }
    }

    #[test]
    fn a_run_is_never_replaced_whatever_it_is_called() {
        let place = place();
        for name in ["a.surtax", "a.surtax-wal", "a.surtax-journal"] {
            let fault = require_page(&place.path().join(name)).unwrap_err();
            assert!(fault.message.contains("is a name for a run"), "{fault}");
            assert_eq!(fault.hint.as_deref(), Some("end the name with `.html` or `.htm`"));
        }
        let run = place.path().join("kept.html");
        fs::write(&run, [DATABASE, b"and more"].concat()).unwrap();
        assert!(write(&run, b"x").unwrap_err().message.contains("would be lost"));
        assert_eq!(fs::read(&run).unwrap().len(), DATABASE.len() + 8);
    }

    #[test]
    fn a_page_ends_as_one_or_with_a_version() {
        let place = place();
        for name in ["a.html", "a.HTM", "page", "results-v1.2", "a."] {
            require_page(&place.path().join(name)).unwrap();
        }
        let fault = require_page(&place.path().join("a.pdf")).unwrap_err();
        assert!(fault.message.ends_with("a.pdf`: no `.pdf` file is written here"), "{fault}");
        assert_eq!(fault.hint.as_deref(), Some("end the name with `.html` or `.htm`"));
    }

    #[test]
    fn a_pipe_and_a_device_take_a_result_and_stay_what_they_are() {
        let place = place();
        let pipe = place.path().join("page.fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        require_page(&pipe).unwrap();
        assert!(write(&pipe, b"x").unwrap_err().message.contains("write `"), "nobody reads it");
        let (read, path) = (pipe.clone(), pipe.clone());
        let reader = std::thread::spawn(move || fs::read_to_string(read).unwrap());
        // It is open as soon as there is a reader.
        while write(&path, b"a result\n").is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(reader.join().unwrap(), "a result\n");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn what_the_caller_has_opened_takes_a_result_whatever_it_is() {
        let (reader, writer) = std::io::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&writer);
        for path in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
            require_page(Path::new(&path)).unwrap();
            write(Path::new(&path), b"a result\n").unwrap();
        }
        drop(writer);
        assert_eq!(std::io::read_to_string(reader).unwrap(), "a result\na result\n");
        assert!(require_page(Path::new("/dev/fd/99999")).is_err());
        assert_eq!(handed_down(Path::new("/dev/fd/../null")), None);
    }

    #[test]
    fn what_is_somebody_elses_or_no_file_is_refused() {
        let place = place();
        let refused = |path: &Path| require_page(path).unwrap_err().message;
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
