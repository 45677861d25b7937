//! OCI images: an index, a manifest, a layer or a whole archive that a stranger made, unpacked for
//! real.
//!
//! What is unpacked must stay inside: a file beside the cache is looked at after every input.

use super::Target;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use surtax::rootfs::image::unpack_oci;

pub const TARGET: Target = Target { name: "image", run, seeds, folders: &[], longest: 32 << 10 };

/// Contents of the file that stands beside everything that is unpacked.
const BESIDE: &str = "nobody writes here";

fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let place = place();
    let (image, cache) = (place.join("image"), place.join("cache"));
    match kind % 4 {
        0 => lay(&image, bytes, &[]),
        1 => lay(&image, &index_of(bytes, None), &[bytes]),
        2 => {
            let manifest = manifest_of(bytes);
            lay(&image, &index_of(&manifest, None), &[&manifest, bytes]);
        }
        _ => fs::write(&image, bytes).expect("there is room for an image"),
    }
    let _unpacked = unpack_oci(&image, &cache);
    let beside = fs::read_to_string(place.join("beside")).unwrap_or_default();
    assert_eq!(beside, BESIDE, "an image wrote outside its tree");
    let entries = fs::read_dir(place).expect("the place is there").count();
    assert!(entries <= 3, "an image made something outside its tree");
    for path in [&image, &cache] {
        let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        assert!(gone.is_ok() || !path.exists(), "`{}` cannot be removed", path.display());
    }
}

/// A directory of this process, with a file that must stay as it is.
fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = super::scratch("image");
        fs::write(place.join("beside"), BESIDE).expect("a file beside");
        place
    })
}

/// Makes a layout of this index and these blobs.
fn lay(image: &Path, index: &[u8], blobs: &[&[u8]]) {
    let folder = image.join("blobs/sha256");
    fs::create_dir_all(&folder).expect("there is room for a layout");
    fs::write(image.join("index.json"), index).expect("there is room for an index");
    for blob in blobs {
        fs::write(folder.join(hash(blob)), blob).expect("there is room for a blob");
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn descriptor(kind: &str, blob: &[u8]) -> String {
    let (digest, size) = (hash(blob), blob.len());
    format!(r#"{{"mediaType":"{kind}","digest":"sha256:{digest}","size":{size}}}"#)
}

fn index_of(manifest: &[u8], kind: Option<&str>) -> Vec<u8> {
    let kind = kind.unwrap_or("application/vnd.oci.image.manifest.v1+json");
    let manifest = descriptor(kind, manifest);
    format!(r#"{{"schemaVersion":2,"manifests":[{manifest}]}}"#).into_bytes()
}

fn manifest_of(layer: &[u8]) -> Vec<u8> {
    let layer = descriptor("application/vnd.oci.image.layer.v1.tar", layer);
    let config = descriptor("application/vnd.oci.image.config.v1+json", b"{}");
    format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layer}]}}"#).into_bytes()
}

/// A layer with what layers are made of: files, links inward and outward, whiteouts.
fn layer() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    let mut add = |kind: tar::EntryType, name: &str, link: Option<&str>, bytes: &[u8]| {
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(bytes.len() as u64);
        if let Some(link) = link {
            header.set_link_name(link).expect("a short link");
            tar.append_link(&mut header, name, link).expect("an entry in memory");
        } else {
            tar.append_data(&mut header, name, bytes).expect("an entry in memory");
        }
    };
    add(tar::EntryType::Directory, "bin", None, b"");
    add(tar::EntryType::Regular, "bin/sh", None, b"#!");
    add(tar::EntryType::Symlink, "out", Some("../.."), b"");
    add(tar::EntryType::Regular, "out/beside", None, b"inside");
    add(tar::EntryType::Link, "again", Some("bin/sh"), b"");
    add(tar::EntryType::Regular, "bin/.wh.sh", None, b"");
    add(tar::EntryType::Regular, ".wh..wh..opq", None, b"");
    add(tar::EntryType::Fifo, "fifo", None, b"");
    tar.into_inner().unwrap_or_default()
}

fn seeds() -> Vec<Vec<u8>> {
    let layer = layer();
    let manifest = manifest_of(&layer);
    let index = index_of(&manifest, None);
    let nested = index_of(&index, Some("application/vnd.oci.image.index.v1+json"));
    let mut archive = tar::Builder::new(Vec::new());
    let blob = |bytes: &[u8]| format!("blobs/sha256/{}", hash(bytes));
    for (name, bytes) in
        [("index.json".to_owned(), &index), (blob(&manifest), &manifest), (blob(&layer), &layer)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice()).expect("an entry in memory");
    }
    let archive = archive.into_inner().unwrap_or_default();
    let of = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    vec![of(0, &index), of(0, &nested), of(1, &manifest), of(2, &layer), of(3, &archive)]
}
