//! Counters of the whole machine: CPU time, waiting, paging, and how many wanted to run.
//!
//! | ours | the kernel's |
//! |---|---|
//! | `busy` | `/proc/stat`, line `cpu`: user, nice, system, irq, softirq |
//! | `idle`, `steal` | the same line: idle and iowait; steal |
//! | `some`, `full` | `/proc/pressure/{cpu,io,memory}`: `total` of each line |
//! | `swap_in`, `swap_out`, `major_fault_count` | `/proc/vmstat`: `pswpin`, `pswpout`, `pgmajfault` |
//! | `page_in` | the same file: `pgpgin`, which is in KiB |
//! | `load_1min`, `running_count` | `/proc/loadavg`: the first word, and what stands before the `/` |
//!
//! - **Reads** CPU time in steps of 10 ms, pressure in microseconds, all since boot; whoever reads
//!   is one of those who run. System-wide, `full` of the CPU means nothing and is left out.
//! - **Costs** one `pread` for each of six files that are held open.
//! - **Cannot see** who used the CPU, nor what the machine below did, but for what that calls
//!   stolen.
//! - **Reference** `proc_stat(5)`, Linux `Documentation/accounting/psi.rst`.

use super::machine::{TICK_NS, ticks};
use crate::clock;
use crate::counters::{text, values};
use crate::quantity::{Bytes, Nanoseconds};
use std::fs::File;
use std::path::Path;

/// Room for the line of each of a thousand CPUs; what stands behind them is not needed.
const BUFFER_BYTES: usize = 64 << 10;

/// The counters of a machine, held open.
#[derive(Debug)]
pub struct Host {
    stat: Option<File>,
    loadavg: Option<File>,
    vmstat: Option<File>,
    pressure: [Option<File>; 3],
    page_bytes: u64,
    buffer: Vec<u8>,
}

/// Values of the counters at one moment; `None` where this machine does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCounters {
    /// Time of the reading, by `CLOCK_MONOTONIC_RAW`.
    pub at: Nanoseconds,
    /// CPU time since boot.
    pub cpu: Option<CpuTime>,
    /// Time that some task, or all of them, waited for a CPU, for input and output, for memory.
    pub pressure: [Option<Pressure>; 3],
    /// Read back from swap since boot.
    pub swap_in: Option<Bytes>,
    /// Written to swap since boot.
    pub swap_out: Option<Bytes>,
    /// Page faults since boot that had to wait for a disk.
    pub major_fault_count: Option<u64>,
    /// Read from disks since boot, whatever for.
    pub page_in: Option<Bytes>,
    /// The load average of the last minute.
    pub load_1min: Option<f64>,
    /// Tasks that run or could run at this moment.
    pub running_count: Option<u64>,
}

/// CPU time of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Over so many CPUs.
    pub cpu_count: u64,
    /// Spent on anything.
    pub busy: Nanoseconds,
    /// Spent on nothing.
    pub idle: Nanoseconds,
    /// Wanted, and given to somebody else by the machine below.
    pub steal: Nanoseconds,
}

/// Time that work stood still for want of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited.
    pub some: Nanoseconds,
    /// All tasks that were not idle waited; `None` for the CPU.
    pub full: Option<Nanoseconds>,
}

impl Host {
    /// Opens the counters of the machine whose `/proc` is below `root`.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let open = |path: &str| File::open(root.join(path)).ok();
        Self {
            stat: open("proc/stat"),
            loadavg: open("proc/loadavg"),
            vmstat: open("proc/vmstat"),
            pressure: ["cpu", "io", "memory"].map(|of| open(&format!("proc/pressure/{of}"))),
            page_bytes: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Reads them now.
    #[must_use]
    pub fn read(&mut self) -> HostCounters {
        let mut now = HostCounters { at: clock::monotonic_raw(), ..HostCounters::default() };
        let buffer = &mut self.buffer;
        now.cpu = text(self.stat.as_ref(), buffer).and_then(CpuTime::parse);
        for (place, file) in self.pressure.iter().enumerate() {
            let is_cpu = place == 0;
            now.pressure[place] =
                text(file.as_ref(), buffer).and_then(|text| Pressure::parse(text, is_cpu));
        }
        if let Some(text) = text(self.vmstat.as_ref(), buffer) {
            let bytes = |pages: u64| Bytes(pages.saturating_mul(self.page_bytes));
            let [swap_in, swap_out, faults, page_in] =
                values(text, ["pswpin", "pswpout", "pgmajfault", "pgpgin"]);
            now.swap_in = swap_in.map(bytes);
            now.swap_out = swap_out.map(bytes);
            now.major_fault_count = faults;
            now.page_in = page_in.map(|kib| Bytes(kib.saturating_mul(1024)));
        }
        if let Some(text) = text(self.loadavg.as_ref(), buffer) {
            let word = |place| text.split_whitespace().nth(place);
            now.load_1min = word(0).and_then(|load| load.parse().ok());
            now.running_count = word(3).and_then(|count| count.split('/').next()?.parse().ok());
        }
        now
    }
}

impl CpuTime {
    /// The first line of `/proc/stat`, and how many lines of single CPUs follow it.
    fn parse(text: &str) -> Option<Self> {
        // Guest time is in user time already.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks(text)?;
        let time = |ticks: u64| Nanoseconds(ticks.saturating_mul(TICK_NS));
        let cpu_count = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(Self {
            cpu_count: u64::try_from(cpu_count).ok()?,
            busy: time(user + nice + system + irq + softirq),
            idle: time(idle + iowait),
            steal: time(steal),
        })
    }
}

impl Pressure {
    pub(super) fn parse(text: &str, is_cpu: bool) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let us: u64 = line.split("total=").nth(1)?.trim().parse().ok()?;
            Some(Nanoseconds(us.saturating_mul(1_000)))
        };
        let full = if is_cpu { None } else { total("full ") };
        Some(Self { some: total("some ")?, full })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::tree;

    #[test]
    fn every_counter_is_found_in_its_file() {
        let root = tree(&[
            ("proc/stat", "cpu  10 1 20 300 4 5 6 7 0 0\ncpu0 1\ncpu1 1\nintr 9 9\n"),
            ("proc/loadavg", "0.25 1.00 1.00 3/467 99\n"),
            ("proc/vmstat", "pgpgin 8\npgmajfault 12\npswpin 2\npswpout 1\npswpout_other 5\n"),
            ("proc/pressure/cpu", "some avg10=0.00 total=7\nfull avg10=0.00 total=0\n"),
            ("proc/pressure/memory", "some avg10=1.00 total=9\nfull avg10=0.50 total=3\n"),
        ]);
        let read = Host::open(root.path()).read();
        let time = |ticks: u64| Nanoseconds(ticks * TICK_NS);
        let cpu = CpuTime { cpu_count: 2, busy: time(42), idle: time(304), steal: time(7) };
        assert_eq!(read.cpu, Some(cpu));
        assert_eq!(read.pressure[0], Some(Pressure { some: Nanoseconds(7_000), full: None }));
        assert_eq!(read.pressure[1], None);
        assert_eq!(read.pressure[2].unwrap().full, Some(Nanoseconds(3_000)));
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        assert_eq!(read.swap_in, Some(Bytes(2 * page)));
        assert_eq!(read.swap_out, Some(Bytes(page)));
        assert_eq!(read.major_fault_count, Some(12));
        assert_eq!(read.page_in, Some(Bytes(8192)));
        assert_eq!((read.load_1min, read.running_count), (Some(0.25), Some(3)));
    }

    #[test]
    fn a_machine_without_files_counts_nothing_and_no_zero() {
        let root = tree(&[]);
        let read = Host::open(root.path()).read();
        assert_eq!(read, HostCounters { at: read.at, ..HostCounters::default() });
    }

    #[test]
    fn a_line_that_lacks_a_field_is_unknown() {
        assert_eq!(CpuTime::parse("cpu 1 2 3 4\ncpu0 1\n"), None);
        assert_eq!(CpuTime::parse(""), None);
        assert_eq!(Pressure::parse("full avg10=0 total=3\n", false), None);
    }
}
