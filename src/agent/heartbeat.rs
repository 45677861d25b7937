//! Checks that somebody is still there while a command runs for long.
//!
//! A guest can hang as a whole while a command runs, and then nobody keeps that command's deadline.
//! So an inside that has said nothing for a minute is asked what time it is, once a minute at most,
//! and given up if it has no answer. A command that ends within a minute never meets a question.

use super::{Listener, PATIENCE, Stamped};
use crate::fault::Fault;
use std::collections::VecDeque;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Reply;

/// Time that an inside may say nothing before it is asked.
const ASK_AFTER: Duration = Duration::from_secs(60);

/// Hint for a stack that hangs.
const HINT: &str =
    "the whole stack hangs, and not only the command: look at its last lines, and try it again";

/// The questions to one inside, and those of them that it owes an answer to.
#[derive(Debug)]
pub struct Heartbeat {
    ask_after: Duration,
    give_up_after: Duration,
    /// Time at which each of them was asked.
    owed: VecDeque<Nanoseconds>,
    answers: Vec<Answer>,
}

/// Answer to the question what time it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Host time right before it was asked.
    pub asked: Nanoseconds,
    /// The innermost level's clock.
    pub at: Nanoseconds,
    /// The clocks of the levels in between, each with the number of its level.
    pub passed: Vec<(u8, Nanoseconds)>,
    /// Host time at which the answer was there.
    pub answered: Nanoseconds,
}

/// More levels than pass an answer on.
const PASSED_MOST: usize = 16;

/// The most answers that are kept, of which there is one in half a minute at most.
const ANSWERS_MOST: usize = 10_000;

/// Outcome of waiting for a reply.
#[derive(Debug)]
pub enum Heard {
    /// A reply.
    Reply(Box<Stamped>),
    /// Nothing, in the time that there was.
    Nothing,
    /// Not even the answer to a question: the fault that this is if nobody goes on.
    NoAnswer(Fault),
}

impl Heard {
    /// The reply, for who does not go on after a silence of so long.
    ///
    /// # Errors
    /// The machine's: there is none.
    fn reply(self, listener: &dyn Listener, limit: Duration) -> Result<Stamped, Fault> {
        match self {
            Self::Reply(stamped) => Ok(*stamped),
            Self::Nothing => Err(listener.silence(limit)),
            Self::NoAnswer(fault) => Err(fault),
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        let (owed, answers) = (VecDeque::new(), Vec::new());
        Self { ask_after: ASK_AFTER, give_up_after: PATIENCE, owed, answers }
    }
}

impl Heartbeat {
    /// Waits for the next reply that answers none of these questions, at most until `limit` has
    /// passed. `ask` sends [`surtax_instrument::wire::Request::Clock`], or says that it could not
    /// be sent now.
    ///
    /// # Errors
    /// The machine's: see [`Listener::wait`]; nothing came in time; or nobody answers any more.
    pub fn wait(
        &mut self,
        listener: &mut dyn Listener,
        ask: impl FnMut() -> Result<bool, Fault>,
        limit: Duration,
    ) -> Result<Stamped, Fault> {
        self.look(listener, ask, limit)?.reply(listener, limit)
    }

    /// The same, for who goes on after a silence.
    ///
    /// # Errors
    /// The machine's: see [`Listener::wait`].
    pub fn look(
        &mut self,
        listener: &mut dyn Listener,
        mut ask: impl FnMut() -> Result<bool, Fault>,
        limit: Duration,
    ) -> Result<Heard, Fault> {
        let began = clock::monotonic_raw();
        loop {
            let passed = Duration::from(clock::monotonic_raw().since(began));
            let left = limit.saturating_sub(passed);
            let is_owed = self.is_owed();
            let patience = if is_owed { self.give_up_after } else { self.ask_after };
            match listener.wait(patience.min(left))? {
                Some(Stamped { reply: Reply::Clock { at, passed }, at: answered }) if is_owed => {
                    self.is_answered(at, passed, answered);
                }
                Some(stamped) => return Ok(Heard::Reply(Box::new(stamped))),
                None if left <= patience => return Ok(Heard::Nothing),
                None if is_owed => {
                    return Ok(Heard::NoAnswer(listener.silence(patience).hint(HINT)));
                }
                None => self.asks(&mut ask)?,
            }
        }
    }

    /// Asks by `ask`, which says whether it could.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) fn asks(&mut self, ask: impl FnOnce() -> Result<bool, Fault>) -> Result<(), Fault> {
        let asked = clock::monotonic_raw();
        if ask()? {
            self.owed.push_back(asked);
        }
        Ok(())
    }

    fn is_answered(
        &mut self,
        at: Nanoseconds,
        passed: Vec<(u8, Nanoseconds)>,
        answered: Nanoseconds,
    ) {
        let asked = self.owed.pop_front();
        let passed: Vec<_> = passed.into_iter().take(PASSED_MOST).collect();
        if let Some(asked) = asked.filter(|_| self.answers.len() < ANSWERS_MOST) {
            self.answers.push(Answer { asked, at, passed, answered });
        }
    }

    /// Tells whether an answer is owed.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Returns for how long the oldest answer is owed, where that is too long, whatever else was
    /// said meanwhile; once in so long a time.
    #[must_use]
    pub fn overdue(&mut self) -> Option<Duration> {
        let (now, oldest) = (clock::monotonic_raw(), self.owed.front_mut()?);
        let owed = Duration::from(now.since(*oldest));
        (owed > self.give_up_after).then(|| {
            *oldest = now; // whoever goes on waits as long once more
            owed
        })
    }

    /// Gives the answers that have come.
    pub fn answers(self) -> Vec<Answer> {
        self.answers
    }

    /// Takes the answers that are still on their way, so that nobody else meets them.
    ///
    /// # Errors
    /// The machine's: one of them does not come within `limit`.
    pub fn settle(&mut self, listener: &mut dyn Listener, limit: Duration) -> Result<(), Fault> {
        while self.is_owed() {
            let Stamped { reply, at: answered } = listener.receive(limit)?;
            match reply {
                Reply::Clock { at, passed } => self.is_answered(at, passed, answered),
                other => return Err(super::unexpected(&other, "the question whether it is there")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::AgentEnd;
    use crate::agent::{ConsoleTail, Link};
    use std::os::unix::net::UnixStream;
    use surtax_instrument::wire::{Request, WireError};

    const SOON: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_secs(20);

    fn heartbeat() -> Heartbeat {
        Heartbeat { ask_after: SOON, give_up_after: SOON * 5, ..Heartbeat::default() }
    }

    /// An inside that answers so many questions, then says what is given, and then falls silent.
    fn inside(answers: usize, last: Option<Reply>) -> (Link, UnixStream) {
        let (mut link, theirs) = link();
        let kept = theirs.try_clone().unwrap();
        let mut inside = AgentEnd::greeted(theirs, &mut link);
        std::thread::spawn(move || {
            for _ in 0..answers {
                match inside.ask() {
                    Ok(Request::Clock) => {
                        inside.say(&Reply::Clock { at: Nanoseconds(1), passed: Vec::new() })
                    }
                    Err(WireError::Closed) => return,
                    other => panic!("{other:?}"),
                }
            }
            if let Some(last) = last {
                inside.say(&last);
            }
        });
        (link, kept)
    }

    fn link() -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reader = ours.try_clone().unwrap();
        (Link::over("guest", reader, ours, &ConsoleTail::new()).unwrap(), theirs)
    }

    fn wait(heartbeat: &mut Heartbeat, link: &mut Link, limit: Duration) -> Result<Stamped, Fault> {
        link.outlast(heartbeat, limit)?.reply(link.listener.as_ref(), limit)
    }

    #[test]
    fn one_that_answers_is_waited_for_and_its_answers_are_nobody_elses() {
        let (mut link, _theirs) = inside(3, Some(Reply::Stopped));
        let mut heartbeat = heartbeat();
        assert_eq!(wait(&mut heartbeat, &mut link, LATE).unwrap().reply, Reply::Stopped);
        assert!(heartbeat.owed.is_empty());
        let answers = heartbeat.answers();
        assert_eq!(answers.len(), 3);
        assert!(answers.iter().all(|it| it.asked <= it.answered && it.at == Nanoseconds(1)));
    }

    #[test]
    fn one_that_answers_no_more_is_given_up_long_before_the_limit() {
        let (mut link, _theirs) = inside(2, None);
        let fault = wait(&mut heartbeat(), &mut link, LATE).unwrap_err();
        assert_eq!(fault.message, "guest: no answer within 0.1 s");
        assert!(fault.hint.unwrap().starts_with("the whole stack hangs"));
    }

    #[test]
    fn the_limit_holds_for_one_that_answers() {
        let (mut link, _theirs) = inside(1000, None);
        let fault = wait(&mut heartbeat(), &mut link, SOON * 10).unwrap_err();
        assert_eq!((fault.message.as_str(), fault.hint), ("guest: no answer within 0.2 s", None));
    }

    #[test]
    fn an_answer_that_comes_after_the_end_is_taken() {
        let (mut link, theirs) = link();
        let mut inside = AgentEnd::greeted(theirs, &mut link);
        let owed = VecDeque::from([Nanoseconds(5)]);
        let mut heartbeat = Heartbeat { owed, ..heartbeat() };
        inside.say(&Reply::Written);
        inside.say(&Reply::Clock { at: Nanoseconds(1), passed: Vec::new() });
        inside.say(&Reply::Stopped);
        assert_eq!(wait(&mut heartbeat, &mut link, LATE).unwrap().reply, Reply::Written);
        heartbeat.settle(link.listener.as_mut(), LATE).unwrap();
        assert_eq!(link.receive(LATE).unwrap().reply, Reply::Stopped);
    }
}
