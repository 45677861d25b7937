//! Meters of a run: what was found of each before it, and how often it was read.

use super::insert::integer;
use super::row::{natural, short, words};
use super::schema::METERS_SINCE;
use super::{Ledger, refused};
use crate::fault::Fault;
use crate::meter::{Calibrated, Counted, METERS_MAX, MeterSpec, Metering};
use rusqlite::{Row, params};
use surtax_instrument::quantity::Nanoseconds;

/// A meter of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownMeter {
    /// The meter as typed.
    pub meter: String,
    /// True where it sees all that the machine takes.
    pub sees_all: bool,
    /// Name of its energy among the metrics.
    pub metric: String,
    /// Time between two readings.
    pub every: Nanoseconds,
    /// Facts found of it before the run.
    pub calibrated: Calibrated,
    /// Number of readings.
    pub counted: Counted,
}

impl Ledger {
    /// Writes down what is known of the meters of this run, in the place of what was.
    ///
    /// # Errors
    /// The machine's.
    pub fn keep_meters(&mut self, metering: &Metering) -> Result<(), Fault> {
        let write = |ledger: &Self| {
            for (spec, metric, Calibrated { idle_uw, step_uw, delay }, counted) in metering.known()
            {
                let Counted { read, failed, late, resolution_uw, failure } = counted;
                let every = Nanoseconds::from(spec.every());
                ledger
                    .connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO meters (meter, metric, every_ns, read_count,
                                failed_count, late_count, resolution_uw, idle_uw, step_uw, delay_ns,
                                why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                    )?
                    .execute(params![
                        spec.to_string(),
                        metric,
                        integer(every.0),
                        integer(read),
                        integer(failed),
                        integer(late),
                        resolution_uw.map(integer),
                        idle_uw.map(integer),
                        step_uw,
                        delay.map(|delay| integer(delay.0)),
                        failure
                    ])?;
            }
            Ok(())
        };
        write(self).map_err(|error| refused(&self.path, "write down what meters said", &error))
    }

    /// Returns the meters of this run, in the order of their names.
    ///
    /// # Errors
    /// The machine's.
    pub fn meters(&self) -> Result<Vec<KnownMeter>, Fault> {
        if self.format < METERS_SINCE {
            return Ok(Vec::new());
        }
        let read = |row: &Row| {
            let count = |column| row.get::<_, i64>(column).map(natural);
            let known = |column| row.get::<_, Option<i64>>(column).map(|it| it.map(natural));
            let meter = words(row, 0)?.unwrap_or_default();
            Ok(KnownMeter {
                sees_all: MeterSpec::parse(&meter).is_ok_and(|it| it.sees_all()),
                meter,
                metric: short(row, 1)?,
                every: Nanoseconds(count(2)?),
                calibrated: Calibrated {
                    idle_uw: known(7)?,
                    step_uw: row.get(8)?,
                    delay: known(9)?.map(Nanoseconds),
                },
                counted: Counted {
                    read: count(3)?,
                    failed: count(4)?,
                    late: count(5)?,
                    resolution_uw: known(6)?,
                    failure: words(row, 10)?,
                },
            })
        };
        let query = "SELECT meter, metric, every_ns, read_count, failed_count, late_count,
                            resolution_uw, idle_uw, step_uw, delay_ns, why
                     FROM meters ORDER BY metric";
        let mut meters = self.all("read the meters of the run", query, read)?;
        meters.truncate(METERS_MAX);
        Ok(meters)
    }
}
