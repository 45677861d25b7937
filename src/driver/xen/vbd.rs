//! A disk of a domain's: a file that the QEMU of the domain serves to the domain's `blkfront`.
//!
//! No script of Xen's tools has a part in it, nor a block device of Dom0's.
//!
//! Source: `xl-disk-configuration(5)` of Xen 4.17, QEMU 7.2 `hw/block/xen-block.c`.

use super::toolstack;
use crate::fault::{Doing, Fault};
use crate::layer::{OptionSpec, option};
use crate::vm::board::Board;
use crate::vm::disk::Made;
use crate::vm::qmp::Qmp;
use std::os::unix::net::UnixStream;
use surtax_instrument::wire::Fact;

/// Name of the disk in the domain, and its number in the store: major 202, minor 0.
const NAME: &str = "xvda";
const NUMBER: u32 = 51712;

/// State that both ends write when they are connected: `XenbusStateConnected`.
pub(super) const CONNECTED: &str = "4";

/// Option for how the file is cached: the two ways that the QEMU of a domain has.
pub(super) const CACHE: OptionSpec = option("cache", &["none", "writeback"]).help(
    "how Dom0 caches the scratch disk: past its page cache with `aio=native`, or through it with \
     threads (default: none)",
);

/// Returns the text that follows `disk=`.
pub(super) fn text(disk: &Made) -> String {
    let format = disk.disk.file_format();
    let direct = if disk.disk.is_direct() { ",direct-io-safe" } else { "" };
    // A target takes all that follows.
    let file = disk.file.display();
    format!("format={format},vdev={NAME},access=rw,backendtype=qdisk,discard{direct},target={file}")
}

/// The disk as the store, its QEMU and the domain have it.
///
/// # Errors
/// One of them does not have what was asked for.
pub(super) fn prove(
    disk: &Made,
    id: u16,
    server: u32,
    inside: &[Fact],
) -> Result<Vec<Fact>, Fault> {
    let place = format!("/local/domain/0/backend/qdisk/{id}/{NUMBER}");
    let front = format!("/local/domain/{id}/device/vbd/{NUMBER}");
    for (who, path) in [("Dom0", &place), ("the domain", &front)] {
        let state = toolstack::read(&format!("{path}/state"))?;
        if state != CONNECTED {
            return Err(Fault::machine(format!(
                "xen: the scratch disk was to be connected, and its state for {who} is `{state}`"
            )));
        }
    }
    let socket = format!("/run/xen/qmp-libxenstat-{id}");
    let stream = UnixStream::connect(&socket)
        .doing(format_args!("ask the QEMU of a domain at `{socket}`"))?;
    let proved = Qmp::open(stream).and_then(|mut qmp| {
        let mut facts = vec![Fact::new("disk_qemu_version", qmp.version(), "QMP greeting")];
        facts.extend(disk.prove(&mut qmp, server, Board::Q35, inside)?);
        Ok(facts)
    });
    let mut facts = proved.map_err(|fault| fault.during("xen"))?;
    facts.push(Fact::new("disk_backend", "qdisk", "xenstore"));
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::LayerSpec;
    use crate::vm::disk::{Disk, DiskDefaults};

    #[test]
    fn the_target_stands_last_and_direct_i_o_is_said_where_it_is_meant() {
        let disk = |options: &[(&str, &str)]| {
            let spec = LayerSpec::of("xen", options);
            let disk = Disk::read(&spec, Board::Q35, DiskDefaults::QEMU).unwrap().unwrap();
            Made { disk, file: "/tmp/a,b.raw".into() }
        };
        assert_eq!(
            text(&disk(&[("scratch", "blkfront")])),
            "format=raw,vdev=xvda,access=rw,backendtype=qdisk,discard,direct-io-safe,target=/tmp/a,b.raw"
        );
        let options = [("scratch", "blkfront"), ("format", "qcow2-backed"), ("cache", "writeback")];
        assert_eq!(
            text(&disk(&options)),
            "format=qcow2,vdev=xvda,access=rw,backendtype=qdisk,discard,target=/tmp/a,b.raw"
        );
    }
}
