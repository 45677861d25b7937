//! QEMU: a whole machine, under KVM where that is proved and else under QEMU's own translator (TCG).
//!
//! surtax (host) ── qemu-system-x86_64 ── vCPU threads ── guest kernel ── agent (PID 1)
//!                └─ virtiofsd ──────────────────────────── root file system
//!
//! - **Needs** `qemu-system-x86_64` 7.2 or later, virtiofsd (in C or in Rust), root, and a kernel: the
//!   level's own, or the distribution's for clouds, which apt fetches into our cache.
//! - **Leaves out** network and disks unless asked for, graphics, firmware where the kernel has a PVH entry, and the
//!   random number device: the guest's kernel seeds itself from the CPU.
//! - **Payers** vCPU threads: guest kernel, with the workload in it; QEMU's other threads, virtiofsd, the
//!   vhost workers of this level's kernel and a switch in user space: hypervisor.
//! - **Checked against** QEMU 7.2.22, virtiofsd 7.2.22 and Linux 6.1.192 of Debian 12.

mod apt;
mod boot;
mod command_line;
mod disk;
mod elf;
mod evidence;
mod initramfs;
mod kernel;
mod modules;
mod nic;
mod qmp;
mod reference_guest;
mod request;
mod switch;
mod tsc;
mod unpack;
mod virtiofsd;

use super::errand::{self, Errand};
use super::first_process::{FirstProcess, limited_together};
use super::{
    Card, Choice, Layer, Limit, Network, Payer, Running, Site, Source, Unavailable, Usable, scratch,
};
use crate::agent::{ConsoleTail, Link};
use crate::fault::{Doing, Fault};
use crate::lab::{Process, Room};
use crate::stack::{LayerSpec, Limits, root};
use boot::{Guest, boot};
use command_line::{Accelerator, Board, Machine, PROGRAM};
use kernel::Kernel;
use nic::{Nic, Wires};
use qmp::{Qmp, VirtualCpu};
use request::Asked;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;
use surtax_instrument::wire::{Fact, Role, SCRATCH};
use virtiofsd::{Served, Serving, Virtiofsd};

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
        nic::NET,
        nic::NIC,
        nic::VHOST,
        nic::OFFLOADS,
        nic::QUEUES,
        Choice {
            key: "icount",
            values: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"],
            help: "for experiments with a wrong clock: guest time by instructions, 2^N ns each (tcg and one CPU only)",
        },
    ],
    subject: None,
    limits: &[
        Limit::Cpus,
        Limit::Cpuset,
        Limit::Memory,
        Limit::Weight,
        Limit::Numa,
        Limit::Io,
        Limit::Partition,
    ],
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
        // The doctor asks about several at the same time.
        let options: Vec<String> =
            spec.options.iter().map(|(key, value)| format!("{key}-{value}")).collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = format!("qemu-check-{}", options.join("-")).replace(|c| !is_plain(c), "_");
        let room = site.lab.room(&name).map_err(unavailable)?;
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
        asked.nic.as_ref().map_or(Ok(()), |nic| nic.require(site, room))?;
        let kernel = kernel::acquire(&asked.need(), site.cache, room)?;
        let accelerator = choose(&asked, &kernel, site, room)?;
        // CPUs and memory are the machine's own; all else is a matter of its group.
        let placed = Limits { cpu_millis: None, memory: None, ..site.limits.clone() };
        let is_limited = placed != Limits::default();
        let group = is_limited.then(|| room.subgroup("machine", &placed)).transpose()?;
        let mut nic = asked.nic.clone();
        let wires = nic.as_mut().map(|nic| nic.make(site, room, group.as_deref())).transpose()?;
        let mut wires = wires.unwrap_or_default();
        let virtiofsd = Virtiofsd::find(room)?.ok_or_else(|| {
            let missing = no_virtiofsd();
            let fault = Fault::machine(format!("qemu: {}", missing.why));
            fault.hint(missing.remedy.unwrap_or_default())
        })?;
        let lowers = root::lowers(&site.view.root, site.cache)?;
        let base = lowers.first().ok_or_else(|| Fault::bug("a merged root is made of nothing"))?;
        let writable = writable(site, room)?;
        let served =
            Served { root: &base.source, modules: &kernel.found.modules, writable: &writable };
        let files = virtiofsd.serve(&served, room, group.as_deref())?;
        let machine = Machine {
            accelerator,
            board: asked.board,
            cpus: asked.cpus,
            cpu: asked.cpu.clone(),
            memory_mib: asked.memory_mib,
            kernel: kernel.image.clone(),
            initramfs: write_initramfs(&asked, &kernel, site, room)?,
            tsc_khz: tsc_for(accelerator, &asked)?,
            icount: asked.icount,
            files: Some(files.socket.clone()),
            disk: asked.disk.clone().map(|disk| disk.make(room)).transpose()?,
            nic,
        };
        let console = ConsoleTail::new();
        let guest = boot(&machine, &mut wires, room, group.as_deref(), &console)
            .map_err(|fault| Fault { message: fault.message + &files.words.quote(), ..fault })?;
        let mut facts = root::facts(&site.view.root, &lowers);
        facts.push(Fact::new("virtiofsd_version", virtiofsd.version, "virtiofsd --version"));
        if let Some(group) = &group {
            let qemu = FirstProcess::of(guest.process.pid(), site.lab.hierarchies());
            facts.push(qemu.group_is(group)?);
            facts.extend(qemu.limits(group, &placed)?);
            facts.push(limited_together("vCPUs, QEMU's other threads and virtiofsd"));
        }
        let Guest { process, qmp, cpus, link } = guest;
        let link = Some(link);
        Ok(Box::new(RunningQemu { link, qmp, process, files, cpus, wires, machine, kernel, facts }))
    }
}

/// A machine that runs.
struct RunningQemu {
    link: Option<Link>,
    qmp: Qmp,
    process: Process,
    files: Serving,
    cpus: Vec<VirtualCpu>,
    wires: Wires,
    machine: Machine,
    kernel: Kernel,
    facts: Vec<Fact>,
}

impl Running for RunningQemu {
    fn link(&mut self) -> Result<Link, Fault> {
        self.link.take().ok_or_else(|| Fault::bug("the link of `qemu` was taken twice"))
    }

    fn payers(&self) -> Vec<Payer> {
        let pid = self.process.pid();
        let tids: Vec<u32> = self.cpus.iter().map(|cpu| cpu.thread_id).collect();
        let (tasks, kernel_threads) = match &self.machine.nic {
            Some(_) => nic::vhost_workers(pid),
            None => (Vec::new(), Vec::new()),
        };
        let except = [tids.clone(), tasks.clone()].concat();
        let hypervisor = |name: &str, source| Payer {
            name: name.to_owned(),
            role: Role::Hypervisor,
            source,
            carries_workload: false,
        };
        let mut payers = vec![
            Payer {
                name: String::from("vCPU threads"),
                role: Role::GuestKernel,
                source: Source::Threads { pid, tids },
                carries_workload: true,
            },
            hypervisor("QEMU's other threads", Source::OtherThreads { pid, except }),
            hypervisor("virtiofsd", Source::Process(self.files.process.pid())),
        ];
        if !tasks.is_empty() {
            payers.push(hypervisor("vhost workers", Source::Threads { pid, tids: tasks }));
        }
        if let Some(switch) = &self.wires.switch {
            payers.push(hypervisor(switch::PROGRAM, Source::Process(switch.process.pid())));
        }
        let workers = kernel_threads.into_iter();
        payers.extend(workers.map(|pid| hypervisor("vhost worker", Source::Process(pid))));
        payers
    }

    fn network(&self) -> Option<Network> {
        self.machine.nic.as_ref().map(|nic| nic.network(self.process.pid()))
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = evidence::of_machine(&mut self.qmp, &self.cpus, &self.machine, inside)?;
        facts.extend(evidence::of_kernel(&self.kernel, &self.machine, inside)?);
        if let Some(disk) = &self.machine.disk {
            let pid = self.process.pid();
            facts.extend(disk.prove(&mut self.qmp, pid, self.machine.board, inside)?);
        }
        match &self.machine.nic {
            Some(nic) => {
                let (pid, bus) = (self.process.pid(), self.machine.board.bus());
                facts.extend(nic.prove(&mut self.qmp, pid, &self.wires, bus, inside)?);
            }
            None => facts.push(Fact::new("network", "none", "the command line")),
        }
        facts.append(&mut self.facts);
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
        self.wires.switch.take().map_or(Ok(()), switch::Switch::stop)?;
        if self.files.process.wait(FILES_STOP_DEADLINE)?.is_none() {
            self.files.process.kill()?;
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
    let virtiofsd = Virtiofsd::find(room).map_err(unavailable)?.ok_or_else(no_virtiofsd)?;
    let mut facts = vec![
        Fact::new("qemu_version", version, "qemu-system-x86_64 --version"),
        Fact::new("virtiofsd_version", virtiofsd.version, "virtiofsd --version"),
    ];
    if let Some(nic) = &asked.nic {
        nic.require(site, room).map_err(unavailable)?;
    }
    let found = kernel::find(&asked.need(), site.cache).map_err(unavailable)?;
    let kernel = found.map_or(String::from("not yet here; apt-get will fetch it"), |found| {
        format!("{}, {}", found.release, found.origin)
    });
    facts.push(Fact::new("guest_kernel", kernel, "a look at /boot and our cache"));

    let accelerator = match kvm(&asked, site, room).map_err(unavailable)? {
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
fn kvm(asked: &Asked, site: &Site<'_>, room: &Room) -> Result<Result<String, String>, Fault> {
    if asked.accelerator == Some(Accelerator::Tcg) {
        return Ok(Err(String::from("not asked for")));
    }
    if let Err(why) = reference_guest::device(site, room) {
        return Ok(Err(why));
    }
    let version = qemu_version(room)?;
    let verdict = match reference_guest::known(site.cache, &version) {
        Some(verdict) => verdict,
        None => {
            let kernel = kernel::acquire(&asked.need(), site.cache, room)?;
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
    match (kvm(asked, site, room)?, asked.accelerator) {
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

/// The directories of this level that a guest may write to, in the order in which it mounts them.
fn writable(site: &Site<'_>, room: &Room) -> Result<Vec<PathBuf>, Fault> {
    let mut writable = site.view.writable.clone();
    writable.extend(scratch::bound(site.view, room)?);
    Ok(writable)
}

/// Puts the agent, its modules and its script where QEMU finds them.
fn write_initramfs(
    asked: &Asked,
    kernel: &Kernel,
    site: &Site<'_>,
    room: &Room,
) -> Result<PathBuf, Fault> {
    let mut writable = Vec::new();
    for path in &site.view.writable {
        let real = fs::canonicalize(path).doing(format_args!("find `{}`", path.display()))?;
        initramfs::check_writable(&real)?;
        writable.push(real);
    }
    let scratch = site.view.scratch;
    if scratch == Some(scratch::Medium::Bind) {
        writable.push(PathBuf::from(SCRATCH));
    }
    let modules = asked.drivers();
    let network = asked.nic.as_ref().map(Nic::addresses);
    let release = kernel.found.release.clone();
    let files = initramfs::Files { release, writable, scratch, modules, network };
    initramfs::write(room, site.agent, kernel, asked.board, Some(&files))
}

fn qemu_version(room: &Room) -> Result<String, Fault> {
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

fn unavailable(fault: Fault) -> Unavailable {
    Unavailable { why: fault.message, remedy: fault.hint }
}
