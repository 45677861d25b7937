//! Parts of what was asked that no report shows.
//!
//! They are compared where two runs are, and never written down: values of variables may be
//! secrets, and so may be what they could be guessed from.

use crate::plan::Plan;
use sha2::{Digest, Sha256};
use surtax_instrument::hex;

/// Letters of a digest.
const DIGEST_LENGTH: usize = 12;

/// Parts of a question that no report shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDigest {
    /// Digest of the text of the workload's file; empty of a command.
    pub(super) workload_text: String,
    /// Names of the variables that were set.
    pub(super) variables: String,
    /// Digest of their values, which is not to be told.
    pub(super) values: String,
    /// Origin of the rest of the environment, and the directories whose writes are kept.
    pub(super) around: String,
}

impl PlanDigest {
    /// Takes from a plan what a report does not show.
    pub(super) fn of(plan: &Plan) -> Self {
        let names: Vec<&str> = plan.environment.iter().map(|(name, _)| name.as_str()).collect();
        let mut values = Sha256::new();
        for (name, value) in &plan.environment {
            let value = value.as_bytes();
            values.update(format!("{} {name}{} ", name.len(), value.len()));
            values.update(value);
        }
        let writable: Vec<String> =
            plan.writable.iter().map(|path| path.display().to_string()).collect();
        let inherits = if plan.inherit_environment { "the caller's" } else { "none" };
        let text = plan.workload.as_ref().map(|it| short(&Sha256::digest(&it.text)));
        Self {
            workload_text: text.unwrap_or_default(),
            variables: names.join(", "),
            values: short(&values.finalize()),
            around: format!("{inherits}; {}", writable.join(", ")),
        }
    }
}

fn short(digest: &[u8]) -> String {
    hex::of(digest)[..DIGEST_LENGTH].to_owned()
}
