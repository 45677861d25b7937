//! The key of the answer's chart: each mark that is drawn, with what it means.

use super::super::{chart, escape, legend};
use super::{Line, axis, margin};
use crate::finding::answer::{Answer, Said};
use crate::finding::{Findings, emulation, number};
use chart::{Canvas, Frame};
use maud::{Markup, html};

/// Says what is drawn, in marks and words that are always there.
pub fn key(findings: &Findings, answer: &Answer<'_>, lines: &[Line<'_>], frame: &Frame) -> Markup {
    let (baseline, axis) = (&findings.run.baseline, axis(answer, lines, frame));
    let mut items = vec![(interval_swatch(), String::from("95 % interval"))];
    if answer.floor.is_some() {
        let band = Canvas::swatch(|canvas| {
            canvas.group("noise", |canvas| canvas.rect((1.0, 0.0), (12.0, 14.0), 1.0));
        });
        items.push((band, format!("{baseline} against itself: noise")));
    }
    if lines.iter().any(|line| line.row.ratio.is_some() && line.row.said == Said::Open) {
        items.push((legend::hollow(), String::from("hollow: not decided")));
    }
    if margin(findings, &axis).is_some() {
        let dotted = Canvas::swatch(|canvas| {
            let line = |canvas: &mut Canvas| canvas.line((7.0, 0.0), (7.0, 14.0), 1.5, Some("2 2"));
            canvas.group("margin", line);
        });
        let percent = number::trimmed(findings.run.equivalence_margin * 100.0, 1);
        items.push((dotted, format!("±{percent} %: counts as no cost")));
    }
    let mut text = String::from(
        "Overheads compare runs that were made side by side, so they need not be the ratio of two \
         medians, nor have its sign.",
    );
    if axis.is_log {
        text += " The scale is logarithmic.";
    }
    if answer.metric.is_none() {
        text += " Times are the command's, without the start of its stack.";
    }
    let emulated = findings.arms.iter().filter(|arm| emulation::is_of(arm)).map(|arm| &*arm.name);
    let emulated: Vec<&str> = emulated.collect();
    if !emulated.is_empty() {
        text += &format!(
            " Emulated here, which says nothing of a virtual machine on hardware made for it: {}.",
            emulated.join(", ")
        );
    }
    html! {
        ul.legend.key {
            @for (mark, words) in &items {
                li { span.label { (mark) (escape::line(words)) } }
                "\n"
            }
        }
        (escape::line(&text))
    }
}

/// An interval as the rows have it.
fn interval_swatch() -> Markup {
    Canvas::swatch(|canvas| {
        canvas.line((0.0, 7.0), (14.0, 7.0), 1.5, None);
        for x in [0.0, 14.0] {
            canvas.line((x, 3.0), (x, 11.0), 1.5, None);
        }
    })
}
