//! Scratch: the directory for a command's data, in a root that is merged on this level.

use crate::fault::{Doing, Fault};
use crate::lab::{Mount, Room, disk};
use crate::layer::View;
use crate::layer::medium::Medium;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use surtax_instrument::wire::SCRATCH;

/// Everybody may write there, as in `/tmp`.
const MODE: u32 = 0o1777;

/// The directory on this level's disk, made for this room.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn directory(room: &Room) -> Result<PathBuf, Fault> {
    let path = room.disk_directory()?.join("scratch");
    fs::create_dir_all(&path).doing(format_args!("make `{}`", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(MODE))
        .doing(format_args!("let everybody write to `{}`", path.display()))?;
    Ok(path)
}

/// Makes the directory of the layers above a root that has the scratch directory as one of its own:
/// on this level's disk, as those of an engine's containers are. `None` (in memory) where no layer
/// is to be measured, and where that disk holds none.
///
/// # Errors
/// The machine's: it cannot be made.
pub fn above(view: &View, room: &Room) -> Result<Option<PathBuf>, Fault> {
    if view.scratch != Some(Medium::Layer) || !disk::holds_layers() {
        return Ok(None);
    }
    let path = room.disk_directory()?.join("layer");
    // Who passes through the room's directory, as users of a container do, does not come to what
    // the command writes: the overlay above does not need the path.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .doing(format_args!("make `{}`", path.display()))?;
    Ok(Some(path))
}

/// The directory on this level's disk, where the view's is shown from there.
///
/// # Errors
/// As [`directory`].
pub fn bound(view: &View, room: &Room) -> Result<Option<PathBuf>, Fault> {
    let is_bound = view.scratch == Some(Medium::Bind);
    is_bound.then(|| directory(room)).transpose()
}

/// The mounts that put the directory into a merged root; nothing where the layer does it itself.
///
/// # Errors
/// As [`directory`].
pub fn mounts(view: &View, merged: &Path, room: &Room) -> Result<Vec<Mount>, Fault> {
    let target = merged.join(SCRATCH.trim_start_matches('/'));
    Ok(match view.scratch {
        None | Some(Medium::Volume | Medium::Disk) => Vec::new(),
        Some(Medium::Layer) => vec![Mount::Directory { target, mode: MODE }],
        Some(Medium::Tmpfs) => vec![Mount::fresh("tmpfs", target, "mode=1777")],
        Some(Medium::Bind) => vec![Mount::bind(directory(room)?, target)],
    })
}
