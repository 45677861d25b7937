//! Latency of a disk with one request at a time: every latency kept, and all data checked.
//!
//! What fio does with one job of `ioengine=psync` and `iodepth=1`, and ioping. A file is filled
//! with numbers that say where they belong; what is read is compared with them outside of the
//! measured time, and what was written is read back at the end. Requests go past this kernel's page
//! cache unless they are asked not to; what a hypervisor or a disk keeps in a cache of its own is a
//! part of the answer.
//!
//! Source: `open(2)` on `O_DIRECT`; fio's `HOWTO` on `rw`, `direct`, `fdatasync`.

use super::region::Region;
use super::{Answer, Engine, Options, Refused, option};
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl, statvfs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::wire::SCRATCH;

/// Requests to a disk.
pub(crate) const ENGINE: Engine = Engine {
    name: "disk",
    about: "latency of a disk, one request at a time",
    options: &[
        option("operation", "read|write", "what is requested; read"),
        option("pattern", "random|sequential", "where; random"),
        option("block-bytes", "N", "how much, a multiple of 512; 4096"),
        option("file-bytes", "N", "how large the file is; 67108864"),
        option("buffered", "", "goes through this kernel's page cache"),
        option("sync", "", "each write is followed by fdatasync, and timed with it"),
        option("directory", "PATH", "where the file is made; /scratch"),
        option("duration", "TIME", "for how long; 10s"),
        option("requests", "N", "ends sooner, after so many"),
        option("seed", "N", "fixes the random places; 1"),
    ],
    run: |options| run(&Job::read(options)?),
};

/// Number of bytes written at once while the file is filled.
const FILL: usize = 1 << 20;

/// Largest size of a block, in bytes.
const BLOCK_MAX: u64 = 64 << 20;

/// Largest number of blocks of a file: what was written last into each of them is remembered.
const BLOCKS_MAX: u64 = 1 << 26;

/// Measurement that is asked of the disk.
struct Job {
    is_write: bool,
    is_random: bool,
    is_direct: bool,
    is_synced: bool,
    block_bytes: usize,
    block_count: u64,
    directory: PathBuf,
    duration: Duration,
    requests_max: u64,
    seed: u64,
}

impl Job {
    fn read(options: &Options) -> Result<Self, Refused> {
        let block_bytes = options.number("block-bytes", 4096, 512..=BLOCK_MAX)?;
        if block_bytes % 512 != 0 {
            let what = format!("`--block-bytes {block_bytes}` is not a multiple of 512");
            return Err(
                Refused::user(what).hint("disks are read and written by sectors of 512 bytes")
            );
        }
        let file_bytes = options.number("file-bytes", 64 << 20, block_bytes..=1 << 50)?;
        let block_count = file_bytes / block_bytes;
        if block_count > BLOCKS_MAX {
            let what = format!("the file would have {block_count} blocks, of at most {BLOCKS_MAX}");
            return Err(Refused::user(what).hint("make the blocks larger or the file smaller"));
        }
        let is_write = options.word("operation", &["read", "write"])? == "write";
        let is_synced = options.has("sync");
        if is_synced && !is_write {
            return Err(Refused::user("`--sync` is given, and nothing is written")
                .hint("add `--operation write`, or leave `--sync` out"));
        }
        Ok(Self {
            is_write,
            is_random: options.word("pattern", &["random", "sequential"])? == "random",
            is_direct: !options.has("buffered"),
            is_synced,
            block_bytes: usize::try_from(block_bytes).unwrap_or(usize::MAX),
            block_count,
            directory: PathBuf::from(options.text("directory").unwrap_or(SCRATCH)),
            duration: options.duration("duration", Duration::from_secs(10))?,
            requests_max: options.number("requests", u64::MAX, 1..=u64::MAX)?,
            seed: options.number("seed", 1, 1..=u64::MAX)?,
        })
    }

    fn file_bytes(&self) -> u64 {
        self.block_count * self.block_bytes as u64
    }

    /// Returns the offset at which a block begins, in bytes.
    fn place(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }
}

/// Fills a file, sends requests to it, checks what came of them, and removes it.
fn run(job: &Job) -> Result<Answer, Refused> {
    require_room(job)?;
    let target = Target::create(job)?;
    let mut versions = vec![0_u32; usize::try_from(job.block_count).unwrap_or(0)];
    let mut latencies = Histogram::new();
    let began = clock::monotonic_raw();
    send(job, &target.file, &mut versions, &mut latencies)
        .map_err(|error| Refused::machine(format!("a request to the disk failed: {error}")))?;
    let elapsed = clock::monotonic_raw().since(began);
    let checked = if job.is_write {
        read_back(job, &target.file, &versions)
            .map_err(|error| Refused::machine(format!("what was written is not there: {error}")))?
    } else {
        latencies.count()
    };
    let mut answer = Answer::of(ENGINE.name);
    answer.text("operation", if job.is_write { "write" } else { "read" });
    answer.text("pattern", if job.is_random { "random" } else { "sequential" });
    answer.truth("is_direct", job.is_direct);
    answer.truth("is_synced", job.is_synced);
    answer.whole("block_bytes", job.block_bytes as u64);
    answer.whole("file_bytes", job.file_bytes());
    answer.whole("request_count", latencies.count());
    answer.whole("checked_block_count", checked);
    answer.whole("elapsed_ns", elapsed.0);
    answer.histogram(&latencies);
    Ok(answer)
}

/// A file that would not fit is refused before the medium is full.
fn require_room(job: &Job) -> Result<(), Refused> {
    let shown = job.directory.display();
    let Ok(medium) = statvfs(&job.directory) else {
        return Err(Refused::machine(format!("there is no directory `{shown}` for the file"))
            .hint("give the stack a medium, such as `scratch=bind`, or name a `--directory`"));
    };
    let free = medium.f_bavail.saturating_mul(medium.f_frsize);
    if job.file_bytes() <= free {
        return Ok(());
    }
    let wanted = job.file_bytes();
    Err(Refused::machine(format!(
        "a file of {wanted} bytes does not fit into `{shown}`, where {free} are free"
    ))
    .hint("make the file smaller (`--file-bytes`), or name another medium"))
}

/// The file, which is removed when dropped.
struct Target {
    path: PathBuf,
    file: File,
}

impl Target {
    /// Creates and fills it, so that all of its blocks are on the medium and none is in the page
    /// cache.
    fn create(job: &Job) -> Result<Self, Refused> {
        let path = job.directory.join(format!("surtax-disk-{}", std::process::id()));
        let cannot = |path: &Path, error: &io::Error| {
            Refused::machine(format!("cannot make the file `{}`: {error}", path.display()))
        };
        let file = File::create_new(&path).map_err(|error| cannot(&path, &error))?;
        let target = Self { path, file };
        target.fill(job).map_err(|error| cannot(&target.path, &error))?;
        if job.is_direct {
            target.go_direct(job)?;
        }
        Ok(target)
    }

    fn fill(&self, job: &Job) -> io::Result<()> {
        let blocks_at_once = (FILL / job.block_bytes).max(1);
        let mut buffer = vec![0; blocks_at_once * job.block_bytes];
        let mut first = 0;
        while first < job.block_count {
            let left = usize::try_from(job.block_count - first).unwrap_or(usize::MAX);
            let part = &mut buffer[..left.min(blocks_at_once) * job.block_bytes];
            for (block, bytes) in (first..).zip(part.chunks_exact_mut(job.block_bytes)) {
                inscribe(bytes, block, 0);
            }
            self.file.write_all_at(part, job.place(first))?;
            first += blocks_at_once as u64;
        }
        self.file.sync_all()?;
        // Only advice: where it is not taken, and the requests are not direct, memory is measured.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }

    fn go_direct(&self, job: &Job) -> Result<(), Refused> {
        let flags = fcntl_getfl(&self.file).unwrap_or(OFlags::empty());
        fcntl_setfl(&self.file, flags | OFlags::DIRECT).map_err(|error| {
            let shown = job.directory.display();
            Refused::machine(format!("the medium of `{shown}` takes no direct requests: {error}"))
                .hint("add `--buffered`, or name another medium")
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Sends one request after the other; `versions` says of each block how often it was written.
fn send(job: &Job, file: &File, versions: &mut [u32], latencies: &mut Histogram) -> io::Result<()> {
    let mut region = Region::new(job.block_bytes)?;
    let buffer = region.bytes();
    let mut random = job.seed;
    let mut next = 0;
    let end = clock::monotonic_raw() + job.duration.into();
    for _ in 0..job.requests_max {
        let block = if job.is_random { draw(&mut random, job.block_count) } else { next };
        next = (block + 1) % job.block_count;
        let version = &mut versions[usize::try_from(block).unwrap_or(0)];
        if job.is_write {
            *version = version.wrapping_add(1);
            inscribe(buffer, block, *version);
        }
        let place = job.place(block);
        let began = clock::monotonic_raw();
        let done =
            if job.is_write { file.write_at(buffer, place) } else { file.read_at(buffer, place) };
        if job.is_synced {
            file.sync_data()?;
        }
        let ended = clock::monotonic_raw();
        if done? < job.block_bytes {
            return Err(io::Error::other(format!("block {block} was moved in part only")));
        }
        latencies.record(ended.since(began).0);
        if !job.is_write {
            expect(buffer, block, 0)?;
        }
        if ended >= end {
            break;
        }
    }
    Ok(())
}

/// Reads all blocks that were written, and compares them with what was written last. Says how many
/// they are.
fn read_back(job: &Job, file: &File, versions: &[u32]) -> io::Result<u64> {
    file.sync_all()?;
    // With direct requests there is nothing to give up.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let mut region = Region::new(job.block_bytes)?;
    let buffer = region.bytes();
    let mut checked = 0;
    for (block, version) in (0..).zip(versions).filter(|(_, version)| **version > 0) {
        file.read_exact_at(buffer, job.place(block))?;
        expect(buffer, block, *version)?;
        checked += 1;
    }
    Ok(checked)
}

/// A random block: xorshift (Marsaglia 2003), whose upper bits are taken to the range without
/// division.
fn draw(state: &mut u64, count: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    u64::try_from((u128::from(*state) * u128::from(count)) >> 64).unwrap_or(0)
}

/// The numbers of a block: other ones in every place of every block in every version.
fn numbers(block: u64, version: u32) -> impl Iterator<Item = [u8; 8]> {
    let first = (block << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..).map(move |place: u64| first.wrapping_add(place).to_le_bytes())
}

fn inscribe(bytes: &mut [u8], block: u64, version: u32) {
    for (word, number) in bytes.chunks_exact_mut(8).zip(numbers(block, version)) {
        word.copy_from_slice(&number);
    }
}

fn expect(bytes: &[u8], block: u64, version: u32) -> io::Result<()> {
    let is_right = bytes.chunks_exact(8).zip(numbers(block, version)).all(|(word, it)| word == it);
    if is_right { Ok(()) } else { Err(io::Error::other(format!("block {block} holds other data"))) }
}

#[cfg(test)]
mod tests;
