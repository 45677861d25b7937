//! A trial with something of everything that a ledger can hold, for proofs about ledgers and for
//! whoever gives hostile ones to their readers.

use crate::fault::Fault;
use crate::plan::TrialId;
use crate::trial::disturbance::Disturbance;
use crate::trial::{Evidence, Measured, Record, TrialResult};
use crate::workload::{Absence, Better, Histogrammed, Instanced, Metric, WorkloadReading};
use surtax_instrument::amount::{Amounts, MEMORY_PEAK};
use surtax_instrument::quantity::{Bytes, Nanoseconds};
use surtax_instrument::wire::{Fact, LevelFacts, Outcome, Output, Reading, Role, Status};
use surtax_statistics::Histogram;

/// The record of a trial that is done, unless it ended otherwise.
///
/// # Errors
/// Ours: the example proves nothing of its level.
pub fn record(trial: TrialId, otherwise: Option<TrialResult>) -> Result<Record, Fault> {
    let wall = Nanoseconds(1_000_000_000 + u64::from(trial.block * 7 + trial.arm * 3) * 1_000_000);
    let result = match otherwise {
        Some(result) => result,
        None => TrialResult::Done(Box::new(measured(trial.arm, wall)?)),
    };
    let key = String::from("others_cpu_ratio");
    Ok(Record {
        trial,
        began_at: Nanoseconds(1_700_000_000_000_000_000 + u64::from(trial.block) * 10_000_000_000),
        result,
        start_wall: Nanoseconds(5_000_000),
        stop_wall: Nanoseconds(2_000_000),
        conditions: vec![(String::from("load_1min"), 0.5)],
        disturbances: vec![Disturbance { key, value: 0.9, limit: 0.2 }],
        timeline: None,
        ran: Vec::new(),
        energies: Vec::new(),
        leftovers: vec![String::from("a mount")],
    })
}

fn measured(arm: u32, wall: Nanoseconds) -> Result<Measured, Fault> {
    let output = |text: &str| Output { hash: 7, length: Bytes(2), tail: text.into() };
    let evidence = Evidence::of(vec![LevelFacts {
        layer: String::from("native"),
        facts: vec![
            Fact::new("kernel_release", format!("6.{arm}"), "uname"),
            Fact::new("setting_placement", "both on CPU 1", "what the workload says"),
        ],
    }])
    .map_err(|layer| Fault::bug(format!("an example proves nothing of `{layer}`")))?;
    let reading = |payer: &str, carries_workload| Reading {
        payer: payer.into(),
        role: Role::Engine,
        level: 0,
        amounts: Amounts::of_cpu(wall, Nanoseconds(50_000)).with(MEMORY_PEAK, 30 << 20),
        carries_workload,
        is_shared: false,
    };
    Ok(Measured {
        wall,
        outcome: Outcome {
            status: Status::Exit(0),
            wall,
            cpu_user: wall,
            cpu_system: Nanoseconds(1_000),
            memory_peak: Bytes(20 << 20),
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
            calls: None,
            stops: None,
            stdout: output("ok"),
            stderr: output(""),
            instances: Vec::new(),
        },
        readings: vec![reading("agent's group", true), reading("dockerd", false)],
        evidence,
        machines: Vec::new(),
        iterations: Vec::new(),
        energy_uj: None,
        calls: None,
        workload: read(),
        is_guest_time_void: false,
    })
}

/// Returns what a workload measured: a rate, in two instances, a distribution, and something that
/// it could not.
fn read() -> WorkloadReading {
    let name = || String::from("rate");
    let mut histogram = Histogram::new();
    // Five nanoseconds are within every histogram's range.
    let _ = histogram.record_many(5, 1_000);
    WorkloadReading {
        metrics: vec![Metric { name: name(), unit: "1/s", better: Better::Higher, value: 1.5 }],
        instances: [0, 1]
            .map(|instance| Instanced { instance, metric: name(), unit: "1/s", value: 2.0 })
            .into(),
        histograms: vec![Histogrammed { name: String::from("latency"), histogram }],
        absences: vec![Absence { metric: String::from("loss"), why: String::from("not here") }],
        ..WorkloadReading::default()
    }
}
