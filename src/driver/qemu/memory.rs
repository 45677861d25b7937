//! Memory of the machine: what backs it, when it is allocated, and how much of it the guest may
//! keep.
//!
//! It is one object of QEMU's, and nothing of it is left to QEMU's defaults. What was asked for is
//! read back twice: from QEMU, and from what this level's kernel says of the mapping
//! (`/proc/PID/smaps`).
//!
//! virtiofsd and a switch in user space read and write the guest's buffers in place, so that memory
//! is a shared file (`memfd`) then. KSM leaves shared mappings alone without a word (Linux
//! `mm/ksm.c`, `vma_ksm_compatible`): memory that is to be merged must be private, with the files
//! by 9p.

use crate::fault::{Doing, Fault};
use crate::guest::memory::{LEAST_MIB, has_memory};
use crate::guest::share::Protocol;
use crate::lab::huge_pages::{HUGE_PAGE_MIB, Pool};
use crate::layer::{LayerSpec, OptionSpec, option, value_of};
use crate::vm::nic;
use crate::vm::qmp::Qmp;
use std::fs;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Fact;

/// A page of the guest, and of its balloon.
const PAGE_BYTES: u64 = 4 << 10;

/// Switch by which this level's kernel looks for equal pages; surtax leaves that as it is.
const KSM: &str = "/sys/kernel/mm/ksm/run";

/// Least time limit for QEMU to say that the balloon is as large as the guest made it; else it is
/// as long as the machine may take to start.
const BALLOON_LEAST: Duration = Duration::from_secs(5);

/// Between two questions.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// QEMU's name for the memory.
const ID: &str = "memory";

/// The options.
pub(super) const PREALLOC: OptionSpec = option("prealloc", &["on", "off"])
    .help("whether all memory is allocated before the machine starts (default: off)");
pub(super) const HUGEPAGES: OptionSpec = option("hugepages", &["on", "off"]).help(
    "whether memory is of huge pages (2 MiB) of this level's pool, which must hold them (default: \
     off)",
);
pub(super) const MERGEABLE: OptionSpec = option("mergeable", &["on", "off"]).help(
    "whether KSM may merge memory with that of others, where this level's KSM runs; only with \
     `files=9p` (default: off)",
);
pub(super) const BALLOON: OptionSpec = option("balloon", &[])
    .help("how much memory a balloon leaves to the guest (default: no balloon)");

/// The memory of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Size of the memory, in MiB.
    pub(super) mib: u64,
    /// Another process reads and writes it too.
    pub(super) is_shared: bool,
    /// It is allocated before the machine starts.
    pub(super) prealloc: bool,
    /// It is of huge pages.
    pub(super) hugepages: bool,
    /// KSM may merge it.
    pub(super) mergeable: bool,
    /// Memory that a balloon leaves to the guest, in MiB; `None` without a balloon.
    pub(super) balloon_mib: Option<u64>,
    /// Memory that Xen gives to the guest, in MiB, where that is its Dom0.
    pub(super) dom0_mib: Option<u64>,
}

impl Memory {
    /// Memory of which nothing but its size is asked for.
    pub(super) fn plain(mib: u64, is_shared: bool) -> Self {
        Self { mib, is_shared, ..Self::default() }
    }

    /// Reads the options.
    ///
    /// # Errors
    /// The user's: options that contradict each other, or a balloon that leaves too little or
    /// nothing to take.
    pub(super) fn read(spec: &LayerSpec, mib: u64, files: Protocol) -> Result<Self, Fault> {
        let balloon = spec.option("balloon");
        let memory = Self {
            mib,
            is_shared: files == Protocol::Virtiofs || nic::has_switch(spec),
            prealloc: spec.says("prealloc", "on"),
            hugepages: spec.says("hugepages", "on"),
            mergeable: spec.says("mergeable", "on"),
            balloon_mib: balloon.map(|text| left_by_balloon(text, mib)).transpose()?,
            dom0_mib: None,
        };
        if memory.hugepages && !mib.is_multiple_of(HUGE_PAGE_MIB) {
            return Err(Fault::user(format!("{mib} MiB are no whole number of huge pages"))
                .hint(format!("use `memory={}M`", mib + mib % HUGE_PAGE_MIB)));
        }
        if memory.mergeable && memory.is_shared {
            let (who, hint) = match files {
                Protocol::Virtiofs => ("virtiofsd", "add `files=9p`, which needs no shared memory"),
                Protocol::Ninep | Protocol::XenNinep | Protocol::FirstRoot => {
                    ("a switch", "use `net=tap`, which needs no shared memory")
                }
            };
            return Err(Fault::user(format!(
                "`mergeable=on`: KSM leaves alone the memory that is shared with {who}"
            ))
            .hint(hint));
        }
        let unlike_huge = [("mergeable", memory.mergeable), ("balloon", balloon.is_some())];
        if let Some((key, _)) = unlike_huge.iter().find(|(_, is_asked)| *is_asked)
            && memory.hugepages
        {
            return Err(Fault::user(format!(
                "`{key}=` works on pages of 4 KiB, and `hugepages=on` has none"
            ))
            .hint(format!("drop `hugepages=on`, or `{key}=`")));
        }
        Ok(memory)
    }

    /// That this level's pool has the huge pages that are asked for.
    ///
    /// # Errors
    /// The machine's: how many are missing, and how to get them.
    pub(super) fn require_huge_pages(self) -> Result<(), Fault> {
        if !self.hugepages {
            return Ok(());
        }
        Pool::read()?.require(self.mib).map_err(|fault| fault.during("qemu"))
    }

    /// The options of QEMU's command line that describe it.
    pub(super) fn arguments(self) -> Vec<[String; 2]> {
        let word = |is_on: bool| if is_on { "on" } else { "off" };
        let Self { mib, is_shared, prealloc, hugepages, mergeable, .. } = self;
        let kind =
            if is_shared || hugepages { "memory-backend-memfd" } else { "memory-backend-ram" };
        let huge = if hugepages { ",hugetlb=on,hugetlbsize=2M" } else { "" };
        let (share, prealloc, merge) = (word(is_shared), word(prealloc), word(mergeable));
        vec![
            ["-m".into(), format!("{mib}M")],
            [
                "-object".into(),
                format!(
                    "{kind},id={ID},size={mib}M,share={share},prealloc={prealloc},merge={merge}{huge}"
                ),
            ],
        ]
    }

    /// The balloon's device; `bus` ends the names of the board's virtio devices.
    pub(super) fn balloon(self, bus: &str) -> Option<String> {
        self.balloon_mib.map(|_| format!("virtio-balloon-{bus},id=balloon,deflate-on-oom=off"))
    }

    /// Pages that the guest hands over to the balloon.
    pub(super) fn balloon_pages(self) -> Option<u64> {
        self.balloon_mib.map(|left| ((self.mib - left) << 20) / PAGE_BYTES)
    }

    /// Tells the balloon what to leave. The guest begins to hand over the rest when it finds the
    /// device.
    ///
    /// # Errors
    /// QEMU refuses.
    pub(super) fn inflate(self, qmp: &mut Qmp) -> Result<(), Fault> {
        self.balloon_mib.map_or(Ok(()), |left| qmp.balloon(left << 20))
    }

    /// The size, as QEMU has it and as the guest sees it; then each option.
    ///
    /// # Errors
    /// One of them is not what was asked for.
    pub(super) fn prove(
        self,
        qmp: &mut Qmp,
        pid: u32,
        inside: &[Fact],
        patience: Duration,
    ) -> Result<Vec<Fact>, Fault> {
        let told = qmp.memory_bytes()?;
        let mut facts = vec![self.size(told, value_of(inside, "memory_total_bytes")?)?];
        facts.extend(self.inflated(qmp, patience.max(BALLOON_LEAST))?);
        let object = qmp.memory(ID)?;
        let hugetlb = self.hugepages && qmp.is_hugetlb(ID)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/smaps"))
            .doing("read what backs the machine's memory")?;
        let mapping = Mapping::find(&maps, told).ok_or_else(|| {
            Fault::machine(format!("qemu: none of QEMU's mappings is the memory of {told} bytes"))
        })?;
        let is_whole = mapping.resident_bytes >= told;
        for (what, asked, told, seen) in [
            ("share", self.is_shared, object.share, mapping.has_flag("sh")),
            ("prealloc", self.prealloc, object.prealloc, self.prealloc && is_whole),
            ("hugepages", self.hugepages, hugetlb, mapping.has_flag("ht")),
            ("mergeable", self.mergeable, object.merge, mapping.has_flag("mg")),
        ] {
            // Ballooned pages were allocated, and are given back.
            let is_given_back = what == "prealloc" && self.balloon_mib.is_some();
            if (asked, asked) != (told, if is_given_back { asked } else { seen }) {
                return Err(Fault::machine(format!(
                    "qemu: the memory's `{what}` was to be {asked}; QEMU says {told}, its mapping \
                     {seen}"
                )));
            }
            let value = if asked { "on" } else { "off" };
            let source = "query-memdev, and /proc/PID/smaps of QEMU";
            facts.push(Fact::new(format!("memory_{what}"), value, source));
        }
        if self.mergeable {
            let run = fs::read_to_string(KSM).doing(format_args!("read `{KSM}`"))?;
            let word = if run.trim() == "1" { "on" } else { "off" };
            facts.push(Fact::new("ksm", word, KSM));
        }
        if let Some(left) = self.balloon_mib
            && mapping.resident_bytes > left << 20
        {
            return Err(Fault::machine(format!(
                "qemu: the balloon leaves {left} MiB, and QEMU still has {} bytes of memory for \
                 the guest",
                mapping.resident_bytes
            )));
        }
        Ok(facts)
    }

    /// Checks that QEMU gave as much as was asked for, and that the guest sees that, less what its
    /// kernel keeps and what the balloon holds.
    fn size(self, told: u64, seen: &str) -> Result<Fact, Fault> {
        let asked = self.mib << 20;
        if told != asked {
            return Err(Fault::machine(format!(
                "qemu: {asked} bytes of memory were asked for, and QMP says {told}"
            )));
        }
        let most = self.balloon_mib.or(self.dom0_mib).map_or(asked, |left| left << 20);
        if !has_memory(asked, most, seen) {
            return Err(Fault::machine(format!(
                "qemu: the guest sees {seen} bytes of memory, of {most} that it was left"
            )));
        }
        let source = "query-memory-size-summary, and MemTotal inside";
        Ok(Fact::new("memory_bytes", told.to_string(), source))
    }

    /// That the balloon has left what it was to leave.
    fn inflated(self, qmp: &mut Qmp, patience: Duration) -> Result<Option<Fact>, Fault> {
        let Some(left) = self.balloon_mib else { return Ok(None) };
        let (asked, began) = (left << 20, monotonic_raw());
        loop {
            let told = qmp.balloon_actual()?;
            if told == asked {
                let source = "query-balloon, and MemTotal inside";
                return Ok(Some(Fact::new("balloon_actual_bytes", told.to_string(), source)));
            }
            if Duration::from(monotonic_raw().since(began)) > patience {
                return Err(Fault::machine(format!(
                    "qemu: the balloon was to leave {asked} bytes, and leaves {told} after {:.0} s",
                    patience.as_secs_f64()
                ))
                .hint("give it more time with `--start-deadline`"));
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

fn left_by_balloon(text: &str, mib: u64) -> Result<u64, Fault> {
    let left = Bytes::parse(text).map_err(Fault::user)?.mebibytes();
    if left < LEAST_MIB {
        return Err(Fault::user(format!("`balloon={text}` leaves too little for a kernel"))
            .hint(format!("leave it `balloon={LEAST_MIB}M` or more")));
    }
    if left >= mib {
        return Err(Fault::user(format!(
            "`balloon={text}` takes nothing from a machine of {mib} MiB"
        ))
        .hint("give it more with `memory=`, or leave it less"));
    }
    Ok(left)
}

/// A mapping of a process, as the kernel describes it.
///
/// Source: Linux `Documentation/filesystems/proc.rst`, `/proc/PID/smaps`.
struct Mapping<'a> {
    resident_bytes: u64,
    flags: &'a str,
}

impl<'a> Mapping<'a> {
    /// The machine's memory: of this size, and not what the translator runs.
    fn find(smaps: &'a str, bytes: u64) -> Option<Self> {
        let (mut size, mut resident_bytes) = (0, 0);
        for line in smaps.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let bytes_of =
                || value.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|it| it << 10);
            match key {
                "Size" => (size, resident_bytes) = (bytes_of()?, 0),
                // Huge pages are not in the first of these.
                "Rss" | "Shared_Hugetlb" | "Private_Hugetlb" => resident_bytes += bytes_of()?,
                "VmFlags" if size == bytes => {
                    let mapping = Self { resident_bytes, flags: value };
                    if !mapping.has_flag("ex") {
                        return Some(mapping);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.split_ascii_whitespace().any(|word| word == flag)
    }
}

#[cfg(test)]
mod tests;
