//! QEMU: a whole machine, under KVM where that is proved and else under QEMU's own translator
//! (TCG).
//!
//! surtax (host) ── qemu-system-x86_64 ── vCPU threads ── guest kernel ── agent (PID 1)
//!                └─ virtiofsd ──────────────────────────── root file system
//!
//! - **Needs** `qemu-system-x86_64` 7.2 or later, in `PATH` or by `binary=`; virtiofsd (in C or in
//!   Rust) unless `files=9p`; root; and a kernel: the level's own, or the distribution's, which apt
//!   fetches into our cache.
//! - **Leaves out** network and disks unless asked for, graphics, and the random number device: the
//!   guest's kernel seeds itself from the CPU. Firmware is there, and starts the kernel that QEMU
//!   was given. With `root=image:PATH` a whole system boots instead, with kernel, init and files of
//!   its own.
//! - **Payers** vCPU threads: guest kernel, with the workload in it; QEMU's other threads, the
//!   disk's own, virtiofsd, the vhost workers of this level's kernel and a switch in user space:
//!   hypervisor.
//! - **Checked against** QEMU 7.2.22, virtiofsd 7.2.22 and Linux 6.1.192 of Debian 12.

mod boot;
pub(super) mod check;
mod command_line;
mod confined;
mod evidence;
mod firmware;
mod image;
mod guest_root;
pub(super) mod kvm_proof;
mod memory;
mod partition;
mod reference_guest;
mod request;
mod share;
mod tsc;
mod vcpu;
mod xen;

use super::machine_group::MachineGroup;
use crate::agent::ConsoleTail;
use crate::fault::Fault;
use crate::guest::{Guest, kernel};
use crate::lab::{Jail, Limits, Process, Room};
use crate::layer::{
    BINARY, Descriptor, Exchange, Inner, Layer, LayerSpec, Limit, Need, OF_FILES, Payer, Reach,
    RootKind, Running, Site, Source, StartGuess, Started, TOOL, Unavailable, Usable,
    WorkloadNetwork, impairment, option,
};
use crate::vm::disk;
use crate::vm::nic::{self, NetBackend};
use crate::vm::qemu::{self, PROGRAM};
use crate::vm::qmp::{IoThread, Qmp, VirtualCpu};
use boot::{Booted, boot};
use check::named;
use command_line::Machine;
use guest_root::GuestRoot;
use request::QemuOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use surtax_instrument::wire::{Fact, Role};

/// Time limit for the end of the machine's process when its agent is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Time that QEMU may take to end after it was told to; on a crowded machine, nested, it needs
/// seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A virtual machine by QEMU.
pub struct Qemu;

/// Specs that the doctor asks about.
const VARIANTS: &[&str] = &[
    "qemu:accel=kvm",
    "qemu:accel=tcg",
    "qemu:accel=tcg,machine=q35",
    "qemu:accel=tcg,machine=microvm",
    "qemu:accel=tcg,machine=pc",
    "qemu:accel=tcg,cpu=Nehalem",
    "qemu:accel=tcg,files=virtiofs",
    "qemu:accel=tcg,files=9p",
    "qemu:accel=tcg,root=packed",
    "qemu:accel=tcg,firmware=seabios",
    "qemu:accel=tcg,firmware=qboot",
    "qemu:accel=tcg,firmware=ovmf",
    "qemu:accel=tcg,hypervisor=xen",
    "qemu:accel=tcg,entry=bzimage",
    "qemu:accel=tcg,prealloc=on",
    "qemu:accel=tcg,hugepages=on",
    "qemu:accel=tcg,files=9p,mergeable=on",
    "qemu:accel=tcg,balloon=256M",
    "qemu:accel=tcg,pin=on",
    "qemu:profile=partition",
    "qemu:accel=tcg,scratch=virtio-blk",
    "qemu:accel=tcg,scratch=virtio-blk,iothread=on",
    "qemu:accel=tcg,scratch=virtio-scsi",
    "qemu:accel=tcg,scratch=ide",
    "qemu:accel=tcg,scratch=nvme",
    "qemu:accel=tcg,scratch=virtio-blk,format=raw",
    "qemu:accel=tcg,scratch=virtio-blk,format=qcow2",
    "qemu:accel=tcg,scratch=virtio-blk,format=qcow2-backed",
    "qemu:accel=tcg,scratch=virtio-blk,cache=none",
    "qemu:accel=tcg,scratch=virtio-blk,cache=writeback",
    "qemu:accel=tcg,scratch=virtio-blk,cache=writethrough",
    "qemu:accel=tcg,scratch=virtio-blk,cache=directsync",
    "qemu:accel=tcg,scratch=virtio-blk,cache=unsafe",
    "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=threads",
    "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=native",
    "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=io_uring",
    "qemu:accel=tcg,net=user",
    "qemu:accel=tcg,net=tap",
    "qemu:accel=tcg,net=tap,nic=e1000",
    "qemu:accel=tcg,net=tap,nic=rtl8139",
    "qemu:accel=tcg,net=tap,offloads=off",
    "qemu:accel=tcg,net=tap,queues=2,cpus=2",
    "qemu:accel=tcg,net=tap,vhost=on",
    "qemu:accel=tcg,net=vhost-user",
    "qemu:accel=tcg+runc",
    "qemu:accel=tcg+docker",
    "qemu:accel=tcg+qemu:accel=tcg",
    "qemu:accel=tcg,hypervisor=xen+xen",
    "qemu:accel=tcg,net=ovs",
    "qemu:accel=tcg,net=tap,delay=20ms",
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "qemu",
    rights: |spec| share::rights(spec),
    summary: "a virtual machine with a kernel of its own, by QEMU",
    package: "qemu-system-x86",
    aliases: &[("vm", ""), ("kvm", "accel=kvm")],
    reach: &[
        ("user", Reach::Outward),
        ("tap", Reach::Bridge { joins: true }),
        ("ovs", Reach::Link),
        ("vhost-user", Reach::Bridge { joins: false }),
    ],
    options: &[
        qemu::ACCELERATOR,
        option("machine", &["q35", "pc", "microvm"]).help("the board (default q35)"),
        qemu::CPU_MODEL,
        option("kernel", &[]).path().help(
            "a kernel's file, its modules in ../lib/modules (default: this level's own, else the \
             distribution's for clouds)",
        ),
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
        impairment::DELAY,
        impairment::LOSS,
        impairment::RATE,
        vcpu::IOTHREAD,
        vcpu::PIN,
        memory::PREALLOC,
        memory::HUGEPAGES,
        memory::MERGEABLE,
        memory::BALLOON,
        share::FILES,
        firmware::FIRMWARE,
        firmware::ENTRY,
        partition::MEM_LOCK,
        partition::CPU_PM,
        partition::PROFILE,
        xen::HYPERVISOR,
        xen::DOM0_MEMORY,
        option("icount", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]).help(
            "for experiments with a wrong clock: guest time by instructions, 2^N ns each (tcg and \
             one CPU only)",
        ),
        BINARY,
    ],
    limits: Limit::OF_A_MACHINE,
    holds_layers: true,
    both_ways: &["tap"],
    roots: &[
        RootKind::Overlay,
        RootKind::Directory,
        RootKind::Oci,
        RootKind::Image,
        RootKind::Packed,
    ],
    start_guess: StartGuess { milliseconds: 2_500, translated_milliseconds: 10_000 },
    may_prove_kvm: |_| true,
    translates: |spec| spec.says("accel", "tcg"),
    exchanges: &[
        Exchange {
            option: ("accel", "kvm"),
            instead: "the CPU itself runs its instructions",
            causes: &["own_code", "page_fault_minor", "context_switch", "fork_exec_wait"],
        },
        Exchange {
            option: ("files", "9p"),
            instead: "files come by 9p, and not by virtiofs",
            causes: OF_FILES,
        },
        Exchange {
            option: ("root", "packed"),
            instead: "its files are in its memory from the start",
            causes: OF_FILES,
        },
    ],
    variants: VARIANTS,
    needs: |_| &[Need::FileServer],
    ..Descriptor::MACHINE
};

impl Layer for Qemu {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn refuse(
        &self,
        spec: &LayerSpec,
        limits: &Limits,
        inside: Option<Inner<'_>>,
    ) -> Result<(), Fault> {
        let asked = QemuOptions::read_anywhere(spec, limits)?;
        let has_none = |inside: &Inner<'_>| asked.dom0.is_none() && inside.needs(Need::Xen);
        match inside.filter(has_none) {
            Some(Inner { spec: inside, .. }) => {
                let kind = &inside.kind;
                Err(Fault::user(format!(
                    "qemu: no Xen runs in this machine for the `{kind}` inside it"
                ))
                .hint(format!("write `qemu:hypervisor=xen+{inside}`")))
            }
            None => Ok(()),
        }
    }

    fn files(&self, spec: &LayerSpec) -> Vec<PathBuf> {
        kernel::files(spec, &DESCRIPTOR)
    }

    /// Changes nothing but our own cache: where KVM might be usable, a reference guest is booted
    /// once per boot of this level, and the kernel for it is fetched if there is none.
    fn check(&self, spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
        // The doctor asks about several at the same time, and layers that need what this one needs.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let room = site.lab.room(&format!("check-qemu-{number}"))?;
        let checked = check::check(&room, spec, site);
        let closed = room.close().map_err(Unavailable::from);
        let usable = checked?;
        closed.map(|_| usable)
    }

    fn start(&self, spec: &LayerSpec, site: &Site<'_>, room: &Room) -> Result<Started, Fault> {
        let mut asked = QemuOptions::read(spec, site.limits)?;
        asked.vm.nic = asked.vm.nic.map(|nic| nic.beside(site.network));
        asked.memory.require_huge_pages()?;
        let tool = check::tool(spec).map_err(|it| named(it.fault()))?;
        asked.firmware.require(asked.vm.board, &tool.path, room)?;
        asked.vm.nic.as_ref().map_or(Ok(()), |nic| nic.require(site, room)).map_err(named)?;
        let kernel = GuestRoot::kernel(&asked, site, room).map_err(named)?;
        let accelerator = check::choose(&asked, kernel.as_ref(), site, room)?;
        let group = MachineGroup::make(site, room)?;
        let mut inside =
            GuestRoot::prepare(&asked, kernel, site, room, group.path()).map_err(named)?;
        let mut nic = asked.vm.nic.clone();
        let wires = nic.as_mut().map(|nic| nic.make(site, room, group.path())).transpose();
        let mut wires = wires.map_err(named)?.unwrap_or_default();
        let machine = Machine {
            program: tool.path.display().to_string(),
            accelerator,
            board: asked.vm.board,
            cpus: asked.vm.cpus,
            cpu: asked.cpu.clone(),
            pinned: asked.pinned.clone(),
            memory: asked.memory,
            overcommit: asked.overcommit,
            firmware: asked.firmware,
            boots: inside.boots.clone(),
            tsc_khz: check::tsc_for(accelerator, &asked)?,
            icount: asked.icount,
            files: inside.offer().map(|offer| offer.share.clone()),
            disk: asked.vm.disk.clone().map(|disk| disk.make(room)).transpose().map_err(named)?,
            nic,
        };
        let console = ConsoleTail::new();
        let served = inside.offer().map(|offer| std::mem::take(&mut offer.mounts));
        let (machine, jail) = machine.within(served.unwrap_or_default(), room)?;
        let place = (group.path(), &jail);
        let mut guest = boot(&machine, &mut wires, room, place, &console)
            .map_err(|fault| Fault { message: fault.message + &inside.words(), ..fault })?;
        let has_iothread = asked.vm.disk.as_ref().is_some_and(|disk| disk.iothread);
        let iothread = vcpu::iothread(&mut guest.qmp, has_iothread)?;
        let who = "vCPUs, QEMU's other threads and virtiofsd";
        inside.facts.extend(group.prove(guest.process.pid(), who, site)?);
        inside.facts.extend(tool.facts(TOOL)?);
        let Booted { process, qmp, cpus, link } = guest;
        let patience = site.start_deadline;
        let running = RunningQemu {
            qmp,
            process,
            inside,
            cpus,
            iothread,
            wires,
            machine,
            patience,
            _jail: jail,
        };
        Ok(Started::new(link, running))
    }
}

/// A machine that runs.
struct RunningQemu {
    qmp: Qmp,
    process: Process,
    inside: GuestRoot,
    cpus: Vec<VirtualCpu>,
    iothread: Option<IoThread>,
    wires: NetBackend,
    machine: Machine,
    /// Time limit for what the machine does by itself.
    patience: Duration,
    /// QEMU's user is nobody else's as long as it runs.
    _jail: Jail,
}

impl Running for RunningQemu {
    fn payers(&self) -> Vec<Payer> {
        let pid = self.process.pid();
        let tids: Vec<u32> = self.cpus.iter().map(|cpu| cpu.thread_id).collect();
        let iothread = self.iothread.iter().map(|thread| thread.thread_id).collect::<Vec<_>>();
        let (vhost, kernel_threads) = match &self.machine.nic {
            Some(_) => nic::vhost_workers(pid),
            None => (Vec::new(), Vec::new()),
        };
        let except = [&tids[..], &iothread, &vhost].concat();
        let hypervisor = |name: &str, source| Payer::new(name, Role::Hypervisor, source);
        let mut payers = vec![
            Payer::new("vCPU threads", Role::GuestKernel, Source::Threads { pid, tids })
                .carrying(true),
            hypervisor("QEMU's other threads", Source::OtherThreads { pid, except }),
        ];
        payers.extend(self.inside.guest.iter().flat_map(Guest::payers_of_files));
        for (name, tids) in [("the disk's I/O thread", iothread), ("vhost workers", vhost)] {
            if !tids.is_empty() {
                payers.push(hypervisor(name, Source::Threads { pid, tids }));
            }
        }
        let daemons = self.wires.daemons().into_iter();
        payers.extend(daemons.map(|(name, pid)| hypervisor(name, Source::Process(pid))));
        let workers = kernel_threads.into_iter();
        payers.extend(workers.map(|pid| hypervisor("vhost worker", Source::Process(pid))));
        payers
    }

    fn network(&self) -> Option<WorkloadNetwork> {
        self.machine.nic.as_ref().map(|nic| nic.network(self.process.pid()))
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let pid = self.process.pid();
        let threads = (pid, self.cpus.as_slice());
        let mut facts =
            evidence::of_machine(&mut self.qmp, threads, &self.machine, inside, self.patience)?;
        facts.extend(evidence::of_start(
            (&mut self.qmp, pid),
            &self.inside,
            &self.machine,
            inside,
        )?);
        if let Some(guest) = &self.inside.guest {
            facts.extend(guest.prove_files(inside).map_err(named)?);
        }
        if let Some(disk) = &self.machine.disk {
            facts
                .extend(disk.prove(&mut self.qmp, pid, self.machine.board, inside).map_err(named)?);
            let word = if self.iothread.is_some() { "on" } else { "off" };
            facts.push(Fact::new("disk_iothread", word, "query-iothreads"));
        }
        match &self.machine.nic {
            Some(nic) => {
                let bus = self.machine.board.bus();
                let seen = nic.prove(&mut self.qmp, pid, &self.wires, bus, inside);
                facts.extend(seen.map_err(named)?);
            }
            None => facts.push(Fact::new("network", "none", "the command line")),
        }
        facts.append(&mut self.inside.facts);
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        let signal = self.process.wait(LAST_WORDS).ok().flatten()?.signal()?;
        Some(format!("`{PROGRAM}` itself was ended by signal {signal}"))
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        self.qmp.quit();
        let ended = self.process.wait(STOP_DEADLINE)?;
        if ended.is_none() {
            self.process.kill()?;
        }
        self.wires.stop().map_err(named)?;
        self.inside.guest.as_mut().map_or(Ok(()), Guest::stop_servers)?;
        match ended {
            Some(_) => Ok(()),
            None => Err(Fault::machine("qemu: it did not end when told to and was killed")),
        }
    }
}
