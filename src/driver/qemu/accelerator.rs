//! Accelerator: who runs a guest's instructions.

use crate::layer::{OptionSpec, option};

/// The program.
pub(in crate::driver) const PROGRAM: &str = "qemu-system-x86_64";

/// QEMU's `-sandbox` setting, a filter of system calls: it forbids old ones, other users, other
/// programs and other scheduling.
pub(in crate::driver) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The option that names an accelerator.
pub(in crate::driver) const ACCELERATOR: OptionSpec = option("accel", &["kvm", "tcg"])
    .help("who runs its instructions (default: kvm where a reference guest proved it, else tcg)");

/// The option that names a CPU model.
pub(in crate::driver) const CPU_MODEL: OptionSpec = option("cpu", &[]).help(
    "the CPU model, as `qemu-system-x86_64 -cpu help` lists them (default: host under kvm, max \
     under tcg)",
);

/// Kind of executor of the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Accelerator {
    /// The processor, under KVM.
    Kvm,
    /// QEMU's own translator.
    Tcg,
}

impl Accelerator {
    /// Returns the named CPU model, or else the one with all that the accelerator can give.
    pub(in crate::driver) fn cpu_model(self, named: Option<&str>) -> &str {
        match (named, self) {
            (Some(named), _) => named,
            (None, Self::Kvm) => "host",
            (None, Self::Tcg) => "max",
        }
    }

    /// The word after `-accel`.
    pub(in crate::driver) fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Returns the hypervisor signature that the guest reads in CPUID leaf 0x40000000.
    pub(in crate::driver) fn signature(self) -> &'static str {
        match self {
            Self::Kvm => "KVMKVMKVM",
            Self::Tcg => "TCGTCGTCGTCG",
        }
    }
}
