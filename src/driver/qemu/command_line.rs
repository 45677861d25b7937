//! The command line of QEMU, and of the kernel that it boots.
//!
//! Nothing is left to QEMU's defaults that a measurement could depend on: one accelerator (never a
//! list to fall back through), one board, no devices but those named here.

use super::firmware::Firmware;
use super::image::Image;
use super::memory::Memory;
use super::partition::Overcommit;
use super::share;
use super::xen::{self, Xen};
use crate::guest::share::Share;
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::disk::Made;
use crate::vm::nic::Nic;
use crate::vm::qemu::SANDBOX;
use std::path::PathBuf;

/// The descriptor at which QEMU finds the agent's end of the virtio-serial port.
pub(super) const AGENT_DESCRIPTOR: i32 = 3;

/// The descriptor at which QEMU finds its end of the QMP conversation.
pub(super) const QMP_DESCRIPTOR: i32 = 4;

/// Everything that decides what machine QEMU makes.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Path of QEMU's file.
    pub(super) program: String,
    /// Executor of the guest's instructions.
    pub(super) accelerator: Accelerator,
    /// The board.
    pub(super) board: Board,
    /// Virtual CPUs.
    pub(super) cpus: u32,
    /// The CPU model that was named; else all that the accelerator can give.
    pub(super) cpu: Option<String>,
    /// On which CPUs of this level they are kept, in their order; nowhere where this is empty.
    pub(super) pinned: Vec<u32>,
    /// Memory.
    pub(super) memory: Memory,
    /// Resources that QEMU may not take from the guest.
    pub(super) overcommit: Overcommit,
    /// The firmware.
    pub(super) firmware: Firmware,
    /// Kernel or disk that the machine boots.
    pub(super) boots: Boots,
    /// Rate in kHz that the guest is told of its time stamp counter, which under TCG is the host's.
    pub(super) tsc_khz: Option<u64>,
    /// Guest time by instructions, two to this power in nanoseconds each, and not by this level's
    /// clock.
    pub(super) icount: Option<u8>,
    /// File share with the guest; `None` where no files are served.
    pub(super) files: Option<Share>,
    /// The disk of the scratch directory, where there is one.
    pub(super) disk: Option<Made>,
    /// The network device, where there is one.
    pub(super) nic: Option<Nic>,
}

/// Source of the system that a machine boots.
#[derive(Clone, Debug)]
pub(super) enum Boots {
    /// A kernel that QEMU is given.
    Kernel {
        /// An ELF kernel with a PVH entry, or a bzImage.
        image: PathBuf,
        /// The initramfs.
        initramfs: PathBuf,
        /// Xen between QEMU and that kernel; `None` where QEMU boots the kernel itself.
        xen: Option<Xen>,
    },
    /// A disk of its own.
    Disk(Image),
}

impl Machine {
    /// The whole command line, the program first.
    ///
    /// There is no network and no disk but those that were asked for, and no random number device:
    /// the agent needs none of them, and the guest's kernel seeds itself from the CPU.
    pub(super) fn command_line(&self) -> Vec<String> {
        let bus = self.board.bus();
        let mut argv = vec![self.program.clone()];
        let mut add = |option: &str, value: String| argv.extend([option.to_owned(), value]);

        add("-name", "surtax,debug-threads=on".into());
        add("-sandbox", SANDBOX.into());
        add("-accel", self.accelerator.name().into());
        if let Some(shift) = self.icount {
            add("-icount", format!("shift={shift}"));
        }
        // The machine's own `mem-merge` is for all of its memory, whatever the backend says of its
        // own.
        let merge = if self.memory.mergeable { "on" } else { "off" };
        let board = self.board.name();
        add("-machine", format!("{board},memory-backend=memory,mem-merge={merge}"));
        add("-bios", self.firmware.file(self.board).into());
        if self.board == Board::Microvm {
            // Virtio 1.0 on memory-mapped devices too: virtiofsd does not speak the older one.
            add("-global", "virtio-mmio.force-legacy=false".into());
        }
        add("-cpu", self.cpu_argument());
        add("-smp", self.cpus.to_string());
        for [option, value] in self.memory.arguments() {
            add(&option, value);
        }
        add("-overcommit", self.overcommit.argument());
        for [option, value] in self.boot_arguments(bus) {
            add(&option, value);
        }
        add("-chardev", "stdio,id=console,signal=off".into());
        add("-serial", "chardev:console".into());
        add("-chardev", format!("socket,id=qmp,fd={QMP_DESCRIPTOR}"));
        add("-mon", "chardev=qmp,mode=control".into());
        add("-device", format!("virtio-serial-{bus}"));
        add("-chardev", format!("socket,id=agent,fd={AGENT_DESCRIPTOR}"));
        add("-device", "virtserialport,chardev=agent,name=surtax".into());
        for [option, value] in self.files.iter().flat_map(|it| share::arguments(it, bus)) {
            add(&option, value);
        }
        if let Some(device) = self.memory.balloon(bus) {
            add("-device", device);
        }
        for [option, value] in self.disk.iter().flat_map(|disk| disk.arguments(bus)) {
            add(&option, value);
        }
        for [option, value] in self.nic.iter().flat_map(|nic| nic.arguments(bus, self.accelerator))
        {
            add(&option, value);
        }
        add("-display", "none".into());
        for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
            argv.push(flag.into());
        }
        argv
    }

    /// Returns the arguments that name what the machine boots.
    fn boot_arguments(&self, bus: &str) -> Vec<[String; 2]> {
        let argument = |option: &str, value: String| [option.to_owned(), value];
        match &self.boots {
            Boots::Kernel { image, initramfs, xen: Some(xen) } => {
                let words = self.kernel_command_line();
                vec![
                    argument("-kernel", xen.image.display().to_string()),
                    argument("-append", xen.command_line()),
                    argument("-initrd", Xen::modules(image, &words, initramfs)),
                ]
            }
            Boots::Kernel { image, initramfs, xen: None } => vec![
                argument("-kernel", image.display().to_string()),
                argument("-initrd", initramfs.display().to_string()),
                argument("-append", self.kernel_command_line()),
            ],
            Boots::Disk(image) => image.arguments(bus),
        }
    }

    /// The model, with what Xen cannot have.
    fn cpu_argument(&self) -> String {
        let model = self.cpu_model();
        self.xen().map_or(model.to_owned(), |_| xen::cpu_model(model, self.accelerator))
    }

    /// Returns the Xen that runs under the guest's kernel; `None` where the kernel is alone.
    pub(super) fn xen(&self) -> Option<&Xen> {
        match &self.boots {
            Boots::Kernel { xen, .. } => xen.as_ref(),
            Boots::Disk(_) => None,
        }
    }

    /// Returns the named CPU model, or else the one with all that the accelerator can give: under
    /// TCG that holds SVM, so that KVM runs inside.
    pub(super) fn cpu_model(&self) -> &str {
        self.accelerator.cpu_model(self.cpu.as_deref())
    }

    /// A panic or a restart of the guest ends QEMU at once, by a triple fault if nothing else
    /// works.
    ///
    /// What is left out of the kernel's own start is its self-test of ciphers, 0.2 s of TCG, and a
    /// test of the timer's interrupt that counts in the machine's time: where this machine is busy,
    /// a guest's kernel finds no timer, and dies of it.
    pub(super) fn kernel_command_line(&self) -> String {
        // The serial port is Xen's, and Dom0's first console goes there; its clock is Xen's, too.
        if self.xen().is_some() {
            return String::from("console=hvc0 quiet panic=-1 cryptomgr.notests");
        }
        let mut words =
            String::from("console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests no_timer_check");
        if let Some(khz) = self.tsc_khz {
            words += &format!(" tsc_early_khz={khz} tsc=reliable");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::qemu::PROGRAM;

    fn machine() -> Machine {
        Machine {
            program: PROGRAM.to_owned(),
            accelerator: Accelerator::Tcg,
            board: Board::Q35,
            cpus: 2,
            cpu: None,
            pinned: Vec::new(),
            memory: Memory::plain(2048, true),
            overcommit: Overcommit::default(),
            firmware: Firmware::Seabios,
            boots: Boots::Kernel {
                image: "/cache/vmlinux".into(),
                initramfs: "/room/initramfs".into(),
                xen: None,
            },
            tsc_khz: Some(2_596_124),
            icount: None,
            files: Some(Share::Virtiofs(vec![("host", "/room/files-host.sock".into())])),
            disk: None,
            nic: None,
        }
    }

    #[track_caller]
    fn assert_lines(machine: &Machine, expected: &str) {
        let text = machine.command_line().join(" ").replace(" -", "\n-");
        assert_eq!(text, expected.trim(), "\n{text}");
    }

    #[test]
    fn q35_under_tcg_is_told_the_host_s_time_stamp_counter() {
        assert_lines(
            &machine(),
            "
qemu-system-x86_64
-name surtax,debug-threads=on
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel tcg
-machine q35,memory-backend=memory,mem-merge=off
-bios bios-256k.bin
-cpu max
-smp 2
-m 2048M
-object memory-backend-memfd,id=memory,size=2048M,share=on,prealloc=off,merge=off
-overcommit mem-lock=off,cpu-pm=off
-kernel /cache/vmlinux
-initrd /room/initramfs
-append console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests no_timer_check \
tsc_early_khz=2596124 tsc=reliable
-chardev stdio,id=console,signal=off
-serial chardev:console
-chardev socket,id=qmp,fd=4
-mon chardev=qmp,mode=control
-device virtio-serial-pci
-chardev socket,id=agent,fd=3
-device virtserialport,chardev=agent,name=surtax
-chardev socket,id=host,path=/room/files-host.sock
-device vhost-user-fs-pci,chardev=host,tag=host
-display none
-nodefaults
-no-user-config
-no-reboot
",
        );
    }

    #[test]
    fn microvm_under_kvm_has_no_pci_and_keeps_its_own_clock() {
        let machine = Machine {
            accelerator: Accelerator::Kvm,
            board: Board::Microvm,
            tsc_khz: None,
            ..machine()
        };
        assert_lines(
            &machine,
            "
qemu-system-x86_64
-name surtax,debug-threads=on
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel kvm
-machine microvm,memory-backend=memory,mem-merge=off
-bios bios-microvm.bin
-global virtio-mmio.force-legacy=false
-cpu host
-smp 2
-m 2048M
-object memory-backend-memfd,id=memory,size=2048M,share=on,prealloc=off,merge=off
-overcommit mem-lock=off,cpu-pm=off
-kernel /cache/vmlinux
-initrd /room/initramfs
-append console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests no_timer_check
-chardev stdio,id=console,signal=off
-serial chardev:console
-chardev socket,id=qmp,fd=4
-mon chardev=qmp,mode=control
-device virtio-serial-device
-chardev socket,id=agent,fd=3
-device virtserialport,chardev=agent,name=surtax
-chardev socket,id=host,path=/room/files-host.sock
-device vhost-user-fs-device,chardev=host,tag=host
-display none
-nodefaults
-no-user-config
-no-reboot
",
        );
    }

    #[test]
    fn xen_is_the_kernel_and_dom0_s_kernel_is_its_first_module() {
        let xen = Xen {
            image: "/cache/xen/4.17.7/boot/xen".into(),
            tools: "/cache/xen/4.17.7".into(),
            version: "4.17.7".into(),
            dom0: xen::Dom0 { mib: 1024 },
        };
        let boots = Boots::Kernel {
            image: "/cache/vm,linux".into(),
            initramfs: "/room/initramfs".into(),
            xen: Some(xen),
        };
        let text = Machine { boots, ..machine() }.command_line().join(" ").replace(" -", "\n-");
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "-cpu max,-smap,-xsave",
            "-kernel /cache/xen/4.17.7/boot/xen",
            "-append dom0_mem=1024M,max:1024M console=com1 com1=115200,8n1 loglvl=warning \
             guest_loglvl=warning",
            "-initrd /cache/vm,,linux console=hvc0 quiet panic=-1 \
             cryptomgr.notests,/room/initramfs",
        ] {
            let joined = line.replace(" -", "\n-");
            assert!(text.contains(&joined), "{lines:#?}");
        }
    }

    #[test]
    fn a_board_and_a_cpu_are_the_ones_that_were_named() {
        let cpu = Some(String::from("EPYC-v1"));
        let line = Machine { board: Board::Pc, cpu, ..machine() }.command_line().join(" ");
        assert!(
            line.contains(
                " -machine pc,memory-backend=memory,mem-merge=off -bios bios-256k.bin -cpu EPYC-v1 "
            ),
            "{line}"
        );
        assert!(line.contains(" -device virtio-serial-pci "), "{line}");
    }

    #[test]
    fn a_clock_of_instructions_is_asked_for_by_name() {
        let machine = Machine { icount: Some(2), ..machine() };
        let line = machine.command_line().join(" ");
        assert!(line.contains(" -accel tcg -icount shift=2 "), "{line}");
    }

    #[test]
    fn a_reference_guest_has_no_files() {
        let machine = Machine { files: None, ..machine() };
        let argv = machine.command_line();
        assert!(!argv.iter().any(|word| word.contains("vhost-user")), "{argv:?}");
    }

    #[test]
    fn exactly_one_accelerator_is_asked_for() {
        for accelerator in [Accelerator::Kvm, Accelerator::Tcg] {
            let argv = Machine { accelerator, ..machine() }.command_line();
            let asked: Vec<&String> = argv.iter().filter(|word| *word == "-accel").collect();
            assert_eq!(asked.len(), 1);
            assert!(!argv.iter().any(|word| word.contains("accel=") || word.contains("kvm:tcg")));
        }
    }

    #[test]
    fn a_comma_in_a_path_does_not_start_an_option() {
        let files = Some(Share::Virtiofs(vec![("host", "/room/a,b.sock".into())]));
        let argv = Machine { files, ..machine() }.command_line();
        assert!(argv.contains(&"socket,id=host,path=/room/a,,b.sock".to_owned()), "{argv:?}");
    }
}
