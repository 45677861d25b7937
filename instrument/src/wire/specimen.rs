//! One reply of each kind, as somebody would write it who wants to be believed: a command that took
//! a microsecond.
//!
//! For those who attack a channel on purpose, to show that it holds.

use super::{Dropped, Failure, Hello, LevelFacts, Outcome, Output, PROTOCOL, Reply, Status, Stops};
use crate::amount::Amounts;
use crate::quantity::{Bytes, Nanoseconds};

/// Names of the kinds, in the order in which [`specimen`] knows them.
pub const KINDS: [&str; 16] = [
    "hello", "started", "ended", "exited", "bill", "failed", "written", "data", "relay-ended",
    "clock", "identity", "descended", "dropped", "sampled", "stopped", "garbage",
];

/// A reply of that kind; nothing for one that is none, such as `garbage`.
#[must_use]
pub fn specimen(kind: &str) -> Option<Reply> {
    let at = Nanoseconds(1);
    Some(match kind {
        "hello" => Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at }),
        "started" => Reply::Started { at },
        "ended" => Reply::Ended { at },
        "exited" => Reply::Exited(outcome().into()),
        "bill" => Reply::Bill(Vec::new()),
        "failed" => Reply::Failed(Failure {
            cause: None,
            what: String::from("a failure that was none"),
            hint: String::new(),
        }),
        "written" => Reply::Written,
        "data" => Reply::Data(b"data".to_vec()),
        "relay-ended" => Reply::RelayEnded { status: Status::Exit(0), stderr: Vec::new() },
        "clock" => Reply::Clock { at, passed: Vec::new() },
        "identity" => Reply::Identity(Vec::new()),
        "descended" => {
            let level = LevelFacts { layer: String::from("native"), facts: Vec::new() };
            Reply::StartedNested(vec![level])
        }
        "dropped" => {
            Reply::Dropped(vec![Dropped { kernel: String::new(), failure: String::new() }])
        }
        "sampled" => Reply::Sampled { at, readings: Vec::new() },
        "stopped" => Reply::Stopped,
        _ => return None,
    })
}

fn outcome() -> Outcome {
    Outcome {
        status: Status::Exit(0),
        wall: Nanoseconds(1000),
        cpu_user: Nanoseconds(0),
        cpu_system: Nanoseconds(0),
        memory_peak: Bytes(0),
        counts: Amounts::NONE,
        oom_kill_count: Some(1),
        left_running_count: 1,
        agent_cpu: Nanoseconds(0),
        machine: Vec::new(),
        calls: None,
        stops: Some(Stops::default()),
        stdout: Output::default(),
        stderr: Output::default(),
        instances: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_but_the_last_has_a_specimen_of_its_own() {
        let found: Vec<Option<Reply>> = KINDS.into_iter().map(specimen).collect();
        let (garbage, kinds) = found.split_last().unwrap();
        assert_eq!(*garbage, None);
        for (place, kind) in kinds.iter().enumerate() {
            assert!(kind.is_some());
            assert!(!kinds[..place].contains(kind), "{kind:?}");
        }
    }
}
