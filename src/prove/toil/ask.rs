//! Demands that a command may make on its kernel, one kind after the other, as often as it is told.
//!
//! Each is what a price of the price list is of, written once more: so that a count times a price
//! is held against something else than how the price was measured.

use crate::fault::{Doing, Fault};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use surtax_engines::cpu;

/// Bytes of a block, and of a small page.
const BLOCK: usize = 4096;

/// Pages that are touched before they are given back.
const PAGES: u64 = 1024;

/// Datagrams that a receiver keeps who does not read.
const DATAGRAMS: u64 = 32;

/// Kind of what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::prove) enum Ask {
    /// First touches of pages.
    Faults,
    /// Files opened and closed.
    Opens,
    /// Blocks read from the page cache.
    Reads,
    /// Blocks written and awaited.
    Syncs,
    /// Datagrams over loopback.
    Sends,
    /// Switches to another thread, by a pipe.
    Switches,
}

/// Each of them.
pub(in crate::prove) const ASKS: [Ask; 6] =
    [Ask::Faults, Ask::Opens, Ask::Reads, Ask::Syncs, Ask::Sends, Ask::Switches];

impl Ask {
    /// The variable that says how often.
    pub(in crate::prove) fn variable(self) -> &'static str {
        match self {
            Self::Faults => "SURTAX_TOIL_FAULTS",
            Self::Opens => "SURTAX_TOIL_OPENS",
            Self::Reads => "SURTAX_TOIL_READS",
            Self::Syncs => "SURTAX_TOIL_SYNCS",
            Self::Sends => "SURTAX_TOIL_SENDS",
            Self::Switches => "SURTAX_TOIL_SWITCHES",
        }
    }

    /// Asks so often.
    pub(super) fn run(self, count: u64) -> Result<(), Fault> {
        match self {
            Self::Faults => faults(count),
            Self::Opens => {
                with_file(|path, _| (0..count).try_for_each(|_| File::open(path).map(drop)))
            }
            Self::Reads => with_file(|_, file| {
                let mut block = [0; BLOCK];
                (0..count).try_for_each(|_| file.read_exact_at(&mut block, 0))
            }),
            Self::Syncs => with_file(|_, file| {
                (0..count).try_for_each(|_| {
                    file.write_all_at(&[2; BLOCK], 0)?;
                    file.sync_all()
                })
            }),
            Self::Sends => sends(count),
            Self::Switches => switches(count),
        }
        .doing(format!("ask {count} times for {}", self.variable()))
    }
}

fn with_file(work: impl FnOnce(&PathBuf, &File) -> io::Result<()>) -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("surtax-toil-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    let worked = file.write_all_at(&[1; BLOCK], 0).and_then(|()| work(&path, &file));
    std::fs::remove_file(&path).and(worked)
}

fn faults(count: u64) -> io::Result<()> {
    let length = BLOCK * usize::try_from(PAGES).unwrap_or(1);
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    let mut left = count;
    while left > 0 {
        let now = left.min(PAGES);
        // SAFETY: nothing is there yet.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, flags) }?;
        // SAFETY: it is our own, and what it holds is left as it is.
        let _ = unsafe { madvise(mapped, length, Advice::LinuxNoHugepage) };
        for page in 0..usize::try_from(now).unwrap_or(0) {
            let byte = mapped.cast::<u8>().wrapping_add(page * BLOCK);
            // SAFETY: within what was mapped, and writable.
            unsafe { byte.write_volatile(1) };
        }
        // SAFETY: nobody else has it.
        unsafe { munmap(mapped, length) }?;
        left -= now;
    }
    Ok(())
}

fn sends(count: u64) -> io::Result<()> {
    let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    sender.connect(receiver.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    let mut message = [0; 64];
    for number in 1..=count {
        sender.send(&[1; 64])?;
        if number % DATAGRAMS == 0 || number == count {
            while receiver.recv(&mut message).is_ok() {}
        }
    }
    black_box(message);
    Ok(())
}

fn switches(count: u64) -> io::Result<()> {
    let (their_input, our_output) = rustix::pipe::pipe()?;
    let (our_input, their_output) = rustix::pipe::pipe()?;
    cpu::on_one(|| {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut byte = [0];
                while let Ok(1) = rustix::io::read(&their_input, &mut byte)
                    && let Ok(1) = rustix::io::write(&their_output, &byte)
                {}
            });
            let mut byte = [1];
            for _ in 0..count / 2 {
                rustix::io::write(&our_output, &byte)?;
                rustix::io::read(&our_input, &mut byte)?;
            }
            // The end of its input ends the other.
            drop(our_output);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_asked_for_and_nothing_is_left() {
        for ask in ASKS {
            ask.run(70).unwrap();
            ask.run(0).unwrap();
        }
        let left = std::env::temp_dir().join(format!("surtax-toil-{}", std::process::id()));
        assert!(!left.exists());
    }
}
