//! Conceals files of a lower layer by the upper one that will lie over it.
//!
//! What an upper layer holds is what is seen: nobody inside the overlay, whatever they may mount
//! there, finds what is below. So a secret is concealed before the overlay is mounted, by an
//! engine's daemon as well.
//!
//! Source: Linux `Documentation/filesystems/overlayfs.rst`, "whiteouts and opaque directories".

use super::us;
use crate::fault::{Doing, Fault};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// By this a directory of an upper layer hides the one below, in an overlay that root mounts, and
/// in one that root of a user namespace does.
const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// Whose files an upper layer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Those of the lower one.
    Same,
    /// Those of the lower one, mapped to the users of a container that begin here; the overlay is
    /// mounted by root.
    From(u32),
    /// The same, in an overlay that is mounted by one of these users, who does not see what only
    /// root may write down.
    Theirs(u32),
}

impl Owners {
    fn of(self, number: u32) -> u32 {
        match self {
            Self::Same => number,
            Self::From(first) | Self::Theirs(first) => {
                first + number.min(super::user_numbers::COUNT - 1)
            }
        }
    }
}

/// Conceals `name` of `lower`: a directory becomes an empty one, or none where that cannot be said,
/// and a file gets these `bytes`. What is not there, or is reached by a symbolic link, is left as
/// it is.
///
/// # Errors
/// The machine's: the upper layer cannot be written.
pub fn conceal(
    (lower, upper): (&Path, &Path),
    name: &Path,
    bytes: &[u8],
    owners: Owners,
) -> Result<(), Fault> {
    let doing = format!("conceal `{}` of `{}`", name.display(), lower.display());
    let (mut below, mut above) = (lower.to_path_buf(), upper.to_path_buf());
    let mut names = name.components().peekable();
    while let Some(part) = names.next() {
        below.push(part);
        above.push(part);
        let Ok(found) = fs::symlink_metadata(&below) else { return Ok(()) };
        let is_last = names.peek().is_none();
        if found.is_dir() {
            match DirBuilder::new().mode(0o700).create(&above) {
                Ok(()) => look_like(&above, &found, owners).doing(&doing)?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).doing(&doing),
            }
            if is_last {
                hide(&above, owners).doing(&doing)?;
            }
        } else if is_last && found.is_file() {
            fs::write(&above, bytes)
                .and_then(|()| look_like(&above, &found, owners))
                .doing(&doing)?;
        } else {
            return Ok(());
        }
    }
    Ok(())
}

/// Removes what was concealed as an empty file, on a level that is thrown away.
///
/// # Errors
/// The machine's: it cannot be removed.
pub fn remove_if_empty(path: &Path) -> Result<(), Fault> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        fs::remove_file(path).doing(format_args!("remove the empty file `{}`", path.display()))?;
    }
    Ok(())
}

fn look_like(path: &Path, model: &fs::Metadata, owners: Owners) -> std::io::Result<()> {
    let [user, group] = [model.uid(), model.gid()].map(|owner| us::like(owners.of(owner)));
    std::os::unix::fs::chown(path, Some(user), Some(group))?;
    fs::set_permissions(path, fs::Permissions::from_mode(model.mode() & 0o7777))
}

fn opaque() -> &'static str {
    OPAQUE[usize::from(us::is_in_a_namespace())]
}

/// Says that nothing of the directory below is seen; where that cannot be said, that there is none.
fn hide(directory: &Path, owners: Owners) -> std::io::Result<()> {
    let is_said = !matches!(owners, Owners::Theirs(_))
        && rustix::fs::setxattr(directory, opaque(), b"y", XattrFlags::empty()).is_ok();
    if is_said {
        return Ok(());
    }
    fs::remove_dir(directory)?;
    Ok(rustix::fs::mknodat(CWD, directory, FileType::CharacterDevice, Mode::empty(), 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_empty_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key.json");
        for (text, stays) in [("{}", true), ("", false)] {
            fs::write(&file, text).unwrap();
            remove_if_empty(&file).unwrap();
            assert_eq!(file.exists(), stays, "{text}");
        }
        remove_if_empty(&file).unwrap();
    }
}
