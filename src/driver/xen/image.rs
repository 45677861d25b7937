//! Images that a domain is made of: what Xen's tools can enter, told before they are asked to.
//!
//! Source: Xen `xen/include/public/elfnote.h`, `tools/libs/guest/xg_dom_elfloader.c`; the Multiboot
//! Specification 0.6.96, section 3.1.

use super::{Kind, require_linux};
use crate::fault::{Doing, Fault};
use crate::guest::elf::{PHYS32_ENTRY, has_note};
use crate::guest::kernel::KERNEL_LIMIT;
use crate::guest::unpack::unpack;
use crate::lab::Room;
use crate::regular_file;
use std::path::Path;

/// The type of the note of Xen's own entry, without which its tools do not enter an image.
///
/// Source: Linux `include/xen/interface/elfnote.h`, `XEN_ELFNOTE_ENTRY`.
const ENTRY: u32 = 1;

/// Offset of a Linux kernel's signature in its image, and the signature.
const LINUX: (usize, &[u8]) = (0x202, b"HdrS");

/// Magic number that a boot loader looks for in the first so many bytes of an image.
const MULTIBOOT: [u8; 4] = 0x1bad_b002_u32.to_le_bytes();
const MULTIBOOT_WITHIN: usize = 8192;

/// That a domain of this kind can be made of an image.
///
/// # Errors
/// The user's: it cannot, and why; or the image cannot be read. The machine's: it is a kernel of
/// Linux, which does not come up in such a domain here.
pub(in crate::driver) fn require(kind: Kind, image: &Path, room: &Room) -> Result<(), Fault> {
    let shown = image.display();
    let bytes =
        regular_file::read(image, KERNEL_LIMIT).doing(format_args!("read the image `{shown}`"))?;
    let bytes = unpack(bytes, room)?;
    if is_linux(&bytes) {
        require_linux(kind).map_err(|it| it.fault().during("xen"))?;
    }
    let Some((why, hint)) = refusal(kind, &bytes) else { return Ok(()) };
    Err(Fault::user(format!("xen: no `{}` domain can be made of `{shown}`: {why}", kind.name()))
        .hint(hint))
}

/// Returns why the image is refused, and what would help. `None` where it is taken.
fn refusal(kind: Kind, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const BY_QEMU: &str = "boot it by QEMU, with a recipe whose `board` is `q35` or `pc`";
    if is_linux(bytes) {
        // The kernel in it has notes of its own, which the tools unpack and look at.
        return None;
    }
    let has = |wanted| has_note(bytes, wanted);
    match kind {
        Kind::Pv if has(ENTRY) => None,
        Kind::Pvh if has(PHYS32_ENTRY) => None,
        Kind::Pv if has(PHYS32_ENTRY) => {
            Some(("it is entered by PVH", "use `machine=xen-pvh`, where Xen has it"))
        }
        Kind::Pvh if has(ENTRY) => {
            Some(("it asks a paravirtual Xen for everything", "use `machine=xen-pv`"))
        }
        _ if bytes.get(..MULTIBOOT_WITHIN.min(bytes.len())).is_some_and(is_multiboot) => {
            Some(("it is one for boot loaders, by Multiboot", BY_QEMU))
        }
        _ if bytes.starts_with(b"\x7fELF") => {
            Some(("it has no note that says how Xen enters it", BY_QEMU))
        }
        _ => Some(("it is neither ELF nor a Linux kernel", "name the kernel, and not a disk")),
    }
}

/// A kernel of Linux as distributions ship it; one that was unpacked by hand is not told from
/// others.
fn is_linux(bytes: &[u8]) -> bool {
    let (at, mark) = LINUX;
    bytes.get(at..at + mark.len()) == Some(mark)
}

fn is_multiboot(head: &[u8]) -> bool {
    head.chunks_exact(MULTIBOOT.len()).any(|word| word == MULTIBOOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF of 64 bits with one note of Xen's, or none.
    fn elf(note: Option<u32>) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[0x20] = 64; // program headers start here
        bytes[0x36] = 56; // size of one
        bytes[0x38] = 1; // how many
        bytes[64] = 4; // notes
        bytes[64 + 8] = 64 + 56; // where
        for word in note.iter().flat_map(|kind| [4, 4, *kind, u32::from_le_bytes(*b"Xen\0"), 0]) {
            bytes.extend(word.to_le_bytes());
        }
        bytes[64 + 32] = u8::try_from(bytes.len() - 120).unwrap();
        bytes
    }

    #[test]
    fn an_image_is_one_for_the_domain_whose_entry_it_names() {
        assert_eq!(refusal(Kind::Pv, &elf(Some(ENTRY))), None);
        assert_eq!(refusal(Kind::Pvh, &elf(Some(PHYS32_ENTRY))), None);
        let why = |kind, bytes: &[u8]| refusal(kind, bytes).unwrap().0;
        assert_eq!(why(Kind::Pv, &elf(Some(PHYS32_ENTRY))), "it is entered by PVH");
        assert!(why(Kind::Pvh, &elf(Some(ENTRY))).starts_with("it asks a paravirtual Xen"));
        assert!(why(Kind::Pv, &elf(None)).starts_with("it has no note"));
        assert!(why(Kind::Pv, b"QFI\xfb").starts_with("it is neither ELF"));
        let multiboot = [elf(None), MULTIBOOT.to_vec()].concat();
        assert_eq!(why(Kind::Pv, &multiboot), "it is one for boot loaders, by Multiboot");
    }

    #[test]
    fn a_kernel_of_linux_is_left_to_the_tools() {
        let mut bytes = vec![0; 0x300];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        assert!(is_linux(&bytes) && !is_linux(&elf(Some(PHYS32_ENTRY))));
        assert_eq!(refusal(Kind::Pv, &bytes), None);
    }
}
