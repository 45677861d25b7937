//! A thread that answers for an appliance: it speaks the agent's language to surtax, and the
//! appliance's own to the appliance.
//!
//! An image has no agent, so all is seen from outside. The command's time runs from the byte before
//! its line is sent, or before its machine is let go, to the arrival of the bytes that end the
//! answer; this thread takes both on this level's clock. Its CPU time is that of the virtual CPUs,
//! for in an appliance command and kernel are one; its memory is what the guest has ever touched of
//! its own.

use super::answer::Answer;
use super::guest::Guest;
use super::recipe::{Carrier, CommandPlace, Talk};
use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::RoomNetwork;
use crate::vm::qmp::is_readable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use surtax_engines::OURSELVES;
use surtax_instrument::amount::Amounts;
use surtax_instrument::clock;
use surtax_instrument::probe::process::Usage;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Command, Dropped, Fact, Failure, Hello, Instance, Opener, PROTOCOL, Reply, Request, Sealer,
    Status, WireError, agents, read_request, write_reply,
};

/// Number of bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// Most that is read of a console after its machine's end, in chunks: no socket holds more.
const REST_LIMIT: usize = 4096;

/// Time that this level's end of a connection may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Answer about a machine that took its counts with it.
const GONE: &str = "the appliance's machine is gone, and what it used can no longer be read";

/// Part that answers for the appliance.
pub(super) struct Proxy {
    /// Way in which a command comes to it.
    pub(super) talk: Talk,
    /// Address of the appliance on its network.
    pub(super) address: Ipv4Addr,
    pub(super) guest: Box<dyn Guest>,
    /// The network of its own in which its port is.
    pub(super) network: Option<Arc<RoomNetwork>>,
    pub(super) console: UnixStream,
    pub(super) tail: ConsoleTail,
    /// Facts of the image that is booted, in place of the file that a command would be.
    pub(super) image: Vec<Fact>,
}

impl Proxy {
    /// Starts to answer; gives back surtax's end of the conversation.
    ///
    /// # Errors
    /// The machine's: there is no socket to be had.
    pub(super) fn start(self) -> Result<UnixStream, Fault> {
        let (ours, theirs) = UnixStream::pair().doing("make a socket pair for an appliance")?;
        let (sealer, opener) = agents();
        let conversation = Conversation {
            proxy: self,
            requests: theirs,
            sealer,
            opener,
            connection: None,
            ready: None,
            running: None,
            is_spent: false,
            is_console_open: true,
        };
        std::thread::spawn(move || conversation.hold());
        Ok(ours)
    }
}

/// State of a conversation.
struct Conversation {
    proxy: Proxy,
    requests: UnixStream,
    sealer: Sealer,
    opener: Opener,
    /// To the appliance's port, for one command.
    connection: Option<TcpStream>,
    /// A command that waits for `Go`.
    ready: Option<Command>,
    running: Option<Run>,
    /// A command was given up in there, or the machine was booted for one: it takes no other.
    is_spent: bool,
    is_console_open: bool,
}

/// A command that runs.
struct Run {
    began: Nanoseconds,
    deadline: Option<Nanoseconds>,
    before: Usage,
    answer: Answer,
}

/// End of a conversation: either end is gone, or surtax wants no more.
struct Over;

impl From<std::io::Error> for Over {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

impl From<WireError> for Over {
    fn from(_: WireError) -> Self {
        Self
    }
}

impl Conversation {
    fn hold(mut self) {
        let hello =
            Hello { protocol: PROTOCOL, pid: std::process::id(), at: clock::monotonic_raw() };
        let mut next = self.say(&Reply::Hello(hello));
        while next.is_ok() {
            next = self.turn();
        }
    }

    fn say(&mut self, reply: &Reply) -> Result<(), Over> {
        Ok(write_reply(&mut self.requests, &mut self.sealer, reply)?)
    }

    fn refuse(&mut self, what: &str, hint: &str) -> Result<(), Over> {
        let (what, hint) = (what.into(), hint.into());
        self.say(&Reply::Failed(Failure { cause: None, what, hint }))
    }

    /// Waits until somebody says something, or a deadline has passed.
    fn turn(&mut self) -> Result<(), Over> {
        if self.is_booted_for_this() && self.has_ended()? {
            return Ok(());
        }
        let now = clock::monotonic_raw();
        let left = self.running.as_ref().and_then(|run| run.deadline).map(|end| end.since(now));
        let left = left.and_then(|left| Timespec::try_from(Duration::from(left)).ok());
        let bell = self.proxy.guest.bell().filter(|_| self.is_booted_for_this());
        let console = Some(&self.proxy.console).filter(|_| self.is_console_open);
        let mut files = vec![PollFd::new(&self.requests, PollFlags::IN)];
        files.extend(console.map(|it| PollFd::new(it, PollFlags::IN)));
        files.extend(self.connection.as_ref().map(|tcp| PollFd::new(tcp, PollFlags::IN)));
        files.extend(bell.map(|it| PollFd::new(it, PollFlags::IN)));
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        let now = clock::monotonic_raw();
        let mut is_ready = files.iter().map(|file| !file.revents().is_empty());
        let is_asked = is_ready.next() == Some(true);
        let is_console = self.is_console_open && is_ready.next() == Some(true);
        let is_tcp = self.connection.is_some() && is_ready.next() == Some(true);
        if is_tcp {
            self.hear_tcp(now)?;
        }
        if is_console {
            self.hear_console(now)?;
        }
        let is_late = |run: &Run| run.deadline.is_some_and(|end| now >= end);
        if self.running.as_ref().is_some_and(is_late) {
            self.give_up(Status::Deadline, now)?;
        }
        if is_asked {
            let request = read_request(&mut self.requests, &mut self.opener)?;
            self.answer(request)?;
        }
        Ok(())
    }

    /// Tells whether a command runs that ends as its machine does.
    fn is_booted_for_this(&self) -> bool {
        self.running.is_some() && self.proxy.talk.runs == CommandPlace::Boot
    }

    /// Ends the command if its machine ended, with all that this said until then.
    fn has_ended(&mut self) -> Result<bool, Over> {
        let now = clock::monotonic_raw();
        match self.proxy.guest.has_ended() {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(fault) => {
                self.running = None;
                self.refuse(&fault.message, "")?;
                return Ok(true);
            }
        }
        for _ in 0..REST_LIMIT {
            let is_open = self.running.is_some() && self.is_console_open;
            if !is_open || !is_readable(&self.proxy.console).unwrap_or(false) {
                break;
            }
            self.hear_console(now)?;
        }
        self.end_with_its_machine(now)?;
        Ok(true)
    }

    /// Ends a command whose machine ended: that is its end, unless its recipe names another.
    fn end_with_its_machine(&mut self, now: Nanoseconds) -> Result<(), Over> {
        if self.proxy.talk.ended.is_none() {
            return self.end(Status::Exit(self.proxy.guest.status()), now);
        }
        if self.running.take().is_none() {
            return Ok(());
        }
        self.refuse("the appliance's machine ended before its answer had ended", "")
    }

    fn hear_tcp(&mut self, now: Nanoseconds) -> Result<(), Over> {
        let mut buffer = [0; CHUNK];
        let heard = self.connection.as_mut().map(|tcp| tcp.read(&mut buffer));
        match heard {
            Some(Ok(count @ 1..)) => self.hear(buffer.get(..count).unwrap_or_default(), now),
            Some(Err(error)) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Some(_) => {
                self.connection = None;
                if self.running.take().is_none() {
                    return Ok(());
                }
                self.refuse("the appliance closed the connection before its answer had ended", "")
            }
            None => Ok(()),
        }
    }

    fn hear_console(&mut self, now: Nanoseconds) -> Result<(), Over> {
        let mut buffer = [0; CHUNK];
        let count = match self.proxy.console.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Ok(count) => count,
            Err(_) => 0,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        self.proxy.tail.keep(bytes);
        if count == 0 {
            // The machine is gone. One that was booted for one command is still asked for more.
            self.is_console_open = false;
            return match self.proxy.talk.runs {
                CommandPlace::Boot => self.end_with_its_machine(now),
                _ => Err(Over),
            };
        }
        if self.connection.is_none() { self.hear(bytes, now) } else { Ok(()) }
    }

    /// Takes what the appliance says, if somebody waits for it.
    fn hear(&mut self, bytes: &[u8], now: Nanoseconds) -> Result<(), Over> {
        match self.running.as_mut().and_then(|run| run.answer.feed(bytes)) {
            Some(status) => self.end(Status::Exit(status), now),
            None => Ok(()),
        }
    }

    /// Gives up what was running: it goes on in there, and nobody can kill it.
    fn give_up(&mut self, status: Status, now: Nanoseconds) -> Result<(), Over> {
        self.is_spent = true;
        self.end(status, now)
    }

    fn end(&mut self, status: Status, now: Nanoseconds) -> Result<(), Over> {
        let Some(run) = self.running.take() else { return Ok(()) };
        self.connection = None;
        let guest = &self.proxy.guest;
        let Some((usage, memory_peak)) = guest.usage().zip(guest.touched()) else {
            return self.refuse(GONE, "have the image power its machine off when it has ended");
        };
        self.say(&Reply::Ended { at: now })?;
        let (cpu_user, cpu_system) = usage.cpu.since(run.before.cpu);
        let (stdout, stderr) = (run.answer.output(), Answer::new(None, 0).output());
        let wall = now.since(run.began);
        let counts = Amounts::NONE;
        let command =
            Instance { status, wall, cpu_user, cpu_system, memory_peak, counts, stdout, stderr };
        self.say(&Reply::Exited(Box::new(command.into())))
    }

    fn answer(&mut self, request: Request) -> Result<(), Over> {
        match request {
            Request::Run(_) if self.running.is_some() => {
                self.refuse("a command is already running in the appliance", "")
            }
            Request::Run(_) if self.is_spent => self.refuse(
                "the appliance takes one command in each start",
                "leave `--iterations` and `--warmup` out",
            ),
            Request::Run(command) if !command.instances.is_empty() => {
                self.refuse("the appliance runs one command at a time", "leave `--instances` out")
            }
            Request::Run(command) => match self.connect() {
                Ok(()) => {
                    self.ready = Some(command);
                    self.say(&Reply::Started { at: clock::monotonic_raw() })
                }
                Err(fault) => {
                    let why = fault.message;
                    self.refuse(&format!("the appliance's port cannot be reached: {why}"), "")
                }
            },
            Request::Go => match self.ready.take() {
                Some(command) => self.go(&command),
                None => self.refuse("there is no command to send", ""),
            },
            Request::Cancel if self.running.is_some() => {
                self.give_up(Status::Cancelled, clock::monotonic_raw())
            }
            Request::Clock => {
                self.say(&Reply::Clock { at: clock::monotonic_raw(), passed: Vec::new() })
            }
            Request::Identify => {
                let said = "none: it is seen from outside, and its time and CPU are taken there";
                self.say(&Reply::Identity(vec![Fact::new("agent", said, "surtax")]))
            }
            Request::Resolve(_) => self.say(&Reply::Identity(self.proxy.image.clone())),
            Request::Locate(_) => self.say(&Reply::Identity(Vec::new())),
            Request::DropCaches => {
                let failure = String::from("an appliance cannot be told to drop its caches");
                self.say(&Reply::Dropped(vec![Dropped { kernel: String::new(), failure }]))
            }
            Request::Stop => {
                self.say(&Reply::Stopped)?;
                Err(Over)
            }
            Request::KeepAlive | Request::Cancel | Request::CloseRelay | Request::Data(_) => Ok(()),
            Request::Resize { .. } => Ok(()),
            Request::Relay(_) | Request::Put { .. } | Request::StartNested(_) => self.refuse(
                "an appliance holds no agent: no process of ours can be started in it",
                "ask it with `surtax compare … -- COMMAND`",
            ),
        }
    }

    /// Opens the connection over which a command will go, so that this is not timed.
    fn connect(&mut self) -> Result<(), Fault> {
        if self.proxy.talk.over != Some(Carrier::Tcp) {
            return Ok(());
        }
        let port = self.proxy.talk.port.unwrap_or_default();
        let open = || {
            let address = (self.proxy.address, port).into();
            let connection = TcpStream::connect_timeout(&address, CONNECT_DEADLINE)?;
            connection.set_nodelay(true)?;
            connection.set_write_timeout(Some(CONNECT_DEADLINE))?;
            Ok::<_, std::io::Error>(connection)
        };
        let open = || open().doing("connect to an appliance");
        self.connection = Some(match &self.proxy.network {
            Some(network) => network.within(open)?,
            None => open()?,
        });
        Ok(())
    }

    fn go(&mut self, command: &Command) -> Result<(), Over> {
        let line = match words(command) {
            Ok(words) => words + "\n",
            Err(fault) => return self.refuse(&fault.message, &fault.hint.unwrap_or_default()),
        };
        let keep = usize::try_from(command.keep_bytes).unwrap_or(0);
        let answer = Answer::new(self.proxy.talk.ended.as_deref(), keep);
        let Some(before) = self.proxy.guest.usage() else { return self.refuse(GONE, "") };
        let began = clock::monotonic_raw();
        let sent = match (self.proxy.talk.runs, &mut self.connection) {
            (CommandPlace::Boot, _) => {
                self.is_spent = true;
                self.proxy.guest.let_go().map_err(|fault| fault.message)
            }
            (_, Some(tcp)) => tcp.write_all(line.as_bytes()).map_err(|error| error.to_string()),
            (_, None) if self.proxy.talk.over == Some(Carrier::Tcp) => {
                Err(String::from("the appliance closed the connection"))
            }
            (_, None) => {
                self.proxy.console.write_all(line.as_bytes()).map_err(|error| error.to_string())
            }
        };
        if let Err(error) = sent {
            return self.refuse(&format!("the command could not be sent: {error}"), "");
        }
        let is_limited = command.deadline != Nanoseconds(0);
        let deadline = is_limited.then(|| Nanoseconds(began.0.saturating_add(command.deadline.0)));
        self.running = Some(Run { began, deadline, before, answer });
        Ok(())
    }
}

/// A command as one line of words.
///
/// # Errors
/// The user's: a word that would be two, or none, on the other side.
pub(super) fn words(command: &Command) -> Result<String, Fault> {
    if command.argv.first().is_some_and(|program| program == OURSELVES.as_bytes()) {
        return Err(Fault::user("appliance: it holds one program, and no engine of surtax's")
            .hint(
                "let an engine run beside an appliance that serves, such as \
                   `appliance:arceos-echo`",
            ));
    }
    let mut words = Vec::new();
    for word in &command.argv {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\".contains(c);
        let text = std::str::from_utf8(word).ok();
        let Some(text) = text.filter(|text| !text.is_empty() && text.chars().all(is_plain)) else {
            let shown = word.escape_ascii();
            return Err(Fault::user(format!("appliance: `{shown}` is not one plain word"))
                .hint("an appliance is told words, with neither spaces nor quotes in them"));
        };
        words.push(text);
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests;
