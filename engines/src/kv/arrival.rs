//! Times at which requests are due: evenly, at random, or in the gaps of Facebook's pool ETC, at a
//! rate.
//!
//! Source: B. Atikoglu et al., *Workload Analysis of a Large-Scale Key-Value Store*, SIGMETRICS
//! 2012, section 5: gaps between requests follow the generalised Pareto distribution with θ = 0, σ
//! = 16.0292 µs and k = 0.154971, whose mean is σ / (1 − k) = 18.97 µs. Here it is stretched to the
//! mean that the rate asks for.

use super::random::Random;
use super::size::pareto;
use crate::{Options, Refused};
use surtax_instrument::quantity::{Nanoseconds, whole};

/// The shape of the gaps in ETC.
const ETC_SHAPE: f64 = 0.154_971;

/// Distribution of the gaps between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// All alike.
    Even,
    /// Independent of each other, as from many clients: a Poisson process.
    Exponential,
    /// Those of ETC.
    Etc,
}

impl Gaps {
    /// Reads the distribution that was typed.
    ///
    /// # Errors
    /// The user's: it is none of them.
    pub(super) fn read(options: &Options) -> Result<Self, Refused> {
        Ok(match options.word("gaps", &["exponential", "even", "etc"])? {
            "even" => Self::Even,
            "etc" => Self::Etc,
            _ => Self::Exponential,
        })
    }

    /// The next gap, of a mean of 1.
    #[inline]
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::Exponential => -random.share().ln(),
            Self::Etc => pareto(random.share(), 1.0 - ETC_SHAPE, ETC_SHAPE),
        }
    }
}

/// Times at which requests are due, counted from the begin, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    gaps: Gaps,
    interval_ns: f64,
    random: Random,
    next_ns: f64,
}

impl Schedule {
    /// One at this rate, in requests per second.
    pub(super) fn of(gaps: Gaps, rate: f64, seed: u64) -> Self {
        let mut random = Random::of(seed);
        let interval_ns = 1e9 / rate;
        // The first is due at any moment of its gap, so that the schedules of several threads do
        // not coincide.
        let next_ns = interval_ns * random.share();
        Self { gaps, interval_ns, random, next_ns }
    }

    /// Returns the time at which the next request is due, counted from the begin.
    #[inline]
    pub(super) fn next(&self) -> Nanoseconds {
        Nanoseconds(whole(self.next_ns))
    }

    /// That one has been begun.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.next_ns += self.interval_ns * self.gaps.draw(&mut self.random);
    }

    /// Counts the requests due up to a time, those that have been begun left out, and passes them.
    pub(super) fn rest(&mut self, until: Nanoseconds) -> u64 {
        let mut count = 0;
        while self.next() < until {
            self.pass();
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_that_is_asked_for_and_the_spread_of_their_distribution() {
        // The square of the coefficient of variation: none, 1, and 1 / (1 − 2k) = 1.449.
        for (gaps, spread) in [(Gaps::Even, 0.0), (Gaps::Exponential, 1.0), (Gaps::Etc, 1.449)] {
            let mut random = Random::of(7);
            let drawn: Vec<f64> = (0..400_000).map(|_| gaps.draw(&mut random)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            assert!((mean - 1.0).abs() < 0.01, "{gaps:?}: {mean}");
            let squares = drawn.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let found = squares / drawn.len() as f64;
            assert!((found - spread).abs() < 0.05, "{gaps:?}: {found}");
        }
    }

    #[test]
    fn an_even_schedule_has_as_many_as_its_rate_says_and_they_never_go_back() {
        let mut schedule = Schedule::of(Gaps::Even, 5000.0, 3);
        assert_eq!(schedule.clone().rest(Nanoseconds(4_000_000_000)), 20_000);
        let first = schedule.next();
        schedule.pass();
        assert_eq!(schedule.next().since(first), Nanoseconds(200_000));
    }
}
