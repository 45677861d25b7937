//! The guest's kernel: the host's own where it can be used, else one of the distribution's.
//!
//! In this order: what `kernel=PATH` names; `/boot/vmlinuz-RELEASE` of the running kernel with its
//! modules; the newest in our cache; what apt fetches into our cache. A bzImage is unpacked to the
//! ELF kernel inside it where possible: QEMU enters that directly (PVH), 0.3 s sooner under TCG.

mod cache;

pub(crate) use cache::write_whole;

use crate::fault::{Doing, Fault};
use crate::guest::apt;
use crate::guest::channel::{self, Transport};
use crate::guest::elf::Elf;
use crate::guest::modules::Tree;
use crate::guest::unpack::unpack;
use crate::lab::{Room, sha256};
use crate::layer::{Descriptor, LayerSpec};
use crate::regular_file;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use surtax_instrument::hex;

/// The most of a bzImage that is read for its header.
const HEADER: u64 = 64 << 10;

/// The largest file of a kernel that is read whole: with all that a debugger wants to know, one has
/// some 700 MB.
pub(crate) const KERNEL_LIMIT: u64 = 1 << 30;

/// Kind of the distribution's kernel: it ships one for clouds, and one for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// The smaller one, with the drivers of virtual machines.
    Cloud,
    /// The other, with all drivers.
    Full,
}

/// Way in which a kernel is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The entry that an ELF kernel's note names.
    Pvh,
    /// Linux' boot protocol.
    BzImage,
}

impl Entry {
    /// As it is written down.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pvh => "PVH",
            Self::BzImage => "bzImage",
        }
    }
}

/// Requirements that a guest has of its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need<'a> {
    /// The file that was named, if one was.
    pub(crate) named: Option<&'a str>,
    /// Kind of the distribution's kernel to use where none is here.
    pub(crate) flavor: Flavor,
    /// Modules without which a kernel will not do: of its devices, and of the way to its files.
    pub(crate) modules: Vec<&'static str>,
    /// Way in which it must be entered, if that was named.
    pub(crate) entry: Option<Entry>,
}

/// A kernel that was found, as a distribution ships it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundKernel {
    /// The release that it says it is.
    pub(crate) release: String,
    /// A bzImage, or an ELF kernel.
    pub(crate) file: PathBuf,
    /// `lib/modules/RELEASE`.
    pub(crate) modules: PathBuf,
    /// Source of the kernel, for people.
    pub(crate) origin: &'static str,
}

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Kernel that it was made from.
    pub(crate) found: FoundKernel,
    /// Kernel image that QEMU is given.
    pub(crate) image: PathBuf,
    /// True if the image is entered by PVH.
    pub(crate) is_pvh: bool,
}

impl Flavor {
    /// The package of no files that depends on the newest of them.
    fn package(self) -> &'static str {
        match self {
            Self::Cloud => "linux-image-cloud-amd64",
            Self::Full => "linux-image-amd64",
        }
    }

    /// Tells whether a release is of this kind.
    fn has(self, release: &str) -> bool {
        release.contains("-cloud-") == (self == Self::Cloud)
    }
}

impl Kernel {
    /// Returns the way in which it is entered.
    pub(crate) fn entry(&self) -> Entry {
        if self.is_pvh { Entry::Pvh } else { Entry::BzImage }
    }
}

/// Option of a layer that names a kernel's file.
const OPTION: &str = "kernel";

/// Lists files of this level that options of a layer with a guest name, absolute, and where the
/// modules of a kernel that is named are looked for.
pub(crate) fn files(spec: &LayerSpec, descriptor: &Descriptor) -> Vec<PathBuf> {
    let kernel = spec.option(OPTION).and_then(|kernel| fs::canonicalize(kernel).ok());
    let modules = kernel.map(|kernel| modules_beside(&kernel));
    spec.files(descriptor).into_iter().chain(modules).collect()
}

/// Directory in which the modules of a kernel's file are looked for first, by release.
fn modules_beside(kernel: &Path) -> PathBuf {
    let root = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    root.join("lib/modules")
}

/// Looks for a kernel and changes nothing; nothing is found when one must be fetched first.
///
/// # Errors
/// The user's, when the kernel that was named cannot be used.
pub(crate) fn find(need: &Need<'_>, cache: &Path) -> Result<Option<FoundKernel>, Fault> {
    if let Some(path) = need.named {
        let found = named_kernel(Path::new(path))?;
        let missing = Tree::open(&found.modules)?.missing(&need.modules).join("`, `");
        if missing.is_empty() {
            return Ok(Some(found));
        }
        return Err(Fault::user(format!("`kernel={path}` has no module `{missing}`"))
            .hint("drop `kernel=`, and the distribution's kernel with all drivers is fetched"));
    }
    Ok(host_kernel(Path::new("/"), need).or_else(|| cached_kernel(&cache.join("kernels"), need)))
}

/// Finds a kernel or fetches one, and unpacks it as far as it can be and is wanted.
///
/// # Errors
/// Nothing was found, nothing could be fetched, or it cannot be entered as it must be.
pub(crate) fn acquire(need: &Need<'_>, cache: &Path, room: &Room) -> Result<Kernel, Fault> {
    let kernels = cache.join("kernels");
    let found = match find(need, cache)? {
        Some(found) => found,
        None => {
            fs::create_dir_all(&kernels).doing(format_args!("create `{}`", kernels.display()))?;
            let release = apt::fetch(need.flavor.package(), &kernels, room)?;
            cached_kernel(&kernels, need).ok_or_else(|| {
                Fault::bug(format!("kernel {release} was fetched and is not in the cache"))
            })?
        }
    };
    let kernel = prepare(found, need.entry, &kernels, room)?;
    match need.entry {
        Some(asked) if asked != kernel.entry() => {
            let (shown, found) = (kernel.image.display(), kernel.entry().name());
            Err(Fault::machine(format!("`{shown}` can only be entered by {found}"))
                .hint("drop `entry=`, or name another kernel"))
        }
        _ => Ok(kernel),
    }
}

/// The kernel that is bundled in a shared library, without modules: an empty directory stands for
/// theirs.
///
/// # Errors
/// The machine's: the library holds none that says its release.
pub(crate) fn bundled(library: &Path, modules: PathBuf) -> Result<Kernel, Fault> {
    let release = release_of(library).ok().flatten().ok_or_else(|| {
        Fault::machine(format!("`{}` holds no kernel that says its release", library.display()))
    })?;
    let (file, origin) = (library.to_owned(), "bundled in a shared library");
    let found = FoundKernel { release, file, modules, origin };
    Ok(Kernel { found, image: library.to_owned(), is_pvh: false })
}

fn named_kernel(path: &Path) -> Result<FoundKernel, Fault> {
    let refuse = |why: &str| Fault::user(format!("`kernel={}` {why}", path.display()));
    let cannot = |error: io::Error| refuse(&format!("cannot be read: {error}"));
    let file = fs::canonicalize(path).map_err(cannot)?;
    let release = release_of(&file).map_err(cannot)?.ok_or_else(|| {
        refuse("is neither a bzImage nor an ELF kernel that says its release")
            .hint("name one such as `/boot/vmlinuz-…`, or leave `kernel=` out")
    })?;
    let places = [modules_beside(&file), PathBuf::from("/lib/modules")];
    let places = places.map(|place| place.join(&release));
    let modules = places.iter().find(|place| place.join("kernel").is_dir()).ok_or_else(|| {
        refuse(&format!("is {release}, whose modules are not in `{}`", places[0].display()))
            .hint(format!("put them there, or into `/lib/modules/{release}`"))
    })?;
    Ok(FoundKernel { release, file, modules: modules.clone(), origin: "named by `kernel=`" })
}

/// The running kernel's own file, if it and the modules that a guest needs are there.
fn host_kernel(root: &Path, need: &Need<'_>) -> Option<FoundKernel> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let file = root.join("boot").join(format!("vmlinuz-{release}"));
    let modules = root.join("lib/modules").join(&release);
    usable(FoundKernel { release, file, modules, origin: "this level's own" }, need)
}

/// The newest of those that apt fetched.
fn cached_kernel(kernels: &Path, need: &Need<'_>) -> Option<FoundKernel> {
    let names = fs::read_dir(kernels).ok()?.flatten();
    let mut releases: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    releases.retain(|release| need.flavor.has(release));
    releases.sort_by_key(|release| std::cmp::Reverse(numbers(release)));
    releases.into_iter().find_map(|release| {
        let tree = kernels.join(&release);
        let file = tree.join("boot").join(format!("vmlinuz-{release}"));
        let modules = tree.join("lib/modules").join(&release);
        let origin = "the distribution's, fetched by apt";
        usable(FoundKernel { release, file, modules, origin }, need)
    })
}

fn usable(found: FoundKernel, need: &Need<'_>) -> Option<FoundKernel> {
    let is_the_release = release_of(&found.file).ok()?? == found.release;
    let tree = Tree::open(&found.modules).ok()?;
    let needed = [&[channel::PORT, Transport::Pci.module()][..], &need.modules].concat();
    let is_whole = tree.missing(&needed).is_empty();
    (is_the_release && is_whole).then_some(found)
}

/// The numbers in a release, so that 6.10 is newer than 6.9.
fn numbers(release: &str) -> Vec<u64> {
    let words = release.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The release that a kernel's file says it is; none where it is no kernel.
fn release_of(file: &Path) -> io::Result<Option<String>> {
    let mut header = Vec::new();
    regular_file::open(file)?.take(HEADER).read_to_end(&mut header)?;
    if let Some(image) = BzImage::parse(&header) {
        return Ok(image.release());
    }
    if Elf::parse(&header).is_none() {
        return Ok(None);
    }
    Ok(release_in(&regular_file::read(file, KERNEL_LIMIT)?))
}

/// The release in the banner of an ELF kernel.
fn release_in(whole: &[u8]) -> Option<String> {
    let banner = regex::bytes::Regex::new("Linux version ([0-9][^ ]*) ").ok()?;
    let release = banner.captures(whole)?.get(1)?;
    let release = String::from_utf8(release.as_bytes().to_vec()).ok()?;
    cache::is_release(&release).then_some(release)
}

fn prepare(
    found: FoundKernel,
    entry: Option<Entry>,
    kernels: &Path,
    room: &Room,
) -> Result<Kernel, Fault> {
    let path = found.file.clone();
    let bytes = || {
        regular_file::read(&path, KERNEL_LIMIT)
            .doing(format_args!("read the kernel `{}`", path.display()))
    };
    let is_bzimage = {
        let mut start = [0; 4];
        let read = regular_file::open(&path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && !start.starts_with(b"\x7fELF")
    };
    if !is_bzimage {
        let is_pvh = Elf::parse(&bytes()?).is_some_and(Elf::enters_by_pvh);
        if !is_pvh {
            let shown = path.display();
            return Err(Fault::user(format!("`{shown}` is an ELF kernel without PVH"))
                .hint("name its bzImage instead"));
        }
        return Ok(Kernel { image: path, found, is_pvh });
    }
    if entry == Some(Entry::BzImage) {
        return Ok(Kernel { image: path, found, is_pvh: false });
    }
    let mut image = cache::place(&found, &sha256(&path)?, kernels);
    if !cache::is_ours(&image) {
        let packed = bytes()?;
        let Some(plain) = unpacked(&packed, room) else {
            return Ok(Kernel { image: path, found, is_pvh: false });
        };
        // By the very bytes that were unpacked, should the file have changed since it was hashed.
        image = cache::place(&found, &hex::of(&Sha256::digest(&packed)), kernels);
        write_whole(&image, &plain)?;
    }
    Ok(Kernel { found, image, is_pvh: true })
}

/// The ELF kernel in a bzImage, if it can be had and can be entered by PVH.
fn unpacked(file: &[u8], room: &Room) -> Option<Vec<u8>> {
    let payload = BzImage::parse(file)?.payload()?;
    let plain = unpack(payload.to_vec(), room).ok()?;
    Elf::parse(&plain)?.enters_by_pvh().then_some(plain)
}

/// Counts the bytes of a file that its boot protocol describes: the release's name and the packed
/// kernel.
pub(crate) fn described(bytes: &[u8]) -> usize {
    BzImage::parse(bytes).map_or(0, |image| {
        let payload = image.payload().map_or(0, <[u8]>::len);
        payload + image.release().map_or(0, |release| release.len())
    })
}

/// A Linux kernel in its boot protocol's clothes.
///
/// Source: Linux `Documentation/arch/x86/boot.rst`.
struct BzImage<'a> {
    bytes: &'a [u8],
}

impl<'a> BzImage<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        (bytes.get(0x202..0x206)? == b"HdrS").then_some(Self { bytes })
    }

    /// `kernel_version`: an offset, less 0x200, of a text that starts with the release.
    fn release(&self) -> Option<String> {
        let at = 0x200 + usize::from(u16::from_le_bytes(*self.bytes.get(0x20e..)?.first_chunk()?));
        let text = self.bytes.get(at..)?.split(|byte| matches!(byte, b' ' | 0)).next()?;
        String::from_utf8(text.to_vec()).ok().filter(|release| cache::is_release(release))
    }

    /// The packed ELF kernel, without the length that the build puts behind all formats but gzip.
    fn payload(&self) -> Option<&'a [u8]> {
        let word = |at: usize| -> Option<usize> {
            usize::try_from(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?)).ok()
        };
        let sectors = match *self.bytes.get(0x1f1)? {
            0 => 4,
            count => usize::from(count),
        };
        let start = ((sectors + 1) * 512).checked_add(word(0x248)?)?;
        let payload = self.bytes.get(start..start.checked_add(word(0x24c)?)?)?;
        let has_length = !payload.starts_with(&[0x1f, 0x8b]) && !payload.starts_with(b"\x7fELF");
        if has_length { payload.get(..payload.len().checked_sub(4)?) } else { Some(payload) }
    }
}

#[cfg(test)]
mod tests;
