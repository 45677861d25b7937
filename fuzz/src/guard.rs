//! Guards of a run: how much memory and time one input may take, and which one it was if the
//! process dies of it.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The most memory that one input may take, in bytes.
pub const MEMORY_LIMIT: usize = 512 << 20;

/// Largest amount of memory that this program takes before it has read anything, corpora included,
/// in bytes.
const BASE: usize = 128 << 20;

/// The most CPU time that one input may take. A machine that is busy with something else takes none
/// of it.
pub const CPU_LIMIT: Duration = Duration::from_secs(2);

/// The most time that one input may take, though it waits for something.
pub const WALL_LIMIT: Duration = Duration::from_secs(60);

/// The largest file that an input may make, in bytes.
const FILE_LIMIT: u64 = 256 << 20;

/// The exit status of a process in which an input took too long.
pub const EXIT_HANG: i32 = 71;

/// The exit status of a process in which an input took too much memory.
pub const EXIT_MEMORY: i32 = 72;

/// Time between two looks of the guard.
const LOOK: Duration = Duration::from_millis(50);

static LIVE: AtomicUsize = AtomicUsize::new(0);
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, with a limit for the input that is being read.
pub struct Counted;

impl Counted {
    fn take(size: usize) {
        let live = LIVE.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        if live > ALLOWED.load(Ordering::Relaxed) {
            // SAFETY: it ends this process, and takes no pointers.
            unsafe { libc::_exit(EXIT_MEMORY) };
        }
    }

    fn give(size: usize) {
        LIVE.fetch_sub(size, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::take(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::give(layout.size());
        // SAFETY: the pointer came from `System` by this allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::take(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::take(size);
        Self::give(layout.size());
        // SAFETY: the pointer came from `System` by this allocator, with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The input that is being read, in a file that outlives the process. The file is mapped: it holds
/// the input whatever becomes of the process, and keeping one is no call of the system.
pub struct Current {
    bytes: NonNull<u8>,
    size: usize,
}

/// Bytes before an input: its length.
const LENGTH: usize = size_of::<u64>();

/// The length of no input.
const NONE: u64 = u64::MAX;

impl Current {
    /// A new file at this path, for inputs of at most `longest` bytes. One that is there is taken
    /// away: whoever has it mapped keeps what was its own.
    ///
    /// # Errors
    /// The file system's, which must have room for all of it.
    pub fn at(path: &Path, longest: usize) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let size = LENGTH + longest;
        // A hole in a mapped file would be a signal where the disk is full, and not an error.
        match fallocate(&file, FallocateFlags::empty(), 0, size as u64) {
            Err(Errno::OPNOTSUPP) => (&file).write_all(&vec![0; size])?,
            done => done?,
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place; the file is new, so nobody else makes it shorter.
        let bytes =
            unsafe { mmap(std::ptr::null_mut(), size, protection, MapFlags::SHARED, &file, 0)? };
        let bytes = NonNull::new(bytes.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut current = Self { bytes, size };
        current.place()[..LENGTH].copy_from_slice(&NONE.to_le_bytes());
        Ok(current)
    }

    fn place(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this long, lives as long as this, and is borrowed with it.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.size) }
    }

    /// Writes the input down before it is read. What is longer than a file of [`Self::at`] holds is
    /// cut off.
    pub fn keep(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(self.size - LENGTH);
        let place = self.place();
        place[..LENGTH].copy_from_slice(&(length as u64).to_le_bytes());
        place[LENGTH..LENGTH + length].copy_from_slice(&bytes[..length]);
        // Nothing of it may wait until after the input was read.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// The input that a process wrote last.
    ///
    /// # Errors
    /// The file system's; there is none.
    pub fn last(path: &Path) -> io::Result<Vec<u8>> {
        let whole = std::fs::read(path)?;
        let none = || io::Error::new(io::ErrorKind::UnexpectedEof, "no input was kept");
        let (length, rest) = whole.split_first_chunk().ok_or_else(none)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| none())?;
        rest.get(..length).map(<[u8]>::to_vec).ok_or_else(none)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: the mapping is this long, and nobody has a reference into it any more.
        let _gone = unsafe { munmap(self.bytes.as_ptr().cast(), self.size) };
    }
}

static INPUTS: AtomicU64 = AtomicU64::new(0);
static IS_READING: AtomicBool = AtomicBool::new(false);
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Watches this process from now on: an input that takes too long ends it, files have a limit, and
/// panics are kept and not printed.
pub fn watch() {
    limit_files();
    std::panic::set_hook(Box::new(|panic| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
    std::thread::spawn(|| {
        let mut seen = (0, cpu_time(), 0_u32);
        loop {
            std::thread::sleep(LOOK);
            let input = INPUTS.load(Ordering::Relaxed);
            if input != seen.0 || !IS_READING.load(Ordering::Relaxed) {
                seen = (input, cpu_time(), 0);
                continue;
            }
            seen.2 += 1;
            let cpu = cpu_time().saturating_sub(seen.1);
            if resident() > MEMORY_LIMIT + BASE {
                // SAFETY: it ends this process, and takes no pointers.
                unsafe { libc::_exit(EXIT_MEMORY) };
            }
            if cpu > CPU_LIMIT || LOOK.saturating_mul(seen.2) > WALL_LIMIT {
                // SAFETY: it ends this process, and takes no pointers.
                unsafe { libc::_exit(EXIT_HANG) };
            }
        }
    });
}

/// A file that becomes longer than the limit cannot be written on, instead of filling the disk.
fn limit_files() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(FILE_LIMIT), maximum: Some(FILE_LIMIT) };
    // Where it cannot be set, the disk is the limit.
    let _set = setrlimit(Resource::Fsize, limit);
    // SAFETY: ignoring a signal installs no handler and takes no pointers that are read.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The memory of this process, that of libraries in C too; zero where it cannot be read.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<usize>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size())
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Reads one input under the guard.
///
/// # Errors
/// The message of a panic, in whichever thread.
pub fn read(run: impl FnOnce(&[u8]), bytes: &[u8]) -> Result<(), String> {
    INPUTS.fetch_add(1, Ordering::Relaxed);
    let allowed = LIVE.load(Ordering::Relaxed).saturating_add(MEMORY_LIMIT);
    ALLOWED.store(allowed, Ordering::Relaxed);
    IS_READING.store(true, Ordering::Relaxed);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(bytes)));
    IS_READING.store(false, Ordering::Relaxed);
    ALLOWED.store(usize::MAX, Ordering::Relaxed);
    let message = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (ended, message) {
        (Ok(()), None) => Ok(()),
        (_, message) => Err(message.unwrap_or_else(|| String::from("a panic without words"))),
    }
}
