//! `surtax prices`: what primitives cost in each stack.

use super::Globals;
use super::measure::{MeasureArguments, Question, ResultArguments};
use crate::driver::registered;
use crate::fault::Fault;
use crate::finding::prices::WORKLOAD;
use crate::plan::duration;
use std::time::Duration;
use surtax_engines::price::cache_bytes;

/// Bandwidth is that of memory only if an array is this many times the last level of cache, as
/// STREAM asks for.
const CACHES: u64 = 4;

/// Flags of `surtax prices`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "surtax prices [OPTIONS] --in <STACKS>",
    mut_arg("workload", |argument| argument.hide(true)),
    after_help = "Examples\n  surtax prices --in native,runc,gvisor,qemu\n  surtax prices --in \
                  native,gvisor:scratch=bind --each 500ms --report prices.html",
    after_long_help = include_str!("help/prices.txt")
)]
pub struct Arguments {
    #[command(flatten)]
    measure: MeasureArguments,
    /// Measures each price for this long in every trial.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "100ms",
          help_heading = "How often and how long")]
    each: Duration,
    /// Measures memory bandwidth in arrays of this size, and not of four times the last level of
    /// cache.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1024..=1 << 40),
          help_heading = "How often and how long")]
    array_bytes: Option<u64>,
    #[command(flatten)]
    results: ResultArguments,
}

impl Arguments {
    /// The plan that the flags ask for: that of `compare` with the workload of prices.
    ///
    /// # Errors
    /// The user's: what is missing, unknown or contradicts itself.
    pub fn question(&self, globals: &Globals) -> Result<Question, Fault> {
        if let Some(typed) = self.measure.workload() {
            return Err(Fault::user(format!(
                "`surtax prices` is a workload itself, and `{}` would be another",
                typed.escape_debug()
            ))
            .hint(format!("surtax compare --in STACKS --workload {}", typed.escape_debug())));
        }
        let each = self.each.as_millis();
        if each == 0 {
            return Err(Fault::user("`--each` is less than a millisecond")
                .hint("the default is `--each 100ms`"));
        }
        let array_bytes = self.array_bytes.unwrap_or_else(|| CACHES * cache_bytes());
        let typed = format!("{WORKLOAD}:each={each},array_bytes={array_bytes}");
        let mut draft = self.measure.with_workload(typed).draft(&[], &registered())?;
        // The size of an array is chosen for this machine and names no question.
        draft.title.get_or_insert_with(|| WORKLOAD.to_owned());
        self.results.question(draft, globals)
    }
}
