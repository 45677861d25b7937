//! Removes a container, an image or a network of a Docker-compatible engine, with one hand-written
//! request.
//!
//! The reaper must stay small, so no HTTP library and no async runtime is used here; the request
//! has no body and only the status line and a bounded excerpt of the answer are read.

use super::patient::Patient;
use crate::fault::{Doing, Fault};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time limit for the engine to remove one container.
const DEADLINE: Duration = Duration::from_secs(30);

/// Number of times that the engine is asked as long as it hangs up without an answer: most often it
/// is dying, and then gone. The pauses are as long together as an engine that was killed takes to
/// go.
const ATTEMPTS: u32 = 20;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The most of an answer that is read, in bytes.
const ANSWER_LIMIT: u64 = 4096;

/// Removes a container by force, with its anonymous volumes. One that is gone is no error, and
/// neither is an engine that is gone: its socket is absent or nobody listens there.
pub(super) fn remove_container(socket: &Path, name: &str) -> Result<Vec<String>, Fault> {
    remove(socket, "container", name, &format!("/containers/{name}?force=true&v=true"))
}

/// Removes an image; one that is gone is no error. It is not reported: nothing else removes it.
pub(super) fn remove_image(socket: &Path, name: &str) -> Result<Vec<String>, Fault> {
    remove(socket, "image", name, &format!("/images/{name}?force=true")).map(|_| Vec::new())
}

/// Removes a network; one that is gone is no error. It is not reported: nothing else removes it.
pub(super) fn remove_network(socket: &Path, name: &str) -> Result<Vec<String>, Fault> {
    remove(socket, "network", name, &format!("/networks/{name}")).map(|_| Vec::new())
}

fn remove(socket: &Path, what: &str, name: &str, path: &str) -> Result<Vec<String>, Fault> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if !name.chars().all(is_name) {
        return Err(Fault::bug(format!("`{name}` is not the name of a {what}")));
    }
    let at = socket.display();
    let mut answer = String::new();
    for attempt in 1..=ATTEMPTS {
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error).doing(format_args!("reach the engine at `{at}`")),
        };
        answer = match ask(stream, path) {
            Err(error) if has_hung_up(&error) && attempt < ATTEMPTS => String::new(),
            result => result
                .doing(format_args!("have the engine at `{at}` remove the {what} `{name}`"))?,
        };
        if !answer.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let status = answer.split(' ').nth(1).unwrap_or_default();
    match status {
        "204" | "200" => Ok(vec![format!("{what} `{name}` still existed")]),
        "404" => Ok(Vec::new()),
        // Somebody else removes it right now.
        "409" if answer.contains("in progress") => Ok(Vec::new()),
        _ => {
            let words = answer.lines().last().unwrap_or_default().trim();
            Err(Fault::machine(format!(
                "the engine at `{at}` did not remove the {what} `{name}`: {status} {words}"
            ))
            .hint(format!("docker -H unix://{at} {what} rm --force {name}")))
        }
    }
}

fn has_hung_up(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn ask(stream: UnixStream, path: &str) -> std::io::Result<String> {
    let mut stream = Patient::new(stream, DEADLINE)?;
    // Without a version in its path a request is answered by the newest one that the engine has.
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    /// An engine that gives one answer and is gone; what it was asked is returned beside our
    /// result.
    fn asked(answer: &str) -> (String, Result<Vec<String>, Fault>) {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            let engine = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                while !lines.next().unwrap().unwrap().is_empty() {}
                stream.write_all(answer.as_bytes()).unwrap();
                first
            });
            let result = remove_container(&socket, "surtax-1-x");
            (engine.join().unwrap(), result)
        })
    }

    #[test]
    fn a_container_is_removed_by_force_with_its_volumes() {
        let (request, result) = asked("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(request, "DELETE /containers/surtax-1-x?force=true&v=true HTTP/1.1");
        assert_eq!(result.unwrap(), ["container `surtax-1-x` still existed"]);
    }

    #[test]
    fn a_container_or_an_engine_that_is_gone_is_no_error() {
        assert_eq!(asked("HTTP/1.1 404 Not Found\r\n\r\n{}").1.unwrap(), Vec::<String>::new());
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("engine.sock");
        assert_eq!(remove_container(&socket, "surtax-1-x").unwrap(), Vec::<String>::new());
        drop(UnixListener::bind(&socket).unwrap());
        assert!(socket.exists(), "nobody listens there any more");
        assert_eq!(remove_container(&socket, "surtax-1-x").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_engine_that_refuses_is_quoted() {
        let answer = "HTTP/1.1 500 Internal Server Error\r\n\r\n{\"message\":\"device busy\"}";
        let fault = asked(answer).1.unwrap_err();
        assert!(fault.message.ends_with("500 {\"message\":\"device busy\"}"), "{fault}");
    }

    #[test]
    fn an_engine_that_dies_while_it_is_asked_is_gone_and_one_that_only_hangs_up_is_an_error() {
        assert_eq!(asked("").1.unwrap(), Vec::<String>::new());
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            // What it has not read makes the kernel reset the connection; else it is closed.
            scope.spawn(|| {
                (0..ATTEMPTS).for_each(|_| drop(listener.accept().unwrap()));
            });
            assert!(remove_container(&socket, "surtax-1-x").is_err());
        });
    }
}
