//! Explanations: for each stack a sentence, and the causes of what it takes more.

use super::escape;
use super::legend::Arm;
use super::table::{Cell, Table};
use crate::finding::Findings;
use crate::finding::why::words::{HEADINGS, explained, rows, sentence, source};
use maud::{Markup, html};

/// The section; `None` where nothing is explained.
pub fn why(findings: &Findings, arms: &[Arm<'_>]) -> Option<Markup> {
    explained(findings).next()?;
    let name = |arm: u32| {
        let found = arms.iter().find(|it| it.found.arm == arm);
        found.map_or_else(String::new, |it| it.name.clone())
    };
    Some(html! {
        section #why {
            h2 { "What the time is spent on" }
            @for (arm, why) in explained(findings) {
                @let name = name(arm.arm);
                p data-arm=(arm.arm) {
                    code { (escape::line(&name)) } ": " (escape::prose(&(sentence(why) + ".")))
                }
                details {
                    summary { "The causes in " code { (escape::line(&name)) } }
                    (table(arm.arm, &name, rows(why)))
                    p { (escape::prose(&(source(why, &findings.run.baseline) + "."))) }
                }
            }
        }
    })
}

fn table(arm: u32, name: &str, rows: Vec<[String; 6]>) -> Markup {
    let mut table = Table::new(&format!("Time that {name} takes more, by cause"), &HEADINGS);
    for row in rows {
        let cell = |text: String| if text.is_empty() { Cell::Gap } else { Cell::Text(text) };
        table.row(Some(arm), row.map(cell).into());
    }
    table.finish()
}
