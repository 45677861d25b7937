//! Labs of other surtaxes on this machine, so that a census beside them holds nothing of theirs
//! against us.
//!
//! A lab is somebody else's where its reaper has a living parent, its owner by the journal, which
//! is neither this process nor descends from it. Where the journal lies does not matter: others may
//! keep theirs in a directory of their own.

use super::census::is_of_others;
use super::exclusive::{is_trusted, require_ours_alone};
use super::reaper::ARGUMENT;
use super::undo::is_lab;
use super::{processes, us};
use crate::fault::Fault;
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most of a journal that is read: its first line says whose it is.
const JOURNAL_LIMIT: u64 = 64 << 10;

/// Labs of others, and who works for them.
#[derive(Clone, Debug, Default)]
pub struct Others {
    labs: Vec<String>,
    pids: Vec<u32>,
}

impl Others {
    /// Looks who there is now.
    ///
    /// # Errors
    /// The machine's: processes cannot be listed.
    pub fn look() -> Result<Self, Fault> {
        let mut others = Self::default();
        for pid in processes::ids()? {
            let Some((lab, owner)) = reaped(pid) else { continue };
            if !is_below_us(owner) {
                others.labs.push(lab);
                others.pids.extend([pid, owner]);
            }
        }
        for pid in processes::ids()? {
            // One that has ended has no command line any more, and is its parent's to wait for.
            if processes::field(pid, 3).is_some_and(|state| state == "Z") && !is_below_us(pid) {
                others.pids.push(pid);
            }
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            if others.labs.iter().any(|lab| groups.contains(lab.as_str())) {
                others.pids.push(pid);
            }
        }
        Ok(others)
    }

    /// Tells whether a line of a census is about them, or about what is nobody's leak: see
    /// [`is_of_others`].
    #[must_use]
    pub fn own(&self, line: &str) -> bool {
        self.labs.iter().any(|lab| line.contains(lab.as_str()))
            || self.pids.iter().any(|pid| line.contains(&format!("` ({pid})")))
            || is_of_others(line)
    }
}

/// The living processes of others that have a lab, by number.
///
/// # Errors
/// As [`Others::look`].
pub(super) fn owners() -> Result<Vec<u32>, Fault> {
    let mut owners: Vec<u32> = processes::ids()?
        .filter_map(reaped)
        .map(|(_, owner)| owner)
        .filter(|owner| !is_below_us(*owner))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    Ok(owners)
}

/// The lab that a process reaps, and its living owner. Whatever a process of another user says of
/// itself is not believed, nor a program that gives its caller root's rights: its words are his.
fn reaped(pid: u32) -> Option<(String, u32)> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !is_trusted(us::owner_of(&process, processes::user(&process)?)) {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let words: Vec<&str> = line.split('\0').collect();
    let journal = words.iter().find(|word| word.ends_with(".journal"))?;
    let owner: u32 = processes::field(pid, 4)?.parse().ok()?;
    if !words.contains(&ARGUMENT) {
        return None;
    }
    let mut text = Vec::new();
    own_journal(Path::new(journal))?.take(JOURNAL_LIMIT).read_to_end(&mut text).ok()?;
    let header: Value = serde_json::from_slice(text.split(|byte| *byte == b'\n').next()?).ok()?;
    let header = &header["lab"];
    let lab = header["lab"].as_str().filter(|lab| is_lab(lab.as_bytes()))?;
    (header["pid"] == owner).then(|| (lab.to_owned(), owner))
}

/// Opens a journal, which lies where nobody else may put one, and is no link to somewhere else.
fn own_journal(path: &Path) -> Option<File> {
    require_ours_alone(path.parent()?).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    (about.is_file() && is_trusted(about.uid())).then_some(file)
}

/// Tells whether a process is this one, or descends from it.
#[must_use]
pub fn is_below_us(pid: u32) -> bool {
    processes::line_of(pid).any(|it| it == std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that belongs to no room")]
    fn what_descends_from_us_is_ours_and_a_name_of_others_is_found_in_a_line() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        assert!(is_below_us(std::process::id()) && is_below_us(child.id()) && !is_below_us(1));
        child.kill().unwrap();
        child.wait().unwrap();
        let others = Others { labs: vec![String::from("1a2b3c4d")], pids: vec![7] };
        assert!(others.own("came: file `/run/surtax/1a2b3c4d/enter`"));
        assert!(others.own("came: process `surtax` (7): `surtax compare`"));
        assert!(!others.own("came: process `surtax` (77): `surtax compare`"));
        assert!(!others.own("came: file `/run/surtax/ffffffff/enter`"));
        assert!(is_lab(b"1a2b3c4d") && !is_lab(b"") && !is_lab(b"1a2b3c4") && !is_lab(b"labs/etc"));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "processes that belong to no room")]
    fn one_that_has_ended_is_whose_parent_does_not_wait_for_it() {
        let mut ours = std::process::Command::new("true").spawn().unwrap();
        // Its parent lives on as `sleep`, which descends from nobody of ours any more.
        let script = "(sh -c 'sleep 0.2 & echo $!; exec sleep 20 >&- 2>&-' &)";
        let mut shell = std::process::Command::new("sh");
        let told = shell.args(["-c", script]).output().unwrap().stdout;
        let theirs: u32 = String::from_utf8(told).unwrap().trim().parse().unwrap();
        let is_ended = |pid| processes::field(pid, 3).is_none_or(|state| state == "Z");
        while !(is_ended(ours.id()) && is_ended(theirs)) {
            std::thread::yield_now();
        }
        let others = Others::look().unwrap();
        let parent = processes::field(theirs, 4).unwrap().parse().unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(parent).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        let line = |pid| format!("came: process `surtax-reaper` ({pid}): ``");
        assert!(others.own(&line(theirs)) && !others.own(&line(ours.id())), "{others:?}");
        ours.wait().unwrap();
    }

    #[test]
    fn a_journal_is_read_where_nobody_else_could_have_put_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("a.journal"), "{}").unwrap();
        std::os::unix::fs::symlink("/proc/self/cmdline", at("b.journal")).unwrap();
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(at("open/c.journal"), "{}").unwrap();
        let is_read = |name: &str| own_journal(&at(name)).is_some();
        let told = ["a.journal", "b.journal", "open/c.journal", "none"].map(is_read);
        assert_eq!(told, [true, false, false, false]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "processes that belong to no room")]
    fn who_has_root_s_rights_by_a_program_of_root_s_reaps_nothing() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let journal = place.path().join("a.journal");
        let header =
            format!("{{\"lab\":{{\"lab\":\"1a2b3c4d\",\"pid\":{}}}}}\n", std::process::id());
        fs::write(&journal, header).unwrap();
        let told = ["--", "--ruid=65534"].map(|user| {
            // A shell would give up what it was not given.
            let mut process = std::process::Command::new("setpriv")
                .args([user, "cat", "-", ARGUMENT])
                .arg(&journal)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let words = format!("/proc/{}/cmdline", process.id());
            while !fs::read(&words).unwrap().starts_with(b"cat\0") {
                std::thread::yield_now();
            }
            let owner = fs::metadata(format!("/proc/{}", process.id())).unwrap().uid();
            assert_eq!(owner, 0, "it has root's rights");
            let told = reaped(process.id());
            process.kill().unwrap();
            process.wait().unwrap();
            told
        });
        assert_eq!(told, [Some((String::from("1a2b3c4d"), std::process::id())), None]);
    }
}
