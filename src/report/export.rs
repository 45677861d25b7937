//! For other programs: JSON of all findings, CSV with one row per arm and metric, or per trial.
//!
//! Field names are those of the findings and of the ledger, units included. What is unknown is an
//! empty field or `null`; it is never zero. The tests hold the names: a change shows in review.

use super::metric_fields::{self, FIELDS, Row};
use super::trials::{self, Column};
use crate::finding::workload::absent;
use crate::finding::{Findings, foreign};

/// All findings as one JSON object, ended by a line feed.
#[must_use]
pub fn json(findings: &Findings) -> String {
    // Findings hold strings, numbers and lists of them: nothing that JSON could refuse.
    super::json::pretty(findings).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}\n"))
}

/// One row per arm and metric, RFC 4180; an arm without numbers is one row that says why, and so is
/// a metric that its workload could not measure.
#[must_use]
pub fn csv(findings: &Findings) -> String {
    let mut text = row(FIELDS.map(|(name, _)| name.to_owned()));
    for arm in &findings.arms {
        if arm.metrics.is_empty() {
            text += &row(Row::of(arm, None).values());
        }
        for metric in &arm.metrics {
            text += &row(Row::of(arm, Some(metric)).values());
        }
        for absence in absent(arm) {
            text += &row(metric_fields::absence(arm, absence));
        }
    }
    text
}

/// One row per trial in the order of arms and time, RFC 4180; also those that do not count. What a
/// workload measures stands in columns of its own, behind the others.
#[must_use]
pub fn csv_trials(findings: &Findings) -> String {
    let columns = trials::columns(findings);
    let mut text = row(columns.iter().map(|column| column.name.clone()));
    for at in 0..columns.first().map_or(0, Column::len) {
        text += &row(columns.iter().map(|column| column.text(at)));
    }
    text
}

/// One record of CSV by RFC 4180, ended by its line break; what acts instead of being seen is an
/// escape. A text that a spreadsheet would take for a formula begins with an apostrophe.
///
/// Source: OWASP, "CSV Injection".
#[must_use]
pub fn row(fields: impl IntoIterator<Item = String>) -> String {
    let cell = |field: String| {
        let mut cell = foreign::line(&field);
        if cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err() {
            cell.insert(0, '\'');
        }
        match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        }
    };
    fields.into_iter().map(cell).collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
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
            "arms cautions machine noise_floor run schema_version surtax_version thresholds"
        );
        let arm = &findings["arms"][2];
        assert_eq!(
            names(arm).join(" "),
            "absences arm because beside bill_gap block_count detectable_effect disturbed_count \
             evidence exit_statuses histograms instances metrics more_blocks name overhead p_value \
             p_value_adjusted page_cache_bytes part payers progress repeated_count stack \
             stdout_hashes time_parts trial_count trials trouble verdict warm_up"
        );
        assert_eq!(
            names(&arm["metrics"][0]).join(" "),
            "better claimed_by judgement max median metric min overhead quantiles quartiles unit"
        );
        assert_eq!(
            names(&arm["metrics"][0]["quantiles"][0]).join(" "),
            "confidence high low p value why"
        );
        assert_eq!(names(&arm["progress"][0]).join(" "), "block_count confidence high low ratio");
        assert_eq!(names(&arm["metrics"][0]["overhead"]).join(" "), "confidence high low ratio");
        assert_eq!(
            names(&arm["trials"][0]).join(" "),
            "at_ns attempt block cpu_others_ns cpu_system_ns cpu_user_ns disturbances \
             memory_others_page_cache_bytes memory_others_peak_bytes memory_peak_bytes \
             memory_shared_peak_bytes metrics position remedy start_ns state wall_ns why"
        );
        assert_eq!(
            names(&arm["payers"][0]).join(" "),
            "cpu_ns cpu_system_ns cpu_user_ns is_shared level memory_peak_bytes payer role"
        );
        assert_eq!(
            names(&findings["run"]).join(" "),
            "baseline began_at blocks_done blocks_planned command conduct cwd equivalence_margin \
             id is_of_fixed_time precision repeat_with seed state title wall_ns workload"
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
             quartile_third,max,overhead_ratio,overhead_low,overhead_high,confidence,verdict,why,\
             because,block_count,more_blocks,p_value,p_value_adjusted,detectable_effect,p50_low,\
             p50_high,p90,p90_low,p90_high,p99,p99_low,p99_high,instance_min,instance_max,instance_variation_ratio,alone_ratio,alone_low,alone_high"
        );
        assert_eq!(lines.len(), 1 + 3 * 9 + 1);
        let gap = "3,qemu,compared,0,,,,,,,,,,,,,not available,`/dev/kvm` boots no guest\\u{1b}[2J,\
                   no number of it counts: `/dev/kvm` boots no guest\\u{1b}[2J,,,,,,,,,,,,,,,,,,,";
        assert_eq!(*lines.last().unwrap(), gap);
        assert!(lines[1].starts_with("0,native,baseline,6,wall_ns,ns,lower,100"), "{}", lines[1]);
    }

    #[test]
    fn a_quantile_that_so_few_trials_do_not_support_is_empty_and_the_reason_is_in_the_json() {
        let findings: Value = serde_json::from_str(&json(&example(10, |_| {}))).unwrap();
        let quantiles = &findings["arms"][2]["metrics"][0]["quantiles"];
        assert!(quantiles[0]["low"].is_number() && quantiles[0]["why"].is_null(), "{quantiles}");
        assert!(quantiles[2]["value"].is_null(), "{quantiles}");
        let why = "an interval of this quantile takes 368 values, there are 10";
        assert_eq!(quantiles[2]["why"], why);
        assert_eq!(findings["arms"][2]["metrics"][1]["quantiles"], serde_json::json!([]));
        let text = csv(&example(10, |_| {}));
        let row = text.lines().find(|row| row.starts_with("2,runc,compared,10,wall_ns")).unwrap();
        assert!(row.contains(",differs,,") && row.ends_with(",,,,,,"), "{row}");
    }

    #[test]
    fn every_trial_is_one_row_whether_it_counts_or_not() {
        let text = csv_trials(&example(6, |_| {}));
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines[0],
            "arm,stack,part,block,position,attempt,at_ns,state,wall_ns,start_ns,why,disturbed,\
             cpu_user_ns,cpu_system_ns,cpu_others_ns,memory_peak_bytes,memory_others_peak_bytes,\
             memory_others_page_cache_bytes,memory_shared_peak_bytes,is_counted,run_id,run_title,\
             run_began_at,machine_hash"
        );
        // Level 0 counts the command too: the others are what is left of 1,000,151,000 ns.
        let first = "0,native,baseline,0,0,1,0,done,1000000000,5000000,,,1000000000,1000,150000,\
                     20971520,41943040,,,true,";
        assert!(lines[1].starts_with(first), "{}", lines[1]);
        assert_eq!(lines.len(), 1 + 3 * 6 + 1);
        assert!(
            lines.last().unwrap().contains(",unavailable,,5000000,")
                && lines.last().unwrap().contains(",,,,,,,false,"),
            "{}",
            lines.last().unwrap()
        );
    }

    #[test]
    fn a_field_that_would_break_a_row_is_quoted() {
        let fields = ["a,b", "say \"no\"", "plain"].map(String::from);
        assert_eq!(row(fields), "\"a,b\",\"say \"\"no\"\"\",plain\r\n");
    }

    #[test]
    fn a_text_that_a_spreadsheet_would_execute_is_a_text_and_a_number_stays_one() {
        let fields = ["=1+1", "@SUM(A1)", "-x,y", "-1.5e-3", "+3", "inf"].map(String::from);
        assert_eq!(row(fields), "'=1+1,'@SUM(A1),\"'-x,y\",-1.5e-3,+3,inf\r\n");
    }
}
