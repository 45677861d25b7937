//! Guest with the disk and the network device that are asked for, ready for a monitor under KVM or
//! Xen.
//!
//! Guests of two monitors are then alike in all but the monitor: a comparison of the two tells
//! nothing else.

use super::accelerator::Accelerator;
use super::disk::Made;
use super::nic::{self, Nic};
use super::request::{Level, VmDefaults, VmRequest};
use crate::fault::{Doing, Fault};
use crate::guest::channel::Channel;
use crate::guest::share::{Protocol, Share};
use crate::guest::{Guest, kernel, memory, require_seen};
use crate::lab::{self, Room, RoomNetwork, Shape, network};
use crate::layer::{LayerSpec, Payer, Site, value_of};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// Traits of the guests of one monitor or hypervisor: plain values, and no name of one.
#[derive(Clone, Debug)]
pub(crate) struct GuestTraits {
    /// Values where a spec names nothing.
    pub(crate) defaults: VmDefaults,
    /// Most virtual CPUs of its machines.
    pub(crate) cpus_most: u32,
    /// Channel between the agent and us.
    pub(crate) channel: Channel,
    /// Protocol by which files come to the guest.
    pub(crate) files: Protocol,
    /// Module of a network device that is on no board, where the guest has one.
    pub(crate) nic_module: Option<&'static str>,
    /// Hypervisor signature that the guest must see, where its CPU can tell it.
    pub(crate) signature: Option<&'static str>,
    /// True if its devices are driven by virtio's drivers.
    pub(crate) is_virtio: bool,
    /// Source of the facts about the machine.
    pub(crate) fact_source: &'static str,
}

/// A guest without its monitor, with its disk and its network device.
pub(crate) struct EquippedGuest {
    kind: String,
    guest: Guest,
    /// Virtual CPUs.
    pub(crate) cpus: u32,
    /// Memory, in MiB.
    pub(crate) memory_mib: u64,
    /// Bytes tolerated above `memory_mib`: the place of a kernel that the monitor brings.
    extra_bytes: u64,
    /// The disk of the scratch directory, if that is on one.
    pub(crate) disk: Option<Made>,
    traits: GuestTraits,
    /// The network device that its initramfs sets up.
    nic: Option<Nic>,
}

impl GuestTraits {
    /// Returns those of a monitor under KVM whose devices are virtio's, and who tells what it runs
    /// by an API.
    pub(crate) fn under_kvm(defaults: VmDefaults, cpus_most: u32, channel: Channel) -> Self {
        Self {
            defaults,
            cpus_most,
            channel,
            files: Protocol::Virtiofs,
            nic_module: None,
            signature: Some(Accelerator::Kvm.signature()),
            is_virtio: true,
            fact_source: "the API",
        }
    }

    fn read(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<VmRequest, Fault> {
        let level = Level::here()?.with_at_most(self.cpus_most);
        VmRequest::read(spec, site.limits, self.defaults, Some(level))
    }
}

impl EquippedGuest {
    /// Finds a kernel, writes the initramfs, and serves this level's files; who serves them joins
    /// `group`.
    ///
    /// # Errors
    /// What [`VmRequest::read`] refuses, or a kernel that cannot be entered by PVH.
    pub(crate) fn prepare(
        spec: &LayerSpec,
        traits: GuestTraits,
        site: &Site<'_>,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        let named = |fault: Fault| fault.during(&spec.kind);
        let asked = traits.read(spec, site).map_err(named)?;
        let mut guest = asked.guest(traits.files, traits.channel);
        if let Some(module) = traits.nic_module {
            guest.modules.push(module);
            let address = format!("{}/{}", network::WORKLOAD, network::PREFIX);
            guest.network = Some((address, network::OUTSIDE));
        }
        let disk = asked.disk.clone().map(|disk| disk.make(room)).transpose().map_err(named)?;
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
            memory_mib: asked.memory_mib,
            extra_bytes: 0,
            traits,
            disk,
            nic: asked.nic,
        })
    }

    /// Prepares a guest for a monitor that brings a kernel in a shared library and serves the
    /// guest's first root, in which the agent has this name. Returns it with that root's directory
    /// and the mount namespace in which that is.
    ///
    /// # Errors
    /// What [`VmRequest::read`] refuses, or a library without a kernel.
    pub(crate) fn prepare_bundled(
        spec: &LayerSpec,
        (library, agent): (&Path, &'static str),
        traits: GuestTraits,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Self, PathBuf, OwnedFd), Fault> {
        let named = |fault: Fault| fault.during(&spec.kind);
        let asked = traits.read(spec, site).map_err(named)?;
        let mut guest = asked.guest(traits.files, traits.channel);
        guest.first_root = Some(agent);
        let modules = room.directory().join("no-modules");
        fs::create_dir(&modules).doing(format_args!("create `{}`", modules.display()))?;
        let kernel = kernel::bundled(library, modules)?;
        let mut guest = Guest::prepare(&guest, kernel, site, room, None).map_err(named)?;
        let Some((Share::Directory(export), Some(namespace))) =
            guest.offer.as_mut().map(|offer| (offer.share.clone(), offer.namespace.take()))
        else {
            return Err(Fault::bug("a monitor that serves a directory was given none"));
        };
        let guest = Self {
            kind: spec.kind.clone(),
            guest,
            cpus: asked.cpus,
            memory_mib: asked.memory_mib,
            extra_bytes: fs::metadata(library).map_or(0, |about| about.len()),
            disk: None,
            traits,
            nic: None,
        };
        Ok((guest, export, namespace))
    }

    /// An ELF kernel that is entered by PVH.
    pub(crate) fn kernel(&self) -> &Path {
        &self.guest.kernel.image
    }

    /// Returns the path of the guest's initramfs.
    pub(crate) fn initramfs(&self) -> &Path {
        &self.guest.initramfs
    }

    /// Makes the network on whose bridge the machine's tap is, where it has one, and says how bad
    /// the way to the guest is to be.
    ///
    /// # Errors
    /// The machine's: no bridges, or no taps.
    pub(crate) fn network(
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
    pub(crate) fn files(&self) -> &[(&'static str, PathBuf)] {
        match self.guest.offer.as_ref().map(|offer| &offer.share) {
            Some(Share::Virtiofs(sockets)) => sockets,
            Some(Share::Ninep { .. } | Share::Directory(_)) | None => &[],
        }
    }

    /// The directory that is to be served by 9p, of the mount namespace that is taken with it.
    pub(crate) fn export(&mut self) -> Option<(PathBuf, OwnedFd)> {
        let offer = self.guest.offer.as_mut()?;
        match &offer.share {
            Share::Virtiofs(_) | Share::Directory(_) => None,
            Share::Ninep { export, .. } => Some((export.clone(), offer.namespace.take()?)),
        }
    }

    /// Lists who is to pay for serving its files.
    pub(crate) fn payers_of_files(&self) -> impl Iterator<Item = Payer> {
        self.guest.payers_of_files()
    }

    /// Returns what virtiofsd has said, for the end of a message.
    pub(crate) fn words(&self) -> String {
        self.guest.words()
    }

    /// That the guest runs this kernel where it was to, on so many CPUs and in so much memory, with
    /// these files.
    ///
    /// # Errors
    /// It says something else.
    pub(crate) fn prove(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let cpus = self.cpus.to_string();
        let signature = self.traits.signature.map(|it| ("the hypervisor", it, "hypervisor_vendor"));
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
        let plausible = *memory::plausible(asked, asked).start()..=asked + self.extra_bytes;
        if !seen.parse().is_ok_and(|seen| plausible.contains(&seen)) {
            let kind = &self.kind;
            let text =
                format!("{kind}: the guest sees {seen} bytes of memory and was given {asked}");
            return Err(Fault::machine(text));
        }
        let found = &self.guest.kernel.found;
        let source = self.traits.fact_source;
        let mut facts = vec![
            Fact::new("cpus", cpus, format!("{source}, and sched_getaffinity(2) inside")),
            Fact::new("memory_bytes", asked.to_string(), format!("{source}, and MemTotal inside")),
            Fact::new("kernel_release", &found.release, "uname(2) inside"),
            Fact::new("kernel_sha256", lab::sha256(&found.file)?, found.file.display().to_string()),
            Fact::new("kernel_origin", found.origin, "the search for a kernel"),
        ];
        if self.traits.signature.is_some() {
            facts.insert(0, Fact::new("accelerator", "kvm", "CPUID leaf 0x40000000 inside"));
        }
        let files = self.guest.prove_files(inside);
        facts.extend(files.map_err(|fault| fault.during(&self.kind))?);
        facts.extend(self.devices(inside)?);
        facts.append(&mut self.guest.facts);
        Ok(facts)
    }

    /// That the guest drives the devices which it was given by virtio's drivers, where they are.
    fn devices(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut claims = Vec::new();
        if self.disk.is_some() && self.traits.is_virtio {
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
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.guest.stop_servers()
    }
}
