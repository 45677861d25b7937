//! Finds what meters say of each stack: energy, idle and dynamic apart, and whose CPU time the
//! latter went with.

use crate::fault::Fault;
use crate::finding::energy_words::power;
use crate::finding::trial_metric::WALL;
use crate::finding::{
    ArmFindings, AttributedEnergy, EnergyFindings, MeterFindings, WorkEnergy, estimate, foreign,
};
use crate::ledger::{KnownMeter, Ledger};
use crate::workload::metric::is_of_a_meter;

/// Returns the meters of a run.
///
/// # Errors
/// The ledger's.
pub(crate) fn of(ledger: &Ledger) -> Result<Vec<MeterFindings>, Fault> {
    let meters = ledger.meters()?;
    let found = |it: &KnownMeter| MeterFindings {
        meter: foreign::line(&it.meter),
        metric: foreign::line(&it.metric),
        every_ns: it.every.0,
        read_count: it.counted.read,
        failed_count: it.counted.failed,
        late_count: it.counted.late,
        resolution_uw: it.counted.resolution_uw,
        idle_uw: it.calibrated.idle_uw,
        step_uw: it.calibrated.step_uw,
        delay_ns: it.calibrated.delay.map(|delay| delay.0),
        why: it.counted.failure.clone(),
        doubt: doubt(it, &meters),
    };
    Ok(meters.iter().map(found).collect())
}

/// Everybody on this machine who is in no bill.
const OTHERS: &str = "others on this machine";

/// The resource of which the whole machine's use is known.
const CPU: &str = "cpu_ns";

/// Two meters of the whole machine see the same load, but for what a power supply loses.
const AGREE: f64 = 1.5;

/// Says which meter saw the load before the run otherwise than this one, where one of them must be
/// wrong: all that a machine takes is one number, and no part of it is more.
fn doubt(of: &KnownMeter, meters: &[KnownMeter]) -> Option<String> {
    let step = |it: &KnownMeter| it.calibrated.step_uw.and_then(|step| u64::try_from(step).ok());
    let own = step(of).map(estimate::float).filter(|_| of.sees_all)?;
    meters.iter().filter(|other| other.metric != of.metric).find_map(|other| {
        let theirs = step(other).map(estimate::float)?;
        let is_less = other.sees_all && own > theirs * AGREE;
        (is_less || theirs > own * AGREE).then(|| {
            let [theirs, own] = [theirs, own].map(power);
            format!("but for the same load `{}` saw {theirs}, and this one {own}", other.meter)
        })
    })
}

/// Adds to each arm what the meters say of it.
pub(crate) fn add_to(arms: &mut [ArmFindings], meters: &[MeterFindings]) {
    for arm in arms {
        arm.energies = meters.iter().filter_map(|meter| energy(arm, meter)).collect();
        // This host has read them, and nobody else has said them.
        let read = arm.metrics.iter_mut();
        let read = read.filter(|it| {
            is_of_a_meter(&it.metric) && meters.iter().any(|meter| meter.metric == it.metric)
        });
        read.for_each(|it| it.claimed_by = None);
    }
}

fn energy(arm: &ArmFindings, meter: &MeterFindings) -> Option<EnergyFindings> {
    let energy_uj = arm.metric(&meter.metric)?.median;
    let wall_s = arm.metric(WALL).map(|it| it.median / 1e9).filter(|wall_s| *wall_s > 0.0)?;
    let idle_uj = meter.idle_uw.map(|idle_uw| estimate::float(idle_uw) * wall_s);
    // Of a meter that does not see the load, nothing is the load's.
    let sees = meter.step_uw.is_some_and(|step| step > 0);
    let dynamic_uj = idle_uj.filter(|_| sees).map(|idle_uj| energy_uj - idle_uj);
    Some(EnergyFindings {
        meter: meter.meter.clone(),
        metric: meter.metric.clone(),
        energy_uj,
        power_uw: energy_uj / wall_s,
        idle_uj,
        dynamic_uj,
        of_work: of_work(arm, energy_uj / wall_s),
        attributed: attributed(arm, dynamic_uj.unwrap_or(0.0)),
    })
}

/// Divides power by every rate of work.
fn of_work(arm: &ArmFindings, power_uw: f64) -> Vec<WorkEnergy> {
    let rates = arm.metrics.iter().filter(|it| it.median > 0.0);
    rates
        .filter_map(|it| {
            let unit = it.unit.strip_suffix("/s")?.to_owned();
            let (metric, energy_uj) = (it.metric.clone(), power_uw / it.median);
            Some(WorkEnergy { metric, unit, energy_uj })
        })
        .collect()
}

/// Divides energy by the CPU time of payers and of everybody else on this machine; nobody has any
/// where there is none to divide.
fn attributed(arm: &ArmFindings, dynamic_uj: f64) -> Vec<AttributedEnergy> {
    let whole = arm.uses.iter().find(|it| it.resource == CPU).map_or(0.0, |it| it.whole);
    let paid: f64 = arm.payers.iter().map(|payer| payer.cpu_ns).sum();
    let all_ns = paid.max(whole);
    if dynamic_uj <= 0.0 || all_ns <= 0.0 {
        return Vec::new();
    }
    let part = |cpu_ns: f64| dynamic_uj * cpu_ns / all_ns;
    let payers = arm.payers.iter().filter(|payer| payer.cpu_ns > 0.0);
    let mut parts: Vec<_> = payers
        .map(|payer| AttributedEnergy {
            payer: payer.payer.clone(),
            role: payer.role.clone(),
            level: payer.level,
            energy_uj: part(payer.cpu_ns),
        })
        .collect();
    if whole > paid {
        parts.push(AttributedEnergy {
            payer: String::from(OTHERS),
            role: String::from("others"),
            level: 0,
            energy_uj: part(whole - paid),
        });
    }
    parts
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::meter::{Calibrated, MeterSpec, Used};
    use crate::trial::TrialResult;

    /// A meter that was good.
    pub(crate) fn meter() -> MeterFindings {
        MeterFindings {
            meter: String::from("snmp:host=pdu"),
            metric: String::from("energy_snmp_uj"),
            every_ns: 1_000_000_000,
            read_count: 9,
            failed_count: 0,
            late_count: 0,
            resolution_uw: Some(1_000_000),
            idle_uw: Some(12_500_000),
            step_uw: Some(25_000_000),
            delay_ns: Some(0),
            why: None,
            doubt: None,
        }
    }

    #[test]
    fn energy_is_idle_and_dynamic_and_what_is_attributed_sums_to_the_latter() {
        // Each trial takes about a second.
        let findings = example(6, |record| {
            if matches!(record.result, TrialResult::Done(_)) {
                record.energies = vec![(String::from("energy_snmp_uj"), Used::Energy(37_500_000))];
            }
        });
        let mut arms = findings.arms.clone();
        add_to(&mut arms, &[meter()]);
        let found = &arms[0].energies[0];
        assert!((found.power_uw / 37.5e6 - 1.0).abs() < 0.05, "{found:?}");
        let dynamic = found.dynamic_uj.unwrap();
        assert!((dynamic + found.idle_uj.unwrap() - found.energy_uj).abs() < 1e-3);
        let sum: f64 = found.attributed.iter().map(|it| it.energy_uj).sum();
        assert!((sum / dynamic - 1.0).abs() < 1e-9 && found.attributed.len() >= 2, "{found:?}");
        // It is a metric like any other, with an overhead, and no claim of the workload's.
        let metric = arms[2].metric("energy_snmp_uj").unwrap();
        assert!(metric.overhead.is_some() && metric.claimed_by.is_none(), "{metric:?}");
    }

    #[test]
    fn meters_that_cannot_both_be_right_are_told_and_others_are_not() {
        let of = |name: &str, step_w: i64| KnownMeter {
            meter: name.into(),
            sees_all: MeterSpec::parse(name).unwrap().sees_all(),
            metric: format!("energy_{}_uj", name.split(':').next().unwrap()),
            calibrated: Calibrated { step_uw: Some(step_w * 1_000_000), ..Calibrated::default() },
            ..KnownMeter::default()
        };
        let said = |all: [KnownMeter; 2]| doubt(&all[0], &all);
        // A unit whose scale is ten times too large, and one that is right.
        let wrong = said([of("snmp:host=pdu,preset=apc", 250), of("ipmi", 25)]).unwrap();
        assert_eq!(wrong, "but for the same load `ipmi` saw 25.0 W, and this one 250.0 W");
        assert_eq!(said([of("snmp:host=pdu,preset=apc", 28), of("ipmi", 25)]), None);
        // Processors take a part of what their machine takes.
        assert!(said([of("ipmi", 25), of("rapl", 60)]).unwrap().contains("`rapl` saw 60.0 W"));
        assert_eq!(said([of("ipmi", 25), of("rapl", 15)]), None);
        assert_eq!(said([of("rapl", 15), of("ipmi", 25)]), None);
        assert_eq!(said([of("ipmi", 25), of("hwmon:chip=gpu", 1)]), None);
    }

    #[test]
    fn a_unit_of_work_has_the_energy_of_the_power_by_its_rate() {
        let findings = example(6, |_| {});
        let mut arm = findings.arms[0].clone();
        let mut rate = arm.metrics[0].clone();
        (rate.metric, rate.unit, rate.median) = ("requests".into(), "1/s".into(), 5_000.0);
        arm.metrics.push(rate);
        let work = of_work(&arm, 25e6);
        assert_eq!(work.len(), 1, "{work:?}");
        assert_eq!((work[0].unit.as_str(), work[0].energy_uj), ("1", 5_000.0));
    }

    #[test]
    fn without_idle_power_nothing_is_divided_and_without_readings_nothing_is_said() {
        let findings = example(6, |_| {});
        let mut arms = findings.arms.clone();
        add_to(&mut arms, &[meter()]);
        assert!(arms.iter().all(|arm| arm.energies.is_empty()));
        assert!(attributed(&arms[0], -1.0).is_empty());
    }
}
