//! Plans and records with known numbers, for the tests of ledger and report.

use super::Ledger;
use crate::layer::{LayerSpec, StackSpec};
use crate::plan::{Plan, TrialId, TrialSettings};
use crate::trial::{Evidence, Measured, Record, TrialResult};
use crate::workload;
use std::collections::BTreeMap;
use std::path::Path;
use surtax_instrument::amount::{Amounts, MEMORY_PEAK};
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Fact, LevelFacts, Outcome, Output, Reading, Role, Status};

pub(crate) fn stack(kind: &str) -> StackSpec {
    let layer = |kind: &str| LayerSpec { kind: kind.into(), options: BTreeMap::new() };
    StackSpec { layers: kind.split('+').map(layer).collect() }
}

pub(crate) fn plan(stacks: &[&str]) -> Plan {
    Plan {
        schema_version: 1,
        title: String::from("make of a small tree"),
        stacks: stacks.iter().map(|kind| stack(kind)).collect(),
        baseline: stack("native"),
        beside: Vec::new(),
        meters: Vec::new(),
        command: vec!["make".into(), "-j4".into()],
        workload: None,
        cwd: "/src".into(),
        environment: vec![("PATH".into(), "/bin".into())],
        inherit_environment: true,
        writable: Vec::new(),
        runs: Some(10),
        time_budget_ns: None,
        precision_ppm: None,
        looks: 1,
        warm_up: 1,
        conduct: TrialSettings::plain(),
        command_deadline_ns: 60_000_000_000,
        start_deadline_ns: 60_000_000_000,
        equivalence_margin_ppm: 30_000,
        seed: 7,
    }
}

pub(crate) fn id(block: u32, arm: u32) -> TrialId {
    TrialId { block, position: arm, arm }
}

pub(crate) fn fact(key: &str, value: &str) -> Fact {
    Fact::new(key, value, "a test")
}

pub(crate) fn reading(payer: &str, level: u8, cpu_ns: u64, carries_workload: bool) -> Reading {
    Reading {
        payer: payer.into(),
        role: Role::Engine,
        level,
        amounts: Amounts::of_cpu(Nanoseconds(cpu_ns), Nanoseconds(0)).with(MEMORY_PEAK, 30 << 20),
        carries_workload,
        is_shared: false,
    }
}

/// A command that took so long, used as much user time, and said `ok`.
pub(crate) fn measured(wall_ns: u64) -> Measured {
    let output = |text: &str| Output {
        hash: u128::from(text.len() as u64),
        length: Bytes(text.len() as u64),
        tail: text.into(),
    };
    Measured {
        wall: Nanoseconds(wall_ns),
        outcome: Outcome {
            status: Status::Exit(0),
            wall: Nanoseconds(wall_ns),
            cpu_user: Nanoseconds(wall_ns),
            cpu_system: Nanoseconds(1_000),
            memory_peak: Bytes(20 << 20),
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
            stdout: output("ok"),
            stderr: output(""),
            instances: Vec::new(),
        },
        readings: vec![
            reading("agent's group", 0, wall_ns + 101_000, true),
            reading("dockerd", 0, 50_000, false),
        ],
        evidence: Evidence::of(vec![LevelFacts {
            layer: String::from("native"),
            facts: vec![fact("kernel_release", "6.18"), fact("cpus_online", "2")],
        }])
        .unwrap(),
        machines: Vec::new(),
        iterations: Vec::new(),
        energy_uj: None,
        calls: None,
        workload: workload::WorkloadReading::default(),
        is_guest_time_void: false,
    }
}

pub(crate) fn record(trial: TrialId, result: TrialResult) -> Record {
    Record {
        trial,
        began_at: Nanoseconds(
            1_700_000_000_000_000_000 + u64::from(trial.block * 10 + trial.position) * 1_000_000,
        ),
        result,
        start_wall: Nanoseconds(5_000_000),
        stop_wall: Nanoseconds(2_000_000),
        conditions: vec![(String::from("load_1min"), 0.5)],
        disturbances: Vec::new(),
        timeline: None,
        ran: Vec::new(),
        energies: Vec::new(),
        leftovers: Vec::new(),
    }
}

pub(crate) fn done(trial: TrialId, wall_ns: u64) -> Record {
    record(trial, TrialResult::Done(Box::new(measured(wall_ns))))
}

pub(crate) fn ledger(path: &Path, stacks: &[&str]) -> Ledger {
    let mitigations = fact("mitigations", "spectre_v1: Mitigation: usercopy/swapgs barriers");
    Ledger::create(path, &plan(stacks), &[fact("cpu_model", "AMD EPYC"), mitigations]).unwrap()
}

pub(crate) fn add(ledger: &mut Ledger, record: &Record) {
    ledger.begin_trial(record.trial).unwrap();
    ledger.end_trial(record).unwrap();
}

impl Ledger {
    /// For writing many trials in a test: a power cut may damage the file.
    pub(crate) fn forget_safety(&self) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "synchronous", "OFF")
    }
}
