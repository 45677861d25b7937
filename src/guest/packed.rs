//! A packed root: the command's own file, its libraries and the files that it is given, in the
//! initramfs, and nothing else. The guest is then a kernel and an application.
//!
//! Which libraries a program needs is read in its file and in theirs, and looked for as the loader
//! that it names would do. That loader is packed and not asked: whatever a file names, nothing of
//! it is started on this machine. What a program opens by itself later (plug-ins, `locale`, name
//! services) nobody can know before; it is not there. Neither is any other program: a script is
//! refused, and a shell finds nothing to start but what it has built in.

mod directories;
pub(crate) mod dynamic;
mod file;
mod libraries;
#[cfg(test)]
mod planted;

use crate::fault::{Doing, Fault};
use crate::guest::archive::Archive;
use crate::guest::elf::Elf;
use crate::layer::{Site, value_of};
use cpio::newc::ModeFileType;
use file::PackedFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use surtax_engines::OURSELVES;
use surtax_instrument::command_file::{find, path};
use surtax_instrument::wire::{Command, Fact};

/// The kernel unpacks what it is given, and so holds it twice for a moment: no more than one part
/// in so many of the memory.
const MEMORY_PART: u64 = 4;

/// Directories that the agent mounts: files there are not ours to pack.
const FRESH: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Number of files that a guest has beside the command: `init` and its script.
const OWN_FILES: usize = 2;

/// The most bytes of a file in an archive.
///
/// Source: Linux `Documentation/driver-api/early-userspace/buffer-format.rst`, `c_filesize`.
const ARCHIVED_MOST: u64 = u32::MAX as u64;

/// Files that a guest has been given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedRoot {
    /// Path of each in the guest.
    names: Vec<PathBuf>,
    bytes: u64,
}

/// Files that go into the guest, and the working directory there.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// Path of each file in the guest, with the file.
    files: BTreeMap<PathBuf, PackedFile>,
    /// The working directory.
    cwd: PathBuf,
}

impl Packed {
    /// Finds what the site's command needs.
    ///
    /// # Errors
    /// The user's: the command cannot be packed, or the stack asks for files of this level.
    pub(crate) fn of(site: &Site<'_>, memory_mib: u64) -> Result<Self, Fault> {
        if let Some(path) = site.view.writable.first() {
            let shown = path.display();
            return Err(Fault::user(format!("a packed guest cannot write to `{shown}`"))
                .hint("drop `--writable`, or `root=packed`"));
        }
        let mut packed = Self { cwd: "/".into(), ..Self::default() };
        if let Some(command) = site.command {
            packed.cwd = clean(path(&command.cwd));
            if command.argv.first().is_none_or(|program| program != OURSELVES.as_bytes()) {
                packed.add_program(command)?;
            }
            packed.add_arguments(command)?;
            packed.require_room(memory_mib)?;
        }
        Ok(packed)
    }

    fn add_program(&mut self, command: &Command) -> Result<(), Fault> {
        let program = find(command).ok_or_else(|| {
            let name = String::from_utf8_lossy(command.argv.first().map_or(b"", Vec::as_slice));
            Fault::user(format!("there is no program `{}` to pack", name.escape_debug()))
                .hint("check its spelling, and the command's `PATH`")
        })?;
        let shown = program.display();
        let file = PackedFile::open(&program).doing(format_args!("open `{shown}`"))?;
        let bytes = file.read(libraries::FILE_MOST).doing(format_args!("read `{shown}`"))?;
        if bytes.starts_with(b"#!") {
            return Err(Fault::user(format!(
                "`{shown}` is a script, and what a script starts cannot be known before"
            ))
            .hint("name one program, or leave `root=packed` out"));
        }
        let elf = Elf::parse(&bytes).ok_or_else(|| {
            Fault::user(format!("`{shown}` is not a 64-bit program, and cannot be packed"))
        })?;
        if let Some(loader) = elf.interpreter() {
            for library in libraries::of(&program, &bytes, loader, command)? {
                self.add(library);
            }
        }
        self.add(file);
        Ok(())
    }

    /// Arguments that are the names of files. A directory's files would have to be guessed at.
    fn add_arguments(&mut self, command: &Command) -> Result<(), Fault> {
        let cwd = path(&command.cwd);
        for argument in command.argv.iter().skip(1).filter(|argument| !argument.is_empty()) {
            let named = clean(&cwd.join(path(argument)));
            if FRESH.iter().any(|fresh| named.starts_with(fresh)) {
                continue;
            }
            match fs::metadata(&named) {
                Ok(about) if about.is_file() => match PackedFile::open(&named) {
                    Ok(file) => self.add(file),
                    // It has become no file, or is the kernel's own.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                    Err(error) => {
                        return Err(error).doing(format_args!("open `{}`", named.display()));
                    }
                },
                Ok(about) if about.is_dir() && argument.contains(&b'/') => {
                    let shown = named.display();
                    return Err(Fault::user(format!(
                        "`{shown}` is a directory, and only files are packed"
                    ))
                    .hint("name files, or leave `root=packed` out"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, file: PackedFile) {
        self.files.insert(clean(&file.path), file);
    }

    fn require_room(&self, memory_mib: u64) -> Result<(), Fault> {
        let limit = (memory_mib << 20) / MEMORY_PART;
        let bytes = self.bytes();
        if bytes <= limit {
            return Ok(());
        }
        let mib = bytes.div_ceil(1 << 20);
        let enough = mib * MEMORY_PART;
        Err(Fault::user(format!(
            "the packed command has {mib} MiB of files, too many for a guest with {memory_mib} MiB"
        ))
        .hint(format!("use `memory={enough}M`, or leave `root=packed` out")))
    }

    fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Puts the files behind what the archive holds, parents before children.
    ///
    /// # Errors
    /// One cannot be read, or its name is not text.
    pub(crate) fn add_to(&self, archive: &mut Archive) -> Result<(), Fault> {
        let mut directories = BTreeSet::from([PathBuf::from("/tmp"), self.cwd.clone()]);
        for file in self.files.keys() {
            directories.extend(file.ancestors().skip(1).map(Path::to_owned));
        }
        let above = self.cwd.ancestors().map(Path::to_owned).collect::<Vec<_>>();
        directories.extend(above);
        for directory in directories {
            let mode = if directory == Path::new("/tmp") { 0o1777 } else { 0o755 };
            if let Some(name) = name(&directory)? {
                archive.add(name, mode, ModeFileType::Directory, b"")?;
            }
        }
        for (at, file) in &self.files {
            let doing = format!("pack `{}`", file.path.display());
            let mode = file.mode().doing(&doing)?;
            let bytes = file.read(ARCHIVED_MOST).doing(&doing)?;
            if let Some(name) = name(at)? {
                archive.add(name, mode, ModeFileType::Regular, &bytes)?;
            }
        }
        Ok(())
    }

    /// Says what they are, without holding them any more.
    pub(crate) fn root(self) -> PackedRoot {
        PackedRoot { bytes: self.bytes(), names: self.files.into_keys().collect() }
    }
}

impl PackedRoot {
    /// That the guest has this root, and as many files as were packed.
    ///
    /// # Errors
    /// It has another root, or files that nobody packed.
    pub(crate) fn prove(&self, module_count: usize, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let root = value_of(inside, "root_mount")?;
        if !root.starts_with("rootfs ") {
            return Err(Fault::machine(format!(
                "its root was packed, and the guest's is `{root}`"
            )));
        }
        let expected = (self.names.len() + module_count + OWN_FILES).to_string();
        let seen = value_of(inside, "root_files")?;
        if seen != expected {
            return Err(Fault::machine(format!(
                "{expected} files were packed, and the guest has {seen}"
            )));
        }
        let names: Vec<_> = self.names.iter().map(|file| file.display().to_string()).collect();
        Ok(vec![
            Fact::new("root", "packed", "the initramfs, and /proc/self/mountinfo inside"),
            Fact::new("root_files", expected, "the initramfs, and a walk over `/` inside"),
            Fact::new("root_packed", names.join(" "), "the command, and what its files name"),
            Fact::new("root_packed_bytes", self.bytes.to_string(), "stat(2)"),
        ])
    }
}

/// The name of a file in an archive: without the first `/`; none for the root itself.
fn name(path: &Path) -> Result<Option<&str>, Fault> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let text = relative.to_str().ok_or_else(|| {
        Fault::user(format!("the name `{}` is not text, and cannot be packed", path.display()))
    })?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// An absolute path without `.` and `..`, as text alone: symbolic links become plain directories.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(part) => clean.push(part),
            Component::ParentDir => drop(clean.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::planted::Planted;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn command(words: &[&str]) -> Command {
        Command {
            argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
            cwd: b"/".to_vec(),
            ..Command::default()
        }
    }

    /// A file that may be executed.
    fn program(at: &Path, bytes: &[u8]) {
        fs::write(at, bytes).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn nothing_that_a_program_names_is_started_here() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let text = |name: &str| at(name).display().to_string();
        program(&at("loader"), format!("#!/bin/sh\ntouch {}\n", text("mark")).as_bytes());
        program(&at("p"), &Planted::new().started_by(&text("loader")).bytes());
        let mut packed = Packed::default();
        let fault = packed.add_program(&command(&[text("p").as_str()])).unwrap_err();
        let told = format!(
            "the loader of `{}`, `{}`: that is no whole program for this machine",
            text("p"),
            text("loader")
        );
        let hint = fault.hint.as_deref();
        assert_eq!((fault.message.as_str(), hint), (told.as_str(), Some(libraries::LEAVE_OUT)));
        assert!(packed.files.is_empty());
        let named = Planted::new().started_by("loader").bytes();
        program(&at("p"), &named);
        let fault = packed.add_program(&command(&[text("p").as_str()])).unwrap_err();
        assert!(fault.message.ends_with("`loader`: its path is not absolute"), "{fault}");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        program(&at("p"), &Planted::new().started_by(&text("pipe")).bytes());
        let fault = packed.add_program(&command(&[text("p").as_str()])).unwrap_err();
        assert!(fault.message.contains("no program can be read there: it is a pipe"), "{fault}");
        assert!(!at("mark").exists());
    }

    #[test]
    fn a_program_comes_with_its_loader_and_a_static_one_alone() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let text = |name: &str| at(name).display().to_string();
        program(&at("loader"), &Planted::new().bytes());
        program(&at("p"), &Planted::new().started_by(&text("loader")).bytes());
        program(&at("static"), &Planted::new().bytes());
        for (name, told) in [("p", &["loader", "p"][..]), ("static", &["static"])] {
            let mut packed = Packed::default();
            packed.add_program(&command(&[text(name).as_str()])).unwrap();
            let told: Vec<PathBuf> = told.iter().map(|name| at(name)).collect();
            let packed: Vec<PathBuf> = packed.files.into_values().map(|it| it.path).collect();
            assert_eq!(packed, told);
        }
    }

    #[test]
    fn a_program_is_looked_up_as_the_shell_would() {
        assert!(find(&command(&["sha256sum"])).unwrap().ends_with("sha256sum"));
        assert_eq!(find(&command(&["/etc/passwd"])), None);
        assert_eq!(find(&command(&["surtax-no-such-program"])), None);
        assert_eq!(find(&command(&[])), None);
    }

    #[test]
    fn arguments_that_are_files_come_along_and_directories_are_refused() {
        let mut packed = Packed::default();
        packed
            .add_arguments(&command(&["cat", "/etc/passwd", "etc/../etc/group", "/dev/null"]))
            .unwrap();
        let names: Vec<_> = packed.files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["/etc/group", "/etc/passwd"]);
        packed.add_arguments(&command(&["echo", "etc", "absent", ""])).unwrap();
        assert_eq!(packed.files.len(), 2);
        let fault = packed.add_arguments(&command(&["ls", "/etc"])).unwrap_err();
        assert_eq!(fault.message, "`/etc` is a directory, and only files are packed");
    }

    #[test]
    fn a_command_too_large_for_the_guest_is_refused_with_a_size_that_suffices() {
        let mut packed = Packed::default();
        packed.add(PackedFile::open(Path::new("/proc/self/exe")).unwrap());
        let fault = packed.require_room(4).unwrap_err();
        assert!(fault.message.contains("too many for a guest with 4 MiB"), "{fault}");
        assert!(packed.require_room(1 << 20).is_ok());
    }

    #[test]
    fn a_guest_with_more_files_than_were_packed_is_no_proof() {
        let packed = PackedRoot { names: vec!["/bin/true".into()], bytes: 1 };
        let inside = |root: &str, files: &str| {
            [Fact::new("root_mount", root, ""), Fact::new("root_files", files, "")]
        };
        let prove = |root, files| packed.prove(3, &inside(root, files));
        assert!(prove("rootfs rootfs rw", "6").is_ok());
        assert!(prove("rootfs rootfs rw", "7").unwrap_err().message.contains("the guest has 7"));
        assert!(prove("overlay overlay rw", "6").unwrap_err().message.contains("the guest's is"));
    }

    #[test]
    fn what_was_looked_at_is_packed_whatever_has_come_in_its_place() {
        let place = tempfile::tempdir().unwrap();
        let named = place.path().join("data");
        let words = command(&["cat", named.to_str().unwrap()]);
        let content = |packed: &Packed| {
            packed.files.values().map(|file| file.read(ARCHIVED_MOST).unwrap()).collect::<Vec<_>>()
        };
        fs::write(&named, "the command's").unwrap();
        let mut packed = Packed::default();
        packed.add_arguments(&words).unwrap();
        fs::remove_file(&named).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &named).unwrap();
        assert_eq!(content(&packed), [b"the command's"]);
        // What has grown since there was room for it is as long as it was.
        fs::remove_file(&named).unwrap();
        fs::write(&named, "short").unwrap();
        let mut packed = Packed::default();
        packed.add_arguments(&words).unwrap();
        fs::write(&named, "longer than before").unwrap();
        assert_eq!((content(&packed), packed.bytes()), (vec![b"longe".to_vec()], 5));
        // What acts when it is read is not read.
        fs::remove_file(&named).unwrap();
        std::os::unix::fs::symlink("/proc/kmsg", &named).unwrap();
        let mut packed = Packed::default();
        packed.add_arguments(&words).unwrap();
        assert!(packed.files.is_empty());
    }

    #[test]
    fn a_path_is_cleaned_of_dots_by_its_text() {
        assert_eq!(clean(Path::new("/usr/lib/x/../lib/./f")), PathBuf::from("/usr/lib/lib/f"));
        assert_eq!(clean(Path::new("/../..")), PathBuf::from("/"));
    }
}
