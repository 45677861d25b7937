//! Secrets of a level: files of its own root that no command in a container or a guest gets to see.
//!
//! A command runs on the files of this machine, and what it is must not matter: the keys of this
//! machine's users are nothing that it needs. They are concealed alike in every layer that starts
//! from this machine's root but `native`, where a command runs as it does without surtax, so no two
//! that are compared see different files. Who needs them says `secrets=shown`. What was named, by
//! `--writable` or as the directory to work in, is shown too.
//!
//! A password file keeps its users with their passwords locked: `su` of root and tools that add
//! users work on.
//!
//! Source: Filesystem Hierarchy Standard 3.0; `shadow(5)`, `gshadow(5)`.

use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Room, conceal, state, us};
use crate::layer::OWN_PLACES;
use crate::layer::{Root, View};
use crate::rootfs::engines;
use etcetera::BaseStrategy;
use rustix::fs::{Access, access};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Files with a hash in the second of the fields between colons.
const PASSWORDS: [&str; 6] = [
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/var/backups/gshadow.bak",
    "/var/backups/shadow.bak",
];

/// Of the machine, a path a line: keys and credentials, what engines and machines were given, and
/// dumps of memory.
const OF_THE_MACHINE: &str = include_str!("secrets/of_the_machine.txt");

/// Of each user, a path below the home a line.
const OF_A_USER: &str = include_str!("secrets/of_a_user.txt");

/// Directory of users' homes, beside root's and that of whoever runs surtax.
const HOMES: &str = "/home";

/// The most homes that are looked into.
const HOMES_MOST: usize = 1024;

/// A file or directory that is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Path on this level, without symbolic links.
    pub path: PathBuf,
    is_directory: bool,
    keeps_users: bool,
}

/// Lists what is there and is not shown to a command with this view.
#[must_use]
pub fn hidden(view: &View) -> Vec<Hidden> {
    if view.shows_secrets || view.root != Root::Overlay {
        return Vec::new();
    }
    // As the user named it: a link that a command left on the way names nothing.
    let is_plain = |path: &&PathBuf| !path.components().any(|it| it == Component::ParentDir);
    let named: Vec<&PathBuf> = view.writable.iter().chain([&view.cwd]).filter(is_plain).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let listed = fs::read_dir(HOMES).into_iter().flatten().flatten().take(HOMES_MOST);
    let homes = [PathBuf::from("/root")].into_iter().chain(home);
    let homes = homes.chain(listed.map(|entry| entry.path()));
    // Whoever runs surtax may be one of the others.
    let homes: BTreeSet<PathBuf> = homes.filter_map(|home| fs::canonicalize(home).ok()).collect();
    let mut seen = Seen::default();
    let mut found: Vec<(PathBuf, bool)> = Vec::new();
    found.extend(PASSWORDS.iter().filter_map(|path| Some((seen.there(Path::new(path))?, true))));
    let of_machine = OF_THE_MACHINE.lines().map(PathBuf::from).chain(of_surtax());
    let of_machine = of_machine.chain(engines::configured());
    found.extend(of_machine.filter_map(|path| Some((seen.there(&path)?, false))));
    for home in &homes {
        let of_user = OF_A_USER.lines().filter_map(|name| seen.of_a_home(home, name));
        found.extend(of_user.map(|path| (path, false)));
    }
    let mut all: Vec<Hidden> = found
        .into_iter()
        .map(|(path, keeps_users)| Hidden { is_directory: path.is_dir(), path, keeps_users })
        .filter(|hidden| !named.iter().any(|named| named.starts_with(&hidden.path)))
        // What we cannot read, nobody below us can; of a directory it is enough to enter it.
        .filter(|hidden| {
            let may = |how| access(&hidden.path, how).is_ok();
            let enters = || hidden.is_directory && may(Access::EXEC_OK);
            us::is_machines_root() || may(Access::READ_OK) || enters()
        })
        // What is there is each level's own.
        .filter(|hidden| !OWN_PLACES.iter().any(|place| hidden.path.starts_with(place)))
        .collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all.dedup_by(|one, other| one.path == other.path);
    // What is below another goes with it.
    let paths: Vec<PathBuf> = all.iter().map(|hidden| hidden.path.clone()).collect();
    all.retain(|it| !paths.iter().any(|path| *path != it.path && it.path.starts_with(path)));
    all
}

/// Returns the hidden thing that a text speaks of, such as the last words of a command that did not
/// find its key: a path, or what lies in a home by this name.
#[must_use]
pub fn spoken_of(text: &str) -> Option<&'static str> {
    let is_end =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || "-_.".contains(next));
    let speaks = |name: &str, before: &str| {
        let mut places = text.match_indices(name);
        places.any(|(at, _)| text[..at].ends_with(before) && is_end(&text[at + name.len()..]))
    };
    let of_machine =
        PASSWORDS.into_iter().chain(OF_THE_MACHINE.lines()).find(|path| speaks(path, ""));
    of_machine.or_else(|| OF_A_USER.lines().find(|name| speaks(name, "/")))
}

/// Lists the paths where runs are kept and sealed, and labs write down what they make, wherever
/// that was put.
fn of_surtax() -> impl Iterator<Item = PathBuf> {
    let user = etcetera::base_strategy::Xdg::new().ok();
    let of_user = user.map(|user| [Some(user.data_dir()), user.state_dir()]);
    let of_user = of_user.into_iter().flatten().flatten().map(|path| path.join("surtax"));
    state::named().into_iter().chain(of_user)
}

/// Directories that were asked for: whether anything may be in them. Most of what is looked for is
/// not there, and one directory that is not says so of many files.
///
/// Each file is asked for by its name, and no directory is listed. A list leaves out what is not
/// mounted yet (autofs, AFS), says otherwise what a file system finds by a name (without regard to
/// case, on FUSE), and on Btrfs and in memory lacks a file that is replaced meanwhile, as `passwd`
/// does with `/etc/shadow`.
#[derive(Default)]
struct Seen(HashMap<PathBuf, bool>);

impl Seen {
    /// A secret of a user: in the home, or where a link in it leads, if what is there is that
    /// user's own. A link to what is somebody else's would decide what all others get to see.
    fn of_a_home(&mut self, home: &Path, name: &str) -> Option<PathBuf> {
        let path = self.there(&home.join(name))?;
        let owner = |path: &Path| fs::metadata(path).ok().map(|it| it.uid());
        (path.starts_with(home) || owner(&path) == owner(home)).then_some(path)
    }

    /// Returns where a path leads, if anything is there. That nothing is takes one look and not one
    /// for each directory on the way.
    fn there(&mut self, path: &Path) -> Option<PathBuf> {
        if path.parent().is_some_and(|parent| !self.may_hold(parent)) {
            return None;
        }
        fs::symlink_metadata(path).ok()?;
        fs::canonicalize(path).ok()
    }

    fn may_hold(&mut self, directory: &Path) -> bool {
        if let Some(known) = self.0.get(directory) {
            return *known;
        }
        let may_be = directory.parent().is_none_or(|above| self.may_hold(above));
        let may_hold = may_be && may_be_directory(directory);
        self.0.insert(directory.to_path_buf(), may_hold);
        may_hold
    }
}

/// Tells whether this is a directory, or cannot be known to be none.
fn may_be_directory(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

impl Hidden {
    /// Returns the bytes that are seen instead of the file.
    fn bytes(&self) -> Result<Vec<u8>, Fault> {
        if self.is_directory || !self.keeps_users {
            return Ok(Vec::new());
        }
        let shown = self.path.display();
        let text = fs::read(&self.path).doing(format_args!("read the users of `{shown}`"))?;
        Ok(locked(&text))
    }
}

/// Conceals in the upper layer of an overlay over `lower` what of that is hidden. For
/// [`Mount::Overlay`], before it.
///
/// # Errors
/// The machine's: a password file cannot be read.
pub fn concealed(hidden: &[Hidden], lower: &Path, upper: &Path) -> Result<Vec<Mount>, Fault> {
    let below = hidden.iter().filter_map(|it| Some((it, it.path.strip_prefix(lower).ok()?)));
    below
        .map(|(it, name)| {
            Ok(Mount::Concealed {
                lower: lower.to_path_buf(),
                upper: upper.to_path_buf(),
                name: name.to_path_buf(),
                bytes: it.bytes()?,
                owners: conceal::Owners::Same,
            })
        })
        .collect()
}

/// The same at once, in an upper layer that somebody else will mount.
///
/// # Errors
/// As [`concealed`], or the upper layer cannot be written.
pub fn conceal_now(
    hidden: &[Hidden],
    (lower, upper): (&Path, &Path),
    owners: conceal::Owners,
) -> Result<(), Fault> {
    for it in hidden {
        if let Ok(name) = it.path.strip_prefix(lower) {
            conceal::conceal((lower, upper), name, &it.bytes()?, owners)?;
        }
    }
    Ok(())
}

/// Covers what is hidden of this level's root where it is seen at `root`, and what is no file of
/// anybody's: for who serves files, in a mount namespace that a guest never sees.
///
/// # Errors
/// The machine's: what lies over it cannot be made in the room.
pub fn covers(hidden: &[Hidden], root: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let place = room.directory().join("instead");
    let cover = |source: PathBuf, path: &Path| {
        Mount::bind_read_only(source, root.join(path.strip_prefix("/").unwrap_or(path)))
    };
    let mut mounts = Vec::new();
    for path in OWN_PLACES.iter().map(Path::new).filter(|path| path.is_dir()) {
        // One for each: to a guest, directories of one number are one directory.
        let source = place.join("nothing").join(path.strip_prefix("/").unwrap_or(path));
        fs::create_dir_all(&source).doing(format_args!("make `{}`", source.display()))?;
        mounts.push(cover(source, path));
    }
    for (number, it) in hidden.iter().enumerate() {
        let source = place.join(number.to_string());
        let doing = format!("make what is seen instead of `{}`", it.path.display());
        if it.is_directory {
            fs::create_dir(&source).doing(&doing)?;
        } else {
            fs::write(&source, it.bytes()?).doing(&doing)?;
        }
        crate::lab::look_like(&source, &it.path)?;
        mounts.push(cover(source, &it.path));
    }
    Ok(mounts)
}

/// The lines of a password file with every password locked.
fn locked(text: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        // A line without them is no user's.
        if let (Some(name), Some(_), Some(rest)) = (fields.next(), fields.next(), fields.next()) {
            all.extend_from_slice(name);
            all.extend_from_slice(b":*:");
            all.extend_from_slice(rest);
        }
    }
    all
}

#[cfg(test)]
mod tests;
