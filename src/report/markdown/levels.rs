//! Whole machines, and who used what over time, as tables of Markdown.

use super::{name, plain, sentence, table};
use crate::finding::apart;
use crate::finding::energy_words::{self, ENERGIES_ARE};
use crate::finding::level_words::{
    self, STEALS, STEALS_ARE, USES, USES_ARE, agreement, amount, more, resource,
};
use crate::finding::number::{self, GAP};
use crate::finding::over_time::{ASPECTS, PayerRow, caption, rows, watched};
use crate::finding::{ArmFindings, Findings};

/// Accounts of each kernel; empty where no machine was read.
pub(super) fn machines(findings: &Findings) -> String {
    let uses: Vec<Vec<String>> = of_each(findings, |arm| {
        let row = |of| {
            let whole = [amount(of, of.inside), amount(of, of.whole), more(of)];
            [name(arm), resource(of).into()].into_iter().chain(whole).collect()
        };
        arm.uses.iter().map(row).collect()
    });
    if uses.is_empty() {
        return String::new();
    }
    let mut text = format!("## What each kernel counted\n\n{}", table(&USES, uses));
    text += &format!("{}\n\n", sentence(USES_ARE));
    let time = |ns: Option<f64>| ns.map_or_else(|| GAP.into(), number::time);
    let steals = of_each(findings, |arm| {
        let row = |of: &crate::finding::StealFindings| {
            let times = [of.inside_ns, of.waited_ns, of.throttled_ns].map(time);
            let ends = [agreement(of.agreement).to_owned()];
            [name(arm), of.level.to_string()].into_iter().chain(times).chain(ends).collect()
        };
        arm.steals.iter().map(row).collect()
    });
    if !steals.is_empty() {
        text += &format!("{}{}\n\n", table(&STEALS, steals), sentence(STEALS_ARE));
    }
    text
}

/// Parts of each stack's time; empty where nobody's is divided.
pub(super) fn apart(findings: &Findings) -> String {
    let Some((headings, rows)) = apart::table(findings) else { return String::new() };
    let row = |(arm, cells): (&ArmFindings, Vec<f64>)| {
        std::iter::once(name(arm)).chain(cells.into_iter().map(apart::cell)).collect()
    };
    let table = table(&headings, rows.into_iter().map(row));
    format!("## Where the time was\n\n{table}{}\n\n", sentence(apart::PARTS_ARE))
}

/// Energies by meters; empty where there are none.
pub(super) fn energies(findings: &Findings) -> String {
    if findings.meters.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = energy_words::all(findings)
        .map(|(arm, of)| {
            let cells = energy_words::cells(of);
            std::iter::once(plain(&arm.name)).chain(cells.iter().map(|it| plain(it))).collect()
        })
        .collect();
    let meters =
        findings.meters.iter().map(|it| format!("- {}\n", sentence(&energy_words::meter(it))));
    let rows = if rows.is_empty() { String::new() } else { table(&energy_words::HEADINGS, rows) };
    let work = energy_words::of_work(findings).map(|it| format!("{}\n\n", sentence(&it)));
    let (said, work) = (sentence(ENERGIES_ARE), work.unwrap_or_default());
    let meters = meters.collect::<String>();
    format!("## Energy by meters\n\n{rows}{said}\n\n{work}{meters}\n")
}

/// Use by everybody over time; empty where nobody looked.
pub(super) fn over_time(findings: &Findings) -> String {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut said = String::new();
    for (arm, timeline) in watched(findings.arms.iter()) {
        for level in &timeline.levels {
            let row = |row: PayerRow<'_>| {
                let each = ASPECTS.iter().enumerate().map(|(place, aspect)| {
                    let ends = row.mean(place).zip(row.most(place));
                    ends.map_or_else(
                        || GAP.into(),
                        |(mean, most)| {
                            format!("{}, {}", (aspect.shown)(mean), (aspect.shown)(most))
                        },
                    )
                });
                let who = [name(arm), level.level.to_string(), plain(row.payer)];
                who.into_iter().chain(each).collect()
            };
            all.extend(rows(level, timeline).into_iter().map(row));
        }
        said += &format!("- {}: {}\n", name(arm), sentence(&caption(timeline)));
    }
    if all.is_empty() {
        return String::new();
    }
    let columns = ["Stack", "#Level", "Who"].map(String::from);
    let aspects = ASPECTS.iter().map(|it| format!("#{}: mean, most", it.name));
    let columns: Vec<String> = columns.into_iter().chain(aspects).collect();
    format!("## Who used what, over time\n\n{}{said}\n", table(&columns, all))
}

/// Rows of every arm but the second of the baseline.
fn of_each(
    findings: &Findings,
    rows: impl Fn(&ArmFindings) -> Vec<Vec<String>>,
) -> Vec<Vec<String>> {
    level_words::arms(findings).flat_map(rows).collect()
}
