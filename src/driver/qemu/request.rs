//! Request of a spec: the options and the limits of a `qemu` layer, read and completed.

use super::firmware::{self, Firmware};
use super::memory::Memory;
use super::partition::{self, Overcommit};
use super::vcpu::Pin;
use super::xen::{self, Dom0, Xen};
use super::{image, share};
use crate::fault::Fault;
use crate::guest::GuestSpec;
use crate::guest::channel::Channel;
use crate::guest::kernel::{Entry, Flavor, Need};
use crate::guest::share::Protocol;
use crate::lab::Limits;
use crate::layer::LayerSpec;
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::qemu::cpu_model;
use crate::vm::request::{Level, VmDefaults, VmRequest};

/// Options that a spec asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QemuOptions {
    /// Virtual machine that any monitor could run.
    pub(super) vm: VmRequest,
    /// The accelerator, if one was named.
    pub(super) accelerator: Option<Accelerator>,
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
    /// Guest time by instructions: two to this power in nanoseconds each.
    pub(super) icount: Option<u8>,
    /// Dom0's part, where Xen runs under the guest.
    pub(super) dom0: Option<Dom0>,
}

impl QemuOptions {
    /// Reads a spec; what it does not say comes from the level of this process.
    ///
    /// # Errors
    /// The user's: what [`VmRequest::read`] refuses, or what a part of QEMU's does.
    pub(super) fn read(spec: &LayerSpec, limits: &Limits) -> Result<Self, Fault> {
        let level = Some(Level::here()?);
        Self::read_at(spec, limits, level).map_err(|fault| fault.during(&spec.kind))
    }

    /// Reads a spec for whatever level: refuses what none can have.
    ///
    /// # Errors
    /// As [`QemuOptions::read`], but for what this level lacks.
    pub(super) fn read_anywhere(spec: &LayerSpec, limits: &Limits) -> Result<Self, Fault> {
        Self::read_at(spec, limits, None).map_err(|fault| fault.during(&spec.kind))
    }

    fn read_at(spec: &LayerSpec, limits: &Limits, level: Option<Level>) -> Result<Self, Fault> {
        let spec = &partition::expanded(spec)?;
        image::refuse(spec)?;
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
        let cpus = cpus_unless_named(limits, icount.is_some(), pin.as_ref())?;
        let vm =
            VmRequest::read(spec, limits, VmDefaults { cpus, ..VmDefaults::of(board) }, level)?;
        let files = share::read(spec);
        let (firmware, entry) = firmware::read(spec, board)?;
        let dom0 = Dom0::read(spec, vm.memory_mib)?;
        Ok(Self {
            dom0,
            accelerator,
            icount,
            cpu: spec.option("cpu").map(cpu_model).transpose()?,
            pinned: pin
                .map_or(Ok(Vec::new()), |pin| pin.resolve(vm.cpus, limits, level.is_some()))?,
            memory: Memory {
                dom0_mib: dom0.map(|dom0| dom0.mib),
                ..Memory::read(spec, vm.memory_mib, files)?
            },
            overcommit: Overcommit::read(spec)?,
            firmware,
            entry,
            files,
            cpuset: limits.cpuset.clone(),
            vm,
        })
    }

    /// Returns what is to be in the guest; Dom0 has the tools of this Xen.
    pub(super) fn guest(&self, xen: Option<&Xen>) -> GuestSpec {
        let mut guest = self.vm.guest(self.files, Channel::Port);
        guest.modules.extend(self.memory.balloon_mib.map(|_| "virtio_balloon"));
        guest.modules.extend(self.dom0.iter().flat_map(|_| xen::MODULES));
        guest.balloon_pages = self.memory.balloon_pages();
        guest.dom0 = xen.map(Xen::files);
        guest
    }

    /// Returns what a guest with these options needs of its kernel.
    pub(super) fn need(&self) -> Need<'_> {
        let need = self.vm.need_of(&self.guest(None));
        let Some(_) = self.dom0 else { return Need { entry: self.entry, ..need } };
        // The one for clouds is no Dom0, and Xen enters an ELF kernel by its notes: it would unpack
        // another in the guest.
        Need { flavor: Flavor::Full, entry: self.entry.or(Some(Entry::Pvh)), ..need }
    }
}

/// Virtual CPUs where no number is named: one if instructions are counted, or as many as there are
/// CPUs in a list to pin them to.
fn cpus_unless_named(
    limits: &Limits,
    is_counted: bool,
    pin: Option<&Pin>,
) -> Result<Option<u32>, Fault> {
    match limits.cpu_millis {
        Some(millis) if millis > 1000 && is_counted => {
            Err(Fault::user("with `icount=` a machine has one CPU")
                .hint("write `cpus=1`, or drop `icount=`"))
        }
        // With more, the guest's kernel waits for ever for the second one.
        _ if is_counted => Ok(Some(1)),
        _ => Ok(pin.and_then(Pin::len).map(|listed| u32::try_from(listed).unwrap_or(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::quantity::Bytes;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        LayerSpec { kind: "qemu".into(), options: options.iter().map(pair).collect() }
    }

    #[test]
    fn what_is_not_said_comes_from_the_level() {
        let asked = QemuOptions::read(&spec(&[]), &Limits::default()).unwrap();
        assert_eq!(asked.accelerator, None);
        assert_eq!(asked.vm.board, Board::Q35);
        assert_eq!(asked.memory.mib, asked.vm.memory_mib);
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
            vm: VmRequest {
                board: Board::Microvm,
                kernel: Some("/k".into()),
                cpus: 2,
                memory_mib: 512,
                disk: None,
                nic: None,
            },
            cpu: None,
            pinned: Vec::new(),
            memory: Memory::plain(512, true),
            overcommit: Overcommit::default(),
            firmware: Firmware::Seabios,
            entry: None,
            files: Protocol::Virtiofs,
            cpuset: Some(vec![1]),
            icount: None,
        };
        assert_eq!(QemuOptions::read(&spec, &limits), Ok(expected));
    }

    #[test]
    fn instructions_are_counted_under_tcg_alone() {
        let asked = QemuOptions::read(&spec(&[("icount", "2")]), &Limits::default()).unwrap();
        assert_eq!((asked.icount, asked.accelerator), (Some(2), Some(Accelerator::Tcg)));
        assert_eq!(asked.vm.cpus, 1);
        let kvm = spec(&[("icount", "2"), ("accel", "kvm")]);
        let fault = QemuOptions::read(&kvm, &Limits::default()).unwrap_err();
        assert!(fault.message.contains("that TCG translates"), "{fault}");
        let two = Limits { cpu_millis: Some(2000), ..Limits::default() };
        let fault = QemuOptions::read(&spec(&[("icount", "2")]), &two).unwrap_err();
        assert!(fault.message.contains("has one CPU"), "{fault}");
    }

    /// The level is another machine, or a guest with CPUs of its own.
    #[test]
    fn what_the_planning_machine_lacks_is_refused_where_the_machine_is_to_be() {
        let far = spec(&[("pin", "4000")]);
        assert!(QemuOptions::read_anywhere(&far, &Limits::default()).is_ok());
        let fault = QemuOptions::read(&far, &Limits::default()).unwrap_err();
        assert!(fault.message.contains("may not run on CPU 4000"), "{fault}");
        let limits = Limits { cpuset: Some(vec![1]), ..Limits::default() };
        assert!(QemuOptions::read_anywhere(&far, &limits).is_err(), "both were named");
        let four = Limits { cpu_millis: Some(4000), ..Limits::default() };
        let fault = QemuOptions::read_anywhere(&far, &four).unwrap_err();
        assert!(fault.message.contains("names 1 CPUs for 4 virtual CPUs"), "{fault}");
    }

    #[test]
    fn a_cpu_model_is_a_name_and_no_more() {
        let asked = QemuOptions::read(&spec(&[("cpu", "EPYC-v1")]), &Limits::default()).unwrap();
        assert_eq!(asked.cpu.as_deref(), Some("EPYC-v1"));
        let fault =
            QemuOptions::read(&spec(&[("cpu", "max +svm")]), &Limits::default()).unwrap_err();
        assert_eq!(fault.message, "qemu: `max +svm` is not the name of a CPU model");
    }
}
