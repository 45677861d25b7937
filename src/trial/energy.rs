//! Counts the energy that this machine took while the command ran: nearest to the command of all
//! companions, since all that runs meanwhile is in it.
//!
//! It is the whole machine's, what it takes idle included, and nobody's in particular. Counters go
//! around, the fastest within minutes: a thread that sleeps reads them in time.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::iterate::TimedRun;
use super::stage::Stage;
use crate::fault::Fault;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use surtax_instrument::probe::energy::Meter;
use surtax_instrument::quantity::Nanoseconds;

/// The meter of this machine, if it has one.
#[derive(Default)]
pub(super) struct Energy {
    meter: Option<Arc<Mutex<Meter>>>,
    /// The thread that reads in time, and what ends it.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Energy {
    fn meter(&self) -> Option<MutexGuard<'_, Meter>> {
        self.meter.as_ref().map(|meter| lock(meter))
    }
}

/// Returns what was counted while the command ran: its part of the time over which was counted,
/// which must be nearly all, or much of it would be what was taken between its runs.
fn of_the_command(meter: &Meter, runs: &[TimedRun]) -> Option<u64> {
    let ran = runs.iter().fold(Nanoseconds(0), |sum, ran| sum + ran.between);
    let counted = meter.counted();
    let is_nearly_all = ran.0.saturating_mul(10) >= counted.0.saturating_mul(9);
    let used = u128::from(meter.used_uj().filter(|_| is_nearly_all)?);
    let part = used * u128::from(ran.0.min(counted.0)) / u128::from(counted.0.max(1));
    u64::try_from(part).ok()
}

fn lock(meter: &Mutex<Meter>) -> MutexGuard<'_, Meter> {
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Companion for Energy {
    fn who(&self) -> Who {
        Who::Energy
    }

    fn prepare(&mut self, _: &mut Stage<'_>) -> Result<(), Fault> {
        self.meter = Meter::open(Path::new("/")).map(|meter| Arc::new(Mutex::new(meter)));
        self.reader = self.meter.clone().map(|meter| {
            let (end, ended) = channel();
            let patience = lock(&meter).patience();
            let read = move || {
                while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    lock(&meter).count();
                }
            };
            (end, std::thread::spawn(read))
        });
        Ok(())
    }

    fn begin(&mut self, _: &mut Stage<'_>) {
        self.resume();
    }

    fn pause(&mut self) {
        self.meter().iter_mut().for_each(|meter| meter.pause());
    }

    fn resume(&mut self) {
        self.meter().iter_mut().for_each(|meter| meter.go_on());
    }

    fn end(&mut self, _: &mut Stage<'_>, runs: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        self.pause();
        let used = self.meter().and_then(|meter| of_the_command(&meter, runs));
        let count = u64::try_from(runs.len()).unwrap_or(u64::MAX).max(1);
        seen.energy_uj = used.map(|used| used / count);
        Ok(())
    }

    fn stop(self: Box<Self>) -> Vec<String> {
        if let Some((end, reader)) = self.reader {
            drop(end);
            let _ = reader.join();
        }
        Vec::new()
    }
}
