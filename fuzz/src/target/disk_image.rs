//! Images of disks: what a header says, and that one which names another file is never taken.

use super::Target;
use surtax::driver::untrusted;

pub const TARGET: Target =
    Target { name: "disk_image", run, seeds, folders: &[], longest: 8 << 10 };

fn run(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let Ok((format, disk_bytes)) = untrusted::disk_image(bytes, length) else { return };
    assert!(disk_bytes.is_multiple_of(512), "a disk of {disk_bytes} bytes");
    let is_qcow2 = bytes.starts_with(b"QFI\xfb");
    assert_eq!(format == "qcow2", is_qcow2, "taken for `{format}`");
    if is_qcow2 {
        let word = |at: usize| &bytes[at..at + 8];
        assert_eq!(word(8), [0; 8], "one with a file below it was taken");
        let is_third = bytes[7] == 3;
        assert!(!is_third || word(72)[7] & 4 == 0, "one with its data elsewhere was taken");
    } else {
        assert!(!bytes.is_empty(), "nothing was taken for a disk");
    }
}

/// A header of each version, one with a file below it, one with its data elsewhere, and no header.
fn seeds() -> Vec<Vec<u8>> {
    let mut second = vec![0; 512];
    second[..4].copy_from_slice(b"QFI\xfb");
    second[7] = 2;
    second[24..32].copy_from_slice(&(1_u64 << 30).to_be_bytes());
    let mut third = second.clone();
    third[7] = 3;
    let mut above = second.clone();
    above[8..16].copy_from_slice(&400_u64.to_be_bytes());
    above[16..20].copy_from_slice(&11_u32.to_be_bytes());
    above[400..411].copy_from_slice(b"/etc/shadow");
    let mut elsewhere = third.clone();
    elsewhere[79] = 4;
    vec![second, third, above, elsewhere, vec![0; 1024]]
}
