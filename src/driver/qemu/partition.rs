//! A machine as a partition of this level: what comes nearest to no hypervisor with a stock one.
//!
//! NoHype (Keller, Szefer, Rexford, Lee, ISCA 2010) gives every guest cores and memory of its own
//! for life and takes the hypervisor out of its way. Of that, QEMU and KVM have: virtual CPUs
//! pinned to CPUs of their own, memory of huge pages that is allocated and locked before the start,
//! and `hlt`, `pause` and `mwait` that do not leave the guest. `profile=partition` is all of these
//! at once; each is an option of its own too, and each is read back.

use crate::fault::{Doing, Fault};
use crate::layer::{LayerSpec, OptionSpec, option};
use crate::vm::accelerator::Accelerator;
use crate::vm::qmp::Qmp;
use std::fs;
use surtax_instrument::wire::Fact;

/// The options.
pub(super) const MEM_LOCK: OptionSpec = option("mem-lock", &["on", "off"]).help(
    "whether all of QEMU's memory is locked, so that none is ever swapped out (default: off)",
);
pub(super) const CPU_PM: OptionSpec = option("cpu-pm", &["on", "off"]).help(
    "whether the guest's idle and pause instructions stay in the guest, which then keeps its CPUs \
     busy (kvm only; default: off; not yet run on hardware)",
);
pub(super) const PROFILE: OptionSpec = option("profile", &["partition"]).help(
    "`partition`: CPUs and memory of its own and no exits when idle: \
     `accel=kvm,pin=on,hugepages=on,prealloc=on,mem-lock=on,cpu-pm=on` (not yet run on hardware)",
);

/// Options that `profile=partition` stands for.
const PARTITION: [(&str, &str); 6] = [
    ("accel", "kvm"),
    ("pin", "on"),
    ("hugepages", "on"),
    ("prealloc", "on"),
    ("mem-lock", "on"),
    ("cpu-pm", "on"),
];

/// Resources that QEMU is not to take from the guest when it is short of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overcommit {
    /// True if the memory of QEMU is locked.
    pub(super) mem_lock: bool,
    /// It idles on its CPUs.
    pub(super) cpu_pm: bool,
}

/// The spec with what its profile stands for.
///
/// # Errors
/// The user's: an option that contradicts the profile.
pub(super) fn expanded(spec: &LayerSpec) -> Result<LayerSpec, Fault> {
    let mut expanded = spec.clone();
    if !spec.options.contains_key("profile") {
        return Ok(expanded);
    }
    for (key, value) in PARTITION {
        match spec.option(key) {
            // A list of CPUs is as good as any.
            Some(said) if said == value || (key == "pin" && said != "off") => {}
            Some("tcg") => {
                return Err(Fault::user(
                    "`profile=partition` is about exits from the guest, and under `accel=tcg` \
                     there are none to avoid: QEMU itself runs every instruction",
                )
                .hint("drop `accel=tcg`, or the profile"));
            }
            Some(said) => {
                return Err(Fault::user(format!(
                    "`profile=partition` stands for `{key}={value}`, and `{key}={said}` is asked \
                     for"
                ))
                .hint(format!(
                    "drop `{key}={said}`, or name the options that you want one by \
                               one"
                )));
            }
            None => {
                expanded.options.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Ok(expanded)
}

impl Overcommit {
    /// Reads the options of a spec without a profile.
    ///
    /// # Errors
    /// The user's: `cpu-pm` where KVM is not asked for.
    pub(super) fn read(spec: &LayerSpec) -> Result<Self, Fault> {
        let overcommit =
            Self { mem_lock: spec.says("mem-lock", "on"), cpu_pm: spec.says("cpu-pm", "on") };
        if overcommit.cpu_pm && !spec.says("accel", "kvm") {
            return Err(Fault::user(
                "`cpu-pm=on` is of KVM, and QEMU ignores it without a word under tcg",
            )
            .hint("add `accel=kvm`"));
        }
        Ok(overcommit)
    }

    /// The value of QEMU's option, which is always given.
    pub(super) fn argument(self) -> String {
        let word = |is_on: bool| if is_on { "on" } else { "off" };
        format!("mem-lock={},cpu-pm={}", word(self.mem_lock), word(self.cpu_pm))
    }

    /// That memory of so many bytes is locked, and that no virtual CPU has ever left the guest to
    /// halt.
    ///
    /// # Errors
    /// It is not so, or the kernel does not tell.
    pub(super) fn prove(
        self,
        qmp: &mut Qmp,
        pid: u32,
        memory_bytes: u64,
        accelerator: Accelerator,
    ) -> Result<Vec<Fact>, Fault> {
        let mut facts = Vec::new();
        if self.mem_lock {
            let path = format!("/proc/{pid}/status");
            let status = fs::read_to_string(&path).doing(format_args!("read `{path}`"))?;
            facts.push(locked(&status, memory_bytes)?);
        }
        if accelerator == Accelerator::Kvm && self.cpu_pm {
            let exits = qmp.vcpu_statistic("halt_exits")?;
            if exits.iter().any(|count| *count > 0) {
                return Err(Fault::machine(format!(
                    "qemu: with `cpu-pm=on` nothing is to leave the guest to halt, and its virtual \
                     CPUs did {exits:?} times"
                )));
            }
            let shown: Vec<String> = exits.iter().map(u64::to_string).collect();
            facts.push(Fact::new("halt_exits", shown.join(" "), "query-stats of each virtual CPU"));
        }
        Ok(facts)
    }
}

fn locked(status: &str, memory_bytes: u64) -> Result<Fact, Fault> {
    let kibibytes = status.lines().find_map(|line| {
        line.strip_prefix("VmLck:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    let bytes = kibibytes.unwrap_or(0) << 10;
    if bytes < memory_bytes {
        return Err(Fault::machine(format!(
            "qemu: with `mem-lock=on` QEMU has locked {bytes} bytes, and the memory has \
             {memory_bytes}"
        )));
    }
    Ok(Fact::new("memory_locked", "on", "VmLck in /proc/PID/status of QEMU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("qemu", options)
    }

    #[test]
    fn a_partition_is_the_sum_of_its_options() {
        let spec = expanded(&spec(&[("profile", "partition"), ("pin", "1")])).unwrap();
        assert_eq!(
            spec.to_string(),
            "qemu:accel=kvm,cpu-pm=on,hugepages=on,mem-lock=on,pin=1,prealloc=on,profile=partition"
        );
        assert_eq!(
            Overcommit::read(&spec).map(Overcommit::argument).unwrap(),
            "mem-lock=on,cpu-pm=on"
        );
        assert_eq!(Overcommit::default().argument(), "mem-lock=off,cpu-pm=off");
    }

    #[test]
    fn a_partition_that_is_none_is_refused() {
        let refused = |options: &[(&str, &str)]| {
            let spec = spec(options);
            expanded(&spec).and_then(|spec| Overcommit::read(&spec)).unwrap_err().message
        };
        let why = refused(&[("profile", "partition"), ("accel", "tcg")]);
        assert!(why.contains("QEMU itself runs every instruction"), "{why}");
        let why = refused(&[("profile", "partition"), ("hugepages", "off")]);
        assert!(why.contains("stands for `hugepages=on`"), "{why}");
        let why = refused(&[("profile", "partition"), ("pin", "off")]);
        assert!(why.contains("stands for `pin=on`"), "{why}");
        assert!(refused(&[("cpu-pm", "on")]).contains("is of KVM"));
    }

    #[test]
    fn memory_that_is_not_locked_is_no_partition() {
        let status = "VmPeak:\t 900000 kB\nVmLck:\t  524288 kB\n";
        assert!(locked(status, 512 << 20).is_ok());
        assert!(locked(status, 513 << 20).is_err());
        assert!(locked("VmLck:\t0 kB\n", 1).is_err());
    }
}
