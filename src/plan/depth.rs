//! Limit on the depth of stacks: each container's files are an overlay over those of the one around
//! it, and the kernel lays no more than two overlays on each other. A machine's files come to it by
//! a server or in memory, so it begins anew.
//!
//! Source: Linux `include/linux/fs.h` (`FILESYSTEM_MAX_STACK_DEPTH`).

use crate::driver;
use crate::fault::Fault;
use crate::layer::{Files, LayerSpec, Root, StackSpec};

/// The most overlays on each other.
const LIMIT: u32 = 2;

/// Refuses a stack in which a layer would need a third overlay.
///
/// # Errors
/// The user's: which layer, and what to write instead.
pub(super) fn refuse(stack: &StackSpec) -> Result<(), Fault> {
    let mut count = 0;
    for layer in &stack.layers {
        count = after(layer, count)?;
        if count > LIMIT {
            let kind = &layer.kind;
            let message = format!(
                "the files of this `{kind}` would be overlay number {count}, and the kernel lays \
                 at most {LIMIT} on each other"
            );
            return Err(Fault::user(message)
                .hint("leave a layer out, or put a machine between, as in `runc+qemu+runc`"));
        }
    }
    Ok(())
}

/// Counts the overlays on each other inside a layer, of which there are `count` around it.
fn after(layer: &LayerSpec, count: u32) -> Result<u32, Fault> {
    Ok(match driver::find(&layer.kind)?.descriptor().files {
        Files::OfItsOwn => u32::from(!matches!(layer.root()?, Root::Image(_))),
        Files::AsTheyAre => 0,
        Files::Overlaid if layer.root()? == Root::Host => count,
        Files::Overlaid => count + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_containers_may_be_in_each_other_and_one_in_a_machine() {
        let refused = |text: &str| refuse(&driver::parse(text).unwrap()).err();
        for text in [
            "runc+runc", "qemu+runc", "docker+qemu+runc", "qemu+qemu+docker",
            "ssh:me@there+runc+runc", "qemu:root=image:/a.qcow2+docker+runc",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
        for text in ["runc+runc+crun", "qemu+docker+runc", "qemu+qemu+runc+runc"] {
            let fault = refused(text).unwrap_or_else(|| panic!("{text}"));
            assert!(fault.message.contains("would be overlay number 3"), "{fault}");
        }
    }
}
