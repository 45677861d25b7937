//! What a foreign tool says of its version: each program is asked once by each process of ours.

use crate::fault::Fault;
use crate::lab;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// How long the answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

static KNOWN: LazyLock<Mutex<HashMap<PathBuf, String>>> = LazyLock::new(Mutex::default);

/// The first line of the answer to `--version`, asked with these words before it.
///
/// # Errors
/// The machine's: the tool does not answer in time, or fails.
pub fn of(path: &Path, words: &[&str]) -> Result<String, Fault> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known.get(path) {
        return Ok(version.clone());
    }
    let mut question = vec![path.to_string_lossy().into_owned()];
    question.extend(words.iter().map(|&word| word.to_owned()));
    question.push(String::from("--version"));
    let answer = lab::ask(&question, None, DEADLINE)?;
    let version = answer.lines().next().unwrap_or_default().trim().to_owned();
    known.insert(path.to_path_buf(), version.clone());
    Ok(version)
}
