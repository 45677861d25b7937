//! A link over any byte stream, and the bounded memory of what a console said.

use super::{Link, Stamped};
use crate::fault::Fault;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::wire::{Request, WireError, read_reply, write_request};

/// How many replies may wait to be looked at; an inside that says more has to wait.
const QUEUE: usize = 64;

/// How much of a console is kept, in bytes.
const CONSOLE_KEEP: usize = 64 << 10;

/// How many lines of a console an error quotes.
const CONSOLE_QUOTE: usize = 20;

/// A link over a byte stream: pipes, a socket, a virtio-serial port.
///
/// One thread reads frames and stamps them. It ends with the stream.
pub struct StreamLink {
    name: String,
    writer: Box<dyn Write + Send>,
    replies: Receiver<Result<Stamped, WireError>>,
    console: ConsoleTail,
}

impl StreamLink {
    /// A link to `name` (used in messages) over these two ends of a stream.
    pub fn new(
        name: impl Into<String>,
        mut reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        console: ConsoleTail,
    ) -> Self {
        let (sender, replies) = sync_channel(QUEUE);
        std::thread::spawn(move || read_all(&mut reader, &sender));
        Self { name: name.into(), writer: Box::new(writer), replies, console }
    }

    /// A fault, with the last words of the console.
    fn fault(&self, what: &str) -> Fault {
        Fault::machine(format!("{}: {what}{}", self.name, self.console.quote()))
    }
}

fn read_all(
    reader: &mut (impl Read + ?Sized),
    sender: &SyncSender<Result<Stamped, WireError>>,
) {
    loop {
        let reply = read_reply(reader);
        let at = clock::monotonic_raw();
        let is_last = reply.is_err();
        let sent = sender.send(reply.map(|reply| Stamped { reply, at }));
        if is_last || sent.is_err() {
            return;
        }
    }
}

impl Link for StreamLink {
    fn send(&mut self, request: &Request) -> Result<(), Fault> {
        write_request(&mut self.writer, request)
            .map_err(|error| self.fault(&format!("cannot send a request to the agent: {error}")))
    }

    fn receive(&mut self, deadline: Duration) -> Result<Stamped, Fault> {
        match self.replies.recv_timeout(deadline) {
            Ok(Ok(stamped)) => Ok(stamped),
            Ok(Err(WireError::Closed)) | Err(RecvTimeoutError::Disconnected) => {
                Err(self.fault("the agent is gone"))
            }
            Ok(Err(error)) => Err(self.fault(&format!("the agent's answer was not understood: {error}"))),
            Err(RecvTimeoutError::Timeout) => Err(self.fault(&format!(
                "no answer within {:.1} s",
                deadline.as_secs_f64()
            ))),
        }
    }
}

/// The last 64 KiB of what a console, or a tool's standard error, said.
///
/// A guest may print without end; a thread drains it, and only its end is kept.
#[derive(Clone, Debug, Default)]
pub struct ConsoleTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
}

impl ConsoleTail {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads from `source` until its end, in a thread of its own.
    pub fn drain(&self, source: OwnedFd) {
        let tail = self.clone();
        std::thread::spawn(move || {
            let mut source = File::from(source);
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                tail.keep(&buffer[..count]);
            }
        });
    }

    /// Adds to the end.
    pub fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(CONSOLE_KEEP);
        kept.drain(..excess);
    }

    /// What is kept, as text with every control character but the line feed replaced.
    #[must_use]
    pub fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).into_owned();
        text.chars()
            .filter(|c| *c != '\r')
            .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
            .collect()
    }

    /// The last lines for the end of an error message; empty when nothing was said.
    #[must_use]
    pub fn quote(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let first = lines.len().saturating_sub(CONSOLE_QUOTE);
        lines[first..].iter().map(|line| format!("\n  | {line}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use surtax_instrument::quantity::Nanoseconds;
    use surtax_instrument::wire::{Reply, write_reply};

    fn link() -> (StreamLink, UnixStream, ConsoleTail) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let console = ConsoleTail::new();
        let reader = ours.try_clone().unwrap();
        (StreamLink::new("guest", reader, ours, console.clone()), theirs, console)
    }

    #[test]
    fn a_reply_is_stamped_with_host_time() {
        let (mut link, mut theirs, _) = link();
        let before = clock::monotonic_raw();
        write_reply(&mut theirs, &Reply::Clock { at: Nanoseconds(7) }).unwrap();
        let stamped = link.receive(Duration::from_secs(5)).unwrap();
        assert_eq!(stamped.reply, Reply::Clock { at: Nanoseconds(7) });
        assert!(stamped.at >= before && stamped.at <= clock::monotonic_raw());
    }

    #[test]
    fn a_silent_guest_is_given_up_with_its_last_lines() {
        let (mut link, _theirs, console) = link();
        console.keep(b"Kernel panic\x1b[31m - not syncing\n");
        let fault = link.receive(Duration::from_millis(10)).unwrap_err();
        assert!(fault.message.contains("no answer within 0.0 s"), "{fault}");
        assert!(fault.message.contains("| Kernel panic\u{fffd}[31m - not syncing"), "{fault}");
    }

    #[test]
    fn a_guest_that_speaks_another_language_is_refused() {
        let (mut link, mut theirs, _) = link();
        theirs.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let fault = link.receive(Duration::from_secs(5)).unwrap_err();
        assert!(fault.message.contains("longer than the limit"), "{fault}");
    }

    #[test]
    fn a_console_that_floods_is_kept_at_its_end_only() {
        let console = ConsoleTail::new();
        for number in 0..100_000 {
            console.keep(format!("line {number}\n").as_bytes());
        }
        assert!(console.text().len() <= CONSOLE_KEEP);
        assert!(console.quote().ends_with("line 99999"));
        assert_eq!(console.quote().lines().count(), CONSOLE_QUOTE + 1);
    }
}
