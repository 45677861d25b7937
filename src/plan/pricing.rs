//! The plan by which the stacks of a run are priced, so that it can be explained.

use super::{Arm, Draft, Plan};
use crate::fault::Fault;
use crate::workload::Workload;

/// Workload that measures what primitives cost: each for 20 ms, and memory bandwidth, which
/// explains nothing, in arrays of no size.
const PRICES: &str = "prices:each=20,array_bytes=1048576";

impl Plan {
    /// Drafts a plan that prices the stacks of these arms of this one, in so many blocks.
    ///
    /// # Errors
    /// Ours: there is no such workload.
    pub fn pricing(&self, arms: &[Arm], runs: u32) -> Result<Draft, Fault> {
        let title: String = format!("prices for: {}", self.title).chars().take(200).collect();
        Ok(Draft {
            title: Some(title),
            stacks: arms.iter().map(|arm| arm.stack.clone()).collect(),
            baseline: Some(self.baseline.clone()),
            workload: Some(Workload::find(PRICES)?),
            cwd: Some(self.cwd.clone()),
            runs: Some(runs),
            ..Draft::default()
        })
    }
}
