//! `config.json`: what a runtime is told to make. The defaults are those of `docker run`.

use crate::container::oci::resources::resources;
use crate::fault::{Doing, Fault};
use crate::lab::disk::Disk;
use crate::lab::{CapabilitySet, Limits, us};
use crate::layer::medium::Medium;
use crate::layer::{Root, View};
use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capabilities, Linux, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxNamespace,
    LinuxNamespaceBuilder, LinuxNamespaceType, Mount, MountBuilder, PosixRlimitBuilder,
    PosixRlimitType, Process, ProcessBuilder, RootBuilder, Spec, SpecBuilder,
    get_default_maskedpaths, get_default_mounts, get_default_readonly_paths,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::Version;
use surtax_instrument::wire::SCRATCH;

/// Path of the agent in a container; below a tmpfs where there is one, so that `/` looks as it did.
pub const AGENT: &str = "/run/surtax-agent";

/// The version that runc 1.1 and crun 1.8 read; nothing newer is used.
const SPECIFICATION: &str = "1.0.2";

/// As many open files as docker allows, where we may have so many ourselves.
const OPEN_FILES: u64 = 1_048_576;

/// A container, as asked for.
pub struct Container<'a> {
    /// The merged root, in the room's mount namespace.
    pub root: &'a Path,
    /// The static agent.
    pub agent: &'a Path,
    /// The level's own, so that a command sees the same name everywhere.
    pub host_name: &'a str,
    /// The container's group.
    pub group: &'a Path,
    /// The limits of that group.
    pub limits: &'a Limits,
    /// True if it sees its own group as the root of them all: docker's way where there is only v2.
    pub hides_groups: bool,
    /// True if this machine can limit swap.
    pub counts_swap: bool,
    /// Version of the cgroups that share out CPUs here.
    pub cpu_groups: Version,
    /// The disk that it may only use so much, if the limits say so.
    pub limited_disk: Option<Disk>,
    /// View of the command: what is kept, and whether `/run` is the level's.
    pub view: &'a View,
    /// Path of its scratch directory on this level, if it is on a disk.
    pub scratch: Option<&'a Path>,
    /// Network of the container.
    pub network: NetworkNamespace,
    /// True if layers may be started inside.
    pub is_privileged: bool,
    /// Capabilities that this process could give away: bits of `capabilities(7)`.
    pub bounding_capabilities: u64,
    /// The most open files that this process may allow.
    pub open_files_max: u64,
}

/// The network of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkNamespace {
    /// A namespace with only `lo`.
    None,
    /// The level's own.
    Host,
    /// A namespace that is prepared, as a file.
    Prepared(PathBuf),
}

/// The text of `config.json`, as a value whose lists are in a stable order.
///
/// # Errors
/// Ours, should the specification's types refuse it.
pub fn config(container: &Container<'_>) -> Result<Value, Fault> {
    let whole = spec(container)
        .map_err(|error| Fault::bug(format!("the OCI configuration is refused: {error}")))?;
    let mut value = serde_json::to_value(whole)
        .map_err(|error| Fault::bug(format!("the OCI configuration is not JSON: {error}")))?;
    // The specification's crate keeps these as sets.
    if let Some(Value::Object(sets)) = value.pointer_mut("/process/capabilities") {
        for set in sets.values_mut() {
            if let Value::Array(names) = set {
                names.sort_by_key(ToString::to_string);
            }
        }
    }
    Ok(value)
}

fn spec(container: &Container<'_>) -> Result<Spec, OciSpecError> {
    let root = RootBuilder::default().path(container.root).readonly(false).build()?;
    SpecBuilder::default()
        .version(SPECIFICATION)
        .root(root)
        .hostname(container.host_name)
        .process(process(container)?)
        .mounts(mounts(container)?)
        .linux(linux(container)?)
        .build()
}

fn process(container: &Container<'_>) -> Result<Process, OciSpecError> {
    let capabilities = capabilities(container);
    let none = Capabilities::new();
    let open_files = OPEN_FILES.min(container.open_files_max);
    let limit = PosixRlimitBuilder::default()
        .typ(PosixRlimitType::RlimitNofile)
        .soft(open_files)
        .hard(open_files)
        .build()?;
    ProcessBuilder::default()
        .terminal(false)
        .args([AGENT, "stdio"].map(String::from).to_vec())
        .env(vec![format!("PATH={PATH}")])
        .cwd("/")
        .no_new_privileges(false)
        .rlimits(vec![limit])
        .capabilities(
            LinuxCapabilitiesBuilder::default()
                .bounding(capabilities.clone())
                .effective(capabilities.clone())
                .permitted(capabilities)
                .inheritable(none.clone())
                .ambient(none)
                .build()?,
        )
        .build()
}

/// Value of `PATH` for the agent, which looks for nothing there; a command brings its own
/// environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn mounts(container: &Container<'_>) -> Result<Vec<Mount>, OciSpecError> {
    let mut mounts = get_default_mounts();
    for mount in &mut mounts {
        match mount.destination().to_str() {
            // Half of the memory, as on the level itself: docker's 64 MiB fail databases for no
            // reason.
            Some("/dev/shm") => drop_options(mount, |option| option.starts_with("size=")),
            // The group of terminals, which a namespace of one user does not have.
            Some("/dev/pts") if us::is_in_a_namespace() => {
                drop_options(mount, |option| option == "gid=5");
            }
            Some("/sys/fs/cgroup" | "/sys") if container.is_privileged => {
                drop_options(mount, |option| option == "ro");
            }
            _ => {}
        }
    }
    if container.is_privileged {
        mounts.retain(|mount| !mount.destination().starts_with("/dev"));
        mounts.push(bind(Path::new("/dev"), Path::new("/dev"), &["rbind", "rw"])?);
        // What a lab in there keeps in memory goes away with the container, however that ends.
        mounts.push(tmpfs(Path::new("/dev/shm"), "mode=1777")?);
    }
    if container.view.root == Root::Overlay {
        // The level's own `/run` holds its sockets, ours among them.
        mounts.push(tmpfs(Path::new("/run"), "mode=755")?);
    }
    mounts.push(bind(container.agent, Path::new(AGENT), &["bind", "ro"])?);
    mounts.extend(scratch(container)?);
    for path in &container.view.writable {
        mounts.push(bind(path, path, &["rbind", "rw"])?);
    }
    Ok(mounts)
}

/// A directory of the merged root is there already.
fn scratch(container: &Container<'_>) -> Result<Option<Mount>, OciSpecError> {
    let place = Path::new(SCRATCH);
    match (container.view.scratch, container.scratch) {
        (Some(Medium::Bind), Some(directory)) => bind(directory, place, &["bind", "rw"]).map(Some),
        (Some(Medium::Tmpfs), _) => tmpfs(place, "mode=1777").map(Some),
        _ => Ok(None),
    }
}

fn bind(source: &Path, destination: &Path, options: &[&str]) -> Result<Mount, OciSpecError> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    let mount = MountBuilder::default().destination(destination).typ("bind").source(source);
    mount.options(options).build()
}

fn tmpfs(destination: &Path, mode: &str) -> Result<Mount, OciSpecError> {
    let options = ["nosuid", "nodev", mode].map(String::from).to_vec();
    let mount = MountBuilder::default().destination(destination).typ("tmpfs").source("tmpfs");
    mount.options(options).build()
}

fn drop_options(mount: &mut Mount, is_dropped: fn(&str) -> bool) {
    if let Some(options) = mount.options_mut() {
        options.retain(|option| !is_dropped(option));
    }
}

fn linux(container: &Container<'_>) -> Result<Linux, OciSpecError> {
    let mut linux =
        LinuxBuilder::default().namespaces(namespaces(container)?).resources(resources(container)?);
    // Where no group can be made, a runtime does without one that nobody names.
    if !us::is_in_a_namespace() {
        linux = linux.cgroups_path(container.group);
    }
    if container.is_privileged {
        return linux.build();
    }
    linux
        .masked_paths(get_default_maskedpaths())
        .readonly_paths(get_default_readonly_paths())
        .build()
}

fn namespaces(container: &Container<'_>) -> Result<Vec<LinuxNamespace>, OciSpecError> {
    use LinuxNamespaceType as Type;
    let mut kinds = vec![Type::Pid, Type::Ipc, Type::Uts, Type::Mount];
    if container.hides_groups {
        kinds.push(Type::Cgroup);
    }
    let own = kinds.into_iter().map(|kind| LinuxNamespaceBuilder::default().typ(kind));
    let network = LinuxNamespaceBuilder::default().typ(Type::Network);
    let network = match &container.network {
        NetworkNamespace::Host => None,
        NetworkNamespace::None => Some(network),
        NetworkNamespace::Prepared(path) => Some(network.path(path)),
    };
    own.chain(network).map(LinuxNamespaceBuilder::build).collect()
}

/// Capabilities that docker gives a container by default.
const DEFAULT: [&str; 14] = [
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
];

/// Returns the capabilities that are asked for and can be given away: a runtime fails on what is
/// not in our bounding set.
fn capabilities(container: &Container<'_>) -> Capabilities {
    names_in(container.bounding_capabilities)
        .filter(|name| container.is_privileged || DEFAULT.contains(name))
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// The capabilities in a mask that are known by name, in the order of their bits.
fn names_in(mask: u64) -> impl Iterator<Item = &'static str> {
    CapabilitySet::from_bits_retain(mask).iter_names().map(|(name, _)| name)
}

/// Returns the capabilities that docker gives a container by default, as a mask.
pub fn default_capabilities() -> u64 {
    DEFAULT.into_iter().filter_map(CapabilitySet::from_name).collect::<CapabilitySet>().bits()
}

/// The names of the capabilities in a mask, in the order of their bits.
pub fn capability_names(mask: u64) -> Vec<String> {
    names_in(mask).map(|name| format!("CAP_{name}")).collect()
}

/// Reads the capabilities that this process could give away: bits of `capabilities(7)`.
///
/// # Errors
/// The machine's, when `/proc` does not say.
pub fn bounding_capabilities() -> Result<u64, Fault> {
    let path = "/proc/self/status";
    let text = fs::read_to_string(path).doing(format_args!("read `{path}`"))?;
    let mask = text.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    u64::from_str_radix(mask.unwrap_or_default().trim(), 16)
        .doing("read the bounding set of capabilities")
}

/// The most open files that this process may allow.
pub fn open_files_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(OPEN_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_crate_calls_a_capability_the_runtime_crate_does_too() {
        let names: Vec<_> = names_in(u64::MAX).collect();
        assert!(names.len() >= 41, "{names:?}");
        for name in names {
            assert!(name.parse::<oci_spec::runtime::Capability>().is_ok(), "{name}");
        }
        assert_eq!(default_capabilities(), 0xa804_25fb, "as in a container of Docker's");
    }
}
