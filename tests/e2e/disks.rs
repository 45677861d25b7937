//! Disks of virtual machines: each variant is what QEMU and the guest say it is.

use crate::answers::{alone, arm, fact};
use crate::machine::{Machine, cases, is_usable};

#[test]
fn a_disk_is_what_was_asked_for_as_qemu_and_the_guest_have_it() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu") {
        return;
    }
    let script = "set -e; test -z \"$(ls -A /scratch)\"; \
                  dd if=/dev/zero of=/scratch/data bs=64k count=16 conv=fsync 2>/dev/null";
    let disks = [
        ("q35", "virtio-blk", "raw", "none", "native"),
        ("pc", "ide", "raw", "directsync", "threads"),
        ("q35", "virtio-scsi", "qcow2", "unsafe", "io_uring"),
        ("q35", "ide", "raw", "writeback", "threads"),
        ("q35", "nvme", "qcow2-backed", "writethrough", "threads"),
        ("microvm", "virtio-blk", "qcow2", "writeback", "threads"),
    ];
    for &(board, controller, format, cache, aio) in cases(&disks, 2) {
        // As the answer names it: its options in the order of their names.
        let stack = format!(
            "qemu:accel=tcg,aio={aio},cache={cache},disk-size=64M,format={format},machine={board},\
             scratch={controller}"
        );
        let answer = machine.json(&alone(&stack, &["sh", "-c", script]));
        let arm = arm(&answer, &stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        let proved = |key: &str| fact(&arm["evidence"][0], key).to_owned();
        let read_back = (proved("disk_format"), proved("disk_cache"), proved("disk_aio"));
        assert_eq!(read_back, (format.to_owned(), cache.to_owned(), aio.to_owned()));
        assert_eq!(proved("disk_bytes"), (64u64 << 20).to_string());
        let drivers = proved("inside_scratch_drivers");
        let driver = match (controller, board) {
            ("ide", "pc") => "ata_piix".to_owned(),
            ("ide", _) => "ahci".to_owned(),
            _ => controller.replace('-', "_"),
        };
        assert!(drivers.contains(&driver), "{stack}: {drivers}");
        let through = ["writethrough", "directsync"].contains(&cache);
        let expected = if through { "write through" } else { "write back" };
        // QEMU's NVMe always says that it has a cache of its own.
        if controller != "nvme" {
            assert_eq!(proved("inside_scratch_write_cache"), expected, "{stack}");
        }
        machine.assert_as_before();
    }
}
