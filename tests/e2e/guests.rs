//! Guests that are no guests: kernels that are garbage, die at once, or stay silent.

use crate::answers::{arm, compare};
use crate::machine::{Machine, is_usable};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Address at which the code of a [`tiny_kernel`] is loaded, and entered in 32-bit mode.
const ENTRY: u32 = 0x0010_0000;

/// Prints what follows the code on the first serial port, up to a zero byte.
const PRINT: [u8; 17] = [
    0xbe, 0x40, 0x00, 0x10, 0x00, // mov esi, ENTRY + 0x40
    0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8
    0xac, // lodsb
    0x84, 0xc0, // test al, al
    0x74, 0x03, // jz over the loop
    0xee, // out dx, al
    0xeb, 0xf8, // jmp to lodsb
];

/// Waits for ever, without interrupts.
const SILENCE: [u8; 4] = [0xfa, 0xf4, 0xeb, 0xfc]; // cli; hlt; jmp to hlt

/// Takes an interrupt without a table of them, which resets the machine.
pub const DEATH: [u8; 8] = [
    0x0f, 0x01, 0x1d, 0xf0, 0x00, 0x10, 0x00, // lidt [ENTRY + 0xf0]: zeroes
    0xcc, // int3
];

/// An ELF file with a PVH entry that claims to be Linux of this release, prints a line, and goes on
/// as `end` says.
pub fn tiny_kernel(release: &str, line: &str, end: &[u8]) -> Vec<u8> {
    let mut code = vec![0; 0x200];
    code[..PRINT.len()].copy_from_slice(&PRINT);
    code[PRINT.len()..PRINT.len() + end.len()].copy_from_slice(end);
    assert!(line.len() < 0x80);
    code[0x40..0x40 + line.len()].copy_from_slice(line.as_bytes());
    let banner = format!("Linux version {release} ");
    code[0x100..0x100 + banner.len()].copy_from_slice(banner.as_bytes());

    let mut note = Vec::new();
    // XEN_ELFNOTE_PHYS32_ENTRY, eight bytes long.
    for word in [4u32, 8, 18] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"Xen\0");
    note.extend(u64::from(ENTRY).to_le_bytes());

    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let header = |kind: u32, offset: u64, size: usize| {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(7u32.to_le_bytes());
        let (at, size) = (u64::from(ENTRY), u64::try_from(size).unwrap());
        for word in [offset, at, at, size, size, 4] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    };
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [u64::from(ENTRY), 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 2, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend(header(1, 0x1000, code.len()));
    file.extend(header(4, 0x800, note.len()));
    file.resize(0x800, 0);
    file.extend(note);
    file.resize(0x1000, 0);
    file.extend(code);
    file
}

/// Lays a kernel out as a distribution would, with the modules of one that this machine has.
fn install(machine: &Machine, name: &str, make: impl Fn(&str) -> Vec<u8>) -> Option<PathBuf> {
    // The first guest fetches a kernel, if there is none yet.
    machine.json(&compare("qemu:accel=tcg", "1", &["true"]));
    let modules = modules()?;
    let release = modules.file_name()?.to_str()?.to_owned();
    let tree = machine.path(name);
    fs::create_dir_all(tree.join("boot")).unwrap();
    fs::create_dir_all(tree.join("lib/modules")).unwrap();
    std::os::unix::fs::symlink(&modules, tree.join("lib/modules").join(&release)).unwrap();
    let kernel = tree.join("boot/vmlinux");
    fs::write(&kernel, make(&release)).unwrap();
    Some(kernel)
}

/// The modules of a kernel that this machine has, in `lib/modules` beside its `boot`.
pub fn modules() -> Option<PathBuf> {
    let cache = surtax::lab::cache_directory().unwrap().join("kernels");
    let cached = fs::read_dir(cache).into_iter().flatten().flatten();
    let trees = cached.map(|entry| entry.path().join("lib/modules"));
    let places: Vec<PathBuf> = trees.chain([PathBuf::from("/lib/modules")]).collect();
    let releases = places.iter().flat_map(fs::read_dir).flatten().flatten();
    releases.map(|entry| entry.path()).find(|path| path.join("kernel").is_dir())
}

/// Boots it, and gives what its arm says.
fn boot(machine: &Machine, kernel: &Path) -> Value {
    let stack = format!("qemu:accel=tcg,kernel={}", kernel.display());
    let list = format!("native,{stack}");
    let answer = machine.answer(&[
        "compare", "--in", &list, "--runs", "1", "--start-deadline", "5s", "--format", "json",
        "--", "true",
    ]);
    assert_eq!(arm(&answer, "native")["trial_count"], 1, "the others still run");
    arm(&answer, &stack).clone()
}

#[test]
fn a_guest_that_stays_silent_is_given_up_with_its_consoles_last_lines() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let line = "I say no more\u{1b}[2J\r\n";
    let Some(kernel) = install(&machine, "silent", |release| tiny_kernel(release, line, &SILENCE))
    else {
        return;
    };
    let arm = boot(&machine, &kernel);
    let trouble = &arm["trouble"];
    let why = trouble["why"].as_str().unwrap();
    assert!(why.contains("no answer within 5.0 s"), "{trouble}");
    assert!(why.contains("| I say no more\u{fffd}[2J"), "{trouble}");
    assert!(trouble["remedy"].as_str().unwrap().contains("--start-deadline"), "{trouble}");
    machine.assert_as_before();
}

#[test]
fn a_guest_that_dies_at_once_is_said_to_be_gone_with_its_last_words() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let make = |release: &str| tiny_kernel(release, "farewell\r\n", &DEATH);
    let Some(kernel) = install(&machine, "dying", make) else { return };
    let arm = boot(&machine, &kernel);
    let why = arm["trouble"]["why"].as_str().unwrap();
    assert!(why.contains("qemu: ") && why.contains("gone"), "{why}");
    assert!(why.contains("| farewell"), "{why}");
    machine.assert_as_before();
}

#[test]
fn a_file_that_is_no_kernel_is_named() {
    let machine = Machine::take();
    if !is_usable(&machine, "qemu:accel=tcg") {
        return;
    }
    let garbage = machine.path("garbage");
    fs::write(&garbage, [0x5a; 4096]).unwrap();
    for file in [Path::new("/dev/null"), &garbage, Path::new("/no/such/kernel")] {
        let arm = boot(&machine, file);
        let why = arm["trouble"]["why"].as_str().unwrap();
        assert!(why.contains(&format!("`kernel={}`", file.display())), "{why}");
    }
    machine.assert_as_before();
}
