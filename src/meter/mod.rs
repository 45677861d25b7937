//! Meters of power that somebody names: sensors, batteries, distribution units, management
//! controllers. Each is read by a thread of its own all through a run, so that reading keeps no
//! trial waiting; what was used in a trial follows from the readings around it.

mod calibrated;
mod ipmi;
mod readings;
mod redfish;
mod snmp;
mod source;
mod spec;

use crate::fault::Fault;
pub use calibrated::Calibrated;
use readings::Readings;
pub use readings::{Used, Why};
pub use spec::{KINDS, MeterSpec};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// All meters of a run, which are read until this is dropped.
#[derive(Default)]
pub struct Metering(Vec<Metered>);

/// A meter that is read.
struct Metered {
    spec: MeterSpec,
    name: String,
    readings: Arc<Mutex<Readings>>,
    calibrated: Calibrated,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Metering {
    /// Opens these meters, reads each once, and goes on reading.
    ///
    /// # Errors
    /// The user's or the machine's: one is not there, or does not answer.
    pub fn begin(specs: &[MeterSpec]) -> Result<Self, Fault> {
        let mut all = Vec::new();
        for (spec, name) in specs.iter().zip(names(specs)) {
            let during = |fault: Fault| fault.during(format_args!("the meter `{spec}`"));
            let mut source = source::open(spec)?;
            let asked = clock::monotonic_raw();
            let first = source.read().map_err(during)?;
            let readings = Arc::new(Mutex::new(Readings::new(spec.every())));
            lock(&readings).add(asked, clock::monotonic_raw(), first);
            let (end, ended) = channel();
            let (theirs, every) = (Arc::clone(&readings), spec.every());
            let thread = std::thread::spawn(move || {
                while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    let asked = clock::monotonic_raw();
                    let read = source.read();
                    let answered = clock::monotonic_raw();
                    match read {
                        Ok(microwatts) => lock(&theirs).add(asked, answered, microwatts),
                        Err(fault) => lock(&theirs).fail(fault.message),
                    }
                }
            });
            let (end, thread) = (Some(end), Some(thread));
            let calibrated = Calibrated::default();
            all.push(Metered { spec: spec.clone(), name, readings, calibrated, end, thread });
        }
        Ok(Self(all))
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds what each meter says of an idle machine, and how much later it says what has changed,
    /// by load on all CPUs. Takes half a minute or more, in which nothing else is to run.
    pub fn calibrate(&mut self, is_over: &dyn Fn() -> bool) {
        let slowest = self.0.iter().map(|it| it.spec.every()).max().unwrap_or_default();
        let Some(load) = calibrated::Load::make(slowest, is_over) else { return };
        for meter in &mut self.0 {
            meter.calibrated = load.seen_by(&lock(&meter.readings));
        }
    }

    /// Takes what was found of a meter in an earlier session.
    pub fn take_calibrated(&mut self, all: &[(String, Calibrated)]) {
        for meter in &mut self.0 {
            let known = all.iter().find(|(spec, _)| *spec == meter.spec.to_string());
            meter.calibrated = known.map(|(_, known)| *known).unwrap_or_default();
        }
    }

    /// Lists what is known of each meter, with the name that its metric has.
    pub fn known(&self) -> impl Iterator<Item = (&MeterSpec, &str, Calibrated, Counted)> {
        self.0.iter().map(|it| {
            let counted = lock(&it.readings).counted();
            (&it.spec, it.name.as_str(), it.calibrated, counted)
        })
    }

    /// Returns what each meter says was used in these times of one trial, by its metric's name.
    /// Waits until readings of their end are there.
    pub fn used(&self, times: &[[Nanoseconds; 2]]) -> Vec<(String, Used)> {
        let last = times.iter().map(|[_, to]| *to).max().unwrap_or_default();
        self.0
            .iter()
            .map(|it| {
                let delay = it.calibrated.delay.unwrap_or_default();
                it.wait_for(last + delay);
                (it.name.clone(), lock(&it.readings).used(times, delay))
            })
            .collect()
    }
}

/// Number of times that a meter was read, and that this failed or came late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Readings that came.
    pub read: u64,
    /// Readings that did not come.
    pub failed: u64,
    /// Readings that took longer than the time between two.
    pub late: u64,
    /// Smallest step between two readings, in microwatts; `None` where they were all the same.
    pub resolution_uw: Option<u64>,
    /// Reason why the last one failed.
    pub failure: Option<String>,
}

impl Metered {
    /// Waits until there is a reading of this time or a later one, but not for a meter that has
    /// stopped answering.
    fn wait_for(&self, at: Nanoseconds) {
        let ahead = Duration::from(at.since(clock::monotonic_raw()));
        let limit = ahead + self.spec.every() * 3 + Duration::from_secs(1);
        let is_there = || (lock(&self.readings).last_at() >= Some(at)).then_some(());
        clock::look_until(limit, Duration::from_millis(10), is_there);
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        drop(self.end.take());
        // It asks for no longer than its patience; a tool that it started ends before we do.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Names of the metrics of meters: their kind, with a number where there are several of it.
fn names(specs: &[MeterSpec]) -> Vec<String> {
    let name = |(place, spec): (usize, &MeterSpec)| {
        let before = specs[..place].iter().filter(|it| it.kind() == spec.kind()).count();
        match before {
            0 => format!("energy_{}_uj", spec.kind()),
            before => format!("energy_{}_{}_uj", spec.kind(), before + 1),
        }
    };
    specs.iter().enumerate().map(name).collect()
}

fn lock(readings: &Mutex<Readings>) -> MutexGuard<'_, Readings> {
    readings.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_of_one_kind_are_told_apart_by_a_number() {
        let specs = ["snmp:host=a,preset=apc", "ipmi", "snmp:host=b,preset=apc"];
        let specs = specs.map(|it| MeterSpec::parse(it).unwrap());
        assert_eq!(names(&specs), ["energy_snmp_uj", "energy_ipmi_uj", "energy_snmp_2_uj"]);
    }

    #[test]
    fn a_meter_that_is_not_there_is_told_before_anything_runs() {
        let spec = MeterSpec::parse("hwmon:chip=no-such-chip").unwrap();
        let fault = Metering::begin(&[spec]).map(|_| ()).unwrap_err();
        assert!(fault.message.contains("no chip `no-such-chip`"), "{fault}");
    }
}
