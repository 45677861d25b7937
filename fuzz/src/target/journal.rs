//! The lab's journal: the file that says what a surtax that died has left.

use super::Target;
use surtax::lab::read_untrusted_journal;

pub const TARGET: Target =
    Target { name: "journal", run, seeds: super::none, folders: &[], longest: 16 << 10 };

fn run(bytes: &[u8]) {
    let Ok((pending, damage)) = read_untrusted_journal(bytes) else { return };
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    assert!(pending + damage.len() <= lines, "{pending} objects in {lines} lines: {damage:?}");
}
