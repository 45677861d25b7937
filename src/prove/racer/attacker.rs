//! The other user: a process without privileges that tries every name of surtax's until its input
//! ends.
//!
//! It is this binary with a hidden first argument, as user 65534. It uses what every user may read,
//! and system calls alone. What it made itself it removes in the end.

use crate::fault::{Doing, Fault};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use surtax_instrument::probe::cgroup::Hierarchies;

/// The hidden first argument.
pub const ATTACKER: &str = "__racer";

/// Nobody, on most machines.
pub const USER: u32 = 65_534;

/// Places where everybody may make names.
const OPEN_PLACES: [&str; 3] = ["/dev/shm", "/var/tmp", "/tmp"];

/// Beginnings of the paths that are surtax's.
const OURS: [&str; 6] = [
    "/run/surtax", "/dev/shm/surtax-", "/var/tmp/surtax-", "/tmp/surtax-", "/var/lib/surtax",
    "/var/cache/surtax",
];

/// In how many rounds command lines and mounts are read once: they take longer than groups.
const SLOW_ROUND: u32 = 8;

/// The most names that are remembered, the latest.
const NAME_LIMIT: usize = 4_096;

/// Counts of one attacker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Labs whose id it learned, less those that were there before.
    pub labs: u32,
    /// Attempts to make, swap, write or connect.
    pub tried: u32,
    /// Names of surtax's that it made first.
    pub made: u32,
    /// Things that it made and that root put something into.
    pub entered: u32,
    /// Things that were not its own and that it changed or reached.
    pub changed: u32,
    /// One that was entered.
    pub entered_such_as: String,
    /// One that was changed.
    pub changed_such_as: String,
}

impl Tally {
    /// Sum of two; the examples are the first ones.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let first = |one: String, other: &str| if one.is_empty() { other.to_owned() } else { one };
        Self {
            labs: self.labs.saturating_add(other.labs),
            tried: self.tried.saturating_add(other.tried),
            made: self.made.saturating_add(other.made),
            entered: self.entered.saturating_add(other.entered),
            changed: self.changed.saturating_add(other.changed),
            entered_such_as: first(self.entered_such_as, &other.entered_such_as),
            changed_such_as: first(self.changed_such_as, &other.changed_such_as),
        }
    }

    /// Reads what [`main`] printed.
    ///
    /// # Errors
    /// The machine's: it did not come to its end.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text)
            .map_err(|_| Fault::machine(format!("the racing user counted `{text}`")))
    }
}

/// Ids of the labs that are there now, as every user may see them.
///
/// # Errors
/// The machine's: there are no groups to read.
pub fn labs() -> Result<Vec<String>, Fault> {
    let groups = groups()?;
    let names = groups.iter().flat_map(|group| names_in(group));
    Ok(names.filter_map(|name| Some(name.strip_prefix("surtax-")?.to_owned())).collect())
}

fn groups() -> Result<Vec<PathBuf>, Fault> {
    let hierarchies = Hierarchies::discover().doing("list the groups that everybody sees")?;
    Ok(hierarchies.0.into_iter().map(|hierarchy| hierarchy.mount_point).collect())
}

/// Attacks until its input ends; then prints its tally. Its arguments are the ids of the labs that
/// are none of those that it races against.
///
/// # Errors
/// The machine's: there are no groups to read, or nobody to tell.
pub fn main() -> Result<(), Fault> {
    let others = std::env::args().skip(2).collect();
    let mut attacker = Attacker { groups: groups()?, labs: others, ..Attacker::default() };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::SeqCst);
        });
        for round in 0.. {
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            attacker.round(round);
        }
    });
    attacker.clean_up();
    let tally = serde_json::to_vec(&attacker.tally).doing("write the tally as JSON")?;
    std::io::Write::write_all(&mut std::io::stdout(), &tally).doing("say the tally")
}

#[derive(Debug, Default)]
struct Attacker {
    groups: Vec<PathBuf>,
    labs: BTreeSet<String>,
    /// Paths that it knows to be names of surtax's, the latest last.
    names: Vec<PathBuf>,
    known: BTreeSet<PathBuf>,
    /// Paths that it made.
    own: BTreeSet<PathBuf>,
    entered: BTreeSet<PathBuf>,
    changed: BTreeSet<PathBuf>,
    tally: Tally,
}

impl Attacker {
    fn round(&mut self, round: u32) {
        for group in self.groups.clone() {
            for name in names_in(&group) {
                if let Some(lab) = name.strip_prefix("surtax-") {
                    self.learn_lab(lab);
                }
            }
        }
        for place in OPEN_PLACES.iter().chain(&OURS[..1]) {
            for name in names_in(Path::new(place)) {
                self.learn(&Path::new(place).join(name));
            }
        }
        if u32::is_multiple_of(round, SLOW_ROUND) {
            self.read_command_lines();
            self.read_mounts();
        }
        for name in self.names.clone() {
            self.try_all(&name);
        }
        self.look_at_own();
    }

    /// Learns from the id of a lab the names that it will have.
    fn learn_lab(&mut self, lab: &str) {
        if !lab.bytes().all(|byte| byte.is_ascii_hexdigit()) || !self.labs.insert(lab.to_owned()) {
            return;
        }
        self.tally.labs += 1;
        for place in OPEN_PLACES {
            self.learn(&Path::new(place).join(format!("surtax-{lab}")));
        }
        let run = Path::new("/run/surtax").join(lab);
        let journal = format!("/var/lib/surtax/labs/{lab}.journal");
        for path in [run.join(".memory"), run.join(".surtax-agent.part"), run, journal.into()] {
            self.learn(&path);
        }
    }

    fn learn(&mut self, path: &Path) {
        let text = path.to_string_lossy();
        let is_ours = OURS.iter().any(|begin| text.starts_with(begin));
        if !is_ours || text.contains("..") || text.contains(".raced") {
            return;
        }
        if let Some(lab) = text.strip_prefix("/run/surtax/").and_then(|rest| rest.split('/').next())
        {
            self.learn_lab(lab);
        }
        if self.known.insert(path.to_path_buf()) {
            self.names.push(path.to_path_buf());
            if self.names.len() > NAME_LIMIT {
                let forgotten = self.names.remove(0);
                self.known.remove(&forgotten);
            }
        }
    }

    fn read_command_lines(&mut self) {
        for pid in names_in(Path::new("/proc")) {
            let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).into_owned();
            for word in line.split(['\0', ' ', '=', ',', ':']).filter(|word| word.starts_with('/'))
            {
                self.learn(Path::new(word));
            }
        }
    }

    fn read_mounts(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for word in mounts.split([' ', ',', '=', ':', '\n']).filter(|word| word.starts_with('/')) {
            self.learn(Path::new(word));
        }
    }

    /// Every attempt at one name.
    fn try_all(&mut self, path: &Path) {
        self.tally.tried = self.tally.tried.saturating_add(1);
        let facts = match fs::symlink_metadata(path) {
            Ok(facts) => facts,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.be_first(path),
            Err(_) => return,
        };
        if facts.uid() == USER || self.own.contains(path) {
            return;
        }
        self.move_aside(path);
        if facts.is_dir() {
            self.write_into(path);
        } else if facts.is_file() {
            let opened = OpenOptions::new().append(true).open(path);
            if opened.and_then(|file| file.metadata()).is_ok_and(|it| it.uid() != USER) {
                self.note_change(path);
            }
        }
        if UnixStream::connect(path).is_ok() {
            self.note_change(path);
        }
    }

    /// Takes a name from whoever has it. A second attacker is the same user, and may have been
    /// first at a name that root had just left.
    fn move_aside(&mut self, path: &Path) {
        let aside = path.with_extension("raced");
        if fs::rename(path, &aside).is_err() {
            return;
        }
        if is_foreign(&aside) {
            self.note_change(path);
            let _ = std::os::unix::fs::symlink("/proc/self/cwd", path);
        } else {
            let _ = fs::remove_dir_all(&aside).or_else(|_| fs::remove_file(&aside));
        }
    }

    /// Makes a file in a directory, which is held by a descriptor: its name may be another's soon.
    fn write_into(&mut self, path: &Path) {
        let flags = (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        let Ok(directory) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
            return;
        };
        if !directory.metadata().is_ok_and(|it| it.uid() != USER) {
            return;
        }
        let inside = format!("/proc/self/fd/{}/racer-was-here", directory.as_raw_fd());
        if OpenOptions::new().write(true).create_new(true).open(&inside).is_ok() {
            self.note_change(path);
            let _ = fs::remove_file(&inside);
        }
    }

    fn be_first(&mut self, path: &Path) {
        // A link now and then, and a directory else, so that both are tried.
        let made = match self.tally.tried % 4 {
            0 => std::os::unix::fs::symlink("/nonexistent-surtax-racer", path),
            _ => fs::create_dir(path),
        };
        if made.is_ok() {
            self.tally.made += 1;
            self.own.insert(path.to_path_buf());
            // So that a root without the capability to override modes could use it, too.
            let _ = fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777));
        }
    }

    fn note_change(&mut self, path: &Path) {
        if self.changed.insert(path.to_path_buf()) {
            self.tally.changed += 1;
            self.tally.changed_such_as = path.display().to_string();
        }
    }

    /// Looks whether somebody else put something into what this one made.
    fn look_at_own(&mut self) {
        for path in &self.own {
            for name in names_in(path) {
                let inside = path.join(name);
                if is_foreign(&inside) && self.entered.insert(path.clone()) {
                    self.tally.entered += 1;
                    self.tally.entered_such_as = inside.display().to_string();
                }
            }
        }
    }

    fn clean_up(&self) {
        for path in &self.own {
            let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
        }
    }
}

/// Tells whether a name is somebody's who is not this user.
fn is_foreign(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.uid() != USER)
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_read_as_it_was_said() {
        let tally = Tally {
            labs: 3,
            tried: 10,
            made: 4,
            entered: 1,
            changed: 2,
            entered_such_as: String::from("/dev/shm/surtax-1/runc"),
            changed_such_as: String::from("/run/surtax/1"),
        };
        assert_eq!(Tally::parse(&serde_json::to_string(&tally).unwrap()), Ok(tally));
        assert!(Tally::parse("").is_err());
    }

    #[test]
    fn the_id_of_a_lab_is_learned_from_any_path_below_its_directory() {
        let mut attacker = Attacker::default();
        attacker.labs.insert(String::from("0ddba11"));
        attacker.learn(Path::new("/run/surtax/0badcafe/.memory/runc"));
        attacker.learn(Path::new("/run/surtax/0ddba11/.memory/runc"));
        attacker.learn(Path::new("/usr/bin/surtax"));
        assert_eq!(attacker.tally.labs, 1, "the other was there before");
        assert!(attacker.known.contains(Path::new("/dev/shm/surtax-0badcafe")));
        assert!(!attacker.known.contains(Path::new("/usr/bin/surtax")));
    }

    #[test]
    fn what_is_taken_from_another_user_is_a_change_and_from_a_second_attacker_is_none() {
        let place = tempfile::tempdir().unwrap();
        let changed_of = |owner: u32, change: fn(&mut Attacker, &Path)| {
            let path = place.path().join("name");
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
            let mut attacker = Attacker::default();
            change(&mut attacker, &path);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            let _ = fs::remove_dir_all(path.with_extension("raced"));
            attacker.tally.changed
        };
        for change in [Attacker::move_aside, Attacker::write_into] {
            assert_eq!((changed_of(0, change), changed_of(USER, change)), (1, 0));
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_somebody_else_puts_into_a_directory_of_its_own_is_counted_once() {
        let place = tempfile::tempdir().unwrap();
        let (ours, inside) = (place.path().to_path_buf(), place.path().join("config.json"));
        fs::write(&inside, "{}").unwrap();
        let mut attacker = Attacker::default();
        attacker.own.insert(ours);
        attacker.look_at_own();
        attacker.look_at_own();
        assert_eq!(attacker.tally.entered, 1, "it belongs to us, who are not user {USER}");
    }
}
