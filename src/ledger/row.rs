//! Rows as values: what stands in a column, or what a stranger wrote there.

use super::{Sample, StoredTrial};
use rusqlite::Row;
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{MemoryParts, Reading, Role};

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

/// Reads a number from the columns behind the trial's.
pub(super) fn sample(row: &Row) -> rusqlite::Result<Sample> {
    let (metric, unit) = (row.get(1)?, row.get(2)?);
    Ok(Sample { metric, unit, value: row.get(3)?, whole: natural(row.get(4)?) })
}

pub(super) fn reading(row: &Row) -> rusqlite::Result<Reading> {
    let role: String = row.get(2)?;
    Ok(Reading {
        payer: row.get(1)?,
        role: role_of(&role).ok_or_else(|| unknown_word(2, &role))?,
        level: row.get(3)?,
        cpu_user: Nanoseconds(natural(row.get(4)?)),
        cpu_system: Nanoseconds(natural(row.get(5)?)),
        memory_peak: row.get::<_, Option<i64>>(6)?.map(|peak| Bytes(natural(peak))),
        memory_parts: None,
        oom_kill_count: None,
        carries_workload: row.get(7)?,
        is_shared: false,
    })
}

/// Adds to a payer's reading what its memory is; the readings of a trial stand in the order of their positions.
pub(super) fn memory(row: &Row, trial: &mut StoredTrial) -> rusqlite::Result<()> {
    let position = usize::try_from(natural(row.get(1)?)).unwrap_or(usize::MAX);
    let Some(reading) = trial.readings.get_mut(position) else { return Ok(()) };
    reading.is_shared = row.get(2)?;
    let bytes = |column: usize| -> rusqlite::Result<Option<Bytes>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(|it| Bytes(natural(it))))
    };
    if let (Some(anon), Some(page_cache), Some(shmem)) = (bytes(3)?, bytes(4)?, bytes(5)?) {
        reading.memory_parts = Some(MemoryParts { anon, page_cache, shmem, kernel: bytes(6)? });
    }
    Ok(())
}

pub(super) fn role_of(word: &str) -> Option<Role> {
    [Role::Workload, Role::GuestKernel, Role::Hypervisor, Role::Engine, Role::Surtax]
        .into_iter()
        .find(|role| super::role_word(*role) == word)
}

pub(super) fn unknown_word(column: usize, word: &str) -> rusqlite::Error {
    let message = format!("the word `{word}` is not known");
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, message.into())
}

/// No number of ours is negative; where somebody edited one, it reads as zero.
pub(super) fn natural(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
