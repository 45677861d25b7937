//! Requests go and answers come: in a closed loop, by a schedule, or once for every key.
//!
//! In a closed loop each connection always has as many requests on their way as is asked for. By a
//! schedule each request has a time at which it is to begin, whatever became of those before it,
//! and its latency counts from there: a server that stands still delays all that was due meanwhile,
//! and none of that is omitted. A request that finds no connection with room waits on this side; so
//! a rate beyond what the server does shows as latency and as a shortfall.
//!
//! A wake-up serves every connection that has news: one receive and one send for each, whatever
//! their number of answers and requests. Where each of several connections has several on their way
//! in a closed loop, the answers of one are taken together, and their latencies end when the last
//! of them has come; the rate is that of a server that is not disturbed at each.
//!
//! Source: `epoll(7)`; G. Tene, *How not to measure latency*, 2013.

use super::arrival::Schedule;
use super::connection::{Connection, PollResult};
use super::keys::Keys;
use super::random::Random;
use super::record::Record;
use super::work::{Updates, Work};
use crate::Refused;
use crate::cpu::sleep_precisely;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Number of requests begun before answers are looked at again.
const BURST: u32 = 64;

/// Number of connections whose news are taken at once.
const NEWS: usize = 64;

/// Time that nothing may be heard before the clock is looked at.
const TICK: Duration = Duration::from_millis(20);

/// Number of fruitless looks between two at the clock.
const LOOKS: u32 = 1024;

/// Time that answers are awaited together before they are taken as they come: some may be shorter
/// than expected.
const TOGETHER: Nanoseconds = Nanoseconds(1_000_000);

/// Time that answers are awaited once the time of a schedule is over.
const DRAIN: Duration = Duration::from_secs(1);

/// Options of a thread's round.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundMode {
    /// Largest number of requests of one connection on their way.
    pub(super) depth: usize,
    /// Ratio of requests that store to requests that read.
    pub(super) updates: Updates,
    /// True to ask again and again, and not to sleep.
    pub(super) is_polling: bool,
    /// Time that nothing may be heard from a server that owes an answer.
    pub(super) patience: Duration,
    /// True where there is one connection in all, which may be waited for without asking for news
    /// of others.
    pub(super) is_alone: bool,
    /// Seed of the requests that are drawn.
    pub(super) seed: u64,
}

/// One thread's connections.
pub(super) struct Round<'a> {
    connections: Vec<Connection>,
    epoll: OwnedFd,
    keys: &'a Keys,
    mode: RoundMode,
    /// Time at which something was last heard.
    heard: Nanoseconds,
    looks: u32,
    /// True where the answers of a connection are awaited together.
    is_together: bool,
    /// Time of the last look whether some are awaited for too long.
    looked: Nanoseconds,
}

impl<'a> Round<'a> {
    /// One over these connections.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(
        connections: Vec<Connection>,
        keys: &'a Keys,
        mode: RoundMode,
    ) -> io::Result<Self> {
        sleep_precisely();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let round = Self {
            connections,
            epoll,
            keys,
            mode,
            heard: Nanoseconds(0),
            looks: 0,
            is_together: false,
            looked: Nanoseconds(0),
        };
        // One that is alone is waited for by itself, except by a schedule.
        if !mode.is_alone {
            round.watch()?;
        }
        Ok(round)
    }

    /// Has the kernel give news of every connection.
    fn watch(&self) -> io::Result<()> {
        for (number, connection) in (0..).zip(&self.connections) {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            match epoll::add(
                &self.epoll,
                connection.descriptor(),
                EventData::new_u64(number),
                flags,
            ) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Stores every key once.
    ///
    /// # Errors
    /// The server stores one of them not, or falls silent.
    pub(super) fn load(&mut self, record: &mut Record) -> Result<(), Refused> {
        self.go(Work::Load(0), record)
    }

    /// Keeps every connection busy until the record's time is over.
    ///
    /// # Errors
    /// A connection breaks, or nothing comes any more.
    pub(super) fn closed(&mut self, record: &mut Record) -> Result<(), Refused> {
        self.is_together = self.mode.depth > 1 && self.connections.len() > 1;
        self.go(self.drawn(), record)?;
        self.separately()
    }

    fn drawn(&self) -> Work {
        Work::Drawn(Random::of(self.mode.seed), self.mode.updates)
    }

    fn go(&mut self, mut work: Work, record: &mut Record) -> Result<(), Refused> {
        let mut now = begun(record);
        self.heard = now;
        for connection in 0..self.connections.len() {
            self.fill(connection, &mut work, now, record)?;
        }
        while self.is_going() {
            if self.mode.is_alone {
                self.step_alone(&mut work, record)?;
                continue;
            }
            // A sleep must not outlast what is awaited for too long.
            let limit = if self.is_together { TOGETHER.into() } else { TICK };
            self.news(Some(limit), |round, connection| {
                now = round.take(connection, record)?;
                round.fill(connection, &mut work, now, record)
            })?;
            if self.is_together {
                self.look_at_oldest(record)?;
            }
        }
        Ok(())
    }

    /// Waits for the answers of the only connection, and goes on there.
    fn step_alone(&mut self, work: &mut Work, record: &mut Record) -> Result<(), Refused> {
        let connection = &mut self.connections[0];
        let (is_polling, has_rest) = (self.mode.is_polling, connection.has_rest());
        if is_polling || has_rest {
            // Unlike an attempt to receive, this does not take the lock that an answer comes in
            // under.
            let events = if has_rest { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let tv_nsec = if is_polling { 0 } else { TICK.subsec_nanos().into() };
            let mut all = [PollFd::from_borrowed_fd(connection.descriptor(), events)];
            match poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec })) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return self.look(),
                Ok(_) => {}
                Err(error) => return Err(cannot_wait(error)),
            }
        }
        let flags = if is_polling || has_rest { libc::MSG_DONTWAIT } else { 0 };
        let came = connection.receive(flags)?;
        let now = clock::monotonic_raw();
        if came == PollResult::Nothing {
            connection.flush()?;
            return self.look();
        }
        self.heard = now;
        connection.take(self.keys, now, record)?;
        self.fill(0, work, now, record)
    }

    /// Takes the answers of connections as they come that have waited for all of theirs too long;
    /// and those of all from then on where answers are not what was expected, as with keys that are
    /// missing.
    fn look_at_oldest(&mut self, record: &Record) -> Result<(), Refused> {
        if record.odd_count > 0 {
            return self.separately();
        }
        let now = clock::monotonic_raw();
        if now.since(self.looked) < TOGETHER {
            return Ok(());
        }
        self.looked = now;
        let is_late = |connection: &Connection| {
            connection.oldest().is_some_and(|from| now.since(from) >= TOGETHER)
        };
        self.connections
            .iter_mut()
            .filter(|connection| is_late(connection))
            .try_for_each(Connection::await_any)
    }

    /// Takes the answers of all connections as they come, from now on.
    fn separately(&mut self) -> Result<(), Refused> {
        self.is_together = false;
        self.connections.iter_mut().try_for_each(Connection::await_any)
    }

    /// Begins requests by a schedule until the record's time is over, and awaits their answers.
    ///
    /// # Errors
    /// As [`Round::closed`].
    pub(super) fn open(
        &mut self,
        mut schedule: Schedule,
        record: &mut Record,
    ) -> Result<(), Refused> {
        self.watch().map_err(|error| {
            Refused::machine(format!("the connections cannot be watched: {error}"))
        })?;
        let mut work = self.drawn();
        let mut turn = 0;
        self.heard = begun(record);
        loop {
            let now = clock::monotonic_raw();
            if now >= record.until && (!self.is_going() || now.since(record.until) >= DRAIN.into())
            {
                break;
            }
            let begun = self.begin(&mut schedule, &mut work, &mut turn, record)?;
            // Where no connection has room, an answer is the next that can happen.
            let due = record.began + schedule.next();
            let next = if due < record.until { due } else { record.until + DRAIN.into() };
            let pause = match begun {
                Begun::All => next.since(clock::monotonic_raw()).into(),
                Begun::Burst => Duration::ZERO,
                Begun::Full => TICK,
            };
            let pause = pause.min(TICK);
            self.news(Some(pause), |round, connection| {
                round.take(connection, record)?;
                round.connections[connection].flush()
            })?;
        }
        let left: usize = self.connections.iter().map(Connection::going_count).sum();
        record.lost_count += left as u64;
        record.due_count = record.sent_count + schedule.rest(record.until.since(record.began));
        Ok(())
    }

    /// Begins what is due.
    fn begin(
        &mut self,
        schedule: &mut Schedule,
        work: &mut Work,
        turn: &mut usize,
        record: &mut Record,
    ) -> Result<Begun, Refused> {
        let now = clock::monotonic_raw();
        let mut begun = Begun::Burst;
        let first = record.sent_count;
        for _ in 0..BURST {
            let due = record.began + schedule.next();
            // What is still due when the time is over is the shortfall.
            if due > now || now >= record.until {
                begun = Begun::All;
                break;
            }
            let count = self.connections.len();
            let depth = self.mode.depth;
            let free = (0..count)
                .map(|step| (*turn + step) % count)
                .find(|connection| self.connections[*connection].going_count() < depth);
            let (Some(connection), Some((key, is_set))) = (free, work.next(self.keys)) else {
                begun = Begun::Full;
                break;
            };
            if !self.is_going() {
                self.heard = now;
            }
            self.connections[connection].ask(self.keys, key, is_set, due);
            record.delays.record(now.since(due).0.max(1));
            record.sent_count += 1;
            schedule.pass();
            *turn = (connection + 1) % count;
        }
        if record.sent_count > first {
            for connection in self.connections.iter_mut().filter(|connection| connection.has_rest())
            {
                connection.flush()?;
            }
        }
        Ok(begun)
    }

    /// Lets a connection have as many requests on their way as it may, while there is time, once
    /// half of them are answered: to send one for each answer would cost both ends more than the
    /// requests themselves.
    #[inline]
    fn fill(
        &mut self,
        connection: usize,
        work: &mut Work,
        now: Nanoseconds,
        record: &mut Record,
    ) -> Result<(), Refused> {
        let connection = &mut self.connections[connection];
        if now < record.until && connection.going_count() <= self.mode.depth / 2 {
            while connection.going_count() < self.mode.depth {
                let Some((key, is_set)) = work.next(self.keys) else { break };
                connection.ask(self.keys, key, is_set, now);
                record.sent_count += 1;
            }
        }
        if self.is_together {
            connection.await_all(self.keys)?;
        }
        connection.flush()
    }

    /// Takes what has come on a connection; when that was.
    #[inline]
    fn take(&mut self, connection: usize, record: &mut Record) -> Result<Nanoseconds, Refused> {
        let connection = &mut self.connections[connection];
        loop {
            let came = connection.receive(libc::MSG_DONTWAIT)?;
            let now = clock::monotonic_raw();
            if came != PollResult::Nothing {
                self.heard = now;
                connection.take(self.keys, now, record)?;
            }
            if came != PollResult::Full {
                return Ok(now);
            }
        }
    }

    /// Waits for news of any connection, so long at most, and lets each be served.
    fn news(
        &mut self,
        limit: Option<Duration>,
        mut serve: impl FnMut(&mut Self, usize) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let wait = if self.mode.is_polling { Some(Duration::ZERO) } else { limit };
        // `epoll_wait` counts in milliseconds: what is no whole number of them is waited for by
        // `ppoll`.
        let is_whole = |it: &Duration| it.subsec_nanos().is_multiple_of(1_000_000);
        let short = wait.filter(|it| !is_whole(it));
        if let Some(short) = short {
            let limit = Timespec { tv_sec: 0, tv_nsec: short.subsec_nanos().into() };
            let mut all = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut all, Some(&limit)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return self.look(),
                Ok(_) => {}
                Err(error) => return Err(cannot_wait(error)),
            }
        }
        let wait = wait.map(|wait| Timespec {
            tv_sec: 0,
            tv_nsec: if short.is_some() { 0 } else { wait.subsec_nanos().into() },
        });
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; NEWS];
        let came = match epoll::wait(&self.epoll, &mut events, wait.as_ref()) {
            Ok((came, _)) => came,
            Err(rustix::io::Errno::INTR) => return self.look(),
            Err(error) => return Err(cannot_wait(error)),
        };
        if came.is_empty() {
            return self.look();
        }
        for event in came {
            let connection = usize::try_from(event.data.u64()).unwrap_or(0);
            serve(self, connection)?;
        }
        Ok(())
    }

    /// Looks, now and then, whether nothing has been heard for too long.
    fn look(&mut self) -> Result<(), Refused> {
        self.looks += 1;
        if self.mode.is_polling && !self.looks.is_multiple_of(LOOKS) {
            std::hint::spin_loop();
            return Ok(());
        }
        let silence = clock::monotonic_raw().since(self.heard);
        if self.is_going() && silence > self.mode.patience.into() {
            let seconds = silence.seconds();
            return Err(Refused::machine(format!(
                "the server has not answered for {seconds:.1} s"
            ))
            .hint("look at the server's own output, or allow it more with `--patience`"));
        }
        Ok(())
    }

    /// Tells whether an answer is still awaited.
    #[inline]
    pub(super) fn is_going(&self) -> bool {
        self.connections.iter().any(|connection| connection.going_count() > 0)
    }
}

fn cannot_wait(error: rustix::io::Errno) -> Refused {
    Refused::machine(format!("cannot wait for the server: {error}"))
}

/// Progress of a schedule.
enum Begun {
    /// All that is due has been begun.
    All,
    /// There may be more.
    Burst,
    /// There is more, and no room for it.
    Full,
}

/// Sleeps until a record begins; what time it is then.
fn begun(record: &Record) -> Nanoseconds {
    let now = clock::monotonic_raw();
    let early = record.began.since(now);
    if early > Nanoseconds(0) {
        std::thread::sleep(early.into());
    }
    clock::monotonic_raw()
}
