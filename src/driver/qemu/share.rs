//! Way in which files come to a guest of QEMU's: the option, and what QEMU is told.

use crate::guest::share::{Protocol, SERVED_WRITABLE, Share, TAG, WRITABLE_TAG};
use crate::lab::us;
use crate::layer::{LayerSpec, OptionSpec, Rights, option};
use std::path::Path;

/// The option.
pub(super) const FILES: OptionSpec = option("files", &["virtiofs", "9p"]).help(
    "how this level's files come to the guest; `9p` takes the distribution's full kernel (default: \
     virtiofs; without root 9p)",
);

/// Reads the option.
pub(super) fn read(spec: &LayerSpec) -> Protocol {
    match spec.option("files") {
        Some("9p") => Protocol::Ninep,
        // Who is not root may not read another's file without a mark that it was read, which is
        // how an overlay reads, and virtiofsd passes that on.
        None if us::is_in_a_namespace() => Protocol::Ninep,
        _ => Protocol::Virtiofs,
    }
}

/// Rights that it takes to start a guest with such files.
pub(super) fn rights(spec: &LayerSpec) -> Rights {
    match spec.option("files") {
        Some("virtiofs") => Rights::Root,
        _ => Rights::Namespace,
    }
}

/// The options of QEMU's command line; `bus` ends the names of the board's virtio devices.
pub(super) fn arguments(share: &Share, bus: &str) -> Vec<[String; 2]> {
    let text = |path: &Path| path.display().to_string().replace(',', ",,");
    match share {
        Share::Virtiofs(sockets) => sockets
            .iter()
            .flat_map(|(tag, socket)| {
                [
                    ["-chardev".into(), format!("socket,id={tag},path={}", text(socket))],
                    ["-device".into(), format!("vhost-user-fs-{bus},chardev={tag},tag={tag}")],
                ]
            })
            .collect(),
        // No monitor that serves files itself is QEMU.
        Share::Directory(_) => Vec::new(),
        Share::Ninep { export, is_writable } => {
            // Several file systems lie below one directory, and their inodes are told apart.
            let local = "security_model=passthrough,multidevs=remap";
            let served = |tag: &str, path: &Path, mode: &str| {
                let path = text(path);
                [
                    ["-fsdev".into(), format!("local,id={tag},path={path},{local}{mode}")],
                    ["-device".into(), format!("virtio-9p-{bus},fsdev={tag},mount_tag={tag}")],
                ]
            };
            let mut arguments = served(TAG, export, ",readonly=on").to_vec();
            if *is_writable {
                arguments.extend(served(WRITABLE_TAG, &export.join(SERVED_WRITABLE), ""));
            }
            arguments
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_only_and_what_is_not_come_from_a_virtiofsd_each() {
        let sockets = vec![(TAG, "/room/r".into()), (WRITABLE_TAG, "/room/w".into())];
        assert_eq!(
            arguments(&Share::Virtiofs(sockets), "pci").concat().join(" "),
            "-chardev socket,id=host,path=/room/r -device vhost-user-fs-pci,chardev=host,tag=host \
             -chardev socket,id=writable,path=/room/w -device \
             vhost-user-fs-pci,chardev=writable,tag=writable"
        );
    }

    #[test]
    fn qemu_serves_by_9p_what_is_read_only_apart_from_what_is_not() {
        let share = Share::Ninep { export: "/room/a,b".into(), is_writable: true };
        assert_eq!(
            arguments(&share, "pci").concat().join(" "),
            "-fsdev \
             local,id=host,path=/room/a,,b,security_model=passthrough,multidevs=remap,readonly=on \
             -device virtio-9p-pci,fsdev=host,mount_tag=host -fsdev \
             local,id=writable,path=/room/a,,b/writable,security_model=passthrough,multidevs=remap \
             -device virtio-9p-pci,fsdev=writable,mount_tag=writable"
        );
    }
}
