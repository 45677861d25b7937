//! The clock of the innermost level, sandwiched between two readings of the host's.
//!
//! The agent is asked for its time while the host looks at its own before and after. If every
//! answer lies between the two, the clock over there *is* the host's `CLOCK_MONOTONIC_RAW` (a
//! container shares its kernel), and the agent's own reading of how long the command took is host
//! time, to the microsecond. Otherwise the level has a clock of its own, and the duration is that
//! between the arrivals of two frames here, less the shortest way there and back that was seen:
//! never less than the command really took, and more by what the channel was late.
//!
//! Asked again after the command, a clock of its own shows how fast it ran: how far it is ahead is
//! known both times to within one way there and back. One that surely ran wrong by more than
//! [`RATE_LIMIT_PPM`], or went back, voids what is measured in its time.

use super::clock_map::ClockMap;
use crate::agent::{Link, unexpected};
use crate::fault::Fault;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Fact, Outcome, Reply, Request};

/// Number of exchanges that are made at least; the shortest one counts.
const EXCHANGES: u32 = 5;

/// Number of exchanges at most, of a clock of its own whose answers are slow.
const EXCHANGES_MAX: u32 = 25;

/// A way there and back that is short enough: half of it is the most by which a time is wrong.
const SHORT: Nanoseconds = Nanoseconds(1_000_000);

/// By how much a clock may surely run wrong before its times are void, in parts per million: what
/// `adjtimex(2)` lets a clock be slewed by is 500.
pub(super) const RATE_LIMIT_PPM: f64 = 200.0;

/// Facts known of the clock at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSync {
    /// Every answer lay between the two readings here.
    is_shared: bool,
    /// The shortest exchange.
    shortest: Exchange,
    /// First and last answer.
    first: Nanoseconds,
    last: Nanoseconds,
    /// The answers went back.
    has_gone_back: bool,
    /// Number of exchanges.
    count: u32,
}

/// One question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    asked: Nanoseconds,
    /// The time over there.
    answer: Nanoseconds,
    answered: Nanoseconds,
}

/// Rate of a clock beside the host's, from one synchronisation to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// The least and the most that it gained, in parts per million; negative for a loss.
    pub ppm: (f64, f64),
    /// It went back.
    pub has_gone_back: bool,
}

impl Rate {
    /// Tells whether times of this clock cannot be believed.
    pub(super) fn is_void(&self) -> bool {
        let (low, high) = self.ppm;
        self.has_gone_back || low > RATE_LIMIT_PPM || high < -RATE_LIMIT_PPM
    }

    /// As conditions: stable key, which begins with whose clock it is, and value.
    pub(super) fn conditions_of(&self, whose: &str) -> Vec<(String, f64)> {
        vec![
            (format!("{whose}clock_rate_low_ppm"), self.ppm.0),
            (format!("{whose}clock_rate_high_ppm"), self.ppm.1),
            (format!("{whose}clock_back_count"), f64::from(u8::from(self.has_gone_back))),
        ]
    }
}

impl Exchange {
    fn round_trip(self) -> Nanoseconds {
        self.answered.since(self.asked)
    }

    /// The least and the most that the other clock was ahead, in nanoseconds.
    fn ahead(self) -> (i128, i128) {
        let answer = i128::from(self.answer.0);
        (answer - i128::from(self.answered.0), answer - i128::from(self.asked.0))
    }
}

impl ClockSync {
    /// Asks a few times, and more often where the clock is another one and slow to answer; each
    /// answer may take so long.
    ///
    /// # Errors
    /// The link's.
    pub fn take(link: &mut Link, patience: Duration) -> Result<Self, Fault> {
        Self::take_into(link, patience, 0, &mut ClockMap::default())
    }

    /// The same; also keeps what the clocks of all levels say, of which this is the innermost.
    ///
    /// # Errors
    /// The link's.
    pub fn take_into(
        link: &mut Link,
        patience: Duration,
        innermost: u8,
        clocks: &mut ClockMap,
    ) -> Result<Self, Fault> {
        let mut clock_sync: Option<Self> = None;
        while clock_sync.is_none_or(Self::wants_more) {
            let asked = clock::monotonic_raw();
            let reply = link.ask(&Request::Clock, patience)?;
            let Reply::Clock { at: answer, passed } = reply.reply else {
                return Err(unexpected(&reply.reply, "the question what time it is"));
            };
            clocks.keep(asked, passed.into_iter().chain([(innermost, answer)]), reply.at);
            let exchange = Exchange { asked, answer, answered: reply.at };
            clock_sync =
                Some(clock_sync.map_or_else(|| Self::of(exchange), |it| it.with(exchange)));
        }
        clock_sync.ok_or_else(|| Fault::bug("a clock was asked no question"))
    }

    fn of(exchange: Exchange) -> Self {
        let Exchange { asked, answer, answered } = exchange;
        Self {
            is_shared: asked <= answer && answer <= answered,
            shortest: exchange,
            first: answer,
            last: answer,
            has_gone_back: false,
            count: 1,
        }
    }

    fn wants_more(self) -> bool {
        let is_good = self.is_shared || self.shortest.round_trip() <= SHORT;
        self.count < if is_good { EXCHANGES } else { EXCHANGES_MAX }
    }

    fn with(self, next: Exchange) -> Self {
        let one = Self::of(next);
        let is_shorter = next.round_trip() < self.shortest.round_trip();
        Self {
            is_shared: self.is_shared && one.is_shared,
            shortest: if is_shorter { next } else { self.shortest },
            first: self.first,
            last: next.answer,
            has_gone_back: self.has_gone_back || next.answer < self.last,
            count: self.count + 1,
        }
    }

    /// Tells whether the clock over there is the host's.
    pub(super) fn is_shared(self) -> bool {
        self.is_shared
    }

    /// Returns how the clock ran from this synchronisation to a later one.
    pub(super) fn rate_until(self, later: Self) -> Rate {
        let (before, after) = (self.shortest.ahead(), later.shortest.ahead());
        let between = later.shortest.asked.since(self.shortest.answered);
        let ppm = |gained: i128| gained as f64 / between.0.max(1) as f64 * 1e6;
        Rate {
            ppm: (ppm(after.0 - before.1), ppm(after.1 - before.0)),
            has_gone_back: self.has_gone_back || later.has_gone_back || later.first < self.last,
        }
    }

    /// Returns what the command took in host time, given the time `between` its two frames here.
    #[must_use]
    pub fn wall(self, between: Nanoseconds, outcome: &Outcome) -> Nanoseconds {
        if self.is_shared { outcome.wall } else { between - self.shortest.round_trip() }
    }

    /// The shortest way there and back.
    pub(super) fn round_trip(self) -> Nanoseconds {
        self.shortest.round_trip()
    }

    /// One of a clock that is the host's, or not, with this way there and back.
    #[cfg(test)]
    pub(super) fn with_round_trip(is_shared: bool, trip: Nanoseconds) -> Self {
        let exchange = Exchange {
            asked: Nanoseconds(1),
            answer: Nanoseconds(1),
            answered: trip + Nanoseconds(1),
        };
        Self { is_shared, ..Self::of(exchange) }
    }

    /// The same, as evidence.
    #[must_use]
    pub fn facts(self) -> Vec<Fact> {
        let source = format!("{} exchanges with the agent", self.count);
        vec![Fact::new("clock", if self.is_shared { "the host's" } else { "its own" }, source)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Listener, Speaker, Stamped};

    /// A level whose clock is the host's plus `ahead`.
    struct Other {
        ahead: u64,
    }

    impl Speaker for Other {
        fn send_within(&mut self, _: &Request, _: Duration) -> Result<(), Fault> {
            Ok(())
        }
    }

    impl Listener for Other {
        fn wait(&mut self, _: Duration) -> Result<Option<Stamped>, Fault> {
            let at = clock::monotonic_raw() + Nanoseconds(self.ahead);
            Ok(Some(Stamped {
                reply: Reply::Clock { at, passed: Vec::new() },
                at: clock::monotonic_raw(),
            }))
        }

        fn silence(&self, _: Duration) -> Fault {
            Fault::bug("a clock that always answers was silent")
        }
    }

    fn clock_sync(ahead: u64) -> ClockSync {
        let link = (Box::new(Other { ahead }), Box::new(Other { ahead }));
        ClockSync::take(&mut Link { speaker: link.0, listener: link.1 }, Duration::ZERO).unwrap()
    }

    #[test]
    fn the_hosts_own_clock_is_recognised() {
        let taken = clock_sync(0);
        assert!(taken.is_shared && taken.count == EXCHANGES);
    }

    #[test]
    fn a_clock_that_is_slow_to_answer_is_asked_more_often() {
        let asked = |trip: u64| {
            let taken = ClockSync::with_round_trip(false, Nanoseconds(trip));
            std::iter::successors(Some(taken), |taken| {
                taken.wants_more().then(|| taken.with(taken.shortest))
            })
            .count()
        };
        assert_eq!([asked(900_000), asked(1_100_000)], [5, 25]);
    }

    #[test]
    fn a_clock_that_is_ahead_by_a_second_is_another_clock() {
        let taken = clock_sync(1_000_000_000);
        assert!(!taken.is_shared);
        assert!(taken.shortest.round_trip() < Nanoseconds(1_000_000_000));
    }

    /// One exchange of 100 µs at `at`, in ns, of a clock that then shows `answer`.
    fn exchange(at: u64, answer: u64) -> ClockSync {
        let asked = Nanoseconds(at - 50_000);
        let answered = Nanoseconds(at + 50_000);
        ClockSync::of(Exchange { asked, answer: Nanoseconds(answer), answered })
    }

    #[test]
    fn the_rate_of_a_clock_is_known_to_within_one_way_there_and_back() {
        // Over 10 s a clock gains 5 ms: 500 ppm, and two exchanges of 100 µs leave ±10 ppm.
        let rate = exchange(1_000_000_000, 7_000_000_000)
            .rate_until(exchange(11_000_000_000, 17_005_000_000));
        assert!((rate.ppm.0 - 490.0).abs() < 0.1 && (rate.ppm.1 - 510.0).abs() < 0.1, "{rate:?}");
        assert!(rate.is_void());
        // Over 100 ms the same gain per second is not beyond doubt.
        let rate = exchange(1_000_000_000, 7_000_000_000)
            .rate_until(exchange(1_100_000_000, 7_100_050_000));
        assert!(rate.ppm.0 < 0.0 && !rate.is_void(), "{rate:?}");
        let slow = exchange(1_000_000_000, 7_000_000_000)
            .rate_until(exchange(11_000_000_000, 16_995_000_000));
        assert!(slow.is_void() && slow.ppm.1 < -RATE_LIMIT_PPM, "{slow:?}");
    }

    #[test]
    fn a_clock_that_goes_back_is_void_however_short_the_command() {
        let rate = exchange(1_000_000_000, 7_000_000_000)
            .rate_until(exchange(1_001_000_000, 6_999_000_000));
        assert!(rate.has_gone_back && rate.is_void());
        let within = exchange(1_000_000_000, 7_000_000_000)
            .with(Exchange {
                asked: Nanoseconds(1_000_200_000),
                answer: Nanoseconds(6_999_999_999),
                answered: Nanoseconds(1_000_300_000),
            })
            .rate_until(exchange(2_000_000_000, 8_000_000_000));
        assert!(within.is_void());
    }
}
