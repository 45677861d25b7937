//! The HTTP answers of Firecracker and Cloud Hypervisor.

use super::Target;
use surtax::driver::untrusted;

pub const TARGET: Target =
    Target { name: "monitor", run, seeds: super::none, folders: &[], longest: 32 << 10 };

fn run(bytes: &[u8]) {
    if let Ok((_, body)) = untrusted::monitor_answer(bytes) {
        assert!(bytes.ends_with(&body) || bytes.windows(body.len()).any(|part| part == body));
    }
}
