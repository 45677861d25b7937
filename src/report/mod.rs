//! Reports: claims from a ledger and nothing else.
//!
//! `compare.rs` turns a ledger into [`Findings`]; every format (terminal, Markdown, CSV, JSON, HTML)
//! is a function from findings to text, so that no two formats can disagree.

mod bill;
mod by_metric;
mod caution;
mod column;
mod compare;
mod distribution;
mod estimate;
pub mod export;
mod findings;
pub mod foreign;
mod guest_clock;
mod harmless;
pub mod html;
mod instances;
mod isolation;
pub mod json;
pub mod markdown;
mod memory;
pub mod number;
pub mod page;
mod judged;
mod left_running;
mod page_ins;
mod position;
pub mod prices;
mod program;
mod reasons;
mod settings;
mod stacks;
mod steady;
mod step;
pub mod terminal;
pub mod threshold;
mod verdict;
mod wall;
mod workload;

pub use compare::compare;
pub use findings::{
    AbsenceFindings, ArmFindings, BesideFindings, BesideOverhead, BillGap, Caution,
    DistributionFindings, DisturbanceFinding, Findings, InstanceFindings, Interval,
    JudgementFindings, KeyValue, LevelEvidence, MetricFindings, PayerFindings, PercentilePoint,
    ProgressPoint, QuantileFindings, RunFacts, TrialPoint, TrialUsage, Trouble, Verdict,
    WarmUpFindings,
};
