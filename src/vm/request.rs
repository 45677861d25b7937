//! Request of a virtual machine: what every monitor reads of a spec in the same way, as plain
//! values.
//!
//! Texts of errors begin without a name, which the driver that asked puts before them.

use super::board::Board;
use super::disk::{Disk, DiskDefaults};
use super::nic::Nic;
use crate::fault::{Doing, Fault};
use crate::guest::GuestSpec;
use crate::guest::channel::Channel;
use crate::guest::kernel::{Flavor, Need};
use crate::guest::memory::LEAST_MIB;
use crate::guest::share::Protocol;
use crate::lab::Limits;
use crate::layer::{LayerSpec, Root, medium};
use std::net::Ipv4Addr;
use surtax_instrument::counters;
use surtax_instrument::quantity::Bytes;

/// The most memory that a guest has unless told.
const MEMORY_DEFAULT_MIB: u64 = 2048;

/// Size of a level, of which a machine takes its part where a spec does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// CPUs that this process may run on.
    cpus: u32,
    memory_mib: u64,
}

impl Level {
    /// Looks at the level of this process.
    ///
    /// # Errors
    /// The machine's: the kernel does not say how much memory there is.
    pub(crate) fn here() -> Result<Self, Fault> {
        Ok(Self { cpus: level_cpus(), memory_mib: level_memory_mib()? })
    }

    /// The same for a monitor whose machines have at most so many CPUs.
    pub(crate) fn with_at_most(self, cpus: u32) -> Self {
        Self { cpus: self.cpus.min(cpus), ..self }
    }
}

/// Values of a monitor where a spec names nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmDefaults {
    /// Board, which no spec of most monitors names.
    pub(crate) board: Board,
    /// Virtual CPUs; `None` for one for each CPU that the machine may run on.
    pub(crate) cpus: Option<u32>,
    /// Words of a scratch disk.
    pub(crate) disk: DiskDefaults,
}

impl VmDefaults {
    /// Returns those of QEMU, with this board.
    pub(crate) const fn of(board: Board) -> Self {
        Self { board, cpus: None, disk: DiskDefaults::QEMU }
    }
}

/// Virtual machine that a spec asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VmRequest {
    /// Board, whose bus the virtio devices are on.
    pub(crate) board: Board,
    /// File of the kernel, if one was named.
    pub(crate) kernel: Option<String>,
    /// Virtual CPUs.
    pub(crate) cpus: u32,
    /// Memory, in MiB.
    pub(crate) memory_mib: u64,
    /// Disk of the scratch directory, if that is on one.
    pub(crate) disk: Option<Disk>,
    /// Network device, if it has one.
    pub(crate) nic: Option<Nic>,
}

impl VmRequest {
    /// Reads a spec; what it does not say comes from the monitor's defaults, and else from the
    /// level. Without a level nothing is refused for what a level has, and the request is of no use
    /// beyond that.
    ///
    /// # Errors
    /// The user's: half a virtual CPU, a limit on processes, too little memory, files for a packed
    /// root, or what a device refuses.
    pub(crate) fn read(
        spec: &LayerSpec,
        limits: &Limits,
        defaults: VmDefaults,
        level: Option<Level>,
    ) -> Result<Self, Fault> {
        if limits.pids.is_some() {
            return Err(Fault::user("a machine has no limit on processes")
                .hint("put `pids=` on a layer inside it, as in `qemu+runc:pids=100`"));
        }
        let memory_mib = match limits.memory {
            Some(asked) => enough_memory(asked)?,
            None => level
                .map_or(MEMORY_DEFAULT_MIB, |level| MEMORY_DEFAULT_MIB.min(level.memory_mib / 2)),
        };
        let cpus = match (limits.cpu_millis, defaults.cpus, &limits.cpuset) {
            (Some(millis), _, _) => whole_cpus(millis, &spec.kind)?,
            (None, Some(cpus), _) => cpus,
            (None, None, Some(cpuset)) => count(cpuset.len()),
            (None, None, None) => level.map_or(u32::MAX, |level| level.cpus),
        };
        if spec.root()? == Root::Packed {
            refuse_files(spec)?;
        }
        let board = defaults.board;
        let disk = Disk::read(spec, board, defaults.disk)?;
        let nic = Nic::read(spec, board, cpus)?;
        let kernel = spec.option("kernel").map(String::from);
        Ok(Self { board, kernel, cpus, memory_mib, disk, nic })
    }

    /// Returns what is to be in its guest, to which files come by this protocol.
    pub(crate) fn guest(&self, files: Protocol, channel: Channel) -> GuestSpec {
        let disk = self.disk.as_ref().map(|disk| disk.modules(self.board));
        let nic = self.nic.as_ref().map(Nic::modules);
        GuestSpec {
            channel,
            transport: self.board.transport(),
            files,
            first_root: None,
            memory_mib: self.memory_mib,
            modules: disk.into_iter().chain(nic).flatten().collect(),
            network: self.addresses(),
            balloon_pages: None,
            dom0: None,
        }
    }

    /// Returns the guest's address with the length of its network, and the way out; `None` without
    /// a network device.
    pub(crate) fn addresses(&self) -> Option<(String, Ipv4Addr)> {
        self.nic.as_ref().map(Nic::addresses)
    }

    /// Returns what such a guest needs of its kernel.
    pub(crate) fn need_of(&self, guest: &GuestSpec) -> Need<'_> {
        let is_old = self.nic.as_ref().is_some_and(|nic| !nic.is_virtio())
            || self.disk.as_ref().is_some_and(|disk| disk.is_of_no_cloud(self.board));
        let channel: Vec<_> = guest.channel.module().into_iter().collect();
        Need {
            named: self.kernel.as_deref(),
            // The one for clouds has no drivers of devices that clouds do not have, and speaks no
            // 9p.
            flavor: match guest.files {
                Protocol::Virtiofs if !is_old => Flavor::Cloud,
                _ => Flavor::Full,
            },
            modules: [guest.files.modules(), &guest.modules, &channel].concat(),
            entry: None,
        }
    }
}

/// Refuses a spec that asks for more than `most` virtual CPUs, for this reason. One that does not
/// say how many gets what its level has, up to as many.
///
/// # Errors
/// The user's: it does, or no machine could be like it.
pub(crate) fn require_cpus(
    spec: &LayerSpec,
    limits: &Limits,
    defaults: VmDefaults,
    (most, why): (u32, &str),
) -> Result<(), Fault> {
    let kind = &spec.kind;
    let asked = VmRequest::read(spec, limits, defaults, None);
    let cpus = asked.map_err(|fault| fault.during(kind))?.cpus;
    let is_told = limits.cpu_millis.is_some() || limits.cpuset.is_some();
    if cpus <= most || !is_told {
        return Ok(());
    }
    Err(Fault::user(format!("{kind}: `cpus={cpus}`: {why}"))
        .hint(format!("write `cpus={most}` or less")))
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

fn level_cpus() -> u32 {
    count(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn count(cpus: usize) -> u32 {
    u32::try_from(cpus).unwrap_or(1)
}

fn level_memory_mib() -> Result<u64, Fault> {
    let text = std::fs::read_to_string("/proc/meminfo").doing("read `/proc/meminfo`")?;
    let total = counters::bytes(&text, "MemTotal");
    total
        .map(|bytes| bytes >> 20)
        .ok_or_else(|| Fault::machine("`/proc/meminfo` has no `MemTotal`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        LayerSpec { kind: "qemu".into(), options: options.iter().map(pair).collect() }
    }

    fn read(options: &[(&str, &str)], limits: &Limits) -> Result<VmRequest, Fault> {
        VmRequest::read(&spec(options), limits, DEFAULTS, Some(LEVEL))
    }

    const DEFAULTS: VmDefaults = VmDefaults::of(Board::Q35);

    /// A machine with more CPUs than some monitors can give.
    const LEVEL: Level = Level { cpus: 48, memory_mib: 1024 };

    #[test]
    fn what_is_not_said_comes_from_the_level() {
        let asked = read(&[], &Limits::default()).unwrap();
        assert_eq!((asked.cpus, asked.memory_mib), (48, 512));
        let level = Some(LEVEL.with_at_most(32));
        let few = VmRequest::read(&spec(&[]), &Limits::default(), DEFAULTS, level);
        assert_eq!(few.unwrap().cpus, 32);
        let here = Level::here().unwrap();
        assert!(here.cpus > 0 && here.memory_mib > 0);
    }

    /// A plan is for whatever machine: that of who plans may have more CPUs, or fewer, than the
    /// level on which the machine will be.
    #[test]
    fn nothing_is_refused_for_what_the_planning_machine_has() {
        let limits = Limits::default();
        assert!(require_cpus(&spec(&[]), &limits, DEFAULTS, (1, "few")).is_ok());
        let options = [("net", "tap"), ("queues", "64")];
        let read = |level| VmRequest::read(&spec(&options), &limits, DEFAULTS, level);
        assert!(read(None).is_ok());
        assert!(read(Some(LEVEL)).is_err());
        let two = Limits { cpu_millis: Some(2000), ..Limits::default() };
        let fault = require_cpus(&spec(&[]), &two, DEFAULTS, (1, "few")).unwrap_err();
        assert_eq!(fault.message, "qemu: `cpus=2`: few");
    }

    #[test]
    fn a_machine_kept_on_one_cpu_has_one() {
        let limits = Limits { cpuset: Some(vec![1]), ..Limits::default() };
        assert_eq!(read(&[], &limits).unwrap().cpus, 1);
    }

    #[test]
    fn a_packed_root_and_files_of_this_level_contradict_each_other() {
        for option in [("files", "9p"), ("scratch", "bind")] {
            let options = [("root", "packed"), option];
            assert!(read(&options, &Limits::default()).is_err(), "{option:?}");
        }
        let options = [("root", "packed"), ("scratch", "tmpfs")];
        assert!(read(&options, &Limits::default()).is_ok());
    }

    #[test]
    fn half_a_virtual_cpu_is_refused() {
        let limits = Limits { cpu_millis: Some(1500), ..Limits::default() };
        let fault = read(&[], &limits).unwrap_err();
        assert_eq!(fault.message, "`cpus=1.5`: a machine has whole CPUs");
    }

    #[test]
    fn a_limit_on_processes_is_refused_and_not_ignored() {
        let limits = Limits { pids: Some(100), ..Limits::default() };
        let fault = read(&[], &limits).unwrap_err();
        assert!(fault.hint.unwrap().contains("runc:pids=100"));
    }

    #[test]
    fn a_machine_too_small_for_a_kernel_is_refused() {
        let limits = Limits { memory: Some(Bytes(64 << 20)), ..Limits::default() };
        let fault = read(&[], &limits).unwrap_err();
        assert_eq!(fault.message, "no guest kernel starts in 64 MiB of memory");
    }
}
