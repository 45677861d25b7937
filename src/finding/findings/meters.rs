//! Findings about meters of power, and about what they say of each stack.

use serde::Serialize;

/// A meter that was read all through the run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MeterFindings {
    /// The meter as typed.
    pub meter: String,
    /// Name of its metric: energy per run of the command.
    pub metric: String,
    /// Time between two readings.
    pub every_ns: u64,
    /// Readings that came.
    pub read_count: u64,
    /// Readings that did not come.
    pub failed_count: u64,
    /// Readings that took longer than the time between two.
    pub late_count: u64,
    /// Smallest step between two readings; `None` where they were all the same.
    pub resolution_uw: Option<u64>,
    /// Power of the idle machine before the run.
    pub idle_uw: Option<u64>,
    /// Additional power with all CPUs busy; `None` where the meter saw none.
    pub step_uw: Option<i64>,
    /// Time by which the meter is late.
    pub delay_ns: Option<u64>,
    /// Reason why the last reading that did not come did not.
    pub why: Option<String>,
    /// Contradiction with what another meter saw of the same load.
    pub doubt: Option<String>,
}

/// Energy of a run of the command in one stack by one meter.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct EnergyFindings {
    /// The meter as typed.
    pub meter: String,
    /// Name of its metric.
    pub metric: String,
    /// Median energy of all that the meter sees.
    pub energy_uj: f64,
    /// Median energy by median wall time.
    pub power_uw: f64,
    /// Part of the energy that the idle machine would have taken; `None` where that is not known.
    pub idle_uj: Option<f64>,
    /// The rest; may be negative. `None` where the meter did not see the load before the run.
    pub dynamic_uj: Option<f64>,
    /// Energy of a unit of work, for each rate that the workload measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_work: Vec<WorkEnergy>,
    /// The rest divided by CPU time: an attribution, and no measurement.
    pub attributed: Vec<AttributedEnergy>,
}

/// Energy of a unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct WorkEnergy {
    /// The metric that counts the work by time.
    pub metric: String,
    /// Unit of the work: `1`, `bytes` or `bit`.
    pub unit: String,
    /// Energy of one such unit, of all that the meter sees: the power by the median rate.
    pub energy_uj: f64,
}

/// Share of the dynamic energy by CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AttributedEnergy {
    /// The payer.
    pub payer: String,
    /// Part of the bill to which it belongs.
    pub role: String,
    /// Level whose kernel counted it.
    pub level: u8,
    /// Energy by its share of this machine's CPU time.
    pub energy_uj: f64,
}
