//! Checks whether this level can run a machine, and which accelerator it has: KVM is believed when
//! proved.

use super::request::QemuOptions;
use super::{reference_guest, tsc, xen};
use crate::fault::Fault;
use crate::guest::kernel::{self, Kernel};
use crate::guest::packed::Packed;
use crate::guest::share::Protocol;
use crate::guest::virtiofsd::{self, Virtiofsd};
use crate::lab::{self, Limits, Room, ToolRun, tool_version};
use crate::layer::{LayerSpec, Root, Site, TOOL, ToolFile, Unavailable, Usable, require_program};
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::qcow2::Header;
use crate::vm::qemu::PROGRAM;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// The command that installs QEMU.
const REMEDY: &str = "apt-get install qemu-system-x86";

/// Counting instructions, QEMU's time stamp counter counts the nanoseconds that they stand for.
const ICOUNT_TSC_KHZ: u64 = 1_000_000;

/// Marks a fault of the common parts of guests as one of `qemu`.
pub(super) fn named(fault: Fault) -> Fault {
    fault.during("qemu")
}

/// Looks at what a machine needs.
///
/// # Errors
/// What is missing, and what would help.
pub(super) fn check(room: &Room, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let asked = QemuOptions::read(spec, site.limits)?;
    let tool = tool(spec)?;
    let version = version_of(&tool.path, room).map_err(|it| it.hint(&tool.remedy))?;
    let mut facts = tool.facts(TOOL)?;
    facts.push(Fact::new("qemu_version", version, "--version"));
    let is_image = matches!(site.view.root, Root::Image(_));
    if let Root::Image(path) = &site.view.root {
        Header::open(path).map_err(named)?;
    }
    if site.view.root == Root::Packed {
        Packed::of(site, asked.memory.mib).map_err(named)?;
    } else if asked.files == Protocol::Virtiofs && !is_image {
        let found = Virtiofsd::find(room)?;
        let virtiofsd = found.ok_or_else(virtiofsd::missing)?;
        facts.push(virtiofsd::version_fact(virtiofsd.version));
    }
    asked.firmware.require(asked.vm.board, &tool.path, room)?;
    if let Some(nic) = &asked.vm.nic {
        nic.require(site, room).map_err(named)?;
    }
    if !is_image {
        let found = kernel::find(&asked.need(), site.cache).map_err(named)?;
        let kernel = found.map_or(String::from("not yet here; apt-get will fetch it"), |found| {
            format!("{}, {}", found.release, found.origin)
        });
        facts.push(Fact::new("guest_kernel", kernel, "a look at /boot and our cache"));
        if asked.dom0.is_some() {
            let found =
                xen::cached(site.cache).and_then(|tree| tree.file_name().map(OsStr::to_owned));
            let xen = found.map_or("not yet here; apt-get will fetch it".into(), |version| {
                version.to_string_lossy().into_owned()
            });
            facts.push(Fact::new("xen_version", xen, "a look at our cache"));
        }
    }

    let accelerator = match kvm(&asked, site, room).map_err(named)? {
        Ok(proof) => {
            facts.push(Fact::new("kvm", proof, "a reference guest"));
            Accelerator::Kvm
        }
        Err(why) if asked.accelerator == Some(Accelerator::Kvm) => {
            return Err(Unavailable::new(why, without_kvm(&asked).to_owned()));
        }
        Err(why) => {
            facts.push(Fact::new("kvm", why, "a reference guest"));
            Accelerator::Tcg
        }
    };
    asked.memory.require_huge_pages()?;
    let accelerator = asked.accelerator.unwrap_or(accelerator);
    facts.push(Fact::new("accelerator", accelerator.name(), "the choice for this level"));
    Ok(Usable { facts })
}

/// Exactly one accelerator, decided before the machine is started.
///
/// # Errors
/// The one that was asked for does not work here, or the kernel cannot be booted on the board.
pub(super) fn choose(
    asked: &QemuOptions,
    kernel: Option<&Kernel>,
    site: &Site<'_>,
    room: &Room,
) -> Result<Accelerator, Fault> {
    if let Some(kernel) = kernel
        && asked.vm.board == Board::Microvm
        && !kernel.is_pvh
        && asked.entry.is_none()
    {
        let shown = kernel.image.display();
        return Err(Fault::machine(format!("qemu: `{shown}` holds no kernel with a PVH entry"))
            .hint("use `machine=q35`"));
    }
    // Where nothing else would be taken, the machine itself is the reference guest: it says hello
    // before the deadline, or the start has failed.
    let is_untried = || -> Result<bool, Fault> {
        let is_there = reference_guest::device(site, room).is_ok();
        Ok(is_there && reference_guest::known(site.cache, &qemu_version(room)?).is_none())
    };
    if asked.accelerator == Some(Accelerator::Kvm) && is_untried()? {
        return Ok(Accelerator::Kvm);
    }
    match (kvm(asked, site, room).map_err(named)?, asked.accelerator) {
        (Ok(_), _) => Ok(Accelerator::Kvm),
        (Err(why), Some(Accelerator::Kvm)) => {
            Err(Fault::machine(format!("qemu: {why}")).hint(without_kvm(asked)))
        }
        (Err(_), _) => Ok(Accelerator::Tcg),
    }
}

/// Returns the rate in kHz that a guest must be told of its time stamp counter. Under TCG, it is
/// the rate of this level's counter, unless the guest's time is made of instructions. `None` under
/// KVM, or where the rate is unknown.
///
/// # Errors
/// The rate is unknown, and the guest cannot measure it.
pub(super) fn tsc_for(accelerator: Accelerator, asked: &QemuOptions) -> Result<Option<u64>, Fault> {
    match (accelerator, tsc::khz()) {
        (Accelerator::Kvm, _) => Ok(None),
        (Accelerator::Tcg, _) if asked.icount.is_some() => Ok(Some(ICOUNT_TSC_KHZ)),
        (Accelerator::Tcg, None) if asked.vm.board == Board::Microvm => Err(Fault::machine(
            "qemu: the rate of this level's time stamp counter is unknown, and a \
                 microvm under tcg cannot measure its own",
        )
        .hint("use `machine=q35`")),
        (Accelerator::Tcg, khz) => Ok(khz),
    }
}

/// Returns the advice where KVM was asked for and is not proved.
fn without_kvm(asked: &QemuOptions) -> &'static str {
    if asked.overcommit.cpu_pm {
        "take a machine whose KVM works: under tcg there are no exits that `cpu-pm=on` could avoid"
    } else {
        "use `qemu:accel=tcg`"
    }
}

/// The accelerator for a machine without a kernel of ours: the one that was named, or the best that
/// is proved.
///
/// # Errors
/// KVM was named, and does not work here.
pub(in crate::driver) fn accelerator(
    named: Option<&str>,
    site: &Site<'_>,
    room: &Room,
) -> Result<Accelerator, Fault> {
    let named = named.map(|name| (String::from("accel"), name.to_owned()));
    let spec = LayerSpec { kind: String::from("qemu"), options: named.into_iter().collect() };
    let asked = QemuOptions::read(&spec, &Limits::default())?;
    match (kvm(&asked, site, room)?, asked.accelerator) {
        (Ok(_), _) => Ok(Accelerator::Kvm),
        (Err(why), Some(Accelerator::Kvm)) => {
            Err(Fault::machine(format!("KVM does not work here: {why}")).hint("use `accel=tcg`"))
        }
        (Err(_), _) => Ok(Accelerator::Tcg),
    }
}

/// Tells whether KVM is proved on this level; if not, why. Boots a reference guest if none was
/// tried yet.
fn kvm(asked: &QemuOptions, site: &Site<'_>, room: &Room) -> Result<Result<String, String>, Fault> {
    if asked.accelerator == Some(Accelerator::Tcg) {
        return Ok(Err(String::from("not asked for")));
    }
    if let Err(why) = reference_guest::device(site, room) {
        return Ok(Err(why));
    }
    let version = qemu_version(room)?;
    let known = || reference_guest::known(site.cache, &version);
    if let Some(verdict) = known() {
        return Ok(verdict.as_result());
    }
    // What may have to be fetched is not waited for by others: two that fetch one are in nobody's
    // way.
    let kernel = kernel::acquire(&asked.need(), site.cache, room)?;
    // Who asks at the same time waits for the answer.
    let _turn = reference_guest::turn(site.cache, reference_guest::patience(site))?;
    let verdict = match known() {
        Some(verdict) => verdict,
        None => reference_guest::attempt(&kernel, &version, site, room)?,
    };
    Ok(verdict.as_result())
}

/// Finds the file of QEMU that a layer names, else the one in `PATH`.
///
/// # Errors
/// It is not there. Of one that is named, as [`ToolFile::find`]; and not everybody may execute it,
/// as QEMU's own user has to.
pub(super) fn tool(spec: &LayerSpec) -> Result<ToolFile, Unavailable> {
    let found = ToolFile::find(spec, PROGRAM, REMEDY)?;
    found.named().map_or(Ok(()), lab::require_world_executable)?;
    Ok(found)
}

/// Finds QEMU in `PATH`.
///
/// # Errors
/// It is not there.
pub(super) fn usual() -> Result<PathBuf, Unavailable> {
    require_program(PROGRAM, REMEDY)
}

/// The version of QEMU in `PATH`.
///
/// # Errors
/// It does not say, or is not there.
pub(in crate::driver) fn qemu_version(room: &Room) -> Result<String, Fault> {
    version_of(&usual().map_err(Unavailable::fault)?, room)
}

fn version_of(program: &Path, room: &Room) -> Result<String, Fault> {
    let program = program.display().to_string();
    let question = [&*program, "--version"];
    let ask = || ToolRun::new(&question).text(room);
    let text = tool_version::once(question.map(str::to_owned).to_vec(), ask)?;
    let words = text.lines().next().unwrap_or_default().split_ascii_whitespace();
    let number = words.skip_while(|word| *word != "version").nth(1);
    number.map(String::from).ok_or_else(|| {
        Fault::machine(format!("`{program} --version` says `{}`", text.trim().escape_debug()))
    })
}
