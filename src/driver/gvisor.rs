//! gVisor: a kernel in user space, the sentry, between the command and this level's kernel.
//!
//! surtax (host) ── runsc run ── sandbox (sentry, stubs) ── agent ── command
//!                            └─ gofer: opens files for the sentry
//!
//! - **Needs** `runsc`, in `PATH` or by `binary=`, that knows the platform; for `platform=kvm` a
//!   `/dev/kvm` that boots the reference guest of `qemu`.
//! - **Leaves out** what an engine adds. `net=none` has only `lo`, `net=host` passes the level's
//!   sockets through, and `net=sandbox` is the sentry's own stack on a veth.
//! - **Payers** the runtime's own process; the group with sentry, stubs and gofer, which carries
//!   the command: engine.
//! - **Checked against** runsc 20260905 (`runsc flags`), `g3doc/user_guide/platforms.md`.

use super::qemu::kvm_proof;
use crate::container::engine_runtime::Kernel;
use crate::container::first_process::FirstProcess;
use crate::container::oci::{Oci, PRIVILEGED};
use crate::container::tool_network::{self, Wiring};
use crate::fault::Fault;
use crate::lab::{self, us};
use crate::layer::{
    BINARY, Descriptor, Exchange, Inner, LayerSpec, Limit, NETWORK, Need, OF_CALLS, OF_FILES,
    Reach, Rights, Site, StartGuess, Unavailable, impairment, medium, option, value_of,
};
use std::path::Path;
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// Time limit of `runsc flags`.
const ASK_DEADLINE: Duration = Duration::from_secs(10);

/// Default way for the command's system calls to reach the sentry.
const PLATFORM: &str = "systrap";

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &[
    "gvisor:platform=systrap", "gvisor:platform=ptrace", "gvisor:platform=kvm", "gvisor:net=host",
    "gvisor:net=sandbox", "gvisor:overlay=memory", "gvisor:overlay=none", "gvisor:directfs=false",
];

/// gVisor, by its own OCI runtime.
pub static GVISOR: Oci = Oci {
    descriptor: &Descriptor {
        kind: "gvisor",
        // Its server of files becomes another user.
        rights: |spec| match spec.says("directfs", "false") {
            true => Rights::Root,
            false => Rights::Namespace,
        },
        summary: "a container on gVisor's kernel in user space, by runsc",
        aliases: &[("runsc", "")],
        reach: &[("host", Reach::Level), ("sandbox", Reach::Link)],
        options: &[
            option("platform", &["systrap", "ptrace", "kvm"])
                .help("how system calls reach gVisor's kernel (default: systrap)"),
            option("overlay", &["self", "memory", "none"]).help(
                "where gVisor keeps what is written to its root: a file beside it (default), its \
                 own memory, or the root itself",
            ),
            option("directfs", &["true", "false"]).help(
                "whether the sandbox opens files itself and not through its gofer (default: true)",
            ),
            tool_network::choice(&["none", "host", "sandbox"]),
            impairment::DELAY,
            impairment::LOSS,
            impairment::RATE,
            medium::CHOICE,
            PRIVILEGED,
            BINARY,
        ],
        // A limit on processes would count the sentry's own threads, whose number the command does
        // not choose, and a sentry that may start no more of them dies.
        // None on a disk: direct I/O inside goes through this level's page cache.
        limits: &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Weight, Limit::Numa],
        holds_layers: true,
        both_ways: &["sandbox", "host"],
        start_guess: StartGuess::of(800),
        exchanges: &[
            Exchange {
                option: ("directfs", "false"),
                instead: "its gofer opens all files",
                causes: OF_FILES,
            },
            Exchange {
                option: ("platform", "ptrace"),
                instead: "system calls reach its kernel by ptrace",
                causes: OF_CALLS,
            },
            Exchange {
                option: ("overlay", "none"),
                instead: "what is written goes to the root itself",
                causes: &["file_create", "file_write"],
            },
        ],
        variants: VARIANTS,
        not_yet_run: &["gvisor:platform=kvm"],
        may_prove_kvm: |spec| spec.says("platform", "kvm"),
        ..Descriptor::CONTAINER
    },
    program: "runsc",
    remedy: "CGO_ENABLED=0 go install gvisor.dev/gvisor/runsc@go",
    kernel: Kernel::Gvisor,
    networks: &[("sandbox", Wiring::Prepared)],
    copies_to: None,
    refuses_hybrid: false,
    arguments,
    holds,
    require,
    prove,
};

/// Refuses layers that ask more of a kernel than gVisor's has, which is not Linux.
fn holds(spec: &LayerSpec, inside: Inner<'_>) -> Result<(), Fault> {
    let shares_network = spec.says(NETWORK, "host");
    let kind = &inside.spec.kind;
    if inside.needs(Need::FileServer) {
        let message = format!(
            "gvisor: no `{kind}` runs in it: virtiofsd, which gives a machine its files, asks for \
             more of a kernel than gVisor's has"
        );
        return Err(Fault::user(message)
            .hint(format!("put gVisor into the machine, as in `{kind}+gvisor`")));
    }
    if inside.needs(Need::OwnNetwork) && !shares_network {
        return Err(Fault::user(format!("gvisor: `{kind}` cannot make a network in it"))
            .hint(format!("write `gvisor:net=host+{kind}`, or `gvisor+runc`")));
    }
    Ok(())
}

fn platform(spec: &LayerSpec) -> &str {
    spec.option("platform").unwrap_or(PLATFORM)
}

fn arguments(spec: &LayerSpec) -> Vec<String> {
    let network = spec.option("net").unwrap_or("none");
    let mut words = vec![format!("--platform={}", platform(spec)), format!("--network={network}")];
    if us::is_in_a_namespace() {
        words.push(String::from("--ignore-cgroups"));
    }
    words.extend(file_system(spec).map(|(flag, value)| format!("--{flag}={value}")));
    words
}

/// The flags of the file-system options, and the values that they get; none for an option that is
/// not there.
fn file_system(spec: &LayerSpec) -> impl Iterator<Item = (&'static str, &str)> {
    let overlay = spec.option("overlay").map(|medium| match medium {
        "memory" => "root:memory",
        "none" => "none",
        _ => DEFAULTS[0].1,
    });
    let directfs = spec.option("directfs");
    let flags = [(DEFAULTS[0].0, overlay), (DEFAULTS[1].0, directfs)];
    flags.into_iter().filter_map(|(flag, value)| Some((flag, value?)))
}

/// Defaults of `runsc`: a flag with this value is not on its sandbox's command line.
const DEFAULTS: [(&str, &str); 2] = [("overlay2", "root:self"), ("directfs", "true")];

/// The value of a flag on a sandbox's command line, whose words end with zero bytes.
fn flag<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    let mut words = command_line.split('\0');
    words.find_map(|word| word.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('='))
}

/// Debian's runsc of 2022 does not know systrap, and would say so only when it is started.
fn require(runsc: &Path, spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    let platform = platform(spec);
    let argv = [runsc.to_string_lossy().into_owned(), "flags".to_owned()];
    let flags = lab::ask(&argv, None, ASK_DEADLINE)?;
    if !knows(&flags, platform) {
        return Err(Unavailable::new(
            format!("this `runsc` has no platform `{platform}`"),
            GVISOR.remedy,
        ));
    }
    let remedy = "use `gvisor:platform=systrap`";
    if platform == "kvm" {
        kvm_proof::require_reference_guest("platform=kvm", remedy, site)
    } else {
        Ok(())
    }
}

/// Tells whether the description of the flag `-platform` names a platform.
fn knows(flags: &str, platform: &str) -> bool {
    let mut lines = flags.lines().skip_while(|line| !line.trim_start().starts_with("-platform "));
    lines
        .nth(1)
        .is_some_and(|line| line.split(|c: char| !c.is_alphanumeric()).any(|w| w == platform))
}

/// The sandbox was started with the platform asked for, and what runs inside is gVisor's kernel.
fn prove(sandbox: &FirstProcess, spec: &LayerSpec, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
    let platform = platform(spec);
    let command_line = sandbox.text("cmdline")?;
    let file_system = DEFAULTS.map(|(name, default)| {
        let asked = file_system(spec).find_map(|(asked, value)| (asked == name).then_some(value));
        (name, asked.unwrap_or(default), flag(&command_line, name).unwrap_or(default))
    });
    let network = spec.option("net").unwrap_or("none");
    // What is not there is the default, which `sandbox` is.
    let others = [
        ("platform", platform, flag(&command_line, "platform").unwrap_or_default()),
        ("network", network, flag(&command_line, "network").unwrap_or("sandbox")),
    ];
    for (name, asked, found) in file_system.into_iter().chain(others) {
        if asked != found {
            let words = command_line.replace('\0', " ");
            return Err(Fault::machine(format!(
                "gvisor: the sandbox was not started with `--{name}={asked}` but as `{}`",
                words.trim_end()
            )));
        }
    }
    let release = value_of(inside, "kernel_release")?;
    let log = value_of(inside, "kernel_log_first_line").unwrap_or("unknown");
    if !release.contains("gvisor") && !log.contains("gVisor") {
        return Err(Fault::machine(format!(
            "gvisor: the kernel inside calls itself `{release}`, and its log begins with `{log}`"
        )));
    }
    let mut facts = vec![
        Fact::new("platform", platform, "/proc/PID/cmdline"),
        Fact::new("network_stack", network, "/proc/PID/cmdline"),
        Fact::new("overlay", file_system[0].2, "/proc/PID/cmdline"),
        Fact::new("directfs", file_system[1].2, "/proc/PID/cmdline"),
        Fact::new("kernel_release", release, "uname(2) inside"),
        Fact::new("kernel_log_first_line", log, "syslog(2) inside"),
    ];
    facts.extend(sandbox.privileges()?);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS_2022: &str = "\
  -panic-signal int
    \tregister signal handling that panics.
  -platform string
    \tspecifies which platform to use: ptrace (default), kvm. (default \"ptrace\")
  -platform_device_path string
    \tpath to a platform-specific device file (systrap does not need one).
";

    #[test]
    fn a_platform_that_a_runsc_does_not_know_is_seen_before_it_is_started() {
        assert!(knows(FLAGS_2022, "ptrace"));
        assert!(knows(FLAGS_2022, "kvm"));
        assert!(!knows(FLAGS_2022, "systrap"));
        assert!(!knows("", "systrap"));
    }

    #[test]
    fn the_platform_and_the_network_are_on_the_command_line() {
        let mut spec = LayerSpec { kind: "gvisor".into(), options: [].into() };
        assert_eq!(arguments(&spec), ["--platform=systrap", "--network=none"]);
        spec.options.insert("platform".into(), "ptrace".into());
        spec.options.insert("net".into(), "host".into());
        assert_eq!(arguments(&spec), ["--platform=ptrace", "--network=host"]);
        spec.options.insert("overlay".into(), "memory".into());
        spec.options.insert("directfs".into(), "false".into());
        assert_eq!(arguments(&spec)[2..], ["--overlay2=root:memory", "--directfs=false"]);
    }

    #[test]
    fn a_flag_is_read_back_whole() {
        let line = "runsc-sandbox\0--overlay2=root:memory\0--platform=systrap\0boot\0";
        assert_eq!(flag(line, "overlay2"), Some("root:memory"));
        assert_eq!(flag(line, "overlay"), None);
    }
}
