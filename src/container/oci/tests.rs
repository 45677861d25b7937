//! Golden configurations of OCI containers, and what becomes of their options.

use super::*;
use crate::container::oci::config::{Container, NetworkNamespace};
use crate::lab::IoLimits;
use crate::lab::disk::Disk;
use crate::layer::{Root, View};
use std::fmt::Write as _;
use surtax_instrument::probe::cgroup::Version;
use surtax_instrument::quantity::Bytes;

const LIMITED: Limits = Limits {
    cpu_millis: Some(1500),
    cpuset: None,
    memory: Some(Bytes(512 << 20)),
    hugetlb: None,
    pids: Some(100),
    weight: Some(200),
    partition: None,
    numa: None,
    io: IoLimits {
        read_bps: None,
        write_bps: Some(Bytes(8 << 20)),
        read_iops: Some(100),
        write_iops: None,
    },
};

fn view(root: Root) -> View {
    View {
        root,
        writable: vec!["/srv/data".into()],
        cwd: "/".into(),
        scratch: None,
        shows_secrets: false,
    }
}

fn container<'a>(view: &'a View, limits: &'a Limits) -> Container<'a> {
    Container {
        root: Path::new("/dev/shm/surtax-1/room/root"),
        agent: Path::new("/run/surtax/1/agent"),
        host_name: "lab7",
        group: Path::new("/surtax-1/room/container"),
        limits,
        hides_groups: false,
        counts_swap: true,
        cpu_groups: Version::One,
        limited_disk: Some(Disk { numbers: (254, 0), node: PathBuf::new() }),
        view,
        scratch: None,
        network: NetworkNamespace::None,
        is_privileged: false,
        // As on a machine that keeps CAP_MKNOD (27) and CAP_SYS_RESOURCE (24) from us.
        bounding_capabilities: 0x1ff_ffff_ffff & !(1 << 27) & !(1 << 24),
        open_files_max: 20_000,
    }
}

fn shown(container: &Container<'_>) -> String {
    format!("{:#}\n", config::config(container).unwrap())
}

/// Compares with the file, which `SURTAX_BLESS=1` writes anew.
fn assert_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/container/oci/golden").join(name);
    if std::env::var_os("SURTAX_BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap();
    assert_eq!(golden, found, "review the change, then run again with SURTAX_BLESS=1");
}

#[test]
fn the_configuration_of_a_limited_container_is_the_golden_one() {
    let view = view(Root::Overlay);
    assert_golden("limited.json", &shown(&container(&view, &LIMITED)));
}

#[test]
fn the_configuration_of_a_container_that_holds_layers_is_the_golden_one() {
    let view = view(Root::Oci("/image".into()));
    let limits = Limits { cpuset: Some(vec![0, 2]), ..Limits::default() };
    let whole = Container {
        network: NetworkNamespace::Host,
        is_privileged: true,
        hides_groups: true,
        ..container(&view, &limits)
    };
    assert_golden("privileged.json", &shown(&whole));
}

#[test]
fn a_capability_that_we_do_not_have_is_not_asked_for() {
    let view = view(Root::Overlay);
    let text = shown(&container(&view, &LIMITED));
    assert!(text.contains("CAP_CHOWN"));
    assert!(!text.contains("CAP_MKNOD"));
    let privileged = Container { is_privileged: true, ..container(&view, &LIMITED) };
    assert!(!shown(&privileged).contains("CAP_SYS_RESOURCE"));
    assert!(shown(&privileged).contains("CAP_SYS_ADMIN"));
}

#[test]
fn open_files_are_never_more_than_we_may_allow() {
    let view = view(Root::Overlay);
    let text = shown(&container(&view, &LIMITED));
    assert!(text.contains("\"hard\": 20000"), "{text}");
    let generous = Container { open_files_max: u64::MAX, ..container(&view, &LIMITED) };
    assert!(shown(&generous).contains("\"hard\": 1048576"));
}

#[test]
fn the_runtimes_own_options_stand_before_its_command() {
    let command_line = CommandLine {
        keeps_keyring: false,
        program: "/usr/bin/runsc".into(),
        own: vec!["--platform=systrap".into()],
        bundle: "/dev/shm/surtax-1/room".into(),
    };
    let mut shown = String::new();
    for line in [command_line.run(), command_line.delete()] {
        writeln!(shown, "{}", line.join(" ")).unwrap();
    }
    assert_eq!(
        shown,
        "/usr/bin/runsc --root /dev/shm/surtax-1/room/runtime --platform=systrap run --pid-file \
         /dev/shm/surtax-1/room/pid --bundle /dev/shm/surtax-1/room container\n/usr/bin/runsc \
         --root /dev/shm/surtax-1/room/runtime --platform=systrap delete --force container\n"
    );
}
