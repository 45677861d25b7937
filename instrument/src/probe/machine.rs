//! Use of a whole machine by its own kernel's account: CPU time by kind, waiting, memory, paging,
//! and what its network links carried.
//!
//! | ours | the kernel's |
//! |---|---|
//! | CPU time by kind, interrupts, context switches | `/proc/stat`: `cpu`, `intr`, `ctxt` |
//! | time in which somebody waited | `/proc/pressure/{cpu,io,memory}`: `total` of each line |
//! | memory in use | `/proc/meminfo`: `MemTotal` without `MemAvailable` |
//! | its parts | the same: `AnonPages`; `Buffers` and `Cached` without `Shmem`; `Shmem`; `Slab`, `KernelStack` and `PageTables`, the last also alone |
//! | merged memory | `/sys/kernel/mm/ksm/pages_sharing`, where merging is on |
//! | page faults, disks | `/proc/vmstat`: `pgfault`, `pgmajfault`; `pgpgin` and `pgpgout`, which are in KiB |
//! | links | `/proc/net/dev` of the network namespace in which it was opened, of those with a `device` in `/sys/class/net` |
//!
//! - **Reads** all since boot. CPU time is in steps of 10 ms. User time has that of nice work and
//!   of virtual CPUs in it, of which each is told apart, too; interrupts are beside system time.
//! - **Costs** one `pread` for each of seven files that are held open, and one for each link.
//! - **Cannot see** who used it, nor what the machine below did but for what that calls stolen.
//! - **Reference** `proc_stat(5)`, `proc_meminfo(5)`, Linux `Documentation/accounting/psi.rst`.

use super::host::Pressure;
use crate::amount::{
    Amounts, CONTEXT_SWITCHES, CPU_GUEST, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ,
    CPU_STEAL, CPU_SYSTEM, CPU_USER, DISK_READ, DISK_WRITTEN, INTERRUPTS, MAJOR_FAULTS,
    MEMORY_ANON, MEMORY_KERNEL, MEMORY_MERGED, MEMORY_PAGE_CACHE, MEMORY_PAGE_TABLES, MEMORY_SHMEM,
    MEMORY_USED, NETWORK_RECEIVED, NETWORK_SENT, PACKETS_RECEIVED, PACKETS_SENT, PAGE_FAULTS,
    PRESSURE_CPU_SOME, PRESSURE_IO_FULL, PRESSURE_IO_SOME, PRESSURE_MEMORY_FULL,
    PRESSURE_MEMORY_SOME,
};
use crate::counters::{bytes, number, text, text_of, value, values};
use crate::wire::{Reading, Role};
use std::fs::File;
use std::path::{Path, PathBuf};

/// `USER_HZ`, which Linux has fixed for all that it tells user space: 100 ticks a second.
pub(super) const TICK_NS: u64 = 10_000_000;

/// Room for the line of each of a thousand CPUs, and for a hundred links.
const BUFFER_BYTES: usize = 64 << 10;

/// The most links that are told of: a machine with more has them for others.
const LINKS_MAX: usize = 16;

/// Name of a whole machine among those who are read.
pub const MACHINE: &str = "the machine";

/// Beginning of the name of one of its links.
pub const LINK: &str = "link ";

/// Tells whether these amounts are those of a link that carried nothing.
#[must_use]
pub fn is_silent(amounts: &Amounts) -> bool {
    let carried = [NETWORK_RECEIVED, NETWORK_SENT].map(|key| amounts.get(key));
    carried == [Some(0), Some(0)]
}

/// Reads what a machine and each of its links have used, by their names among those who are read.
pub fn whole(machine: &mut Machine) -> Vec<(String, Amounts)> {
    let read = (String::from(MACHINE), machine.read());
    let links = machine.links().into_iter().map(|(name, used)| (format!("{LINK}{name}"), used));
    std::iter::once(read).chain(links).collect()
}

/// A reading of one of them, by a level's kernel.
#[must_use]
pub fn reading(name: String, level: u8, amounts: Amounts) -> Reading {
    let (payer, role) = (name, Role::Machine);
    Reading { payer, role, level, amounts, carries_workload: false, is_shared: false }
}

/// The counters of a machine, held open.
#[derive(Debug)]
pub struct Machine {
    stat: Option<File>,
    meminfo: Option<File>,
    vmstat: Option<File>,
    pressure: [Option<File>; 3],
    /// Number of pages that are not used because others are the same, where the kernel looks for
    /// them.
    merged: Option<File>,
    links: Links,
    buffer: Vec<u8>,
}

/// The counters of its network links.
#[derive(Debug)]
pub struct Links {
    counters: Option<File>,
    /// Directory in which each link with a device behind it has one.
    devices: PathBuf,
}

impl Machine {
    /// Opens the counters of the machine whose `/proc` is below `root`.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let open = |path: &str| File::open(root.join(path)).ok();
        Self {
            stat: open("proc/stat"),
            meminfo: open("proc/meminfo"),
            vmstat: open("proc/vmstat"),
            pressure: ["cpu", "io", "memory"].map(|of| open(&format!("proc/pressure/{of}"))),
            merged: open("sys/kernel/mm/ksm/pages_sharing").filter(|_| merges(root)),
            links: Links::open(root),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Reads all but what links carried; without CPU time where this machine counts none.
    pub fn read(&mut self) -> Amounts {
        let buffer = &mut self.buffer;
        let mut all = text(self.stat.as_ref(), buffer).map(cpu).unwrap_or_default();
        let places = [
            (PRESSURE_CPU_SOME, None),
            (PRESSURE_IO_SOME, Some(PRESSURE_IO_FULL)),
            (PRESSURE_MEMORY_SOME, Some(PRESSURE_MEMORY_FULL)),
        ];
        for (file, (some, full)) in self.pressure.iter().zip(places) {
            let Some(text) = text(file.as_ref(), buffer) else { continue };
            let Some(read) = Pressure::parse(text, full.is_none()) else { continue };
            all.set(some, read.some.0);
            if let Some((key, waited)) = full.zip(read.full) {
                all.set(key, waited.0);
            }
        }
        if let Some(text) = text(self.meminfo.as_ref(), buffer) {
            all = all.with_all(memory(text));
        }
        if let Some(pages) = self.merged.as_ref().and_then(number) {
            let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
            all.set(MEMORY_MERGED, pages.saturating_mul(page));
        }
        if let Some(text) = text(self.vmstat.as_ref(), buffer) {
            let [read, written, faults, major] =
                values(text, ["pgpgin", "pgpgout", "pgfault", "pgmajfault"]);
            let of_kib = |kib: u64| kib.saturating_mul(1024);
            all = all
                .with(DISK_READ, read.map(of_kib))
                .with(DISK_WRITTEN, written.map(of_kib))
                .with(PAGE_FAULTS, faults)
                .with(MAJOR_FAULTS, major);
        }
        all
    }

    /// Reads what each link carried, by its name.
    pub fn links(&mut self) -> Vec<(String, Amounts)> {
        self.links.read_into(&mut self.buffer)
    }
}

impl Links {
    /// Opens the counters of the links of this network namespace, in the machine whose `/proc` is
    /// below `root`.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let counters = File::open(root.join("proc/self/net/dev")).ok();
        Self { counters, devices: root.join("sys/class/net") }
    }

    /// Reads what each carried that has a device behind it, by its name: what is only laid over
    /// others, such as a bridge, would count the same once more.
    #[must_use]
    pub fn read(&self) -> Vec<(String, Amounts)> {
        self.read_into(&mut vec![0; BUFFER_BYTES])
    }

    /// Reads what one of them carried, without a look at what is behind any.
    #[must_use]
    pub fn read_one(&self, name: &str) -> Option<Amounts> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let text = text(self.counters.as_ref(), &mut buffer)?;
        let found = text.lines().filter_map(link).find(|(known, _)| known == name);
        found.map(|(_, carried)| carried)
    }

    fn read_into(&self, buffer: &mut [u8]) -> Vec<(String, Amounts)> {
        let text = text(self.counters.as_ref(), buffer).unwrap_or_default();
        let all = text.lines().filter_map(link).filter(|(name, _)| has_device(&self.devices, name));
        all.take(LINKS_MAX).collect()
    }
}

/// Tells whether a kernel looks for pages that are the same.
fn merges(root: &Path) -> bool {
    let text = text_of(root.join("sys/kernel/mm/ksm/run"));
    text.is_ok_and(|text| text.trim() == "1")
}

/// Tells whether a link has a device behind it.
fn has_device(devices: &Path, link: &str) -> bool {
    !link.contains('/') && devices.join(link).join("device").exists()
}

/// Reads the line of a link: eight numbers of what was received, and eight of what was sent, of
/// which the first two are bytes and packets.
fn link(line: &str) -> Option<(String, Amounts)> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = numbers.split_whitespace().map_while(|it| it.parse().ok()).collect();
    let amounts = Amounts::default()
        .with(NETWORK_RECEIVED, *numbers.first()?)
        .with(PACKETS_RECEIVED, *numbers.get(1)?)
        .with(NETWORK_SENT, *numbers.get(8)?)
        .with(PACKETS_SENT, *numbers.get(9)?);
    Some((name.trim().to_owned(), amounts))
}

/// Reads the first line of `/proc/stat`, in ticks: user, nice, system, idle, iowait, irq, softirq,
/// steal, guest, nice guest. `None` where the first eight are not there.
pub(super) fn ticks(stat: &str) -> Option<[u64; 10]> {
    let mut words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut found = [0; 10];
    for (place, ticks) in found.iter_mut().enumerate() {
        match words.next().map(str::parse) {
            Some(Ok(read)) => *ticks = read,
            _ if place < 8 => return None,
            _ => break,
        }
    }
    Some(found)
}

/// Reads what is counted of CPUs. A kernel that does not count, such as gVisor's, prints zeroes.
fn cpu(stat: &str) -> Amounts {
    let Some(found) = ticks(stat).filter(|all| all.iter().any(|ticks| *ticks > 0)) else {
        return Amounts::default();
    };
    let [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] =
        found.map(|ticks| ticks.saturating_mul(TICK_NS));
    Amounts::default()
        .with(CPU_USER, user.saturating_add(nice))
        .with(CPU_NICE, nice)
        .with(CPU_SYSTEM, system)
        .with(CPU_IRQ, irq)
        .with(CPU_SOFTIRQ, softirq)
        .with(CPU_STEAL, steal)
        .with(CPU_GUEST, guest.saturating_add(guest_nice))
        .with(CPU_IOWAIT, iowait)
        .with(CPU_IDLE, idle)
        .with(
            INTERRUPTS,
            stat.lines()
                .find_map(|line| line.strip_prefix("intr ")?.split(' ').next()?.parse().ok()),
        )
        .with(CONTEXT_SWITCHES, value(stat, "ctxt"))
}

fn memory(meminfo: &str) -> Amounts {
    let of = |name: &str| bytes(meminfo, name);
    let sum = |names: &[&str]| names.iter().map(|name| of(name)).sum::<Option<u64>>();
    let without = |all: Option<u64>, part| Some(all?.saturating_sub(of(part)?));
    Amounts::default()
        .with(MEMORY_USED, without(of("MemTotal"), "MemAvailable"))
        .with(MEMORY_ANON, of("AnonPages"))
        .with(MEMORY_PAGE_CACHE, without(sum(&["Buffers", "Cached"]), "Shmem"))
        .with(MEMORY_SHMEM, of("Shmem"))
        .with(MEMORY_KERNEL, sum(&["Slab", "KernelStack", "PageTables"]))
        .with(MEMORY_PAGE_TABLES, of("PageTables"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::tree;

    #[test]
    fn every_kind_of_time_is_told_apart_and_what_is_a_part_is_in_its_whole() {
        let root = tree(&[
            ("proc/stat", "cpu  10 1 20 300 4 5 6 7 3 2\ncpu0 1\nintr 99 1 2\nctxt 55\nbtime 1\n"),
            ("proc/pressure/io", "some avg10=0.00 total=7\nfull avg10=0.00 total=3\n"),
            (
                "proc/meminfo",
                "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\nBuffers: 3 kB\nCached: 9 \
                 kB\nAnonPages: 20 kB\nShmem: 2 kB\nKernelStack: 1 kB\nPageTables: 2 kB\nSlab: 4 \
                 kB\n",
            ),
            ("sys/kernel/mm/ksm/run", "1\n"),
            ("sys/kernel/mm/ksm/pages_sharing", "3\n"),
            ("proc/vmstat", "pgpgin 8\npgpgout 4\npgfault 120\npgmajfault 12\n"),
            (
                "proc/self/net/dev",
                "Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 9 9 0 0 0 0 0 0 9 9 \
                 0 0 0 0 0 0\n  eth0: 100 3 0 0 0 0 0 0 200 5 0 0 0 0 0 0\n  br0: 100 3 0 0 0 0 0 \
                 0 200 5 0 0 0 0 0 0\n",
            ),
            ("sys/class/net/eth0/device/vendor", "0x1af4\n"),
            ("sys/class/net/br0/mtu", "1500\n"),
        ]);
        let mut machine = Machine::open(root.path());
        let read = machine.read();
        let time = |ticks: u64| Some(ticks * TICK_NS);
        let kinds = [
            (CPU_USER, 11),
            (CPU_NICE, 1),
            (CPU_SYSTEM, 20),
            (CPU_IDLE, 300),
            (CPU_IOWAIT, 4),
            (CPU_IRQ, 5),
            (CPU_SOFTIRQ, 6),
            (CPU_STEAL, 7),
            (CPU_GUEST, 5),
        ];
        for (key, ticks) in kinds {
            assert_eq!(read.get(key), time(ticks), "{key:?}");
        }
        assert_eq!((read.get(INTERRUPTS), read.get(CONTEXT_SWITCHES)), (Some(99), Some(55)));
        let waited = [PRESSURE_IO_SOME, PRESSURE_IO_FULL, PRESSURE_CPU_SOME].map(|it| read.get(it));
        assert_eq!(waited, [Some(7_000), Some(3_000), None]);
        let parts = [
            MEMORY_USED, MEMORY_ANON, MEMORY_PAGE_CACHE, MEMORY_SHMEM, MEMORY_KERNEL,
            MEMORY_PAGE_TABLES, MEMORY_MERGED,
        ];
        assert_eq!(parts.map(|it| read.get(it).unwrap() / 1024), [60, 20, 10, 2, 7, 2, 12]);
        let paged = [DISK_READ, DISK_WRITTEN, PAGE_FAULTS, MAJOR_FAULTS].map(|it| read.get(it));
        assert_eq!(paged, [Some(8192), Some(4096), Some(120), Some(12)]);
        let carried = Amounts::default()
            .with(NETWORK_RECEIVED, 100)
            .with(NETWORK_SENT, 200)
            .with(PACKETS_RECEIVED, 3)
            .with(PACKETS_SENT, 5);
        assert_eq!(Links::open(root.path()).read_one("eth0"), Some(carried.clone()));
        assert_eq!(machine.links(), [(String::from("eth0"), carried)]);
    }

    #[test]
    fn a_machine_that_counts_nothing_has_no_amounts_and_no_zero() {
        let root = tree(&[("proc/stat", "cpu 1 2 3\n")]);
        let mut machine = Machine::open(root.path());
        assert_eq!((machine.read(), machine.links()), (Amounts::NONE, Vec::new()));
        assert_eq!(cpu("cpu  0 0 0 0 0 0 0 0 0 0\nintr 0\nctxt 0\n"), Amounts::NONE);
        assert_eq!(ticks("cpu 1 2 3 4 5 6 7 8\n").unwrap()[8], 0, "of before Linux 2.6.24");
        assert_eq!(link(" eth0: 1 2 3\n"), None);
    }
}
