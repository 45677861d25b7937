//! A container's hijacked stream: head, frames, and what becomes of standard error.

use super::Target;
use crate::text::assert_inert;
use surtax::driver::untrusted;

pub const TARGET: Target =
    Target { name: "docker", run, seeds: super::none, folders: &[], longest: 32 << 10 };

fn run(bytes: &[u8]) {
    if let Ok((stdout, console)) = untrusted::docker_stream(bytes) {
        assert!(stdout.len() < bytes.len(), "more was read than was sent");
        assert_inert("what a container said on standard error", &console.text());
    }
}
