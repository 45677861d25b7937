//! Merged roots of made-up mount tables, and one of this machine.

use super::*;

/// A workstation: btrfs root and home, a snap, a docker container that runs, a disk with a blank.
const WORKSTATION: &str = "\
22 27 0:21 / /proc rw - proc proc rw
23 27 0:22 / /sys rw - sysfs sysfs rw
24 27 0:6 / /dev rw - devtmpfs devtmpfs rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
26 27 0:24 / /run rw - tmpfs tmpfs rw
27 1 0:30 /@ / rw,relatime shared:1 - btrfs /dev/nvme0n1p2 rw
28 27 0:30 /@home /home rw,relatime shared:2 - btrfs /dev/nvme0n1p2 rw
29 28 0:50 / /home/ann/disk\\040two rw - fuse.sshfs lab: rw
30 27 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
31 27 0:60 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw
32 27 8:1 / /boot rw - vfat /dev/sda1 ro
33 26 0:70 / /run/user/1000 rw - tmpfs tmpfs rw
";

fn points(text: &str) -> Vec<String> {
    let seen = visible::visible(text.as_bytes());
    let is_engines = engines::mounted(&seen);
    let real = seen.iter().filter(|mount| visible::is_real(mount) && !is_engines(mount));
    real.map(|mount| mount.point.display().to_string()).collect()
}

#[test]
fn only_file_systems_with_files_of_a_user_are_merged() {
    let real = points(WORKSTATION);
    assert_eq!(
        real,
        [
            "/dev/shm", "/run", "/", "/home", "/home/ann/disk two", "/snap/core/1", "/boot",
            "/run/user/1000"
        ]
    );
    let mounted = visible::visible(WORKSTATION.as_bytes());
    let read_only = mounted.iter().filter(|mount| mount.is_read_only()).map(|mount| &mount.point);
    assert_eq!(read_only.collect::<Vec<_>>(), [Path::new("/snap/core/1"), Path::new("/boot")]);
}

#[test]
fn a_directory_on_a_file_system_of_the_kernel_s_or_around_one_is_told_from_one_in_memory() {
    let table = format!(
        "{WORKSTATION}40 27 0:80 / /srv/chroot/proc rw - proc proc rw\n\
         41 27 0:81 / /mnt/huge rw - hugetlbfs huge rw\n"
    );
    let kind = |path: &str| {
        visible::kernel_mount_at(table.as_bytes(), Path::new(path)).map(|mount| mount.kind)
    };
    for (path, expected) in [
        ("/proc/sys/kernel", "proc"),
        ("/sys", "sysfs"),
        ("/dev", "devtmpfs"),
        ("/dev/disk", "devtmpfs"),
        ("/srv/chroot", "proc"),
        ("/srv/chroot/proc/1", "proc"),
    ] {
        assert_eq!(kind(path).as_deref(), Some(expected), "{path}");
    }
    for path in ["/dev/shm/x", "/home/ann", "/srv/chroot/home", "/mnt/huge/x", "/procedures"] {
        assert_eq!(kind(path), None, "{path}");
    }
}

#[test]
fn a_hidden_mount_is_not_merged() {
    let stacked =
        "1 0 8:0 / / rw - ext4 a rw\n2 1 8:1 / /a rw - ext4 b rw\n3 2 8:2 / /a rw - xfs c rw\n";
    assert_eq!(points(stacked), ["/", "/a"]);
    assert_eq!(visible::visible(stacked.as_bytes())[1].kind, "xfs");

    let covered =
        "1 0 8:0 / / rw - ext4 a rw\n2 1 8:1 / /a/b rw - ext4 b rw\n3 1 8:2 / /a rw - xfs c rw\n";
    assert_eq!(points(covered), ["/", "/a"]);

    let stacked_and_covered = "1 0 8:0 / / rw - ext4 a rw\n2 1 8:1 / /a/b rw - ext4 b rw\n4 2 8:3 \
                               / /a/b rw - xfs d rw\n3 1 8:2 / /a rw - xfs c rw\n";
    assert_eq!(points(stacked_and_covered), ["/", "/a"]);
}

#[test]
fn parents_are_mounted_before_children_and_the_kernels_places_not_at_all() {
    let mounted = visible::visible(
        b"1 0 8:0 / / rw - ext4 a rw\n\
         2 4 8:1 / /usr/lib rw - ext4 b rw\n\
         4 1 8:2 / /usr rw - ext4 c rw\n\
         5 1 0:9 / /tmp ro - tmpfs d rw\n\
         6 1 0:9 / /run rw - tmpfs d rw\n",
    );
    let lowers = lowers_in(&mounted, Path::new("/"));
    let places: Vec<_> = lowers.iter().map(|lower| (lower.place.as_path(), lower.writes)).collect();
    assert_eq!(
        places,
        [
            (Path::new("/"), Writes::ThrownAway),
            (Path::new("/usr"), Writes::ThrownAway),
            (Path::new("/tmp"), Writes::Refused),
            (Path::new("/usr/lib"), Writes::ThrownAway),
        ]
    );
}

#[test]
fn a_directory_as_root_takes_only_what_is_mounted_below_it() {
    let mounted = visible::visible(
        b"1 0 8:0 / / rw - ext4 a rw\n2 1 8:1 / /tmp rw - ext4 b rw\n3 1 8:2 / /usr/lib rw - ext4 \
          c rw\n",
    );
    let lowers = lowers_in(&mounted, Path::new("/usr"));
    let places: Vec<_> = lowers.iter().map(|lower| lower.place.display().to_string()).collect();
    assert_eq!(places, ["/", "/lib"]);
    assert_eq!(lowers[0].source, Path::new("/usr"));
}

#[test]
fn one_tmpfs_holds_every_upper_layer() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let lowers = [
        Lower { source: "/".into(), place: "/".into(), writes: Writes::ThrownAway },
        Lower { source: "/snap".into(), place: "/snap".into(), writes: Writes::Refused },
    ];
    assert_eq!(
        merge((&lowers, &[]), scratch.path(), None).unwrap(),
        [
            Mount::Tmpfs { target: at("root") },
            Mount::Overlay {
                lower: "/".into(),
                upper: at("root/0/upper"),
                work: at("root/0/work"),
                target: at("root/merged"),
            },
            Mount::Bind {
                source: "/snap".into(),
                target: at("root/merged/snap"),
                recursive: false,
                read_only: true,
            },
        ]
    );
    assert!(at("root").is_dir());
}

#[test]
fn the_level_as_it_is_is_refused_for_a_container() {
    let fault = lowers(&Root::Host, Path::new("/nowhere")).unwrap_err();
    assert_eq!(fault.exit_code(), 2);
    assert!(fault.hint.unwrap().contains("--writable"));
}

#[test]
fn a_missing_root_is_the_users_mistake() {
    let fault = lowers(&Root::Directory("/no/such/root".into()), Path::new("/")).unwrap_err();
    assert!(fault.message.contains("`/no/such/root`"), "{fault}");
    assert_eq!(fault.exit_code(), 2);
}

#[test]
fn the_owners_of_a_root_are_mapped_below_its_overlay() {
    let overlay = Mount::Overlay {
        lower: "/".into(),
        upper: "/s/0/upper".into(),
        work: "/s/0/work".into(),
        target: "/s/merged".into(),
    };
    let kept = Mount::Bind {
        source: "/srv".into(),
        target: "/s/merged/srv".into(),
        recursive: true,
        read_only: false,
    };
    let mapped = mapped(vec![overlay, kept], Path::new("/users"));
    let map = |source: &str, target: &str, read_only| Mount::Mapped {
        source: source.into(),
        target: target.into(),
        users: "/users".into(),
        read_only,
    };
    assert_eq!(mapped[0], map("/", "/s/0/lower", true));
    assert!(matches!(&mapped[1], Mount::Overlay { lower, .. } if lower == Path::new("/s/0/lower")));
    assert_eq!(mapped[2], map("/srv", "/s/merged/srv", false));
}
