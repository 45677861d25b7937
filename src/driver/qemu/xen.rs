//! Xen under the guest: QEMU starts the hypervisor, and the hypervisor the guest's kernel as its
//! Dom0.
//!
//! QEMU ── Xen ── Dom0: guest kernel ── agent (PID 1) ── xenstored, xenconsoled
//!
//! Hypervisor and tools are the distribution's, fetched by apt into our cache and unpacked there,
//! because to install them is to change how a machine boots and what it starts. The guest has the
//! tools as a layer over its root: what a machine would have on which they were installed. The
//! kernel is entered as a module of Xen's, unpacked, because Xen would unpack it in the guest.
//!
//! Source: Xen `docs/misc/xen-command-line.pandoc`, QEMU `hw/i386/multiboot.c`, and what Debian's
//! `/etc/init.d/xen` starts in Dom0.

use crate::fault::{Doing, Fault};
use crate::guest;
use crate::guest::files::Dom0Files;
use crate::guest::kernel::write_whole;
use crate::guest::unpack::unpack;
use crate::lab::Room;
use crate::layer::{LayerSpec, OptionSpec, option, value_of};
use crate::vm::accelerator::Accelerator;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Fact;

/// Drivers by which Dom0's programs speak with Xen and with domains.
pub(super) const MODULES: [&str; 5] =
    ["xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xenfs"];

/// Directories that the programs of Dom0 expect.
const DIRECTORIES: [&str; 3] = ["/run/xen", "/var/lib/xenstored", "/var/log/xen"];

/// The hypervisor first, whose version is that of all; then the tools with their libraries, and the
/// QEMU that serves a domain's devices.
const PACKAGES: [&str; 17] = [
    "xen-hypervisor-4.17-amd64", "xen-utils-4.17", "xen-utils-common", "xenstore-utils",
    "libxencall1", "libxendevicemodel1", "libxenevtchn1", "libxenforeignmemory1", "libxengnttab1",
    "libxenhypfs1", "libxenmisc4.17", "libxenstore4", "libxentoolcore1", "libxentoollog1",
    "libyajl2", "libfdt1", "qemu-system-xen",
];

/// Path of the hypervisor in its package, and the path where it is unpacked.
const PACKED_IMAGE: &str = "boot/xen-4.17-amd64.gz";
const IMAGE: &str = "boot/xen-4.17-amd64";

/// Directory of those of its programs that nobody else starts.
const PROGRAMS: &str = "/usr/lib/xen-4.17/bin";

/// The least memory in which Dom0's programs run, in MiB.
const DOM0_LEAST_MIB: u64 = 512;

/// Memory that Xen and the smallest domains need beside Dom0, in MiB.
const REST_LEAST_MIB: u64 = 320;

/// The options.
pub(super) const HYPERVISOR: OptionSpec = option("hypervisor", &["none", "xen"]).help(
    "what runs under the guest's kernel: with `xen` that is its Dom0, in which `xen` can be the \
     next layer (default: none)",
);
pub(super) const DOM0_MEMORY: OptionSpec = option("dom0-memory", &[]).help(
    "with `hypervisor=xen`: how much of `memory` is Dom0's; its domains have the rest (default: \
     half)",
);

/// Dom0 options that a spec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dom0 {
    /// Part of the machine's memory that Dom0 gets, in MiB.
    pub(super) mib: u64,
}

/// Xen, ready to be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xen {
    /// The hypervisor, unpacked.
    pub(super) image: PathBuf,
    /// The tools: a tree to be laid over a root.
    pub(super) tools: PathBuf,
    /// The version of their package.
    pub(super) version: String,
    /// Dom0.
    pub(super) dom0: Dom0,
}

impl Dom0 {
    /// Reads the options, for a machine with so much memory; nothing where Xen is not asked for.
    ///
    /// # Errors
    /// The user's: options that contradict each other, or too little memory for Dom0 or for
    /// domains.
    pub(super) fn read(spec: &LayerSpec, memory_mib: u64) -> Result<Option<Self>, Fault> {
        let asked = spec.option("dom0-memory");
        if !spec.says("hypervisor", "xen") {
            return match asked {
                Some(text) => {
                    Err(Fault::user(format!("`dom0-memory={text}`: without Xen there is no Dom0"))
                        .hint("add `hypervisor=xen`, or use `memory=`"))
                }
                None => Ok(None),
            };
        }
        refuse(spec)?;
        let mib = match asked {
            Some(text) => Bytes::parse(text).map_err(Fault::user)?.mebibytes(),
            None => memory_mib / 2,
        };
        if mib < DOM0_LEAST_MIB {
            let least = 2 * DOM0_LEAST_MIB;
            return Err(Fault::user(format!("Xen's tools do not run in a Dom0 of {mib} MiB"))
                .hint(format!(
                    "use `memory={least}M` or more, or `dom0-memory={DOM0_LEAST_MIB}M`"
                )));
        }
        if memory_mib < mib + REST_LEAST_MIB {
            return Err(Fault::user(format!(
                "a Dom0 of {mib} MiB leaves too little of {memory_mib} MiB for Xen and a domain"
            ))
            .hint(format!("use `memory={}M` or more", mib + REST_LEAST_MIB)));
        }
        Ok(Some(Self { mib }))
    }
}

/// Refuses options that Xen is not booted with.
fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    const UNLIKE: [(&str, &str, &str); 8] = [
        ("machine", "microvm", "use `machine=q35`"),
        ("root", "packed", "Dom0 needs Xen's tools: leave `root=` out"),
        ("firmware", "ovmf", "use `firmware=seabios`"),
        ("firmware", "qboot", "use `firmware=seabios`"),
        ("entry", "", "drop `entry=`: Xen enters its Dom0 itself"),
        ("balloon", "", "use `dom0-memory=` to leave Dom0 less"),
        ("icount", "", "drop `icount=`"),
        ("profile", "", "drop `profile=`: a partition has no hypervisor of its own"),
    ];
    let found = UNLIKE.iter().find(|(key, value, _)| {
        spec.option(key).is_some_and(|asked| value.is_empty() || asked == *value)
    });
    match found {
        Some((key, _, hint)) => {
            let asked = spec.option(key).unwrap_or("");
            Err(Fault::user(format!("Xen is not booted with `{key}={asked}`")).hint(*hint))
        }
        None => Ok(()),
    }
}

/// The newest that is in our cache.
pub(super) fn cached(cache: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(cache.join("xen")).ok()?.flatten();
    let trees = entries.map(|entry| entry.path());
    let mut whole: Vec<PathBuf> = trees
        .filter(|tree| tree.join(PACKED_IMAGE).is_file() && tree.join("usr").is_dir())
        .collect();
    whole.sort();
    whole.pop()
}

impl Xen {
    /// Finds the packages or fetches them, and unpacks the hypervisor.
    ///
    /// # Errors
    /// They cannot be fetched, or hold no hypervisor.
    pub(super) fn acquire(dom0: Dom0, cache: &Path, room: &Room) -> Result<Self, Fault> {
        let tools = match cached(cache) {
            Some(tools) => tools,
            None => fetch(&cache.join("xen"), room)?,
        };
        let image = tools.join(IMAGE);
        if !image.is_file() {
            let packed = tools.join(PACKED_IMAGE);
            let bytes = fs::read(&packed).doing(format_args!("read `{}`", packed.display()))?;
            write_whole(&image, &unpack(bytes, room)?)?;
        }
        let version = tools.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { image, tools, version, dom0 })
    }

    /// Returns the files and programs that make a guest its Dom0.
    pub(super) fn files(&self) -> Dom0Files {
        Dom0Files {
            tools: self.tools.clone(),
            directories: &DIRECTORIES,
            programs: Self::programs(),
        }
    }

    /// Returns what Dom0 runs before it serves anybody: who keeps the store, who writes Dom0 into
    /// it, and who keeps consoles.
    fn programs() -> Vec<String> {
        [
            "xenstored --pid-file /run/xenstored.pid",
            "xen-init-dom0",
            "xenconsoled --pid-file=/run/xenconsoled.pid",
        ]
        .map(|words| format!("{PROGRAMS}/{words}"))
        .to_vec()
    }

    /// The hypervisor's own command line: its console is the guest's, and a restart of Dom0 is one
    /// of the machine.
    pub(super) fn command_line(&self) -> String {
        let mib = self.dom0.mib;
        format!(
            "dom0_mem={mib}M,max:{mib}M console=com1 com1=115200,8n1 loglvl=warning \
             guest_loglvl=warning"
        )
    }

    /// Returns what QEMU hands to Xen: Dom0's kernel with a command line, and the initramfs.
    pub(super) fn modules(kernel: &Path, command_line: &str, initramfs: &Path) -> String {
        let text = |path: &Path| path.display().to_string().replace(',', ",,");
        format!("{} {command_line},{}", text(kernel), text(initramfs))
    }

    /// That Xen is there, of this version, and that the guest is its first domain.
    ///
    /// # Errors
    /// The guest says something else.
    pub(super) fn prove(&self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let kind = value_of(inside, "hypervisor_type")?;
        let version = value_of(inside, "hypervisor_version")?;
        if kind != "xen" || !self.version.starts_with(version) {
            return Err(Fault::machine(format!(
                "qemu: Xen {} was booted, and the guest sees `{kind}` {version}",
                self.version
            )));
        }
        let dom0 = "00000000-0000-0000-0000-000000000000";
        let uuid = value_of(inside, "hypervisor_uuid")?;
        if uuid != dom0 {
            return Err(Fault::machine(format!("qemu: the guest is not Xen's Dom0 but `{uuid}`")));
        }
        let source = "the package, and /sys/hypervisor/version inside";
        let kind = value_of(inside, "hypervisor_guest_type")?;
        Ok(vec![
            Fact::new("hypervisor", "xen", "/sys/hypervisor/type inside"),
            Fact::new("xen_version", &self.version, source),
            Fact::new("xen_command_line", self.command_line(), "the command line"),
            Fact::new("dom0_type", kind, "/sys/hypervisor/guest_type inside"),
            Fact::new("dom0_memory_bytes", (self.dom0.mib << 20).to_string(), "dom0_mem"),
        ])
    }
}

/// The CPU model on which Xen runs.
///
/// TCG's of QEMU 7.2 traps on the way out of an interrupt where SMAP is on. Where XSAVE is,
/// programs in domains end by faults at random (runc in both of two tries, and in none of four
/// without it): then there is no AVX.
pub(super) fn cpu_model(model: &str, accelerator: Accelerator) -> String {
    match accelerator {
        Accelerator::Tcg => format!("{model},-smap,-xsave"),
        Accelerator::Kvm => model.to_owned(),
    }
}

fn fetch(trees: &Path, room: &Room) -> Result<PathBuf, Fault> {
    fs::create_dir_all(trees).doing(format_args!("create `{}`", trees.display()))?;
    guest::fetch_tree(&PACKAGES, trees, room).map_err(|fault| {
        let fault = fault.during(format_args!("cannot fetch Xen by apt"));
        if fault.hint.is_some() { fault } else { fault.hint("Xen 4.17 is in Debian 12") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        let options = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        LayerSpec { kind: "qemu".into(), options }
    }

    fn xen(options: &[(&str, &str)], memory_mib: u64) -> Result<Option<Dom0>, Fault> {
        Dom0::read(&spec(&[&[("hypervisor", "xen")], options].concat()), memory_mib)
    }

    #[test]
    fn dom0_has_half_of_the_memory_or_what_was_named() {
        assert_eq!(xen(&[], 2048), Ok(Some(Dom0 { mib: 1024 })));
        assert_eq!(xen(&[("dom0-memory", "768M")], 2048), Ok(Some(Dom0 { mib: 768 })));
        assert_eq!(Dom0::read(&spec(&[]), 2048), Ok(None));
        assert_eq!(Dom0::read(&spec(&[("hypervisor", "none")]), 2048), Ok(None));
    }

    #[test]
    fn too_little_memory_for_dom0_or_for_domains_is_refused_with_what_suffices() {
        let fault = xen(&[], 768).unwrap_err();
        assert_eq!(fault.hint.unwrap(), "use `memory=1024M` or more, or `dom0-memory=512M`");
        let fault = xen(&[("dom0-memory", "1900M")], 2048).unwrap_err();
        assert_eq!(fault.hint.unwrap(), "use `memory=2220M` or more");
    }

    #[test]
    fn what_xen_is_not_booted_with_is_refused() {
        for option in [
            ("machine", "microvm"),
            ("root", "packed"),
            ("firmware", "ovmf"),
            ("entry", "pvh"),
            ("balloon", "1G"),
            ("icount", "2"),
        ] {
            let fault = xen(&[option], 2048).unwrap_err();
            assert!(fault.message.contains(&format!("`{}={}`", option.0, option.1)), "{fault}");
            assert!(fault.hint.is_some());
        }
        let fault = Dom0::read(&spec(&[("dom0-memory", "1G")]), 2048).unwrap_err();
        assert_eq!(fault.message, "`dom0-memory=1G`: without Xen there is no Dom0");
    }

    #[test]
    fn a_guest_that_is_another_domain_or_on_another_xen_is_no_proof() {
        let xen = Xen {
            image: PathBuf::new(),
            tools: PathBuf::new(),
            version: "4.17.7+13-g2445b30a44-0+deb12u1".into(),
            dom0: Dom0 { mib: 1024 },
        };
        let prove = |version: &str, uuid: &str| {
            xen.prove(&[
                Fact::new("hypervisor_type", "xen", ""),
                Fact::new("hypervisor_version", version, ""),
                Fact::new("hypervisor_guest_type", "PV", ""),
                Fact::new("hypervisor_uuid", uuid, ""),
            ])
        };
        let first = "00000000-0000-0000-0000-000000000000";
        assert!(prove("4.17.7", first).is_ok());
        assert!(prove("4.18.0", first).is_err());
        assert!(prove("4.17.7", "71ba461b-dc36-4c2e-95e7-a3e3b74c276b").is_err());
        assert!(xen.prove(&[]).is_err());
    }
}
