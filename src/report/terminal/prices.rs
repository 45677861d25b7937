//! The price list as text.

use super::{Look, Page, colour, name};
use crate::finding::foreign;
use crate::finding::prices::{Cell as Price, List, Row};
use comfy_table::{Attribute, Cell, CellAlignment, Color};

/// The table, what its marks mean, and why there are gaps.
pub(super) fn prices(page: &mut Page, list: &List<'_>, look: Look) {
    let mut table = super::plain(look);
    let head = |text: &str| Cell::new(text).add_attribute(Attribute::Bold);
    let stacks = list.arms.iter().map(|arm| head(&name(arm)).set_alignment(CellAlignment::Right));
    table.set_header([head("Price")].into_iter().chain(stacks));
    for row in &list.rows {
        table.add_row(cells(row));
    }
    super::add_broken(page, table, look);
    page.paragraph("Prices: ", &list.legend(), 2);
    let trials: Vec<String> = list.arms.iter().map(|arm| arm.trial_count.to_string()).collect();
    page.paragraph("Trials: ", &format!("{}, in the order of the stacks", trials.join(", ")), 2);
    for (what, why) in list.gaps() {
        page.paragraph(&format!("No price of {}: ", foreign::line(&what)), &why, 2);
    }
    page.gap();
}

fn cells(row: &Row<'_>) -> Vec<Cell> {
    let cell = |price: &Price<'_>| {
        let text = match price.overhead() {
            Some(overhead) => format!("{}  {overhead}", price.price()),
            None => price.price(),
        };
        Cell::new(text).set_alignment(CellAlignment::Right).fg(colour_of(price))
    };
    [Cell::new(row.name)].into_iter().chain(row.cells.iter().map(cell)).collect()
}

fn colour_of(price: &Price<'_>) -> Color {
    match price {
        Price::Price(found) => {
            found.judgement.as_ref().map_or(Color::Reset, |judged| colour(&judged.verdict))
        }
        Price::Gap(_) => Color::Reset,
    }
}
