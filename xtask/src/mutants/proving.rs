//! Runs the quick proofs of a built copy, and tells a missed bar from anything else that went
//! wrong.
//!
//! The proofs start real processes, so they take the turn that tests take too, and need root
//! rights: where this program has none, `MUTANTS_AS_ROOT` says what to put before a command that
//! needs them.

use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Time limit of the quick proofs, in seconds: a mutant may hang.
const DEADLINE_S: u32 = 900;

/// Exit code of `timeout` where the time was up.
const TIMED_OUT: i32 = 124;

/// Exit code of `surtax prove` where a bar was missed.
const MISSED: i32 = 1;

/// The variable that says how root rights are got, such as `sudo -E -H`; nothing for root.
const AS_ROOT: &str = "MUTANTS_AS_ROOT";

/// Outcome of the proofs.
#[derive(Debug, PartialEq, Eq)]
pub enum Proved {
    /// Every bar was met.
    Met,
    /// These lines missed their bar.
    Missed(Vec<String>),
}

/// Runs some quick proofs.
///
/// # Errors
/// They ended otherwise than by their bars: by a fault, a crash, or not at all.
pub fn prove(binary: &Path, proofs: &str) -> Result<Proved, String> {
    // Held until the proofs have ended: the tests count the processes and mounts of this machine.
    let _turn = turn()?;
    let as_root = std::env::var(AS_ROOT).unwrap_or_default();
    let deadline = DEADLINE_S.to_string();
    let mut words: Vec<&str> = as_root.split_whitespace().collect();
    words.extend(["timeout", &deadline]);
    let binary = binary.to_str().ok_or("the path of the copy is not UTF-8")?;
    words.extend([binary, "prove", "--quick", "--only", proofs, "--format", "csv", "--quiet"]);
    let (program, arguments) = words.split_first().ok_or("there is nothing to run")?;
    #[expect(clippy::disallowed_methods, reason = "a chore, not surtax")]
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("`{program}` does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    judge(output.status.code(), &String::from_utf8_lossy(&output.stdout), said.trim())
}

fn turn() -> Result<File, String> {
    let path = std::env::temp_dir().join("surtax-tests.lock");
    let cannot = |error| format!("cannot take a turn with `{}`: {error}", path.display());
    // One that root made can be locked by everybody, but not be written.
    let lock = File::open(&path).or_else(|_| File::create(&path)).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    Ok(lock)
}

/// Judges the proofs by their exit code and their lines.
fn judge(code: Option<i32>, stdout: &str, stderr: &str) -> Result<Proved, String> {
    let missed: Vec<String> = stdout.lines().filter_map(missed).collect();
    match code {
        Some(0) if missed.is_empty() => Ok(Proved::Met),
        Some(MISSED) if !missed.is_empty() => Ok(Proved::Missed(missed)),
        Some(TIMED_OUT) => Err(format!("the proofs took more than {DEADLINE_S} s")),
        Some(code) => Err(format!("the proofs ended with {code} and no verdict: {stderr}")),
        None => Err(format!("the proofs were killed: {stderr}")),
    }
}

/// A line of the answer that missed its bar, without what comes after that word.
fn missed(line: &str) -> Option<String> {
    line.split_once(",MISSED,").map(|(line, _)| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "proof,part,n,found,what,bar,,because\n";
    const LINE: &str = "planted,\"cost 1.05, 6 blocks\",100,58,outside the interval,at most 13";

    #[test]
    fn a_missed_bar_is_told_with_its_line() {
        let said = format!("{HEAD}{LINE},MISSED,so\norder,a,1,1,first,1 to 2,met,so\n");
        assert_eq!(judge(Some(1), &said, ""), Ok(Proved::Missed(vec![LINE.to_owned()])));
        assert_eq!(judge(Some(0), &format!("{HEAD}{LINE},met,so\n"), ""), Ok(Proved::Met));
    }

    #[test]
    fn a_crash_a_fault_and_a_hang_show_nothing() {
        for code in [Some(1), Some(2), Some(3), Some(70), Some(101), Some(124), None] {
            assert!(judge(code, HEAD, "why").is_err(), "{code:?}");
        }
        let contradiction = format!("{HEAD}{LINE},MISSED,so\n");
        assert!(judge(Some(0), &contradiction, "").is_err());
    }
}
