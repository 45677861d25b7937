//! Request of a spec: the options and the limits of a `qemu` layer, read and completed.

use super::disk::Disk;
use super::firmware::{self, Firmware};
use super::memory::Memory;
use super::nic::Nic;
use super::partition::{self, Overcommit};
use super::vcpu::Pin;
use super::xen::{self, Dom0, Xen};
use super::{image, share};
use crate::driver::qemu::accelerator::Accelerator;
use crate::driver::qemu::board::Board;
use crate::fault::{Doing, Fault};
use crate::guest::GuestSpec;
use crate::guest::channel::Channel;
use crate::guest::kernel::{Entry, Flavor, Need};
use crate::guest::memory::LEAST_MIB;
use crate::guest::share::Protocol;
use crate::lab::Limits;
use crate::layer::{LayerSpec, Root, medium};
use std::net::Ipv4Addr;
use surtax_instrument::quantity::Bytes;

/// The most memory that a guest has unless told.
const MEMORY_DEFAULT_MIB: u64 = 2048;

/// Options that a spec asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QemuOptions {
    /// The accelerator, if one was named.
    pub(super) accelerator: Option<Accelerator>,
    /// The board.
    pub(super) board: Board,
    /// The kernel's file, if one was named.
    pub(super) kernel: Option<String>,
    /// Virtual CPUs: as many as were named, else one for each CPU that it may run on.
    pub(super) cpus: u32,
    /// The CPU model, if one was named.
    pub(super) cpu: Option<String>,
    /// The CPUs of this level that they are kept on, in their order; none if they are not.
    pub(super) pinned: Vec<u32>,
    /// Memory.
    pub(super) memory: Memory,
    /// Resources that QEMU may not take from the guest.
    pub(super) overcommit: Overcommit,
    /// The firmware.
    pub(super) firmware: Firmware,
    /// Way in which the firmware enters the kernel, if one was named.
    pub(super) entry: Option<Entry>,
    /// Protocol by which files come to the guest.
    pub(super) files: Protocol,
    /// CPUs of this level on which QEMU and virtiofsd may run.
    pub(super) cpuset: Option<Vec<u32>>,
    /// The disk of the scratch directory, if that is on one.
    pub(super) disk: Option<Disk>,
    /// The network device, if it has one.
    pub(super) nic: Option<Nic>,
    /// Guest time by instructions: two to this power in nanoseconds each.
    pub(super) icount: Option<u8>,
    /// Dom0's part, where Xen runs under the guest.
    pub(super) dom0: Option<Dom0>,
}

impl QemuOptions {
    /// Reads a spec; what it does not say comes from the level.
    ///
    /// # Errors
    /// The user's: half a virtual CPU, a limit on processes, too little memory, or what a part
    /// refuses.
    pub(in crate::driver) fn read(spec: &LayerSpec, limits: &Limits) -> Result<Self, Fault> {
        Self::read_unnamed(spec, limits).map_err(|fault| fault.during(&spec.kind))
    }

    fn read_unnamed(spec: &LayerSpec, limits: &Limits) -> Result<Self, Fault> {
        let spec = &partition::expanded(spec)?;
        image::refuse(spec)?;
        if limits.pids.is_some() {
            return Err(Fault::user("a machine has no limit on processes")
                .hint("put `pids=` on a layer inside it, as in `qemu+runc:pids=100`"));
        }
        let memory_mib = match limits.memory {
            Some(asked) => enough_memory(asked)?,
            None => MEMORY_DEFAULT_MIB.min(level_memory_mib()? / 2),
        };
        let icount = spec.option("icount").and_then(|shift| shift.parse().ok());
        let accelerator = match spec.option("accel") {
            Some("kvm") if icount.is_some() => {
                return Err(Fault::user("`icount=` counts the instructions that TCG translates")
                    .hint("drop `accel=kvm`, or `icount=`"));
            }
            Some("kvm") => Some(Accelerator::Kvm),
            Some("tcg") => Some(Accelerator::Tcg),
            _ => icount.map(|_| Accelerator::Tcg),
        };
        let board = Board::of(spec.option("machine"));
        let pin = Pin::read(spec)?;
        let cpus = cpus(&spec.kind, limits, icount.is_some(), pin.as_ref())?;
        let files = share::read(spec);
        if spec.root()? == Root::Packed {
            refuse_files(spec)?;
        }
        let (firmware, entry) = firmware::read(spec, board)?;
        let dom0 = Dom0::read(spec, memory_mib)?;
        Ok(Self {
            dom0,
            accelerator,
            icount,
            board,
            disk: Disk::read(spec, board)?,
            nic: Nic::read(spec, board, cpus)?,
            kernel: spec.option("kernel").map(String::from),
            cpu: spec.option("cpu").map(cpu_model).transpose()?,
            cpus,
            pinned: pin.map_or(Ok(Vec::new()), |pin| pin.resolve(cpus, limits))?,
            memory: Memory {
                dom0_mib: dom0.map(|dom0| dom0.mib),
                ..Memory::read(spec, memory_mib, files)?
            },
            overcommit: Overcommit::read(spec)?,
            firmware,
            entry,
            files,
            cpuset: limits.cpuset.clone(),
        })
    }

    /// Modules of the guest's kernel that its devices need.
    fn drivers(&self) -> Vec<&'static str> {
        let disk = self.disk.as_ref().map(|disk| disk.modules(self.board));
        let nic = self.nic.as_ref().map(Nic::modules);
        let balloon = self.memory.balloon_mib.map(|_| "virtio_balloon");
        let xen = self.dom0.iter().flat_map(|_| xen::MODULES);
        disk.into_iter().chain(nic).flatten().chain(balloon).chain(xen).collect()
    }

    /// Returns the guest's address with the length of its network, and the way out; `None` without
    /// a network device.
    pub(super) fn addresses(&self) -> Option<(String, Ipv4Addr)> {
        self.nic.as_ref().map(Nic::addresses)
    }

    /// Returns what is to be in the guest; Dom0 has the tools of this Xen.
    pub(super) fn guest(&self, xen: Option<&Xen>) -> GuestSpec {
        GuestSpec {
            channel: Channel::Port,
            transport: self.board.transport(),
            files: self.files,
            first_root: None,
            memory_mib: self.memory.mib,
            modules: self.drivers(),
            network: self.addresses(),
            balloon_pages: self.memory.balloon_pages(),
            dom0: xen.map(Xen::files),
        }
    }

    /// Returns what a guest with these options needs of its kernel.
    pub(super) fn need(&self) -> Need<'_> {
        self.need_of(&self.guest(None))
    }

    /// The same for a guest that differs from it.
    pub(super) fn need_of(&self, guest: &GuestSpec) -> Need<'_> {
        let is_old = self.nic.as_ref().is_some_and(|nic| !nic.is_virtio())
            || self.disk.as_ref().is_some_and(|disk| disk.is_of_no_cloud(self.board));
        let xen = if self.dom0.is_some() { &xen::MODULES[..] } else { &[] };
        let channel: Vec<_> = guest.channel.module().into_iter().collect();
        Need {
            named: self.kernel.as_deref(),
            // The one for clouds has no drivers of devices that clouds do not have, speaks no 9p,
            // and is no Dom0.
            flavor: match guest.files {
                Protocol::Virtiofs if !is_old && self.dom0.is_none() => Flavor::Cloud,
                _ => Flavor::Full,
            },
            modules: [guest.files.modules(), &guest.modules, &channel, xen].concat(),
            // Xen enters an ELF kernel by its notes, and would unpack another in the guest.
            entry: self.entry.or(self.dom0.map(|_| Entry::Pvh)),
        }
    }
}

/// As many as were named, or as there are CPUs in a list to pin them to, or that it may run on.
fn cpus(kind: &str, limits: &Limits, is_counted: bool, pin: Option<&Pin>) -> Result<u32, Fault> {
    let listed = pin.and_then(Pin::len);
    Ok(match limits.cpu_millis {
        Some(millis) if millis > 1000 && is_counted => {
            return Err(Fault::user("with `icount=` a machine has one CPU")
                .hint("write `cpus=1`, or drop `icount=`"));
        }
        Some(millis) => whole_cpus(millis, kind)?,
        // With more, the guest's kernel waits for ever for the second one.
        None if is_counted => 1,
        None => match (listed, &limits.cpuset) {
            (Some(listed), _) => count(listed),
            (None, Some(cpuset)) => count(cpuset.len()),
            (None, None) => level_cpus(),
        },
    })
}

/// Refuses what would bring files of this level into a guest that has none of them.
fn refuse_files(spec: &LayerSpec) -> Result<(), Fault> {
    if spec.options.contains_key("files") {
        return Err(Fault::user("a packed root is in memory, and no files are served to it")
            .hint("drop `files=`, or `root=packed`"));
    }
    if medium::of(spec) == Some(medium::Medium::Bind) {
        return Err(Fault::user("a packed guest sees no directory of this level")
            .hint("use `scratch=layer`, `scratch=tmpfs` or a disk"));
    }
    Ok(())
}

/// A name of `-cpu help`. Its features are not options here: `,` begins the layer's next option.
pub(in crate::driver) fn cpu_model(name: &str) -> Result<String, Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    Err(Fault::user(format!("`{name}` is not the name of a CPU model"))
        .hint("`qemu-system-x86_64 -cpu help` lists them"))
}

fn whole_cpus(millis: u32, kind: &str) -> Result<u32, Fault> {
    if millis == 0 || !millis.is_multiple_of(1000) {
        let asked = f64::from(millis) / 1000.0;
        return Err(Fault::user(format!("`cpus={asked}`: a machine has whole CPUs"))
            .hint(format!("limit a layer inside it, as in `{kind}:cpus=1+runc:cpus=0.5`")));
    }
    Ok(millis / 1000)
}

fn enough_memory(asked: Bytes) -> Result<u64, Fault> {
    let mib = asked.mebibytes();
    if mib < LEAST_MIB {
        return Err(Fault::user(format!("no guest kernel starts in {mib} MiB of memory"))
            .hint(format!("use `memory={LEAST_MIB}M` or more")));
    }
    Ok(mib)
}

/// As many as this process may run on.
fn level_cpus() -> u32 {
    count(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn count(cpus: usize) -> u32 {
    u32::try_from(cpus).unwrap_or(1)
}

fn level_memory_mib() -> Result<u64, Fault> {
    let text = std::fs::read_to_string("/proc/meminfo").doing("read `/proc/meminfo`")?;
    let kibibytes = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    let total = kibibytes.ok_or_else(|| Fault::machine("`/proc/meminfo` has no `MemTotal`"))?;
    Ok(total / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        LayerSpec { kind: "qemu".into(), options: options.iter().map(pair).collect() }
    }

    #[test]
    fn what_is_not_said_comes_from_the_level() {
        let asked = QemuOptions::read(&spec(&[]), &Limits::default()).unwrap();
        assert_eq!(asked.accelerator, None);
        assert_eq!(asked.board, Board::Q35);
        assert_eq!(asked.cpus, level_cpus());
        assert!(asked.memory.mib <= MEMORY_DEFAULT_MIB);
    }

    #[test]
    fn what_is_said_is_kept() {
        let limits = Limits {
            cpu_millis: Some(2000),
            cpuset: Some(vec![1]),
            memory: Some(Bytes(512 << 20)),
            ..Limits::default()
        };
        let spec = spec(&[("accel", "tcg"), ("machine", "microvm"), ("kernel", "/k")]);
        let expected = QemuOptions {
            dom0: None,
            accelerator: Some(Accelerator::Tcg),
            board: Board::Microvm,
            kernel: Some("/k".into()),
            cpus: 2,
            cpu: None,
            pinned: Vec::new(),
            memory: Memory::plain(512, true),
            overcommit: Overcommit::default(),
            firmware: Firmware::Seabios,
            entry: None,
            files: Protocol::Virtiofs,
            cpuset: Some(vec![1]),
            disk: None,
            nic: None,
            icount: None,
        };
        assert_eq!(QemuOptions::read(&spec, &limits), Ok(expected));
    }

    #[test]
    fn instructions_are_counted_under_tcg_alone() {
        let asked = QemuOptions::read(&spec(&[("icount", "2")]), &Limits::default()).unwrap();
        assert_eq!((asked.icount, asked.accelerator), (Some(2), Some(Accelerator::Tcg)));
        assert_eq!(asked.cpus, 1);
        let kvm = spec(&[("icount", "2"), ("accel", "kvm")]);
        let fault = QemuOptions::read(&kvm, &Limits::default()).unwrap_err();
        assert!(fault.message.contains("that TCG translates"), "{fault}");
        let two = Limits { cpu_millis: Some(2000), ..Limits::default() };
        let fault = QemuOptions::read(&spec(&[("icount", "2")]), &two).unwrap_err();
        assert!(fault.message.contains("has one CPU"), "{fault}");
    }

    #[test]
    fn a_machine_kept_on_one_cpu_has_one() {
        let limits = Limits { cpuset: Some(vec![1]), ..Limits::default() };
        assert_eq!(QemuOptions::read(&spec(&[]), &limits).unwrap().cpus, 1);
    }

    #[test]
    fn a_cpu_model_is_a_name_and_no_more() {
        let asked = QemuOptions::read(&spec(&[("cpu", "EPYC-v1")]), &Limits::default()).unwrap();
        assert_eq!(asked.cpu.as_deref(), Some("EPYC-v1"));
        let fault =
            QemuOptions::read(&spec(&[("cpu", "max +svm")]), &Limits::default()).unwrap_err();
        assert_eq!(fault.message, "qemu: `max +svm` is not the name of a CPU model");
    }

    #[test]
    fn a_packed_root_and_files_of_this_level_contradict_each_other() {
        for option in [("files", "9p"), ("scratch", "bind")] {
            let spec = spec(&[("root", "packed"), option]);
            assert!(QemuOptions::read(&spec, &Limits::default()).is_err(), "{option:?}");
        }
        let spec = spec(&[("root", "packed"), ("scratch", "tmpfs")]);
        assert!(QemuOptions::read(&spec, &Limits::default()).is_ok());
    }

    #[test]
    fn half_a_virtual_cpu_is_refused() {
        let limits = Limits { cpu_millis: Some(1500), ..Limits::default() };
        let fault = QemuOptions::read(&spec(&[]), &limits).unwrap_err();
        assert_eq!(fault.message, "qemu: `cpus=1.5`: a machine has whole CPUs");
    }

    #[test]
    fn a_limit_on_processes_is_refused_and_not_ignored() {
        let limits = Limits { pids: Some(100), ..Limits::default() };
        let fault = QemuOptions::read(&spec(&[]), &limits).unwrap_err();
        assert!(fault.hint.unwrap().contains("runc:pids=100"));
    }

    #[test]
    fn a_machine_too_small_for_a_kernel_is_refused() {
        let limits = Limits { memory: Some(Bytes(64 << 20)), ..Limits::default() };
        let fault = QemuOptions::read(&spec(&[]), &limits).unwrap_err();
        assert_eq!(fault.message, "qemu: no guest kernel starts in 64 MiB of memory");
    }
}
