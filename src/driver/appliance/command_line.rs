//! The command line of QEMU for an appliance: a machine with no more than its recipe names.

use super::recipe::{CommandPlace, FoundRecipe};
use crate::fault::Fault;
use crate::lab::Jail;
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::qemu::{PROGRAM, SANDBOX};
use std::path::{Path, PathBuf};

/// The descriptor at which QEMU finds the other end of the serial console.
pub(super) const CONSOLE_DESCRIPTOR: i32 = 3;

/// The descriptor at which QEMU finds its end of the QMP conversation.
pub(super) const QMP_DESCRIPTOR: i32 = 4;

/// The disk's device unless the recipe names another.
const DISK_DEVICE: &str = "virtio-blk-pci";

/// Everything that decides what machine QEMU makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) accelerator: Accelerator,
    pub(super) board: Board,
    pub(super) cpus: u32,
    /// The CPU model that was named; else all that the accelerator can give.
    pub(super) cpu: Option<String>,
    pub(super) memory_mib: u64,
    /// Path of the kernel that is booted; `None` where only a disk is.
    pub(super) kernel: Option<PathBuf>,
    pub(super) initrd: Option<PathBuf>,
    /// The kernel's command line, with the command in it if it is booted with one.
    pub(super) append: Option<String>,
    /// The disk, and QEMU's name of its device.
    pub(super) disk: Option<(PathBuf, String)>,
    /// QEMU's name of the network card.
    pub(super) network: Option<String>,
    /// The port of the appliance that can be reached.
    pub(super) port: Option<u16>,
    /// It is made and does not run yet.
    pub(super) stands_still: bool,
    /// File that somebody has typed, and not read in a recipe.
    pub(super) typed: Option<PathBuf>,
    /// The recipe is one of surtax's own.
    pub(super) is_built_in: bool,
}

impl Machine {
    /// Returns the machine that a recipe asks for; `words` are the command's. `image` takes the
    /// place of the file that it names.
    pub(super) fn of(
        found: &FoundRecipe,
        image: Option<&Path>,
        accelerator: Accelerator,
        words: &str,
    ) -> Self {
        let recipe = &found.recipe;
        let file = |name: &Option<String>| name.as_ref().map(|name| found.file(name));
        let is_disk = recipe.image.kernel.is_none() && recipe.image.disk.is_some();
        let named = |is_it: bool, name: &Option<String>| match image {
            Some(image) if is_it => Some(image.to_owned()),
            _ => file(name),
        };
        let device = recipe.machine.disk.clone().unwrap_or_else(|| DISK_DEVICE.to_owned());
        let append = recipe.image.append.replace("{command}", words);
        Self {
            accelerator,
            board: recipe.board(),
            cpus: recipe.machine.cpus,
            cpu: None,
            memory_mib: recipe.memory_mib(),
            kernel: named(!is_disk, &recipe.image.kernel),
            initrd: file(&recipe.image.initrd),
            append: Some(append).filter(|text| !text.is_empty()),
            disk: named(is_disk, &recipe.image.disk).map(|disk| (disk, device)),
            network: recipe.machine.network.clone(),
            port: recipe.command.port,
            stands_still: recipe.command.runs == CommandPlace::Boot,
            typed: image.map(Path::to_owned),
            is_built_in: found.is_built_in(),
        }
    }

    /// Returns the image that is booted: the kernel, or the disk.
    pub(super) fn image(&self) -> Option<&Path> {
        self.kernel.as_deref().or_else(|| self.disk.as_ref().map(|(path, _)| path.as_path()))
    }

    /// Tells whether a file may be copied where only root may read it: a recipe is anybody's, and
    /// names what its author would like to read.
    pub(super) fn may_copy(&self, file: &Path) -> bool {
        self.is_built_in || self.typed.as_deref() == Some(file)
    }

    /// The same machine as its process sees it in a jail.
    ///
    /// # Errors
    /// The machine's: a file cannot be shown there.
    pub(super) fn within(&self, jail: &mut Jail) -> Result<Self, Fault> {
        if self.accelerator == Accelerator::Kvm {
            jail.device(Path::new("/dev/kvm"));
        }
        let mut show = |name: &str, file: &Path| match self.may_copy(file) {
            true => jail.show(name, file),
            false => Ok(jail.show_as_it_is(name, file)),
        };
        let mut shown = self.clone();
        for (name, file) in [("kernel", &mut shown.kernel), ("initrd", &mut shown.initrd)] {
            *file = file.as_deref().map(|file| show(name, file)).transpose()?;
        }
        if let Some((disk, _)) = &mut shown.disk {
            *disk = show("disk", disk)?;
        }
        Ok(shown)
    }

    /// Every file that it is made of, and the name of the fact that its hash is.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let disk = self.disk.as_ref().map(|(path, _)| path.as_path());
        let files = [
            ("image_sha256", self.image()),
            ("initrd_sha256", self.initrd.as_deref()),
            ("disk_sha256", disk.filter(|_| self.kernel.is_some())),
        ];
        files.into_iter().filter_map(|(name, file)| Some((name, file?)))
    }

    /// The whole command line, the program first.
    pub(super) fn command_line(&self) -> Vec<String> {
        let memory = self.memory_mib;
        let mut argv = vec![PROGRAM.to_owned()];
        let mut add = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        let path = |path: &Path| path.display().to_string().replace(',', ",,");

        add("-name", "surtax,debug-threads=on".into());
        add("-sandbox", SANDBOX.into());
        add("-accel", self.accelerator.name().into());
        add("-machine", format!("{},memory-backend=memory", self.board.name()));
        add("-cpu", self.cpu_model().into());
        add("-smp", self.cpus.to_string());
        add("-m", format!("{memory}M"));
        // Shared, so that the kernel counts what the guest has touched apart from QEMU's own
        // memory.
        add("-object", format!("memory-backend-memfd,id=memory,size={memory}M,share=on"));
        if let Some(kernel) = &self.kernel {
            add("-kernel", kernel.display().to_string());
        }
        if let Some(initrd) = &self.initrd {
            add("-initrd", initrd.display().to_string());
        }
        if let Some(append) = &self.append {
            add("-append", append.clone());
        }
        add("-chardev", format!("socket,id=console,fd={CONSOLE_DESCRIPTOR}"));
        add("-serial", "chardev:console".into());
        add("-chardev", format!("socket,id=qmp,fd={QMP_DESCRIPTOR}"));
        add("-mon", "chardev=qmp,mode=control".into());
        if let Some((disk, device)) = &self.disk {
            // What is written goes to a file of QEMU's that has no name.
            let file = path(disk);
            add("-drive", format!("if=none,id=disk,file={file},format=raw,snapshot=on"));
            add("-device", format!("{device},drive=disk"));
        }
        if let Some(card) = &self.network {
            // Nothing goes out; only the one port leads in, from the loopback of QEMU's own
            // network.
            let port = self.port.map(|port| format!(",hostfwd=tcp:127.0.0.1:{port}-:{port}"));
            add("-netdev", format!("user,id=network,restrict=on{}", port.unwrap_or_default()));
            // Without the program that would boot from a network, which its firmware loads.
            let rom = if self.board == Board::Microvm { "" } else { ",romfile=" };
            add("-device", format!("{card},netdev=network{rom}"));
        }
        add("-display", "none".into());
        for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
            argv.push(flag.into());
        }
        if self.stands_still {
            // It stays after its end, until what it used is read.
            argv.extend(["-no-shutdown", "-S"].map(String::from));
        }
        argv
    }

    /// Returns the named CPU model, or else the one with all that the accelerator can give.
    pub(super) fn cpu_model(&self) -> &str {
        self.accelerator.cpu_model(self.cpu.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, image: Option<&str>, words: &str) -> String {
        let found = FoundRecipe::find(name, Path::new("/cache")).unwrap();
        let machine = Machine::of(&found, image.map(Path::new), Accelerator::Tcg, words);
        machine.command_line().join(" ").replace(" -", "\n-")
    }

    #[test]
    fn an_appliance_gets_what_its_recipe_names_and_no_more() {
        assert_eq!(
            lines("arceos", None, "echo"),
            "qemu-system-x86_64
-name surtax,debug-threads=on
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel tcg
-machine q35,memory-backend=memory
-cpu max
-smp 1
-m 128M
-object memory-backend-memfd,id=memory,size=128M,share=on
-kernel /cache/appliances/arceos.elf
-chardev socket,id=console,fd=3
-serial chardev:console
-chardev socket,id=qmp,fd=4
-mon chardev=qmp,mode=control
-netdev user,id=network,restrict=on,hostfwd=tcp:127.0.0.1:8007-:8007
-device virtio-net-pci,netdev=network,romfile=
-display none
-nodefaults
-no-user-config
-no-reboot"
        );
    }

    #[test]
    fn one_that_is_booted_with_its_command_stands_still_until_it_is_told() {
        let text = lines("unikraft", Some("/images/hello"), "hello world");
        assert!(text.contains("\n-kernel /images/hello\n"), "{text}");
        assert!(text.contains("hello world"), "{text}");
        assert!(text.ends_with("\n-no-shutdown\n-S"), "{text}");
    }

    #[test]
    fn an_image_that_is_a_disk_is_never_written_to() {
        let text = lines("nanos", Some("/images/a,b.img"), "");
        assert!(text.contains("file=/images/a,,b.img,format=raw,snapshot=on"), "{text}");
        assert!(!text.contains("-kernel"), "{text}");
    }

    #[test]
    fn every_file_has_a_hash_of_its_own_name() {
        let found = FoundRecipe::find("osv", Path::new("/cache")).unwrap();
        let mut machine = Machine::of(&found, Some(Path::new("/k")), Accelerator::Tcg, "");
        machine.initrd = Some(PathBuf::from("/i"));
        machine.disk = Some((PathBuf::from("/d"), String::new()));
        let names = |machine: &Machine| machine.files().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&machine), ["image_sha256", "initrd_sha256", "disk_sha256"]);
        machine.kernel = None;
        machine.initrd = None;
        assert_eq!(names(&machine), ["image_sha256"], "the disk is what is booted");
    }
}
