//! Requests to `surtax serve`: a browser, a tool, or somebody hostile.

use super::Target;
use surtax::serve::untrusted;

const SECRET: &str = "s3cret";

pub const TARGET: Target = Target { name: "request", run, seeds, folders: &[], longest: 4 << 10 };

fn seeds() -> Vec<Vec<u8>> {
    let look = "GET /s3cret/runs/a%20b/ HTTP/1.1\nHost: 127.0.0.1:7878";
    let act = "POST /s3cret/runs/a/stop\nHost: localhost\nOrigin: http://localhost";
    [&look.replace(" HTTP/1.1", ""), act].map(|it| it.as_bytes().to_vec()).to_vec()
}

fn run(bytes: &[u8]) {
    let Some(is_act) = untrusted::request(bytes, SECRET) else { return };
    // A header may hold bytes that are no text.
    let said = String::from_utf8_lossy(bytes);
    assert!(said.contains(SECRET), "somebody without the secret was let in");
    let lower = said.to_lowercase();
    assert!(lower.contains("host:"), "a request that names no host was let in");
    assert!(!is_act || lower.contains("origin:"), "something was done for another page");
}
