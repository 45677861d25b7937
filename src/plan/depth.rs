//! How deep stacks can be: each container's files are an overlay over those of the one around it, and the kernel
//! lays no more than two overlays on each other. A machine's files come to it by a server or in memory, so it begins anew.
//!
//! Source: Linux `include/linux/fs.h` (`FILESYSTEM_MAX_STACK_DEPTH`).

use crate::fault::Fault;
use crate::layer::Root;
use crate::stack::{LayerSpec, StackSpec};

/// The most overlays on each other.
const LIMIT: u32 = 2;

/// Layers with a kernel of their own, whose root is one overlay there.
const MACHINES: [&str; 6] = ["qemu", "cloud-hypervisor", "firecracker", "krun", "libvirt", "xen"];

/// Layers that lay nothing over the files of their level, or are on another machine.
const WITHOUT: [&str; 3] = ["simulated", "ssh", "appliance"];

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
                "the files of this `{kind}` would be overlay number {count}, and the kernel lays at most {LIMIT} \
                 on each other"
            );
            return Err(Fault::user(message)
                .hint("leave a layer out, or put a machine between, as in `runc+qemu+runc`"));
        }
    }
    Ok(())
}

/// How many overlays lie on each other inside a layer, of which there are `count` around it.
fn after(layer: &LayerSpec, count: u32) -> Result<u32, Fault> {
    let kind = layer.kind.as_str();
    Ok(match kind {
        // A whole system from its image has a file system of its own.
        kind if MACHINES.contains(&kind) => u32::from(!matches!(layer.root()?, Root::Image(_))),
        kind if WITHOUT.contains(&kind) => 0,
        _ if layer.root()? == Root::Host => count,
        _ => count + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_containers_may_be_in_each_other_and_one_in_a_machine() {
        let refused = |text: &str| refuse(&StackSpec::parse(text).unwrap()).err();
        for text in [
            "runc+runc",
            "qemu+runc",
            "docker+qemu+runc",
            "qemu+qemu+docker",
            "ssh:me@there+runc+runc",
            "qemu:root=image:/a.qcow2+docker+runc",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
        for text in ["runc+runc+crun", "qemu+docker+runc", "qemu+qemu+runc+runc"] {
            let fault = refused(text).unwrap_or_else(|| panic!("{text}"));
            assert!(fault.message.contains("would be overlay number 3"), "{fault}");
        }
    }
}
