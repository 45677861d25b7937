//! Proof of KVM, for whoever runs machines under it without QEMU: the reference guest of `qemu`.

use super::check::qemu_version;
use super::{Qemu, reference_guest};
use crate::fault::Fault;
use crate::lab::Room;
use crate::layer::{Layer, LayerSpec, Site, Unavailable, Usable};

/// Checks that `qemu` has what guests of other monitors share with its own, and that KVM is proved
/// by its reference guest.
///
/// # Errors
/// What is missing.
pub(in crate::driver) fn check(spec: &LayerSpec, site: &Site<'_>) -> Result<Usable, Unavailable> {
    reference_guest_by(spec.option("kernel"), site).map_err(|refuted| {
        Unavailable::new(
            format!("it runs where `qemu:accel=kvm` does, and here {}", refuted.why),
            "use `qemu`, which can do without KVM",
        )
    })
}

/// Checks that `qemu` runs under KVM, with this kernel if one is named.
fn reference_guest_by(kernel: Option<&str>, site: &Site<'_>) -> Result<Usable, Unavailable> {
    let options = [("accel", Some("kvm")), ("kernel", kernel)].into_iter();
    let options = options.filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    Qemu.check(&LayerSpec { kind: String::from("qemu"), options: options.collect() }, site)
}

/// That KVM runs machines here, for whoever would only try. A device that opens proves nothing: it
/// may spin without a word. What proves it is the reference guest of `qemu`.
///
/// # Errors
/// Nothing proves it.
pub(in crate::driver) fn require_reference_guest(
    what: &str,
    remedy: &str,
    site: &Site<'_>,
) -> Result<(), Unavailable> {
    reference_guest_by(None, site).map(drop).map_err(|refuted| {
        let why = format!("nothing proves KVM for `{what}`: {}", refuted.why);
        Unavailable::new(why, remedy)
    })
}

/// That nothing says that KVM does not work here: it is there, and no reference guest has failed in
/// this boot. Where none was tried, the machine itself is the reference guest: it says hello before
/// the deadline.
///
/// # Errors
/// The machine's: it is not there, or was refuted.
pub(in crate::driver) fn require_kvm(site: &Site<'_>, room: &Room) -> Result<(), Fault> {
    let refuse = |why: String| Fault::machine(why).hint("use `qemu`, which can do without KVM");
    reference_guest::device(site, room).map_err(refuse)?;
    // Without QEMU there is no reference guest either.
    let Ok(version) = qemu_version(room) else { return Ok(()) };
    match reference_guest::known(site.cache, &version) {
        Some(verdict) => verdict.as_result().map(drop).map_err(refuse),
        None => Ok(()),
    }
}
