//! QEMU as a program: its name, its filter of system calls, and the options that every driver of it
//! takes.

use crate::fault::Fault;
use crate::layer::{OptionSpec, option};

/// The program.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// QEMU's `-sandbox` setting, a filter of system calls: it forbids old ones, other users, other
/// programs and other scheduling.
pub(crate) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Suffix after a CPU model's name in the name of its type.
pub(crate) const CPU_TYPE_SUFFIX: &str = "-x86_64-cpu";

/// The option that names an accelerator.
pub(crate) const ACCELERATOR: OptionSpec = option("accel", &["kvm", "tcg"])
    .help("who runs its instructions (default: kvm where a reference guest proved it, else tcg)");

/// The option that names a CPU model.
pub(crate) const CPU_MODEL: OptionSpec = option("cpu", &[]).help(
    "the CPU model, as `qemu-system-x86_64 -cpu help` lists them (default: host under kvm, max \
     under tcg)",
);

/// Reads a name of `-cpu help`. Its features are not options here: `,` begins the layer's next
/// option.
///
/// # Errors
/// The user's: it is none.
pub(crate) fn cpu_model(name: &str) -> Result<String, Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    Err(Fault::user(format!("`{name}` is not the name of a CPU model"))
        .hint("`qemu-system-x86_64 -cpu help` lists them"))
}
