//! Rows as values: what stands in a column, or what a stranger wrote there.

use super::{Sample, StoredTrial};
use crate::layer::DEPTH_LIMIT;
use crate::trial::READINGS_MOST;
use crate::trial::disturbance::Disturbance;
use rusqlite::Row;
use rusqlite::types::Type;
use std::collections::BTreeMap;
use std::sync::Arc;
use surtax_instrument::amount::{
    Amounts, CPU_SYSTEM, CPU_USER, Key, MEMORY_ANON, MEMORY_KERNEL, MEMORY_PAGE_CACHE, MEMORY_PEAK,
    MEMORY_SHMEM, Quantity,
};
use surtax_instrument::wire::{Reading, Role};

/// The most of a text for people that is read.
const WORDS_MAX_BYTES: usize = 64 << 10;

/// Reads a text for people; of one that nobody would read to its end, the begin.
pub(super) fn words(row: &Row, column: usize) -> rusqlite::Result<Option<String>> {
    let mut text: Option<String> = row.get(column)?;
    if let Some(text) = text.as_mut().filter(|text| text.len() > WORDS_MAX_BYTES) {
        text.truncate(text.floor_char_boundary(WORDS_MAX_BYTES));
        text.push('…');
    }
    Ok(text)
}

/// Names of metrics and units that many rows have, each in memory once.
#[derive(Default)]
pub(super) struct Names {
    metrics: Interned,
    units: Interned,
}

/// The longest name of a metric and the longest unit, in bytes: they stand beside every number.
const LONGEST: usize = 200;

/// Reads the name of a metric, or a unit.
pub(super) fn short(row: &Row, column: usize) -> rusqlite::Result<String> {
    short_text(row, column).map(str::to_owned)
}

fn short_text<'row>(row: &'row Row, column: usize) -> rusqlite::Result<&'row str> {
    let text = row.get_ref(column)?.as_str().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })?;
    if text.len() > LONGEST {
        return Err(odd(column, Type::Text, format!("a name of {} bytes", text.len())));
    }
    Ok(text)
}

/// Texts of one column.
#[derive(Default)]
struct Interned {
    texts: Vec<Arc<str>>,
    /// Place of the one that is looked at first: mostly they come in the order of the trial before.
    next: usize,
}

impl Interned {
    /// The most that are kept: a stranger's run may have a new one in each row.
    const MOST: usize = 256;

    fn of(&mut self, row: &Row, column: usize) -> rusqlite::Result<Arc<str>> {
        let text = short_text(row, column)?;
        let is_meant = |known: &Arc<str>| **known == *text;
        let place = match self.texts.get(self.next).is_some_and(is_meant) {
            true => Some(self.next),
            false => self.texts.iter().position(is_meant),
        };
        let place = place.unwrap_or(self.texts.len());
        if place == Self::MOST {
            return Ok(text.into());
        }
        if place == self.texts.len() {
            self.texts.push(text.into());
        }
        self.next = (place + 1) % self.texts.len();
        Ok(Arc::clone(&self.texts[place]))
    }
}

/// Reads a number from the columns behind the trial's.
pub(super) fn sample(row: &Row, names: &mut Names) -> rusqlite::Result<Sample> {
    let (metric, unit) = (names.metrics.of(row, 1)?, names.units.of(row, 2)?);
    Ok(Sample { metric, unit, value: row.get(3)?, whole: natural(row.get(4)?) })
}

/// Reads what disturbed a trial from the columns behind its number.
pub(super) fn disturbance(row: &Row) -> rusqlite::Result<Disturbance> {
    Ok(Disturbance { key: row.get(1)?, value: row.get(2)?, limit: row.get(3)? })
}

/// Reads what a payer used in one trial.
pub(super) fn reading(row: &Row) -> rusqlite::Result<Reading> {
    let map: String = row.get(6)?;
    let pairs: BTreeMap<u16, u64> = serde_json::from_str(&map)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(6, Type::Text, error.into()))?;
    let known = pairs.into_iter().map(|(key, amount)| (Key(key), amount));
    reading_with(row, known.filter(|(key, _)| Quantity::of(*key).is_some()).collect())
}

/// The same of a format in which each quantity had its column.
pub(super) fn reading_of_7(row: &Row) -> rusqlite::Result<Reading> {
    let amounts = Amounts::default()
        .with(CPU_USER, natural(row.get(6)?))
        .with(CPU_SYSTEM, natural(row.get(7)?))
        .with(MEMORY_PEAK, row.get::<_, Option<i64>>(8)?.map(natural));
    reading_with(row, amounts)
}

/// Adds a payer's reading to its trial's. To divide a trial takes as long as it has payers and
/// levels: what no run of ours can have is refused.
pub(super) fn add_reading(trial: &mut StoredTrial, reading: Reading) -> rusqlite::Result<()> {
    if trial.readings.len() + trial.machines.len() == READINGS_MOST {
        return Err(odd(1, Type::Integer, format!("a trial has more than {READINGS_MOST} payers")));
    }
    match reading.role {
        Role::Machine => trial.machines.push(reading),
        _ => trial.readings.push(reading),
    }
    Ok(())
}

fn reading_with(row: &Row, amounts: Amounts) -> rusqlite::Result<Reading> {
    let role: String = row.get(2)?;
    let level: u8 = row.get(3)?;
    if usize::from(level) > DEPTH_LIMIT {
        return Err(odd(3, Type::Integer, format!("no stack has a level {level}")));
    }
    Ok(Reading {
        payer: row.get(1)?,
        role: Role::of_word(&role).ok_or_else(|| unknown_word(2, &role))?,
        level,
        amounts,
        carries_workload: row.get(4)?,
        is_shared: row.get(5)?,
    })
}

/// Adds to a payer's reading what its memory is; the readings of a trial stand in the order of
/// their positions.
pub(super) fn memory_of_7(row: &Row, trial: &mut StoredTrial) -> rusqlite::Result<()> {
    let position = usize::try_from(natural(row.get(1)?)).unwrap_or(usize::MAX);
    let Some(reading) = trial.readings.get_mut(position) else { return Ok(()) };
    reading.is_shared = row.get(2)?;
    for (column, key) in
        [(3, MEMORY_ANON), (4, MEMORY_PAGE_CACHE), (5, MEMORY_SHMEM), (6, MEMORY_KERNEL)]
    {
        if let Some(bytes) = row.get::<_, Option<i64>>(column)? {
            reading.amounts.set(key, natural(bytes));
        }
    }
    Ok(())
}

pub(super) fn unknown_word(column: usize, word: &str) -> rusqlite::Error {
    odd(column, Type::Text, format!("the word `{word}` is not known"))
}

/// Error of a row that no run of ours has.
pub(super) fn odd(column: usize, kind: Type, message: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, message.into())
}

/// No number of ours is negative; where somebody edited one, it reads as zero.
pub(super) fn natural(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
