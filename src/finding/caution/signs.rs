//! Signs that cautions are read from, and how one is written.

use crate::fault::Fault;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::foreign::line;
use crate::finding::stacks::{Stacks, Those};
use crate::finding::wall::Wall;
use crate::finding::{ArmFindings, Caution};
use crate::ledger::{Ledger, Proofs};
use crate::plan::{Plan, TrialId};
use std::collections::HashMap;
use surtax_statistics::NoiseFloor;

/// Signs that the cautions are read from.
pub(crate) struct Signs<'a> {
    pub(crate) arms: &'a [ArmFindings],
    /// The trials of each arm.
    pub(crate) columns: &'a [ArmTrials<'a>],
    pub(crate) proofs: &'a Proofs,
    /// Measures of this machine's kernel against its processor's weaknesses.
    pub(crate) mitigations: Option<&'a str>,
    pub(crate) plan: &'a Plan,
    /// True if it runs for a time that it is told, so that wall time says nothing.
    pub(crate) is_of_fixed_time: bool,
    /// The metric that a precision is also of.
    pub(crate) main_metric: Option<String>,
    pub(crate) conditions: Conditions,
    /// Caution about the clock of a guest.
    pub(crate) guest_clock: Option<Caution>,
    /// The wall time of each arm that is compared.
    pub(crate) walls: &'a [Option<Wall>],
    /// Noise floor: how much the baseline differs from itself.
    pub(crate) noise: Option<NoiseFloor>,
    /// The equivalence margin as a share.
    pub(crate) margin: f64,
    /// Average time that a block took, in nanoseconds; `None` where none is done.
    pub(crate) block_ns: Option<f64>,
}

impl<'a> Signs<'a> {
    /// Every arm with its trials.
    pub(crate) fn arms(&self) -> impl Iterator<Item = (&'a ArmTrials<'a>, &'a ArmFindings)> {
        self.columns.iter().zip(self.arms)
    }

    /// The stacks with an arm of which something is true; `None` where there is none.
    pub(crate) fn stacks(
        &self,
        is_true: impl Fn(&ArmTrials<'_>, &ArmFindings) -> bool,
    ) -> Option<Those> {
        let arms = self.arms().filter(|(column, arm)| is_true(column, arm));
        Stacks::counted(self.arms).those(arms.map(|(_, arm)| arm))
    }
}

/// Conditions of trials, each of those in which it was there.
pub(crate) struct Conditions {
    /// For which share of its time several instances ran at once.
    pub(crate) at_once: HashMap<TrialId, f64>,
    /// Bytes read from disks.
    pub(crate) page_ins: HashMap<TrialId, f64>,
    /// Number of processes that the command left running.
    pub(crate) left_running: HashMap<TrialId, f64>,
    /// CPU time of processes that nobody waited for, in nanoseconds.
    pub(crate) unwaited: HashMap<TrialId, f64>,
    /// Those with a limit, beside which records of the kernel's log were lost.
    pub(crate) overrun_logs: HashMap<TrialId, f64>,
    /// By how much this host waited longer for the command than it took, in nanoseconds.
    pub(crate) excesses: HashMap<TrialId, f64>,
}

impl Conditions {
    /// Reads them from a ledger.
    ///
    /// # Errors
    /// The ledger's, when it cannot be read.
    pub(crate) fn of(ledger: &Ledger) -> Result<Self, Fault> {
        Ok(Self {
            at_once: ledger.conditions_of("instances_at_once_ratio")?,
            page_ins: ledger.conditions_of("page_in_bytes")?,
            left_running: ledger.conditions_of("left_running_count")?,
            unwaited: ledger.conditions_of("cpu_unwaited_ns")?,
            overrun_logs: ledger.conditions_of("kernel_log_overrun")?,
            excesses: ledger.conditions_of("bracket_excess_ns")?,
        })
    }
}

/// A caution by its code, what was found, and what to do.
pub(crate) fn caution(code: &str, finding: String, advice: impl Into<String>) -> Caution {
    Caution { code: code.into(), finding, advice: advice.into(), stacks: Vec::new() }
}

impl Caution {
    /// The same, of these stacks alone.
    pub(crate) fn of<'s>(self, stacks: impl IntoIterator<Item = &'s str>) -> Self {
        Self { stacks: stacks.into_iter().map(line).collect(), ..self }
    }

    /// The same, of these stacks alone.
    pub(crate) fn of_those(self, those: Those) -> Self {
        Self { stacks: those.names, ..self }
    }
}

/// The two arms of the baseline.
pub(crate) fn baseline(arms: &[ArmFindings]) -> impl Iterator<Item = &ArmFindings> {
    arms.iter().filter(|arm| !arm.is_compared())
}

/// All other arms.
pub(crate) fn compared(arms: &[ArmFindings]) -> impl Iterator<Item = &ArmFindings> {
    arms.iter().filter(|arm| arm.is_compared())
}
