//! A disk of the machine for the scratch directory: controller, format of its file, and how QEMU
//! reads and writes that.
//!
//! The file lies on this level's disk, holds an empty ext4, and is made anew for every start.
//! Nothing of it is left to QEMU's defaults, and all of it is read back: format and cache from
//! QEMU, the way of input and output from what its process holds open, the controller from the
//! guest's own drivers.

use super::board::Board;
use super::claims::as_asked;
use super::qmp::{BlockDevice, Inserted, Qmp};
use crate::fault::{Doing, Fault};
use crate::lab::{Jail, Room, ToolRun};
use crate::layer::{LayerSpec, OptionSpec, medium, option, value_of};
use crate::rootfs::scratch;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Fact;

/// Default size of a disk, in bytes.
const SIZE: Bytes = Bytes(1 << 30);

/// The least that holds an ext4 with its journal.
const SIZE_LEAST: Bytes = Bytes(16 << 20);

/// The file of a raw disk, and that below another.
const BACKING: &str = "disk.raw";

/// QEMU's name for the disk's thread, where it has one of its own.
pub(crate) const IOTHREAD_ID: &str = "iothread";

/// QEMU's name for the disk, and its serial number.
pub(crate) const DRIVE: &str = "scratch";

/// The media of a machine.
pub(crate) const MEDIA: OptionSpec =
    medium::choice(&["layer", "bind", "tmpfs", "virtio-blk", "virtio-scsi", "ide", "nvme"]);

/// The options of a disk.
pub(crate) const FORMAT: OptionSpec = option("format", &["raw", "qcow2", "qcow2-backed"]).help(
    "the format of the scratch disk's file; `qcow2-backed` begins as a copy of another (default: \
     raw)",
);
pub(crate) const CACHE: OptionSpec =
    option("cache", &["none", "writeback", "writethrough", "directsync", "unsafe"])
        .help("how QEMU caches the scratch disk (default: none)");
pub(crate) const AIO: OptionSpec = option("aio", &["threads", "native", "io_uring"])
    .help("how QEMU reads and writes the scratch disk's file (default: threads)");
pub(crate) const DISK_SIZE: OptionSpec =
    option("disk-size", &[]).help("how large the scratch disk is (default: 1G)");

/// Controller that the guest sees of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    VirtioBlk,
    VirtioScsi,
    Ide,
    Nvme,
    /// Xen's own, which the QEMU of a domain serves.
    Blkfront,
}

/// Words of a monitor's disk where a spec names none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskDefaults {
    /// Medium that is advised where a disk is needed.
    pub(crate) medium: &'static str,
    /// Cache mode.
    pub(crate) cache: &'static str,
    /// Way to read and write.
    pub(crate) aio: &'static str,
}

impl DiskDefaults {
    /// Those of a machine of QEMU's.
    pub(crate) const QEMU: Self = Self { medium: "virtio-blk", cache: "none", aio: "threads" };
}

/// A disk, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    controller: Controller,
    format: String,
    cache: String,
    aio: String,
    size: Bytes,
    /// It has a thread of its own in QEMU.
    pub(crate) iothread: bool,
}

/// The files of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Disk that was asked for.
    pub(crate) disk: Disk,
    /// The file that QEMU opens.
    pub(crate) file: PathBuf,
}

impl Controller {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "virtio-blk" => Self::VirtioBlk,
            "virtio-scsi" => Self::VirtioScsi,
            "ide" => Self::Ide,
            "nvme" => Self::Nvme,
            "blkfront" => Self::Blkfront,
            _ => return None,
        })
    }

    /// The devices after `-device`, the controller first.
    fn devices(self, bus: &str, iothread: bool) -> Vec<String> {
        let drive = format!("drive={DRIVE},serial={DRIVE}");
        let thread = if iothread { format!(",iothread={IOTHREAD_ID}") } else { String::new() };
        match self {
            Self::VirtioBlk => vec![format!("virtio-blk-{bus},{drive}{thread}")],
            Self::VirtioScsi => vec![
                format!("virtio-scsi-{bus},id=scsi{thread}"),
                format!("scsi-hd,bus=scsi.0,{drive}"),
            ],
            Self::Ide => vec![format!("ide-hd,bus=ide.0,{drive}")],
            Self::Nvme => vec![format!("nvme,{drive}")],
            // Made by Xen's tools, and of no command line of ours.
            Self::Blkfront => Vec::new(),
        }
    }

    /// The guest's drivers, those that it loads.
    fn modules(self, board: Board) -> &'static [&'static str] {
        match (self, board) {
            (Self::VirtioBlk, _) => &["virtio_blk"],
            (Self::VirtioScsi, _) => &["virtio_scsi", "sd_mod"],
            (Self::Ide, Board::Pc) => &["ata_piix", "sd_mod"],
            (Self::Ide, _) => &["ahci", "sd_mod"],
            (Self::Nvme, _) => &["nvme"],
            (Self::Blkfront, _) => &["xen_blkfront"],
        }
    }

    /// The driver that the guest names for it.
    fn driver(self, board: Board) -> &'static str {
        match self {
            Self::Blkfront => "vbd",
            _ => self.modules(board)[0],
        }
    }
}

impl Disk {
    /// The disk that a spec asks for, if it asks for one.
    ///
    /// # Errors
    /// The user's: options of a disk without one, or ones that contradict each other.
    pub(crate) fn read(
        spec: &LayerSpec,
        board: Board,
        usual: DiskDefaults,
    ) -> Result<Option<Self>, Fault> {
        let Some(controller) = spec.option(medium::KEY).and_then(Controller::of) else {
            let own = ["format", "cache", "aio", "disk-size", "iothread"];
            return match own.into_iter().find(|key| spec.option(key).is_some()) {
                None => Ok(None),
                Some(key) => Err(Fault::user(format!(
                    "`{key}=` is of a scratch disk, and the machine has none"
                ))
                .hint(format!("name one, such as `scratch={}`", usual.medium))),
            };
        };
        if board == Board::Microvm && matches!(controller, Controller::Ide | Controller::Nvme) {
            let word = spec.option(medium::KEY).unwrap_or_default();
            return Err(Fault::user(format!("a microvm has no PCI for `scratch={word}`"))
                .hint("use `machine=q35` or `machine=pc`, or `scratch=virtio-blk`"));
        }
        let word = |key: &str, default: &str| spec.option(key).unwrap_or(default).to_owned();
        let cache = word("cache", usual.cache);
        // The QEMU of a domain has one way for each, and is not told of another.
        let default_aio = match (controller, cache.as_str()) {
            (Controller::Blkfront, "none") => "native",
            _ => usual.aio,
        };
        let disk = Self {
            controller,
            format: word("format", "raw"),
            aio: word("aio", default_aio),
            cache,
            size: spec.option("disk-size").map_or(Ok(SIZE), size)?,
            iothread: spec.says("iothread", "on"),
        };
        if disk.iothread && !matches!(controller, Controller::VirtioBlk | Controller::VirtioScsi) {
            let word = spec.option(medium::KEY).unwrap_or_default();
            return Err(Fault::user(format!(
                "a disk by `scratch={word}` has no thread of its own"
            ))
            .hint("use `scratch=virtio-blk` or `scratch=virtio-scsi`, or drop `iothread=on`"));
        }
        if disk.aio == "native" && !disk.is_direct() {
            let cache = &disk.cache;
            return Err(Fault::user(format!(
                "`aio=native` goes past this level's page cache, and `cache={cache}` through it"
            ))
            .hint("use `cache=none` or `cache=directsync`, or `aio=threads` or `aio=io_uring`"));
        }
        Ok(Some(disk))
    }

    /// Returns how it is cached, and how it is read and written, in the words of the options.
    pub(crate) fn mode(&self) -> (&str, &str) {
        (&self.cache, &self.aio)
    }

    /// Tells whether the disk's input and output bypass this level's page cache.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.cache.as_str(), "none" | "directsync")
    }

    /// Tells whether a kernel for clouds, where there is no such controller, lacks a driver for it.
    pub(crate) fn is_of_no_cloud(&self, board: Board) -> bool {
        self.controller.driver(board) == "ahci"
    }

    /// The format of the file that QEMU opens.
    pub(crate) fn file_format(&self) -> &'static str {
        if self.format == "raw" { "raw" } else { "qcow2" }
    }

    /// Modules of the guest's kernel that it needs.
    pub(crate) fn modules(&self, board: Board) -> Vec<&'static str> {
        // ext4 asks for the checksum by its name, and in a kernel that has it as a module is
        // refused without.
        self.controller.modules(board).iter().copied().chain(["ext4", "crc32c_generic"]).collect()
    }

    /// Makes its file, with an empty file system.
    ///
    /// # Errors
    /// The machine's: there is no room for it, or a tool is not there or fails.
    pub(crate) fn make(self, room: &Room) -> Result<Made, Fault> {
        let place = scratch::directory(room)?;
        let raw = place.join(BACKING);
        let text = |path: &Path| path.display().to_string();
        File::create(&raw)
            .and_then(|file| file.set_len(self.size.0))
            .doing(format_args!("make the disk `{}`", raw.display()))?;
        ToolRun::new(&["mke2fs", "-q", "-F", "-t", "ext4", &text(&raw)])
            .run(room)
            .map_err(|fault| fault.hint("apt-get install e2fsprogs"))?;
        if self.format == "raw" {
            return Ok(Made { disk: self, file: raw });
        }
        let file = place.join("disk.qcow2");
        let (from, to) = (text(&raw), text(&file));
        let argv: &[&str] = if self.format == "qcow2" {
            &["qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", &from, &to]
        } else {
            // By its name alone: QEMU finds both in one directory, wherever it sees that.
            &["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", BACKING, &to]
        };
        let made = ToolRun::new(argv).run(room);
        made.map_err(|fault| fault.hint("apt-get install qemu-utils"))?;
        if self.format == "qcow2" {
            fs::remove_file(&raw).doing(format_args!("remove `{}`", raw.display()))?;
        }
        Ok(Made { disk: self, file })
    }
}

impl Made {
    /// The same disk where a program in a jail sees it.
    ///
    /// # Errors
    /// The machine's: a file cannot be given away.
    pub(crate) fn within(self, jail: &mut Jail) -> Result<Self, Fault> {
        let name =
            |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.disk.format == "qcow2-backed" {
            jail.lend(BACKING, &self.file.with_file_name(BACKING))?;
        }
        let file = jail.lend(&name(&self.file), &self.file)?;
        Ok(Self { file, ..self })
    }

    /// The options of QEMU's command line; `bus` ends the names of the board's virtio devices.
    pub(crate) fn arguments(&self, bus: &str) -> Vec<[String; 2]> {
        let Disk { controller, cache, aio, iothread, .. } = &self.disk;
        let format = self.disk.file_format();
        let file = self.file.display().to_string().replace(',', ",,");
        let drive = format!(
            "file={file},if=none,id={DRIVE},format={format},cache={cache},aio={aio},discard=unmap"
        );
        let devices = controller.devices(bus, *iothread);
        let devices = devices.into_iter().map(|it| [String::from("-device"), it]);
        let thread =
            iothread.then(|| [String::from("-object"), format!("iothread,id={IOTHREAD_ID}")]);
        let drive = [String::from("-drive"), drive];
        thread.into_iter().chain([drive]).chain(devices).collect()
    }

    /// Format and cache as QEMU has them, the way of input and output as its process shows it, the
    /// controller as the guest's drivers name it.
    ///
    /// # Errors
    /// One of them is not what was asked for.
    pub(crate) fn prove(
        &self,
        qmp: &mut Qmp,
        pid: u32,
        board: Board,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let blocks = qmp.block_devices()?;
        // The QEMU of a domain has no other, and gives it no name.
        let is_ours = |block: &&BlockDevice| match self.disk.controller {
            Controller::Blkfront => block.inserted.is_some(),
            _ => block.device == DRIVE,
        };
        let found = blocks.iter().find(is_ours).and_then(|block| block.inserted.as_ref());
        let block = found.ok_or_else(|| Fault::machine("QMP lists no scratch disk"))?;
        let (format, cache) = (format_of(block), cache_of(block));
        let aio = aio_of(pid)?;
        let drivers = value_of(inside, "scratch_drivers")?;
        let driver = self.disk.controller.driver(board);
        let is_there = drivers.split(' ').any(|name| name.replace('-', "_") == driver);
        let claims = [
            ("format", self.disk.format.as_str(), format),
            ("cache", &self.disk.cache, cache),
            ("aio", &self.disk.aio, aio),
            ("controller", driver, if is_there { driver } else { drivers }),
        ];
        as_asked("the scratch disk", claims)?;
        Ok(vec![
            Fact::new("disk_format", format, "query-block"),
            Fact::new("disk_cache", cache, "query-block"),
            Fact::new("disk_aio", aio, "/proc/PID/fd and /proc/PID/maps of QEMU"),
            Fact::new("disk_controller", driver, "drivers in /sys inside"),
            Fact::new("disk_bytes", block.image.virtual_size.to_string(), "query-block"),
        ])
    }
}

fn size(text: &str) -> Result<Bytes, Fault> {
    let bytes = Bytes::parse(text).map_err(Fault::user)?;
    if bytes < SIZE_LEAST {
        return Err(Fault::user(format!("a disk of `{text}` holds no file system"))
            .hint("use `disk-size=16M` or more"));
    }
    Ok(bytes)
}

fn format_of(disk: &Inserted) -> &'static str {
    match (disk.drv.as_str(), disk.backing_file.is_some()) {
        ("raw", _) => "raw",
        ("qcow2", false) => "qcow2",
        ("qcow2", true) => "qcow2-backed",
        _ => "unknown",
    }
}

/// Source: `qemu-options.hx`, the table under `cache=`. Whether writes of the guest are written
/// through is the device's, and not told here where the guest may choose.
fn cache_of(disk: &Inserted) -> &'static str {
    let cache = disk.cache;
    match (cache.writeback, cache.direct, cache.no_flush) {
        (true, false, true) => "unsafe",
        (true, true, false) => "none",
        (true, false, false) => "writeback",
        (false, false, false) => "writethrough",
        (false, true, false) => "directsync",
        _ => "unknown",
    }
}

/// Returns the way in which a QEMU does its input and output: each leaves its own trace in the
/// process.
fn aio_of(pid: u32) -> Result<&'static str, Fault> {
    let fds = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = fs::read_dir(&fds).doing(format_args!("list `{}`", fds.display()))?;
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).doing("read QEMU's memory map")?;
    let has_ring = |name: &str| maps.lines().any(|line| line.contains(name));
    let rings = links.filter(|link| link.to_string_lossy().contains("[io_uring]")).count();
    Ok(match (has_ring("/[aio]"), rings > 0) {
        (true, _) => "native",
        (false, true) => "io_uring",
        (false, false) => "threads",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(options: &[(&str, &str)], board: Board) -> Result<Option<Disk>, Fault> {
        Disk::read(&LayerSpec::of("qemu", options), board, DiskDefaults::QEMU)
    }

    #[test]
    fn what_is_not_said_of_a_disk_is_said_to_qemu_nevertheless() {
        let disk = disk(&[("scratch", "virtio-scsi")], Board::Q35).unwrap().unwrap();
        let made = Made { disk, file: "/room/disk,raw".into() };
        let words: Vec<String> = made.arguments("pci").concat();
        assert_eq!(
            words,
            [
                "-drive",
                "file=/room/disk,,raw,if=none,id=scratch,format=raw,cache=none,aio=threads,discard=unmap",
                "-device",
                "virtio-scsi-pci,id=scsi",
                "-device",
                "scsi-hd,bus=scsi.0,drive=scratch,serial=scratch"
            ]
        );
    }

    #[test]
    fn a_thread_for_the_disk_is_given_to_its_controller() {
        let options = [("scratch", "virtio-scsi"), ("iothread", "on")];
        let disk = disk(&options, Board::Q35).unwrap().unwrap();
        let line = Made { disk, file: "/disk".into() }.arguments("pci").concat().join(" ");
        assert!(line.starts_with("-object iothread,id=iothread -drive "), "{line}");
        assert!(line.contains(" -device virtio-scsi-pci,id=scsi,iothread=iothread "), "{line}");
    }

    #[test]
    fn a_disk_that_cannot_be_is_refused_with_what_can() {
        let refused = |options: &[(&str, &str)], board| disk(options, board).unwrap_err();
        let fault = refused(&[("cache", "none")], Board::Q35);
        assert!(fault.message.contains("the machine has none"), "{fault}");
        let fault = refused(&[("scratch", "nvme")], Board::Microvm);
        assert!(fault.message.contains("has no PCI"), "{fault}");
        let options = [("scratch", "ide"), ("aio", "native"), ("cache", "unsafe")];
        let fault = refused(&options, Board::Pc);
        assert!(fault.message.contains("`cache=unsafe` through it"), "{fault}");
        let fault = refused(&[("scratch", "ide"), ("iothread", "on")], Board::Pc);
        assert!(fault.message.contains("has no thread of its own"), "{fault}");
        let fault = refused(&[("scratch", "ide"), ("disk-size", "1M")], Board::Pc);
        assert!(fault.message.contains("holds no file system"), "{fault}");
        assert_eq!(disk(&[("scratch", "bind")], Board::Q35), Ok(None));
    }

    #[test]
    fn every_cache_mode_is_told_from_the_others() {
        let mut seen = Vec::new();
        for (writeback, direct, no_flush) in [
            (true, true, false),
            (true, false, false),
            (false, false, false),
            (false, true, false),
            (true, false, true),
        ] {
            let block = serde_json::from_value(serde_json::json!({
                "drv": "raw",
                "backing_file_depth": 0,
                "image": {"virtual-size": 1},
                "cache": {"writeback": writeback, "direct": direct, "no-flush": no_flush},
            }));
            seen.push(cache_of(&block.unwrap()));
        }
        assert_eq!(seen, CACHE.values);
    }
}
