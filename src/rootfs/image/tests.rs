//! Image layouts and archives: layers, whiteouts, and what would escape.

use super::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surtax_instrument::hex;
use tar::{Builder, EntryType, Header};

/// Kind of an entry of a test layer.
enum Kind<'a> {
    File(&'a str),
    Directory,
    Symlink(&'a str),
    Hardlink(&'a str),
    Device,
    Fifo,
}
use Kind::{Device, Directory, Fifo, File as Text, Hardlink, Symlink};

/// Time that a reader may wait for what nobody will write.
const PATIENCE: Duration = Duration::from_secs(10);

fn layer(entries: &[(&str, Kind<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, kind) in entries {
        let mut header = Header::new_gnu();
        // By hand: the library refuses the paths that an attacker would write.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        let (entry_type, text, target) = match kind {
            Text(text) => (EntryType::Regular, *text, None),
            Directory => (EntryType::Directory, "", None),
            Symlink(target) => (EntryType::Symlink, "", Some(target)),
            Hardlink(target) => (EntryType::Link, "", Some(target)),
            Device => (EntryType::Char, "", None),
            Fifo => (EntryType::Fifo, "", None),
        };
        if let Some(target) = target {
            header.as_gnu_mut().unwrap().linkname[..target.len()]
                .copy_from_slice(target.as_bytes());
        }
        header.set_entry_type(entry_type);
        header.set_mode(0o751);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        header.set_mtime(1_000_000);
        // Those of `/dev/null`, of which everybody may have another one.
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
        header.set_size(text.len() as u64);
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn put_blob(layout: &Path, bytes: &[u8]) -> String {
    let name = hex::of(&Sha256::digest(bytes));
    fs::write(layout.join("blobs/sha256").join(&name), bytes).unwrap();
    format!("sha256:{name}")
}

/// An image of these layers, every other one compressed.
fn image(at: &Path, layers: &[Vec<u8>], architecture: &str) {
    fs::create_dir_all(at.join("blobs/sha256")).unwrap();
    let mut descriptors = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let (bytes, suffix) =
            if index % 2 == 0 { (gzip(layer), "+gzip") } else { (layer.clone(), "") };
        descriptors.push(json!({
            "mediaType": format!("application/vnd.oci.image.layer.v1.tar{suffix}"),
            "digest": put_blob(at, &bytes),
            "size": bytes.len(),
        }));
    }
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": put_blob(at, b"{}"),
            "size": 2,
        },
        "layers": descriptors,
    })
    .to_string();
    let index = json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": put_blob(at, manifest.as_bytes()),
            "size": manifest.len(),
            "platform": { "os": "linux", "architecture": architecture },
        }],
    });
    fs::write(at.join("index.json"), index.to_string()).unwrap();
}

fn here() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// Unpacks an image of these layers, and says where its root is.
fn unpacked(layers: &[Vec<u8>]) -> (tempfile::TempDir, Result<PathBuf, Fault>) {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("image");
    image(&at, layers, here());
    let root = unpack_oci(&at, &directory.path().join("cache"));
    (directory, root)
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn a_layer_hides_what_its_whiteouts_name() {
    let below = layer(&[
        ("etc", Directory),
        ("etc/old", Text("old")),
        ("etc/kept", Text("kept")),
        ("var/cache/", Directory),
        ("var/cache/stale", Text("stale")),
        ("tool", Text("a file that becomes a directory")),
    ]);
    let above = layer(&[
        ("etc/.wh.old", Text("")),
        ("var/cache/fresh", Text("fresh")),
        ("var/cache/.wh..wh..opq", Text("")),
        ("tool/", Directory),
        ("tool/inner", Text("inner")),
    ]);
    let (_directory, root) = unpacked(&[below, above]);
    let root = root.unwrap();
    assert!(!root.join("etc/old").exists());
    assert!(!root.join("etc/.wh.old").exists());
    assert!(!root.join("var/cache/stale").exists());
    assert_eq!(read(&root, "etc/kept"), "kept");
    assert_eq!(read(&root, "var/cache/fresh"), "fresh");
    assert_eq!(read(&root, "tool/inner"), "inner");
}

#[test]
fn modes_times_and_links_are_those_of_the_image() {
    let (_directory, root) = unpacked(&[layer(&[
        ("bin/", Directory),
        ("bin/sh", Text("#!")),
        ("bin/ash", Hardlink("bin/sh")),
        ("sh", Symlink("/bin/sh")),
    ])]);
    let root = root.unwrap();
    let shell = fs::metadata(root.join("bin/sh")).unwrap();
    assert_eq!(shell.permissions().mode() & 0o7777, 0o751);
    assert_eq!((shell.mtime(), shell.nlink()), (1_000_000, 2));
    assert_eq!(fs::metadata(root.join("bin")).unwrap().mtime(), 1_000_000);
    assert_eq!(fs::read_link(root.join("sh")).unwrap(), Path::new("/bin/sh"));
}

#[test]
fn an_entry_that_leads_upward_is_refused() {
    for path in ["../escaped", "etc/../../escaped"] {
        let (directory, root) = unpacked(&[layer(&[(path, Text("out"))])]);
        let fault = root.unwrap_err();
        assert!(fault.message.contains("leads upward"), "{fault}");
        assert!(!directory.path().join("cache").join(STORE).join("escaped").exists());
        assert_eq!(fault.exit_code(), 2);
    }
}

/// A layer of directories, and of links where there is a target, with paths of any length.
fn long_layer(entries: &[(String, Option<String>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, target) in entries {
        let mut header = Header::new_gnu();
        header.set_mode(0o755);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        header.set_mtime(1_000_000);
        header.set_size(0);
        if let Some(target) = target {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, path, target).unwrap();
        } else {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, path, io::empty()).unwrap();
        }
    }
    builder.into_inner().unwrap()
}

/// A path of so many directories, one in another.
fn nested(levels: usize) -> String {
    vec!["d"; levels].join("/")
}

#[test]
fn directories_that_lie_too_deep_are_refused_and_nothing_is_left() {
    let at_once = |levels| vec![(nested(levels), None)];
    // Each link leads as deep as the one before it, and further.
    let by_links = (0..26).flat_map(|step: usize| {
        let above = step.checked_sub(1).map(|last| format!("link{last}/")).unwrap_or_default();
        let deeper = format!("{above}{}", nested(200));
        [(deeper.clone(), None), (format!("link{step}"), Some(deeper))]
    });
    for entries in [at_once(5_000), at_once(1_500), at_once(257), by_links.collect()] {
        let (directory, root) = unpacked(&[long_layer(&entries)]);
        let fault = root.unwrap_err();
        assert!(fault.message.contains("it lies more than 256 directories deep"), "{fault}");
        assert!(fault.message.len() < 1_000, "{fault}");
        assert_eq!(fault.exit_code(), 2);
        let store = directory.path().join("cache").join(STORE);
        assert_eq!(fs::read_dir(store).unwrap().count(), 0);
    }
    let (_directory, root) = unpacked(&[long_layer(&at_once(256))]);
    assert!(root.unwrap().join(nested(256)).is_dir());
}

#[test]
fn a_link_that_leads_out_is_followed_as_inside_the_image() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().to_str().unwrap();
    let (_directory, root) = unpacked(&[layer(&[
        ("door", Symlink(victim)),
        ("up", Symlink("../../../..")),
        (&format!("{}/", &victim[1..]), Directory),
        ("door/file", Text("inside")),
        ("up/file", Text("at the top")),
    ])]);
    let root = root.unwrap();
    assert_eq!(fs::read_dir(victim).unwrap().count(), 0);
    assert_eq!(read(&root, &format!("{}/file", &victim[1..])), "inside");
    assert_eq!(read(&root, "file"), "at the top");
}

#[test]
fn a_file_is_not_written_through_a_link_of_its_own_name() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let (_directory, root) = unpacked(&[
        layer(&[("config", Symlink(victim.to_str().unwrap()))]),
        layer(&[("config", Text("new"))]),
    ]);
    assert_eq!(read(&root.unwrap(), "config"), "new");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

#[test]
fn a_blob_that_was_tampered_with_is_named_and_nothing_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (at, cache) = (directory.path().join("image"), directory.path().join("cache"));
    let bytes = layer(&[("file", Text("true"))]);
    image(&at, std::slice::from_ref(&bytes), here());
    let blob = gzip(&bytes);
    let name = hex::of(&Sha256::digest(&blob));
    fs::write(at.join("blobs/sha256").join(&name), gzip(&layer(&[("file", Text("fals"))])))
        .unwrap();
    let fault = unpack_oci(&at, &cache).unwrap_err();
    assert!(fault.message.contains(&format!("blob `sha256:{name}`")), "{fault}");
    assert_eq!(fs::read_dir(cache.join(STORE)).unwrap().count(), 0);
}

#[test]
fn an_archive_gives_the_same_tree_as_its_directory_and_is_unpacked_once() {
    let directory = tempfile::tempdir().unwrap();
    let (at, cache) = (directory.path().join("image"), directory.path().join("cache"));
    image(&at, &[layer(&[("file", Text("text"))])], here());
    let archive = directory.path().join("image.tar");
    let mut builder = Builder::new(fs::File::create(&archive).unwrap());
    builder.append_dir_all(".", &at).unwrap();
    builder.finish().unwrap();

    let from_directory = unpack_oci(&at, &cache).unwrap();
    fs::write(from_directory.join("mark"), "").unwrap();
    assert_eq!(unpack_oci(&archive, &cache).unwrap(), from_directory);
    assert!(from_directory.join("mark").exists(), "it was unpacked again");
}

#[test]
fn an_image_for_another_processor_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("image");
    image(&at, &[layer(&[])], "s390x");
    let fault = unpack_oci(&at, &directory.path().join("cache")).unwrap_err();
    assert!(
        fault.message.ends_with(&format!("no manifest for linux/{} in the index", here())),
        "{fault}"
    );
}

#[test]
fn what_is_no_image_is_the_users_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("image.tar");
    fs::write(&file, "text").unwrap();
    let cache = directory.path().join("cache");
    assert_eq!(unpack_oci(&file, &cache).unwrap_err().exit_code(), 2);
    assert_eq!(unpack_oci(Path::new("/no/such/image"), &cache).unwrap_err().exit_code(), 2);
}

#[test]
fn nobody_else_enters_where_images_are_unpacked() {
    let directory = tempfile::tempdir().unwrap();
    let (at, cache) = (directory.path().join("image"), directory.path().join("cache"));
    image(&at, &[layer(&[(".", Directory), ("bin", Directory)])], here());
    let root = unpack_oci(&at, &cache).unwrap();
    let store = root.parent().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&root), mode(store)), (0o751, 0o700));

    // Somebody opened it since.
    fs::set_permissions(store, fs::Permissions::from_mode(0o755)).unwrap();
    image(&at, &[layer(&[("another", Text(""))])], here());
    assert_ne!(unpack_oci(&at, &cache).unwrap(), root);
    assert_eq!(mode(store), 0o700);

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(store, Some(65_534), None).unwrap();
        image(&at, &[layer(&[("a third", Text(""))])], here());
        let fault = unpack_oci(&at, &cache).unwrap_err();
        assert!(fault.message.contains("belongs to user 65534"), "{fault}");
    }
}

#[test]
fn what_an_older_surtax_unpacked_where_everybody_could_reach_it_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (at, cache) = (directory.path().join("image"), directory.path().join("cache"));
    let old = cache.join("oci");
    fs::create_dir_all(old.join("digest/bin")).unwrap();
    fs::write(old.join("digest/bin/su"), "").unwrap();
    image(&at, &[layer(&[("bin", Directory)])], here());
    let root = unpack_oci(&at, &cache).unwrap();
    assert!(root.join("bin").exists() && !old.exists());
}

#[test]
fn a_device_of_an_image_is_left_out_and_hides_what_lies_below_it() {
    let below = layer(&[("null", Text("a file")), ("kept", Text("kept"))]);
    let above = layer(&[
        ("null", Device),
        ("again", Hardlink("null")),
        ("queue", Fifo),
        ("dev/sda", Device),
    ]);
    let (_directory, root) = unpacked(&[below, above]);
    let root = root.unwrap();
    for absent in ["null", "again", "dev/sda"] {
        assert!(fs::symlink_metadata(root.join(absent)).is_err(), "{absent}");
    }
    let queue = fs::metadata(root.join("queue")).unwrap();
    assert!(queue.file_type().is_fifo());
    assert_eq!((queue.permissions().mode() & 0o7777, queue.mtime()), (0o751, 1_000_000));
    assert_eq!(read(&root, "kept"), "kept");
}

#[test]
fn an_attribute_that_an_overlay_would_obey_is_left_out() {
    let mut builder = Builder::new(Vec::new());
    let record = ("SCHILY.xattr.trusted.overlay.metacopy", b"value".as_slice());
    builder.append_pax_extensions([record]).unwrap();
    let mut bytes = builder.into_inner().unwrap();
    // Two blocks of zeros end an archive.
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(layer(&[("file", Text("text"))]));
    let (_directory, root) = unpacked(&[bytes]);
    let mut names = [0_u8; 256];
    let length = rustix::fs::listxattr(root.unwrap().join("file"), &mut names).unwrap();
    let names = String::from_utf8_lossy(&names[..length]).into_owned();
    assert!(!names.contains("trusted."), "{names}");
}

/// Does something to the tree in the midst of a layer: when so many bytes of it were read.
struct Meddler<'a, F: FnMut()> {
    rest: &'a [u8],
    until: usize,
    meddle: F,
}

impl<F: FnMut()> Read for Meddler<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.until == 0 {
            (self.meddle)();
            self.until = usize::MAX;
        }
        let count = buffer.len().min(self.until);
        let count = self.rest.read(&mut buffer[..count])?;
        self.until -= count;
        Ok(count)
    }
}

#[test]
fn owner_mode_and_time_are_set_of_what_was_made_and_not_of_what_took_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, victim) = (directory.path().join("tree"), directory.path().join("victim"));
    fs::create_dir(&tree).unwrap();
    fs::write(&victim, "root's").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    let bytes = layer(&[("file", Text(&"x".repeat(4096)))]);
    let swap = || {
        fs::rename(tree.join("file"), tree.join("moved")).unwrap();
        symlink(&victim, tree.join("file")).unwrap();
    };
    // The header, and a part of the file.
    let meddler = Meddler { rest: &bytes, until: 512 + 1024, meddle: swap };
    layer::apply(meddler, &tree).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&victim), 0o600);
    assert_eq!(mode(&tree.join("moved")), 0o751);
    assert_ne!(fs::symlink_metadata(tree.join("file")).unwrap().mtime(), 1_000_000);
}

/// Unpacks an image again and again while a blob of it is exchanged for another all the time, and
/// says what the trees that were kept have in `file`.
fn kept_while_exchanged(at: &Path, blob: &str, other: &[u8]) -> Vec<String> {
    let blob = at.join("blobs/sha256").join(blob.strip_prefix("sha256:").unwrap());
    let beside = at.join("other");
    fs::write(&beside, other).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let here = rustix::fs::CWD;
                rustix::fs::renameat_with(here, &blob, here, &beside, flags).unwrap();
            }
        });
        let mut kept = Vec::new();
        for _ in 0..200 {
            let cache = tempfile::tempdir().unwrap();
            if let Ok(root) = unpack_oci(at, cache.path()) {
                kept.push(read(&root, "file"));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        kept
    })
}

#[test]
fn what_is_kept_under_a_digest_are_the_bytes_that_were_hashed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("image");
    let (good, evil) = (layer(&[("file", Text("good"))]), layer(&[("file", Text("evil"))]));
    image(&at, std::slice::from_ref(&evil), here());
    let manifest = |at: &Path| -> String {
        let index: serde_json::Value =
            serde_json::from_slice(&fs::read(at.join("index.json")).unwrap()).unwrap();
        index["manifests"][0]["digest"].as_str().unwrap().to_owned()
    };
    let name = |digest: &str| at.join("blobs/sha256").join(&digest["sha256:".len()..]);
    let evil_manifest = fs::read(name(&manifest(&at))).unwrap();
    image(&at, std::slice::from_ref(&good), here());
    let good_manifest = manifest(&at);
    let good_layer = put_blob(&at, &gzip(&good));

    for (blob, other) in [(good_layer, gzip(&evil)), (good_manifest, evil_manifest)] {
        let kept = kept_while_exchanged(&at, &blob, &other);
        assert!(kept.iter().all(|file| file == "good"), "{blob}: {kept:?}");
        image(&at, std::slice::from_ref(&good), here());
    }
}

#[test]
fn bytes_behind_the_end_of_a_layer_are_hashed_too() {
    let directory = tempfile::tempdir().unwrap();
    let (at, cache) = (directory.path().join("image"), directory.path().join("cache"));
    let bytes = layer(&[("file", Text("text"))]);
    image(&at, std::slice::from_ref(&bytes), here());
    let digest = put_blob(&at, &gzip(&bytes));
    let blob = at.join("blobs/sha256").join(&digest["sha256:".len()..]);
    let mut longer = gzip(&bytes);
    longer.extend_from_slice(&[0; 4096]);
    fs::write(&blob, longer).unwrap();
    let fault = unpack_oci(&at, &cache).unwrap_err();
    assert!(fault.message.contains(&format!("blob `{digest}`")), "{fault}");
    assert_eq!(fs::read_dir(cache.join(STORE)).unwrap().count(), 0);
}

/// Unpacks an image that must be refused, and soon; gives the reason.
fn refused_soon(at: &Path) -> String {
    let cache = tempfile::tempdir().unwrap();
    let (at, place) = (at.to_path_buf(), cache.path().to_path_buf());
    let (say, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || say.send(unpack_oci(&at, &place)));
    let refused = said.recv_timeout(PATIENCE).expect("it is read for ever");
    refused.unwrap_err().message
}

#[test]
fn a_part_of_an_image_that_is_no_file_is_refused_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("image");
    let fifo = |path: &Path| {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    };
    image(&at, &[layer(&[("file", Text("text"))])], here());
    let blobs = fs::read_dir(at.join("blobs/sha256")).unwrap();
    // All but the configuration, which nobody reads.
    let blobs =
        blobs.map(|entry| entry.unwrap().path()).filter(|path| fs::read(path).unwrap() != b"{}");
    let parts: Vec<PathBuf> = blobs.chain([at.join("index.json")]).collect();
    assert_eq!(parts.len(), 3);
    for part in parts {
        let bytes = fs::read(&part).unwrap();
        fs::remove_file(&part).unwrap();
        fifo(&part);
        let said = refused_soon(&at);
        assert!(said.contains("no regular file"), "{}: {said}", part.display());
        fs::remove_file(&part).unwrap();
        symlink("/dev/zero", &part).unwrap();
        let said = refused_soon(&at);
        assert!(said.contains("no regular file"), "{}: {said}", part.display());
        fs::remove_file(&part).unwrap();
        fs::write(&part, bytes).unwrap();
    }
    let archive = directory.path().join("image.tar");
    fifo(&archive);
    let said = refused_soon(&archive);
    assert!(said.contains("no regular file"), "{said}");
}

#[test]
fn an_index_or_a_manifest_beyond_the_limit_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("image");
    image(&at, &[layer(&[("file", Text("text"))])], here());
    let index = fs::read_to_string(at.join("index.json")).unwrap();
    let padding = " ".repeat(8 << 20);
    fs::write(at.join("index.json"), format!("{index}{padding}")).unwrap();
    assert!(refused_soon(&at).contains("longer than 8388608 bytes"));

    let mut index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let descriptor = &mut index["manifests"][0];
    let name = &descriptor["digest"].as_str().unwrap()["sha256:".len()..];
    let mut manifest = fs::read(at.join("blobs/sha256").join(name)).unwrap();
    manifest.extend_from_slice(padding.as_bytes());
    descriptor["digest"] = put_blob(&at, &manifest).into();
    descriptor["size"] = manifest.len().into();
    fs::write(at.join("index.json"), index.to_string()).unwrap();
    assert!(refused_soon(&at).contains("more than 8388608 bytes"));
}
