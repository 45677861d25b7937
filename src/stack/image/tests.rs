//! Image layouts and archives: layers, whiteouts, and what would escape.

use super::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tar::{Builder, EntryType, Header};

/// What an entry of a test layer is.
enum Kind<'a> {
    File(&'a str),
    Directory,
    Symlink(&'a str),
    Hardlink(&'a str),
}
use Kind::{Directory, File as Text, Hardlink, Symlink};

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
    let name: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
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
        assert!(!directory.path().join("cache/oci/escaped").exists());
        assert_eq!(fault.exit_code(), 2);
    }
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
    let name: String = Sha256::digest(&blob).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(at.join("blobs/sha256").join(&name), gzip(&layer(&[("file", Text("fals"))])))
        .unwrap();
    let fault = unpack_oci(&at, &cache).unwrap_err();
    assert!(fault.message.contains(&format!("blob `sha256:{name}`")), "{fault}");
    assert_eq!(fs::read_dir(cache.join("oci")).unwrap().count(), 0);
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
