//! Unprivileged users, one for each program of a room that serves a guest, and what such a program
//! gives up.
//!
//! The number is nobody's on this machine, and no two rooms have the same one at a time: two guests
//! whose monitors were both taken over could not touch each other. Who holds a number is told by a
//! lock on one byte of a file beside the journals. The kernel lets go of it with the process, so
//! there is no undo to write.
//!
//! A level whose files are its own, such as a container, has a file of its own; its numbers begin
//! somewhere else each time, and its processes are not seen from others of its kind.
//!
//! Source: `capabilities(7)`, `PR_SET_NO_NEW_PRIVS(2const)`.

use super::confinement::{CapabilitySet, Confinement};
use super::{Room, byte_lock, exclusive, journal, us, user_numbers};
use crate::fault::{Doing, Fault};
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first of the numbers where all of them are mapped: behind those of the containers' users.
const FIRST: u32 = user_numbers::FIRST + user_numbers::COUNT;

/// Number of these users.
const COUNT: u32 = 32_768;

/// The file whose bytes are locked, beside the journals.
pub(super) const FILE: &str = "users";

/// File of the user ids that the kernel maps in this user namespace.
const MAP: &str = "/proc/self/uid_map";

/// A user of a room that is nobody else's. It is given back when this is dropped.
#[derive(Debug)]
pub struct Unprivileged {
    number: u32,
    _held: Option<File>,
}

impl Room {
    /// A user without privileges, for a program of this room.
    ///
    /// # Errors
    /// The machine's: the file of numbers cannot be locked, or all are taken.
    pub fn unprivileged(&self) -> Result<Unprivileged, Fault> {
        if us::is_in_a_namespace() {
            // There is one user alone, and what the machine lets them do is little.
            return Ok(Unprivileged { number: 0, _held: None });
        }
        let map = fs::read_to_string(MAP).doing(format_args!("read `{MAP}`"))?;
        let first = first_of(&map).ok_or_else(|| {
            Fault::machine("this user namespace has too few users for one without privileges")
                .hint("map at least 65536 users into it")
        })?;
        let path = journal::state_directory()?.join(FILE);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let begin =
            std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        take(&path, begin)?
            .map(|(offset, held)| Unprivileged { number: first + offset, _held: Some(held) })
            .ok_or_else(|| {
                Fault::machine(format!("all {COUNT} users without privileges are taken"))
                    .hint("end another surtax that runs on this machine")
            })
    }
}

impl Unprivileged {
    /// The user and the group of this number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A program of this user that keeps these capabilities, and no other.
    #[must_use]
    pub fn with(&self, capabilities: CapabilitySet) -> Confinement {
        Confinement { user: self.number, capabilities }
    }

    /// Gives a file or directory of the room to the user, and to nobody else.
    ///
    /// # Errors
    /// The machine's: it is not there, or cannot be given away.
    pub fn own(&self, path: &Path) -> Result<(), Fault> {
        std::os::unix::fs::lchown(path, Some(self.number), Some(self.number)).doing(format_args!(
            "give `{}` to user {}",
            path.display(),
            self.number
        ))
    }
}

/// The first number of a range that is mapped as a whole: [`FIRST`], or else the last ones that
/// there are.
fn first_of(map: &str) -> Option<u32> {
    let ranges: Vec<(u64, u64)> = map
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let inside = words.next()?.parse().ok()?;
            Some((inside, words.nth(1)?.parse().ok()?))
        })
        .collect();
    let (count, first) = (u64::from(COUNT), u64::from(FIRST));
    let holds = |(inside, length): &(u64, u64)| {
        *inside <= first && inside.saturating_add(*length) >= first + count
    };
    if ranges.iter().any(holds) {
        return Some(FIRST);
    }
    // The last two of a range are often the overflow user and what no system call takes.
    let wide = ranges.iter().rfind(|(_, length)| *length >= 2 * count)?;
    u32::try_from(wide.0 + wide.1 - count - 2).ok()
}

/// Locks the first free byte of a file, from one of them on.
fn take(path: &Path, begin: u32) -> Result<Option<(u32, File)>, Fault> {
    let doing = format!("take a user without privileges in `{}`", path.display());
    let file = exclusive::lock_file(path)?;
    for step in 0..COUNT {
        let offset = begin.wrapping_add(step) % COUNT;
        if byte_lock::try_lock(&file, offset.into()).doing(&doing)? {
            return Ok(Some((offset, file)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
