//! A disk thrasher: blocks at random places of a file, each of which must reach the disk before the
//! next.
//!
//! The file has no name, so nothing of it is left. It never takes more than half of what is free.
//!
//! Source: `O_TMPFILE` in `open(2)`, `fdatasync(2)`, `statvfs(3)`.

use super::limits::{self, What};
use super::{DURATION, Term, UNTIL_ENDED, bytes, duration, per_second};
use crate::{Answer, Engine, Options, Refused, option};
use rustix::fs::{Mode, OFlags, fdatasync, open, statvfs};
use std::fs::File;
use std::os::unix::fs::FileExt;
use surtax_instrument::clock;
use surtax_instrument::histogram::Histogram;
use surtax_instrument::quantity::Bytes;

/// The thrasher.
pub(crate) const ENGINE: Engine = Engine {
    name: "thrash",
    about: "blocks at random places of a file, each to the disk before the next",
    options: &[
        option("directory", "DIR", "where the file is; /scratch"),
        option("bytes", "SIZE", "the size of the file; 64M"),
        DURATION,
        UNTIL_ENDED,
    ],
    run,
};

/// The largest file, whatever it is asked for.
const MOST: Bytes = Bytes(16 << 30);

/// Number of bytes written at a time.
const BLOCK: usize = 64 << 10;

fn run(options: &Options) -> Result<Answer, Refused> {
    let size = bytes(options, "bytes", Bytes(64 << 20), MOST)?.max(BLOCK as u64);
    let directory = options.text("directory").unwrap_or("/scratch");
    let duration = duration(options)?;
    let holder = limits::require(What::Memory)?;
    let shown = directory.escape_debug();
    let cannot = |error: rustix::io::Errno| {
        Refused::machine(format!("cannot thrash in `{shown}`: {error}"))
            .hint("give the stack a medium (`scratch=bind`), or name another directory")
    };
    let free = statvfs(directory).map_err(cannot)?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if size > free / 2 {
        let (size, free) = (size >> 20, free >> 20);
        return Err(Refused::user(format!(
            "a file of {size} MiB is more than half of the {free} MiB that are free in `{shown}`"
        ))
        .hint("take a smaller one (`--bytes`)"));
    }
    let file = open(directory, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.map_err(cannot)?);
    let failed = |error: std::io::Error| Refused::machine(format!("the disk refused: {error}"));
    file.set_len(size).map_err(failed)?;
    let block = vec![0xa5_u8; BLOCK];
    let blocks = size / BLOCK as u64;
    let mut waits = Histogram::new();
    let mut state = 1_u64;
    let term = Term::of(duration);
    while !term.is_over() {
        // Knuth's MMIX generator; its upper bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (state >> 33) % blocks * BLOCK as u64;
        let began = clock::monotonic_raw();
        file.write_all_at(&block, place).map_err(failed)?;
        fdatasync(&file).map_err(|error| failed(error.into()))?;
        waits.record(clock::monotonic_raw().since(began).0.max(1));
    }
    let took_ns = term.gone_ns();
    let mut answer = Answer::of(ENGINE.name);
    answer.text("held_by", &holder.by);
    answer.whole("bytes_written", waits.count() * BLOCK as u64);
    answer.whole("write_count", waits.count());
    answer.number("writes_per_s", per_second(waits.count(), took_ns));
    answer.whole("took_ns", took_ns);
    answer.histogram(&waits);
    Ok(answer)
}
