//! A whole system from a disk image: its own boot loader, kernel and init, and the agent as a
//! service of it.
//!
//! The image is never written to: the machine has a throw-away layer over it (qcow2). It is opened
//! once, and what its header says leads to no other file, neither here nor in QEMU, which is told
//! of every file and format. A second disk, labelled `cidata`, is what cloud-init calls a NoCloud
//! seed. It holds the agent, and tells cloud-init to make it a unit and to start that after its
//! last stage: the first frame says that the system is ready.
//!
//! Its network device is set up by the system itself, as the seed says, and its scratch disk is
//! mounted by the agent. Both are known by what their hardware bears, an address and a serial
//! number, and not by a name, which is the system's to give. Source: cloud-init
//! `doc/rtd/reference/datasources/nocloud.rst`, `network-config-format-v2.rst`.

use crate::fault::{Doing, Fault};
use crate::lab::{Jail, Room, ToolRun};
use crate::layer::{LayerSpec, Root, View, medium, value_of};
use crate::vm::qcow2::Header;
use crate::vm::qmp::Qmp;
use crate::vm::{disk, nic};
use serde_json::json;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surtax_instrument::wire::{Fact, SCRATCH};

/// QEMU's name for the disk with the system.
const DRIVE: &str = "system";

/// QEMU's name for the disk with the seed.
const SEED: &str = "seed";

/// The label by which cloud-init knows a seed.
const LABEL: &str = "cidata";

/// The agent's name on the seed.
const AGENT: &str = "surtax-agent";

/// Options that mean nothing where the image brings its own kernel and files, and the reason.
const OTHERS: [(&str, &str); 6] = [
    ("hypervisor", "boots by its own boot loader, which knows of no Xen of surtax's"),
    ("kernel", "boots its own kernel"),
    ("entry", "boots by its own boot loader"),
    ("files", "has files of its own"),
    ("balloon", "has an init of its own, which surtax cannot let wait for a balloon"),
    ("icount", "is not told how its clock runs"),
];

/// Instructions for cloud-init: the agent as a unit, with what it waits for, and what is done at
/// the end of its last stage. One file for both directions is opened once, as the port must be.
const USER_DATA: &str = include_str!("seed/user-data");

/// Instructions for whoever runs the system's network. It may know links by their names alone, and
/// it is cloud-init that gives the name to the right one.
const NETWORK_CONFIG: &str = include_str!("seed/network-config");

/// The descriptor at which QEMU finds the image, which its user need not be allowed to read.
pub(super) const IMAGE_DESCRIPTOR: i32 = 140;

/// QEMU's path of that descriptor.
const IMAGE_SET: &str = "/dev/fdset/1";

/// The disks of a whole system.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// Path of the image, as it was named.
    source: PathBuf,
    /// The file as it was when its header was read: the name may lead elsewhere by now.
    opened: Arc<File>,
    /// Format of the image, by QEMU's name.
    format: &'static str,
    /// The layer over it.
    layer: PathBuf,
    /// The seed.
    seed: PathBuf,
    /// Devices of the machine beside its own disk.
    given: Given,
}

/// Devices of a machine that its system knows nothing of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// True if it has a disk for the scratch directory.
    pub(super) has_disk: bool,
    /// The address of its network device with the length of its network, and the way out.
    pub(super) network: Option<(String, Ipv4Addr)>,
}

/// Refuses what a machine from an image cannot have.
///
/// # Errors
/// The user's: an option of a machine whose kernel and files are surtax's matter.
pub(super) fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    if !matches!(spec.root()?, Root::Image(_)) {
        return Ok(());
    }
    if let Some((key, why)) = OTHERS.iter().find(|(key, _)| spec.options.contains_key(*key)) {
        return Err(Fault::user(format!("`{key}=`: a system from an image {why}"))
            .hint(format!("drop `{key}=`, or the image")));
    }
    let alone = [("machine", "microvm"), ("firmware", "qboot")];
    if let Some((key, value)) = alone.iter().find(|(key, value)| spec.says(key, value)) {
        return Err(Fault::user(format!("`{key}={value}` boots no disk"))
            .hint("use `machine=q35` with `firmware=seabios` or `firmware=ovmf`"));
    }
    if spec.says(medium::KEY, "bind") {
        return Err(Fault::user("a system from an image sees no directory of this level")
            .hint("use `scratch=layer`, `scratch=tmpfs` or a disk, such as `scratch=virtio-blk`"));
    }
    Ok(())
}

impl Image {
    /// The layer over an image, and the seed with the agent.
    ///
    /// # Errors
    /// The user's: directories are to be written to; the machine's: it is no image, or a tool is
    /// missing.
    pub(super) fn make(
        source: &Path,
        given: Given,
        view: &View,
        agent: &Path,
        room: &Room,
    ) -> Result<Self, Fault> {
        if let Some(path) = view.writable.first() {
            let path = path.display();
            return Err(Fault::user(format!("`--writable {path}` in a system from an image"))
                .hint("such a system has none of this machine's files: leave it out"));
        }
        let (file, header) = Header::open(source)?;
        let place = room.disk_directory()?;
        let (layer, seed) = (place.join("system.qcow2"), place.join("seed.iso"));
        // Of the image this tool of root's is told nothing but the size: QEMU is told what lies
        // below, in its jail.
        let (to, size) = (layer.display().to_string(), header.disk_bytes.to_string());
        let argv = ["qemu-img", "create", "-q", "-f", "qcow2", &to, &size];
        ToolRun::new(&argv).run(room).map_err(|fault| fault.hint("apt-get install qemu-utils"))?;
        write_seed(&seed, &given, view.scratch, agent, room)?;
        let (source, opened) = (source.to_owned(), Arc::new(file));
        Ok(Self { source, opened, format: header.format, layer, seed, given })
    }

    /// The image, to be handed down.
    ///
    /// # Errors
    /// The machine's: there are too many open files.
    pub(super) fn descriptor(&self) -> Result<OwnedFd, Fault> {
        let copy = self.opened.try_clone();
        copy.map(OwnedFd::from)
            .doing(format_args!("hand down the image `{}`", self.source.display()))
    }

    /// The same disks where a program in a jail sees them.
    ///
    /// # Errors
    /// The machine's: one cannot be given away.
    pub(super) fn within(self, jail: &mut Jail) -> Result<Self, Fault> {
        let layer = jail.lend("system.qcow2", &self.layer)?;
        let seed = jail.lend("seed.iso", &self.seed)?;
        Ok(Self { layer, seed, ..self })
    }

    /// The options of QEMU's command line; `bus` ends the names of the board's virtio devices.
    pub(super) fn arguments(&self, bus: &str) -> Vec<[String; 2]> {
        let text = |path: &Path| path.display().to_string().replace(',', ",,");
        let disk = |id: &str, file: &str, more: &str, device: &str| {
            [
                ["-drive".into(), format!("file={file},if=none,id={id},{more}")],
                ["-device".into(), format!("virtio-blk-{bus},drive={id}{device}")],
            ]
        };
        let image = ["-add-fd".into(), format!("fd={IMAGE_DESCRIPTOR},set=1")];
        let layers = self.layers().to_string().replace(',', ",,");
        let layers = format!("json:{layers}");
        let system = disk(DRIVE, &layers, "cache=none,aio=threads,discard=unmap", ",bootindex=0");
        let seed = disk(SEED, &text(&self.seed), "format=raw,readonly=on", "");
        [vec![image], system.to_vec(), seed.to_vec()].concat()
    }

    /// The machine's disk as QEMU's options have it: all files with their formats, and that there
    /// are no others.
    fn layers(&self) -> serde_json::Value {
        let mut below = json!({
            "driver": self.format,
            "read-only": true,
            "file": { "driver": "file", "filename": IMAGE_SET },
        });
        // The header names none. It is said again to a QEMU that reads it later.
        if self.format == "qcow2" {
            below["backing"] = serde_json::Value::Null;
        }
        json!({
            "driver": "qcow2",
            "file": { "driver": "file", "filename": self.layer },
            "backing": below,
        })
    }

    /// That QEMU has the image below the machine's disk, and that the guest's root lies on that
    /// disk.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn prove(
        &self,
        qmp: &mut Qmp,
        pid: u32,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let blocks = qmp.block_devices()?;
        let block = blocks.iter().find(|block| block.device == DRIVE);
        let disk = block.and_then(|block| block.inserted.as_ref());
        let told = disk.and_then(|disk| disk.backing_file.as_deref()).unwrap_or_default();
        let asked = self.source.display().to_string();
        let depth = disk.map_or(0, |disk| disk.backing_file_depth);
        if told != IMAGE_SET || depth != 1 || !is_open(pid, &self.opened)? {
            return Err(Fault::machine(format!(
                "qemu: the system was to be from `{asked}`, and QMP says `{told}` and {depth} \
                 files below the layer"
            )));
        }
        let root = value_of(inside, "root_mount")?;
        let (kind, device) = root.split_once(' ').unwrap_or_default();
        if !device.starts_with("/dev/vd") || value_of(inside, "process_id")? == "1" {
            return Err(Fault::machine(format!(
                "qemu: the system was to boot from its own disk, and its root is `{root}`"
            )));
        }
        self.given.prove(inside)?;
        let about = self.opened.metadata().doing(format_args!("look at `{asked}`"))?;
        Ok(vec![
            Fact::new("root", "image", "the command line"),
            Fact::new("image", &asked, "query-block, and /proc/PID/fd of QEMU"),
            Fact::new("image_format", self.format, "its header"),
            Fact::new("image_bytes", about.len().to_string(), &asked),
            Fact::new("files", kind, "/proc/self/mountinfo inside"),
            Fact::new("kernel_release", value_of(inside, "kernel_release")?, "uname(2) inside"),
            Fact::new("kernel_origin", "the image's own", "the command line"),
        ])
    }
}

impl Given {
    /// Returns the words for the devices that the agent waits for, to follow its own word.
    fn words(&self) -> String {
        let disk =
            if self.has_disk { format!(" disk {} {SCRATCH}", disk::DRIVE) } else { String::new() };
        let link = self.network.iter().map(|(address, _)| format!(" link {} {address}", nic::MAC));
        disk + &link.collect::<String>()
    }

    /// Returns what cloud-init tells whoever runs the system's network; `None` where there is none.
    fn network_config(&self) -> Option<String> {
        let (address, gateway) = self.network.as_ref()?;
        let config = NETWORK_CONFIG.replace("{mac}", nic::MAC).replace("{address}", address);
        Some(config.replace("{gateway}", &gateway.to_string()))
    }

    /// That the system has set its link up as it was told, and that the disk is the one it was
    /// given.
    fn prove(&self, inside: &[Fact]) -> Result<(), Fault> {
        if self.has_disk {
            let serial = value_of(inside, "scratch_serial")?;
            if serial != disk::DRIVE {
                return Err(Fault::machine(format!(
                    "qemu: the system's scratch directory was to be on the disk `{}`, and is on \
                     `{serial}`",
                    disk::DRIVE
                )));
            }
        }
        if let Some((address, gateway)) = &self.network {
            let link = value_of(inside, "link_name")?;
            let interfaces = value_of(inside, "interfaces")?;
            let route = value_of(inside, "default_route")?;
            let given = interfaces.split(' ').filter_map(|word| word.split_once('='));
            let mut of_link =
                given.filter(|(name, _)| *name == link).flat_map(|(_, it)| it.split(','));
            if !of_link.any(|one| one == address) || route != format!("{link} {gateway}") {
                return Err(Fault::machine(format!(
                    "qemu: the system's link `{link}` was to have `{address}` and the way out \
                     `{gateway}`, and has `{interfaces}` and `{route}`"
                )));
            }
        }
        Ok(())
    }
}

/// Tells whether a process has this file open.
fn is_open(pid: u32, file: &File) -> Result<bool, Fault> {
    let place = PathBuf::from(format!("/proc/{pid}/fd"));
    let doing = format!("look at what is open in `{}`", place.display());
    let name = |about: fs::Metadata| (about.dev(), about.ino());
    let real = file.metadata().map(name).doing(&doing)?;
    let entries = fs::read_dir(&place).doing(&doing)?;
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|about| name(about) == real);
    Ok(entries.flatten().any(|entry| is_it(&entry.path())))
}

/// Writes the seed: who the machine is, its network, what cloud-init does, and the agent.
fn write_seed(
    seed: &Path,
    given: &Given,
    scratch: Option<medium::Medium>,
    agent: &Path,
    room: &Room,
) -> Result<(), Fault> {
    let place = room.directory().join("seed");
    fs::create_dir_all(&place).doing(format_args!("make `{}`", place.display()))?;
    let write = |name: &str, text: &str| {
        let path = place.join(name);
        fs::write(&path, text).doing(format_args!("write `{}`", path.display()))
    };
    write("meta-data", "instance-id: surtax\nlocal-hostname: surtax\n")?;
    write("user-data", &user_data(given, scratch))?;
    if let Some(config) = given.network_config() {
        write("network-config", &config)?;
    }
    fs::copy(agent, place.join(AGENT))
        .doing(format_args!("put the agent `{}` on the seed", agent.display()))?;
    let (from, to) = (place.display().to_string(), seed.display().to_string());
    ToolRun::new(&[
        "genisoimage", "-quiet", "-rational-rock", "-volid", LABEL, "-output", &to, &from,
    ])
    .run(room)
    .map(drop)
    .map_err(|fault| fault.hint("apt-get install genisoimage"))
}

/// Returns the user data of a system that has its scratch directory there.
fn user_data(given: &Given, scratch: Option<medium::Medium>) -> String {
    let scratch = match scratch {
        Some(medium::Medium::Tmpfs) => {
            format!("  - mkdir -p {SCRATCH} && mount -t tmpfs -o mode=1777 tmpfs {SCRATCH}\n")
        }
        // The agent mounts it.
        Some(medium::Medium::Disk) | None => String::new(),
        Some(_) => format!("  - install -d -m 1777 {SCRATCH}\n"),
    };
    USER_DATA.replace("  - {scratch}\n", &scratch).replace("{given}", &given.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &[(&str, &str)]) -> String {
        refuse(&LayerSpec::of("qemu", options)).unwrap_err().message
    }

    #[test]
    fn what_is_not_of_an_image_is_refused_beside_one() {
        let image = ("root", "image:/debian.qcow2");
        assert!(refused(&[image, ("kernel", "/k")]).contains("boots its own kernel"));
        assert!(refused(&[image, ("files", "9p")]).contains("has files of its own"));
        assert!(refused(&[image, ("machine", "microvm")]).contains("boots no disk"));
        assert!(refused(&[image, ("hypervisor", "xen")]).contains("knows of no Xen"));
        assert!(refused(&[image, ("scratch", "bind")]).contains("sees no directory of this level"));
        for fits in [("scratch", "ide"), ("scratch", "tmpfs"), ("net", "tap"), ("nic", "e1000")] {
            let options = [image, fits].map(|(key, value)| (key.into(), value.into())).into();
            assert_eq!(refuse(&LayerSpec { kind: "qemu".into(), options }), Ok(()), "{fits:?}");
        }
    }

    #[test]
    fn a_layer_that_boots_no_disk_takes_no_image_of_one() {
        let parse = |text| crate::driver::parse(text).map(drop);
        assert_eq!(parse("qemu:root=image:/debian.qcow2"), Ok(()));
        let fault = parse("runc:root=image:/debian.qcow2").unwrap_err();
        assert!(fault.message.contains("`runc` boots no disk"), "{fault}");
    }

    #[test]
    fn the_layer_is_booted_and_the_seed_is_read_only() {
        let image = Image {
            source: "/debian.qcow2".into(),
            opened: Arc::new(File::open("/dev/null").unwrap()),
            format: "qcow2",
            layer: "/room/system.qcow2".into(),
            seed: "/room/seed.iso".into(),
            given: Given::default(),
        };
        assert_eq!(
            image.arguments("pci").concat().join(" "),
            "-add-fd fd=140,set=1 -drive \
             file=json:{\"backing\":{\"backing\":null,,\"driver\":\"qcow2\",,\"file\":{\"driver\":\"file\",,\"filename\":\"/dev/fdset/1\"},,\"read-only\":true},,\"driver\":\"qcow2\",,\"file\":{\"driver\":\"file\",,\"filename\":\"/room/system.qcow2\"}},if=none,id=system,cache=none,aio=threads,discard=unmap \
             -device virtio-blk-pci,drive=system,bootindex=0 -drive \
             file=/room/seed.iso,if=none,id=seed,format=raw,readonly=on -device \
             virtio-blk-pci,drive=seed"
        );
    }

    fn given() -> Given {
        let network = Some((String::from("198.18.0.2/24"), Ipv4Addr::new(198, 18, 0, 1)));
        Given { has_disk: true, network }
    }

    #[test]
    fn cloud_init_is_told_to_make_the_agent_a_unit() {
        let bare = Given::default();
        let text = user_data(&bare, Some(medium::Medium::Layer));
        assert!(text.starts_with("#cloud-config\n"), "{text}");
        assert!(text.contains("\n  - install -d -m 1777 /scratch\n"), "{text}");
        assert!(
            text.contains("\n      ExecStart=/usr/local/libexec/surtax-agent system\n"),
            "{text}"
        );
        assert!(!user_data(&bare, None).contains("/scratch"));
        assert_eq!(bare.network_config(), None);
    }

    #[test]
    fn a_disk_and_a_link_are_known_by_what_their_hardware_bears() {
        let text = user_data(&given(), Some(medium::Medium::Disk));
        let line =
            "surtax-agent system disk scratch /scratch link 52:54:00:12:34:56 198.18.0.2/24\n";
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("install -d"), "the agent makes the directory: {text}");
        assert_eq!(
            given().network_config().unwrap(),
            "\
version: 2
ethernets:
  eth0:
    match:
      macaddress: \"52:54:00:12:34:56\"
    set-name: eth0
    dhcp4: false
    dhcp6: false
    addresses: [198.18.0.2/24]
    routes:
      - to: 0.0.0.0/0
        via: 198.18.0.1
"
        );
    }

    #[test]
    fn a_system_that_has_set_its_link_up_otherwise_proves_nothing() {
        let inside = |interfaces: &str, route: &str, serial: &str| {
            let facts = [
                ("link_name", "ens3"),
                ("interfaces", interfaces),
                ("default_route", route),
                ("scratch_serial", serial),
            ];
            given().prove(&facts.map(|(key, value)| Fact::new(key, value, "x")))
        };
        let (ours, route) = ("docker0=172.17.0.1/16 ens3=198.18.0.2/24", "ens3 198.18.0.1");
        assert_eq!(inside(ours, route, "scratch"), Ok(()));
        let other = "ens3=10.0.2.15/24 eth1=198.18.0.2/24";
        for (interfaces, route, serial, says) in [
            (other, route, "scratch", "was to have `198.18.0.2/24`"),
            (ours, "none", "scratch", "the way out `198.18.0.1`"),
            (ours, route, "system", "was to be on the disk `scratch`, and is on `system`"),
        ] {
            let fault = inside(interfaces, route, serial).unwrap_err();
            assert!(fault.message.contains(says), "{fault}");
        }
        assert!(given().prove(&[]).is_err(), "an agent that sees nothing proves nothing");
    }
}
