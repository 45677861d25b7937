//! Firmware, and how it enters the kernel.
//!
//! Every machine of QEMU's has firmware, also where QEMU is given the kernel's file: an option ROM
//! then stands in for the boot disk. It enters an ELF kernel by its PVH note (`pvh.bin`), or a
//! bzImage by Linux' own boot protocol (`linuxboot_dma.bin`), whose kernel unpacks itself. What the
//! guest's kernel was handed tells the two apart: the version of its boot parameters is 2.12 after
//! PVH (Linux `arch/x86/platform/pvh/enlighten.c`), 2.15 or what the kernel's own is after the
//! other, and none where UEFI started the bzImage as a program.

use crate::fault::Fault;
use crate::guest::kernel::Entry;
use crate::lab::{Room, ToolRun};
use crate::layer::{LayerSpec, OptionSpec, option, value_of};
use crate::vm::board::Board;
use crate::vm::qmp::Qmp;
use std::path::Path;
use surtax_instrument::wire::Fact;

/// The version of the boot parameters that Linux says it has when it was entered by PVH.
const PVH_PROTOCOL: &str = "0x020c";

/// The options.
pub(super) const FIRMWARE: OptionSpec = option("firmware", &["seabios", "qboot", "ovmf"])
    .help("the firmware, of which `ovmf` is UEFI (default: seabios)");
pub(super) const ENTRY: OptionSpec = option("entry", &["pvh", "bzimage"]).help(
    "how the firmware enters the kernel: the unpacked one directly, or the packed one as a boot \
     loader would (default: pvh where the kernel has it; bzimage with `firmware=ovmf`)",
);

/// A firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Firmware {
    /// The BIOS that QEMU takes unless told.
    Seabios,
    /// A minimal one that only starts a Linux kernel.
    Qboot,
    /// UEFI, of the EDK II project.
    Ovmf,
}

/// Reads the options; the entry only if one is asked for or needed.
///
/// # Errors
/// The user's: a combination that does not boot.
pub(super) fn read(spec: &LayerSpec, board: Board) -> Result<(Firmware, Option<Entry>), Fault> {
    let firmware = match spec.option("firmware") {
        Some("qboot") => Firmware::Qboot,
        Some("ovmf") => Firmware::Ovmf,
        _ => Firmware::Seabios,
    };
    let entry = match spec.option("entry") {
        Some("pvh") => Some(Entry::Pvh),
        Some("bzimage") => Some(Entry::BzImage),
        _ => (firmware == Firmware::Ovmf).then_some(Entry::BzImage),
    };
    if firmware == Firmware::Ovmf && entry == Some(Entry::Pvh) {
        return Err(Fault::user("`firmware=ovmf` starts a kernel as a program of UEFI's")
            .hint("use `entry=bzimage`, or `firmware=seabios`"));
    }
    if firmware == Firmware::Ovmf && board == Board::Microvm {
        return Err(Fault::user("`firmware=ovmf` knows no microvm")
            .hint("use `machine=q35`, or `firmware=qboot`"));
    }
    Ok((firmware, entry))
}

impl Firmware {
    /// The file that QEMU is told to take as its firmware.
    pub(super) fn file(self, board: Board) -> &'static str {
        match (self, board) {
            (Self::Seabios, Board::Microvm) => "bios-microvm.bin",
            (Self::Seabios, Board::Q35 | Board::Pc) => "bios-256k.bin",
            (Self::Qboot, _) => "qboot.rom",
            (Self::Ovmf, _) => "OVMF.fd",
        }
    }

    /// That the file is where this QEMU looks for it; without its own BIOS it would not be
    /// installed.
    ///
    /// # Errors
    /// The machine's: it is nowhere.
    pub(super) fn require(self, board: Board, program: &Path, room: &Room) -> Result<(), Fault> {
        if self == Self::Seabios {
            return Ok(());
        }
        let file = self.file(board);
        let program = program.display().to_string();
        let places = ToolRun::new(&[&*program, "-L", "help"]).text(room)?;
        if places.lines().any(|place| Path::new(place.trim()).join(file).is_file()) {
            return Ok(());
        }
        let package = if self == Self::Ovmf { "ovmf" } else { "qemu-system-data" };
        Err(Fault::machine(format!("qemu: the firmware `{file}` is not where QEMU looks for it"))
            .hint(format!("apt-get install {package}")))
    }

    /// Returns the vendor of the firmware as the guest reads it; `None` where no table says it.
    fn vendor(self, board: Board) -> Option<&'static str> {
        match (self, board) {
            (Self::Seabios, Board::Q35 | Board::Pc) => Some("SeaBIOS"),
            (Self::Qboot, Board::Q35 | Board::Pc) => Some("qboot"),
            (Self::Ovmf, _) => Some("UEFI"),
            (_, Board::Microvm) => None,
        }
    }

    /// The firmware as QEMU has it and as the guest sees it, and how that entered the kernel, if
    /// QEMU was given one.
    ///
    /// # Errors
    /// One of them is not what was asked for.
    pub(super) fn prove(
        self,
        entry: Option<Entry>,
        board: Board,
        qmp: &mut Qmp,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let (asked, told) = (self.file(board), qmp.firmware()?);
        if asked != told {
            return Err(Fault::machine(format!(
                "qemu: the firmware was to be `{asked}`, and QMP says `{told}`"
            )));
        }
        let seen = value_of(inside, "firmware").unwrap_or_default();
        let is_seen = self.vendor(board).is_none_or(|vendor| seen.starts_with(vendor));
        if !is_seen || seen.starts_with("UEFI") != (self == Self::Ovmf) {
            return Err(Fault::machine(format!(
                "qemu: the firmware is `{asked}`, and the guest was started by `{seen}`"
            )));
        }
        let source = "qom-get /machine firmware, and the firmware's table inside";
        let mut facts = vec![Fact::new("firmware", told, source)];
        let Some(entry) = entry else { return Ok(facts) };
        let protocol = value_of(inside, "boot_protocol")?;
        if (protocol == PVH_PROTOCOL) != (entry == Entry::Pvh) {
            return Err(Fault::machine(format!(
                "qemu: the kernel was to be entered by {}, and has boot parameters {protocol}",
                entry.name()
            )));
        }
        let source = "the kernel's file, and /sys/kernel/boot_params/version inside";
        facts.push(Fact::new("kernel_entry", entry.name(), source));
        Ok(facts)
    }
}
