//! Jails: where a program runs that serves a guest, with what it may see, write and do.
//!
//! surtax (root) ── opens, makes and gives away ── program (a user of its own, no capabilities)
//!
//! A guest that takes its monitor over has what the monitor had. So a monitor, and whoever serves
//! files beside it, is a user that nobody else is, cannot become another, and sees this level's
//! files without being able to write any but those that were made for it. They lie in one
//! directory, which in the jail's mount namespace covers the one of all rooms: the paths are short,
//! the same in every start, and need no right to pass through ours.

use crate::fault::{Doing, Fault};
use crate::lab::{self, CapabilitySet, Confinement, Mount, Room, Unprivileged};
use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permission bit by which everybody, also a user without privileges, may read a file.
const READABLE: u32 = 0o004;

/// The file system that holds the places of what is shown: nothing else, and no data.
const OPTIONS: &str = "nosuid,noexec,mode=0755,size=1m";

/// A jail, until somebody runs in it.
pub(crate) struct Jail {
    user: Unprivileged,
    capabilities: CapabilitySet,
    /// Directory in which the jail is put together.
    place: PathBuf,
    /// Mounts that are shown in it, and below it.
    shown: Vec<Mount>,
    /// Devices that are another's, by their places.
    devices: Vec<Mount>,
    /// Keeps copies of what only root may read.
    copies: PathBuf,
}

/// Parts that a program needs to be in a jail.
pub(crate) struct Jailed {
    /// Mount namespace that the program sees.
    pub(crate) mount_namespace: OwnedFd,
    /// User and capabilities that the program has.
    pub(crate) confinement: Confinement,
}

impl Jail {
    /// A jail of the room for the program of this name.
    ///
    /// # Errors
    /// The machine's: there is no user for it.
    pub(crate) fn make(name: &str, room: &Room) -> Result<Self, Fault> {
        let place = directory(name, room);
        Ok(Self {
            user: room.unprivileged()?,
            capabilities: CapabilitySet::empty(),
            copies: room.directory().join(format!("copies-{name}")),
            shown: vec![Mount::fresh("tmpfs", &place, OPTIONS)],
            place,
            devices: Vec::new(),
        })
    }

    /// Returns the path at which the jail of this name is put together for `what`, and the one at
    /// which the program in it sees that.
    pub(crate) fn place(name: &str, what: &str, room: &Room) -> (PathBuf, PathBuf) {
        (directory(name, room).join(what), lab::run_directory().join(what))
    }

    /// Returns the number of its user.
    pub(crate) fn user(&self) -> u32 {
        self.user.number()
    }

    /// Leaves the program these capabilities.
    pub(crate) fn keep(&mut self, capabilities: CapabilitySet) {
        self.capabilities |= capabilities;
    }

    /// Returns the path at which the jail is put together for mounts of somebody else's, and the
    /// one at which the program sees them.
    pub(crate) fn at(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.place.join(name), lab::run_directory().join(name))
    }

    /// Adds mounts below [`Jail::at`]. They stay as writable as they are.
    pub(crate) fn add(&mut self, mounts: Vec<Mount>) {
        self.shown.extend(mounts);
    }

    /// Shows a file that the program may read, and says where it does.
    ///
    /// # Errors
    /// The machine's: there is no such file, or no room for a copy of one that only root may read.
    pub(crate) fn show(&mut self, name: &str, file: &Path) -> Result<PathBuf, Fault> {
        let found = fs::metadata(file).doing(format_args!("look at `{}`", file.display()))?;
        if everybody_may_read(&found) {
            return Ok(self.bind(name, file, Mount::bind_read_only));
        }
        let copy = self.copies.join(name);
        fs::create_dir_all(&self.copies)
            .and_then(|()| fs::copy(file, &copy))
            .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o400)))
            .doing(format_args!("copy `{}` for a user without privileges", file.display()))?;
        self.user.own(&copy)?;
        Ok(self.bind(name, &copy, Mount::bind_read_only))
    }

    /// Shows a file as it is, and says where: one that the program may not read stays unread.
    pub(crate) fn show_as_it_is(&mut self, name: &str, file: &Path) -> PathBuf {
        self.bind(name, file, Mount::bind_read_only)
    }

    /// Gives a file, directory or socket of the room to the program, to write to, and says where it
    /// sees it.
    ///
    /// # Errors
    /// The machine's: it cannot be given away.
    pub(crate) fn lend(&mut self, name: &str, file: &Path) -> Result<PathBuf, Fault> {
        self.user.own(file)?;
        Ok(self.bind(name, file, Mount::bind))
    }

    /// Gives the program a device under the device's own name, whoever else may use it.
    pub(crate) fn device(&mut self, device: &Path) {
        let (place, _) = self.at("devices");
        let target = place.join(device.file_name().unwrap_or_default());
        let (source, owner) = (device.to_owned(), self.user());
        self.shown.push(Mount::Device { source, target: target.clone(), owner });
        self.devices.push(Mount::bind(target, device));
    }

    /// Puts it together.
    ///
    /// # Errors
    /// The mount that failed.
    pub(crate) fn close(&self, room: &Room) -> Result<Jailed, Fault> {
        let mut mounts = self.shown.clone();
        mounts.push(Mount::ReadOnly { except: self.place.clone() });
        mounts.extend(self.devices.iter().cloned());
        mounts.push(Mount::Move { source: self.place.clone(), target: lab::run_directory() });
        Ok(Jailed {
            mount_namespace: room.mount_namespace(&mounts)?,
            confinement: self.user.with(self.capabilities),
        })
    }

    fn bind(&mut self, name: &str, from: &Path, bound: fn(PathBuf, PathBuf) -> Mount) -> PathBuf {
        let (target, seen) = self.at(name);
        self.shown.push(bound(from.to_owned(), target));
        seen
    }
}

/// Tells whether a user without privileges may read a file.
pub(crate) fn everybody_may_read(file: &Metadata) -> bool {
    file.mode() & READABLE != 0
}

fn directory(name: &str, room: &Room) -> PathBuf {
    room.directory().join(format!("jail-{name}"))
}

#[cfg(test)]
mod tests {
    use crate::lab::Program;
    use crate::lab::jail::*;
    use std::io::Read;
    use std::time::Duration;

    /// Runs a script in a jail and returns what it prints.
    fn says(prepare: impl FnOnce(&mut Jail, &Room) -> String) -> String {
        let directory = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(directory.path());
        let room = lab.room("jail").unwrap();
        let mut jail = Jail::make("test", &room).unwrap();
        let script = prepare(&mut jail, &room);
        let jailed = jail.close(&room).unwrap();
        let (output, said) = lab::pipe().unwrap();
        let errors = said.try_clone().unwrap();
        let mut process = room
            .spawn(Program {
                argv: ["/bin/sh", "-c", &script].map(String::from).to_vec(),
                stdio: [None, Some(said), Some(errors)],
                mount_namespace: Some(jailed.mount_namespace),
                confinement: Some(jailed.confinement),
                ..Program::default()
            })
            .unwrap();
        let mut text = String::new();
        fs::File::from(output).read_to_string(&mut text).unwrap();
        process.wait(Duration::from_secs(10)).unwrap().unwrap();
        room.close().unwrap();
        lab.close().unwrap();
        text
    }

    #[test]
    fn a_program_in_a_jail_writes_to_what_it_was_lent_and_nowhere_else() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let text = says(|jail, room| {
            let secret = room.directory().join("secret");
            fs::write(&secret, "kernel").unwrap();
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
            let disk = room.directory().join("disk");
            fs::write(&disk, "").unwrap();
            let shown = jail.show("kernel", &secret).unwrap();
            let lent = jail.lend("disk", &disk).unwrap();
            let (shown, lent) = (shown.display(), lent.display());
            format!(
                "cat {shown}; echo; echo written > {lent} && cat {lent}; for at in /tmp /dev/shm \
                 /var/tmp /run/surtax; do echo > $at/x && echo wrote to $at; done; echo over > \
                 {shown} && echo wrote the kernel; ls /run/surtax; cat /etc/shadow; exec true"
            )
        });
        assert!(text.starts_with("kernel\nwritten\n"), "{text}");
        assert!(!text.contains("wrote"), "{text}");
        assert!(text.contains("disk\nkernel\n"), "the other rooms are not seen: {text}");
        assert!(!text.contains("root:"), "{text}");
    }

    #[test]
    fn a_device_is_the_program_s_own_whoever_may_use_it_outside() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let text = says(|jail, _| {
            jail.device(Path::new("/dev/full"));
            let user = jail.user();
            format!("stat -c %u:%a /dev/full; (echo > /dev/full) 2>&1; echo {user}:600")
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), lines.last(), "{text}");
        assert!(text.contains("echo: echo: I/O error"), "a device of its own that is full: {text}");
    }
}
