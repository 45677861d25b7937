//! The channel to an agent that speaks on its standard input and output, and its last words.

use crate::agent::{ConsoleTail, Link};
use crate::fault::Fault;
use crate::lab;
use std::fs::File;
use std::os::fd::OwnedFd;

/// The way to the agent of `kind`, and the three ends that whoever starts it gives to its process.
///
/// # Errors
/// The machine's: too many files are open.
pub fn link(kind: &str) -> Result<(Link, [Option<OwnedFd>; 3]), Fault> {
    let (requests, to_agent) = lab::pipe()?;
    let (replies, from_agent) = lab::pipe()?;
    let (last_words, stderr) = lab::pipe()?;
    let console = ConsoleTail::new();
    console.drain(last_words);
    let link = Link::over(kind, File::from(replies), File::from(to_agent), &console)?;
    Ok((link, [Some(requests), Some(from_agent), Some(stderr)]))
}
