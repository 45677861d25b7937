//! Samples of one level, put together into one series for each payer and quantity.

use crate::stack::sampler::Sample;
use std::collections::BTreeMap;
use surtax_instrument::amount::{Key, Quantity};
use surtax_instrument::probe::machine;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::series::Series;
use surtax_instrument::wire::{Reading, Role};

/// The most payers of a level that are followed: an inside that names others each time fills no
/// memory.
const PAYERS_MOST: usize = 96;

/// The most samples of a level: those of a day at one a second. Of what is seen after them nothing
/// is kept.
const SAMPLES_MOST: usize = 100_000;

/// Samples of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The level whose kernel counted.
    pub level: u8,
    /// Time of each sample, in the order in which they came.
    pub times: Vec<Nanoseconds>,
    /// Everybody of whom was told.
    pub payers: Vec<PayerTrack>,
    /// Places of samples before which nobody looked: a run of the command had ended, and the next
    /// had not begun.
    pub(super) begins: Vec<usize>,
}

/// Everything that was told of one payer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayerTrack {
    /// For people.
    pub payer: String,
    /// Part of the bill to which it belongs.
    pub role: Role,
    /// True where the deeper levels and the command run inside it.
    pub carries_workload: bool,
    /// Amounts of each quantity, as many as there are samples.
    pub series: BTreeMap<Key, Series>,
    /// Amounts that had grown until the command was begun again.
    base: BTreeMap<Key, u64>,
    /// The last amounts of what grows.
    last: BTreeMap<Key, u64>,
}

impl Track {
    /// A track of a level, without samples.
    pub fn of(level: u8) -> Self {
        Self { level, ..Self::default() }
    }

    /// Counts the samples.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.times.len()
    }

    /// Counts what grows from nothing again from now on: what it had grown by until now is added to
    /// it.
    pub fn begin_again(&mut self) {
        self.begins.push(self.times.len());
        for payer in &mut self.payers {
            payer.base.clone_from(&payer.last);
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        if self.times.len() >= SAMPLES_MOST {
            return;
        }
        if !self.times.is_empty() && self.begins.last() == Some(&self.times.len()) {
            // Of the time in which nobody looked nothing is known.
            self.times.push(Nanoseconds(sample.at.0.saturating_sub(1)));
            self.fill();
        }
        let before = self.times.len();
        self.times.push(sample.at);
        for (place, reading) in sample.readings.iter().enumerate() {
            // Of several of one name, each is followed by its place among them.
            let is_same = |it: &Reading| it.payer == reading.payer && it.role == reading.role;
            let nth = sample.readings[..place].iter().filter(|it| is_same(it)).count();
            if let Some(payer) = self.payer(reading, nth) {
                payer.add(reading, before);
            }
        }
        self.fill();
    }

    /// Makes all series as long as there are samples.
    fn fill(&mut self) {
        let count = self.times.len();
        let all = self.payers.iter_mut().flat_map(|it| it.series.values_mut());
        all.for_each(|series| series.fill(count));
    }

    /// Leaves out network links that carried nothing.
    pub fn forget_silent_links(&mut self) {
        self.payers.retain(|it| {
            let last = it.last.iter().map(|(key, amount)| (*key, *amount));
            it.role != Role::Machine || !machine::is_silent(&last.collect())
        });
    }

    fn payer(&mut self, reading: &Reading, nth: usize) -> Option<&mut PayerTrack> {
        let known = self.payers.iter().enumerate();
        let known = known.filter(|(_, it)| it.payer == reading.payer && it.role == reading.role);
        match known.map(|(place, _)| place).nth(nth) {
            Some(place) => self.payers.get_mut(place),
            None if self.payers.len() < PAYERS_MOST => {
                self.payers.push(PayerTrack::of(reading));
                self.payers.last_mut()
            }
            None => None,
        }
    }
}

impl PayerTrack {
    fn of(reading: &Reading) -> Self {
        Self {
            payer: reading.payer.clone(),
            role: reading.role,
            carries_workload: reading.carries_workload,
            series: BTreeMap::new(),
            base: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn add(&mut self, reading: &Reading, before: usize) {
        for (key, amount) in reading.amounts.iter() {
            let grows = Quantity::of(key).is_some_and(Quantity::grows);
            let base = self.base.get(&key).copied().filter(|_| grows).unwrap_or(0);
            let amount = amount.saturating_add(base);
            let series = self.series.entry(key).or_default();
            series.fill(before);
            series.push(Some(amount));
            if grows {
                self.last.insert(key, amount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::{
        Amounts, CPU_USER, MEMORY_USED, NETWORK_RECEIVED, NETWORK_SENT,
    };

    fn reading(payer: &str, amounts: &[(Key, u64)]) -> Reading {
        Reading {
            payer: payer.into(),
            role: Role::Engine,
            level: 1,
            amounts: amounts.iter().copied().collect::<Amounts>(),
            carries_workload: false,
            is_shared: false,
        }
    }

    fn values(track: &Track, payer: usize, key: Key) -> Vec<Option<u64>> {
        track.payers[payer].series[&key].values()
    }

    #[test]
    fn each_series_has_as_many_values_as_there_are_samples_whoever_was_there_when() {
        let mut track = Track::of(1);
        let mut add = |at, readings: Vec<Reading>| {
            track.add(&Sample { at: Nanoseconds(at), readings });
        };
        add(1, vec![reading("a", &[(CPU_USER, 5)])]);
        add(2, vec![reading("b", &[(CPU_USER, 1)]), reading("a", &[(CPU_USER, 7)])]);
        add(3, vec![reading("b", &[(CPU_USER, 2), (MEMORY_USED, 9)])]);
        assert_eq!(values(&track, 0, CPU_USER), [Some(5), Some(7), None]);
        assert_eq!(values(&track, 1, CPU_USER), [None, Some(1), Some(2)]);
        assert_eq!(values(&track, 1, MEMORY_USED), [None, None, Some(9)]);
    }

    #[test]
    fn two_of_one_name_are_two_and_what_grows_goes_on_from_run_to_run() {
        let mut track = Track::of(1);
        let both = |one, other| {
            let of = |cpu, used| reading("virtiofsd", &[(CPU_USER, cpu), (MEMORY_USED, used)]);
            Sample { at: Nanoseconds(1), readings: vec![of(one, 3), of(other, 4)] }
        };
        track.add(&both(1, 10));
        track.add(&both(2, 20));
        track.begin_again();
        track.add(&both(0, 0));
        track.add(&both(5, 6));
        // In between nobody looked.
        let with_gap = |values: [u64; 4]| {
            let mut values = values.map(Some).to_vec();
            values.insert(2, None);
            values
        };
        assert_eq!(values(&track, 0, CPU_USER), with_gap([1, 2, 2, 7]));
        assert_eq!(values(&track, 1, CPU_USER), with_gap([10, 20, 20, 26]));
        assert_eq!(values(&track, 1, MEMORY_USED), with_gap([4, 4, 4, 4]));
    }

    #[test]
    fn a_link_that_carried_nothing_is_left_out_and_a_machine_never() {
        let mut track = Track::of(0);
        let machine =
            |payer: &str, amounts| Reading { role: Role::Machine, ..reading(payer, amounts) };
        let silent = [(NETWORK_RECEIVED, 0), (NETWORK_SENT, 0)];
        let readings = vec![
            machine("the machine", &[(CPU_USER, 0)]),
            machine("link eth0", &[(NETWORK_RECEIVED, 0), (NETWORK_SENT, 3)]),
            machine("link eth1", &silent),
            reading("no machine", &silent),
        ];
        track.add(&Sample { at: Nanoseconds(1), readings });
        track.forget_silent_links();
        let left: Vec<&str> = track.payers.iter().map(|it| it.payer.as_str()).collect();
        assert_eq!(left, ["the machine", "link eth0", "no machine"]);
    }

    #[test]
    fn an_inside_that_names_others_each_time_fills_no_memory() {
        let mut track = Track::of(1);
        for name in 0..1000 {
            let readings = vec![reading(&name.to_string(), &[(CPU_USER, 1)])];
            track.add(&Sample { at: Nanoseconds(name), readings });
        }
        assert_eq!((track.payers.len(), track.sample_count()), (PAYERS_MOST, 1000));
    }
}
