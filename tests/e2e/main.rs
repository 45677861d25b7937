//! End-to-end tests of the built binary, on real parts.
//!
//! `SURTAX_REQUIRE` names the layers that must run for real; one of them skipped fails the run.
//! Tests of one process run one at a time; those that measure, or leave to others what they killed,
//! beside no other process of tests either.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "tests start the binary under test")]

mod adversaries;
mod agent;
mod answers;
mod apart;
mod at_once;
mod appliances;
mod binaries;
mod cli;
mod completions;
mod conditions;
mod conduct;
mod containers;
mod counts;
mod disks;
mod domains;
mod engines;
mod energy;
mod enter;
mod forged;
mod golden;
mod guests;
mod hostile;
mod hosts;
mod instances;
mod interrupts;
mod key_value;
mod kills;
mod lab;
mod lease;
mod libvirt;
mod limits;
mod machine;
mod memory;
mod meters;
mod monitors;
mod neighbours;
mod nesting;
mod network_engines;
mod networks;
mod out_of_memory;
mod powerless;
mod privileges;
mod programs;
mod protocol_order;
mod prove;
mod qemu;
mod reach;
mod refusals;
mod roots;
mod recovery;
mod serve;
mod shut;
mod simulated;
mod slow_suite;
mod ssh;
mod strangers;
mod suite;
mod timeline;
mod two_machines;
mod two_sided;
mod unfit;
mod watchdog;
mod words;
mod why;
mod within_reach;
mod workloads;
