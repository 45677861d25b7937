//! Clocks of levels that ran wrong beside the host's.

use crate::fault::Fault;
use crate::finding::Caution;
use crate::finding::arm_trials::ArmTrials;
use crate::finding::caution::caution;
use crate::finding::foreign::line;
use crate::ledger::{Ledger, StoredTrial};

/// Words for a clock that ran wrong where nothing shows how.
const RAN_WRONG: &str = "ran wrong";

/// Trials whose own time says nothing.
///
/// # Errors
/// The ledger's.
pub(crate) fn caution_of(
    ledger: &Ledger,
    columns: &[ArmTrials<'_>],
) -> Result<Option<Caution>, Fault> {
    let is_void = |trial: &&&StoredTrial| {
        trial.sample("wall_ns").is_some() && trial.sample("wall_inside_ns").is_none()
    };
    let found = columns
        .iter()
        .find_map(|column| Some((&column.arm.stack, column.counted.iter().find(is_void)?)));
    let Some((stack, trial)) = found else { return Ok(None) };
    let how = |begins: &str| {
        let of = |key: &str| {
            Ok(ledger.conditions_of(&format!("{begins}{key}"))?.get(&trial.id).copied())
        };
        Ok(how(of("clock_rate_low_ppm")?, of("clock_rate_high_ppm")?, of("clock_back_count")?))
    };
    let stack = line(&stack.to_string());
    let (how, whose) = match (how("")?, how("client_")?) {
        (inside, client) if inside == RAN_WRONG && client != RAN_WRONG => {
            (client, "of the client beside")
        }
        (inside, _) => (inside, "inside"),
    };
    Ok(Some(caution(
        "guest-clock",
        format!(
            "the clock {whose} `{stack}` {how}, so what was measured in its time is left out: the \
             CPU time of the command, the time it saw, and what a workload measured"
        ),
        "trust the wall time, which is this machine's; see `inside_clocksource` in the evidence",
    )))
}

fn how(low_ppm: Option<f64>, high_ppm: Option<f64>, back_count: Option<f64>) -> String {
    match (low_ppm, high_ppm) {
        _ if back_count.is_some_and(|count| count > 0.0) => String::from("went back"),
        (Some(low), _) if low > 0.0 => format!("gained at least {low:.0} millionths"),
        (_, Some(high)) if high < 0.0 => format!("lost at least {:.0} millionths", -high),
        _ => String::from(RAN_WRONG),
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::compare;
    use crate::finding::guest_clock::how;
    use crate::ledger::Ledger;
    use crate::ledger::fixture::{add, id, ledger, measured, record};
    use crate::trial::TrialResult;

    #[test]
    fn times_of_a_clock_that_ran_wrong_are_left_out_and_the_rate_is_said() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.surtax");
        let mut written = ledger(&file, &["native", "runc"]);
        for (block, arm) in (0..3).flat_map(|block| (0..3).map(move |arm| (block, arm))) {
            let mut one = measured(1_000_000_000);
            one.is_guest_time_void = arm == 2;
            let mut record = record(id(block, arm), TrialResult::Done(Box::new(one)));
            record.conditions.push((String::from("clock_rate_low_ppm"), 1_234.0));
            add(&mut written, &record);
        }
        drop(written);
        let findings = compare(&Ledger::open(&file).unwrap()).unwrap();
        let caution = findings.cautions.iter().find(|it| it.code == "guest-clock").unwrap();
        assert!(caution.finding.contains("`runc` gained at least 1234 millionths"), "{caution:?}");
        let has = |arm: usize, metric: &str| {
            findings.arms[arm].metrics.iter().any(|found| found.metric == metric)
        };
        assert!(has(0, "cpu_user_ns") && !has(2, "cpu_user_ns") && has(2, "wall_ns"));
    }

    #[test]
    fn a_clock_is_said_to_gain_lose_or_go_back() {
        assert_eq!(how(Some(-900.0), Some(-300.4), Some(0.0)), "lost at least 300 millionths");
        assert_eq!(how(Some(-10.0), Some(10.0), Some(1.0)), "went back");
    }
}
