//! Removes a container of a Docker-compatible engine, with one hand-written request.
//!
//! The reaper must stay small, so no HTTP library and no async runtime is used here; the request
//! has no body and only the status line and a bounded excerpt of the answer are read.

use crate::fault::{Doing, Fault};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the engine may take to remove one container.
const DEADLINE: Duration = Duration::from_secs(30);

/// The most of an answer that is read, in bytes.
const ANSWER_LIMIT: u64 = 4096;

/// Removes a container by force, with its anonymous volumes. One that is gone is no error, and
/// neither is an engine that is gone: its socket is absent or nobody listens there.
pub(super) fn remove_container(socket: &Path, name: &str) -> Result<Vec<String>, Fault> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.chars().all(is_name) {
        return Err(Fault::bug(format!("`{name}` is not a container's name")));
    }
    let at = socket.display();
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).doing(format_args!("reach the engine at `{at}`")),
    };
    let answer = ask(&mut stream, name)
        .doing(format_args!("have the engine at `{at}` remove the container `{name}`"))?;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    match status {
        "204" | "200" => Ok(vec![format!("container `{name}` still existed")]),
        "404" => Ok(Vec::new()),
        // Somebody else removes it right now.
        "409" if answer.contains("in progress") => Ok(Vec::new()),
        _ => {
            let words = answer.lines().last().unwrap_or_default().trim();
            Err(Fault::machine(format!(
                "the engine at `{at}` did not remove the container `{name}`: {status} {words}"
            ))
            .hint(format!("docker -H unix://{at} rm --force --volumes {name}")))
        }
    }
}

fn ask(stream: &mut UnixStream, name: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    // Without a version in its path a request is answered by the newest one that the engine has.
    let request = format!(
        "DELETE /containers/{name}?force=true&v=true HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
