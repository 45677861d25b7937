//! QEMU: a whole machine, under KVM where that is proved and else under QEMU's own translator (TCG).
//!
//! surtax (host) ── qemu-system-x86_64 ── vCPU threads ── guest kernel ── agent (PID 1)
//!                └─ virtiofsd ──────────────────────────── root file system
//!
//! - **Needs** `qemu-system-x86_64` 7.2 or later, virtiofsd (in C or in Rust), root, and a kernel: the
//!   level's own, or the distribution's for clouds, which apt fetches into our cache.
//! - **Leaves out** network, disks, graphics, firmware where the kernel has a PVH entry, and the
//!   random number device: the guest's kernel seeds itself from the CPU.
//! - **Payers** vCPU threads: guest kernel, with the workload in it; QEMU's other threads and
//!   virtiofsd: hypervisor.
//! - **Checked against** QEMU 7.2.22, virtiofsd 7.2.22 and Linux 6.1.192 of Debian 12.

mod apt;
mod boot;
pub(super) mod command_line;
mod disk;
mod elf;
pub(super) mod evidence;
mod initramfs;
mod inside;
pub(super) mod kernel;
mod modules;
mod packed;
pub(super) mod qmp;
mod reference_guest;
pub(super) mod request;
mod tsc;
mod unpack;
mod virtiofsd;

use super::errand::{self, Errand};
use super::first_process::{FirstProcess, limited_together};
use super::{Card, Choice, Layer, Limit, Payer, Root, Running, Site, Source, Unavailable, Usable};
use crate::agent::{ConsoleTail, Link};
use crate::fault::Fault;
use crate::lab::{Process, Room};
use crate::stack::{LayerSpec, Limits};
use boot::{Guest, boot};
use command_line::{Accelerator, Board, Machine, PROGRAM};
use inside::Inside;
use kernel::Kernel;
use packed::Packed;
use qmp::{Qmp, VirtualCpu};
use request::Asked;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use surtax_instrument::wire::{Fact, Role};
use virtiofsd::Virtiofsd;

/// How long the end of the machine's process is waited for when its agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long QEMU may take to end after it was told to; on a crowded machine, nested, it needs seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// How long virtiofsd may take to notice that QEMU has ended.
const FILES_STOP_DEADLINE: Duration = Duration::from_secs(1);

/// Counting instructions, QEMU's time stamp counter counts the nanoseconds that they stand for.
const ICOUNT_TSC_KHZ: u64 = 1_000_000;

/// A virtual machine by QEMU.
pub struct Qemu;

static CARD: Card = Card {
    kind: "qemu",
    summary: "a virtual machine with a kernel of its own, by QEMU",
    options: &[
        Choice {
            key: "accel",
            values: &["kvm", "tcg"],
            help: "who runs its instructions (default: kvm where a reference guest proved it, else tcg)",
        },
        Choice {
            key: "machine",
            values: &["q35", "pc", "microvm"],
            help: "the board (default q35)",
        },
        Choice {
            key: "cpu",
            values: &[],
            help: "the CPU model, as `qemu-system-x86_64 -cpu help` lists them (default: host under kvm, \
                   max under tcg)",
        },
        Choice {
            key: "kernel",
            values: &[],
            help: "a kernel's file, its modules in ../lib/modules (default: this level's own, \
                   else the distribution's for clouds)",
        },
        disk::MEDIA,
        disk::FORMAT,
        disk::CACHE,
        disk::AIO,
        disk::DISK_SIZE,
        Choice {
            key: "icount",
            values: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"],
            help: "for experiments with a wrong clock: guest time by instructions, 2^N ns each (tcg and one CPU only)",
        },
    ],
    subject: None,
    limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Weight, Limit::Numa, Limit::Io],
    holds_layers: true,
    elsewhere: false,
    ran_on_hardware: false,
};

impl Layer for Qemu {
    fn card(&self) -> &'static Card {
        &CARD
    }

    /// Changes nothing but our own cache: where KVM might be usable, a reference guest is booted
    /// once per boot of this level, and the kernel for it is fetched if there is none.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        if !rustix::process::geteuid().is_root() {
            let why = "this machine's files can only be shown to a guest by root";
            let remedy = Some(String::from("sudo surtax …"));
            return Err(Unavailable { why: why.to_owned(), remedy });
        }
        // The doctor asks for each accelerator at the same time, and for the packed root too.
        let name = spec.options.get("accel").map_or("any", String::as_str);
        let root = if site.view.root == Root::Packed { "-packed" } else { "" };
        let room = site.lab.room(&format!("qemu-check-{name}{root}")).map_err(unavailable)?;
        let checked = check_in(&room, spec, site);
        let closed = room.close().map_err(unavailable);
        let usable = checked?;
        closed.map(|_| usable)
    }

    fn start(
        &self,
        spec: &LayerSpec,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Box<dyn Running>, Fault> {
        let asked = Asked::read(spec, site.limits)?;
        let kernel = kernel::acquire(asked.kernel.as_deref(), site.cache, room)?;
        let accelerator = choose(&asked, &kernel, site, room)?;
        // CPUs and memory are the machine's own; all else is a matter of its group.
        let placed = Limits { cpu_millis: None, memory: None, ..site.limits.clone() };
        let is_limited = placed != Limits::default();
        let group = is_limited.then(|| room.subgroup("machine", &placed)).transpose()?;
        let mut inside = Inside::prepare(&asked, &kernel, site, room, group.as_deref())?;
        let machine = Machine {
            accelerator,
            board: asked.board,
            cpus: asked.cpus,
            cpu: asked.cpu.clone(),
            memory_mib: asked.memory_mib,
            kernel: kernel.image.clone(),
            initramfs: inside.initramfs.path.clone(),
            tsc_khz: tsc_for(accelerator, &asked)?,
            icount: asked.icount,
            files: inside.files.as_ref().map(|files| files.socket.clone()),
            disk: asked.disk.clone().map(|disk| disk.make(room)).transpose()?,
        };
        let console = ConsoleTail::new();
        let words = || inside.files.as_ref().map(|files| files.words.quote()).unwrap_or_default();
        let guest = boot(&machine, room, group.as_deref(), &console)
            .map_err(|fault| Fault { message: fault.message + &words(), ..fault })?;
        let facts = &mut inside.facts;
        if let Some(group) = &group {
            let qemu = FirstProcess::of(guest.process.pid(), site.lab.hierarchies());
            facts.push(qemu.group_is(group)?);
            facts.extend(qemu.limits(group, &placed)?);
            facts.push(limited_together("vCPUs, QEMU's other threads and virtiofsd"));
        }
        Ok(Box::new(RunningQemu::new(guest, inside, machine, kernel)))
    }
}

/// A machine that runs.
struct RunningQemu {
    link: Option<Link>,
    qmp: Qmp,
    process: Process,
    inside: Inside,
    cpus: Vec<VirtualCpu>,
    machine: Machine,
    kernel: Kernel,
}

impl RunningQemu {
    fn new(guest: Guest, inside: Inside, machine: Machine, kernel: Kernel) -> Self {
        let Guest { process, qmp, cpus, link } = guest;
        Self { link: Some(link), qmp, process, inside, cpus, machine, kernel }
    }
}

impl Running for RunningQemu {
    fn link(&mut self) -> Result<Link, Fault> {
        self.link.take().ok_or_else(|| Fault::bug("the link of `qemu` was taken twice"))
    }

    fn payers(&self) -> Vec<Payer> {
        let pid = self.process.pid();
        let tids: Vec<u32> = self.cpus.iter().map(|cpu| cpu.thread_id).collect();
        let mut payers = vec![
            Payer {
                name: String::from("vCPU threads"),
                role: Role::GuestKernel,
                source: Source::Threads { pid, tids: tids.clone() },
                carries_workload: true,
            },
            Payer {
                name: String::from("QEMU's other threads"),
                role: Role::Hypervisor,
                source: Source::OtherThreads { pid, except: tids },
                carries_workload: false,
            },
        ];
        payers.extend(self.inside.files.as_ref().map(|files| Payer {
            name: String::from("virtiofsd"),
            role: Role::Hypervisor,
            source: Source::Process(files.process.pid()),
            carries_workload: false,
        }));
        payers
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = evidence::of_machine(&mut self.qmp, &self.cpus, &self.machine, inside)?;
        facts.extend(evidence::of_kernel(&self.kernel, &self.machine, inside)?);
        if let Some(disk) = &self.machine.disk {
            let pid = self.process.pid();
            facts.extend(disk.prove(&mut self.qmp, pid, self.machine.board, inside)?);
        }
        if let Some(packed) = &self.inside.packed {
            facts.extend(packed.prove(self.inside.initramfs.module_count, inside)?);
        }
        facts.append(&mut self.inside.facts);
        Ok(facts)
    }

    fn obituary(&mut self) -> Option<String> {
        let signal = self.process.wait(LAST_WORDS).ok().flatten()?.signal()?;
        Some(format!("`{PROGRAM}` itself was ended by signal {signal}"))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        drop(self.link.take());
        self.qmp.quit();
        let ended = self.process.wait(STOP_DEADLINE)?;
        if ended.is_none() {
            self.process.kill()?;
        }
        if let Some(files) = &mut self.inside.files
            && files.process.wait(FILES_STOP_DEADLINE)?.is_none()
        {
            files.process.kill()?;
        }
        match ended {
            Some(_) => Ok(()),
            None => Err(Fault::machine("qemu: it did not end when told to and was killed")),
        }
    }
}

fn check_in(room: &Room, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let asked = Asked::read(spec, site.limits).map_err(unavailable)?;
    if crate::lab::find(PROGRAM).is_none() {
        return Err(Unavailable {
            why: format!("`{PROGRAM}` is not in `PATH`"),
            remedy: Some(String::from("apt-get install qemu-system-x86")),
        });
    }
    let version = qemu_version(room).map_err(unavailable)?;
    let mut facts = vec![Fact::new("qemu_version", version, "qemu-system-x86_64 --version")];
    if site.view.root == Root::Packed {
        Packed::of(site, asked.memory_mib, room).map_err(unavailable)?;
    } else {
        let virtiofsd = Virtiofsd::find(room).map_err(unavailable)?.ok_or_else(no_virtiofsd)?;
        facts.push(Fact::new("virtiofsd_version", virtiofsd.version, "virtiofsd --version"));
    }
    let found = kernel::find(asked.kernel.as_deref(), site.cache).map_err(unavailable)?;
    let kernel = found.map_or(String::from("not yet here; apt-get will fetch it"), |found| {
        format!("{}, {}", found.release, found.origin)
    });
    facts.push(Fact::new("guest_kernel", kernel, "a look at /boot and our cache"));

    let accelerator = match kvm(asked.accelerator, asked.kernel.as_deref(), site, room)
        .map_err(unavailable)?
    {
        Ok(proof) => {
            facts.push(Fact::new("kvm", proof, "a reference guest"));
            Accelerator::Kvm
        }
        Err(why) if asked.accelerator == Some(Accelerator::Kvm) => {
            return Err(Unavailable { why, remedy: Some(String::from("use `qemu:accel=tcg`")) });
        }
        Err(why) => {
            facts.push(Fact::new("kvm", why, "a reference guest"));
            Accelerator::Tcg
        }
    };
    let accelerator = asked.accelerator.unwrap_or(accelerator);
    facts.push(Fact::new("accelerator", accelerator.name(), "the choice for this level"));
    Ok(Usable { facts })
}

/// Whether KVM is proved on this level; if not, why. Boots a reference guest if none was tried yet.
pub(super) fn kvm(
    asked: Option<Accelerator>,
    kernel: Option<&str>,
    site: &Site<'_>,
    room: &Room,
) -> Result<Result<String, String>, Fault> {
    if asked == Some(Accelerator::Tcg) {
        return Ok(Err(String::from("not asked for")));
    }
    if let Err(why) = reference_guest::device(site, room) {
        return Ok(Err(why));
    }
    let version = qemu_version(room)?;
    let verdict = match reference_guest::known(site.cache, &version) {
        Some(verdict) => verdict,
        None => {
            let kernel = kernel::acquire(kernel, site.cache, room)?;
            reference_guest::attempt(&kernel, &version, site, room)?
        }
    };
    Ok(verdict.as_result())
}

/// Exactly one accelerator, decided before the machine is started.
fn choose(
    asked: &Asked,
    kernel: &Kernel,
    site: &Site<'_>,
    room: &Room,
) -> Result<Accelerator, Fault> {
    if asked.board == Board::Microvm && !kernel.is_pvh {
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
    match (kvm(asked.accelerator, asked.kernel.as_deref(), site, room)?, asked.accelerator) {
        (Ok(_), _) => Ok(Accelerator::Kvm),
        (Err(why), Some(Accelerator::Kvm)) => {
            Err(Fault::machine(format!("qemu: {why}")).hint("use `accel=tcg`"))
        }
        (Err(_), _) => Ok(Accelerator::Tcg),
    }
}

/// What a guest must be told of its time stamp counter: under TCG, the rate of this level's, unless
/// its time is made of instructions.
fn tsc_for(accelerator: Accelerator, asked: &Asked) -> Result<Option<u64>, Fault> {
    match (accelerator, tsc::khz()) {
        (Accelerator::Kvm, _) => Ok(None),
        (Accelerator::Tcg, _) if asked.icount.is_some() => Ok(Some(ICOUNT_TSC_KHZ)),
        (Accelerator::Tcg, None) if asked.board == Board::Microvm => Err(Fault::machine(
            "qemu: the rate of this level's time stamp counter is unknown, and a \
                 microvm under tcg cannot measure its own",
        )
        .hint("use `machine=q35`")),
        (Accelerator::Tcg, khz) => Ok(khz),
    }
}

/// The version of QEMU in `PATH`.
pub(super) fn qemu_version(room: &Room) -> Result<String, Fault> {
    let text = Errand::new(&[PROGRAM, "--version"]).text(room)?;
    let words = text.lines().next().unwrap_or_default().split_ascii_whitespace();
    let number = words.skip_while(|word| *word != "version").nth(1);
    number.map(String::from).ok_or_else(|| {
        Fault::machine(format!("`{PROGRAM} --version` says `{}`", text.trim().escape_debug()))
    })
}

fn no_virtiofsd() -> Unavailable {
    Unavailable {
        why: String::from("virtiofsd, which serves files to the guest, is not installed"),
        // Until Debian 12 it came with QEMU; from Debian 13 on it is a package of its own.
        remedy: Some(String::from("apt-get install qemu-system-common virtiofsd")),
    }
}

pub(super) fn unavailable(fault: Fault) -> Unavailable {
    Unavailable { why: fault.message, remedy: fault.hint }
}
