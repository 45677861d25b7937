//! The report as one HTML file: what was found, how sure we are, and everything behind it.
//!
//! It works from `file://` without a network and is complete without its script. A content policy
//! names the hashes of our one style and our one script; nothing that a guest printed can run. Tags
//! stand in templates alone, in which a text is a text: only [`Markup`] is markup. Sections stand
//! in the order in which a careful reader asks.

mod apart;
mod axis;
mod bill;
mod chart;
mod comparison;
mod curves;
mod details;
mod energies;
pub(crate) mod escape;
mod heading;
mod instances;
mod isolation;
mod legend;
mod levels;
mod measured;
mod overhead;
mod prices;
mod progress;
mod spread;
mod stacked;
mod table;
mod timeline;
mod trials;
mod why;

use crate::finding::Findings;
use crate::finding::answer::Answer;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = concat!(
    include_str!("../../../report-ui/page.css"),
    include_str!("../../../report-ui/charts.css"),
    include_str!("../../../report-ui/tables.css"),
    include_str!("../../../report-ui/narrow_and_paper.css"),
);
/// First line of a page, by which one is known: see `cli/place.rs`.
const DOCTYPE: &str = "<!doctype html>\n";
const SCRIPT: &str = include_str!("../../../report-ui/report.js");
/// Additions to both of a page that asks its server.
const SERVED_STYLE: &str = include_str!("../../../report-ui/served.css");
const SERVED_SCRIPT: &str = include_str!("../../../report-ui/live.js");

/// Writes the findings as one self-contained HTML file.
#[must_use]
pub fn html(findings: &Findings) -> String {
    document(&findings.run.title, &Markup::default(), &main(findings), Reach::Nothing)
}

/// The same as a page of a server that can say what runs now. `above` comes first.
#[must_use]
pub fn served(findings: &Findings, above: &Markup) -> String {
    document(&findings.run.title, above, &main(findings), Reach::ItsServer)
}

/// Another page of that server.
#[must_use]
pub fn served_page(title: &str, body: &Markup) -> String {
    document(title, &Markup::default(), body, Reach::ItsServer)
}

/// Reach of a page.
#[derive(Clone, Copy)]
enum Reach {
    /// It is complete: nothing is loaded, and nothing is sent.
    Nothing,
    /// It asks the server that it is from, and nobody else.
    ItsServer,
}

/// The body of a report: what answers first, then the numbers.
fn main(findings: &Findings) -> Markup {
    let arms = legend::arms(findings);
    let has_numbers = findings.has_numbers();
    let list = crate::finding::prices::list(findings);
    let mut answer = Answer::of(findings);
    if list.is_some() {
        answer.keep_gaps();
    }
    let prices = list.as_ref().map(|list| prices::prices(findings, list, &arms));
    let (head, chart) = match &list {
        Some(list) => (heading::of_prices(findings, list), None),
        None if !has_numbers => (heading::answered(findings, &answer), None),
        None => {
            (heading::answered(findings, &answer), overhead::overhead(findings, &arms, &answer))
        }
    };
    let first = [
        Some(head),
        chart,
        heading::cautions(&findings.cautions, &arms),
        heading::verdicts(&arms, &answer, has_numbers),
        why::why(findings, &arms),
        prices,
    ];
    let numbers = has_numbers.then(|| numbers(findings, &arms, &answer));
    let rest = [numbers, Some(details::details(&arms)), Some(heading::conditions(findings))];
    joined(first.into_iter().chain(rest).flatten(), "\n")
}

/// A whole document around what stands above its main part, and that.
fn document(title: &str, above: &Markup, main: &Markup, reach: Reach) -> String {
    // A form says where it comes from only with a referrer.
    let (more_style, more_script, referrer) = match reach {
        Reach::Nothing => ("", "", "no-referrer"),
        Reach::ItsServer => (SERVED_STYLE, SERVED_SCRIPT, "same-origin"),
    };
    let (style, script) = ([STYLE, more_style].concat(), [SCRIPT, more_script].concat());
    let document = html! {
        (PreEscaped(DOCTYPE))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style, &script, reach));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content=(referrer);
                title { (escape::line(title)) " · surtax" }
                style { (PreEscaped(&style)) }
            }
            "\n"
            body {
                (above)
                main { (main) }
                script type="module" { (PreEscaped(&script)) }
            }
        }
        "\n"
    };
    document.into_string()
}

/// A content policy under which only the two given texts take effect, and a page asks whom it may.
///
/// Source: W3C Content Security Policy Level 3, section 2.3.1, hash sources.
fn policy(style: &str, script: &str, reach: Reach) -> String {
    let [style, script] = [style, script].map(|it| BASE64_STANDARD.encode(Sha256::digest(it)));
    let (connect, form) = match reach {
        Reach::Nothing => ("", "'none'"),
        Reach::ItsServer => (" connect-src 'self';", "'self'"),
    };
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}';{connect} \
         base-uri 'none'; form-action {form}"
    )
}

/// The sections with numbers, in which there are some.
fn numbers(findings: &Findings, arms: &[legend::Arm<'_>], answer: &Answer<'_>) -> Markup {
    let sections = [
        Some(comparison::comparison(findings, arms, answer)),
        measured::measured(findings, arms),
        instances::instances(findings, arms),
        isolation::isolation(findings),
        apart::apart(findings, arms),
        bill::bill(arms),
        energies::energies(findings, arms),
        levels::levels(arms),
        timeline::timeline(arms),
        curves::curves(findings, arms),
        progress::progress(findings, arms),
        spread::spread(findings, arms),
        trials::trials(findings, arms),
    ];
    joined(sections.into_iter().flatten(), "\n")
}

/// Parts with this between them.
fn joined(parts: impl IntoIterator<Item = Markup>, between: &str) -> Markup {
    html! {
        @for (place, part) in parts.into_iter().enumerate() {
            @if place > 0 { (between) }
            (part)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
