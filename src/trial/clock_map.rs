//! Maps times of deeper levels onto the host's, by questions what time it is.
//!
//! A question is asked at one host time and answered at a later one, and the clock over there was
//! read between the two: how far it is ahead is known to within the way there and back. Of several
//! questions that were asked soon after each other the shortest counts, and one in the middle of a
//! run that took much longer than others is passed over. Between two of these the clock is taken to
//! run evenly; before the first and after the last it may run wrong by as much as
//! a clock may that is believed at all.

use super::clock_sync::RATE_LIMIT_PPM;
use crate::layer::DEPTH_LIMIT;
use std::collections::BTreeMap;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::series::LARGEST;

/// Time within which several questions are one look at a clock.
const ONE_LOOK: Nanoseconds = Nanoseconds(2_000_000_000);

/// A look between two others is passed over where its way there and back was so many times the
/// shortest of all.
const MUCH_LONGER: u64 = 3;

/// One question, and what a level's clock said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    asked: Nanoseconds,
    answer: Nanoseconds,
    answered: Nanoseconds,
}

/// Looks at the clocks of all levels.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockMap(BTreeMap<u8, Vec<Exchange>>);

/// A time on the host's clock, and by how much it may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub at: Nanoseconds,
    pub bound: Nanoseconds,
}

impl ClockMap {
    /// Keeps what the clocks of some levels said between two times of the host's.
    pub(super) fn keep(
        &mut self,
        asked: Nanoseconds,
        said: impl IntoIterator<Item = (u8, Nanoseconds)>,
        answered: Nanoseconds,
    ) {
        for (level, answer) in said {
            // What no clock says is no answer, and more levels than a stack has there are not.
            if answer.0 > LARGEST || usize::from(level) > DEPTH_LIMIT {
                continue;
            }
            let looks = self.0.entry(level).or_default();
            let exchange = Exchange { asked, answer, answered };
            match looks.last_mut().filter(|last| asked.since(last.asked) < ONE_LOOK) {
                // Of several of one question the last is of whoever is outermost.
                Some(last) if last.asked == asked => *last = exchange,
                Some(last) if exchange.trip() < last.trip() => *last = exchange,
                Some(_) => {}
                None => looks.push(exchange),
            }
        }
    }

    /// Returns the host's time of a time of this level; `None` where nobody asked its clock.
    pub(super) fn on_host(&self, level: u8, at: Nanoseconds) -> Option<Mapped> {
        let looks = self.0.get(&level)?;
        if looks.iter().all(|look| look.asked <= look.answer && look.answer <= look.answered) {
            return Some(Mapped { at, bound: Nanoseconds(0) }); // it is the host's
        }
        let looks = good(looks);
        let later = looks.iter().position(|look| look.answer >= at);
        let (lead, bound) = match later {
            Some(0) => looks.first()?.beyond(at),
            None => looks.last()?.beyond(at),
            Some(place) => between(looks.get(place - 1)?, looks.get(place)?, at),
        };
        let at = i128::from(at.0) - lead;
        let at = Nanoseconds(u64::try_from(at.max(0)).unwrap_or(u64::MAX));
        Some(Mapped { at, bound: Nanoseconds(bound) })
    }
}

/// The first look, the last, and those between that answered about as soon as the soonest.
fn good(looks: &[Exchange]) -> Vec<&Exchange> {
    let shortest = looks.iter().map(Exchange::trip).min().unwrap_or_default();
    let last = looks.len().saturating_sub(1);
    let is_good = |(place, look): &(usize, &Exchange)| {
        let is_end = *place == 0 || *place == last;
        is_end || look.trip().0 <= shortest.0.saturating_mul(MUCH_LONGER)
    };
    looks.iter().enumerate().filter(is_good).map(|(_, look)| look).collect()
}

impl Exchange {
    fn trip(&self) -> Nanoseconds {
        self.answered.since(self.asked)
    }

    /// Lead of the clock as good as it is known, in nanoseconds.
    fn lead(&self) -> i128 {
        let middle = i128::midpoint(i128::from(self.asked.0), i128::from(self.answered.0));
        i128::from(self.answer.0) - middle
    }

    /// The same and its bound at a time on one side of all looks.
    fn beyond(&self, at: Nanoseconds) -> (i128, u64) {
        let away = at.0.abs_diff(self.answer.0);
        let drift = surtax_instrument::quantity::whole(away as f64 * RATE_LIMIT_PPM / 1e6);
        (self.lead(), (self.trip().0 / 2).saturating_add(drift))
    }
}

/// Lead of the clock between two looks, and the bound of that.
fn between(one: &Exchange, next: &Exchange, at: Nanoseconds) -> (i128, u64) {
    let whole = i128::from(next.answer.since(one.answer).0.max(1));
    let part = i128::from(at.since(one.answer).0);
    let lead = one.lead() + (next.lead() - one.lead()) * part / whole;
    (lead, one.trip().max(next.trip()).0 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn keep(map: &mut ClockMap, asked_ms: u64, answer: u64, answered_ms: u64) {
        let said = [(1, Nanoseconds(answer))];
        map.keep(Nanoseconds(asked_ms * MS), said, Nanoseconds(answered_ms * MS));
    }

    #[test]
    fn a_clock_that_is_ahead_and_gains_evenly_is_mapped_to_within_the_way_there_and_back() {
        // It is an hour ahead, and gains 100 ppm: 1 ms in 10 s.
        let theirs = |host_ms: u64| 3_600_000 * MS + host_ms * MS + host_ms * 100;
        let mut map = ClockMap::default();
        keep(&mut map, 1000, theirs(1001), 1002);
        keep(&mut map, 11_000, theirs(11_001), 11_002);
        for host_ms in [1001, 3000, 6000, 11_001] {
            let mapped = map.on_host(1, Nanoseconds(theirs(host_ms))).unwrap();
            assert!(mapped.at.0.abs_diff(host_ms * MS) <= 1000, "{host_ms}: {mapped:?}");
            assert_eq!(mapped.bound, Nanoseconds(MS), "{host_ms}");
        }
        // Beyond both, what it may run wrong by is added: 200 ppm of 4 s, or 800 µs.
        let later = map.on_host(1, Nanoseconds(theirs(15_001))).unwrap();
        assert!((MS + 800_000..MS + 801_000).contains(&later.bound.0), "{later:?}");
        assert!(later.at.0.abs_diff(15_001 * MS) <= later.bound.0);
        assert_eq!(map.on_host(2, Nanoseconds(1)), None);
    }

    #[test]
    fn of_questions_close_together_the_shortest_counts() {
        let mut map = ClockMap::default();
        keep(&mut map, 100, 9_000 * MS, 140);
        keep(&mut map, 200, 9_100 * MS, 202);
        keep(&mut map, 300, 9_200 * MS, 390);
        let mapped = map.on_host(1, Nanoseconds(9_100 * MS)).unwrap();
        assert_eq!(mapped, Mapped { at: Nanoseconds(201 * MS), bound: Nanoseconds(MS) });
    }

    #[test]
    fn a_question_in_the_middle_that_was_answered_late_makes_no_time_worse() {
        let theirs = |host_ms: u64| 9_000_000 * MS + host_ms * MS;
        let mut map = ClockMap::default();
        keep(&mut map, 1000, theirs(1001), 1002);
        keep(&mut map, 31_000, theirs(31_001), 31_040);
        keep(&mut map, 61_000, theirs(61_002), 61_003);
        let mapped = map.on_host(1, Nanoseconds(theirs(31_010))).unwrap();
        assert!(mapped.bound <= Nanoseconds(3 * MS / 2), "{mapped:?}");
        assert!(mapped.at.0.abs_diff(31_010 * MS) <= mapped.bound.0, "{mapped:?}");
        let mut late_end = ClockMap::default();
        keep(&mut late_end, 1000, theirs(1001), 1002);
        keep(&mut late_end, 31_000, theirs(31_001), 31_040);
        assert_eq!(late_end.on_host(1, Nanoseconds(theirs(9_000))).unwrap().bound.0, 20 * MS);
    }

    #[test]
    fn what_no_clock_says_is_no_answer_and_the_outermost_has_the_last_word() {
        let mut map = ClockMap::default();
        let said = [u64::MAX, 700 * MS, 900 * MS].map(|at| (1, Nanoseconds(at)));
        map.keep(Nanoseconds(100 * MS), said, Nanoseconds(102 * MS));
        let mapped = map.on_host(1, Nanoseconds(900 * MS)).unwrap();
        assert_eq!(mapped.at, Nanoseconds(101 * MS));
        map.keep(Nanoseconds(9000 * MS), [(1, Nanoseconds(LARGEST))], Nanoseconds(9001 * MS));
        assert!(map.on_host(1, Nanoseconds(LARGEST - 1)).is_some());
    }

    #[test]
    fn a_clock_that_is_the_hosts_needs_no_map_and_has_no_bound() {
        let mut map = ClockMap::default();
        keep(&mut map, 100, 101 * MS, 140);
        keep(&mut map, 9000, 9001 * MS, 9002);
        let at = Nanoseconds(5000 * MS);
        assert_eq!(map.on_host(1, at), Some(Mapped { at, bound: Nanoseconds(0) }));
    }
}
