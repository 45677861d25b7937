//! The loop that answers requests: one thread, one `poll`.
//!
//! At most one command and one relay exist at a time. Whatever was started is killed before the
//! loop ends, also when the other end of the channel is gone. Only a starter on another machine is
//! let end by itself: what it started there stays when it does not take it away.

use crate::channel::Channel;
use crate::relay::Relay;
use crate::run::{Ready, Running};
use crate::{guard, identity, program, run, victim};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::wire::{
    Cause, Command, FORGED, Fact, Failure, Hello, PROTOCOL, PUSHED_STARTER, Reply, Request,
    WireError,
};
use surtax_instrument::{cache, clock};

/// Time that a starter on another machine may take to stop its stack when the host is gone: longer
/// than it gives the layers below it.
const FAREWELL: Duration = Duration::from_secs(30);

/// A conversation with the host.
pub struct Session {
    channel: Channel,
    /// The starter that was pushed to another machine, where it is to be no file.
    starter: Option<File>,
    /// A command that waits for `Go`.
    ready: Option<Ready>,
    command: Option<Running>,
    relay: Option<Relay>,
    /// Facts of this level, looked for while the host reads the first frame.
    facts: Option<Vec<Fact>>,
}

/// Next step of the loop.
enum Next {
    Continue,
    Leave,
}

impl Session {
    /// A session over this channel.
    pub fn new(channel: Channel) -> Self {
        victim::open();
        guard::close_to_others();
        Self { channel, starter: None, ready: None, command: None, relay: None, facts: None }
    }

    /// Sends the first frame.
    pub fn greet(&mut self) -> Result<(), WireError> {
        let pid = std::process::id();
        let hello = Hello { protocol: PROTOCOL, pid, at: clock::monotonic_raw() };
        self.reply(&Reply::Hello(hello))
    }

    /// Looks for the facts of this level before anybody asks, while the host reads the first frame.
    /// Not for a first process, which mounts its root after that.
    pub fn look_around(&mut self) {
        self.facts = Some(identity::facts());
    }

    /// Answers one request with a failure, in place of what it asked for.
    pub fn refuse(&mut self, failure: &Failure) -> Result<(), WireError> {
        self.channel.ask()?;
        self.reply(&Reply::Failed(failure.clone()))
    }

    /// Serves until `Stop` or the end of the channel. Nothing that was started lives on.
    pub fn serve(&mut self) -> Result<(), WireError> {
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            eprintln!("surtax agent: orphans will not be found: {error}");
        }
        let outcome = loop {
            match self.turn() {
                Ok(Next::Continue) => {}
                Ok(Next::Leave) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(self.ready.take());
        drop(self.command.take());
        if let Some(relay) = self.relay.take().filter(|_| self.starter.is_some()) {
            relay.finish(FAREWELL);
        }
        run::kill_leftovers();
        match outcome {
            Ok(()) => self.reply(&Reply::Stopped),
            Err(WireError::Closed) => Ok(()),
            Err(WireError::Forged) => self.reply(&Reply::Failed(forgery())),
            Err(error) => Err(error),
        }
    }

    fn turn(&mut self) -> Result<Next, WireError> {
        let ready = self.wait()?;
        if self.command.as_mut().map(Running::turn).transpose()?.unwrap_or_default() {
            // Said before anything else is done: the host times the command by it.
            self.reply(&Reply::Ended { at: clock::monotonic_raw() })?;
            let last_look = self.command.as_mut().and_then(Running::last_look);
            last_look.map_or(Ok(()), |sample| self.reply(&sample))?;
            if let Some(outcome) = self.command.take().map(Running::end).transpose()?.flatten() {
                self.reply(&Reply::Exited(outcome.into()))?;
            }
        }
        if let Some(sample) = self.command.as_mut().and_then(Running::look) {
            self.reply(&sample)?;
        }
        if let Some(mut relay) = self.relay.take()
            && relay.turn(|reply| self.channel.answer(&reply))?
        {
            self.relay = Some(relay);
        }
        if !ready {
            self.channel.require_lease()?;
        } else {
            let request = self.channel.ask()?;
            return self.answer(request);
        }
        Ok(Next::Continue)
    }

    /// Waits until something can be done; says whether a request is there.
    fn wait(&self) -> Result<bool, WireError> {
        // While a relayed process does not read, the host has to wait; only its end is watched.
        let has_room = self.relay.as_ref().is_none_or(Relay::has_room);
        let wanted = if has_room { PollFlags::IN } else { PollFlags::empty() };
        let mut files = vec![PollFd::new(self.channel.requests(), wanted)];
        let mut deadline = self.channel.time_left();
        if let Some(command) = &self.command {
            files.extend(
                command.descriptors().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)),
            );
            deadline = deadline.into_iter().chain(command.time_left()).min();
        }
        if let Some(relay) = &self.relay {
            files.extend(
                relay.descriptors().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)),
            );
            let full = relay.full_input();
            files.extend(full.map(|file| PollFd::from_borrowed_fd(file, PollFlags::OUT)));
        }
        let timeout = deadline.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) => Ok(!files[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(WireError::Io(error.into())),
        }
    }

    fn answer(&mut self, request: Request) -> Result<Next, WireError> {
        match request {
            Request::Run(_) | Request::Relay(_)
                if self.command.is_some() || self.relay.is_some() =>
            {
                self.fail("a command is already running here")?;
            }
            Request::Run(command) => self.make_ready(command)?,
            Request::Go => match self.ready.take().map(Running::start) {
                Some(Ok(running)) => self.command = Some(running),
                Some(Err(failure)) => self.reply(&Reply::Failed(failure))?,
                None => self.fail("there is no command to start")?,
            },
            Request::Cancel => {
                if let Some(command) = &mut self.command {
                    command.cancel();
                }
            }
            Request::Put { path, mode, bytes } => self.put(&path, mode, &bytes)?,
            Request::Relay(command) => match Relay::start(&self.with_starter(command)) {
                Ok(relay) => self.relay = Some(relay),
                Err(failure) => self.reply(&Reply::Failed(failure))?,
            },
            Request::Data(bytes) => {
                if let Some(relay) = &mut self.relay {
                    relay.feed(&bytes);
                }
            }
            Request::CloseRelay => {
                if let Some(relay) = &mut self.relay {
                    relay.close();
                }
            }
            Request::Resize { rows, columns } => {
                if let Some(relay) = &self.relay {
                    relay.resize(rows, columns);
                }
            }
            Request::KeepAlive => {}
            Request::Clock => self.reply(&clock_now())?,
            Request::DropCaches => self.reply(&Reply::Dropped(vec![cache::drop_page_cache()]))?,
            Request::Identify => {
                let facts = self.facts.take().unwrap_or_else(identity::facts);
                self.reply(&Reply::Identity(facts))?;
            }
            Request::Resolve(command) => self.reply(&Reply::Identity(program::facts(&command)))?,
            Request::Locate(command) => {
                let state = program::state(&command).into_iter().collect();
                self.reply(&Reply::Identity(state))?;
            }
            Request::StartNested(_) => self.fail("an agent starts no layers; a starter does")?,
            Request::Stop => return Ok(Next::Leave),
        }
        Ok(Next::Continue)
    }

    fn make_ready(&mut self, command: Command) -> Result<(), WireError> {
        match Ready::of(command) {
            Ok(mut ready) => {
                ready.look().map_or(Ok(()), |sample| self.reply(&sample))?;
                self.ready = Some(ready);
                self.reply(&Reply::Started { at: clock::monotonic_raw() })
            }
            Err(failure) => self.reply(&Reply::Failed(failure)),
        }
    }

    fn put(&mut self, path: &[u8], mode: u32, bytes: &[u8]) -> Result<(), WireError> {
        let is_kept = self.channel.is_leased() && path == PUSHED_STARTER.as_bytes();
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let written = if is_kept {
            self.keep_starter(bytes)
        } else {
            let mut options = OpenOptions::new();
            let opened = options.create(true).append(true).mode(mode).open(path);
            opened.and_then(|mut file| file.write_all(bytes))
        };
        match written {
            Ok(()) => self.reply(&Reply::Written),
            Err(error) => {
                let what = format!("cannot write `{}`: {error}", path.display());
                let cause = Cause::of(&error);
                self.reply(&Reply::Failed(Failure { cause, ..Failure::of(what) }))
            }
        }
    }

    /// Adds to the starter in memory, which is gone with us, however we end.
    fn keep_starter(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.starter.is_none() {
            self.starter = Some(File::from(memfd_create("surtax-starter", MemfdFlags::CLOEXEC)?));
        }
        self.starter.as_mut().map_or(Ok(()), |starter| starter.write_all(bytes))
    }

    /// A command that is the starter in memory, by the name that it has there.
    fn with_starter(&self, mut command: Command) -> Command {
        if let (Some(starter), Some(program)) = (&self.starter, command.argv.first_mut())
            && program == PUSHED_STARTER.as_bytes()
        {
            *program = format!("/proc/self/fd/{}", starter.as_raw_fd()).into_bytes();
        }
        command
    }

    fn fail(&mut self, what: &str) -> Result<(), WireError> {
        self.reply(&Reply::Failed(Failure::of(what)))
    }

    fn reply(&mut self, reply: &Reply) -> Result<(), WireError> {
        self.channel.answer(reply)
    }
}

fn clock_now() -> Reply {
    Reply::Clock { at: clock::monotonic_raw(), passed: Vec::new() }
}

/// That somebody else wrote requests.
fn forgery() -> Failure {
    Failure {
        cause: Some(Cause::Forged),
        what: format!("{FORGED} the channel by which the agent is asked"),
        hint: String::from("look at what the command starts: it writes where only surtax does"),
    }
}

/// A descriptor that `poll` can watch.
pub fn watched(file: &Option<File>) -> Option<std::os::fd::BorrowedFd<'_>> {
    file.as_ref().map(AsFd::as_fd)
}
