//! Probes: each reads the counters of one kernel facility while a trial runs.

pub mod cgroup;
pub mod process;
