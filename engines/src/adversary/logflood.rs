//! A log flood: lines on standard error as fast as whoever reads them takes them.
//!
//! Only a pipe or a socket is flooded: a file would fill a disk, and a terminal is somebody's.

use super::{DURATION, Term, UNTIL_ENDED, bytes, duration, per_second};
use crate::{Answer, Engine, Options, Refused, option};
use rustix::fs::{FileType, fstat};
use std::io::{ErrorKind, Write, stderr};
use surtax_instrument::quantity::Bytes;

/// The flood.
pub(crate) const ENGINE: Engine = Engine {
    name: "logflood",
    about: "lines on standard error as fast as they are read",
    options: &[
        option("bytes", "SIZE", "the most that is written in its duration; 64M"),
        option("line", "N", "bytes of a line with its end; 100"),
        DURATION,
        UNTIL_ENDED,
    ],
    run,
};

/// The most that it ever writes, whatever it is asked for.
const MOST: Bytes = Bytes(64 << 30);

/// Approximate number of bytes written at a time.
const PIECE: usize = 8 << 10;

fn run(options: &Options) -> Result<Answer, Refused> {
    let most = bytes(options, "bytes", Bytes(64 << 20), MOST)?;
    let most = if options.has(UNTIL_ENDED.key) { u64::MAX } else { most };
    let line = options.number("line", 100, 2..=4096)?;
    let duration = duration(options)?;
    let kind = fstat(stderr()).map(|found| FileType::from_raw_mode(found.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return Err(Refused::user("standard error is no pipe and no socket, so it is not flooded")
            .hint("pipe it into a program, as in `2>&1 >result | cat >/dev/null`"));
    }
    let length = usize::try_from(line).unwrap_or(PIECE);
    let mut one = vec![b'x'; length - 1];
    one.push(b'\n');
    let lines_at_once = (PIECE / length).max(1) as u64;
    let piece = one.repeat(PIECE.div_euclid(length).max(1));
    let mut lines = 0;
    let term = Term::of(duration);
    while !term.is_over() && (lines + lines_at_once) * line <= most {
        match stderr().write_all(&piece) {
            Ok(()) => lines += lines_at_once,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => {
                return Err(Refused::machine(format!("the flood is dammed: {error}")));
            }
        }
    }
    let took_ns = term.gone_ns();
    let mut answer = Answer::of(ENGINE.name);
    answer.whole("line_count", lines);
    answer.whole("bytes_written", lines * line);
    answer.truth("is_own_bound_reached", (lines + lines_at_once) * line > most);
    answer.whole("took_ns", took_ns);
    answer.number("lines_per_s", per_second(lines, took_ns));
    Ok(answer)
}
