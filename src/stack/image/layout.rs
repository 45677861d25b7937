//! The layout of an image: `index.json`, and blobs named by their digests.

use crate::fault::{Doing, Fault};
use oci_spec::image::{
    Arch, Descriptor, Digest, DigestAlgorithm, ImageIndex, ImageManifest, MediaType, Os,
};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

/// How many indexes may lie in each other.
const NESTING: usize = 3;

/// The largest index or manifest that is read, in bytes.
const DOCUMENT_LIMIT: u64 = 8 << 20;

/// A layout as a directory of this machine.
pub struct Layout(PathBuf);

/// The manifest that was chosen.
pub struct Chosen {
    /// Names the finished tree.
    pub digest: Digest,
    /// Its layers, lowest first.
    pub manifest: ImageManifest,
}

impl Layout {
    /// Opens a directory as it is; an archive is unpacked into `aside` first.
    pub fn open(image: &Path, aside: &Path) -> Result<Self, Fault> {
        if image.is_dir() {
            return Ok(Self(image.to_path_buf()));
        }
        unpack_archive(image, aside)
            .map_err(|error| Fault::user(format!("not an OCI archive: {error}")))?;
        if !aside.join("index.json").is_file() {
            return Err(Fault::user("the archive has no `index.json`")
                .hint("`docker save` of version 25 or later, `skopeo copy … oci-archive:FILE` and `buildah push … oci-archive:FILE` write one"));
        }
        Ok(Self(aside.to_path_buf()))
    }

    /// The manifest for Linux on this machine's processor.
    pub fn manifest_for_this_machine(&self) -> Result<Chosen, Fault> {
        let path = self.0.join("index.json");
        let index = ImageIndex::from_file(&path)
            .map_err(|error| Fault::user(format!("cannot read `index.json`: {error}")))?;
        let descriptor = self.choose(&index, NESTING)?;
        let bytes = fs::read(self.verified(&descriptor)?).doing("read the manifest")?;
        let manifest = ImageManifest::from_reader(bytes.as_slice())
            .map_err(|error| Fault::user(format!("malformed manifest: {error}")))?;
        Ok(Chosen { digest: descriptor.digest().clone(), manifest })
    }

    fn choose(&self, index: &ImageIndex, nesting: usize) -> Result<Descriptor, Fault> {
        let wanted = Arch::from(go_architecture(std::env::consts::ARCH));
        let fits = |descriptor: &&Descriptor| match descriptor.platform() {
            Some(platform) => *platform.os() == Os::Linux && *platform.architecture() == wanted,
            None => true,
        };
        for descriptor in index.manifests().iter().filter(fits) {
            match descriptor.media_type() {
                MediaType::ImageManifest => return Ok(descriptor.clone()),
                MediaType::ImageIndex if nesting > 0 => {
                    let file = File::open(self.verified(descriptor)?).doing("open an index")?;
                    let inner = ImageIndex::from_reader(file.take(DOCUMENT_LIMIT))
                        .map_err(|error| Fault::user(format!("malformed index: {error}")))?;
                    return self.choose(&inner, nesting - 1);
                }
                _ => {}
            }
        }
        Err(Fault::user(format!("no manifest for linux/{wanted} in the index")))
    }

    /// The path of a blob whose bytes have the digest and the size that its descriptor says.
    pub fn verified(&self, descriptor: &Descriptor) -> Result<PathBuf, Fault> {
        let digest = descriptor.digest();
        if *digest.algorithm() != DigestAlgorithm::Sha256 {
            return Err(Fault::user(format!("blob `{digest}` is not named by a SHA-256")));
        }
        let path = self.0.join("blobs/sha256").join(digest.digest());
        let file = File::open(&path).doing(format_args!("open blob `{digest}`"))?;
        let (found, size) = hash(file).doing(format_args!("read blob `{digest}`"))?;
        if found != digest.digest() || size != descriptor.size() {
            return Err(Fault::user(format!(
                "blob `{digest}` of {} bytes holds {size} bytes of sha256:{found}",
                descriptor.size()
            )));
        }
        Ok(path)
    }
}

fn hash(mut file: File) -> io::Result<(String, u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
    let hexadecimal = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((hexadecimal, size))
}

/// Takes out of an archive the files that a layout has, and nothing else.
fn unpack_archive(archive: &Path, aside: &Path) -> io::Result<()> {
    fs::create_dir_all(aside.join("blobs/sha256"))?;
    let mut file = BufReader::new(File::open(archive)?);
    let mut magic = [0; 2];
    let count = file.read(&mut magic)?;
    let whole = io::Cursor::new(magic).take(count as u64).chain(file);
    let reader: Box<dyn Read> = match magic {
        [0x1f, 0x8b] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        _ => Box::new(whole),
    };
    for entry in tar::Archive::new(reader).entries()? {
        let mut entry = entry?;
        if let Some(name) = name_in_layout(&entry.path()?) {
            io::copy(&mut entry, &mut File::create(aside.join(name))?)?;
        }
    }
    Ok(())
}

/// `index.json` or `blobs/sha256/` and 64 hexadecimal digits, without a leading `./`.
fn name_in_layout(path: &Path) -> Option<PathBuf> {
    let parts: Option<Vec<&str>> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| part.as_os_str().to_str())
        .collect();
    match parts?.as_slice() {
        ["index.json"] => Some("index.json".into()),
        ["blobs", "sha256", name]
            if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            Some(Path::new("blobs/sha256").join(name))
        }
        _ => None,
    }
}

/// Go's names of processors, which OCI uses.
fn go_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}
