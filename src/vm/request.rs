//! Request of a virtual machine: what every monitor reads of a spec in the same way, as plain
//! values.
//!
//! Texts of errors begin without a name, which the driver that asked puts before them.

use super::board::Board;
use super::disk::Disk;
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
use surtax_instrument::quantity::Bytes;

/// The most memory that a guest has unless told.
const MEMORY_DEFAULT_MIB: u64 = 2048;

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
    /// Reads a spec; what it does not say comes from the level. Where it names no number of virtual
    /// CPUs there are `cpus`, or one for each CPU that the machine may run on.
    ///
    /// # Errors
    /// The user's: half a virtual CPU, a limit on processes, too little memory, files for a packed
    /// root, or what a device refuses.
    pub(crate) fn read(
        spec: &LayerSpec,
        limits: &Limits,
        board: Board,
        cpus: Option<u32>,
    ) -> Result<Self, Fault> {
        if limits.pids.is_some() {
            return Err(Fault::user("a machine has no limit on processes")
                .hint("put `pids=` on a layer inside it, as in `qemu+runc:pids=100`"));
        }
        let memory_mib = match limits.memory {
            Some(asked) => enough_memory(asked)?,
            None => MEMORY_DEFAULT_MIB.min(level_memory_mib()? / 2),
        };
        let cpus = match (limits.cpu_millis, cpus, &limits.cpuset) {
            (Some(millis), _, _) => whole_cpus(millis, &spec.kind)?,
            (None, Some(cpus), _) => cpus,
            (None, None, Some(cpuset)) => count(cpuset.len()),
            (None, None, None) => level_cpus(),
        };
        if spec.root()? == Root::Packed {
            refuse_files(spec)?;
        }
        let disk = Disk::read(spec, board)?;
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

/// That a spec asks for no more virtual CPUs than there can be; `why` says so of `most`.
///
/// # Errors
/// The user's: it does, or no machine could be like it.
pub(crate) fn require_cpus(
    spec: &LayerSpec,
    limits: &Limits,
    most: u32,
    why: &str,
) -> Result<(), Fault> {
    let kind = &spec.kind;
    let asked = VmRequest::read(spec, limits, Board::of(None), None);
    let cpus = asked.map_err(|fault| fault.during(kind))?.cpus;
    if cpus <= most {
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

    fn read(options: &[(&str, &str)], limits: &Limits) -> Result<VmRequest, Fault> {
        VmRequest::read(&spec(options), limits, Board::Q35, None)
    }

    #[test]
    fn what_is_not_said_comes_from_the_level() {
        let asked = read(&[], &Limits::default()).unwrap();
        assert_eq!(asked.cpus, level_cpus());
        assert!(asked.memory_mib <= MEMORY_DEFAULT_MIB);
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
