//! Asks a foreign tool for its version: each file is asked once by each process of ours, and again
//! once it is another.

use super::file_hash::{Identity, identity};
use crate::fault::Fault;
use crate::lab;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// Time limit for the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// The files that a question names by their paths, and the question.
type Asked = (Vec<Identity>, Vec<String>);

static KNOWN: LazyLock<Mutex<HashMap<Asked, String>>> = LazyLock::new(Mutex::default);

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

/// The same of an OCI runtime, so that nothing of it is left where it is killed meanwhile: without
/// a directory that is there crun makes `/run/crun`, and without one in which it can make nothing,
/// a file in `/tmp` for a copy of itself.
///
/// # Errors
/// As [`of`].
pub fn of_runtime(path: &Path) -> Result<String, Fault> {
    asked(of_runtime_words(path))
}

fn of_runtime_words(path: &Path) -> Vec<String> {
    let path = path.to_string_lossy();
    ["env", "_LIBCONTAINER_STATEDIR=/proc", &path, "--root", "/proc", "--version"]
        .map(String::from)
        .to_vec()
}

/// The first line of the answer to a question that has one answer for as long as the files that it
/// names stay as they are.
///
/// # Errors
/// As [`of`].
pub fn asked(question: Vec<String>) -> Result<String, Fault> {
    let argv = question.clone();
    once(question, || lab::ask(&argv, None, DEADLINE))
}

/// The same, asked in a way of the caller's own.
///
/// # Errors
/// That of the caller's way.
pub fn once(
    question: Vec<String>,
    ask: impl FnOnce() -> Result<String, Fault>,
) -> Result<String, Fault> {
    let files = question.iter().filter(|word| word.starts_with('/'));
    let files = files.filter_map(|path| fs::metadata(path).ok()).filter(Metadata::is_file);
    let asked = (files.map(|it| identity(&it)).collect(), question);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known.get(&asked) {
        return Ok(version.clone());
    }
    let answer = ask()?;
    let version = answer.lines().next().unwrap_or_default().trim().to_owned();
    known.insert(asked, version.clone());
    Ok(version)
}

#[cfg(test)]
mod tests {
    use crate::lab::tool_version::*;

    /// A runtime that is killed between making such a file and removing it leaves it there.
    #[test]
    fn a_runtime_that_says_its_version_makes_nothing_in_a_directory_of_all() {
        use rustix::fs::inotify;
        let Some(crun) = lab::find("crun") else {
            println!("SKIPPED: there is no crun");
            return;
        };
        let made_by = |words: &[String]| {
            let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
            inotify::add_watch(&watch, "/tmp", inotify::WatchFlags::CREATE).unwrap();
            lab::ask(words, None, DEADLINE).unwrap();
            let mut buffer = [std::mem::MaybeUninit::uninit(); 64 << 10];
            let mut events = inotify::Reader::new(watch, &mut buffer);
            let mut made = 0;
            while let Ok(event) = events.next() {
                let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                made += u32::from(name.is_some_and(|name| name.starts_with("crun.")));
            }
            made
        };
        let plain = [&crun.to_string_lossy(), "--root", "/proc", "--version"].map(String::from);
        if made_by(&plain) == 0 {
            println!("SKIPPED: this crun copies itself in memory");
        }
        assert_eq!(made_by(&of_runtime_words(&crun)), 0);
    }

    #[test]
    fn a_question_is_asked_until_it_is_answered_and_then_no_more() {
        let question = || vec![String::from("a tool of this test's"), String::from("--version")];
        let refused = once(question(), || Err(Fault::machine("it is not there")));
        assert_eq!(refused.unwrap_err().message, "it is not there");
        let answer = || Ok(String::from("tool 1.2 \nand more\n"));
        assert_eq!(once(question(), answer).unwrap(), "tool 1.2");
        let again = once(question(), || Err(Fault::machine("it was asked again")));
        assert_eq!(again.unwrap(), "tool 1.2");
    }

    #[test]
    fn a_file_that_was_replaced_is_asked_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let question = || vec![file.path().display().to_string(), String::from("--version")];
        let answered = |version: &str| once(question(), || Ok(version.to_owned())).unwrap();
        assert_eq!([answered("1"), answered("2")], ["1", "1"]);
        std::fs::write(file.path(), "other bytes").unwrap();
        assert_eq!([answered("3"), answered("4")], ["3", "3"]);
    }
}
