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
pub use spec::{KINDS, MeterSpec, check_all};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Time for which an end waits for a meter: longer than any is asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most meters of a run.
pub const METERS_MAX: usize = 16;

/// All meters of a run, which are read until this is dropped.
#[derive(Default)]
pub struct Metering {
    all: Vec<Metered>,
    is_calibrated: bool,
}

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
                let every = Nanoseconds::from(every);
                let mut due = asked + every;
                let until = |due: Nanoseconds| Duration::from(due.since(clock::monotonic_raw()));
                while ended.recv_timeout(until(due)) == Err(RecvTimeoutError::Timeout) {
                    let asked = clock::monotonic_raw();
                    due = clock::next_due(due + every, every, asked);
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
        Ok(Self { all, is_calibrated: false })
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Finds what each meter says of an idle machine, and how much later it says what has changed,
    /// by load on all CPUs, for as long as [`Self::calibration`] says. Nothing else is to run then.
    /// Nothing is found where the user ends it.
    pub fn calibrate(&mut self, is_over: &dyn Fn() -> bool) {
        let Some(load) = calibrated::Load::make(self.slowest(), is_over) else { return };
        for meter in &mut self.all {
            meter.calibrated = load.seen_by(&lock(&meter.readings));
        }
        self.is_calibrated = true;
    }

    /// Time that calibrating takes.
    #[must_use]
    pub fn calibration(&self) -> Duration {
        calibrated::Load::takes(self.slowest())
    }

    fn slowest(&self) -> Duration {
        self.all.iter().map(|it| it.spec.every()).max().unwrap_or_default()
    }

    /// Tells whether it is known what each meter says of an idle machine, as far as it says that.
    #[must_use]
    pub fn is_calibrated(&self) -> bool {
        self.is_calibrated
    }

    /// Takes what was found of each meter in an earlier session of the run, and goes on counting.
    pub fn take_known(&mut self, all: Vec<(String, Calibrated, Counted)>) {
        let longest = self.calibration();
        for (spec, calibrated, counted) in all {
            let meter = self.all.iter_mut().find(|meter| meter.spec.to_string() == spec);
            if let Some(meter) = meter {
                // What no load can have found is somebody else's.
                let longest = Nanoseconds::from(longest);
                let delay = calibrated.delay.filter(|delay| *delay <= longest);
                meter.calibrated = Calibrated { delay, ..calibrated };
                lock(&meter.readings).go_on_from(&counted);
            }
        }
        self.is_calibrated = true;
    }

    /// Lists what is known of each meter, with the name that its metric has.
    pub fn known(&self) -> impl Iterator<Item = (&MeterSpec, &str, Calibrated, Counted)> {
        self.all.iter().map(|it| {
            let counted = lock(&it.readings).counted();
            (&it.spec, it.name.as_str(), it.calibrated, counted)
        })
    }

    /// Returns what each meter says was used in these times of one trial, by its metric's name.
    /// Waits until readings of their end are there, or the user ends it.
    pub fn used(
        &self,
        times: &[[Nanoseconds; 2]],
        is_over: &dyn Fn() -> bool,
    ) -> Vec<(String, Used)> {
        let last = times.iter().map(|[_, to]| *to).max().unwrap_or_default();
        self.all
            .iter()
            .map(|it| {
                let delay = it.calibrated.delay.unwrap_or_default();
                it.wait_for(last + delay, is_over);
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
    fn wait_for(&self, at: Nanoseconds, is_over: &dyn Fn() -> bool) {
        let ahead = Duration::from(at.since(clock::monotonic_raw()));
        let limit = ahead + self.spec.every() * 3 + Duration::from_secs(1);
        let is_there = || lock(&self.readings).last_at() >= Some(at);
        let is_there = || (is_there() || is_over()).then_some(());
        clock::look_until(limit, Duration::from_millis(10), is_there);
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        // All are told before one is waited for.
        self.all.iter_mut().for_each(|it| drop(it.end.take()));
        for thread in self.all.iter_mut().filter_map(|it| it.thread.take()) {
            // A source asks for no longer than its patience, and a tool that it started ends before
            // we do. One that hangs in the kernel keeps nobody.
            let is_over = || thread.is_finished().then_some(());
            if clock::look_until(PATIENCE, Duration::from_millis(5), is_over).is_some() {
                let _ = thread.join();
            }
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
    fn what_the_user_ends_before_it_is_found_is_found_later() {
        let mut metering = Metering::default();
        metering.calibrate(&|| true);
        assert!(!metering.is_calibrated());
        metering.take_known(Vec::new());
        assert!(metering.is_calibrated());
    }

    #[test]
    fn a_meter_that_is_not_there_is_told_before_anything_runs() {
        let spec = MeterSpec::parse("hwmon:chip=no-such-chip").unwrap();
        let fault = Metering::begin(&[spec]).map(|_| ()).unwrap_err();
        assert!(fault.message.contains("no chip `no-such-chip`"), "{fault}");
    }
}
