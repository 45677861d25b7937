//! Accelerator: who runs a guest's instructions.

/// Kind of executor of the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor, under KVM.
    Kvm,
    /// QEMU's own translator.
    Tcg,
}

impl Accelerator {
    /// Returns the named CPU model, or else the one with all that the accelerator can give.
    pub(crate) fn cpu_model(self, named: Option<&str>) -> &str {
        match (named, self) {
            (Some(named), _) => named,
            (None, Self::Kvm) => "host",
            (None, Self::Tcg) => "max",
        }
    }

    /// The word after `-accel`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Returns the hypervisor signature that the guest reads in CPUID leaf 0x40000000.
    pub(crate) fn signature(self) -> &'static str {
        match self {
            Self::Kvm => "KVMKVMKVM",
            Self::Tcg => "TCGTCGTCGTCG",
        }
    }
}
