//! Programs that the kernel starts because a setting of its names them, outside any container.
//!
//! What handles a crash is started as root when any command crashes, also a confined one. A kind of
//! program that the kernel does not know itself is started by an interpreter of `binfmt_misc`.
//!
//! Source: `core(5)`; Linux 6.12, `fs/coredump.c` (`format_corename`), `fs/binfmt_misc.c`
//! (`entry_status`), `Documentation/admin-guide/sysctl/kernel.rst`, `cgroup-v1/cgroups.rst`.

use super::places::{Place, Reason};
use super::{configuration, pattern, programs};
use crate::fault::Fault;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Reader of a setting's text, which finds the program in it.
type Find = fn(&[u8]) -> Option<&[u8]>;

/// Settings, by a pattern of files below `/`.
const SETTINGS: [(&str, Find); 8] = [
    ("proc/sys/fs/binfmt_misc/*", interpreter),
    ("proc/sys/fs/binfmt_misc/.*", interpreter),
    ("proc/sys/kernel/core_pattern", crash_handler),
    ("proc/sys/kernel/hotplug", whole),
    ("proc/sys/kernel/modprobe", whole),
    ("proc/sys/kernel/poweroff_cmd", first_word),
    ("sys/fs/cgroup/*/release_agent", whole),
    ("sys/kernel/uevent_helper", whole),
];

/// The file of `binfmt_misc` that is written to and cannot be read.
const REGISTER: &str = "register";

/// Most bytes of a setting, of which a page is the most that the kernel has, and most files of one.
const BYTES_MOST: u64 = 1 << 16;
const FILES_MOST: usize = 1 << 16;

const STARTED: Reason = Reason::started("part of what the kernel starts by its settings");

/// Lists the programs that the kernel starts, and what these are started by.
///
/// # Errors
/// The machine's: a setting cannot be read.
pub(super) fn places() -> Result<Vec<Place>, Fault> {
    below(Path::new("/"))
}

/// Lists them for the settings below this directory.
fn below(root: &Path) -> Result<Vec<Place>, Fault> {
    let mut places = Vec::new();
    for (setting, find) in SETTINGS {
        let setting = root.join(setting);
        let files = pattern::files(&setting, FILES_MOST)
            .map_err(|error| configuration::unknown(&setting, &error))?;
        for file in files.iter().filter(|file| !file.ends_with(REGISTER)) {
            let text = configuration::read(file, BYTES_MOST)?;
            let program = find(&text).filter(|name| !name.is_empty()).map(path);
            let remedy = format!(", or have `{}` name another program", file.display());
            let started = programs::started(program, STARTED);
            places.extend(started.map(|place| place.or(&remedy)));
        }
    }
    Ok(places)
}

/// The interpreter of an entry that is enabled.
fn interpreter(entry: &[u8]) -> Option<&[u8]> {
    let mut lines = entry.split(|byte| *byte == b'\n');
    let is_enabled = lines.next() == Some(b"enabled");
    lines.find_map(|line| line.strip_prefix(b"interpreter ")).filter(|_| is_enabled)
}

/// The program behind `|`, or the socket behind `@`, that is given what a crashed process left.
fn crash_handler(pattern: &[u8]) -> Option<&[u8]> {
    match pattern {
        [b'|', command @ ..] => first_word(command),
        [b'@', b'@', socket @ ..] | [b'@', socket @ ..] => Some(whole(socket)?),
        _ => None,
    }
}

fn whole(text: &[u8]) -> Option<&[u8]> {
    Some(text.trim_ascii())
}

fn first_word(text: &[u8]) -> Option<&[u8]> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    text.split(is_space).find(|word| !word.is_empty())
}

/// The path of a program, for which the kernel begins at `/`. One of a pattern, such as
/// `/srv/%e/handler`, may be any in the directory that it begins with.
fn path(name: &[u8]) -> PathBuf {
    let path = Path::new("/").join(OsStr::from_bytes(name));
    let is_plain = |part: &Component<'_>| !part.as_os_str().as_bytes().contains(&b'%');
    path.components().take_while(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::super::places::Extent;
    use super::*;
    use std::fs;

    /// Writes a setting below a directory that stands for `/`.
    fn set(root: &Path, setting: &str, text: &str) {
        let file = root.join(setting);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn found(root: &Path) -> Vec<PathBuf> {
        below(root).unwrap().into_iter().map(|place| place.path).collect()
    }

    #[test]
    fn what_handles_a_crash_is_the_first_word_behind_a_bar() {
        let root = tempfile::tempdir().unwrap();
        for (text, told) in [
            ("|/srv/d/h %p\n", &["/srv/d/h"][..]),
            ("|  /srv/d/h\t%p %e\n", &["/srv/d/h"]),
            ("|srv/d/h", &["/srv/d/h"]),
            ("|/srv/d/%e/h %p", &["/srv/d"]),
            ("|/srv/d%%/h", &["/srv"]),
            ("@/srv/d/socket\n", &["/srv/d/socket"]),
            ("@@/srv/d/socket\n", &["/srv/d/socket"]),
            ("core\n", &[]),
            ("/srv/cores/core.%p\n", &[]),
            ("|", &[]),
            ("|\n", &[]),
            ("@", &[]),
            ("", &[]),
        ] {
            set(root.path(), "proc/sys/kernel/core_pattern", text);
            let told: Vec<PathBuf> = told.iter().map(PathBuf::from).collect();
            assert_eq!(found(root.path()), told, "{text:?}");
        }
        // Any directory in there; of one right below `/` not all is.
        for (text, extent) in [("|/srv/d/%e/h", Extent::Whole), ("|/srv/%e/h", Extent::Itself)] {
            set(root.path(), "proc/sys/kernel/core_pattern", text);
            assert_eq!(below(root.path()).unwrap()[0].extent, extent, "{text}");
        }
    }

    #[test]
    fn interpreters_and_helpers_are_found_and_so_is_what_they_are_started_by() {
        let root = tempfile::tempdir().unwrap();
        let formats = "proc/sys/fs/binfmt_misc";
        let entry = |state: &str, path: &str| {
            format!("{state}\ninterpreter {path}\nflags: F\noffset 0\nmagic 7f454c46\n")
        };
        set(root.path(), &format!("{formats}/a"), &entry("enabled", "/srv/a b/qemu"));
        set(root.path(), &format!("{formats}/b"), &entry("disabled", "/srv/b/qemu"));
        set(root.path(), &format!("{formats}/.c"), &entry("enabled", "/srv/c/bin/wine"));
        set(root.path(), &format!("{formats}/status"), "enabled\n");
        set(root.path(), &format!("{formats}/register"), &"x".repeat(1 << 17));
        set(root.path(), "proc/sys/kernel/hotplug", "\n");
        set(root.path(), "proc/sys/kernel/modprobe", "/srv/my tools/modprobe\n");
        set(root.path(), "proc/sys/kernel/poweroff_cmd", "/srv/off now\n");
        set(root.path(), "sys/fs/cgroup/cpu/release_agent", "/srv/agent\n");
        let told = [
            "/srv/a b/qemu", "/srv/c/bin/wine", "/srv/c/lib", "/srv/my tools/modprobe", "/srv/off",
            "/srv/agent",
        ];
        assert_eq!(found(root.path()), told.map(PathBuf::from));
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_said() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(below(root.path()), Ok(Vec::new()), "none is there");
        set(root.path(), "proc/sys/kernel/core_pattern", &"|".repeat(1 << 17));
        let fault = below(root.path()).unwrap_err();
        assert!(fault.message.contains("core_pattern` says what"), "{fault}");
    }
}
