//! The file that a command is: looked up as `execvp(3)` does, and hashed.
//!
//! It is read after the command has ended, so that nothing of it is in a cache because of us. By
//! then a command may have put another file there, or other bytes into it: so its state, which no
//! write leaves as it was, is told before the command too, and the host holds the two against each
//! other. `@surtax` is the agent's own file. Of what a shell or an interpreter starts in turn, and
//! of libraries, nothing is said.

use crate::engine::OWN_FILE;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_engines::OURSELVES;
use surtax_instrument::command_file::find;
use surtax_instrument::way::Way;
use surtax_instrument::wire::{COMMAND_FILE_STATE, Command, Fact};
use xxhash_rust::xxh3::Xxh3Default;

/// A longer file is not hashed whole, but at both ends.
const WHOLE_BYTES: u64 = 64 << 20;

/// Number of bytes of each end that are hashed then.
const END_BYTES: u64 = 16 << 20;

/// Returns what is known of the file; nothing if there is none.
pub fn facts(command: &Command) -> Vec<Fact> {
    let Some(path) = file_of(command) else { return Vec::new() };
    let (shown, source) = match is_ours(command) {
        true => (OURSELVES.into(), "the agent, which was started as itself"),
        false => (path.to_string_lossy().into_owned(), "a look at the command's `PATH`"),
    };
    let mut facts = vec![Fact::new("command_file", shown, source)];
    if let Ok((found, hash)) = hash(&path) {
        let length = found.len();
        let part = if length > WHOLE_BYTES { "the first and the last 16 MiB" } else { "all" };
        facts.push(Fact::new("command_file_bytes", length.to_string(), "stat(2)"));
        facts.push(Fact::new("command_file_xxh3", hash, format!("{part} of the file")));
        facts.push(state_of(&path, &found));
    }
    facts
}

/// Returns what is known of the file without reading it; nothing if there is none.
pub fn state(command: &Command) -> Option<Fact> {
    let path = file_of(command)?;
    fs::metadata(&path).ok().map(|found| state_of(&path, &found))
}

/// Identity of a file and of the links that lead to it, and when something of each was changed
/// last: a time that nobody sets.
fn state_of(path: &Path, found: &Metadata) -> Fact {
    let links = Way::to(path).filter(|step| step.is_link);
    let links: Vec<Metadata> =
        links.filter_map(|link| fs::symlink_metadata(link.entry).ok()).collect();
    let state = links.iter().chain([found]).map(identity).collect::<Vec<_>>().join(", ");
    Fact::new(COMMAND_FILE_STATE, state, "stat(2): device, inode, length, change")
}

fn identity(of: &Metadata) -> String {
    let [device, inode, length] = [of.dev(), of.ino(), of.len()];
    format!("{device}:{inode} {length} {}.{:09}", of.ctime(), of.ctime_nsec())
}

fn is_ours(command: &Command) -> bool {
    command.argv.first().is_some_and(|program| program == OURSELVES.as_bytes())
}

fn file_of(command: &Command) -> Option<PathBuf> {
    if is_ours(command) { Some(PathBuf::from(OWN_FILE)) } else { find(command) }
}

/// Metadata of a file, and XXH3-128 of it or of its ends, hexadecimal.
fn hash(path: &Path) -> io::Result<(Metadata, String)> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    let length = found.len();
    let mut hash = Xxh3Default::new();
    if length > WHOLE_BYTES {
        add(&mut hash, (&file).take(END_BYTES))?;
        file.seek(SeekFrom::Start(length - END_BYTES))?;
        add(&mut hash, (&file).take(END_BYTES))?;
    } else {
        add(&mut hash, (&file).take(WHOLE_BYTES))?;
    }
    Ok((found, format!("{:032x}", hash.digest128())))
}

fn add(hash: &mut Xxh3Default, from: impl Read) -> io::Result<()> {
    io::copy(&mut BufReader::with_capacity(64 << 10, from), hash).map(drop)
}
