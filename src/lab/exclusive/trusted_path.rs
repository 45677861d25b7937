//! Paths that nobody else can exchange: followed name by name, and refused where somebody else
//! could put another name in the place of one.

use super::{
    GROUP_OR_OTHER_WRITE, LINK_LIMIT, facts_of, foreign, hold, is_trusted, open_to_others,
};
use crate::fault::{Doing, Fault};
use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Place to which a path leads.
pub(super) enum Resolved {
    /// To this directory, through directories that nobody else can swap.
    Found(PathBuf),
    /// To nothing: at the first component that is missing, with the rest behind it.
    Absent(PathBuf),
}

/// Follows an absolute path component by component, and refuses one that somebody else could swap.
///
/// What was looked at stays as it is: each component lies in a directory that only root and we can
/// change, or in a sticky one and belongs to root or to us.
pub(super) fn resolve(path: &Path) -> Result<Resolved, Fault> {
    follow(path, PathTarget::Directory)
}

/// Follows an absolute path to a file that is there and that only root, we and this user can change
/// or exchange. Gives back its path without symbolic links.
///
/// # Errors
/// The user's: it is not there. The machine's: somebody else could exchange it, or write to it.
pub(in crate::lab) fn trusted_file(path: &Path, user: Option<u32>) -> Result<PathBuf, Fault> {
    let target = PathTarget::File(user);
    let file = match follow(path, target)? {
        Resolved::Found(file) => file,
        Resolved::Absent(missing) => {
            return Err(Fault::user(format!("`{}` is not there", missing.display())));
        }
    };
    let facts = rustix::fs::statat(CWD, &file, AtFlags::SYMLINK_NOFOLLOW)
        .doing(format_args!("see whose `{}` is", file.display()))?;
    if !target.is_owned(&facts) {
        return Err(foreign(&file, "file", &facts));
    }
    if target.is_shared(&facts) {
        return Err(open_to_others(&file, &facts));
    }
    Ok(file)
}

/// End of a way that is followed, and whom we trust on it beside root and ourselves.
#[derive(Clone, Copy)]
enum PathTarget {
    /// A directory, in which names of ours are made: of nobody else's.
    Directory,
    /// Anything, which this user may change too.
    File(Option<u32>),
}

impl PathTarget {
    fn is_owned(self, facts: &Stat) -> bool {
        let of_the_user = matches!(self, Self::File(Some(user)) if user == facts.st_uid);
        is_trusted(facts.st_uid) || of_the_user
    }

    /// Tells whether somebody else may write to it, by its mode. Where there is an access list, the
    /// bits of the group are the most that anybody on the list has.
    fn is_shared(self, facts: &Stat) -> bool {
        let our_group = facts.st_gid == 0 || facts.st_gid == rustix::process::getegid().as_raw();
        match self {
            Self::Directory => {
                facts.st_mode & 0o002 != 0 || (facts.st_mode & 0o020 != 0 && !our_group)
            }
            Self::File(_) => facts.st_mode & GROUP_OR_OTHER_WRITE != 0,
        }
    }
}

fn follow(path: &Path, target: PathTarget) -> Result<Resolved, Fault> {
    let mut ahead: Vec<PathBuf> = parts(path);
    let mut here = PathBuf::from("/");
    let mut links = 0;
    require_parent(&here, target)?;
    while let Some(part) = ahead.pop() {
        if part == Path::new("..") {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        let facts = match rustix::fs::statat(CWD, &next, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(facts) => facts,
            Err(Errno::NOENT) => {
                let rest = ahead.iter().rev();
                return Ok(Resolved::Absent(rest.fold(next, |path, part| path.join(part))));
            }
            Err(error) => return Err(error).doing(format_args!("look at `{}`", next.display())),
        };
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Symlink => {
                links += 1;
                if !target.is_owned(&facts) || links > LINK_LIMIT {
                    return Err(foreign(&next, "symbolic link", &facts));
                }
                let led_to = fs::read_link(&next)
                    .doing(format_args!("follow the link `{}`", next.display()))?;
                if led_to.is_absolute() {
                    here = PathBuf::from("/");
                }
                ahead.extend(parts(&led_to));
            }
            kind => {
                here = next;
                let is_end = ahead.is_empty() && kind != FileType::Directory;
                if !(is_end && matches!(target, PathTarget::File(_))) {
                    require_parent(&here, target)?;
                }
            }
        }
    }
    Ok(Resolved::Found(here))
}

/// The names in a path, last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// That a directory is one in which a name of ours stays ours.
fn require_parent(path: &Path, target: PathTarget) -> Result<(), Fault> {
    let facts = facts_of(&hold(path)?, path)?;
    if !target.is_owned(&facts) {
        return Err(foreign(path, "directory", &facts));
    }
    let is_sticky = facts.st_mode & libc::S_ISVTX != 0;
    if target.is_shared(&facts) && !is_sticky {
        return Err(open_to_others(path, &facts));
    }
    Ok(())
}
