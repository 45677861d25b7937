//! What this driver lends to those of other monitors: a kernel, and this level's files and agent in it.
//!
//! Their guests are then this one's in all but the monitor: a comparison of the two tells nothing else.

use super::command_line::Boots;
use super::inside::Inside;
use super::kernel::{self, Kernel};
use super::nic::{self, Nic};
use super::request::Asked;
use super::share::{Protocol, Share};
use super::{Qemu, check, memory, reference_guest};
use crate::fault::{Doing, Fault};
use crate::lab::{Limits, Network, Room, Shape};
use crate::layer::{Layer, LayerSpec, Site, Unavailable, Usable, value_of};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

pub(in crate::driver) use super::command_line::{Accelerator, Board};
#[cfg(test)]
pub(in crate::driver) use super::disk::Disk;
pub(in crate::driver) use super::disk::{DISK_SIZE, FORMAT, Made};
pub(in crate::driver) use super::elf::notes_of;
pub(in crate::driver) use super::initramfs::Channel;
pub(in crate::driver) use super::kernel::sha256;
pub(in crate::driver) use super::reference_guest::is_guest_of_ours;
pub(in crate::driver) use super::unpack::unpack;

/// How long virtiofsd may take to notice that its machine has ended.
const FILES_STOP_DEADLINE: Duration = Duration::from_secs(1);

/// A guest without its monitor.
pub(in crate::driver) struct Lent {
    kind: String,
    kernel: Kernel,
    initramfs: PathBuf,
    inside: Inside,
    cpus: u32,
    memory_mib: u64,
    /// What it may have beside that, in bytes: the place of a kernel that the monitor brings.
    beside: u64,
    /// The disk of the scratch directory, if that is on one.
    disk: Option<Made>,
    /// What the guest must see that it runs on, where that can be told from its CPU.
    signature: Option<&'static str>,
    /// Who tells of the machine.
    teller: &'static str,
    /// The network device that its initramfs sets up.
    nic: Option<Nic>,
}

/// Whether `qemu` has what the others borrow, and KVM is proved by its reference guest.
///
/// # Errors
/// What is missing.
pub(in crate::driver) fn check(spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let mut options = spec.options.clone();
    options.retain(|key, _| key == "kernel");
    options.insert(String::from("accel"), String::from("kvm"));
    let own = LayerSpec { kind: String::from("qemu"), options };
    Qemu.check(&own, site).map_err(|refuted| Unavailable {
        why: format!("it runs where `qemu:accel=kvm` does, and here {}", refuted.why),
        remedy: Some(String::from("use `qemu`, which can do without KVM")),
    })
}

/// That nothing says that KVM does not work here: it is there, and no reference guest has failed in this boot. Where
/// none was tried, the machine itself is the reference guest: it says hello before the deadline.
///
/// # Errors
/// The machine's: it is not there, or was refuted.
pub(in crate::driver) fn require_kvm(site: &Site<'_>, room: &Room) -> Result<(), Fault> {
    let refuse = |why: String| Fault::machine(why).hint("use `qemu`, which can do without KVM");
    reference_guest::device(site, room).map_err(refuse)?;
    // Without QEMU there is no reference guest either.
    let Ok(version) = check::qemu_version(room) else { return Ok(()) };
    match reference_guest::known(site.cache, &version) {
        Some(verdict) => verdict.as_result().map(drop).map_err(refuse),
        None => Ok(()),
    }
}

/// That a spec asks for no more virtual CPUs than there can be; `why` says so of `most`.
///
/// # Errors
/// The user's: it does, or `qemu` would refuse it too.
pub(in crate::driver) fn require_cpus(
    spec: &LayerSpec,
    limits: &Limits,
    most: u32,
    why: &str,
) -> Result<(), Fault> {
    let kind = &spec.kind;
    let cpus = Asked::read(spec, limits).map_err(|fault| said_by(kind, fault))?.cpus;
    if cpus <= most {
        return Ok(());
    }
    Err(Fault::user(format!("{kind}: `cpus={cpus}`: {why}"))
        .hint(format!("write `cpus={most}` or less")))
}

impl Lent {
    /// Finds a kernel, writes the initramfs of a machine whose virtio devices are on the bus of this board,
    /// and serves this level's files; who serves them joins `group`. With `has_vif` it brings up a network device
    /// of Xen's.
    ///
    /// # Errors
    /// What `qemu` could not have either, or a kernel that cannot be entered by PVH.
    pub(in crate::driver) fn prepare(
        spec: &LayerSpec,
        way: (Board, Channel),
        has_vif: bool,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let mut asked =
            Asked::read(spec, site.limits).map_err(|fault| said_by(&spec.kind, fault))?;
        (asked.board, asked.channel) = way;
        asked.has_vif = has_vif;
        let disk = asked.disk.clone().map(|disk| disk.make(room)).transpose();
        let disk = disk.map_err(|fault| said_by(&spec.kind, fault))?;
        let (signature, teller) = match asked.channel {
            // A domain of Xen's has no bus, and no shared memory with others.
            Channel::Console(_) => {
                asked.files = Protocol::XenNinep;
                (None, "xl list")
            }
            Channel::Port | Channel::Vsock(_) => (Some(Accelerator::Kvm.signature()), "the API"),
        };
        let kernel = kernel::acquire(&asked.need(), site.cache, room)
            .map_err(|fault| said_by(&spec.kind, fault))?;
        if !kernel.is_pvh {
            let shown = kernel.image.display();
            return Err(Fault::machine(format!("{}: `{shown}` has no PVH entry", spec.kind))
                .hint("name another one with `kernel=`"));
        }
        let inside = Inside::prepare(&asked, Some(kernel.clone()), site, room, group)
            .map_err(|fault| said_by(&spec.kind, fault))?;
        let Boots::Kernel { initramfs, .. } = inside.boots.clone() else {
            return Err(Fault::bug("a monitor was lent a disk to boot"));
        };
        Ok(Self {
            kind: spec.kind.clone(),
            kernel,
            initramfs,
            inside,
            cpus: asked.cpus,
            memory_mib: asked.memory.mib,
            beside: 0,
            signature,
            teller,
            disk,
            nic: asked.nic.take(),
        })
    }

    /// The same for a monitor that brings a kernel, in a shared library, and serves a directory itself that is
    /// the guest's first root: with that directory, of the mount namespace that is taken with it. The agent in
    /// there has this name, and calls this port.
    ///
    /// # Errors
    /// What `qemu` could not have either, or a library without a kernel.
    pub(in crate::driver) fn lay(
        spec: &LayerSpec,
        library: &Path,
        (name, port): (&'static str, u32),
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Self, PathBuf, OwnedFd), Fault> {
        let of_ours = |fault| said_by(&spec.kind, fault);
        let mut asked = Asked::read(spec, site.limits).map_err(of_ours)?;
        (asked.files, asked.first_root) = (Protocol::FirstRoot, Some(name));
        asked.channel = Channel::Vsock(port);
        let modules = room.directory().join("no-modules");
        fs::create_dir(&modules).doing(format_args!("create `{}`", modules.display()))?;
        let kernel = kernel::bundled(library, modules)?;
        let mut inside =
            Inside::prepare(&asked, Some(kernel.clone()), site, room, None).map_err(of_ours)?;
        let Some((Share::Directory(export), Some(namespace))) =
            inside.offer.as_mut().map(|offer| (offer.share.clone(), offer.namespace.take()))
        else {
            return Err(Fault::bug("a monitor that serves a directory was lent none"));
        };
        let lent = Self {
            kind: spec.kind.clone(),
            kernel,
            initramfs: export.clone(),
            inside,
            cpus: asked.cpus,
            memory_mib: asked.memory.mib,
            beside: fs::metadata(library).map_or(0, |about| about.len()),
            disk: None,
            signature: Some(Accelerator::Kvm.signature()),
            teller: "krun_set_vm_config",
            nic: None,
        };
        Ok((lent, export, namespace))
    }

    /// Virtual CPUs.
    pub(in crate::driver) fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Memory, in MiB.
    pub(in crate::driver) fn memory_mib(&self) -> u64 {
        self.memory_mib
    }

    /// An ELF kernel that is entered by PVH.
    pub(in crate::driver) fn kernel(&self) -> &Path {
        &self.kernel.image
    }

    /// Its initramfs.
    pub(in crate::driver) fn initramfs(&self) -> &Path {
        &self.initramfs
    }

    /// The disk of the scratch directory, if that is on one.
    pub(in crate::driver) fn disk(&self) -> Option<&Made> {
        self.disk.as_ref()
    }

    /// Makes the network on whose bridge the machine's tap is, where it has one, and says how bad the way to the guest
    /// is to be.
    ///
    /// # Errors
    /// The machine's: no bridges, or no taps.
    pub(in crate::driver) fn network(
        &self,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Option<(Network, Option<Shape>)>, Fault> {
        let Some(nic) = &self.nic else { return Ok(None) };
        nic.require(site, room).map_err(|fault| said_by(&self.kind, fault))?;
        let network = room.network()?;
        network.kept_tap()?;
        Ok(Some((network, nic.shape())))
    }

    /// The socket of virtiofsd; none where the root is packed.
    pub(in crate::driver) fn files(&self) -> Option<&Path> {
        match &self.inside.offer.as_ref()?.share {
            Share::Virtiofs(socket) => Some(socket),
            Share::Ninep { .. } | Share::Directory(_) => None,
        }
    }

    /// The directory that is to be served by 9p, of the mount namespace that is taken with it.
    pub(in crate::driver) fn export(&mut self) -> Option<(PathBuf, OwnedFd)> {
        let offer = self.inside.offer.as_mut()?;
        match &offer.share {
            Share::Virtiofs(_) | Share::Directory(_) => None,
            Share::Ninep { export, .. } => Some((export.clone(), offer.namespace.take()?)),
        }
    }

    /// The process id of virtiofsd.
    pub(in crate::driver) fn server(&self) -> Option<u32> {
        self.inside.server().map(|server| server.process.pid())
    }

    /// What virtiofsd has said, for the end of a message.
    pub(in crate::driver) fn words(&self) -> String {
        self.inside.words()
    }

    /// That the guest runs this kernel where it was to, on so many CPUs and in so much memory, with these files.
    ///
    /// # Errors
    /// It says something else.
    pub(in crate::driver) fn prove(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let cpus = self.cpus.to_string();
        let signature = self.signature.map(|it| ("the hypervisor", it, "hypervisor_vendor"));
        let others = [
            ("the kernel", self.kernel.found.release.as_str(), "kernel_release"),
            ("the number of CPUs", &cpus, "cpus_online"),
        ];
        for (what, asked, key) in signature.into_iter().chain(others) {
            let seen = value_of(inside, key)?;
            if seen != asked {
                let kind = &self.kind;
                let text =
                    format!("{kind}: {what} was to be `{asked}`, and the guest sees `{seen}`");
                return Err(Fault::machine(text));
            }
        }
        let (asked, seen) = (self.memory_mib << 20, value_of(inside, "memory_total_bytes")?);
        let plausible = *memory::plausible(asked, asked).start()..=asked + self.beside;
        if !seen.parse().is_ok_and(|seen| plausible.contains(&seen)) {
            let kind = &self.kind;
            let text =
                format!("{kind}: the guest sees {seen} bytes of memory and was given {asked}");
            return Err(Fault::machine(text));
        }
        let shipped = &self.kernel.found.file;
        let teller = self.teller;
        let mut facts = vec![
            Fact::new("cpus", cpus, format!("{teller}, and sched_getaffinity(2) inside")),
            Fact::new("memory_bytes", asked.to_string(), format!("{teller}, and MemTotal inside")),
            Fact::new("kernel_release", &self.kernel.found.release, "uname(2) inside"),
            Fact::new("kernel_sha256", kernel::sha256(shipped)?, shipped.display().to_string()),
            Fact::new("kernel_origin", self.kernel.found.origin, "the search for a kernel"),
        ];
        if self.signature.is_some() {
            facts.insert(0, Fact::new("accelerator", "kvm", "CPUID leaf 0x40000000 inside"));
        }
        facts.extend(self.inside.prove(inside)?);
        facts.extend(self.devices(inside)?);
        facts.append(&mut self.inside.facts);
        Ok(facts)
    }

    /// That the guest drives the devices which it was given by virtio's drivers; what Xen gives is not virtio's.
    fn devices(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut claims = Vec::new();
        if self.disk.is_some() && self.signature.is_some() {
            claims.push(("disk_controller", "virtio_blk", "scratch_drivers"));
        }
        if self.nic.is_some() {
            claims.push(("nic_driver", "virtio_net", "link_driver"));
            claims.push(("nic_address", nic::MAC, "link_address"));
        }
        let mut facts = Vec::new();
        for (key, asked, seen) in claims {
            let told = value_of(inside, seen)?;
            if !told.split(' ').any(|word| word == asked) {
                let (kind, what) = (&self.kind, key.replace('_', "'s "));
                return Err(Fault::machine(format!(
                    "{kind}: the {what} was to be `{asked}`, and the guest sees `{told}`"
                )));
            }
            facts.push(Fact::new(key, asked, "/sys inside"));
        }
        Ok(facts)
    }

    /// Waits until virtiofsd has ended after its machine, or ends it.
    ///
    /// # Errors
    /// The machine's, if it cannot be waited for.
    pub(in crate::driver) fn stop(&mut self) -> Result<(), Fault> {
        let offer = self.inside.offer.as_mut();
        if let Some(server) = offer.and_then(|offer| offer.server.as_mut())
            && server.process.wait(FILES_STOP_DEADLINE)?.is_none()
        {
            server.process.kill()?;
        }
        Ok(())
    }
}

/// Whether a guest that was given so many bytes of memory may say that it has `seen`.
pub(in crate::driver) fn has_memory(given: u64, seen: &str) -> bool {
    seen.parse().is_ok_and(|seen| memory::plausible(given, given).contains(&seen))
}

/// A fault of ours in the name of another layer.
pub(in crate::driver) fn said_by(kind: &str, fault: Fault) -> Fault {
    let message = match fault.message.strip_prefix("qemu: ") {
        Some(rest) => format!("{kind}: {rest}"),
        None => fault.message,
    };
    let hint = fault.hint.map(|hint| hint.replace("`qemu:", &format!("`{kind}:")));
    Fault { message, hint, ..fault }
}
