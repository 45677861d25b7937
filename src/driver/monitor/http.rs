//! HTTP over a monitor's socket: one connection, one question at a time, bodies of JSON.
//!
//! Both monitors answer by the same small server (`micro_http`): its answers have a length or no
//! body, and are never chunked. A client library would bring a runtime for five requests.
//!
//! Source: RFC 9112.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::{Patient, Process};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Time limit of an answer: when a machine is started, its memory is made.
const DEADLINE: Duration = Duration::from_secs(30);

/// Between two attempts to connect.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// The most of a head that is read, in bytes.
const HEAD_LIMIT: u64 = 16 << 10;

/// The longest body that is read, in bytes.
const BODY_LIMIT: usize = 4 << 20;

/// Largest part of a refusal that is quoted, in characters.
const QUOTE: usize = 600;

/// A connection to a monitor's API.
pub(super) struct Api {
    kind: &'static str,
    stream: BufReader<Patient>,
}

/// An answer.
pub(in crate::driver) struct Answer {
    /// The number of its first line.
    pub(in crate::driver) status: u16,
    /// All of it.
    pub(in crate::driver) body: Vec<u8>,
}

impl Api {
    /// Connects as soon as the monitor listens at its socket.
    ///
    /// # Errors
    /// The monitor has ended, or does not listen in time; with its last words.
    pub(super) fn connect(
        kind: &'static str,
        socket: &Path,
        monitor: &mut Process,
        console: &ConsoleTail,
        deadline: Duration,
    ) -> Result<Self, Fault> {
        let began = monotonic_raw();
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => {
                    return Self::over(kind, stream).doing("set how long a monitor may take");
                }
                Err(error) => {
                    let why = match monitor.wait(TRY_AGAIN)? {
                        Some(status) => format!("it ended with {status}"),
                        None if Duration::from(monotonic_raw().since(began)) < deadline => continue,
                        None => error.to_string(),
                    };
                    console.settle(TRY_AGAIN);
                    let absent = format!("{kind}: no API at `{}`: {why}", socket.display());
                    return Err(Fault::machine(absent).saying(&console.quote()));
                }
            }
        }
    }

    fn over(kind: &'static str, stream: UnixStream) -> io::Result<Self> {
        Ok(Self { kind, stream: BufReader::new(Patient::new(stream, DEADLINE)?) })
    }

    /// Asks the monitor for the JSON at a path.
    ///
    /// # Errors
    /// It does not answer, refuses, or says what is no JSON.
    pub(super) fn get(&mut self, path: &str) -> Result<Value, Fault> {
        let answer = self.ask("GET", path, None)?;
        let kind = self.kind;
        serde_json::from_slice(&answer).doing(format_args!("read what {kind} says at `{path}`"))
    }

    /// Tells the monitor something.
    ///
    /// # Errors
    /// It does not answer, or refuses: then with its reason.
    pub(super) fn put(&mut self, path: &str, body: Option<&Value>) -> Result<(), Fault> {
        self.ask("PUT", path, body).map(drop)
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Vec<u8>, Fault> {
        let body = body.map(Value::to_string);
        let kind = self.kind;
        let answer = self
            .exchange(method, path, body.as_deref())
            .doing(format_args!("have {kind} answer `{method} {path}`"))?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let text = String::from_utf8_lossy(&answer.body);
        let words: String = text.trim().chars().take(QUOTE).collect();
        let status = answer.status;
        let refused = format!("{kind}: `{method} {path}` was refused with {status}: ");
        Err(Fault::machine(refused).saying(&words.escape_debug().to_string()))
    }

    fn exchange(&mut self, method: &str, path: &str, body: Option<&str>) -> io::Result<Answer> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
        if let Some(body) = body {
            let length = body.len();
            request += "Content-Type: application/json\r\n";
            request += &format!("Content-Length: {length}\r\n\r\n{body}");
        } else {
            request += "\r\n";
        }
        self.stream.get_mut().ask_anew();
        self.stream.get_mut().write_all(request.as_bytes())?;
        read_answer(&mut self.stream)
    }
}

/// Reads one answer, of at most [`BODY_LIMIT`] bytes.
pub(in crate::driver) fn read_answer(stream: &mut impl BufRead) -> io::Result<Answer> {
    let broken = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
    let mut head = stream.take(HEAD_LIMIT);
    let mut line = || -> io::Result<String> {
        let mut line = String::new();
        head.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(broken("the answer broke off"));
        }
        Ok(line.trim_end().to_owned())
    };
    let first = line()?;
    let status =
        first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| broken("the answer is not HTTP"))?;
    let mut length = 0;
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| broken("a length that is no number"))?;
        }
    }
    if length > BODY_LIMIT {
        return Err(broken("the answer is too long"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A server that answers with these texts, and what it was asked.
    fn serving(answers: &'static [&'static str]) -> (Api, std::thread::JoinHandle<String>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut asked = String::new();
            for answer in answers {
                let mut buffer = [0; 4096];
                let count = theirs.read(&mut buffer).unwrap();
                asked += std::str::from_utf8(&buffer[..count]).unwrap();
                theirs.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        (Api::over("test", ours).unwrap(), server)
    }

    #[test]
    fn one_connection_carries_several_requests() {
        let (mut api, server) = serving(&[
            "HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n",
            "HTTP/1.1 200 \r\ncontent-length: 11\r\n\r\n{\"state\":1}",
        ]);
        api.put("/actions", Some(&json!({"action_type": "InstanceStart"}))).unwrap();
        assert_eq!(api.get("/").unwrap(), json!({"state": 1}));
        assert_eq!(
            server.join().unwrap().replace("\r\n", "\n"),
            "PUT /actions HTTP/1.1\nHost: localhost\nAccept: application/json\n\
             Content-Type: application/json\nContent-Length: 31\n\n\
             {\"action_type\":\"InstanceStart\"}\
             GET / HTTP/1.1\nHost: localhost\nAccept: application/json\n\n"
        );
    }

    #[test]
    fn a_refusal_is_said_with_the_reason_that_the_monitor_gave() {
        let (mut api, _server) = serving(&[
            "HTTP/1.1 400 \r\nContent-Length: 36\r\n\r\n{\"fault_message\":\"no kernel at \
             /k\\u1\"}",
        ]);
        let fault = api.put("/boot-source", None).unwrap_err();
        assert!(
            fault.message.starts_with("test: `PUT /boot-source` was refused with 400: {"),
            "{fault}"
        );
        assert!(fault.message.contains("no kernel at /k"), "{fault}");
    }

    #[test]
    fn an_answer_that_breaks_off_or_is_no_http_is_a_fault_and_never_a_wait() {
        for answer in ["HTTP/1.1 200 OK\r\nContent-Le", "SSH-2.0-OpenSSH\r\n\r\n", ""] {
            assert!(read_answer(&mut answer.as_bytes()).is_err(), "{answer}");
        }
        let endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
        assert!(read_answer(&mut endless.as_slice()).is_err());
    }
}
