//! Every text of the findings made safe to show: no format, and no new place in one, can forget to.
//!
//! A ledger may be anybody's. Its metrics, units, payers and reasons are names of ours only where
//! it is ours; elsewhere they may retitle a terminal or turn the direction of a line. What is read
//! is taken apart here field by field, so that a new field does not compile before somebody has
//! said what it is. The command alone stays as it is, word by word, for programs that read JSON;
//! whoever shows it to people quotes it first.

use crate::finding::findings::{
    AbsenceFindings, ArmFailure, ArmFindings, AttributedEnergy, BesideFindings, BesideOverhead,
    BillGap, CauseFindings, Caution, ConfirmedFindings, DistributionFindings, DisturbanceFinding,
    EnergyFindings, Findings, InstanceFindings, JudgementFindings, KeyValue, LevelEvidence,
    LevelTimelineFindings, MachineFindings, MeterFindings, MetricFindings, PayerFindings,
    PhaseFindings, QuantileFindings, RunFacts, SeriesFindings, TimePart, TimelineFindings,
    TrialPoint, UseFindings, Verdict, WhyFindings, WorkEnergy,
};
use crate::finding::foreign::{line, lines, on_one_line};
use std::collections::BTreeMap;

/// The same findings, in which no text acts on whoever sees it.
pub(crate) fn harmless(mut findings: Findings) -> Findings {
    tame(&mut findings);
    findings
}

/// Part of the findings that has texts, or is one.
trait Foreign {
    /// Makes its texts safe to show: those that are one line.
    fn tame(&mut self);
}

fn tame(part: &mut impl Foreign) {
    part.tame();
}

/// Makes a message of several lines one of a line, where every format has one for it.
fn join(text: &mut String) {
    *text = on_one_line(text);
    tame(text);
}

/// Makes text safe that has lines of its own.
fn keep_lines(text: &mut String) {
    *text = lines(text);
}

/// The same of text that may be there.
fn keep_any_lines(text: &mut Option<String>) {
    text.iter_mut().for_each(keep_lines);
}

/// Leaves what is no text, is ours, or is quoted by whoever shows it.
fn leave<T>(_: &mut T) {}

impl Foreign for String {
    fn tame(&mut self) {
        *self = line(self);
    }
}

impl<T: Foreign> Foreign for Vec<T> {
    fn tame(&mut self) {
        self.iter_mut().for_each(tame);
    }
}

impl<T: Foreign> Foreign for Option<T> {
    fn tame(&mut self) {
        self.iter_mut().for_each(tame);
    }
}

impl Foreign for BTreeMap<String, f64> {
    fn tame(&mut self) {
        *self = std::mem::take(self).into_iter().map(|(name, it)| (line(&name), it)).collect();
    }
}

impl Foreign for Verdict {
    fn tame(&mut self) {
        if let Verdict::Invalid { gap: _, reason } = self {
            join(reason);
        }
    }
}

/// Says of every field of a type what is done with it; a field that is not named does not compile.
macro_rules! foreign {
    ($($type:ident { $($act:ident: $($field:ident)+;)+ })+) => {
        $(impl Foreign for $type {
            fn tame(&mut self) {
                let Self { $($($field,)+)+ } = self;
                $($($act($field);)+)+
            }
        })+
    };
}

foreign! {
    Findings {
        tame: surtax_version run machine arms cautions;
        leave: schema_version noise_floor thresholds;
        tame: confirmed meters;
    }
    Caution { tame: code stacks; join: finding advice; }
    RunFacts {
        tame: id title workload cwd repeat_with began_at state baseline conduct about;
        leave: command seed blocks_planned blocks_done wall_ns equivalence_margin;
        leave: is_of_fixed_time precision plan_digest;
    }
    ArmFindings {
        tame: stack name part trials metrics histograms instances beside absences verdict payers;
        tame: bill_gap evidence stdout_hashes exit_statuses trouble why machines uses timeline;
        tame: energies time_parts;
        join: because;
        leave: arm trial_count disturbed_count repeated_count warm_up overhead block_count progress;
        leave: p_value p_value_adjusted detectable_effect more_blocks page_cache_bytes steals;
    }
    MeterFindings {
        tame: meter metric why doubt;
        leave: every_ns read_count failed_count late_count resolution_uw idle_uw step_uw delay_ns;
    }
    EnergyFindings {
        tame: meter metric of_work attributed;
        leave: energy_uj power_uw idle_uj dynamic_uj;
    }
    WorkEnergy { tame: metric unit; leave: energy_uj; }
    AttributedEnergy { tame: payer role; leave: level energy_uj; }
    MachineFindings { tame: name; leave: level amounts; }
    UseFindings { tame: resource; leave: inside whole overhead_ratio; }
    TimelineFindings { tame: phases levels; leave: block attempt every_ns; }
    PhaseFindings { tame: phase; leave: from_ns to_ns; }
    LevelTimelineFindings {
        tame: series;
        leave: level sample_count late_count clock_bound_ns at_ns;
    }
    SeriesFindings { tame: payer role quantity; leave: carries_workload is_rate values; }
    WhyFindings {
        tame: causes why_not_own;
        leave: baseline_ns extra unexplained counted_by spread_over;
        leave: baseline_spread_over;
    }
    ConfirmedFindings { tame: stack variant instead causes; join: because; leave: ratio verdict; }
    TimePart { tame: part; leave: ns; }
    CauseFindings {
        tame: cause what;
        leave: count baseline_count price_ns baseline_price_ns extra;
    }
    DistributionFindings { tame: metric; leave: value_count highest_ns points; }
    AbsenceFindings { tame: metric why; }
    LevelEvidence { tame: layer facts; }
    KeyValue { tame: key source; keep_lines: value; }
    ArmFailure { tame: remedy; keep_lines: why; keep_any_lines: stderr; }
    TrialPoint {
        tame: metrics state disturbances remedy;
        join: why;
        leave: block position attempt at_ns wall_ns start_ns usage;
    }
    DisturbanceFinding { tame: key what; leave: value limit; }
    MetricFindings {
        tame: metric unit better quantiles judgement;
        leave: median min max quartiles overhead overhead_at_look claimed_by;
    }
    QuantileFindings { tame: why; leave: p value low high confidence; }
    JudgementFindings {
        tame: verdict;
        join: because;
        leave: block_count more_blocks p_value p_value_adjusted detectable_effect noise_floor;
        leave: step_share;
    }
    InstanceFindings { tame: metric unit; leave: instance_count min max variation_ratio; }
    BesideFindings { tame: neighbour alone overheads; }
    BesideOverhead { tame: metric; leave: overhead; }
    PayerFindings { tame: payer role; leave: level cpu_ns amounts is_shared; }
    BillGap {
        tame: unread_payers why;
        leave: trial_count cpu_unseen_ns unseen_share partial_count;
    }
}

#[cfg(test)]
mod tests;
