//! Data of container engines: the roots and volumes of running containers, and what these were
//! given.
//!
//! Its mounts come and go with containers, and hold other overlays: none is part of a merged root.
//! An engine's directory may lie anywhere. It is known by name, by the engine's configuration, or
//! by what is mounted there: an engine mounts a container's root beside the layer that it writes
//! to, or on a snapshot of containerd's.
//!
//! Source: `dockerd(8)`, `data-root`; `containers-storage.conf(5)`, `graphroot`; containerd,
//! `docs/ops.md`, `root`; moby, `daemon/graphdriver/overlay2`.

use crate::regular_file;
use std::path::{Path, PathBuf};
use surtax_instrument::mountinfo::Mounted;

/// Directories of engines on every machine, all of whose mounts are theirs.
pub(crate) const USUAL: [&str; 9] = [
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/incus",
    "/var/lib/kubelet", "/var/lib/lxc", "/var/lib/lxd", "/var/lib/machines", "/var/lib/rancher",
];

/// Names in an engine's directory. Where that was put by its owner, it may be one with other files.
const NAMES: [&str; 16] = [
    "aufs", "btrfs", "buildkit", "containers", "devicemapper", "fuse-overlayfs",
    "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.overlayfs", "overlay",
    "overlay-containers", "overlay2", "plugins", "rootfs", "vfs", "volumes", "zfs",
];

/// Prefix of the directories in which containerd keeps the layers of containers.
const SNAPSHOTS: &str = "io.containerd.snapshotter.";

/// Files in which engines are told of their directory, and the ways of keys to it.
const CONFIGURATIONS: [(&str, &[&[&str]], Format); 3] = [
    ("/etc/docker/daemon.json", &[&["data-root"], &["graph"]], Format::Json),
    ("/etc/containers/storage.conf", &[&["storage", "graphroot"]], Format::Toml),
    ("/etc/containerd/config.toml", &[&["root"]], Format::Toml),
];

/// The longest configuration that is read, in bytes.
const CONFIGURATION_MOST: u64 = 1 << 20;

#[derive(Clone, Copy)]
enum Format {
    Json,
    Toml,
}

/// Tells which of these mounts are an engine's.
pub(super) fn mounted(table: &[Mounted]) -> impl Fn(&Mounted) -> bool + use<> {
    let roots: Vec<PathBuf> =
        table.iter().filter(|mount| is_container_root(mount)).map(|it| it.point.clone()).collect();
    // `ENGINE/overlay2/ID/merged`, or `ENGINE/rootfs/overlayfs/ID`.
    let engines = roots.iter().filter_map(|point| point.ancestors().nth(3));
    let engines = engines.filter(|engine| *engine != Path::new("/"));
    let mut places: Vec<PathBuf> = engines.flat_map(below).collect();
    places.extend(roots);
    places.extend(configured());
    places.extend(USUAL.map(PathBuf::from));
    move |mount| places.iter().any(|place| mount.point.starts_with(place))
}

/// Lists what engines keep in directories that this machine's owner chose, be it there or not.
pub(crate) fn configured() -> impl Iterator<Item = PathBuf> {
    let told = CONFIGURATIONS.into_iter().filter_map(|(file, ways, format)| {
        let bytes = regular_file::read(Path::new(file), CONFIGURATION_MOST).ok()?;
        Some(told(&String::from_utf8(bytes).ok()?, ways, format))
    });
    told.flatten().flat_map(|engine| below(&engine))
}

/// Lists the directories that a configuration names, if it is one that surtax can read.
fn told(text: &str, ways: &[&[&str]], format: Format) -> Vec<PathBuf> {
    let value: Option<serde_json::Value> = match format {
        Format::Json => serde_json::from_str(text).ok(),
        Format::Toml => toml::from_str(text).ok(),
    };
    let at = |way: &&[&str]| way.iter().try_fold(value.as_ref()?, |value, key| value.get(key));
    let named = ways.iter().filter_map(at).filter_map(|named| named.as_str());
    named.map(PathBuf::from).filter(|path| path.is_absolute()).collect()
}

fn below(engine: &Path) -> Vec<PathBuf> {
    NAMES.iter().map(|name| engine.join(name)).collect()
}

/// Tells whether an engine mounted this for a container, and it is not the one that this process is
/// in. Engines give the upper directory as a relative path where there are many layers.
fn is_container_root(mount: &Mounted) -> bool {
    let upper = mount.upper().filter(|_| mount.point != Path::new("/"));
    let Some(upper) = upper else { return false };
    let is_of_containerd = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(SNAPSHOTS);
    let parent = |path: &Path| path.parent().and_then(Path::file_name).map(ToOwned::to_owned);
    let is_beside = mount.point.ends_with("merged")
        && upper.ends_with("diff")
        && parent(&upper).is_some_and(|id| parent(&mount.point) == Some(id));
    is_beside || upper.iter().any(is_of_containerd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::mountinfo;

    #[test]
    fn an_engine_is_known_by_what_it_mounts_wherever_its_directory_is() {
        let table = "\
1 0 8:0 / / rw - ext4 /dev/sda rw
2 1 8:1 / /srv rw - ext4 /dev/sdb rw
3 2 0:50 / /srv/docker/overlay2/ab/merged rw - overlay overlay \
rw,lowerdir=l/X,upperdir=ab/diff,workdir=ab/work
4 2 0:51 / /srv/docker/containers/ab/mounts/shm rw - tmpfs shm rw
5 2 0:52 / /srv/docker/project rw - ext4 /dev/sdc rw
6 2 0:53 / /srv/d/rootfs/overlayfs/cd rw - overlay overlay \
rw,lowerdir=/a,upperdir=/c/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs,workdir=/w
7 2 0:54 / /srv/mine/merged rw - overlay overlay rw,lowerdir=/a,upperdir=/srv/up/diff,workdir=/w
8 2 0:55 / /srv/live rw - overlay overlay rw,lowerdir=/a,upperdir=/srv/up/live,workdir=/w
9 1 0:56 / /var/lib/docker/overlay2/ef/merged rw - overlay overlay rw
";
        let table = mountinfo::parse(table.as_bytes());
        let is_engines = mounted(&table);
        let found: Vec<u64> =
            table.iter().filter(|mount| is_engines(mount)).map(|mount| mount.id).collect();
        assert_eq!(found, [3, 4, 6, 9]);
    }

    #[test]
    fn in_a_container_its_own_root_and_what_is_mounted_in_it_are_no_engine_s() {
        let table = "\
1 0 0:50 / / rw - overlay overlay \
rw,lowerdir=/a,upperdir=/c/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs,workdir=/w
2 1 8:1 / /work rw - ext4 /dev/sdb rw
3 1 0:51 / /a/b/merged rw - overlay overlay rw,lowerdir=l,upperdir=b/diff,workdir=b/work
4 1 8:2 / /volumes/x rw - ext4 /dev/sdc rw
";
        let table = mountinfo::parse(table.as_bytes());
        let is_engines = mounted(&table);
        let found: Vec<u64> =
            table.iter().filter(|mount| is_engines(mount)).map(|mount| mount.id).collect();
        assert_eq!(found, [3]);
    }

    #[test]
    fn a_configuration_names_the_directory_of_its_engine() {
        let told = |text: &str, way: &[&str], format| told(text, &[way], format);
        let at = |path: &str| vec![PathBuf::from(path)];
        let json = r#"{"log-level": "warn", "data-root": "/srv/docker"}"#;
        assert_eq!(told(json, &["data-root"], Format::Json), at("/srv/docker"));
        assert_eq!(told(json, &["graph"], Format::Json), at("")[..0]);
        let toml = "[storage]\ndriver = \"overlay\"\ngraphroot = \"/srv/podman\"\n";
        assert_eq!(told(toml, &["storage", "graphroot"], Format::Toml), at("/srv/podman"));
        for odd in ["", "{", r#"{"data-root": 7}"#, r#"{"data-root": "srv"}"#] {
            assert_eq!(told(odd, &["data-root"], Format::Json), at("")[..0], "{odd}");
        }
        assert!(below(Path::new("/srv/docker")).contains(&"/srv/docker/overlay2".into()));
    }
}
