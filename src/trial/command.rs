//! The command of a trial: what is executed, in which environment, and how long that may be.

use crate::fault::Fault;
use crate::layer::StackSpec;
use crate::plan::{Plan, TrialId};
use crate::workload::OUTPUT_LIMIT;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use surtax_engines::OURSELVES;
use surtax_instrument::wire::{Command, Request, require_short as fits};

/// Number of bytes kept from the end of each output stream of the command.
const KEEP_OUTPUT: u32 = 16 << 10;

/// The variable whose length differs from trial to trial.
const PADDING: &[u8] = b"SURTAX_PADDING";

/// Tells whether a command is one of surtax's own engines, of these.
pub(super) fn is_engine(command: &Command, engines: &[&str]) -> bool {
    let word = |place: usize| command.argv.get(place).map(Vec::as_slice);
    let is_own = word(0) == Some(OURSELVES.as_bytes());
    is_own && engines.iter().any(|engine| word(2) == Some(engine.as_bytes()))
}

/// The command of a plan in one of its stacks: in the caller's environment, with the plan's
/// variables over it, and those of the stack over both.
#[must_use]
pub fn command(plan: &Plan, stack: &StackSpec) -> Command {
    let mut environment = BTreeMap::new();
    if plan.inherit_environment {
        let inherited = std::env::vars_os();
        environment.extend(inherited.map(|(key, value)| (key.into_vec(), value.into_vec())));
    }
    environment.extend(
        plan.environment
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())),
    );
    environment.extend(stack.variables().map(|(key, value)| (key.into(), value.into())));
    Command {
        argv: plan.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        instances: Vec::new(),
        env: environment.into_iter().collect(),
        cwd: plan.cwd.as_os_str().as_bytes().to_vec(),
        keep_bytes: if plan.workload.is_some() { OUTPUT_LIMIT } else { KEEP_OUTPUT },
        deadline: plan.command_deadline().into(),
        terminal: false,
        counts_calls: false,
        watching: None,
    }
}

/// Returns how much longer the environment is in this trial, in bytes: the same whenever the plan
/// is run.
pub(super) fn padding(plan: &Plan, trial: TrialId) -> u32 {
    let limit = plan.conduct.padding_limit_bytes;
    if limit == 0 {
        return 0;
    }
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&plan.seed.to_le_bytes());
    for (at, number) in [(8, trial.block), (12, trial.position), (16, trial.arm)] {
        seed[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(seed).random_range(1..=limit)
}

/// A variable of so many bytes, its name and `=` not counted; none for 0.
pub(super) fn variable_of(padding: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let length = usize::try_from(padding).unwrap_or(0);
    (length > 0).then(|| (PADDING.to_vec(), vec![b'.'; length]))
}

/// Refuses a command that no agent would accept, before anything is started.
///
/// # Errors
/// The user's: with its environment it does not fit into one frame.
pub fn require_short(command: &Command) -> Result<(), Fault> {
    fits(&Request::Run(command.clone())).map_err(|error| {
        Fault::user(format!("the command is too long with its environment: {error}"))
            .hint("put it into a script, or make its arguments and variables fewer")
    })
}
