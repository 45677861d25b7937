//! The body of `POST /containers/create`: what the daemon is told to make.

use super::network::ContainerNetwork;
use crate::container::oci::config::{AGENT, capability_names};
use crate::fault::Fault;
use crate::lab::disk::Disk;
use crate::lab::{CapabilitySet, Limits, list, shares};
use crate::layer::View;
use crate::layer::medium::Medium;
use crate::rootfs::root::{Lower, Writes};
use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, MountVolumeOptionsDriverConfig, ThrottleDevice,
};
use std::path::{Path, PathBuf};
use surtax_instrument::wire::SCRATCH;

/// The bit of `CAP_SYS_RESOURCE`, without which a daemon cannot give all capabilities away.
const SYS_RESOURCE: u64 = CapabilitySet::SYS_RESOURCE.bits();

/// The capabilities that every daemon knows by name: the last three came with Linux 5.8 and 5.9.
const KNOWN_CAPABILITIES: u64 = (1 << 38) - 1;

/// Devices that a virtual machine inside may need.
const DEVICES: [&str; 4] = ["/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/fuse"];

/// A container, as asked for.
pub struct ContainerOptions<'a> {
    /// The skeleton.
    pub image: &'a str,
    /// The static agent.
    pub agent: &'a Path,
    /// The level's own.
    pub host_name: &'a str,
    /// The room's group, where the daemon takes a path for it.
    pub group: Option<&'a Path>,
    /// Limits of the container.
    pub limits: &'a Limits,
    /// The disk that it may only use so much, if the limits say so.
    pub limited_disk: Option<Disk>,
    /// The overlays that fill the skeleton.
    pub layers: &'a [Layered],
    /// Function that returns the path that the daemon must be told for a file of this level. It
    /// takes that file's path, and whether writes to it are kept.
    pub source: &'a dyn Fn(&Path, bool) -> PathBuf,
    /// Directories that are kept, and what else is seen.
    pub view: &'a View,
    /// Path of its scratch directory on this level, if it is on a disk.
    pub scratch: Option<&'a Path>,
    /// Network of the container.
    pub network: &'a ContainerNetwork,
    /// The engine's word for its runtime; `None` for the default.
    pub runtime: Option<&'a str>,
    /// True if no filter of system calls is put in its way.
    pub is_unfiltered: bool,
    /// True if the daemon is one of a user without privileges.
    pub is_rootless: bool,
    /// True if layers may be started inside.
    pub is_privileged: bool,
    /// Capabilities that this process could give away: bits of `capabilities(7)`.
    pub bounding_capabilities: u64,
}

/// One directory of the container: a real one, and what is above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layered {
    /// Place of the real one, and the place where it is seen.
    pub lower: Lower,
    /// Directory of its throw-away layer: `upper` and `work` are in it.
    pub above: PathBuf,
}

/// The body of the request.
///
/// # Errors
/// The user's: a path that cannot be written into mount options.
pub fn body(wanted: &ContainerOptions<'_>) -> Result<ContainerCreateBody, Fault> {
    Ok(ContainerCreateBody {
        image: Some(wanted.image.to_owned()),
        hostname: Some(wanted.host_name.to_owned()),
        cmd: Some(vec![AGENT.to_owned(), "stdio".to_owned()]),
        working_dir: Some("/".to_owned()),
        user: Some("0:0".to_owned()),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        exposed_ports: wanted.network.ports().map(|ports| ports.into_keys().collect()),
        host_config: Some(host_config(wanted)?),
        ..ContainerCreateBody::default()
    })
}

fn host_config(wanted: &ContainerOptions<'_>) -> Result<HostConfig, Fault> {
    let limits = wanted.limits;
    let memory = limits.memory.map(|bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX));
    let io = |rate: Option<u64>| {
        let disk = wanted.limited_disk.as_ref()?;
        let path = Some(disk.node.to_string_lossy().into_owned());
        let rate = Some(i64::try_from(rate?).unwrap_or(i64::MAX));
        Some(vec![ThrottleDevice { path, rate }])
    };
    let config = HostConfig {
        auto_remove: Some(false),
        cgroup_parent: wanted.group.map(|group| format!("/{}", group.display())),
        nano_cpus: limits.cpu_millis.map(|millis| i64::from(millis) * 1_000_000),
        cpu_shares: limits.weight.map(|weight| i64::try_from(shares(weight)).unwrap_or(i64::MAX)),
        cpuset_cpus: limits.cpuset.as_deref().map(list),
        cpuset_mems: limits.numa.as_deref().map(list),
        blkio_device_read_bps: io(limits.io.read_bps.map(|bytes| bytes.0)),
        blkio_device_write_bps: io(limits.io.write_bps.map(|bytes| bytes.0)),
        blkio_device_read_iops: io(limits.io.read_iops.map(u64::from)),
        blkio_device_write_iops: io(limits.io.write_iops.map(u64::from)),
        memory,
        memory_swap: memory,
        pids_limit: limits.pids.map(i64::from),
        // Frames are no text for a log file.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(mounts(wanted)?),
        tmpfs: Some([("/run".to_owned(), "rw,exec,nosuid,nodev,mode=755".to_owned())].into()),
        network_mode: Some(wanted.network.name.clone()),
        port_bindings: wanted.network.ports(),
        runtime: wanted.runtime.map(str::to_owned),
        security_opt: wanted.is_unfiltered.then(|| vec![String::from("seccomp=unconfined")]),
        ..HostConfig::default()
    };
    Ok(if wanted.is_privileged { privileged(config, wanted) } else { config })
}

/// All that can be given. Where we lack a capability, so may the daemon, and `Privileged` would
/// fail.
fn privileged(config: HostConfig, wanted: &ContainerOptions<'_>) -> HostConfig {
    if wanted.bounding_capabilities & SYS_RESOURCE != 0 {
        return HostConfig { privileged: Some(true), ..config };
    }
    let device = |path: &&str| DeviceMapping {
        path_on_host: Some((*path).to_owned()),
        path_in_container: Some((*path).to_owned()),
        cgroup_permissions: Some("rwm".to_owned()),
    };
    let unconfined = ["seccomp=unconfined", "apparmor=unconfined"];
    HostConfig {
        cap_add: Some(capability_names(wanted.bounding_capabilities & KNOWN_CAPABILITIES)),
        security_opt: Some(unconfined.map(String::from).to_vec()),
        // What the command line calls `systempaths=unconfined`.
        masked_paths: Some(Vec::new()),
        readonly_paths: Some(Vec::new()),
        devices: Some(DEVICES.iter().filter(|path| Path::new(path).exists()).map(device).collect()),
        ..config
    }
}

fn mounts(wanted: &ContainerOptions<'_>) -> Result<Vec<Mount>, Fault> {
    let mut mounts = Vec::new();
    for layer in wanted.layers {
        // A kept directory is mounted in its stead.
        if !wanted.view.writable.contains(&layer.lower.place) {
            mounts.push(layered(layer, wanted.source, wanted.is_rootless)?);
        }
    }
    for path in &wanted.view.writable {
        mounts.push(bind(&(wanted.source)(path, true), path, false));
    }
    mounts.push(bind(wanted.agent, Path::new(AGENT), true));
    mounts.extend(scratch(wanted));
    Ok(mounts)
}

/// Of a directory of the container's own layer the skeleton takes care.
fn scratch(wanted: &ContainerOptions<'_>) -> Option<Mount> {
    let typ = match wanted.view.scratch? {
        Medium::Layer | Medium::Disk => return None,
        Medium::Bind => {
            return Some(bind(&(wanted.source)(wanted.scratch?, true), Path::new(SCRATCH), false));
        }
        Medium::Tmpfs => MountType::TMPFS,
        Medium::Volume => MountType::VOLUME,
    };
    Some(Mount { typ: Some(typ), target: Some(SCRATCH.to_owned()), ..Mount::default() })
}

fn layered(
    layer: &Layered,
    seen: &dyn Fn(&Path, bool) -> PathBuf,
    is_rootless: bool,
) -> Result<Mount, Fault> {
    let Lower { source, place, writes } = &layer.lower;
    let source = seen(source, false);
    if *writes == Writes::Refused {
        return Ok(bind(&source, place, true));
    }
    let (upper, work) = (layer.above.join("upper"), layer.above.join("work"));
    for path in [&source, &upper, &work] {
        if path.as_os_str().as_encoded_bytes().iter().any(|byte| b",:\\".contains(byte)) {
            let path = path.display();
            return Err(Fault::user(format!(
                "docker: `{path}` cannot be part of an overlay volume"
            ))
            .hint("give it a name without `,`, `:` and `\\`"));
        }
    }
    // Attributes of the kernel's own are root's alone.
    let attributes = if is_rootless { ",userxattr" } else { "" };
    let options = format!(
        "lowerdir={},upperdir={},workdir={}{attributes}",
        source.display(),
        upper.display(),
        work.display()
    );
    let options = [("type", "overlay"), ("device", "overlay"), ("o", &options)];
    let driver = MountVolumeOptionsDriverConfig {
        name: Some("local".to_owned()),
        options: Some(options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
    };
    Ok(Mount {
        typ: Some(MountType::VOLUME),
        target: Some(place.to_string_lossy().into_owned()),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            driver_config: Some(driver),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    })
}

fn bind(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_string_lossy().into_owned()),
        read_only: Some(read_only),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::IoLimits;
    use crate::layer::Root;
    use surtax_instrument::quantity::Bytes;

    #[test]
    fn the_request_for_a_limited_container_is_the_golden_one() {
        let lower = |source: &str, place: &str, writes| Lower {
            source: source.into(),
            place: place.into(),
            writes,
        };
        let layers = [
            Layered {
                lower: lower("/etc", "/etc", Writes::ThrownAway),
                above: "/dev/shm/surtax-1/room/0".into(),
            },
            Layered {
                lower: lower("/srv", "/srv", Writes::ThrownAway),
                above: "/dev/shm/surtax-1/room/1".into(),
            },
            Layered {
                lower: lower("/snap/core", "/snap/core", Writes::Refused),
                above: "/dev/shm/surtax-1/room/2".into(),
            },
        ];
        let view = View {
            root: Root::Overlay,
            writable: vec!["/srv".into()],
            cwd: PathBuf::from("/"),
            scratch: None,
            shows_secrets: false,
        };
        let limits = Limits {
            cpu_millis: Some(500),
            cpuset: Some(vec![1, 3]),
            memory: Some(Bytes(64 << 20)),
            pids: Some(20),
            weight: Some(50),
            io: IoLimits { read_bps: Some(Bytes(1 << 20)), ..IoLimits::default() },
            ..Limits::default()
        };
        let wanted = ContainerOptions {
            image: "surtax/root:1-c0ffee",
            agent: Path::new("/run/surtax/1/agent"),
            host_name: "lab7",
            group: Some(Path::new("surtax-1/room")),
            limits: &limits,
            limited_disk: Some(Disk { numbers: (254, 0), node: "/dev/vda".into() }),
            layers: &layers,
            source: &|path, _| path.to_path_buf(),
            view: &view,
            network: &ContainerNetwork { word: "none".into(), name: "none".into(), port: None },
            runtime: Some("runsc"),
            scratch: None,
            is_unfiltered: false,
            is_rootless: false,
            is_privileged: false,
            bounding_capabilities: u64::MAX,
        };
        let found = serde_json::to_value(body(&wanted).unwrap()).unwrap();
        let found = format!("{found:#}\n");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver/docker/golden/limited.json");
        if std::env::var_os("SURTAX_BLESS").is_some() {
            std::fs::write(path, &found).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), found, "review, then SURTAX_BLESS=1");
    }

    #[test]
    fn a_path_that_would_end_an_option_is_refused() {
        let layer = Layered {
            lower: Lower {
                source: "/mnt/a,b".into(),
                place: "/mnt/a,b".into(),
                writes: Writes::ThrownAway,
            },
            above: "/dev/shm/x".into(),
        };
        let fault = layered(&layer, &|path, _| path.to_path_buf(), false).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        assert!(fault.message.contains("/mnt/a,b"), "{fault}");
    }
}
