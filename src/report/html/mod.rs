//! The report as one HTML file: what was found, how sure we are, and everything behind it.
//!
//! It works from `file://` without a network and is complete without its script. A content policy
//! names the hashes of our one style and our one script; nothing that a guest printed can run, even
//! if an escape were forgotten. Sections stand in the order in which a careful reader asks.

mod axis;
mod bill;
mod chart;
mod comparison;
mod curves;
mod details;
mod escape;
mod heading;
mod instances;
mod isolation;
mod legend;
mod measured;
mod overhead;
mod policy;
mod prices;
mod progress;
mod spread;
mod table;
mod trials;

use crate::finding::Findings;
use crate::finding::answer::Answer;
pub(in crate::report) use escape::markup;

const STYLE: &str = concat!(
    include_str!("../../../report-ui/page.css"),
    include_str!("../../../report-ui/charts.css"),
    include_str!("../../../report-ui/tables.css"),
    include_str!("../../../report-ui/narrow_and_paper.css"),
);
const SCRIPT: &str = include_str!("../../../report-ui/report.js");

/// Writes the findings as one self-contained HTML file.
#[must_use]
pub fn html(findings: &Findings) -> String {
    let arms = legend::arms(findings);
    let has_numbers = findings.has_numbers();
    let prices = prices::prices(findings, &arms);
    let mut answer = Answer::of(findings);
    if prices.is_some() {
        answer.keep_gaps();
    }
    let (head, chart) = match &prices {
        Some(_) => (heading::titled(findings), None),
        None if !has_numbers => (heading::answered(findings, &answer), None),
        None => {
            (heading::answered(findings, &answer), overhead::overhead(findings, &arms, &answer))
        }
    };
    let first = [
        Some(head),
        chart,
        heading::cautions(&findings.cautions),
        heading::verdicts(&arms, &answer, has_numbers),
        prices,
    ];
    let numbers = has_numbers.then(|| numbers(findings, &arms));
    let rest = [numbers, Some(details::details(&arms)), Some(heading::conditions(findings))];
    let body: String = first.into_iter().chain(rest).flatten().collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} · surtax</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n<script type=\"module\">{SCRIPT}</script>\n</body>\n\
         </html>\n",
        policy::allowing(STYLE, SCRIPT),
        escape::line(&findings.run.title),
    )
}

/// The sections with numbers, in which there are some.
fn numbers(findings: &Findings, arms: &[legend::Arm<'_>]) -> String {
    let sections = [
        Some(comparison::comparison(findings, arms)),
        measured::measured(findings, arms),
        instances::instances(findings, arms),
        isolation::isolation(findings),
        bill::bill(arms),
        curves::curves(findings, arms),
        progress::progress(findings, arms),
        spread::spread(findings, arms),
        trials::trials(findings, arms),
    ];
    sections.into_iter().flatten().collect()
}

#[cfg(test)]
pub(crate) mod tests;
