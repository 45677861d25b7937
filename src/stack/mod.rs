//! Stacks: layers nested, outermost first, as text and as a value.
//!
//! `STACK := "native" | LAYER ("+" LAYER)*`, `LAYER := KIND [":" [KEY "="] VALUE ("," KEY "=" VALUE)*]`.
//! A first value without its key is that of the layer's subject, such as the host of `ssh`.

mod common_options;
mod deeper;
pub mod descend;
pub mod image;
mod list;
mod nearest;
mod parse;
pub mod reach;
pub mod rise;
pub mod root;
pub mod secrets;
pub mod shell;

pub use deeper::Deeper;
pub use list::{parse_list, parse_list_with};
pub use nearest::{instead, nearest};
#[cfg(test)]
pub(crate) use parse::tests;
pub use parse::{DEPTH_LIMIT, registered};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use surtax_instrument::quantity::Bytes;

/// A stack as text: checked against the registry, not yet started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StackSpec {
    /// At least one, outermost first.
    pub layers: Vec<LayerSpec>,
}

/// One layer of a stack, with its options as typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerSpec {
    /// A name in the registry of `layer/mod.rs`.
    pub kind: String,
    /// The driver's own options and the common ones, checked against their lists.
    pub options: BTreeMap<String, String>,
}

/// Limits that mean the same in every layer; a driver maps each one or refuses it aloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `cpus=2`: CPUs' worth of time (a quota; in a virtual machine the number of virtual CPUs), in thousandths.
    pub cpu_millis: Option<u32>,
    /// `cpuset=0-1;3`: host CPUs it may run on (`;` because `,` separates options).
    pub cpuset: Option<Vec<u32>>,
    /// `memory=2G`: the most memory (in a virtual machine, its size).
    pub memory: Option<Bytes>,
    /// `hugetlb=64M`: the most memory of huge pages that processes of its ask for; 0 for none.
    pub hugetlb: Option<Bytes>,
    /// `pids=100`: the most processes and threads.
    pub pids: Option<u32>,
    /// `weight=200`: its share of CPUs that others want too, 100 being everybody's (work-conserving: where
    /// nobody else wants them, it gets all).
    pub weight: Option<u32>,
    /// `partition=isolated`: that those CPUs are nobody else's.
    pub partition: Option<Partition>,
    /// `numa=0`: NUMA nodes that its memory may come from.
    pub numa: Option<Vec<u32>>,
    /// What it may read from and write to the disk under `/var/tmp`, where scratch directories are.
    pub io: IoLimits,
}

/// How CPUs are kept from everybody else: a kind of cpuset partition of cgroup v2.
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

impl fmt::Display for StackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            write!(f, "{layer}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl From<StackSpec> for String {
    fn from(stack: StackSpec) -> Self {
        stack.to_string()
    }
}
