//! The runner for every toolchain: the whole corpus of one target, then what mutation makes of it.

use crate::corpus;
use crate::guard::{self, Current};
use crate::mutate::{self, Material};
use crate::target::{Planted, Target};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock;
use xxhash_rust::xxh3::xxh3_64;

/// The name of the file with the input that is being read.
const CURRENT: &str = "current";

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Time that inputs are made for, once the corpus is read.
    pub time: Duration,
    /// Of the generator; the same seed makes the same inputs in the same order.
    pub seed: u64,
    /// Directory for the input that is being read, and for what was found.
    pub state: PathBuf,
    /// A bug that is put into the target, to see that it is found.
    pub planted: Option<Planted>,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Number of inputs that were read, those of the corpus too.
    pub executions: u64,
    /// Time that it took, in nanoseconds.
    pub time_ns: u64,
    /// Finding that ended the run, if there was one.
    pub finding: Option<Finding>,
}

/// An input that a target could not bear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file that holds it.
    pub path: PathBuf,
    /// Explanation of what went wrong.
    pub why: String,
}

impl Run {
    /// Runs one target in this process, under its guard.
    ///
    /// # Errors
    /// The file system's: nothing can be kept, or the corpus cannot be read.
    pub fn one(&self, target: &Target) -> Result<Ran, String> {
        let (inputs, words) = (corpus::of(target)?, corpus::dictionary(target)?);
        let longest = inputs.iter().map(Vec::len).max().unwrap_or(0).max(target.longest);
        let current = Current::at(&self.current(target.name), longest);
        let mut current = current.map_err(|error| format!("cannot keep inputs: {error}"))?;
        let mut read = |bytes: &[u8]| {
            current.keep(bytes);
            match self.planted {
                Some(planted) => guard::read(|bytes| planted.run(bytes), bytes),
                None => guard::read(target.run, bytes),
            }
        };
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ xxh3_64(target.name.as_bytes()));
        let material = Material { inputs: &inputs, words: &words, longest: target.longest };
        let began = clock::monotonic_raw();
        let passed = || clock::monotonic_raw().since(began);
        let (mut executions, mut made) = (0_u64, Vec::new());
        let mut corpus = inputs.iter();
        let finding = loop {
            let ended = match corpus.next() {
                Some(input) => read(input).map_err(|why| (input.clone(), why)),
                None if Duration::from(passed()) >= self.time => break None,
                None => {
                    mutate::next(&mut random, &material, &mut made);
                    read(&made).map_err(|why| (made.clone(), why))
                }
            };
            executions += 1;
            if let Err((input, why)) = ended {
                break Some(keep(&self.state, target.name, &input, why)?);
            }
        };
        Ok(Ran { executions, time_ns: passed().0, finding })
    }

    /// Returns the path at which the input of a target that is being read is kept.
    #[must_use]
    pub fn current(&self, target: &str) -> PathBuf {
        self.state.join(format!("{target}.{CURRENT}"))
    }
}

/// Keeps an input that found something, below `state`, under a name of its own.
///
/// # Errors
/// The file system's.
pub fn keep(state: &Path, target: &str, input: &[u8], why: String) -> Result<Finding, String> {
    let folder = state.join("findings").join(target);
    let path = folder.join(format!("{:016x}", xxh3_64(input)));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    kept.map_err(|error| format!("cannot keep what was found in `{}`: {error}", path.display()))?;
    Ok(Finding { path, why })
}
