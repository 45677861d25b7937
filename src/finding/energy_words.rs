//! Energy by meters in words and rows, for every format.

use crate::finding::{ArmFindings, EnergyFindings, Findings, MeterFindings, estimate, number};

/// The heading of a table of energies; a `#` stands before columns of numbers.
pub(crate) const HEADINGS: [&str; 7] =
    ["Stack", "Meter", "#Power", "#Energy", "#Idle", "#Dynamic", "Dynamic, by CPU time"];

/// Explains the table.
pub(crate) const ENERGIES_ARE: &str = "Median energy of a run of the command, of all that the \
    meter sees. Idle is what that took before the run, over the same time; dynamic is the rest, \
    divided by CPU time: an attribution, and no measurement.";

/// Smallest step that a meter is said to have: those of a counter are chance.
const STEP_LEAST_UW: u64 = 50_000;

/// As many payers are named.
const PAYERS_MAX: usize = 3;

/// Power for people.
pub(crate) fn power(microwatts: f64) -> String {
    format!("{:.1} W", microwatts / 1e6)
}

/// Lists what each meter says of every arm but the second of the baseline.
pub(crate) fn all(findings: &Findings) -> impl Iterator<Item = (&ArmFindings, &EnergyFindings)> {
    let arms = findings.arms.iter().filter(|arm| !arm.is_again());
    arms.flat_map(|arm| arm.energies.iter().map(move |of| (arm, of)))
}

/// The cells of one row behind the name of its stack.
pub(crate) fn cells(of: &EnergyFindings) -> [String; 6] {
    let known =
        |microjoules: Option<f64>| microjoules.map_or_else(|| number::GAP.into(), number::energy);
    let [idle, dynamic] = [of.idle_uj, of.dynamic_uj].map(known);
    let meter = short(&of.metric).to_owned();
    [meter, power(of.power_uw), number::energy(of.energy_uj), idle, dynamic, shares(of)]
}

/// Name of a meter in a table, from that of its metric: `snmp`, `snmp_2`.
pub(crate) fn short(metric: &str) -> &str {
    let metric = metric.strip_prefix("energy_").unwrap_or(metric);
    metric.strip_suffix("_uj").unwrap_or(metric)
}

/// Names who used most of the dynamic energy, by CPU time.
pub(crate) fn shares(of: &EnergyFindings) -> String {
    let mut largest: Vec<_> = of.attributed.iter().collect();
    largest.sort_by(|a, b| b.energy_uj.total_cmp(&a.energy_uj));
    let shares = largest.into_iter().take(PAYERS_MAX);
    let shares = shares.map(|it| format!("{} {}", it.payer, number::energy(it.energy_uj)));
    shares.collect::<Vec<_>>().join(", ")
}

/// Says what a unit of the work took in each stack, for the first rate that the workload measured;
/// `None` where it measured none.
pub(crate) fn of_work(findings: &Findings) -> Option<String> {
    let found =
        || all(findings).flat_map(|(arm, of)| of.of_work.iter().map(move |it| (arm, of, it)));
    let (_, by, first) = found().next()?;
    let same = found().filter(|(_, of, it)| of.metric == by.metric && it.metric == first.metric);
    let (units, unit) = match first.unit.as_str() {
        "bytes" => (1e9, "GB"),
        "bit" => (1e9, "Gbit"),
        _ => (1e3, "1,000"),
    };
    let each =
        same.map(|(arm, _, it)| format!("{} {}", arm.name, number::energy(it.energy_uj * units)));
    let each = each.collect::<Vec<_>>().join(", ");
    let (metric, meter) = (&first.metric, short(&by.metric));
    Some(format!("Energy for {unit} of `{metric}` as the workload says, by `{meter}`: {each}."))
}

/// Says what was found of a meter.
pub(crate) fn meter(of: &MeterFindings) -> String {
    let time = |ns: u64| number::time(estimate::float(ns));
    let mut said = vec![format!("read every {}", time(of.every_ns))];
    said.extend(of.idle_uw.map(|idle| format!("{} idle", power(estimate::float(idle)))));
    said.push(match of.step_uw {
        Some(step) if step < 0 => {
            String::from("less the more a machine does: is it the right one?")
        }
        Some(step) => {
            format!("{} more with all CPUs busy", power(estimate::float(step.unsigned_abs())))
        }
        None => String::from("no more with all CPUs busy: it does not see what this machine does"),
    });
    said.push(match of.delay_ns {
        Some(delay) => format!("{} late", time(delay)),
        None => String::from("late by an unknown time"),
    });
    said.extend(
        of.resolution_uw
            .filter(|step| *step >= STEP_LEAST_UW)
            .map(|step| format!("in steps of {}", power(estimate::float(step)))),
    );
    if of.failed_count > 0 {
        let all = of.read_count.saturating_add(of.failed_count);
        let why = of.why.as_deref().unwrap_or("nobody says why");
        said.push(format!("{} of {all} readings failed: {why}", of.failed_count));
    }
    said.extend((of.late_count > 0).then(|| format!("{} readings came late", of.late_count)));
    said.extend(of.doubt.clone());
    format!("{} (`{}`): {}", short(&of.metric), of.meter, said.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::meters::tests::meter as example;

    #[test]
    fn what_is_wrong_with_a_meter_is_said() {
        let good = MeterFindings {
            meter: String::from("ipmi"),
            metric: String::from("energy_ipmi_uj"),
            every_ns: 2_000_000_000,
            delay_ns: Some(500_000_000),
            ..example()
        };
        assert_eq!(
            meter(&good),
            "ipmi (`ipmi`): read every 2.000 s, 12.5 W idle, 25.0 W more with all CPUs busy, \
             500.0 ms late, in steps of 1.0 W"
        );
        let blind = MeterFindings { step_uw: None, delay_ns: None, ..good.clone() };
        assert!(meter(&blind).contains("it does not see what this machine does"));
        let wrong = MeterFindings { step_uw: Some(-1), failed_count: 3, late_count: 1, ..good };
        let said = meter(&wrong);
        assert!(said.contains("is it the right one?"), "{said}");
        assert!(said.contains("3 of 12 readings failed: nobody says why, 1 readings came late"));
    }
}
