//! The memory of a guest, as the process holds it that carries the guest.
//!
//! - **Reads** `Rss` and the huge pages of those mappings in `/proc/PID/smaps` that are the guest's
//!   memory: of a memory back-end, or else the largest of anonymous memory that is not executable,
//!   which the code cache of an emulator is.
//! - **Costs** a walk through the page tables of the process: milliseconds for a gibibyte. Read
//!   after the command only.
//! - **Cannot see** a peak: a guest that has given memory back (a balloon) has less at the end than
//!   it had.
//! - **Reference** `proc_pid_smaps(5)`.

use crate::quantity::Bytes;
use std::fs;

/// Smaller mappings are no guest's memory.
const SIZE_MIN: u64 = 8 << 20;

/// Words in the names of the mappings of memory back-ends.
const BACKENDS: [&str; 3] = ["memory-backend", "guest_mem", "hugepages"];

/// A guest's memory as one process holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestMemory {
    /// All of it, huge pages included.
    pub held: Bytes,
    /// The part that is in the resident set of the process, where huge pages never are.
    pub resident: Bytes,
    /// It is a memory back-end's, which several processes may share.
    pub is_backend: bool,
}

/// Returns what a process holds of its guest's memory; `None` where no mapping is known to be that.
#[must_use]
pub fn of_process(pid: u32) -> Option<GuestMemory> {
    of_smaps(&fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?)
}

/// One mapping.
#[derive(Default)]
struct Mapping<'a> {
    is_executable: bool,
    name: &'a str,
    size: u64,
    held: u64,
    resident: u64,
}

fn of_smaps(smaps: &str) -> Option<GuestMemory> {
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    for line in smaps.lines() {
        let (key, rest) = line.split_once(' ')?;
        if let Some(field) = key.strip_suffix(':') {
            let Some(mapping) = mappings.last_mut() else { continue };
            let kibibytes =
                rest.trim().strip_suffix(" kB").and_then(|text| text.trim().parse().ok());
            let bytes: u64 = kibibytes.map_or(0, |kibibytes: u64| kibibytes.saturating_mul(1024));
            match field {
                "Size" => mapping.size = bytes,
                "Rss" => {
                    mapping.resident = bytes;
                    mapping.held = mapping.held.saturating_add(bytes);
                }
                "Shared_Hugetlb" | "Private_Hugetlb" => {
                    mapping.held = mapping.held.saturating_add(bytes);
                }
                _ => {}
            }
            continue;
        }
        // `7f…-7f… rw-s 00000000 00:01 1033 /memfd:memory-backend-memfd (deleted)`
        let mut words = rest.split_whitespace();
        let is_executable = words.next().is_some_and(|mode| mode.contains('x'));
        let name = words.nth(3).unwrap_or_default();
        mappings.push(Mapping { is_executable, name, ..Mapping::default() });
    }
    mappings.retain(|mapping| mapping.size >= SIZE_MIN && !mapping.is_executable);
    let is_backend = |mapping: &&Mapping<'_>| BACKENDS.iter().any(|it| mapping.name.contains(it));
    if mappings.iter().any(|mapping| is_backend(&mapping)) {
        let sum = |of: fn(&Mapping<'_>) -> u64| {
            Bytes(mappings.iter().filter(is_backend).map(of).fold(0, u64::saturating_add))
        };
        let (held, resident) = (sum(|it| it.held), sum(|it| it.resident));
        return Some(GuestMemory { held, resident, is_backend: true });
    }
    let anonymous = mappings.iter().filter(|mapping| mapping.name.is_empty());
    let largest = anonymous.max_by_key(|mapping| mapping.size)?;
    let (held, resident) = (Bytes(largest.held), Bytes(largest.resident));
    Some(GuestMemory { held, resident, is_backend: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JIT: &str =
        "7f01-7f02 rwxp 00000000 00:00 0 \nSize:        1048576 kB\nRss:           90000 kB\n";
    const LIBRARY: &str =
        "7f03-7f04 r--p 00000000 fe:00 12 /usr/lib/libc.so\nSize: 20000 kB\nRss: 9000 kB\n";

    #[test]
    fn a_memory_backend_is_the_guests_and_the_code_cache_is_not() {
        let backend = "7f05-7f06 rw-s 00000000 00:01 1033 /memfd:memory-backend-memfd (deleted)\n\
            Size:         524288 kB\nRss:          262144 kB\nPss:          131072 kB\n";
        let (held, resident) = (Bytes(256 << 20), Bytes(256 << 20));
        let found = of_smaps(&[JIT, backend, LIBRARY].concat());
        assert_eq!(found, Some(GuestMemory { held, resident, is_backend: true }));
    }

    #[test]
    fn without_a_backend_it_is_the_largest_of_anonymous_memory() {
        let arena = "7f07-7f08 rw-p 00000000 00:00 0 \nSize: 65536 kB\nRss: 900 kB\n";
        let guest = "7f09-7f0a rw-p 00000000 00:00 0 \nSize: 262144 kB\nRss: 131072 kB\n";
        let (held, resident) = (Bytes(128 << 20), Bytes(128 << 20));
        let found = of_smaps(&[JIT, arena, guest].concat());
        assert_eq!(found, Some(GuestMemory { held, resident, is_backend: false }));
        assert_eq!(of_smaps(&[JIT, LIBRARY].concat()), None);
        assert_eq!(of_smaps(""), None);
    }

    #[test]
    fn huge_pages_are_not_in_the_resident_set_and_count() {
        let huge = "7f05-7f06 rw-s 00000000 00:0f 1033 /dev/hugepages/qemu_back_mem.m.x (deleted)\n\
            Size: 262144 kB\nRss: 0 kB\nShared_Hugetlb: 0 kB\nPrivate_Hugetlb: 204800 kB\n";
        let (held, resident) = (Bytes(200 << 20), Bytes(0));
        assert_eq!(of_smaps(huge), Some(GuestMemory { held, resident, is_backend: true }));
    }
}
