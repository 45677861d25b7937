//! `surtax enter`: a shell, or a command, in any stack.

use super::measure::{surroundings, variable};
use crate::fault::Fault;
use crate::plan::{Draft, Plan};
use crate::stack::{StackSpec, registered};
use std::path::PathBuf;

/// Flags of `surtax enter`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples\n  surtax enter qemu+runc\n  surtax enter gvisor -- dmesg")]
pub struct Arguments {
    /// The stack, such as `runc` or `qemu:memory=1G+docker`.
    #[arg(value_name = "STACK")]
    stack: String,
    /// Keeps what is written below this directory; all other writes are thrown away.
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
    /// Sets a variable of the environment; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The command and its arguments, after `--`; by default the shell named by SHELL.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Arguments {
    /// What to enter, as a plan with one stack: its baseline.
    ///
    /// # Errors
    /// The user's: an unknown layer or option, a directory that is not there.
    pub fn visit(&self) -> Result<Plan, Fault> {
        let cards = registered();
        let stack = StackSpec::parse_with(&self.stack, &cards)?;
        let command = match self.command.as_slice() {
            [] => vec![std::env::var("SHELL").unwrap_or_else(|_| String::from("/bin/sh"))],
            command => command.to_vec(),
        };
        let draft = Draft {
            stacks: vec![stack.clone()],
            baseline: Some(stack),
            command,
            environment: self.env.clone(),
            writable: self.writable.clone(),
            runs: Some(1),
            ..Draft::default()
        };
        draft.complete(&surroundings(&cards)?).map(|decided| decided.plan)
    }
}
