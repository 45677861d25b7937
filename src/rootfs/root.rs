//! The root file system that a command sees: real files below, a throw-away layer above.
//!
//! An overlay does not cross mounts. So the level's own root is an overlay over `/` and one more
//! over every real file system mounted below it, parents first. What is above them lives in a tmpfs
//! of the room's private mount namespace and is gone with it, or in a directory of the room where a
//! disk was asked for. Nothing is copied and no image is built. Not seen are the kernel's own file
//! systems, `/run`, and what container engines keep mounted.

mod own;
mod visible;

use crate::fault::{Doing, Fault};
use crate::lab::conceal::Owners;
use crate::lab::{Mount, users};
use crate::layer::{OWN_PLACES, Root, View};
use crate::rootfs::secrets::Hidden;
use crate::rootfs::{engines, image, registry, secrets};
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::counters::bytes_of;
use surtax_instrument::mountinfo::Mounted;
use surtax_instrument::wire::Fact;

/// One file system of a merged root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lower {
    /// Path on this level.
    pub source: PathBuf,
    /// Path at which the command sees it; `/` for the first.
    pub place: PathBuf,
    /// Fate of writes to it.
    pub writes: Writes,
}

/// Fate of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It goes into the throw-away layer.
    ThrownAway,
    /// It is refused: the file system is read-only, or a single file that an overlay cannot hold.
    Refused,
}

/// Lists the file systems that a merged root is made of, parents before children.
///
/// # Errors
/// The user's, when a named root is not there; the machine's, when it cannot be read.
pub fn lowers(root: &Root, cache: &Path) -> Result<Vec<Lower>, Fault> {
    let base = match root {
        Root::Overlay => PathBuf::from("/"),
        Root::Directory(path) => directory(path)?,
        Root::Oci(path) => image::unpack_oci(path, cache)?,
        Root::Registry(name) => image::unpack_oci(&registry::fetch(name, cache)?, cache)?,
        Root::Image(path) => {
            let path = path.display();
            return Err(Fault::bug(format!("the image `{path}` was to be a layer of files")));
        }
        Root::Host => {
            return Err(Fault::user("`root=host` gives a container the level's files as they are")
                .hint("use it with `native` only, or name the directories with `--writable`"));
        }
        Root::Packed => return Err(Fault::bug("a packed root was to be merged")),
    };
    let table = bytes_of("/proc/self/mountinfo").doing("read `/proc/self/mountinfo`")?;
    Ok(lowers_in(&visible::visible(&table), &base))
}

/// Finds a file system with the kernel's settings or devices in which a directory lies, or that is
/// mounted below it.
///
/// # Errors
/// The machine's: the table of mounts cannot be read.
pub fn kernel_mount_at(directory: &Path) -> Result<Option<Mounted>, Fault> {
    let table = bytes_of("/proc/self/mountinfo").doing("read `/proc/self/mountinfo`")?;
    Ok(visible::kernel_mount_at(&table, directory))
}

/// The mounts that put a merged root at [`merged_at`]`(scratch)`. `scratch` is a directory of the
/// room; in it there will be one tmpfs with the merged root itself, and with the upper layers
/// unless those are to be `above`, in another directory of the room.
///
/// # Errors
/// The machine's, when the directory to mount on cannot be made in the room.
pub fn merge(
    (lowers, hidden): (&[Lower], &[Hidden]),
    scratch: &Path,
    above: Option<&Path>,
) -> Result<Vec<Mount>, Fault> {
    let (memory, merged) = (memory_at(scratch), merged_at(scratch));
    fs::create_dir_all(&memory).doing(format_args!("make `{}`", memory.display()))?;
    let above = above.unwrap_or(&memory);
    let mut mounts = vec![Mount::Tmpfs { target: memory.clone() }];
    let lowers = shown(lowers.to_vec(), hidden);
    for (index, lower) in lowers.iter().enumerate() {
        let target = below(&merged, &lower.place);
        let own = hidden_in(hidden, lower, &lowers);
        if lower.writes == Writes::ThrownAway {
            let upper = above.join(format!("{index}/upper"));
            mounts.extend(secrets::concealed(&own, &lower.source, &upper)?);
        }
        mounts.push(match lower.writes {
            Writes::ThrownAway => Mount::Overlay {
                lower: lower.source.clone(),
                upper: above.join(format!("{index}/upper")),
                work: above.join(format!("{index}/work")),
                target,
            },
            Writes::Refused => Mount::bind_read_only(&lower.source, target),
        });
    }
    Ok(mounts)
}

/// The parts but those that are secrets as a whole, of which there is an empty mount point.
#[must_use]
pub fn shown(parts: Vec<Lower>, hidden: &[Hidden]) -> Vec<Lower> {
    let is_secret = |part: &Lower| hidden.iter().any(|it| part.source.starts_with(&it.path));
    parts.into_iter().filter(|part| !is_secret(part)).collect()
}

/// Returns what is hidden of this part, and not of one that lies over it.
#[must_use]
pub fn hidden_in(hidden: &[Hidden], part: &Lower, parts: &[Lower]) -> Vec<Hidden> {
    let depth = |lower: &Lower| lower.source.components().count();
    let holds = |lower: &&Lower, it: &Hidden| it.path.starts_with(&lower.source);
    let innermost = |it: &&Hidden| {
        let holder = parts.iter().filter(|lower| holds(lower, it)).max_by_key(|it| depth(it));
        holder == Some(part)
    };
    hidden.iter().filter(innermost).cloned().collect()
}

fn memory_at(scratch: &Path) -> PathBuf {
    scratch.join("root")
}

/// Returns the path at which [`merge`] puts the merged root.
#[must_use]
pub fn merged_at(scratch: &Path) -> PathBuf {
    memory_at(scratch).join("merged")
}

/// The directories whose writes are kept, at the same place in the merged root.
#[must_use]
pub fn writable(view: &View, merged: &Path) -> Vec<Mount> {
    view.writable.iter().map(|path| Mount::bind_all(path, below(merged, path))).collect()
}

/// The same mounts for a container whose users are others than this level's: what belongs to root
/// here belongs to root in there. What is mounted below a kept directory is not seen then.
#[must_use]
pub fn mapped(mounts: Vec<Mount>, users: &Path) -> Vec<Mount> {
    let map = |source: PathBuf, target: PathBuf, read_only| {
        let users = users.to_path_buf();
        Mount::Mapped { source, target, users, read_only }
    };
    let mut all = Vec::new();
    for mount in mounts {
        match mount {
            Mount::Overlay { lower, upper, work, target } => {
                let seen = upper.with_file_name("lower");
                all.push(map(lower, seen.clone(), true));
                all.push(Mount::Overlay { lower: seen, upper, work, target });
            }
            Mount::Bind { source, target, read_only, .. } => {
                all.push(map(source, target, read_only));
            }
            Mount::Concealed { lower, upper, name, bytes, .. } => {
                let owners = Owners::From(users::FIRST);
                all.push(Mount::Concealed { lower, upper, name, bytes, owners });
            }
            other => all.push(other),
        }
    }
    all
}

/// A whole root for a process of this level itself: merged files, kept directories, and the
/// level's own `/proc`, `/sys` and `/dev`, and `/run` under a layer of its own.
///
/// # Errors
/// As [`merge`], or the table of mounts cannot be read.
pub fn merge_for_native(
    view: &View,
    lowers: &[Lower],
    scratch: &Path,
    above: Option<&Path>,
) -> Result<Vec<Mount>, Fault> {
    let merged = merged_at(scratch);
    let mut mounts = merge((lowers, &secrets::hidden(view)), scratch, above)?;
    let table = bytes_of("/proc/self/mountinfo").doing("read `/proc/self/mountinfo`")?;
    mounts.extend(own::mounts(&visible::visible(&table), &merged, &memory_at(scratch)));
    mounts.extend(writable(view, &merged));
    Ok(mounts)
}

/// Makes the merged root the root of its mount namespace; the last mount. After `chroot(2)`
/// instead, the kernel would let nobody make a user namespace in it.
#[must_use]
pub fn become_root(scratch: &Path) -> Mount {
    Mount::Move { source: merged_at(scratch), target: PathBuf::from("/") }
}

/// Returns the facts that prove where the root comes from.
#[must_use]
pub fn facts(root: &Root, lowers: &[Lower]) -> Vec<Fact> {
    let kind = match root {
        Root::Overlay => "overlay",
        Root::Host => "host",
        Root::Directory(_) => "dir",
        Root::Oci(_) | Root::Registry(_) => "oci",
        Root::Image(_) => "image",
        Root::Packed => "packed",
    };
    let sources: Vec<_> = lowers.iter().map(|lower| lower.source.display().to_string()).collect();
    let source = "mounts of the room";
    let mut facts =
        vec![Fact::new("root", kind, source), Fact::new("root_lower", sources.join(" "), source)];
    if let Root::Registry(name) = root {
        facts.push(Fact::new("root_image", name, "as it was asked for"));
    }
    facts
}

fn directory(path: &Path) -> Result<PathBuf, Fault> {
    let found = fs::canonicalize(path)
        .map_err(|error| Fault::user(format!("no root at `{}`: {error}", path.display())))?;
    if !found.is_dir() {
        return Err(Fault::user(format!("`{}` is not a directory", path.display()))
            .hint("for an image archive write `root=oci:PATH`"));
    }
    Ok(found)
}

fn lowers_in(mounted: &[Mounted], base: &Path) -> Vec<Lower> {
    let first = Lower { source: base.to_path_buf(), place: "/".into(), writes: Writes::ThrownAway };
    let is_engines = engines::mounted(mounted);
    let mut rest: Vec<Lower> = mounted
        .iter()
        .filter(|mount| visible::is_real(mount) && !is_engines(mount))
        .filter_map(|m| part_of(m, base))
        .collect();
    rest.sort_by_key(|lower| lower.place.components().count());
    std::iter::once(first).chain(rest).collect()
}

/// The part of a merged root that a mount below `base` makes, if it makes one.
fn part_of(mount: &Mounted, base: &Path) -> Option<Lower> {
    let place = Path::new("/").join(mount.point.strip_prefix(base).ok()?);
    if place == Path::new("/") || OWN_PLACES.iter().any(|own| place.starts_with(own)) {
        return None;
    }
    // A user's FUSE mount answers "permission denied" to root: it cannot be merged, nor could root
    // see it natively.
    let kind = fs::metadata(&mount.point).ok()?;
    let refused = mount.is_read_only() || !kind.is_dir();
    let writes = if refused { Writes::Refused } else { Writes::ThrownAway };
    Some(Lower { source: mount.point.clone(), place, writes })
}

fn below(merged: &Path, place: &Path) -> PathBuf {
    match place.strip_prefix("/") {
        Ok(relative) if relative.as_os_str().is_empty() => merged.to_path_buf(),
        Ok(relative) => merged.join(relative),
        Err(_) => merged.join(place),
    }
}

#[cfg(test)]
mod tests;
