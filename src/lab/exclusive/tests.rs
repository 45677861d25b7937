//! Directories that somebody else made first, links in their place, and parents that are open to
//! others.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// A user who is nobody here.
const SOMEBODY: u32 = 65_534;

fn place() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Fault>) -> String {
    result.unwrap_err().message
}

/// Tells whether directories can be given to somebody else here; if not, that is said.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: only root can make a directory of somebody else's");
    }
    is_root
}

#[test]
fn a_directory_is_made_once_and_never_taken_over() {
    let place = place();
    let path = place.path().join("surtax-1");
    make(&path, 0o711).unwrap();
    assert_eq!(mode(&path), 0o711);
    assert!(refusal(make(&path, 0o700)).contains("is there already"));
    let file = place.path().join("surtax-2");
    fs::write(&file, "").unwrap();
    assert!(refusal(make(&file, 0o700)).contains("is there already"));
    let link = place.path().join("surtax-3");
    symlink(place.path().join("target"), &link).unwrap();
    assert!(refusal(make(&link, 0o700)).contains("is there already"));
    assert!(!place.path().join("target").exists());
}

#[test]
fn no_directory_is_made_where_others_could_swap_it() {
    let place = place();
    let parent = place.path().join("open");
    fs::create_dir(&parent).unwrap();
    set_mode(&parent, 0o777);
    let said = refusal(make(&parent.join("surtax-1"), 0o700));
    assert!(said.contains("(mode 0777)"), "{said}");
    set_mode(&parent, 0o1777);
    make(&parent.join("surtax-1"), 0o700).unwrap();
    let said = refusal(make(&place.path().join("absent/surtax-1"), 0o700));
    assert!(said.contains("there is no directory"), "{said}");
}

#[test]
fn a_parent_of_somebody_elses_is_refused_wherever_it_is() {
    if !is_root() {
        return;
    }
    let place = place();
    let parent = place.path().join("theirs/below");
    fs::create_dir_all(&parent).unwrap();
    chown(place.path().join("theirs"), Some(SOMEBODY), None).unwrap();
    for path in [parent.join("surtax-1"), place.path().join("theirs/surtax-1")] {
        let said = refusal(make(&path, 0o700));
        assert!(said.contains("belongs to user 65534"), "{said}");
        let said = refusal(ensure(&path, 0o700));
        assert!(said.contains("belongs to user 65534"), "{said}");
    }
}

#[test]
fn a_shared_directory_of_somebody_elses_is_refused_and_our_own_is_taken() {
    let place = place();
    let path = place.path().join("a/b/surtax");
    let real = fs::canonicalize(place.path()).unwrap().join("a/b/surtax");
    assert_eq!(ensure(&path, 0o711).unwrap(), real);
    assert_eq!(mode(&path), 0o711);
    assert_eq!(ensure(&path, 0o711).unwrap(), real);
    set_mode(&path, 0o770);
    assert!(refusal(ensure(&path, 0o711)).contains("(mode 0770)"));
    set_mode(&path, 0o1777);
    assert!(refusal(ensure(&path, 0o711)).contains("(mode 1777)"), "sticky is for parents");
    set_mode(&path, 0o700);
    if is_root() {
        chown(&path, Some(SOMEBODY), None).unwrap();
        assert!(refusal(ensure(&path, 0o711)).contains("belongs to user 65534"));
    }
}

#[test]
fn a_link_of_somebody_elses_is_not_followed_and_one_of_ours_is() {
    let place = place();
    let (target, link) = (place.path().join("target"), place.path().join("link"));
    fs::create_dir(&target).unwrap();
    symlink("target", &link).unwrap();
    let real = fs::canonicalize(&target).unwrap();
    assert_eq!(ensure(&link, 0o700).unwrap(), real);
    assert_eq!(ensure(&link.join("new"), 0o700).unwrap(), real.join("new"));
    if is_root() {
        std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).unwrap();
        let said = refusal(ensure(&link, 0o700));
        assert!(said.contains("symbolic link") && said.contains("belongs to user 65534"), "{said}");
        assert!(refusal(make(&link.join("x"), 0o700)).contains("belongs to user 65534"));
    }
    let ring = place.path().join("ring");
    symlink("ring", &ring).unwrap();
    assert!(refusal(ensure(&ring, 0o700)).contains("symbolic link"));
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let place = place();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    write(&file, "ours").unwrap();
    assert!(refusal(write(&file, "again")).contains("create the new file"));
    symlink(place.path().join("elsewhere"), &link).unwrap();
    assert!(refusal(write(&link, "through")).contains("create the new file"));
    assert!(!place.path().join("elsewhere").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
}

#[test]
fn names_that_nobody_can_guess_differ() {
    let names: std::collections::BTreeSet<_> = (0..100).map(|_| unguessable().unwrap()).collect();
    assert_eq!(names.len(), 100);
    assert!(names.iter().all(|name| name.len() == 2 * RANDOM_BYTES));
}

#[test]
fn a_directory_is_given_to_a_user_and_never_by_a_link_that_this_one_made() {
    if !is_root() {
        return;
    }
    let place = place();
    let home = place.path().join("home");
    make_for(SOMEBODY, &home).unwrap();
    make_for(SOMEBODY, &home).unwrap();
    let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).unwrap());
    assert_eq!((owner(&home), mode(&home)), (SOMEBODY, 0o700));
    let precious = place.path().join("precious");
    fs::create_dir(&precious).unwrap();
    symlink(&precious, home.join("session")).unwrap();
    make_for(SOMEBODY, &home.join("session")).unwrap_err();
    assert_eq!(owner(&precious), 0);
    chown(&precious, Some(1), None).unwrap();
    assert!(refusal(make_for(SOMEBODY, &precious)).contains("belongs to user 1"));
}
