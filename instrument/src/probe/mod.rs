//! Probes: each reads the counters of one kernel facility while a trial runs.

pub mod cgroup;
pub mod command_group;
pub mod cpu_time;
mod disks;
pub mod energy;
pub mod frequency;
pub mod guest_memory;
pub mod host;
pub mod kernel_log;
pub mod kvm;
pub mod machine;
mod memory_stat;
pub mod mitigations;
pub mod oom;
pub mod power;
pub mod process;
pub mod refusals;
pub mod stops;
pub mod throttling;
pub mod xen;

#[cfg(test)]
pub(crate) mod tests;
