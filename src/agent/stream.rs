//! A link over any byte stream: pipes, a socket, a virtio-serial port.

use super::voice::Voice;
use super::{ConsoleTail, Link, Listener, Speaker, Stamped, forged};
use crate::fault::{Doing, Fault};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::wire::{Opener, Request, WireError, hosts, read_reply};

/// Largest number of replies that may wait to be looked at; an inside that says more has to wait.
const QUEUE: usize = 64;

/// Time that the last words of an agent that is gone are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Link {
    /// A link to `name` (used in messages) over the two ends of a stream.
    ///
    /// One thread reads frames and stamps them. It ends with the stream.
    ///
    /// # Errors
    /// The machine's: it has no random bytes for the key of a session.
    pub fn over(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        writer: impl Write + AsFd + Send + 'static,
        console: &ConsoleTail,
    ) -> Result<Self, Fault> {
        Self::open(name.into(), reader, writer, console, None)
    }

    /// The same over a socket, for which is waited from now on.
    ///
    /// # Errors
    /// As [`Link::over`]; or too many files are open.
    pub fn over_socket(
        name: impl Into<String>,
        socket: UnixStream,
        console: &ConsoleTail,
    ) -> Result<Self, Fault> {
        socket.set_nonblocking(false).doing("wait for the frames of an agent")?;
        let reader = socket.try_clone().doing("copy the socket of an agent")?;
        Self::over(name, reader, socket, console)
    }

    /// The same to an agent with a lease, which is told so often that its host is still there.
    ///
    /// # Errors
    /// As [`Link::over`].
    pub fn kept_alive(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        writer: impl Write + AsFd + Send + 'static,
        console: &ConsoleTail,
        every: Duration,
    ) -> Result<Self, Fault> {
        Self::open(name.into(), reader, writer, console, Some(every))
    }

    fn open<W: Write + AsFd + Send + 'static>(
        name: String,
        mut reader: impl Read + Send + 'static,
        writer: W,
        console: &ConsoleTail,
        keep_alive: Option<Duration>,
    ) -> Result<Self, Fault> {
        let (sealer, mut opener) = hosts().doing("draw the key of an agent's session")?;
        let (sender, replies) = sync_channel(QUEUE);
        std::thread::spawn(move || read_all(&mut reader, &mut opener, &sender));
        let end = End { name, console: console.clone() };
        let voice = Voice::over(writer, sealer);
        let voice = match keep_alive {
            Some(every) => voice.kept_alive(every),
            None => voice,
        };
        Ok(Self {
            speaker: Box::new(StreamSpeaker { end: end.clone(), voice }),
            listener: Box::new(StreamListener { end, replies }),
        })
    }
}

/// Party at the other end, for messages.
#[derive(Clone)]
struct End {
    name: String,
    console: ConsoleTail,
}

impl End {
    /// A fault, with the last words of the console.
    fn fault(&self, what: &str) -> Fault {
        Fault::machine(format!("{}: {what}", self.name)).saying(&self.console.quote())
    }
}

struct StreamSpeaker<W> {
    end: End,
    voice: Voice<W>,
}

struct StreamListener {
    end: End,
    replies: Receiver<Result<Stamped, WireError>>,
}

fn read_all(
    reader: &mut impl Read,
    opener: &mut Opener,
    sender: &SyncSender<Result<Stamped, WireError>>,
) {
    loop {
        let reply = read_reply(reader, opener);
        let at = clock::monotonic_raw();
        let is_last = reply.is_err();
        let sent = sender.send(reply.map(|reply| Stamped { reply, at }));
        if is_last || sent.is_err() {
            return;
        }
    }
}

impl<W: Write + AsFd + Send + 'static> Speaker for StreamSpeaker<W> {
    fn send_within(&mut self, request: &Request, patience: Duration) -> Result<(), Fault> {
        self.voice.say(request, patience).map_err(|error| {
            self.end.fault(&format!("cannot send a request to the agent: {error}"))
        })
    }
}

impl Listener for StreamListener {
    fn wait(&mut self, limit: Duration) -> Result<Option<Stamped>, Fault> {
        match self.replies.recv_timeout(limit) {
            Ok(Ok(stamped)) => Ok(Some(stamped)),
            Ok(Err(WireError::Closed)) | Err(RecvTimeoutError::Disconnected) => {
                self.end.console.settle(LAST_WORDS);
                Err(self.end.fault("the agent is gone"))
            }
            Ok(Err(WireError::Forged)) => Err(forged(&self.end.name)),
            Ok(Err(error)) => {
                Err(self.end.fault(&format!("the agent's answer was not understood: {error}")))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    fn silence(&self, limit: Duration) -> Fault {
        self.end.fault(&format!("no answer within {:.1} s", limit.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::AgentEnd;
    use crate::fault::Blame;
    use std::os::unix::net::UnixStream;
    use surtax_instrument::quantity::Nanoseconds;
    use surtax_instrument::wire::Reply;

    const SOON: Duration = Duration::from_secs(5);

    fn link() -> (Link, UnixStream, ConsoleTail) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let console = ConsoleTail::new();
        let reader = ours.try_clone().unwrap();
        (Link::over("guest", reader, ours, &console).unwrap(), theirs, console)
    }

    #[test]
    fn who_has_ended_is_not_waited_for_though_its_channel_is_open() {
        let (mut link, theirs, _) = link();
        let mut looks = 0;
        let mut has_ended = || {
            looks += 1;
            true
        };
        let limit = Duration::from_secs(3600);
        let fault = link.listener.receive_from_living(limit, &mut has_ended).map(drop).unwrap_err();
        assert!(fault.message.starts_with("guest: no answer within 4.0 s"), "{fault}");
        assert_eq!(looks, 1);
        // Who said something before counts.
        let mut inside = AgentEnd::over(theirs);
        inside.greet();
        link.listener.receive_from_living(limit, &mut || true).unwrap();
    }

    #[test]
    fn a_reply_is_stamped_with_host_time() {
        let (mut link, theirs, _) = link();
        let mut inside = AgentEnd::greeted(theirs, &mut link);
        let before = clock::monotonic_raw();
        inside.say(&Reply::Clock { at: Nanoseconds(7), passed: Vec::new() });
        let stamped = link.receive(SOON).unwrap();
        assert_eq!(stamped.reply, Reply::Clock { at: Nanoseconds(7), passed: Vec::new() });
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
        let fault = link.receive(SOON).unwrap_err();
        assert!(fault.message.contains("no greeting of protocol"), "{fault}");
        assert_eq!(fault.blame, Blame::Machine);
    }

    #[test]
    fn what_somebody_else_writes_between_two_frames_is_no_reply_and_no_bug() {
        let (mut link, theirs, _) = link();
        let mut other = theirs.try_clone().unwrap();
        let mut inside = AgentEnd::greeted(theirs, &mut link);
        inside.say(&Reply::Written);
        other.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 12]).unwrap();
        inside.say(&Reply::Stopped);
        assert_eq!(link.receive(SOON).unwrap().reply, Reply::Written);
        let fault = link.receive(SOON).unwrap_err();
        assert_eq!(fault.blame, Blame::Inside);
        assert!(fault.message.contains("wrote into the agent's channel of `guest`"), "{fault}");
    }
}
