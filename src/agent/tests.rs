//! Insides for tests: one answers by hand, with the seal of a real session, one talks on and on.

use super::{Link, Listener, Stamped};
use crate::fault::Fault;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Hello, Opener, PROTOCOL, Reply, Request, Sealer, WireError, agents, read_request, write_reply,
};

/// The agent's end of a channel.
pub(crate) struct AgentEnd {
    stream: UnixStream,
    sealer: Sealer,
    opener: Opener,
}

impl AgentEnd {
    /// An agent that has not greeted yet.
    pub(crate) fn over(stream: UnixStream) -> Self {
        let (sealer, opener) = agents();
        Self { stream, sealer, opener }
    }

    /// The same, which has greeted this link and heard its key.
    pub(crate) fn greeted(stream: UnixStream, link: &mut Link) -> Self {
        let mut inside = Self::over(stream);
        inside.greet();
        let first = link.receive(Duration::from_secs(20)).unwrap().reply;
        assert!(matches!(first, Reply::Hello(_)), "{first:?}");
        link.send(&Request::KeepAlive).unwrap();
        assert_eq!(inside.ask().unwrap(), Request::KeepAlive);
        inside
    }

    /// Says hello.
    pub(crate) fn greet(&mut self) {
        self.say(&Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) }));
    }

    /// Says something.
    pub(crate) fn say(&mut self, reply: &Reply) {
        write_reply(&mut self.stream, &mut self.sealer, reply).unwrap();
    }

    /// Waits for a request.
    pub(crate) fn ask(&mut self) -> Result<Request, WireError> {
        read_request(&mut self.stream, &mut self.opener)
    }
}

/// An inside that says so many things before its last word, which it then repeats.
pub(crate) struct Talker {
    meanwhile: Reply,
    ahead: usize,
    last: Reply,
    heard: usize,
}

impl Talker {
    /// One that was not heard yet.
    pub(crate) fn new(meanwhile: Reply, ahead: usize, last: Reply) -> Self {
        Self { meanwhile, ahead, last, heard: 0 }
    }
}

impl Listener for Talker {
    fn wait(&mut self, _: Duration) -> Result<Option<Stamped>, Fault> {
        self.heard += 1;
        assert!(self.heard < 10_000, "it is listened to without end");
        std::thread::sleep(Duration::from_millis(1));
        let reply = if self.heard > self.ahead { &self.last } else { &self.meanwhile };
        Ok(Some(Stamped { reply: reply.clone(), at: Nanoseconds(1) }))
    }

    fn silence(&self, _: Duration) -> Fault {
        Fault::machine("it did not stop")
    }
}
