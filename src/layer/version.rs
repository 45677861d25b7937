//! What a foreign tool says of its version: each program is asked once by each process of ours.

use crate::fault::Fault;
use crate::lab;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// How long the answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

static KNOWN: LazyLock<Mutex<HashMap<Vec<String>, String>>> = LazyLock::new(Mutex::default);

/// The first line of the answer to `--version`, asked with these words before it.
///
/// # Errors
/// The machine's: the tool does not answer in time, or fails.
pub fn of(path: &Path, words: &[&str]) -> Result<String, Fault> {
    let mut question = vec![path.to_string_lossy().into_owned()];
    question.extend(words.iter().map(|&word| word.to_owned()));
    question.push(String::from("--version"));
    asked(question)
}

/// The first line of the answer to a question that has one answer for as long as this process lives.
///
/// # Errors
/// As [`of`].
pub fn asked(question: Vec<String>) -> Result<String, Fault> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known.get(&question) {
        return Ok(version.clone());
    }
    let answer = lab::ask(&question, None, DEADLINE)?;
    let version = answer.lines().next().unwrap_or_default().trim().to_owned();
    known.insert(question, version.clone());
    Ok(version)
}
