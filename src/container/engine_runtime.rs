//! The OCI runtime behind an engine: whose kernel is inside, and what an engine's own settings are
//! to it.
//!
//! runc, crun and youki leave a container on this level's kernel. gVisor's runsc gives it a kernel
//! in user space: to that, the engine's filter of system calls is nothing, and what the group's
//! limits count is the sentry with its threads. Kata Containers gives it a machine, whose size,
//! kernel and devices are those of its own configuration.
//!
//! Source: OCI runtime specification 1.0.2; gVisor's `runsc flags` (`-oci-seccomp` is off).

use crate::fault::Fault;
use crate::lab::{IoLimits, Limits};
use crate::layer::{LayerSpec, OptionSpec, option, value_of};
use surtax_instrument::wire::Fact;

/// The key of the option that names the runtime.
pub(crate) const KEY: &str = "runtime";

/// The option for the engine's filter of system calls.
pub(crate) const SECCOMP: OptionSpec = option("seccomp", &["default", "unconfined"])
    .help("the engine's filter of system calls, or none (default: default)");

/// Whose kernel is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// This level's.
    Shared,
    /// gVisor's.
    Gvisor,
    /// That of a virtual machine, by Kata Containers.
    Machine,
}

impl Kernel {
    /// By the name that a runtime is known by.
    pub fn behind(runtime: &str) -> Self {
        let is = |word| runtime.contains(word);
        match is("runsc") || is("gvisor") {
            true => Self::Gvisor,
            false if is("kata") => Self::Machine,
            false => Self::Shared,
        }
    }

    /// By the runtime that a spec names.
    pub fn asked(spec: &LayerSpec) -> Self {
        spec.option(KEY).map_or(Self::Shared, Self::behind)
    }
}

/// Refuses what an engine would be told and its runtime would not do.
///
/// # Errors
/// The user's: an option or a limit that means nothing to the runtime, and what to write instead.
pub(crate) fn refuse(spec: &LayerSpec, limits: &Limits, holds_a_layer: bool) -> Result<(), Fault> {
    match Kernel::asked(spec) {
        Kernel::Shared => Ok(()),
        Kernel::Gvisor => refuse_of_gvisor(spec, limits),
        Kernel::Machine => refuse_of_machine(spec, limits, holds_a_layer),
    }
}

fn refuse_of_gvisor(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    let (what, why) = if spec.options.contains_key("seccomp") {
        ("seccomp", "its kernel takes no filter of an engine's")
    } else if limits.pids.is_some() {
        (
            "pids",
            "the threads of its own kernel would be counted, and it ends where it gets no more",
        )
    } else if limits.hugetlb.is_some() {
        ("hugetlb", "the memory of its processes is its own kernel's, which has no huge pages")
    } else if limits.io != IoLimits::default() {
        ("a limit on a disk", "its direct I/O goes through this level's page cache")
    } else {
        return Ok(());
    };
    let kind = &spec.kind;
    Err(Fault::user(format!("{kind}: `runtime=runsc` and {what}: {why}"))
        .hint(format!("leave {what} out, or use another runtime")))
}

fn refuse_of_machine(spec: &LayerSpec, limits: &Limits, holds_a_layer: bool) -> Result<(), Fault> {
    let (what, why, hint) = if *limits != Limits::default() {
        (
            "a limit",
            "its machine has the CPUs and the memory of Kata's own configuration",
            "leave the limits out, and set `default_vcpus` and `default_memory` there",
        )
    } else if spec.options.contains_key("seccomp") {
        (
            "seccomp",
            "whether there is a filter in its machine is a matter of Kata's own configuration",
            "leave `seccomp` out, and set `disable_guest_seccomp` there",
        )
    } else if spec.says("net", "host") {
        ("net=host", "a machine has no part in this level's network", "use `net=bridge`")
    } else if spec.says("privileged", "true") || holds_a_layer {
        (
            "a layer inside",
            "the devices of this level would be put into its machine",
            "nest in `docker` with another runtime, or in `qemu`",
        )
    } else {
        return Ok(());
    };
    let (kind, runtime) = (&spec.kind, &spec.options[KEY]);
    Err(Fault::user(format!("{kind}: with `runtime={runtime}`, {what} is refused: {why}"))
        .hint(hint))
}

/// That system calls are filtered, or not, as the option says where there is one.
///
/// # Errors
/// The machine's: they are not as was asked for.
pub(crate) fn prove_filter(spec: &LayerSpec, privileges: &[Fact]) -> Result<(), Fault> {
    let Some(asked) = spec.option("seccomp") else { return Ok(()) };
    let expected = if asked == "unconfined" { "none" } else { "filter" };
    let found = value_of(privileges, "seccomp")?;
    if found == expected {
        return Ok(());
    }
    let kind = &spec.kind;
    Err(Fault::machine(format!(
        "{kind}: `seccomp={asked}` was asked for, and the container's filter is `{found}`"
    ))
    .hint(format!("look at `{kind} info` for its security options, and at `privileged`")))
}

/// That the kernel inside is gVisor's.
///
/// # Errors
/// The machine's: it is another.
pub(crate) fn prove_gvisor(kind: &str, runtime: &str, inside: &[Fact]) -> Result<Fact, Fault> {
    let release = value_of(inside, "kernel_release")?;
    if release.contains("gvisor") {
        return Ok(Fact::new("kernel_release", release, "uname(2) inside"));
    }
    Err(Fault::machine(format!(
        "{kind}: the runtime is `{runtime}`, and the kernel inside calls itself `{release}`"
    )))
}

#[cfg(test)]
mod tests {
    use crate::container::engine_runtime::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("podman", options)
    }

    #[test]
    fn what_a_runtime_would_leave_undone_is_refused() {
        let pids = Limits { pids: Some(9), ..Limits::default() };
        let asked = spec(&[("runtime", "runsc")]);
        assert_eq!(refuse(&asked, &Limits::default(), false), Ok(()));
        assert!(refuse(&asked, &pids, false).unwrap_err().message.contains("pids"));
        assert_eq!(refuse(&spec(&[("runtime", "crun")]), &pids, false), Ok(()));
        let asked = spec(&[("runtime", "runsc"), ("seccomp", "unconfined")]);
        let fault = refuse(&asked, &Limits::default(), false).unwrap_err();
        assert!(fault.message.contains("no filter"), "{fault}");
    }

    #[test]
    fn what_a_machine_of_katas_decides_itself_is_refused_with_where() {
        let kata = ("runtime", "kata-qemu");
        let nothing = Limits::default();
        assert_eq!(refuse(&spec(&[kata, ("net", "bridge")]), &nothing, false), Ok(()));
        for other in [("seccomp", "default"), ("net", "host"), ("privileged", "true")] {
            let fault = refuse(&spec(&[kata, other]), &nothing, false).unwrap_err();
            assert!(
                fault.message.contains("`runtime=kata-qemu`") && fault.hint.is_some(),
                "{fault}"
            );
        }
        let limits = Limits { cpu_millis: Some(2000), ..Limits::default() };
        let fault = refuse(&spec(&[kata]), &limits, false).unwrap_err();
        assert!(fault.hint.unwrap().contains("default_vcpus"));
        assert!(refuse(&spec(&[kata]), &nothing, true).is_err());
    }

    #[test]
    fn a_filter_that_was_not_asked_for_is_named() {
        let found = |mode: &str| [Fact::new("seccomp", mode, "test")];
        let asked = spec(&[("seccomp", "unconfined")]);
        assert_eq!(prove_filter(&asked, &found("none")), Ok(()));
        assert!(prove_filter(&asked, &found("filter")).unwrap_err().message.contains("`filter`"));
        assert_eq!(prove_filter(&spec(&[("seccomp", "default")]), &found("filter")), Ok(()));
        assert_eq!(prove_filter(&spec(&[]), &found("none")), Ok(()));
    }

    #[test]
    fn a_kernel_that_is_not_gvisors_is_named() {
        let inside = |release: &str| [Fact::new("kernel_release", release, "test")];
        assert!(prove_gvisor("docker", "runsc", &inside("4.19.0-gvisor")).is_ok());
        let fault = prove_gvisor("docker", "runsc", &inside("6.1.0-18-amd64")).unwrap_err();
        assert!(fault.message.contains("`6.1.0-18-amd64`"), "{fault}");
    }
}
