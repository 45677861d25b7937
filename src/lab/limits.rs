//! Limits that mean the same in every layer, as values.

use surtax_instrument::quantity::Bytes;

/// Limits that mean the same in every layer; a driver maps each one or refuses it aloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `cpus=2`: CPUs' worth of time (a quota; in a virtual machine the number of virtual CPUs), in
    /// thousandths.
    pub cpu_millis: Option<u32>,
    /// `cpuset=0-1;3`: host CPUs it may run on (`;` because `,` separates options).
    pub cpuset: Option<Vec<u32>>,
    /// `memory=2G`: the most memory (in a virtual machine, its size).
    pub memory: Option<Bytes>,
    /// `hugetlb=64M`: the most memory of huge pages that processes of its ask for; 0 for none.
    pub hugetlb: Option<Bytes>,
    /// `pids=100`: the most processes and threads.
    pub pids: Option<u32>,
    /// `weight=200`: its share of CPUs that others want too, 100 being everybody's
    /// (work-conserving: where nobody else wants them, it gets all).
    pub weight: Option<u32>,
    /// `partition=isolated`: that those CPUs are nobody else's.
    pub partition: Option<Partition>,
    /// `numa=0`: NUMA nodes that its memory may come from.
    pub numa: Option<Vec<u32>>,
    /// Limits on reads from and writes to the disk under `/var/tmp`, where scratch directories are.
    pub io: IoLimits,
}

impl Limits {
    /// Returns those that the group of a machine is to keep: its CPUs and its memory are its own.
    #[must_use]
    pub fn of_a_machines_group(&self) -> Self {
        Self { cpu_millis: None, memory: None, ..self.clone() }
    }
}

/// Way in which CPUs are kept from everybody else: a kind of cpuset partition of cgroup v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The scheduler spreads load among them.
    Root,
    /// It does not: what runs there stays where it was put.
    Isolated,
}

impl Partition {
    /// The kernel's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Isolated => "isolated",
        }
    }
}

/// Limits on one disk; each per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// `read-bps=8M`: bytes read.
    pub read_bps: Option<Bytes>,
    /// `write-bps=8M`: bytes written.
    pub write_bps: Option<Bytes>,
    /// `read-iops=100`: reads.
    pub read_iops: Option<u32>,
    /// `write-iops=100`: writes.
    pub write_iops: Option<u32>,
}

impl IoLimits {
    /// Those that are set: the option's key, and how much a second.
    pub fn rates(self) -> impl Iterator<Item = (&'static str, u64)> {
        let rates = [
            ("read-bps", self.read_bps.map(|bytes| bytes.0)),
            ("write-bps", self.write_bps.map(|bytes| bytes.0)),
            ("read-iops", self.read_iops.map(u64::from)),
            ("write-iops", self.write_iops.map(u64::from)),
        ];
        rates.into_iter().filter_map(|(key, rate)| Some((key, rate?)))
    }
}
