//! For other programs: JSON of all findings, CSV with one row per arm and metric, or per trial.
//!
//! Field names are those of the findings and of the ledger, units included. What is unknown is an
//! empty field or `null`; it is never zero. The tests hold the names: a change shows in review.

use super::{ArmFindings, Findings, MetricFindings, Verdict};

/// Fields of [`csv`].
const METRIC_FIELDS: [&str; 18] = [
    "arm",
    "stack",
    "part",
    "trial_count",
    "metric",
    "unit",
    "better",
    "median",
    "min",
    "quartile_first",
    "quartile_third",
    "max",
    "overhead_ratio",
    "overhead_low",
    "overhead_high",
    "confidence",
    "verdict",
    "why",
];

/// Fields of [`csv_trials`].
const TRIAL_FIELDS: [&str; 12] = [
    "arm",
    "stack",
    "part",
    "block",
    "position",
    "attempt",
    "at_ns",
    "state",
    "wall_ns",
    "start_ns",
    "why",
    "disturbed",
];

/// All findings as one JSON object, ended by a line feed.
#[must_use]
pub fn json(findings: &Findings) -> String {
    // Findings hold strings, numbers and lists of them: nothing that JSON could refuse.
    let text = serde_json::to_string_pretty(findings);
    text.unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}")) + "\n"
}

/// One row per arm and metric, RFC 4180; an arm without numbers is one row that says why.
#[must_use]
pub fn csv(findings: &Findings) -> String {
    let mut text = row(METRIC_FIELDS.map(String::from));
    for arm in &findings.arms {
        if arm.metrics.is_empty() {
            text += &row(metric_row(arm, None));
        }
        for metric in &arm.metrics {
            text += &row(metric_row(arm, Some(metric)));
        }
    }
    text
}

/// One row per trial in the order of arms and time, RFC 4180; also those that do not count.
#[must_use]
pub fn csv_trials(findings: &Findings) -> String {
    let mut text = row(TRIAL_FIELDS.map(String::from));
    for arm in &findings.arms {
        for trial in &arm.trials {
            text += &row([
                arm.arm.to_string(),
                arm.stack.clone(),
                arm.part.clone(),
                trial.block.to_string(),
                trial.position.to_string(),
                trial.attempt.to_string(),
                trial.at_ns.to_string(),
                trial.state.clone(),
                or_empty(trial.wall_ns),
                or_empty(trial.start_ns),
                trial.why.clone(),
                trial.disturbed(),
            ]);
        }
    }
    text
}

/// The word for a verdict in every format.
#[must_use]
pub fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Baseline => "baseline",
        Verdict::Differs => "differs",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid { .. } => "invalid",
    }
}

fn metric_row(arm: &ArmFindings, metric: Option<&MetricFindings>) -> [String; 18] {
    let number = |of: &dyn Fn(&MetricFindings) -> f64| or_empty(metric.map(of));
    let word = |of: &dyn Fn(&MetricFindings) -> &str| metric.map_or("", of).to_owned();
    let overhead = metric.and_then(|metric| metric.overhead);
    let is_judged = metric.is_none_or(|metric| metric.metric == "wall_ns");
    let verdict = if is_judged { verdict_word(&arm.verdict) } else { "" };
    let why = match &arm.verdict {
        Verdict::Invalid { reason } => reason.as_str(),
        _ => "",
    };
    [
        arm.arm.to_string(),
        arm.stack.clone(),
        arm.part.clone(),
        arm.trial_count.to_string(),
        word(&|it| &it.metric),
        word(&|it| &it.unit),
        word(&|it| &it.better),
        number(&|it| it.median),
        number(&|it| it.min),
        number(&|it| it.quartiles.0),
        number(&|it| it.quartiles.1),
        number(&|it| it.max),
        or_empty(overhead.map(|it| it.ratio)),
        or_empty(overhead.map(|it| it.low)),
        or_empty(overhead.map(|it| it.high)),
        or_empty(overhead.map(|it| it.confidence)),
        verdict.into(),
        why.into(),
    ]
}

fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// One record of CSV by RFC 4180, ended by its line break.
#[must_use]
pub fn row(fields: impl IntoIterator<Item = String>) -> String {
    let quoted = fields.into_iter().map(|field| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::tests::example;
    use serde_json::Value;

    fn names(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_fields_of_json_are_promised() {
        let findings: Value = serde_json::from_str(&json(&example(6, |_| {}))).unwrap();
        // In alphabetical order.
        assert_eq!(
            names(&findings).join(" "),
            "arms cautions machine noise_floor run schema_version surtax_version"
        );
        let arm = &findings["arms"][2];
        assert_eq!(
            names(arm).join(" "),
            "arm because disturbed_count evidence exit_statuses metrics name overhead part payers \
             repeated_count stack stdout_hashes trial_count trials trouble verdict \
             warm_up"
        );
        assert_eq!(
            names(&arm["metrics"][0]).join(" "),
            "better max median metric min overhead quartiles unit"
        );
        assert_eq!(names(&arm["metrics"][0]["overhead"]).join(" "), "confidence high low ratio");
        assert_eq!(
            names(&arm["trials"][0]).join(" "),
            "at_ns attempt block disturbances position start_ns state wall_ns why"
        );
        assert_eq!(
            names(&arm["payers"][0]).join(" "),
            "cpu_ns cpu_system_ns cpu_user_ns level memory_peak_bytes payer role"
        );
        assert_eq!(
            names(&findings["run"]).join(" "),
            "baseline began_at blocks_done blocks_planned command conduct cwd equivalence_margin id \
             precision repeat_with seed state title wall_ns"
        );
        assert_eq!(arm["stack"], "runc");
        assert_eq!(arm["verdict"]["is"], "differs");
        assert_eq!(findings["arms"][3]["verdict"]["is"], "invalid");
        assert_eq!(findings["arms"][3]["metrics"], serde_json::json!([]));
    }

    #[test]
    fn a_gap_is_one_row_with_a_reason_and_without_numbers() {
        let text = csv(&example(6, |_| {}));
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines[0],
            "arm,stack,part,trial_count,metric,unit,better,median,min,quartile_first,\
             quartile_third,max,overhead_ratio,overhead_low,overhead_high,confidence,verdict,why"
        );
        assert_eq!(lines.len(), 1 + 3 * 9 + 1);
        let gap = "3,qemu,compared,0,,,,,,,,,,,,,invalid,`/dev/kvm` boots no guest\\u{1b}[2J";
        assert_eq!(*lines.last().unwrap(), gap);
        assert!(lines[1].starts_with("0,native,baseline,6,wall_ns,ns,lower,100"), "{}", lines[1]);
    }

    #[test]
    fn every_trial_is_one_row_whether_it_counts_or_not() {
        let text = csv_trials(&example(6, |_| {}));
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines[0],
            "arm,stack,part,block,position,attempt,at_ns,state,wall_ns,start_ns,why,disturbed"
        );
        assert_eq!(lines[1], "0,native,baseline,0,0,1,0,done,1000000000,5000000,,");
        assert_eq!(lines.len(), 1 + 3 * 6 + 1);
        assert!(
            lines.last().unwrap().contains(",unavailable,,5000000,"),
            "{}",
            lines.last().unwrap()
        );
    }

    #[test]
    fn a_field_that_would_break_a_row_is_quoted() {
        let fields = ["a,b", "say \"no\"", "plain"].map(String::from);
        assert_eq!(row(fields), "\"a,b\",\"say \"\"no\"\"\",plain\r\n");
    }
}
