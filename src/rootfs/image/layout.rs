//! The layout of an image: `index.json`, and blobs named by their digests.
//!
//! Whoever wrote a layout can exchange its files at any moment. So each is opened once, and the
//! bytes that are hashed are those that are used: a document's in memory, a layer's as they pass
//! by.

use super::entries;
use crate::fault::{Doing, Fault};
use crate::regular_file;
use oci_spec::image::{
    Arch, Descriptor, Digest, DigestAlgorithm, ImageIndex, ImageManifest, MediaType, Os,
};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Take};
use std::path::{Component, Path, PathBuf};
use surtax_instrument::hex;

/// Most indexes that may lie in each other.
const NESTING: usize = 3;

/// The largest index or manifest that is read, in bytes.
const DOCUMENT_LIMIT: u64 = 8 << 20;

/// A layout as a directory of this machine.
pub struct Layout(PathBuf);

/// The manifest that was chosen.
pub struct Chosen {
    /// Names the finished tree.
    pub digest: Digest,
    /// Manifest, with its layers lowest first.
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
            return Err(Fault::user("the archive has no `index.json`").hint(
                "`docker save` of version 25 or later, `skopeo copy … oci-archive:FILE` and \
                       `buildah push … oci-archive:FILE` write one",
            ));
        }
        Ok(Self(aside.to_path_buf()))
    }

    /// The manifest for Linux on this machine's processor.
    pub fn manifest_for_this_machine(&self) -> Result<Chosen, Fault> {
        let index = regular_file::read(&self.0.join("index.json"), DOCUMENT_LIMIT)
            .map_err(|error| Fault::user(format!("cannot read `index.json`: {error}")))?;
        let index = ImageIndex::from_reader(index.as_slice())
            .map_err(|error| Fault::user(format!("malformed `index.json`: {error}")))?;
        let descriptor = self.choose(&index, NESTING)?;
        let manifest = ImageManifest::from_reader(self.document(&descriptor)?.as_slice())
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
                    let inner = ImageIndex::from_reader(self.document(descriptor)?.as_slice())
                        .map_err(|error| Fault::user(format!("malformed index: {error}")))?;
                    return self.choose(&inner, nesting - 1);
                }
                _ => {}
            }
        }
        Err(Fault::user(format!("no manifest for linux/{wanted} in the index")))
    }

    /// The bytes of an index or a manifest, which are those that its descriptor names.
    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Fault> {
        let digest = descriptor.digest();
        if descriptor.size() > DOCUMENT_LIMIT {
            return Err(Fault::user(format!(
                "document `{digest}` has more than {DOCUMENT_LIMIT} bytes"
            )));
        }
        let mut blob = self.blob(descriptor)?;
        let mut bytes = Vec::new();
        blob.read_to_end(&mut bytes).doing(format_args!("read document `{digest}`"))?;
        blob.require_named()?;
        Ok(bytes)
    }

    /// Opens a blob, whose bytes are not to be trusted before [`Blob::require_named`].
    pub fn blob(&self, descriptor: &Descriptor) -> Result<Blob, Fault> {
        let digest = descriptor.digest();
        if *digest.algorithm() != DigestAlgorithm::Sha256 {
            return Err(Fault::user(format!("blob `{digest}` is not named by a SHA-256")));
        }
        let path = self.0.join("blobs/sha256").join(digest.digest());
        let file = regular_file::open(&path).map_err(|error| {
            let message = format!("cannot open blob `{digest}`: {error}");
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => Fault::user(message),
                _ => Fault::machine(message),
            }
        })?;
        // One byte more shows that it is longer.
        let limit = descriptor.size().saturating_add(1);
        Ok(Blob {
            digest: digest.clone(),
            size: descriptor.size(),
            file: file.take(limit),
            hasher: Sha256::new(),
            read: 0,
        })
    }
}

/// A blob as it is read: every byte is hashed on its way, and none comes from behind the size that
/// was said.
pub struct Blob {
    digest: Digest,
    size: u64,
    file: Take<File>,
    hasher: Sha256,
    read: u64,
}

impl Blob {
    /// Reads what nobody has read yet, and compares the whole with the name.
    ///
    /// # Errors
    /// The user's: these are other bytes than its descriptor names. The machine's: they cannot be
    /// read.
    pub fn require_named(mut self) -> Result<(), Fault> {
        let rest = io::copy(&mut self, &mut io::sink());
        let Self { digest, size, hasher, read, .. } = self;
        rest.doing(format_args!("read blob `{digest}`"))?;
        let found = hex::of(&hasher.finalize());
        if read > size {
            return Err(Fault::user(format!("blob `{digest}` has more than its {size} bytes")));
        }
        if found != digest.digest() || read != size {
            return Err(Fault::user(format!(
                "blob `{digest}` of {size} bytes holds {read} bytes of sha256:{found}"
            )));
        }
        Ok(())
    }
}

impl Read for Blob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.read += count as u64;
        Ok(count)
    }
}

/// Takes out of an archive the files that a layout has, and nothing else.
fn unpack_archive(archive: &Path, aside: &Path) -> io::Result<()> {
    fs::create_dir_all(aside.join("blobs/sha256"))?;
    let mut file = BufReader::new(regular_file::open(archive)?);
    let mut magic = [0; 2];
    let count = file.read(&mut magic)?;
    let whole = io::Cursor::new(magic).take(count as u64).chain(file);
    let reader: Box<dyn Read> = match magic {
        [0x1f, 0x8b] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        _ => Box::new(whole),
    };
    entries::each(reader, |entry| {
        if let Some(name) = name_in_layout(&entry.path()?) {
            io::copy(entry, &mut File::create(aside.join(name))?)?;
        }
        Ok(())
    })
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
