//! Mounts in private namespaces, and what a foreign tool mounted.

use super::*;
use crate::lab::{directory, holder};
use rustix::mount::MountPropagationFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::os::fd::{AsFd, OwnedFd};

/// Runs in a thread that is in this mount namespace, and ends.
fn inside<T: Send>(namespace: &OwnedFd, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let enter = || {
            // SAFETY: only this thread is moved, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.unwrap();
            let kind = Some(LinkNameSpaceType::Mount);
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            act()
        };
        scope.spawn(enter).join().unwrap()
    })
}

/// A lab's directory that no mount of these tests lies above.
const LAB: &str = "/run/surtax/none";

#[test]
fn what_is_gone_or_has_become_a_link_is_not_seen_and_hinders_nothing() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    for directory in ["theirs/way", "merged/way"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for name in ["end", "link", "gone", "way/end"] {
        fs::write(at("merged").join(name), "below").unwrap();
    }
    fs::write(at("secret"), "secret").unwrap();
    fs::write(at("theirs/end"), "end").unwrap();
    std::os::unix::fs::symlink(at("secret"), at("theirs/link")).unwrap();
    // A directory that was exchanged after it was looked at.
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("elsewhere/end"), "secret").unwrap();
    fs::remove_dir(at("theirs/way")).unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), at("theirs/way")).unwrap();
    let mounts = ["end", "link", "gone", "way/end"].map(|name| Mount::Seen {
        source: at("theirs").join(name),
        target: at("merged").join(name),
    });
    let namespace =
        holder::mount_namespace(&mounts, vec![room.path().to_path_buf()], Path::new(LAB), None)
            .unwrap();
    let read = |name: &str| fs::read_to_string(at("merged").join(name)).unwrap();
    inside(&namespace.descriptor, || {
        assert_eq!(
            ["end", "link", "gone", "way/end"].map(read),
            ["end", "below", "below", "below"]
        );
    });
    assert_eq!(read("end"), "below");
}

#[test]
fn mounts_of_a_namespace_are_seen_inside_only() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    fs::create_dir(at("lower")).unwrap();
    fs::write(at("lower/old"), "old").unwrap();
    let mounts = [
        Mount::Tmpfs { target: at("memory") },
        Mount::Overlay {
            lower: at("lower"),
            upper: at("memory/upper"),
            work: at("memory/work"),
            target: at("merged"),
        },
        Mount::Bind {
            source: at("lower"),
            target: at("merged/read-only"),
            recursive: true,
            read_only: true,
        },
        Mount::Bind {
            source: at("lower/old"),
            target: at("memory/one-file"),
            recursive: false,
            read_only: false,
        },
        Mount::Fresh {
            kind: String::from("proc"),
            target: at("merged/proc"),
            options: String::from("nosuid,hidepid=2"),
        },
    ];
    let namespace =
        holder::mount_namespace(&mounts, vec![room.path().to_path_buf()], Path::new(LAB), None)
            .unwrap();
    inside(&namespace.descriptor, || {
        assert_eq!(fs::read_to_string(at("merged/old")).unwrap(), "old");
        fs::write(at("merged/new"), "new").unwrap();
        assert!(fs::write(at("merged/read-only/new"), "new").is_err());
        assert_eq!(fs::read_to_string(at("memory/one-file")).unwrap(), "old");
        assert!(at("merged/proc/self").exists());
        assert_eq!(unmount::below(room.path()).unwrap().len(), 5);
    });
    assert_eq!(unmount::below(room.path()).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(at("merged")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(at("lower")).unwrap().count(), 1, "the lower directory is as before");
}

#[test]
fn a_mount_point_is_made_in_places_of_ours_only() {
    let room = tempfile::tempdir().unwrap();
    let target = room.path().join("absent");
    let mounts = [Mount::Tmpfs { target: target.clone() }];
    let fault = holder::mount_namespace(&mounts, Vec::new(), Path::new(LAB), None).unwrap_err();
    assert_eq!(fault.hint, Some(format!("mkdir -p {}", target.display())));
    assert!(!target.exists());
}

#[test]
fn an_overlay_over_a_name_that_it_cannot_express_is_the_users_fault() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    fs::create_dir(at("a,b")).unwrap();
    let overlay = Mount::Overlay {
        lower: at("a,b"),
        upper: at("upper"),
        work: at("work"),
        target: at("merged"),
    };
    let fault =
        holder::mount_namespace(&[overlay], vec![room.path().to_path_buf()], Path::new(LAB), None)
            .unwrap_err();
    assert!(fault.message.contains("a,b"), "{fault}");
}

/// In a mount namespace of this thread's own, so that the machine's stays as it is.
fn alone<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let enter = || {
            // SAFETY: only this thread is moved, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
                .unwrap();
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private).unwrap();
            act()
        };
        scope.spawn(enter).join().unwrap()
    })
}

#[test]
fn what_a_foreign_tool_mounted_in_a_directory_is_unmounted_before_it_is_removed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    alone(|| {
        let mount_point = directory.join("a b/bound");
        fs::create_dir_all(&mount_point).unwrap();
        rustix::mount::mount_bind(outside.path(), &mount_point).unwrap();
        let found = directory::remove(&directory).unwrap();
        assert_eq!(found, [format!("`{}` was still mounted", mount_point.display())]);
        assert!(!directory.exists());
    });
    assert!(outside.path().join("precious").exists());
}

#[test]
fn an_overlay_has_the_mode_of_what_it_covers() {
    use std::os::unix::fs::PermissionsExt;
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    fs::create_dir(at("lower")).unwrap();
    fs::set_permissions(at("lower"), fs::Permissions::from_mode(0o1777)).unwrap();
    let mounts = [
        Mount::Tmpfs { target: at("memory") },
        Mount::Overlay {
            lower: at("lower"),
            upper: at("memory/upper"),
            work: at("memory/work"),
            target: at("merged"),
        },
    ];
    let namespace =
        holder::mount_namespace(&mounts, vec![room.path().to_path_buf()], Path::new(LAB), None)
            .unwrap();
    inside(&namespace.descriptor, || {
        let mode = fs::metadata(at("merged")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    });
}
