//! Removing directories, and never anything outside of them.

use super::*;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use std::fs;

#[test]
fn a_symbolic_link_is_removed_and_what_it_points_to_stays() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    fs::create_dir_all(directory.join("below")).unwrap();
    std::os::unix::fs::symlink(outside.path(), directory.join("below/link")).unwrap();
    assert_eq!(remove(&directory).unwrap(), Vec::<String>::new());
    assert!(!directory.exists());
    assert!(outside.path().join("precious").exists());
    // A link in the place of the directory itself is removed as a link.
    std::os::unix::fs::symlink(outside.path(), &directory).unwrap();
    remove(&directory).unwrap();
    assert!(!exists(&directory));
    assert!(outside.path().join("precious").exists());
}

#[test]
fn a_very_deep_tree_is_removed_with_few_descriptors() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    fs::create_dir(&directory).unwrap();
    // Deeper than one path may be long, so it is grown from above.
    for _ in 0..40 {
        let old = directory.join("old");
        if directory.join("top").exists() {
            fs::rename(directory.join("top"), &old).unwrap();
        }
        let levels = ["x"; 99].join("/");
        fs::create_dir_all(directory.join("top").join(&levels)).unwrap();
        if old.exists() {
            fs::rename(&old, directory.join("top").join(&levels).join("down")).unwrap();
        }
    }
    remove(&directory).unwrap();
    assert!(!directory.exists());
}

/// The first of all names would be taken by whoever was killed while it moved directories up.
#[test]
fn what_a_killed_removal_had_moved_up_stands_in_nobody_s_way() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    let deep = ["x"; DEPTH_LIMIT + 2].join("/");
    // In the way: full directories with every name that is easily guessed, and a file.
    for number in 0..4 {
        fs::create_dir_all(directory.join(format!(".surtax-deep-{number}")).join("full")).unwrap();
    }
    fs::write(directory.join(".surtax-deep-4"), "").unwrap();
    fs::create_dir_all(directory.join(&deep)).unwrap();
    // And so at the place where the deep one is moved from, whatever is listed first.
    fs::create_dir_all(directory.join(".surtax-deep-1").join(&deep)).unwrap();
    remove(&directory).unwrap();
    assert!(!directory.exists());
}

fn lock(path: &Path, flag: IFlags) -> Result<(), Errno> {
    let file = fs::File::open(path).unwrap();
    let flags = rustix::fs::ioctl_getflags(&file)?;
    rustix::fs::ioctl_setflags(&file, flags | flag)
}

#[test]
fn what_a_command_made_immutable_is_removed_and_a_link_from_there_unlocks_nothing() {
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, "x").unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    let deep = directory.join(["x"; DEPTH_LIMIT + 2].join("/"));
    fs::create_dir_all(&deep).unwrap();
    for file in ["immutable", "appended"] {
        fs::write(directory.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink(&precious, directory.join("x/link")).unwrap();
    if let Err(error) = lock(&precious, IFlags::IMMUTABLE) {
        println!("SKIPPED: nothing can be made immutable here: {error}");
        return;
    }
    lock(&directory.join("appended"), IFlags::APPEND).unwrap();
    for path in [&directory.join("immutable"), &deep, deep.parent().unwrap(), &directory] {
        lock(path, IFlags::IMMUTABLE).unwrap();
    }
    let removed = remove(&directory);
    let held = rustix::fs::ioctl_getflags(fs::File::open(&precious).unwrap()).unwrap();
    unlock(fs::File::open(&precious).unwrap().as_fd());
    removed.unwrap();
    assert!(!directory.exists());
    assert!(held.contains(IFlags::IMMUTABLE), "{held:?}");
}

#[test]
fn what_is_gone_is_no_error() {
    assert_eq!(remove(Path::new("/run/surtax-nobody/made-this")).unwrap(), Vec::<String>::new());
}

/// Does something in a mount namespace of a thread's own.
fn alone(act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let enter = || {
            // SAFETY: only this thread is moved, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }
                .unwrap();
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private).unwrap();
            act();
        };
        scope.spawn(enter).join().unwrap();
    });
}

#[test]
fn a_mount_that_could_not_be_taken_off_is_never_entered() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let place = tempfile::tempdir().unwrap();
    let bound = place.path().join("surtax-test/bound");
    fs::create_dir_all(&bound).unwrap();
    alone(|| {
        rustix::mount::mount_bind(outside.path(), &bound).unwrap();
        let parent = fs::File::open(place.path()).unwrap();
        let upward = &mut Upward::new().unwrap();
        let removed = remove_child(parent.as_fd(), &c"surtax-test".to_owned(), upward);
        assert_eq!(removed, Err(Errno::XDEV));
    });
    assert!(outside.path().join("precious").exists());
}

/// Of such a file the kernel says that it is not permitted, before it says that it is busy.
#[test]
fn a_mount_over_an_immutable_file_is_taken_off_and_what_is_mounted_stays_immutable() {
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-test");
    let file = directory.join("file");
    fs::create_dir(&directory).unwrap();
    for path in [&precious, &file] {
        fs::write(path, "x").unwrap();
        if let Err(error) = lock(path, IFlags::IMMUTABLE) {
            println!("SKIPPED: nothing can be made immutable here: {error}");
            return;
        }
    }
    let mut removed = Ok(Vec::new());
    alone(|| {
        rustix::mount::mount_bind(&precious, &file).unwrap();
        removed = remove(&directory);
    });
    let held = rustix::fs::ioctl_getflags(fs::File::open(&precious).unwrap()).unwrap();
    unlock(fs::File::open(&precious).unwrap().as_fd());
    assert_eq!(removed.unwrap(), [format!("`{}` was still mounted", file.display())]);
    assert!(!directory.exists());
    assert!(held.contains(IFlags::IMMUTABLE), "{held:?}");
}
