//! Several instances of the command at once: what of their outcome is shown, and whether they ran
//! beside each other.

use super::iterate::TimedRun;
use surtax_instrument::wire::{Instance, Outcome, Status};

/// The condition that says for which share of the longest instance's time all ran.
const AT_ONCE: &str = "instances_at_once_ratio";

/// Shows what one instance printed: the first of those that ended worst.
pub(super) fn show(outcome: &mut Outcome) {
    let worst = Status::worst(outcome.instances.iter().map(|it| it.status));
    let shown = outcome.instances.iter().find(|it| Some(it.status) == worst);
    let Some(Instance { stdout, stderr, .. }) = shown else {
        return;
    };
    // The hashes stay those of all instances.
    (outcome.stdout.length, outcome.stdout.tail) = (stdout.length, stdout.tail.clone());
    (outcome.stderr.length, outcome.stderr.tail) = (stderr.length, stderr.tail.clone());
}

/// For which share of the time all of them ran, in the iteration where that was least; nothing
/// where one ran.
pub(super) fn at_once(runs: &[TimedRun]) -> Option<(String, f64)> {
    let share = |ran: &TimedRun| {
        let walls = || ran.outcome.instances.iter().map(|it| it.wall.seconds());
        let (least, most) = (walls().reduce(f64::min)?, walls().reduce(f64::max)?);
        (most > 0.0).then(|| least / most)
    };
    let least = runs.iter().filter_map(share).reduce(f64::min)?;
    Some((String::from(AT_ONCE), least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::Amounts;
    use surtax_instrument::quantity::{Bytes, Nanoseconds};
    use surtax_instrument::wire::Output;

    fn instance(code: i32, wall: u64, said: &str) -> Instance {
        let output = Output { hash: 7, length: Bytes(said.len() as u64), tail: said.into() };
        Instance {
            status: Status::Exit(code),
            wall: Nanoseconds(wall),
            cpu_user: Nanoseconds(1),
            cpu_system: Nanoseconds(1),
            memory_peak: Bytes(1),
            counts: Amounts::NONE,
            stdout: output.clone(),
            stderr: output,
        }
    }

    fn outcome(instances: Vec<Instance>) -> Outcome {
        Outcome {
            status: Status::Exit(0),
            wall: Nanoseconds(1),
            cpu_user: Nanoseconds(1),
            cpu_system: Nanoseconds(1),
            memory_peak: Bytes(1),
            calls: None,
            stops: None,
            oom_kill_count: None,
            left_running_count: 0,
            counts: Amounts::NONE,
            agent_cpu: Nanoseconds(0),
            machine: Vec::new(),
            stdout: Output { hash: 9, ..Output::default() },
            stderr: Output::default(),
            instances,
        }
    }

    #[test]
    fn what_a_failed_instance_printed_is_shown_before_that_of_the_first() {
        let mut ended = outcome(vec![instance(0, 1, "fine"), instance(3, 1, "broken")]);
        show(&mut ended);
        assert_eq!((ended.stdout.tail.as_slice(), ended.stdout.hash), (&b"broken"[..], 9));
        let mut ended = outcome(vec![instance(0, 1, "first"), instance(0, 1, "second")]);
        show(&mut ended);
        assert_eq!(ended.stderr.tail, b"first");
    }

    #[test]
    fn instances_ran_at_once_while_the_shortest_did() {
        let ran = |walls: [u64; 2]| {
            let instances = walls.map(|wall| instance(0, wall, "")).to_vec();
            TimedRun {
                began: Nanoseconds(0),
                between: Nanoseconds(1),
                outcome: outcome(instances),
                bill: Vec::new(),
            }
        };
        let share = at_once(&[ran([100, 80]), ran([100, 90])]).unwrap().1;
        assert!((share - 0.8).abs() < 1e-9, "{share}");
        let alone = TimedRun {
            began: Nanoseconds(0),
            between: Nanoseconds(1),
            outcome: outcome(Vec::new()),
            bill: Vec::new(),
        };
        assert_eq!(at_once(&[alone]), None);
    }
}
