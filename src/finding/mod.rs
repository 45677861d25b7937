//! Findings: what follows from a ledger and nothing else.
//!
//! `compare.rs` turns a ledger into [`Findings`]; what is called different, and what speaks against
//! it, is decided here. How it is shown is a matter of `report`.

pub(crate) mod answer;
pub(crate) mod apart;
mod arm_failure;
pub(crate) mod arm_trials;
pub(crate) mod plan_digest;
pub(crate) mod bill;
pub(crate) mod by_metric;
pub(crate) mod caution;
pub(crate) mod claims;
pub(crate) mod compare;
pub mod diff;
pub mod history;
pub mod same_machine;
pub(crate) mod distribution;
pub(crate) mod emulation;
pub(crate) mod energy;
pub(crate) mod energy_words;
pub(crate) mod estimate;
pub(crate) mod findings;
pub mod foreign;
pub mod gathered;
pub(crate) mod guest_clock;
pub(crate) mod harmless;
pub(crate) mod instances;
pub(crate) mod isolation;
pub(crate) mod judged;
pub(crate) mod level_words;
pub mod kept;
pub(crate) mod machines;
pub(crate) mod memory;
pub(crate) mod meters;
pub mod number;
pub mod of_metric;
pub mod prices;
pub(crate) mod over_time;
pub(crate) mod program;
pub(crate) mod reasons;
pub mod question;
mod run_facts;
pub(crate) mod settings;
mod sources;
pub(crate) mod stacks;
pub(crate) mod remarks;
pub(crate) mod starts;
pub(crate) mod steady;
pub(crate) mod step;
pub mod threshold;
pub(crate) mod ticks;
pub mod timeline;
pub(crate) mod trial_metric;
pub(crate) mod verdict;
pub(crate) mod wall;
pub mod why;
pub(crate) mod workload;

#[cfg(test)]
mod tests;

pub use compare::compare;
pub use findings::{
    AbsenceFindings, Agreement, ArmFailure, ArmFindings, AttributedEnergy, BesideFindings,
    BesideOverhead, BillGap, CauseFindings, Caution, Confirmation, ConfirmedFindings, CountedBy,
    DistributionFindings, DisturbanceFinding, EnergyFindings, Findings, Gap, InstanceFindings,
    Interval, JudgementFindings, KeyValue, LevelEvidence, LevelTimelineFindings, MachineFindings,
    Medians, MeterFindings, MetricFindings, PayerFindings, PercentilePoint, PhaseFindings,
    ProgressPoint, QuantileFindings, RunFacts, SeriesFindings, Spread, StealFindings, TimePart,
    TimelineFindings, TrialPoint, TrialUsage, UseFindings, Verdict, WarmUpFindings, WhyFindings,
    WorkEnergy,
};
