//! The OCI runtime behind an engine: whose kernel is inside, and what an engine's own settings are to it.
//!
//! runc, crun and youki leave a container on this level's kernel. gVisor's runsc gives it a kernel in user
//! space: to that, the engine's filter of system calls is nothing, and what the group's limits count is the
//! sentry with its threads.
//!
//! Source: OCI runtime specification 1.0.2; gVisor's `runsc flags` (`-oci-seccomp` is off).

use super::{Choice, value_of};
use crate::fault::Fault;
use crate::stack::{IoLimits, LayerSpec, Limits};
use surtax_instrument::wire::Fact;

/// The key of the option that names the runtime.
pub(super) const KEY: &str = "runtime";

/// The option for the engine's filter of system calls.
pub(super) const SECCOMP: Choice = Choice {
    key: "seccomp",
    values: &["default", "unconfined"],
    help: "the engine's filter of system calls, or none (default: default)",
};

/// Whose kernel is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// This level's.
    Shared,
    /// gVisor's.
    Gvisor,
}

impl Kernel {
    /// By the name that a runtime is known by.
    pub fn behind(runtime: &str) -> Self {
        match runtime.contains("runsc") || runtime.contains("gvisor") {
            true => Self::Gvisor,
            false => Self::Shared,
        }
    }

    /// By the kind of a layer that has no engine.
    pub fn of_layer(kind: &str) -> Self {
        if kind == "gvisor" { Self::Gvisor } else { Self::Shared }
    }

    /// By the runtime that a spec names.
    pub fn asked(spec: &LayerSpec) -> Self {
        spec.options.get(KEY).map_or(Self::Shared, |name| Self::behind(name))
    }
}

/// Refuses what an engine would be told and its runtime would not do.
///
/// # Errors
/// The user's: an option or a limit that means nothing to the runtime, and what to write instead.
pub(super) fn refuse(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    if Kernel::asked(spec) == Kernel::Shared {
        return Ok(());
    }
    let (what, why) = if spec.options.contains_key(SECCOMP.key) {
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

/// That system calls are filtered, or not, as the option says where there is one.
///
/// # Errors
/// The machine's: they are not as was asked for.
pub(super) fn prove_filter(spec: &LayerSpec, privileges: &[Fact]) -> Result<(), Fault> {
    let Some(asked) = spec.options.get(SECCOMP.key) else { return Ok(()) };
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
pub(super) fn prove_gvisor(kind: &str, runtime: &str, inside: &[Fact]) -> Result<Fact, Fault> {
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
    use super::*;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        LayerSpec { kind: "podman".into(), options }
    }

    #[test]
    fn what_a_runtime_would_leave_undone_is_refused() {
        let pids = Limits { pids: Some(9), ..Limits::default() };
        let asked = spec(&[("runtime", "runsc")]);
        assert_eq!(refuse(&asked, &Limits::default()), Ok(()));
        assert!(refuse(&asked, &pids).unwrap_err().message.contains("pids"));
        assert_eq!(refuse(&spec(&[("runtime", "crun")]), &pids), Ok(()));
        let asked = spec(&[("runtime", "runsc"), ("seccomp", "unconfined")]);
        assert!(refuse(&asked, &Limits::default()).unwrap_err().message.contains("no filter"));
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
