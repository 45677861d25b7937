//! Lines of the loader's configuration, as people and packages write them.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// Paths of the places with a reason.
fn paths(places: &[Place], reason: Reason) -> Vec<(&Path, Extent)> {
    let places = places.iter().filter(|place| place.reason == reason);
    places.map(|place| (place.path.as_path(), place.extent)).collect()
}

#[test]
fn a_line_names_what_ldconfig_takes_it_for() {
    let directories = |named: &[&str]| Line::Directories(named.iter().map(PathBuf::from).collect());
    let include = |named: &[&str]| Line::Include(named.iter().map(PathBuf::from).collect());
    for (text, told) in [
        ("/srv/x", directories(&["/srv/x"])),
        ("  \t/srv/x \t\r", directories(&["/srv/x"])),
        ("/srv/x # vendor", directories(&["/srv/x"])),
        ("/srv/x#vendor", directories(&["/srv/x"])),
        ("/srv/x\0/srv/y", directories(&["/srv/x"])),
        ("/srv/x=libc6", directories(&["/srv/x", "/srv/x=libc6"])),
        ("/srv/x =libc6 # vendor", directories(&["/srv/x", "/srv/x =libc6"])),
        ("/srv/a b", directories(&["/srv/a b"])),
        ("srv/x", directories(&["/srv/x"])),
        ("/srv/x//", directories(&["/srv/x"])),
        ("include /srv/ld.conf", include(&["/srv/ld.conf"])),
        (" include\tld.so.conf.d/*.conf  /srv/b # c", include(&["ld.so.conf.d/*.conf", "/srv/b"])),
        ("include # nothing", include(&[])),
        ("includes", directories(&["/includes"])),
        ("Include /srv/x", directories(&["/Include /srv/x"])),
        ("include", directories(&["/include"])),
        ("hwcap 0 nosegneg", Line::Nothing),
        ("HWCap\t0 nosegneg", Line::Nothing),
        ("hwcap", directories(&["/hwcap"])),
        ("", Line::Nothing),
        (" \t", Line::Nothing),
        ("# /srv/x", Line::Nothing),
        ("=libc6", directories(&["/=libc6"])),
        ("//", Line::Nothing),
    ] {
        assert_eq!(line(text.as_bytes()), told, "{text:?}");
    }
}

#[test]
fn directories_of_all_included_files_are_places_and_so_is_what_includes_them() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| real(place.path()).join(name);
    for directory in ["etc/parts", "lib", "elsewhere"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    let elsewhere = at("elsewhere/vendor.conf");
    let text = format!("include parts/*.conf none/*.conf\ninclude {}\n", elsewhere.display());
    fs::write(at("etc/ld.so.conf"), text).unwrap();
    // One that includes itself, and one that is a directory.
    let text = format!("{} # ours\ninclude a.conf\n", at("lib").display());
    fs::write(at("etc/parts/a.conf"), text).unwrap();
    fs::write(at("etc/parts/a.conf.old"), "/srv/old\n").unwrap();
    fs::create_dir(at("etc/parts/b.conf")).unwrap();
    symlink("/srv/not-there", at("etc/parts/c.conf")).unwrap();
    fs::write(elsewhere, "/srv/vendor=libc6").unwrap();
    symlink("/srv/current/libx.so", at("lib/libx.so")).unwrap();
    let main = at("etc/ld.so.conf");
    let found = configured(&main, &[PathBuf::from("/usr/lib-of-tests")]).unwrap();
    assert_eq!(
        paths(&found, DIRECTORY),
        [
            (Path::new("/usr/lib-of-tests"), Extent::Whole),
            (Path::new("/srv/vendor"), Extent::Whole),
            (Path::new("/srv/vendor=libc6"), Extent::Whole),
            (&at("lib"), Extent::Whole),
            (&at("lib/libx.so"), Extent::Itself),
        ]
    );
    assert_eq!(
        paths(&found, CONFIGURING),
        [
            (at("elsewhere/vendor.conf").as_path(), Extent::Itself),
            (&at("etc/ld.so.conf"), Extent::Itself),
            (&at("etc/parts/a.conf"), Extent::Itself),
            (&at("etc/parts/b.conf"), Extent::Itself),
            (&at("etc/parts/c.conf"), Extent::Itself),
            (&at("etc/none"), Extent::Whole),
            (&at("etc/parts"), Extent::Whole),
        ]
    );
}

#[test]
fn a_part_that_cannot_be_read_or_has_no_end_is_said() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("parts")).unwrap();
    fs::write(at("main"), "include parts/*\n").unwrap();
    let said = || configured(&at("main"), &[]).unwrap_err().message;
    let part = fs::File::create(at("parts/large")).unwrap();
    part.set_len(BYTES_MOST).unwrap();
    assert!(configured(&at("main"), &[]).is_ok());
    part.set_len(BYTES_MOST + 1).unwrap();
    assert!(said().contains("/parts/large` says what"), "{}", said());
    fs::remove_file(at("parts/large")).unwrap();
    symlink("circle", at("parts/circle")).unwrap();
    assert!(said().contains("/parts/circle` says what"), "{}", said());
    fs::remove_file(at("parts/circle")).unwrap();
    fs::write(at("parts/again"), "include ../parts/again\n").unwrap();
    assert!(configured(&at("main"), &[]).is_ok(), "a circle ends");
    fs::write(at("main"), "include parts/* more/*\n").unwrap();
    fs::create_dir(at("more")).unwrap();
    for number in 0..=FILES_MOST / 2 {
        fs::write(at("parts").join(number.to_string()), "").unwrap();
        fs::write(at("more").join(number.to_string()), "").unwrap();
    }
    assert!(said().contains("it includes more than 1000 files"), "{}", said());
    assert!(configured(&at("none"), &[]).unwrap().len() == 1, "its name alone");
}

#[test]
fn a_library_for_every_program_is_a_place() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let here = std::env::current_dir().unwrap();
    for (text, told) in [
        ("/srv/a.so\n", &[("/srv/a.so", Extent::Itself)][..]),
        (
            " /srv/a.so\t/srv/b.so:/srv/c.so # /srv/d.so\n/srv/e.so",
            &[
                ("/srv/a.so", Extent::Itself),
                ("/srv/b.so", Extent::Itself),
                ("/srv/c.so", Extent::Itself),
                ("/srv/e.so", Extent::Itself),
            ],
        ),
        ("#/srv/a.so\n", &[]),
        ("libfakeroot.so\n", &[]),
        ("/srv/$LIB/a.so ${ORIGIN}/b.so /$LIB/c.so", &[("/srv", Extent::Whole)]),
        ("${ORIGIN}/../../srv/b.so", &[("/", Extent::Whole)]),
        ("/usr/lib/../$LIB/b.so", &[("/usr/lib/..", Extent::Whole)]),
        ("", &[]),
    ] {
        fs::write(file.path(), text).unwrap();
        let found = preloaded(file.path()).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.path.to_str().unwrap(), it.extent)).collect();
        assert_eq!(found, told, "{text:?}");
    }
    fs::write(file.path(), "sub/a.so").unwrap();
    assert_eq!(preloaded(file.path()).unwrap()[0].path, here.join("sub/a.so"));
    assert_eq!(preloaded(Path::new("/not-there/ld.so.preload")), Ok(Vec::new()));
    file.as_file().set_len(BYTES_MOST + 1).unwrap();
    assert!(preloaded(file.path()).is_err());
}

#[test]
fn directories_of_musl_s_loader_are_those_of_all_its_lists() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let pattern = at("ld-musl-*.path");
    assert_eq!(of_musl(&pattern), Ok(Vec::new()), "none is there");
    fs::write(at("ld-musl-x86_64.path"), "/lib:/srv/a b\n/srv/c:\n\n/:sub::/srv/\u{ff}\n").unwrap();
    fs::write(at("ld-musl.path"), "/srv/other\n").unwrap();
    let told = ["/lib", "/srv/a b", "/srv/c", "/srv/\u{ff}"].map(PathBuf::from);
    assert_eq!(of_musl(&pattern), Ok(told.to_vec()));
    symlink("circle", at("circle")).unwrap();
    symlink("circle", at("ld-musl-i386.path")).unwrap();
    let fault = of_musl(&pattern).unwrap_err();
    assert!(fault.message.contains("ld-musl-i386.path` says what"), "{fault}");
}
