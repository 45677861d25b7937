//! Prices of primitives: what one system call, page fault or context switch costs here.
//!
//! Each is measured for about the same time, in many short batches, and given as nanoseconds per
//! operation. What cannot be measured has no price but a reason. Durations are this kernel's own: a
//! clock that does not keep host time is found out by whoever measures with an agent.
//!
//! After lmbench (McVoy and Staelin, USENIX 1996), whose operations these are where it has them.

mod batch;
mod engine;
mod file;
mod memory;
mod network;
mod page;
mod process;
mod processor;
mod switch;

use batch::repeat;
pub use batch::{Measured, measure};
pub(super) use engine::ENGINE;
pub use engine::{NOTHING, cache_bytes};
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Settings that prices are measured with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// For about how long each price is measured.
    pub budget: Duration,
    /// Directory in which files are made, and removed again.
    pub directory: PathBuf,
    /// The program that is started and waited for, with its arguments, its name first; it must end
    /// with 0.
    pub program: Vec<CString>,
    /// The size of each of the three arrays that memory bandwidth is measured with, in bytes: four
    /// times the last level of cache, as STREAM asks for. The same in all places that are compared.
    pub array_bytes: u64,
}

impl Setting {
    /// The price of an operation that needs nothing before it.
    fn each(&self, mut operation: impl FnMut() -> io::Result<()>) -> io::Result<Measured> {
        measure(self.budget, u64::MAX, |count| repeat(count, &mut operation))
    }
}

/// One primitive.
pub struct Price {
    /// Name, in every format; its median is written as `NAME_ns`.
    pub name: &'static str,
    /// Description of one operation, for people.
    pub operation: &'static str,
    measure: fn(&Setting) -> io::Result<Measured>,
}

impl Price {
    /// Measures it.
    ///
    /// # Errors
    /// Why it has no price here.
    pub fn measure(&self, setting: &Setting) -> io::Result<Measured> {
        (self.measure)(setting)
    }
}

const fn price(
    name: &'static str,
    operation: &'static str,
    measure: fn(&Setting) -> io::Result<Measured>,
) -> Price {
    Price { name, operation, measure }
}

/// All of them, in the order in which they are measured and shown: what looks at files before it is
/// timed comes after what is the first to look at them, and what takes much memory last.
pub const PRICES: &[Price] = &[
    price("system_call", "getppid, not from any library", processor::system_call),
    price("cpuid", "cpuid, which leaves a virtual machine that a CPU runs", processor::cpuid),
    price("signal", "signal to this thread, and its handler", processor::signal),
    price("timer", "how late a sleep of 100 µs ends", processor::timer),
    price("context_switch_pipe", "switch to another process, one byte by a pipe", switch::pipe),
    price("pipe_write_read", "one byte into a pipe and out again, no switch", switch::pipe_alone),
    price("context_switch_futex", "switch to another thread, by a futex", switch::futex),
    price("epoll_wake_up", "switch to a thread that waits in epoll", switch::epoll),
    price("thread_create", "thread made and joined", process::thread),
    price("fork_exec_wait", "this program forked, started anew and waited for", process::fork_exec),
    price("page_fault_minor", "first touch of a page of 4 KiB", page::minor_fault),
    price("page_fault_huge", "first touch of a page of 2 MiB, zeroed", page::huge_fault),
    price("mmap", "one page mapped and unmapped, untouched", page::map),
    price("file_open", "file opened and closed", file::open),
    price("file_open_first", "file of the root opened for the first time", file::open_first),
    price("file_stat", "file looked up by its path", file::stat),
    price("file_stat_first", "file of the root looked up for the first time", file::stat_first),
    price("file_read", "4 KiB read from the page cache", file::read),
    price("file_read_first", "4 KiB of a file of the root, for the first time", file::read_first),
    price("file_read_64_kib", "64 KiB read from the page cache", file::read_large),
    price("file_write", "4 KiB written to the page cache", file::write),
    price("file_create", "file created, closed and removed", file::create),
    price("directory_read_first", "folder of the root read for the first time", file::list_first),
    price("page_fault_file", "first touch of a page of a file that is mapped", page::file_fault),
    price("file_fsync", "4 KiB written, and fsync", file::fsync),
    price("tcp_connect", "loopback: connected, accepted and closed", network::tcp_connect),
    price("udp_send", "loopback: 64 bytes sent", network::udp_send),
    price("memory_latency_16_kib", "dependent load, within 16 KiB", memory::latency::<16>),
    price("memory_latency_256_kib", "dependent load, within 256 KiB", memory::latency::<256>),
    price("memory_latency_4_mib", "dependent load, within 4 MiB", memory::latency::<4096>),
    price("memory_latency_64_mib", "dependent load, within 64 MiB", memory::latency::<65_536>),
    price("memory_latency_64_mib_huge", "the same, in pages of 2 MiB", memory::latency_64_mib_huge),
    price("memory_copy", "1 KiB moved, half read and half written", memory::copy),
    price("memory_triad", "1 KiB moved, two thirds read, one written", memory::triad),
];

#[cfg(test)]
mod tests;
