//! Parts that this driver lends to those of other monitors: how it reads what is asked of a guest,
//! and its disk and its network device in it.
//!
//! Their guests are then this one's in all but the monitor: a comparison of the two tells nothing
//! else.

use super::accelerator::Accelerator;
use super::board::Board;
use super::check::qemu_version;
use super::disk::Made;
use super::nic::{self, Nic};
use super::request::QemuOptions;
use super::{Qemu, reference_guest};
use crate::fault::{Doing, Fault};
use crate::guest::channel::Channel;
use crate::guest::share::{Protocol, Share};
use crate::guest::{Guest, GuestSpec, kernel, memory, require_seen};
use crate::lab::{Limits, Room, RoomNetwork, Shape, network};
use crate::layer::{Layer, LayerSpec, Payer, Site, Unavailable, Usable, value_of};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

pub(in crate::driver) use super::disk::{DISK_SIZE, FORMAT};

/// A guest without its monitor, with the disk and the network device that this driver makes.
pub(in crate::driver) struct EquippedGuest {
    kind: String,
    guest: Guest,
    /// Virtual CPUs.
    pub(in crate::driver) cpus: u32,
    /// Memory, in MiB.
    pub(in crate::driver) memory_mib: u64,
    /// Memory that the guest may have beyond that, in bytes: the place of a kernel that the monitor
    /// brings.
    beside: u64,
    /// The disk of the scratch directory, if that is on one.
    pub(in crate::driver) disk: Option<Made>,
    /// Hypervisor signature that the guest must see, where its CPU can tell it.
    signature: Option<&'static str>,
    /// Source of the facts about the machine, by name.
    teller: &'static str,
    /// The network device that its initramfs sets up.
    nic: Option<Nic>,
}

/// Checks that `qemu` has what the others borrow, and that KVM is proved by its reference guest.
///
/// # Errors
/// What is missing.
pub(in crate::driver) fn check(spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    reference_guest_by(spec.option("kernel"), site).map_err(|refuted| {
        Unavailable::new(
            format!("it runs where `qemu:accel=kvm` does, and here {}", refuted.why),
            "use `qemu`, which can do without KVM",
        )
    })
}

/// Checks that `qemu` runs under KVM, with this kernel if one is named.
fn reference_guest_by(kernel: Option<&str>, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let options = [("accel", Some("kvm")), ("kernel", kernel)].into_iter();
    let options = options.filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    Qemu.check(&LayerSpec { kind: String::from("qemu"), options: options.collect() }, site)
}

/// That KVM runs machines here, for whoever would only try. A device that opens proves nothing: it
/// may spin without a word. What proves it is the reference guest of `qemu`.
///
/// # Errors
/// Nothing proves it.
pub(in crate::driver) fn require_reference_guest(
    what: &str,
    remedy: &str,
    site: &Site<'_>,
) -> Result<(), Unavailable> {
    reference_guest_by(None, site).map(drop).map_err(|refuted| {
        let why = format!("nothing proves KVM for `{what}`: {}", refuted.why);
        Unavailable::new(why, remedy)
    })
}

/// That nothing says that KVM does not work here: it is there, and no reference guest has failed in
/// this boot. Where none was tried, the machine itself is the reference guest: it says hello before
/// the deadline.
///
/// # Errors
/// The machine's: it is not there, or was refuted.
pub(in crate::driver) fn require_kvm(site: &Site<'_>, room: &Room) -> Result<(), Fault> {
    let refuse = |why: String| Fault::machine(why).hint("use `qemu`, which can do without KVM");
    reference_guest::device(site, room).map_err(refuse)?;
    // Without QEMU there is no reference guest either.
    let Ok(version) = qemu_version(room) else { return Ok(()) };
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
    let cpus = QemuOptions::read(spec, limits)?.cpus;
    if cpus <= most {
        return Ok(());
    }
    Err(Fault::user(format!("{kind}: `cpus={cpus}`: {why}"))
        .hint(format!("write `cpus={most}` or less")))
}

impl EquippedGuest {
    /// Finds a kernel, writes the initramfs of a machine whose virtio devices are on the bus of
    /// this board, and serves this level's files; who serves them joins `group`. With `has_vif` it
    /// brings up a network device of Xen's.
    ///
    /// # Errors
    /// What `qemu` could not have either, or a kernel that cannot be entered by PVH.
    pub(in crate::driver) fn prepare(
        spec: &LayerSpec,
        (board, channel): (Board, Channel),
        has_vif: bool,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let named = |fault: Fault| fault.during(&spec.kind);
        let mut asked = QemuOptions::read(spec, site.limits)?;
        asked.board = board;
        let mut guest = GuestSpec { channel, ..asked.guest(None) };
        if has_vif {
            guest.modules.push("xen_netfront");
            let address = format!("{}/{}", network::WORKLOAD, network::PREFIX);
            guest.network = Some((address, network::OUTSIDE));
        }
        let disk = asked.disk.clone().map(|disk| disk.make(room)).transpose().map_err(named)?;
        let (signature, teller) = match channel {
            // A domain of Xen's has no bus, and no shared memory with others.
            Channel::Console(_) => {
                guest.files = Protocol::XenNinep;
                (None, "xl list")
            }
            Channel::Port | Channel::Vsock(_) => (Some(Accelerator::Kvm.signature()), "the API"),
        };
        let kernel = kernel::acquire(&asked.need_of(&guest), site.cache, room).map_err(named)?;
        if !kernel.is_pvh {
            let shown = kernel.image.display();
            return Err(Fault::machine(format!("{}: `{shown}` has no PVH entry", spec.kind))
                .hint("name another one with `kernel=`"));
        }
        let guest = Guest::prepare(&guest, kernel, site, room, group).map_err(named)?;
        Ok(Self {
            kind: spec.kind.clone(),
            guest,
            cpus: asked.cpus,
            memory_mib: asked.memory.mib,
            beside: 0,
            signature,
            teller,
            disk,
            nic: asked.nic.take(),
        })
    }

    /// The same for a monitor that brings a kernel, in a shared library, and serves a directory
    /// itself that is the guest's first root: with that directory, of the mount namespace that is
    /// taken with it. The agent in there has this name, and calls this port.
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
        let named = |fault: Fault| fault.during(&spec.kind);
        let asked = QemuOptions::read(spec, site.limits)?;
        let guest = GuestSpec {
            files: Protocol::FirstRoot,
            first_root: Some(name),
            channel: Channel::Vsock(port),
            ..asked.guest(None)
        };
        let modules = room.directory().join("no-modules");
        fs::create_dir(&modules).doing(format_args!("create `{}`", modules.display()))?;
        let kernel = kernel::bundled(library, modules)?;
        let mut guest = Guest::prepare(&guest, kernel, site, room, None).map_err(named)?;
        let Some((Share::Directory(export), Some(namespace))) =
            guest.offer.as_mut().map(|offer| (offer.share.clone(), offer.namespace.take()))
        else {
            return Err(Fault::bug("a monitor that serves a directory was lent none"));
        };
        let guest = Self {
            kind: spec.kind.clone(),
            guest,
            cpus: asked.cpus,
            memory_mib: asked.memory.mib,
            beside: fs::metadata(library).map_or(0, |about| about.len()),
            disk: None,
            signature: Some(Accelerator::Kvm.signature()),
            teller: "krun_set_vm_config",
            nic: None,
        };
        Ok((guest, export, namespace))
    }

    /// An ELF kernel that is entered by PVH.
    pub(in crate::driver) fn kernel(&self) -> &Path {
        &self.guest.kernel.image
    }

    /// Returns the path of the guest's initramfs.
    pub(in crate::driver) fn initramfs(&self) -> &Path {
        &self.guest.initramfs
    }

    /// Makes the network on whose bridge the machine's tap is, where it has one, and says how bad
    /// the way to the guest is to be.
    ///
    /// # Errors
    /// The machine's: no bridges, or no taps.
    pub(in crate::driver) fn network(
        &self,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Option<(RoomNetwork, Option<Shape>)>, Fault> {
        let Some(nic) = &self.nic else { return Ok(None) };
        nic.require(site, room).map_err(|fault| fault.during(&self.kind))?;
        let network = room.network()?;
        network.kept_tap()?;
        Ok(Some((network, nic.shape)))
    }

    /// The socket of each virtiofsd, with its tag; none where the root is packed.
    pub(in crate::driver) fn files(&self) -> &[(&'static str, PathBuf)] {
        match self.guest.offer.as_ref().map(|offer| &offer.share) {
            Some(Share::Virtiofs(sockets)) => sockets,
            Some(Share::Ninep { .. } | Share::Directory(_)) | None => &[],
        }
    }

    /// The directory that is to be served by 9p, of the mount namespace that is taken with it.
    pub(in crate::driver) fn export(&mut self) -> Option<(PathBuf, OwnedFd)> {
        let offer = self.guest.offer.as_mut()?;
        match &offer.share {
            Share::Virtiofs(_) | Share::Directory(_) => None,
            Share::Ninep { export, .. } => Some((export.clone(), offer.namespace.take()?)),
        }
    }

    /// Lists who is to pay for serving its files.
    pub(in crate::driver) fn payers_of_files(&self) -> impl Iterator<Item = Payer> {
        self.guest.payers_of_files()
    }

    /// Returns what virtiofsd has said, for the end of a message.
    pub(in crate::driver) fn words(&self) -> String {
        self.guest.words()
    }

    /// That the guest runs this kernel where it was to, on so many CPUs and in so much memory, with
    /// these files.
    ///
    /// # Errors
    /// It says something else.
    pub(in crate::driver) fn prove(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let cpus = self.cpus.to_string();
        let signature = self.signature.map(|it| ("the hypervisor", it, "hypervisor_vendor"));
        let others = [
            ("the kernel", self.guest.kernel.found.release.as_str(), "kernel_release"),
            ("the number of CPUs", &cpus, "cpus_online"),
        ];
        signature
            .into_iter()
            .chain(others)
            .try_for_each(|claim| require_seen(inside, claim))
            .map_err(|fault| fault.during(&self.kind))?;
        let (asked, seen) = (self.memory_mib << 20, value_of(inside, "memory_total_bytes")?);
        let plausible = *memory::plausible(asked, asked).start()..=asked + self.beside;
        if !seen.parse().is_ok_and(|seen| plausible.contains(&seen)) {
            let kind = &self.kind;
            let text =
                format!("{kind}: the guest sees {seen} bytes of memory and was given {asked}");
            return Err(Fault::machine(text));
        }
        let found = &self.guest.kernel.found;
        let teller = self.teller;
        let mut facts = vec![
            Fact::new("cpus", cpus, format!("{teller}, and sched_getaffinity(2) inside")),
            Fact::new("memory_bytes", asked.to_string(), format!("{teller}, and MemTotal inside")),
            Fact::new("kernel_release", &found.release, "uname(2) inside"),
            Fact::new(
                "kernel_sha256",
                kernel::sha256(&found.file)?,
                found.file.display().to_string(),
            ),
            Fact::new("kernel_origin", found.origin, "the search for a kernel"),
        ];
        if self.signature.is_some() {
            facts.insert(0, Fact::new("accelerator", "kvm", "CPUID leaf 0x40000000 inside"));
        }
        let files = self.guest.prove_files(inside);
        facts.extend(files.map_err(|fault| fault.during(&self.kind))?);
        facts.extend(self.devices(inside)?);
        facts.append(&mut self.guest.facts);
        Ok(facts)
    }

    /// That the guest drives the devices which it was given by virtio's drivers; what Xen gives is
    /// not virtio's.
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
        self.guest.stop_servers()
    }
}
