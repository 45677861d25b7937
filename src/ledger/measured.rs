//! Measurements of a workload itself: its metrics among the samples, and its histograms whole.

use super::insert::{insert_row, integer};
use super::row::short;
use super::{KnownMetric, Ledger};
use crate::fault::Fault;
use crate::workload::definition::METRICS_MAX;
use crate::workload::{Absence, Better, Histogrammed, Instanced, Metric, WorkloadReading};
use rusqlite::{Row, Transaction, params};
use std::collections::BTreeMap;
use surtax_statistics::Histogram;

/// The first format that has any.
const SINCE: i32 = 4;

/// Memory that a histogram takes, in bytes, however few values it has.
const WHOLE_BYTES: u64 = 400 << 10;

/// The histograms of a run by arm and name, those of all trials that count merged.
pub type Histograms = BTreeMap<(u32, String), Histogram>;

/// Reasons why metrics are absent, by arm and metric, as the last trial that counts says.
pub type Absences = BTreeMap<(u32, String), String>;

/// Writes what one trial measured.
pub(super) fn insert(
    transaction: &Transaction,
    trial: i64,
    reading: &WorkloadReading,
) -> rusqlite::Result<()> {
    for Metric { name, unit, better, value } in &reading.metrics {
        transaction
            .prepare_cached(
                "INSERT INTO metrics (metric, unit, better) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![name, unit, better.word()])?;
        insert_row(transaction, "samples", params![trial, name, unit, value])?;
    }
    for Instanced { instance, metric, unit, value } in &reading.instances {
        insert_row(transaction, "instances", params![trial, instance, metric, unit, value])?;
    }
    for Histogrammed { name, histogram } in &reading.histograms {
        let (count, bytes) = (integer(histogram.count()), histogram.to_bytes());
        insert_row(transaction, "histograms", params![trial, name, count, bytes])?;
    }
    for Absence { metric, why } in &reading.absences {
        insert_row(transaction, "absences", params![trial, metric, why])?;
    }
    Ok(())
}

impl Ledger {
    /// Returns what the workload of this run measures, in its order; nothing for an ordinary
    /// command.
    ///
    /// # Errors
    /// The machine's.
    pub fn metrics(&self) -> Result<Vec<KnownMetric>, Fault> {
        if self.format < SINCE {
            return Ok(Vec::new());
        }
        let read = |row: &Row| {
            let word: String = row.get(2)?;
            let better = Better::of_word(&word).unwrap_or(Better::Lower);
            let (name, unit) = (short(row, 0)?, short(row, 1)?);
            Ok(KnownMetric { name, unit, better })
        };
        let query = "SELECT metric, unit, better FROM metrics ORDER BY position";
        let metrics = self.all("read the metrics", query, read)?;
        if metrics.len() > METRICS_MAX {
            let (shown, count) = (self.path.display(), metrics.len());
            return Err(Fault::user(format!(
                "the run file `{shown}` has {count} metrics, and no workload has more than \
                 {METRICS_MAX}"
            ))
            .hint("ask for the file as surtax made it"));
        }
        Ok(metrics)
    }

    /// Returns what the workload could not measure, and why.
    ///
    /// # Errors
    /// The machine's.
    pub fn absences(&self) -> Result<Absences, Fault> {
        if self.format < SINCE {
            return Ok(Absences::new());
        }
        let query = "SELECT arm, metric, absences.why FROM absences JOIN trials USING (trial)
                     WHERE state = 'done' ORDER BY trial";
        let read = |row: &Row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
        Ok(self.all("read what is absent", query, read)?.into_iter().collect())
    }

    /// Every distribution that was measured, over all trials that count.
    ///
    /// # Errors
    /// The machine's; also where one is damaged.
    pub fn histograms(&self) -> Result<Histograms, Fault> {
        let mut merged = Histograms::new();
        if self.format < SINCE {
            return Ok(merged);
        }
        let query = "SELECT arm, metric, hdr_v2 FROM histograms JOIN trials USING (trial)
                     WHERE state = 'done'";
        let mut damage = None;
        let read = |row: &Row| {
            let (key, bytes): ((u32, String), Vec<u8>) = ((row.get(0)?, row.get(1)?), row.get(2)?);
            if !merged.contains_key(&key) {
                self.budget.spend(WHOLE_BYTES)?;
            }
            match Histogram::from_bytes(&bytes) {
                Ok(one) => merged.entry(key).or_default().merge(&one),
                Err(error) => damage = Some(error),
            }
            Ok(())
        };
        self.all("read the histograms", query, read)?;
        match damage {
            None => Ok(merged),
            Some(error) => {
                let path = self.path.display();
                let what = format!("a histogram in the run file `{path}` is damaged: {error}");
                Err(Fault::machine(what).hint("ask for the file as it was made"))
            }
        }
    }
}
