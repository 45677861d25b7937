//! Exits of a virtual machine from its guest to KVM, and how long KVM waited for it without sleep.
//!
//! | ours | KVM's, in `/sys/kernel/debug/kvm/PID-FD/` |
//! |---|---|
//! | `vm_exit_count` | `exits` |
//! | `vm_exit_device_count` | `io_exits` and `mmio_exits` |
//! | `vm_exit_halt_count` | `halt_exits` |
//! | `vm_exit_interrupt_count` | `irq_exits` |
//! | `halt_poll_ns` | `halt_poll_success_ns` and `halt_poll_fail_ns` |
//!
//! - **Reads** sums over the virtual CPUs of all machines of a process, since they began.
//! - **Costs** one `pread` for each of seven files that are held open.
//! - **Cannot see** anything where debugfs is not mounted, nor exits of a machine in a machine that
//!   the outer one answers alone. Not yet run on hardware: only on such a tree of files.
//! - **Reference** Linux `arch/x86/kvm/x86.c`, `kvm_vm_stats_desc` and `kvm_vcpu_stats_desc`.

use crate::amount::{
    Amounts, HALT_POLL, Key, VM_EXITS, VM_EXITS_DEVICE, VM_EXITS_HALT, VM_EXITS_INTERRUPT,
};
use crate::counters::number;
use std::fs::{self, File};
use std::path::Path;

/// Directory of all machines of this kernel.
const MACHINES: &str = "sys/kernel/debug/kvm";

/// The most machines of one process that are counted.
const MACHINES_MAX: usize = 16;

/// The files of which each amount is the sum.
const FILES: [(Key, &[&str]); 5] = [
    (VM_EXITS, &["exits"]),
    (VM_EXITS_DEVICE, &["io_exits", "mmio_exits"]),
    (VM_EXITS_HALT, &["halt_exits"]),
    (VM_EXITS_INTERRUPT, &["irq_exits"]),
    (HALT_POLL, &["halt_poll_success_ns", "halt_poll_fail_ns"]),
];

/// The counters of the machines of one process, held open.
#[derive(Debug, Default)]
pub struct Exits(Vec<(Key, Vec<File>)>);

impl Exits {
    /// Opens those of a process, in the machine whose `/sys` is below `root`; without any where KVM
    /// does not count for it.
    #[must_use]
    pub fn open(root: &Path, pid: u32) -> Self {
        let is_its = |name: &str| name.split('-').next() == Some(&pid.to_string());
        let all = fs::read_dir(root.join(MACHINES)).into_iter().flatten().flatten();
        let its = all.filter(|it| it.file_name().to_str().is_some_and(is_its));
        let machines: Vec<_> = its.take(MACHINES_MAX).map(|it| it.path()).collect();
        let files = |names: &[&str]| {
            let paths = machines.iter().flat_map(|it| names.iter().map(|name| it.join(name)));
            paths.map(|path| File::open(path).ok()).collect::<Option<Vec<File>>>()
        };
        let known = FILES.iter().filter_map(|(key, names)| Some((*key, files(names)?)));
        Self(known.filter(|(_, files)| !files.is_empty()).collect())
    }

    /// Reads all that are known.
    #[must_use]
    pub fn read(&self) -> Amounts {
        let sum = |files: &[File]| files.iter().map(number).sum::<Option<u64>>();
        self.0.iter().filter_map(|(key, files)| Some((*key, sum(files)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn exits_of_all_machines_of_a_process_are_summed_and_what_is_not_counted_is_absent() {
        let root = tree(&[
            ("sys/kernel/debug/kvm/exits", "999\n"),
            ("sys/kernel/debug/kvm/42-11/exits", "70\n"),
            ("sys/kernel/debug/kvm/42-11/io_exits", "5\n"),
            ("sys/kernel/debug/kvm/42-11/mmio_exits", "6\n"),
            ("sys/kernel/debug/kvm/42-11/halt_poll_success_ns", "10\n"),
            ("sys/kernel/debug/kvm/42-11/halt_poll_fail_ns", "2000\n"),
            ("sys/kernel/debug/kvm/42-12/exits", "30\n"),
            ("sys/kernel/debug/kvm/42-12/io_exits", "1\n"),
            ("sys/kernel/debug/kvm/42-12/mmio_exits", "1\n"),
            ("sys/kernel/debug/kvm/421-9/exits", "7\n"),
        ]);
        let read = Exits::open(root.path(), 42).read();
        assert_eq!(read, Amounts::default().with(VM_EXITS, 100).with(VM_EXITS_DEVICE, 13));
        let other = Exits::open(root.path(), 421).read();
        assert_eq!(other.get(VM_EXITS), Some(7));
        assert_eq!(Exits::open(root.path(), 4).read(), Amounts::NONE);
        assert_eq!(Exits::open(tree(&[]).path(), 42).read(), Amounts::NONE);
    }
}
