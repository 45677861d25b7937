//! Kernels as packages ship them, made of a few bytes.

use super::*;

/// A bzImage that holds `payload` and says that it is `release`.
fn bzimage(release: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * 512];
    bytes[0x1f1] = 1;
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    let text = format!("{release} (builder) #1 SMP");
    bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
    bytes[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns the needs of a guest with files by virtiofs.
fn need() -> Need<'static> {
    let modules = vec!["virtiofs", "overlay"];
    Need { named: None, flavor: Flavor::Cloud, modules, entry: None }
}

/// A kernel as a package ships it, with empty modules.
fn install(root: &Path, release: &str) {
    let modules = root.join("lib/modules").join(release);
    fs::create_dir_all(root.join("boot")).unwrap();
    fs::create_dir_all(modules.join("kernel")).unwrap();
    for name in [channel::PORT, "virtio_pci"].iter().chain(&need().modules) {
        fs::write(modules.join("kernel").join(format!("{name}.ko")), "").unwrap();
    }
    let image = bzimage(release, b"");
    fs::write(root.join("boot").join(format!("vmlinuz-{release}")), image).unwrap();
}

#[test]
fn the_release_is_read_from_the_kernel_and_not_from_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("vmlinuz-9.9");
    fs::write(&file, bzimage("6.1.0-56-cloud-amd64", b"")).unwrap();
    assert_eq!(release_of(&file).unwrap().as_deref(), Some("6.1.0-56-cloud-amd64"));
}

#[test]
fn the_length_behind_the_payload_is_cut_off_but_for_gzip() {
    let image = bzimage("6.1", &[0x02, 0x21, 0x4c, 0x18, 1, 2, 3, 4]);
    assert_eq!(BzImage::parse(&image).unwrap().payload(), Some(&[0x02, 0x21, 0x4c, 0x18][..]));
    let image = bzimage("6.1", &[0x1f, 0x8b, 1, 2, 3, 4]);
    assert_eq!(BzImage::parse(&image).unwrap().payload().map(<[u8]>::len), Some(6));
}

#[test]
fn a_bzimage_whose_payload_lies_outside_of_it_has_none() {
    let mut image = bzimage("6.1", b"payload");
    image[0x248..0x24c].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(BzImage::parse(&image).unwrap().payload(), None);
    assert_eq!(BzImage::parse(&image[..0x230]).unwrap().payload(), None);
    assert!(BzImage::parse(b"MZ").is_none());
}

#[test]
fn the_newest_whole_kernel_of_the_cache_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let kernels = directory.path();
    for release in ["6.9.0-1-cloud-x", "6.10.0-1-cloud-x", "6.11.0-1-cloud-x", "6.12.0-1-x"] {
        install(&kernels.join(release), release);
    }
    let newest = "6.11.0-1-cloud-x";
    let overlay = format!("{newest}/lib/modules/{newest}/kernel/overlay.ko");
    fs::remove_file(kernels.join(overlay)).unwrap();
    assert_eq!(cached_kernel(kernels, &need()).unwrap().release, "6.10.0-1-cloud-x");
    let full = Need { flavor: Flavor::Full, ..need() };
    assert_eq!(cached_kernel(kernels, &full).unwrap().release, "6.12.0-1-x");
    let e1000 = Need { modules: vec!["e1000"], ..full };
    assert_eq!(cached_kernel(kernels, &e1000), None, "it has no such module");
    assert_eq!(cached_kernel(&kernels.join("nowhere"), &need()), None);
}

#[test]
fn a_kernel_of_this_machine_is_used_when_its_modules_are_there() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(host_kernel(directory.path(), &need()), None);
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    install(directory.path(), &release);
    assert_eq!(host_kernel(directory.path(), &need()).unwrap().release, release);
}

#[test]
fn a_named_kernel_without_modules_is_refused_with_the_place_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    install(&root, "6.1.0-test");
    let file = root.join("boot/vmlinuz-6.1.0-test");
    let found = named_kernel(&file).unwrap();
    assert_eq!(found.modules, root.join("lib/modules/6.1.0-test"));

    fs::remove_dir_all(root.join("lib")).unwrap();
    let fault = named_kernel(&file).unwrap_err();
    assert!(fault.message.contains("is 6.1.0-test, whose modules are not in"), "{fault}");
    assert_eq!(fault.hint.as_deref(), Some("put them there, or into `/lib/modules/6.1.0-test`"));
}

#[test]
fn a_named_kernel_without_a_driver_that_is_needed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    install(directory.path(), "6.1.0-test");
    let file = directory.path().join("boot/vmlinuz-6.1.0-test");
    let plain = Need { named: file.to_str(), ..need() };
    assert!(find(&plain, directory.path()).unwrap().is_some());
    let fault = find(&Need { modules: vec!["e1000"], ..plain }, directory.path()).unwrap_err();
    assert!(fault.message.ends_with("has no module `e1000`"), "{fault}");
}

#[test]
fn a_named_file_that_is_no_kernel_is_refused() {
    let fault = named_kernel(Path::new("/proc/self/status")).unwrap_err();
    assert!(fault.message.contains("neither a bzImage nor an ELF kernel"), "{fault}");
    let fault = named_kernel(Path::new("/nowhere/vmlinuz")).unwrap_err();
    assert!(fault.message.contains("cannot be read: No such file"), "{fault}");
}

#[test]
fn a_kernel_that_is_a_pipe_or_has_no_end_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let (pipe, zero) = (place.path().join("pipe"), place.path().join("zero"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    for (path, says) in [(pipe, "it is a pipe, and no regular"), (zero, "it is a device, and no")] {
        let named = path.display().to_string();
        let fault = find(&Need { named: Some(&named), ..need() }, place.path()).unwrap_err();
        assert!(fault.message.contains(says), "{fault}");
        assert_eq!(fault.exit_code(), 2);
        assert!(sha256(&path).unwrap_err().message.contains(says));
    }
}

#[test]
fn a_release_that_is_no_plain_name_is_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for release in ["/etc/x", "../../etc/x", "6.1/../../x", "..", ".6.1", "-6.1", "6.1\n"] {
        fs::write(file.path(), bzimage(release, b"")).unwrap();
        assert_eq!(release_of(file.path()).unwrap(), None, "{release:?}");
        let fault = named_kernel(file.path()).unwrap_err();
        assert!(fault.message.contains("neither a bzImage nor an ELF kernel"), "{fault}");
    }
    assert_eq!(release_in(b"Linux version 6/../../x (builder)"), None);
    for release in ["6.1.0-56-cloud-amd64", "6.12.1+rpt_v8~rc1"] {
        fs::write(file.path(), bzimage(release, b"")).unwrap();
        assert_eq!(release_of(file.path()).unwrap().as_deref(), Some(release));
        let banner = format!("Linux version {release} (builder)");
        assert_eq!(release_in(banner.as_bytes()).as_deref(), Some(release));
    }
}

#[test]
fn a_file_of_the_cache_is_not_written_through_a_link_that_somebody_laid() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("theirs"), "kept").unwrap();
    let guessed = format!("vmlinux.{}.partial", std::process::id());
    for name in ["vmlinux", &guessed] {
        std::os::unix::fs::symlink(at("theirs"), at(name)).unwrap();
    }
    write_whole(&at("vmlinux"), b"kernel").unwrap();
    assert_eq!(fs::read(at("theirs")).unwrap(), b"kept");
    assert_eq!(fs::read(at("vmlinux")).unwrap(), b"kernel");
    assert!(cache::is_ours(&at("vmlinux")));
    let count = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(count, 3, "nothing of ours is left beside it");
}

#[test]
fn what_somebody_else_laid_in_the_cache_is_not_taken() {
    use std::os::unix::fs::PermissionsExt;

    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    assert!(!cache::is_ours(&file), "it is not there");
    write_whole(&file, b"kernel").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(cache::is_ours(&file) && !cache::is_ours(&link) && !cache::is_ours(place.path()));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(!cache::is_ours(&file), "everybody can write to it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        assert!(!cache::is_ours(&file), "it is somebody else's");
    }
}

#[test]
fn kernels_of_one_release_length_and_time_have_images_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let (path, next) = (place.path().join("vmlinuz"), place.path().join("next"));
    let image = |path: &Path| {
        let (release, file) = (String::from("6.1"), path.to_owned());
        let found = FoundKernel { release, file, modules: PathBuf::new(), origin: "a test" };
        cache::place(&found, &sha256(path).unwrap(), Path::new("/cache/kernels"))
    };
    fs::write(&path, bzimage("6.1", b"one")).unwrap();
    fs::write(&next, bzimage("6.1", b"two")).unwrap();
    let first = image(&path);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&next).unwrap().set_modified(time).unwrap();
    fs::rename(&next, &path).unwrap();
    let second = image(&path);
    assert_ne!(first, second);
    for image in [first, second] {
        assert!(image.starts_with("/cache/kernels/unpacked"), "{}", image.display());
    }
}
