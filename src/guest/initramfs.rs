//! The initramfs: the agent as `/init`, a few kernel modules, and the script that PID 1 follows.
//!
//! The same parts give the same bytes, so that a guest's start can be repeated exactly.

use crate::fault::{Doing, Fault};
use crate::guest::archive::Archive;
use crate::guest::channel::{Channel, Transport};
use crate::guest::files::{Contents, Files, script, text};
use crate::guest::kernel::Kernel;
use crate::guest::modules::{Module, Tree};
use crate::guest::unpack::unpack;
use crate::lab::Room;
use cpio::newc::ModeFileType;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The script, in the first root.
const SCRIPT: &str = "surtax.conf";

/// An initramfs that was written.
pub(crate) struct Written {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Number of modules in it.
    pub(crate) module_count: usize,
}

/// Writes the initramfs of a guest whose devices are on this transport into the room.
///
/// # Errors
/// A module is missing, or the file cannot be written.
pub(crate) fn write(
    room: &Room,
    agent: &Path,
    kernel: &Kernel,
    (transport, channel): (Transport, Channel),
    contents: Contents<'_>,
) -> Result<Written, Fault> {
    let tree = Tree::open(&kernel.found.modules)?;
    let plain = |packed| unpack(packed, room);
    let mut loaded = BTreeSet::new();
    let early = tree.order(&channel.modules(transport), &mut loaded, &plain)?;
    let late = match contents {
        Contents::Served(files) => {
            let names = [files.spec.files.modules(), &files.spec.modules].concat();
            tree.order(&names, &mut loaded, &plain)?
        }
        Contents::Packed(_, files) => tree.order(&files.spec.modules, &mut loaded, &plain)?,
        Contents::Nothing => Vec::new(),
    };
    let script = script(channel, &early, &late, contents);
    let modules: Vec<&Module> = early.iter().chain(&late).collect();
    let agent = fs::read(agent).doing(format_args!("read the agent `{}`", agent.display()))?;
    let mut archive = archive(&agent, &modules, &script)?;
    if let Contents::Packed(packed, _) = contents {
        packed.add_to(&mut archive)?;
    }
    let path = room.directory().join("initramfs.cpio");
    fs::write(&path, archive.end()?).doing(format_args!("write `{}`", path.display()))?;
    Ok(Written { path, module_count: modules.len() })
}

/// Puts the agent and its script into a directory that is a guest's first root, beside what is
/// served there; no module is loaded.
///
/// # Errors
/// The machine's: a file cannot be written.
pub(crate) fn lay(
    export: &Path,
    (agent, name): (&Path, &str),
    channel: Channel,
    files: &Files<'_>,
) -> Result<(), Fault> {
    let at = |name: &str| export.join(name.trim_start_matches('/'));
    fs::copy(agent, at(name)).doing(format_args!("copy the agent into `{}`", export.display()))?;
    let text = text(&script(channel, &[], &[], Contents::Served(files)));
    let path = at(SCRIPT);
    fs::write(&path, text).doing(format_args!("write `{}`", path.display()))
}

/// Refuses a path that a line of the script cannot hold.
///
/// # Errors
/// The user's: white space in the path, or bytes that are not text.
pub(crate) fn check_writable(path: &Path) -> Result<(), Fault> {
    let is_plain = path.to_str().is_some_and(|text| !text.contains(char::is_whitespace));
    if is_plain {
        return Ok(());
    }
    let shown = path.display();
    Err(Fault::user(format!("`--writable {shown}` has white space in it, or is not text"))
        .hint("make a symbolic link with a plainer name beside it and share its parent"))
}

/// Puts the parts into a cpio archive of the kind that Linux unpacks (`newc`).
///
/// # Errors
/// A part that is larger than the format allows.
fn archive(agent: &[u8], modules: &[&Module], script: &[String]) -> Result<Archive, Fault> {
    let mut archive = Archive::default();
    archive.add("init", 0o755, ModeFileType::Regular, agent)?;
    archive.add(SCRIPT, 0o644, ModeFileType::Regular, text(script).as_bytes())?;
    archive.add("modules", 0o755, ModeFileType::Directory, b"")?;
    for module in modules {
        let name = format!("modules/{}.ko", module.name);
        archive.add(&name, 0o644, ModeFileType::Regular, &module.bytes)?;
    }
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::files::hello;
    use std::io::Read;

    fn module(name: &str) -> Module {
        Module { name: name.into(), bytes: name.as_bytes().to_vec() }
    }

    #[test]
    fn the_same_parts_give_the_same_bytes_and_can_be_read_back() {
        let parts = [module("virtio"), module("fuse")];
        let modules: Vec<&Module> = parts.iter().collect();
        let first = archive(b"agent", &modules, &[hello(Channel::Port)]).unwrap().end().unwrap();
        let second = archive(b"agent", &modules, &[hello(Channel::Port)]).unwrap().end().unwrap();
        assert_eq!(first, second);

        let mut rest = first.as_slice();
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut contents = String::new();
            reader.read_to_string(&mut contents).unwrap();
            found.push(format!("{mode:o} {name} {contents}"));
            rest = reader.finish().unwrap();
        }
        assert_eq!(
            found,
            [
                "100755 init agent", "100644 surtax.conf hello\n", "40755 modules ",
                "100644 modules/virtio.ko virtio", "100644 modules/fuse.ko fuse",
            ]
        );
    }

    #[test]
    fn a_writable_path_that_a_script_cannot_hold_is_refused() {
        assert!(check_writable(Path::new("/home/a/my results")).is_err());
        assert_eq!(check_writable(Path::new("/home/a/results")), Ok(()));
    }
}
