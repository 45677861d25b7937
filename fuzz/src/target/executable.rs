//! Kernels, modules and programs: what ELF and the boot protocol say of themselves.

use super::Target;
use surtax::driver::untrusted;

pub const TARGET: Target = Target {
    name: "executable",
    run: |bytes| {
        let found = untrusted::executable(bytes);
        assert!(found <= bytes.len() * 4, "{found} things in {} bytes", bytes.len());
    },
    seeds,
    folders: &[],
    longest: 64 << 10,
};

/// The beginning of this program, a header with notes, and a kernel's boot sector.
fn seeds() -> Vec<Vec<u8>> {
    let program = std::fs::read("/proc/self/exe").unwrap_or_default();
    let start = program[..program.len().min(4096)].to_vec();
    let mut kernel = vec![0; 4096];
    kernel[0x1f1] = 1;
    kernel[0x202..0x206].copy_from_slice(b"HdrS");
    kernel[0x20e] = 0x40;
    kernel[0x240..0x246].copy_from_slice(b"6.1.0 ");
    kernel[0x24c] = 0x80;
    vec![start, kernel, b"\x7fELF\x02\x01".to_vec()]
}
