//! The caution that a workload prints a time which is longer than its command ran.
//!
//! It may be a sum over many who waited at once, or no length of time at all. That it was measured
//! in this command nobody can confirm. A histogram is held to the rule in its trial, which does not
//! count: see `trial/held_against.rs`.

use crate::finding::caution::signs::{Signs, caution};
use crate::finding::estimate::float;
use crate::finding::foreign::line;
use crate::finding::trial_metric::{WALL, is_of_every_trial};
use crate::finding::{ArmFindings, Caution, MetricFindings, number};
use crate::trial::longest_measured;
use std::time::Duration;

pub(super) fn caution_of(signs: &Signs<'_>) -> Option<Caution> {
    let (arm, first) = signs.arms.iter().find_map(|arm| Some((arm, longer(arm)?)))?;
    let stacks = signs.stacks(|_, arm| longer(arm).is_some())?;
    Some(caution(
        "longer-than-command",
        format!(
            "in {stacks} `{}` is a longer time than any command ran there, in `{}` up to {} where none \
             ran for more than {}: it is the workload's claim, and no part of it was seen",
            line(&first.metric),
            arm.name,
            number::time(first.max),
            number::time(wall(arm)?),
        ),
        "if it is a sum over many at once, divide it; else look at the workload's unit and pattern",
    ).of_those(stacks))
}

fn wall(arm: &ArmFindings) -> Option<f64> {
    arm.metric(WALL).map(|metric| metric.max)
}

/// The first time that a workload measured which is longer than its command.
fn longer(arm: &ArmFindings) -> Option<&MetricFindings> {
    let wall = Duration::try_from_secs_f64(wall(arm)? / 1e9).ok()?;
    let most = float(longest_measured(wall.into()).0);
    let of_workload = arm.metrics.iter().filter(|it| !is_of_every_trial(&it.metric));
    of_workload.filter(|it| it.unit == "ns").find(|it| it.max > most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn a_time_that_its_command_cannot_have_held_is_the_workloads_claim() {
        let findings = example(6, |_| {});
        let arm = &findings.arms[2];
        let wall = wall(arm).unwrap();
        let of = |metric: &str, unit: &str, max: f64| MetricFindings {
            metric: metric.into(),
            unit: unit.into(),
            max,
            ..arm.metrics[0].clone()
        };
        let found = |metric: MetricFindings| {
            let arm = ArmFindings { metrics: vec![arm.metrics[0].clone(), metric], ..arm.clone() };
            longer(&arm).map(|it| it.metric.clone())
        };
        assert_eq!(arm.metrics[0].metric, WALL);
        assert_eq!(found(of("took", "ns", 3.6e12)).as_deref(), Some("took"));
        assert_eq!(found(of("took", "ns", wall)), None);
        assert_eq!(found(of("rate", "1/s", 3.6e12)), None);
        assert_eq!(found(of("start_ns", "ns", 3.6e12)), None, "it is not in the command");
    }
}
